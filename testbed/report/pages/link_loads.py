"""The mean load of each link of a fabric as a matrix for each pair of tiers: a picture that is read in a second.

A row is a node of the lower tier, a column one of the upper tier, and their cell the link between them; several cables
between two nodes share a cell. A report has it as a table for each direction, and `xoff plot links` as a figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from testbed.lab.results.folder import Folder, Network
from testbed.report.pages.layers import layers_of
from testbed.report.pages.markup import Html, heading, text
from testbed.report.timeline.series import LOAD
from testbed.report.timeline.tracks import Track, Tracks, natural

FABRIC, HOSTS, ALL = "fabric", "hosts", "all"
FEWEST_LINKS = 4
"""The fewest links between switches of which a report has the tables; a drawing shows fewer as well."""
MOST_NODES = 64
"""The most nodes along a side of a matrix."""
_LEVELS = (25, 50, 75)
_IDLE = 0.5
"""The load in percent below which a link counts as idle."""
_LONGEST_NAME = 12


@dataclass
class Matrix:
    """The links between two tiers."""

    rows: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    up: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """The loads in percent of the cables from a node of the lower tier, which is first, to one of the upper tier."""
    down: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def cells(self, is_up: bool) -> list[list[float]]:
        """Return the mean load of each cell; NaN where there is no link."""
        loads = self.up if is_up else self.down
        return [[_mean(loads.get((row, column), ())) for column in self.columns] for row in self.rows]


def matrices(
    network: Network, load: Callable[[str], float], of: str = FABRIC, has: Callable[[str], bool] = lambda port: True
) -> list[Matrix]:
    """Return a matrix for each pair of tiers that have links between them, from the hosts up.

    `load` has the mean load of a port in b/s of the hardware, `has` the ports of which one has to be at a link.
    """
    layer = layers_of(network)
    by_tiers: dict[tuple[int, int], Matrix] = {}
    for cable in network.cables:
        nodes, ports = cable["nodes"], cable["ends"]
        rate = cable.get("hardware_rate_bps")
        if not all(node in layer for node in nodes) or not isinstance(rate, (int, float)) or rate <= 0:
            continue
        if not any(map(has, ports)):
            continue
        lower = 0 if (layer[nodes[0]], natural(nodes[0])) <= (layer[nodes[1]], natural(nodes[1])) else 1
        of_hosts = not layer[nodes[lower]]
        if of != ALL and of_hosts is not (of == HOSTS):
            continue
        matrix = by_tiers.setdefault((layer[nodes[lower]], layer[nodes[1 - lower]]), Matrix())
        cell = _cell(network, nodes[lower], nodes[1 - lower]) if of_hosts else (nodes[lower], nodes[1 - lower])
        for port, loads_of in ((ports[lower], matrix.up), (ports[1 - lower], matrix.down)):
            loads_of.setdefault(cell, []).append(100 * load(port) / rate)
    for matrix in by_tiers.values():
        matrix.rows = sorted({row for row, _ in matrix.up}, key=natural)
        matrix.columns = sorted({column for _, column in matrix.up}, key=natural)
    return [by_tiers[tiers] for tiers in sorted(by_tiers)]


def _cell(network: Network, host: str, switch: str) -> tuple[str, str]:
    """Return the row and the column of a host's link: its switch, and its place there, as hosts would be too many."""
    there = [node for cable in network.cables for node in cable["nodes"] if switch in cable["nodes"] and node != switch]
    hosts = sorted((node for node in there if network.nodes.get(node) == "host"), key=natural)
    return switch, f"host {hosts.index(host) + 1}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def markup(folder: Folder, found: Tracks, level: int) -> list[str]:
    """Return the tables of all networks that are fabrics and of which loads were recorded."""
    tracks = found.in_panel(LOAD)
    out: list[str] = []
    for network in folder.networks:
        window = _window(tracks, network)
        if window is None:
            continue
        factor = folder.scale.k if folder.lab_time else 1
        by_port = {track.port: factor * _mean_of(track, *window) for track in tracks}
        made = matrices(network, lambda port, by_port=by_port: by_port.get(port, 0.0))  # type: ignore[misc]
        if sum(len(one.up) for one in made) < FEWEST_LINKS:
            continue
        some = [one for one in made if max(len(one.rows), len(one.columns)) <= MOST_NODES]
        title = f": {network.title}" if len(folder.networks) > 1 else ""
        out.append(f'<figure><figcaption>{text(f"{_summary(some)}{title}")}</figcaption><div class="pair">')
        for one in some:
            out += [_table(one, True), _table(one, False)]
        out.append("</div></figure>")
    if not out:
        return []
    about = "in percent of its line, as the mean from the first frame to the last; a row and a column are its two ends"
    note = f'<p class="note">{text(about)}</p>'
    return ['<section aria-label="Load of each link">', heading(level, "Load of each link"), note, *out, "</section>"]


def _summary(made: Iterable[Matrix]) -> str:
    """Return in words what is most loaded, and how many directions carry nothing."""
    loads = [
        (value, f"{end} to {far}" if is_up else f"{far} to {end}")
        for one in made
        for is_up in (True, False)
        for (end, far), values in (one.up if is_up else one.down).items()
        for value in [_mean(values)]
    ]
    most, where = max(loads)
    idle = sum(value < _IDLE for value, _ in loads)
    return f"most: {most:.0f} % from {where}; idle: {idle} of {len(loads)}"


def _table(matrix: Matrix, is_up: bool) -> Html:
    words = "up: from rows to columns" if is_up else "down: from columns to rows"
    head = "".join(f'<th scope="col">{text(name, _LONGEST_NAME)}</th>' for name in matrix.columns)
    rows = "".join(
        f'<tr><th scope="row">{text(name, _LONGEST_NAME)}</th>{"".join(map(_load, cells))}</tr>'
        for name, cells in zip(matrix.rows, matrix.cells(is_up), strict=True)
    )
    return Html(
        f'<div class="wide" tabindex="0" role="region" aria-label="{text(words)}"><table class="heats loads">'
        f"<caption>{text(words)}</caption><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _load(value: float) -> str:
    if math.isnan(value):
        return "<td></td>"
    kind = "idle" if value < _IDLE else f"heat-{1 + sum(value >= least for least in _LEVELS)}"
    return f'<td class="heat {kind}">{value:.0f}</td>'


def _window(tracks: Sequence[Track], network: Network) -> tuple[int, int] | None:
    """Return the time from the first frame of a network to the last, or None if nothing was sent."""
    first, last = network.end_ns, network.start_ns
    for track in tracks:
        for place, (t_ns, value) in enumerate(zip(track.t_ns, track.values, strict=True)):
            if value and network.start_ns <= t_ns <= network.end_ns:
                until = track.t_ns[place + 1] if place + 1 < len(track.t_ns) else network.end_ns
                first, last = min(first, t_ns), max(last, min(until, network.end_ns))
    return (first, last) if first < last else None


def _mean_of(track: Track, start_ns: int, end_ns: int) -> float:
    """Return the mean of a value that holds from each time to the next, and is zero before the first."""
    total = 0
    for place, (t_ns, value) in enumerate(zip(track.t_ns, track.values, strict=True)):
        until = track.t_ns[place + 1] if place + 1 < len(track.t_ns) else end_ns
        total += value * max(0, min(until, end_ns) - max(t_ns, start_ns))
    return total / track.parts / (end_ns - start_ns)
