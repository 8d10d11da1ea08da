"""The report of `xoff benchmark`: what the draft asks a report to have, of one fabric, or of several side by side.

It reads `benchmark.json`; what happened in a run is in the report of its result folder, which each test names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

from testbed.lab.results import folder as result_folder
from testbed.lab.results.foreign import ForeignError
from testbed.lab.studies.benchmark import (
    DRAFT,
    NOT_MEASURED,
    TESTS,
    Benchmark,
    OutcomeOfTest,
    Value,
    arrow,
    is_benchmark,
)
from testbed.report.pages import topology
from testbed.report.pages.axes import chart, key, linear
from testbed.report.pages.markup import Html, folded, heading, table, text, verdict
from testbed.units import Duration, Rate, Size

__all__ = ["body", "is_benchmark"]

_WIDTH, _BAR, _LEFT, _TOP = 560, 26, 216, 6
_HOST = (
    ("transport", "RoCEv2, writes, packets of 1024 octets of data"),
    (
        "NICs",
        "take packets in order alone; with spraying they wait 50 us for late ones, where a row says so or ways spray",
    ),
    ("queue pairs", "one for each flow, where a row has no number"),
    ("rate control", "the fabric's; fixed at line rate in 5.1 and 5.2, and in rows that say fixed"),
)
_KPIS = (
    ("JCT ratio", "completion of all iterations over that of the roofline: C + S x 2(n-1)/n / line"),
    ("bus bandwidth", "what a line ideally carries, 2(n-1)/n S of an all-reduce and (n-1)/n S else, over the time"),
    ("MMR", "max-mean ratio of octets over a switch's equal ways, of the switch that fills them least evenly"),
    ("JFI", "Jain's index: in 7 of the flows' rates, in 8 and 9 of the same switch's ways"),
    ("PAUSE frames", "XOFF that all switches sent; the longest pause is of the port that was paused longest"),
    ("marked", "packets that arrived with CE"),
    ("out of order", "packets that came behind a later one"),
)  # fmt: skip


def body(folders: Sequence[Path]) -> str:
    """Return the body of the report of one benchmark, or of several side by side."""
    benchmarks = [Benchmark.read(folder) for folder in folders]
    names = _names(folders)
    alone = len(benchmarks) == 1
    title = f"Benchmark of {benchmarks[0].fabric}" if alone else f"Benchmark of {' and '.join(names)}"
    parts: list[str] = [
        f"<header>{heading(1, title)}",
        f'<p class="note">Tests, KPIs and numbers of sections are those of {DRAFT}. Times and rates are those of the '
        f"hardware. Of a KPI with ↑ more is better, with ↓ less, and others are neither. Values are no verdicts: "
        f"{text(_about(benchmarks))}</p></header><main>",
        heading(2, "Fabric"),
        _facts("Fabric", names, [dict(one.settings) for one in benchmarks]),
    ]
    if alone and (drawing := _drawing(folders[0], benchmarks[0])):
        parts += [heading(2, "Topology"), drawing]
    parts += [heading(2, "Summary"), _summary(benchmarks, names), *_charts(benchmarks, names)]
    for test in TESTS:
        outcomes = [one.outcome(test.name) for one in benchmarks]
        if any(outcomes):
            parts.append(heading(2, f"{test.section} {test.title}"))
            parts.append(_single(outcomes[0]) if alone and outcomes[0] else _beside(outcomes, names))
    parts += [
        heading(2, "Not measured"),
        '<p class="note">What the draft asks for and the lab does not have. What a test lacks is a row of it.</p>',
        table("Not measured", ("section", "what", "reason"), map(astuple, NOT_MEASURED)),
        heading(2, "Anomalies"),
        _anomalies(benchmarks, names),
        heading(2, "Repeatability"),
        _repeatability(benchmarks, names),
        folded("Host configuration", table("Hosts", ("what", "how"), _HOST), "transport, NICs and rate control"),
        folded("What the KPIs are", table("KPIs", ("KPI", "definition"), _KPIS), "definitions"),
        folded("Made with", _facts("Made with", names, [dict(one.made_with) for one in benchmarks]), "versions"),
        folded("Make it again", "".join(f"<pre>{text(one.command)}</pre>" for one in benchmarks), "the command"),
        folded("Runs", _runs(benchmarks, names), "result folders and digests"),
    ]  # fmt: skip
    return "\n".join([*parts, "</main>"])


def _names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder; folders of one name in different places get numbers."""
    names = [folder.resolve().name for folder in folders]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1)]


def _about(found: Sequence[Benchmark]) -> str:
    seeds = max(one.seeds for one in found)
    quick = "the quick form, with small sizes and few rounds" if any(one.quick for one in found) else "the whole form"
    return f"they depend on sizes and on this fabric. This is {quick}, with {seeds} seed{'' if seeds == 1 else 's'}."


def _facts(title: str, names: Sequence[str], facts: Sequence[Mapping[str, str]]) -> Html:
    known = dict.fromkeys(name for one in facts for name in one)
    rows = [[name, *(one.get(name, "-") for one in facts)] for name in known]
    return table(title, ("what", *(names if len(names) > 1 else ("value",))), rows)


def _drawing(folder: Path, found: Benchmark) -> str:
    """Return a drawing of the fabric, as a run with its hosts recorded it."""
    for outcome in found.outcomes:
        if outcome.test == "ecn":
            continue  # it has a switch of its own
        for name in outcome.folders[:1]:
            try:
                networks = result_folder.read(folder / name).networks
            except ForeignError:
                continue
            if networks:
                return topology.drawing(networks[0], "fabric")
    return ""


_HEADLINES = (
    ("5.3", "burst", "octets until a pause", ""),
    ("5.3", "burst", "octets until a loss", ""),
    ("7.2", "incast", "throughput", "fixed"),
    ("7.3", "dcqcn", "JFI of 0.95 after", ""),
    ("8.4", "all-to-all", "JFI", ""),
    ("9.1", "all-reduce", "bus bandwidth", ""),
    ("9.2", "all-to-all", "completion", ""),
    ("9.3", "all-gather", "bus bandwidth", ""),
    ("10.1", "jct", "JCT ratio", ""),
    ("10.2", "training", "JCT ratio", ""),
    ("10.3", "tenants", "interference factor", ""),
    ("11.1", "scale", "JCT ratio", ""),
    ("11.2", "failure", "overhead factor", ""),
    ("12.1", "soak", "deviation", ""),
)
"""The KPIs of the summary: section, test, column, and a word that rows have."""


def _summary(found: Sequence[Benchmark], names: Sequence[str]) -> Html:
    rows = []
    for section, test, column, word in _HEADLINES:
        values = _of(found, test, column, word)
        shown = iter(_alike([one for row in values.values() for one in row]))
        for row, of_row in values.items():
            cells = [next(shown) for _ in of_row]
            if any(of_row):
                rows.append([f"{section} {column}{arrow(column)}", row, *cells])
    return table("Summary", ("KPI", "of", *(names if len(names) > 1 else ("measured",))), rows, "Nothing was measured.")


def _single(outcome: OutcomeOfTest) -> str:
    """Return the table of a test, as the draft has it: a row for each point, a column for each KPI."""
    columns = dict.fromkeys(name for row in outcome.rows.values() for name in row)
    groups: dict[tuple[str, ...], list[str]] = {}
    for row, values in outcome.rows.items():
        groups.setdefault(tuple(name for name in columns if name in values), []).append(row)
    return "".join(_table(outcome, shown, rows) for shown, rows in groups.items())


def _table(outcome: OutcomeOfTest, shown: Sequence[str], rows: Sequence[str]) -> Html:
    """Return a table of rows that have the same columns, each of which has one unit."""
    columns = [_column([outcome.rows[row][name] for row in rows]) for name in shown]
    head = [
        f"{name} ({unit}){arrow(name)}" if unit else f"{name}{arrow(name)}"
        for name, (unit, _) in zip(shown, columns, strict=True)
    ]
    cells = ([row, *(values[place] for _, values in columns)] for place, row in enumerate(rows))
    return Html(f'<div class="kpis">{table(outcome.test, ("", *head), cells)}</div>')


def _column(values: Sequence[Value]) -> tuple[str, Sequence[object]]:
    """Return the unit for all values of a column, and the values in it with four digits; texts stay as they are."""
    numbers = [one for one in values if _is_number(one)]
    units = {one.unit for one in numbers}
    if len(units) != 1:
        return "", list(map(str, values))
    (unit,) = units
    kind = next((kind for kind in (Duration, Rate, Size) if kind.reported == unit), None)
    factor = 1.0
    if kind is not None:
        found = sorted(abs(one.value) for one in numbers if one.value)
        typical = found[len(found) // 2] if found else 0
        factors = {name: float(kind.units[name] / kind.units[unit]) for name in kind.printed}
        unit = max((name for name in factors if factors[name] <= typical), key=factors.__getitem__, default=unit)
        factor = factors[unit]
    return unit, [_digits(one.value / factor) if _is_number(one) else str(one) for one in values]


def _is_number(value: Value) -> bool:
    return isinstance(value.value, int | float) and not isinstance(value.value, bool)


def _digits(value: float) -> float:
    near = float(f"{value:.4g}")
    return int(near) if near.is_integer() else near


def _beside(outcomes: Sequence[OutcomeOfTest | None], names: Sequence[str]) -> Html:
    """Return the table of a test of several fabrics: a row for each KPI of each point."""
    rows = []
    for row in dict.fromkeys(row for one in outcomes if one for row in one.rows):
        for column in dict.fromkeys(name for one in outcomes if one for name in one.rows.get(row, {})):
            values = [one.rows.get(row, {}).get(column) if one else None for one in outcomes]
            rows.append(
                [row, f"{column}{arrow(column)}", *_alike(values)]
                + ([_change(column, *values)] if len(values) == 2 else [])
            )
    return table("Side by side", ("", "KPI", *names, *(["change"] if len(names) == 2 else [])), rows)  # fmt: skip


def _alike(values: Sequence[Value | None]) -> list[str]:
    """Return values as text, all in one unit; those that are not there are a dash."""
    unit, found = _column([one for one in values if one is not None])
    texts = iter(found)
    joined = f" {unit}" if unit else ""
    return ["-" if one is None else f"{next(texts)}{joined if _is_number(one) else ''}" for one in values]


def _change(column: str, first: Value | None, second: Value | None) -> str:
    """Return how much the second number is more than the first, in percent, and if that is better."""
    if first is None or second is None or str(first) == str(second):
        return ""
    if not all(isinstance(one.value, int | float) for one in (first, second)) or not first.value:
        return "differs"
    change = f"{100 * (second.value / first.value - 1):+.1f} %"
    if not (better := arrow(column)) or second.value == first.value:
        return change
    is_better = (second.value > first.value) == (better == " ↑")
    return Html(f'<span class="{"good" if is_better else "bad"}">{change}, {"better" if is_better else "worse"}</span>')


def _charts(found: Sequence[Benchmark], names: Sequence[str]) -> list[str]:
    """Return the draft's bar chart of load balancing, and bars of incast throughput and of bus bandwidth."""
    wanted = (
        ("all-to-all", "JFI", "Jain's index of the links by strategy, all-to-all (8.4)", ""),
        ("all-reduce", "bus bandwidth", "Bus bandwidth of all-reduce (9.1)", ""),
        ("incast", "of the line", "Part of the line that an incast fills, fixed rate (7.2)", "fixed"),
    )
    pictures = [
        _bars(title, _of(found, test, column, word), names) for test, column, title, word in wanted
    ]  # fmt: skip
    pictures = [one for one in pictures if one]
    return [heading(2, "Charts"), f'<div class="pair">{"".join(pictures)}</div>'] if pictures else []


def _of(found: Sequence[Benchmark], test: str, column: str, word: str) -> dict[str, list[Value | None]]:
    outcomes = [one.outcome(test) for one in found]
    rows = dict.fromkeys(row for one in outcomes if one for row in one.rows if word in row)
    return {row: [one.rows.get(row, {}).get(column) if one else None for one in outcomes] for row in rows}


def _bars(title: str, values: Mapping[str, Sequence[Value | None]], names: Sequence[str]) -> str:
    numbers = [one for row in values.values() for one in row if one and isinstance(one.value, int | float)]
    if not numbers:
        return ""
    unit, most = numbers[0].unit, max(float(one.value) for one in numbers) or 1.0
    shown = dict(zip(values, _alike([row[0] for row in values.values()]), strict=True))
    many = len(names)
    wide, tall = (_BAR - 8) / many, _BAR * len(values)
    axis = linear(0, most, unit if unit != "%" else "", 4)
    span = _WIDTH - _LEFT - 96
    out = [f'<path class="grid" d="M{_LEFT + span * tick / most:.1f} {_TOP}v{tall}"/>' for tick in axis.values]
    for place, (row, found) in enumerate(values.items()):
        y = _TOP + place * _BAR
        out.append(f'<text x="{_LEFT - 8}" y="{y + _BAR / 2 + 4:.0f}" text-anchor="end">{text(row, 36)}</text>')
        for number, one in enumerate(found):
            if one is None or not isinstance(one.value, int | float):
                continue
            length = span * float(one.value) / most
            at = y + 4 + number * wide
            out.append(
                f"<g><title>{text(f'{names[number]}, {row}: {one}')}</title>"
                f'<rect class="s{number % 6 + 1}" x="{_LEFT}" y="{at:.1f}" width="{length:.1f}" '
                f'height="{wide:.1f}"/></g>'
            )
            if many == 1:
                out.append(
                    f'<text x="{_LEFT + length + 5:.1f}" y="{y + _BAR / 2 + 4:.0f}">{text(shown[row], 24)}</text>'
                )
    for tick, words in zip(axis.values, axis.texts, strict=True):
        label = text(f"{words} {axis.unit if unit != '%' else '%'}".strip(), 20)
        x = _LEFT + span * tick / most
        out.append(f'<text x="{x:.1f}" y="{tall + _TOP + 16}" text-anchor="middle">{label}</text>')
    keys = [key(f"s{number % 6 + 1}", name) for number, name in enumerate(names) if many > 1]
    return chart(title, out, keys, (_WIDTH, tall + _TOP + 22))


def _anomalies(found: Sequence[Benchmark], names: Sequence[str]) -> str:
    claims = sum(outcome.claims for one in found for outcome in one.outcomes)
    rows = [
        [name, outcome.test, failed.seed, failed.what]
        for one, name in zip(found, names, strict=True)
        for outcome in one.outcomes
        for failed in outcome.failed
    ]
    if rows:
        return table("Anomalies", ("benchmark", "test", "seed", "what did not hold"), rows)
    held = f"none: all {claims} claims hold, that nothing is dropped and every octet arrives as it was sent"
    return f"<p>{verdict(True, held, '')}</p>"


def _repeatability(found: Sequence[Benchmark], names: Sequence[str]) -> str:
    same = '<p class="note">The same inputs give the same digest on each machine. What varies is the seed.</p>'
    if all(one.seeds == 1 for one in found):
        return same + '<p class="note">One seed was run; with --seeds 5 this table has coefficients of variation.</p>'
    rows = []
    for test in TESTS:
        outcomes = [one.outcome(test.name) for one in found]
        shown = ["-" if one is None or one.variation is None else f"{100 * one.variation:.2f} %" for one in outcomes]
        if any(outcomes):
            rows.append([f"{test.section} {test.title}", test.main, *shown])
    head = ("test", "value", *(names if len(names) > 1 else ("largest coefficient of variation",)))
    return same + table("Repeatability", head, rows)


def _runs(found: Sequence[Benchmark], names: Sequence[str]) -> Html:
    rows = [
        [name, outcome.test, folder, digest]
        for one, name in zip(found, names, strict=True)
        for outcome in one.outcomes
        for folder, digest in zip(outcome.folders, outcome.digests, strict=True)
    ]
    return table("Runs", ("benchmark", "test", "folder", "digest"), rows, most=2000)
