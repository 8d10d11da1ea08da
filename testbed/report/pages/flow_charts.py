"""The flows of a result in pictures: completion times as cumulative distributions, slowdown by size, and CNPs by flow.

`flows.jsonl` has every flow that has ended. The pictures are SVG and take no script. A distribution has a line for each
case of the experiment. Slowdown is a flow's completion time divided by the one that it has with the network to itself;
a dot is a flow, and where there are many, lines are the median and the 99th percentile of groups of equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import listed
from testbed.lab.results.folder import Folder
from testbed.lab.results.tables import Row, flows
from testbed.report.pages.axes import Axis, chart, grid, key, linear, logarithmic, short
from testbed.report.pages.markup import Html, heading, table, text
from testbed.report.timeline.tracks import natural
from testbed.workload.statistics import percentile

FEW = 8
"""The number of flows with an end from which on their distribution is on the first screen."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 300, 62, 12, 12, 44
_MOST_CASES, _MOST_DOTS, _MOST_STEPS = 6, 1500, 500
_GROUP, _MOST_GROUPS = 8, 10
_BAR, _FLOWS_OF_WAY, _MOST_WAYS = 120, 6, 64


@dataclass(frozen=True)
class FlowCharts:
    """The panels of a report about flows."""

    pictures: Html
    """Both pictures, or an empty text if no flow has an end."""
    numbers: Html
    many: int
    """The number of flows with a completion time."""
    cnps: int


def flow_charts(folder: Folder) -> FlowCharts:
    """Return the pictures and the table of a result's flows."""
    rows = flows(folder)
    cases: dict[str, list[Row]] = {}
    for row in rows:
        if row["completion_ns"]:
            cases.setdefault(row["network"], []).append(row)
    shown = dict(list(cases.items())[:_MOST_CASES])
    pictures = ""
    if shown:
        times = {case: [row["completion_ns"] for row in found] for case, found in shown.items()}
        slow = {
            case: [(row["size_bytes"], row["slowdown"]) for row in found if row["slowdown"] and row["size_bytes"]]
            for case, found in shown.items()
        }
        pictures = _completion(times) + (_slowdown(slow) if any(slow.values()) else "")
        pictures = f'<div class="pair">{pictures}</div>'
    return FlowCharts(
        Html(pictures), _table(rows), sum(map(len, cases.values())), sum(row["cnps"] or 0 for row in rows)
    )


def flow_ways(folder: Folder, level: int) -> list[str]:
    """Return the table of the ways that flows took through switches with equal ways: the most loaded way first."""
    flows_of_way: dict[tuple[str, str], list[Row]] = {}
    for row in flows(folder):
        for way in (row["ways"] or row["spread"]).split("; "):
            if way:
                flows_of_way.setdefault((row["network"], way), []).append(row)
    if not flows_of_way:
        return []
    most = max(map(len, flows_of_way.values()))
    networks = list(dict.fromkeys(network for network, _ in flows_of_way))
    ranked = sorted(flows_of_way.items(), key=lambda one: (networks.index(one[0][0]), -len(one[1]), natural(one[0][1])))
    cells = [
        [way if " to " in way else way.replace(" ", " - "), network or "-", len(rows), _bar(len(rows) / most),
         listed([f"{row['source']} to {row['target']}" for row in rows], _FLOWS_OF_WAY)]
        for (network, way), rows in ranked
    ]  # fmt: skip
    about = "where a switch spreads frames without regard to flows, percentages are of all frames that it spread"
    head = ("nodes", "network", "flows", "", "which")
    made = table("Ways of flows", head, cells, most=_MOST_WAYS)
    return [
        '<section aria-label="Ways of flows">', heading(level, "Ways of flows"), f'<p class="note">{text(about)}</p>',
        made, "</section>",
    ]  # fmt: skip


def _bar(part: float) -> Html:
    width = f'width="{_BAR * part:.1f}" height="10"'
    return Html(f'<svg viewBox="0 0 {_BAR} 10" width="{_BAR}" aria-hidden="true"><rect class="s1" {width}/></svg>')


def distribution(values: Sequence[float], most: int = _MOST_STEPS) -> list[tuple[float, float]]:
    """Return the points of a cumulative distribution: each value, and the part of all that does not exceed it.

    Of more values than `most` it has the same number of quantiles, and the last value.
    """
    ordered = sorted(values)
    many = len(ordered)
    places = range(many) if many <= most else sorted({*(many * n // most for n in range(most)), many - 1})
    points: list[tuple[float, float]] = []
    for place in places:
        if points and points[-1][0] == ordered[place]:
            points.pop()
        points.append((ordered[place], (place + 1) / many))
    return points


def grouped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Return groups of flows of like size: the middle of the sizes, the median and the 99th percentile of slowdown."""
    ordered = sorted(points)
    count = min(_MOST_GROUPS, len(ordered) // _GROUP)
    out = []
    for number in range(count):
        part = ordered[len(ordered) * number // count : len(ordered) * (number + 1) // count]
        slow = [one for _, one in part]
        middle = math.sqrt(part[0][0] * part[-1][0])
        out.append((middle, percentile(slow, 50), percentile(slow, 99)))
    return out if count > 1 else []


def _completion(times: dict[str, list[float]]) -> str:
    low, high = _span(value for values in times.values() for value in values)
    across, up = logarithmic(low, high, "ns"), linear(0, 1, "", 5)
    place = _Place(low, high, 0.0, 1.0)
    out = _axes(place, across, up, "completion time")
    for number, values in enumerate(times.values(), 1):
        y = place.y(0)
        path = ""
        for value, part in distribution(values):
            path += f"{'L' if path else 'M'}{place.x(value):.1f} {y:.1f}"
            y = place.y(part)
            path += f"V{y:.1f}"
        out.append(f'<path class="c{number}" d="{path}H{_WIDTH - _RIGHT}"/>')
    keys = [f"{case}: {len(values)} flows, median {_median(values)}" for case, values in times.items()]
    label = "Completion times of flows, as cumulative distributions"
    return _chart("Completion time of flows", "part of all flows that took no longer", label, keys, out)


def _median(values: list[float]) -> str:
    return f"{short(percentile(values, 50), 'ns')}, 99th percentile {short(percentile(values, 99), 'ns')}"


def _slowdown(cases: dict[str, list[tuple[float, float]]]) -> str:
    low, high = _span(size for points in cases.values() for size, _ in points)
    top = max((slow for points in cases.values() for _, slow in points), default=1.0)
    least = min(1.0, *(slow for points in cases.values() for _, slow in points))
    up_high = max(2.0, top * 1.1)
    place = _Place(low, high, least, up_high, is_log=True)
    across, up = logarithmic(low, high, "B"), logarithmic(least, up_high, "")
    out = _axes(place, across, up, "size")
    for number, points in enumerate(cases.values(), 1):
        step = max(1, len(points) * len(cases) // _MOST_DOTS)
        dots = "".join(f"M{place.x(size):.1f} {place.y(slow):.1f}h0" for size, slow in points[::step])
        out.append(f'<path class="dots c{number}" d="{dots}"/>')
        for column, kind in ((1, ""), (2, " far")):
            line = "L".join(f"{place.x(one[0]):.1f} {place.y(one[column]):.1f}" for one in grouped(points))
            if line:
                out.append(f'<path class="c{number}{kind}" d="M{line}"/>')
    about = "times the completion time without other traffic; lines: median, and dashed the 99th percentile"
    return _chart("Slowdown by size", about, "Slowdown of flows by their size", cases, out)


@dataclass(frozen=True)
class _Place:
    """The places of values in a drawing; the axis across is logarithmic, and so is the one up with `is_log`."""

    low: float
    high: float
    bottom: float
    top: float
    is_log: bool = False

    def x(self, value: float) -> float:
        part = math.log(value / self.low) / (math.log(self.high / self.low) or 1.0)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * part

    def y(self, value: float) -> float:
        part = (value - self.bottom) / ((self.top - self.bottom) or 1.0)
        if self.is_log:
            part = math.log(value / self.bottom) / (math.log(self.top / self.bottom) or 1.0)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * part


def _span(values: object) -> tuple[float, float]:
    found = [float(one) for one in values]  # type: ignore[attr-defined]
    low, high = min(found), max(found)
    return (low, high) if high > low * 1.05 else (low * 0.5, low * 2)


def _axes(place: _Place, across: Axis, up: Axis, words: str) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    out = grid(up, up.texts, place.y, _LEFT, _WIDTH - _RIGHT)
    free = -math.inf
    for value, label in zip(across.values, across.texts, strict=True):
        x = place.x(value)
        out.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        half = len(label) * 3.4
        if x - half > free:
            free = x + half + 6
            out.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{text(label, 24)}</text>')
    out.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{text(words)}</text>')
    return out


def _chart(title: str, about: str, label: str, cases: Iterable[str], parts: list[str]) -> str:
    keys = [key(f"s{number}", case, 120) for number, case in enumerate(cases, 1)]
    return chart(title, parts, keys, (_WIDTH, _HEIGHT), about=about, label=label)


def _table(rows: list[Row]) -> Html:
    head = (
        "flow", "network", "by", "rate control", "data", "completion", "slowdown", "goodput", "lost", "late", "CE",
        "CNPs", "way",
    )  # fmt: skip
    cells = [
        [f"{row['source']} to {row['target']}, priority {row['priority']}", row["network"] or "-", row["transport"],
         row["rate_control"] or "-", short(row["size_bytes"] or 0, "B") if row["size_bytes"] else "-",
         short(row["completion_ns"], "ns") if row["completion_ns"] else "-",
         f"{row['slowdown']:.3g}" if row["slowdown"] else "-", short(row["goodput_bps"], "b/s"),
         _known(row["lost"]), _late(row), _known(row["marked"]), _known(row["cnps"]),
         row["ways"] or row["spread"] or "-"]
        for row in rows
    ]  # fmt: skip
    return table("Flows", head, cells, "The result has no log of flows.", most=1000)


def _late(row: Row) -> object:
    """Return how many packets came after one that was sent later, and by how many at most."""
    many = row["reordered"]
    return f"{many}, by {row['reordering_extent']} at most" if many else _known(many)


def _known(value: object) -> object:
    return "-" if value is None else value
