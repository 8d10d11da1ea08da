"""Values that a report computes from tracks: XOFF thresholds that move, use of pools, pause ratios, a first window.

A moving threshold is alpha times the free cells of the shared pool. With recorded buffers it is known at each sample;
from events alone it is known where a priority crossed it, since that is what the crossing says.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import merge
from typing import Any

from testbed.lab.results.folder import Folder, Network
from testbed.report.timeline.tracks import (
    ASSERTED,
    DROPS,
    LARGEST,
    MARKS,
    OCCUPANCY,
    PAUSED,
    Shape,
    Track,
    Tracks,
    natural,
)

THRESHOLD, POOL = "threshold", "pool"
"""The panels of derived tracks: thresholds that move, and the use of a switch's shared pool."""
RECORDED = ", shared"
"""The end of the label of a track of recorded shared cells; those of events alone have none."""


@dataclass(frozen=True)
class Ratio:
    """The part of a network's time in which a port was stopped for a priority."""

    network: Network | None
    port: str
    far_end: str
    priority: str
    intervals: int
    paused_ns: int
    longest_ns: int
    span_ns: int

    @property
    def part(self) -> float:
        return self.paused_ns / max(1, self.span_ns)


def derived(folder: Folder, found: Tracks) -> list[Track]:
    """Return the tracks of moving thresholds and of the use of pools."""
    by_node: dict[str, list[Track]] = {}
    for track in found.in_panel(OCCUPANCY):
        by_node.setdefault(node_of(folder, track.port), []).append(track)
    out: list[Track] = []
    for node in sorted(by_node, key=natural):
        recorded = [one for one in by_node[node] if one.label.endswith(RECORDED)]
        use = _sum(node, recorded, [network.end_ns for network in folder.networks])
        if use is not None:
            out.append(use)
        alphas = dict.fromkeys(
            alpha for track in by_node[node] if (alpha := _alpha(folder, track)) is not None and alpha > 0
        )
        for alpha in list(alphas)[:2]:
            made = _moving(folder, node, alpha, use) if use is not None else None
            made = made or _crossed(node, alpha, by_node[node], found, folder)
            if made is not None:
                out.append(made)
    return out


def node_of(folder: Folder, port: str) -> str:
    """Return the node of a port in any of the result's networks."""
    for network in folder.networks:
        if port in network.ports:
            return network.node_of(port)
    return port.rpartition("-")[0] or port


def group_of(network: Network, track: Track) -> dict[str, Any] | None:
    """Return the settings of the ingress group that a track of occupancy is of."""
    groups = network.ports.get(track.port, {}).get("groups")
    priority = track.label.removeprefix("priority ").partition(",")[0]
    group = groups.get(priority) if isinstance(groups, dict) else None
    return group if isinstance(group, dict) else None


def _alpha(folder: Folder, track: Track) -> Fraction | None:
    for network in folder.networks:
        group = group_of(network, track)
        if group is not None and isinstance(group.get("alpha"), str) and len(group["alpha"]) < 20:
            try:
                return Fraction(group["alpha"])
            except (ValueError, ZeroDivisionError):
                return None
    return None


def _sum(node: str, parts: list[Track], ends: list[int]) -> Track | None:
    """Return the sum of recorded tracks at each moment at which one of them changes."""
    if not parts:
        return None
    made = Track(POOL, node, "shared pool", Shape.STEPS, unit="cells")
    now, left = dict.fromkeys(range(len(parts)), 0), list(ends)
    rows = merge(*(_numbered(number, track) for number, track in enumerate(parts)))
    for t_ns, number, value in rows:
        while left and left[0] < t_ns:  # cells of a network that has ended
            now = dict.fromkeys(now, 0)
            left.pop(0)
        now[number] = value
        if made.t_ns and made.t_ns[-1] == t_ns:
            made.values[-1] = sum(now.values())
        else:
            made.add(t_ns, sum(now.values()))
    return made


def _numbered(number: int, track: Track) -> Iterator[tuple[int, int, int]]:
    for t_ns, value in zip(track.t_ns, track.values, strict=True):
        yield t_ns, number, value


def _moving(folder: Folder, node: str, alpha: Fraction, use: Track) -> Track | None:
    pools = [network.buffers.get(node, {}).get("shared_cells") for network in folder.networks]
    pool = next((one for one in pools if type(one) is int and 0 < one < 2**31), None)
    if pool is None:
        return None
    made = Track(THRESHOLD, node, f"XOFF at {alpha} of the free cells", Shape.STEPS, unit="cells")
    for t_ns, cells in zip(use.t_ns, use.values, strict=True):
        made.add(t_ns, max(0, alpha.numerator * (pool - cells) // alpha.denominator))
    return made


def _crossed(node: str, alpha: Fraction, tracks: list[Track], found: Tracks, folder: Folder) -> Track | None:
    """Return the threshold as crossings show it: the cells at the moment at which a port began to send XOFF."""
    begins = {(one.port, one.label): set(one.t_ns) for one in found.in_panel(ASSERTED)}
    rows = sorted(
        (t_ns, cells)
        for track in tracks
        if track.shape is Shape.SAMPLES and _alpha(folder, track) == alpha
        for t_ns, cells in zip(track.t_ns, track.values, strict=True)
        if t_ns in begins.get((track.port, track.label), ())
    )
    if not rows:
        return None
    made = Track(THRESHOLD, node, f"XOFF at {alpha} of the free cells, where it was crossed", Shape.STEPS, unit="cells")
    made.t_ns, made.values = array("q", (t for t, _ in rows)), array("q", (cells for _, cells in rows))
    return made


def ratios(folder: Folder, found: Tracks, panel: str = PAUSED) -> list[Ratio]:
    """Return the ratio of each port, priority and network that was paused, the largest first."""
    spans: list[tuple[Network | None, int, int]] = [(one, one.start_ns, one.end_ns) for one in folder.networks]
    spans = spans or [(None, 0, folder.end_ns)]
    out = []
    for network, start, end in spans:
        far = far_ends([network] if network is not None else [])
        for track in found.in_panel(panel):
            lengths = [b - a for a, b in zip(track.t_ns, track.values, strict=True) if start <= a <= end]
            if lengths:
                out.append(
                    Ratio(
                        network, track.port, far.get(track.port, ""), track.label.removeprefix("priority "),
                        len(lengths), sum(lengths), max(lengths), end - start,
                    )
                )  # fmt: skip
    return sorted(out, key=lambda one: (-one.part, natural(one.port)))


def far_ends(networks: Iterable[Network]) -> dict[str, str]:
    """Return the port at the other end of each port's cable."""
    found: dict[str, str] = {}
    for network in networks:
        for cable in network.cables:
            one, other = cable["ends"]
            found.setdefault(one, other)
            found.setdefault(other, one)
    return found


def line_rate(cable: dict[str, Any]) -> int:
    """Return the rate of a cable in the units of recorded loads, which are the hardware's; 0 if it is not known."""
    rate = cable.get("hardware_rate_bps", cable.get("lab_rate_bps"))
    return rate if type(rate) is int and 0 < rate < LARGEST else 0


def moment(found: Tracks, start_ns: int, end_ns: int) -> int:
    """Return the moment to show first: when most ports are paused, else when a buffer is fullest or a frame is lost.

    Of several such moments it is the middle of the first.
    """
    begins, ends = array("q"), array("q")
    for track in found.in_panel(PAUSED):
        begins.extend(track.t_ns)
        ends.extend(track.values)
    if begins:
        return _most_at_once(sorted(begins), sorted(ends))
    for panel in (OCCUPANCY, DROPS):
        peaks = [(max(track.values), track) for track in found.in_panel(panel) if len(track.values)]
        if peaks:
            high, track = max(peaks, key=lambda one: one[0])
            return track.t_ns[track.values.index(high)]
    return (start_ns + end_ns) // 2


def _most_at_once(begins: list[int], ends: list[int]) -> int:
    """Return the middle of the first time in which most intervals overlap."""
    most = at = ended = 0
    for number, begin in enumerate(begins):
        while ended < len(ends) and ends[ended] <= begin:
            ended += 1
        if number + 1 - ended > most:
            most, at = number + 1 - ended, number
    place = bisect_right(ends, begins[at])
    until = ends[place] if place < len(ends) else begins[at]
    if at + 1 < len(begins):
        until = min(until, begins[at + 1])
    return (begins[at] + until) // 2


def active(folder: Folder, found: Tracks) -> tuple[int, int]:
    """Return the part of the run in which something happened, with a margin.

    What carries traffic decides: pauses, buffers, drops and series. Marks decide where there is nothing else.
    """
    spans = [_span(track) for track in found.tracks if track.panel not in (MARKS, THRESHOLD, POOL)]
    known = [span for span in spans if span is not None]
    known = known or [(track.t_ns[0], track.t_ns[-1]) for track in found.in_panel(MARKS) if len(track.t_ns)]
    if not known:
        return 0, folder.end_ns
    first, last = min(one for one, _ in known), max(other for _, other in known)
    margin = max(1, (last - first) // 40)
    return max(0, first - margin), min(folder.end_ns, last + margin)


_SMALL = 0.02


def _span(track: Track) -> tuple[int, int] | None:
    """Return when a track begins and ends to have something to show: more than a fiftieth of its highest value."""
    if not len(track.t_ns):
        return None
    if track.shape is Shape.INTERVALS:
        return track.t_ns[0], track.values[-1]
    if track.shape is not Shape.STEPS:
        return track.t_ns[0], track.t_ns[-1]
    least = max(map(abs, track.values)) * _SMALL
    shown = [row for row, value in enumerate(track.values) if abs(value) > least]
    if not shown:
        return None
    return track.t_ns[shown[0]], track.t_ns[min(shown[-1] + 1, len(track.t_ns) - 1)]
