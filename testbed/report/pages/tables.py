"""The tables of a report: claims, figures, pauses, drops, buffers, events, fidelity, provenance."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.lab.results.folder import Folder, Network
from testbed.lab.results.published import Published
from testbed.lab.results.result import Status, expectation
from testbed.report.pages.markup import Html, folded, heading, table, text, verdict
from testbed.report.timeline.derived import Ratio, ratios
from testbed.report.timeline.tracks import ASSERTED, PAUSED, STORM, TUNNEL, Tracks, natural
from testbed.units import Duration, written

_MOST_FIGURES = 12
"""The most figures in a table that is not folded: the pictures are below it."""
_BAR = 120
INTERVALS = {
    PAUSED: "paused by PFC",
    ASSERTED: "sending XOFF",
    STORM: "in a PFC storm",
    TUNNEL: "sending XOFF into a tunnel",
}


def outcome(folder: Folder) -> Html:
    result = folder.result
    held = folder.claims
    good, many = sum(claim.passed for claim in held), f"{len(held)} claim{'' if len(held) == 1 else 's'}"
    if result["status"] == Status.OK and not result["passed"]:
        return verdict(False, "", f"failed: {len(held) - good} of {many}")
    ended = verdict(result["passed"], "passed", f"not at its end: {result['status']}")
    return Html(f"{ended}, {good} of {many} hold")


def command(folder: Folder) -> str:
    """Return the command that makes the result again, and the digests of the user's files in it."""
    result = folder.result
    match result.get("again"):
        case {"command": [*words], "files": dict(files)}:
            # As Python writes them, or the end of a line in a name would end the comment.
            lines = [f"# {name!r}: SHA-256 {str(digest)!r}" for name, digest in files.items()]
            return "\n".join([shlex.join(["./xoff", *map(str, words)]), *lines])
    words = ["./xoff", "run", result["experiment"]]
    for name, value in result["parameters"].items():
        words += ["--set", f"{name}={value}"]
    words += ["--seed", str(result["seed"])]
    if engine := result["provenance"].get("engine"):
        words += ["--engine", str(engine)]
    return shlex.join(words)


def facts(folder: Folder) -> Html:
    """Return the line of facts about a single result."""
    result = folder.result
    parameters = ", ".join(f"{name}={value}" for name, value in result["parameters"].items())
    words = [
        f"fidelity {result['fidelity'].get('verdict', 'unknown')}",
        parameters,
        f"seed {result['seed']}",
        f"engine {result['provenance'].get('engine') or 'unknown'}",
        f"result {folder.name}, digest {result['digest'][:16]}",
    ]
    return Html(f'<p>{outcome(folder)}; <span class="note">{"; ".join(text(one) for one in words if one)}</span></p>')


def summary(folders: list[Folder]) -> Html:
    """Return the table with one row for each result."""
    rows = []
    for folder in folders:
        result = folder.result
        virtual = Duration.from_ns(folder.end_ns)
        parameters = ", ".join(f"{name}={value}" for name, value in result["parameters"].items())
        fidelity = result["fidelity"].get("verdict", "unknown")
        digest = Html(f"<code>{text(result['digest'][:16])}</code>")
        rows.append([folder.name, outcome(folder), fidelity, str(virtual), result["seed"], parameters or "-", digest])
    head = ("result", "outcome", "fidelity", "lab time", "seed", "parameters", "digest")
    return table("Summary", head, rows)


def comparison(folders: list[Folder]) -> Html:
    """Return the table of the claims and figures of several results."""
    rows: dict[str, list[object]] = {}
    for number, folder in enumerate(folders):
        values: dict[str, object] = {figure.name: written(figure.value, figure.unit) for figure in folder.figures}
        values |= {
            c.name: verdict(c.passed, written(c.measured, c.unit), written(c.measured, c.unit)) for c in folder.claims
        }
        for name, value in values.items():
            rows.setdefault(name, ["-"] * len(folders))[number] = value
    head = ["measured", *(folder.name for folder in folders)]
    kept = {name: [one for one in row if one != "-"] for name, row in rows.items()}
    first = [name for name, row in kept.items() if len(row) > 1 and len(set(row)) > 1] or list(rows)
    shown, rest = first[:_MOST_FIGURES], [name for name in rows if name not in first[:_MOST_FIGURES]]
    out = table("Side by side", head, ([name, *rows[name]] for name in shown))
    if rest:
        more = table("Side by side, further rows", head, ([name, *rows[name]] for name in rest), most=1000)
        out = Html(out + folded(f"{len(rest)} more values", more, "the same in all results, or of some alone"))
    return Html(heading(2, "Side by side") + out)


def claims_table(folder: Folder) -> Html:
    rows = [
        [claim.name, verdict(claim.passed, "holds", "fails"), written(claim.measured, claim.unit), expectation(claim)]
        for claim in folder.claims
    ]
    return table("Claims", ("claim", "", "measured", "expected"), rows, "The experiment claims nothing.", most=1000)


def published_table(values: list[Published]) -> Html:
    """Return the table of what others have published, beside what was measured."""
    rows = [[one.name, *one.texts, one.source, one.differs or "-"] for one in values]
    return table("Published", ("value", "published", "measured", "claim", "source", "what differs"), rows, most=1000)


def figures_table(folder: Folder) -> Html:
    claimed = {claim.name for claim in folder.claims}
    rows = [
        [figure.name, written(figure.value, figure.unit)] for figure in folder.figures if figure.name not in claimed
    ]
    found = table("Figures", ("figure", "value"), rows, most=1000)
    return found if len(rows) <= _MOST_FIGURES else folded(f"{len(rows)} figures", found)


def most_paused(folder: Folder, rows: list[Ratio]) -> str:
    """Return the words about the link that was paused most."""
    if not rows:
        return "no port was paused"
    case = f" ({rows[0].network.title})" if rows[0].network is not None and len(folder.networks) > 1 else ""
    return f"most: {rows[0].port}, {_percent(rows[0].part)} of the network's time{case}"


def pause_totals(folder: Folder, found: Tracks, paused: list[Ratio]) -> Html:
    """Return the part of its network's time in which each link was paused, the largest first, and other intervals."""
    head = ("waits", "for", "priority", "network", "ratio", "", "pauses", "in all", "longest")
    rows = [
        [one.port, one.far_end or "-", one.priority, one.network.title if one.network is not None else "the run",
         _percent(one.part), _bar(one.part), one.intervals,
         _about(folder, one.paused_ns), _about(folder, one.longest_ns)]
        for one in paused
    ]  # fmt: skip
    out = table("Pause ratio of each link", head, rows, "No port was paused.")
    others = list(_other_rows(folder, found))
    columns = ("network", "port", "", "intervals", "in all", "longest", "share of the network's time")
    return Html(out + (folded(f"{len(others)} rows of the ports that send XOFF", table("XOFF", columns, others))
                       if others else ""))  # fmt: skip


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _about(folder: Folder, lab_ns: int) -> str:
    """Return a time with four digits."""
    exact = folder.units.nearest_real(Duration.from_ns(max(0, lab_ns)))
    if exact.ps < 10_000:
        return str(exact)
    return str(Duration.from_ps(int(float(f"{exact.ps:.4g}"))))


def _bar(part: float) -> Html:
    width = round(min(1.0, part) * _BAR, 1)
    return Html(
        f'<svg class="bar" width="{_BAR}" height="10" viewBox="0 0 {_BAR} 10" aria-hidden="true">'
        f'<rect class="bar-whole" width="{_BAR}" height="10"/>'
        f'<rect class="k-paused" width="{width}" height="10"/></svg>'
    )


def _other_rows(folder: Folder, found: Tracks) -> Iterator[list[object]]:
    for panel in (ASSERTED, STORM, TUNNEL):
        for one in ratios(folder, found, panel):
            title = one.network.title if one.network is not None else "the run"
            state = f"priority {one.priority} {INTERVALS[panel]}"
            times = (_about(folder, ns) for ns in (one.paused_ns, one.longest_ns))
            yield [title, one.port, state, one.intervals, *times, _percent(one.part)]


def drops_table(found: Tracks) -> Html:
    rows: list[list[object]] = [[reason, frames] for reason, frames in sorted(found.dropped.items())]
    return table("Drops", ("reason", "frames dropped"), rows, "No buffer dropped a frame.")


def counters_table(title: str, ports: Mapping[str, Mapping[str, int]]) -> Html:
    """Return the counters of some ports, with a row for each that any of them has counted."""
    names = sorted({name for counted in ports.values() for name, value in counted.items() if value})
    rows = ([name, *(counted.get(name, 0) for counted in ports.values())] for name in names)
    return table(title, ["counter", *ports], rows, "They have counted nothing.")


def buffers_table(network: Network) -> Html:
    """Return the table of thresholds and headroom at the start of each network."""
    rows: list[list[object]] = []
    for port in sorted(network.ports, key=natural):
        groups = network.ports[port].get("groups")
        for priority, group in groups.items() if isinstance(groups, dict) else ():
            if not isinstance(group, dict):
                continue
            xoff = f"alpha {group['alpha']}" if "alpha" in group else group.get("xoff_cells", "-")
            numbers = [group.get(f"{key}_cells", "-") for key in ("xon_offset", "guaranteed", "headroom")]
            rows.append([port, f"priority {priority}", xoff, *numbers])
    pools = [
        [
            node,
            *(
                buffer.get(key, "-")
                for key in ("total_cells", "cell_bytes", "shared_cells", "guaranteed_cells", "headroom_cells")
            ),
        ]
        for node, buffer in sorted(network.buffers.items(), key=lambda item: natural(item[0]))
    ]
    thresholds = table(
        "Thresholds", ("ingress port", "", "XOFF, cells", "XON below by", "guaranteed", "headroom"), rows
    )
    return Html(
        table("Buffers", ("buffer of", "cells", "octets a cell", "shared", "guaranteed", "headroom"), pools)
        + thresholds
    )


def facts_table(folder: Folder, found: Tracks) -> Html:
    """Return the table of measured headroom, tunnels and SR items, as agents logged them."""
    rows = [
        [
            folder.span(event.t_ns),
            event.name.replace("_", " "),
            event.port or "-",
            _detail(folder, event.fields),
        ]
        for event in found.facts
    ]
    return table("Headroom and tunnels", ("at", "event", "port", ""), rows, most=500)


def _detail(folder: Folder, fields: dict[str, Any]) -> str:
    words = []
    for name, value in fields.items():
        if name.endswith("_ns") and type(value) is int and value >= 0:
            words.append(f"{name.removesuffix('_ns').replace('_', ' ')} {folder.span(value)}")
        else:
            words.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(words)


def events_table(found: Tracks) -> Html:
    rows: list[list[object]] = [[name, count] for name, count in sorted(found.events.items())]
    return table("Events", ("event", "number"), rows, "The run has no event log.")


def fidelity(folder: Folder) -> Html:
    found = folder.result["fidelity"]
    rows: list[list[object]] = [["verdict", str(found.get("verdict"))]]
    reasons = found.get("reasons")
    rows += [["because", str(reason)] for reason in (reasons if isinstance(reasons, list) else [])]
    rows.append(["windows of 100 ms", found.get("windows", "-")])
    for key, name, unit in (
        ("idle_percent", "least idle CPU in a window", "%"),
        ("timer_late_ns", "latest timer", "ns"),
        ("agent_late_ns", "latest agent", "ns"),
    ):
        allowed = found.get("thresholds")
        limit = allowed.get(key) if isinstance(allowed, dict) else None
        rows.append([name, f"{written(found.get(key), unit)} (limit {written(limit, unit)})"])
    return table("Fidelity", ("", "fidelity"), rows)


def provenance(folder: Folder) -> Html:
    result = folder.result
    rows: list[list[object]] = [
        [name.replace("_", " "), Html(f"<code>{text(value)}</code>")]
        for name, value in result["provenance"].items()
        if value not in ("", {}, None)
    ]
    times = result["times"]
    rows.append(["digest of the result", Html(f"<code>{text(result['digest'])}</code>")])
    rows.append(["wall time", f"{times.get('wall_s')} s"])
    if times.get("cpu_s") is not None:
        rows.append(["CPU time", f"{times['cpu_s']} s"])
    files = [[name, Html(f"<code>{text(digest)}</code>")] for name, digest in result["files"].items()]
    return Html(
        table("Provenance", ("", "made with"), rows)
        + folded("Files and their SHA-256", table("Files", ("file", "SHA-256"), files, "The run left no files."))
    )
