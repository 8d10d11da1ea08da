"""The frames of a result that a report shows on cables: a window of each network, and its form for the page.

A capture may have millions of frames, and a reader looks at some hundred. So of each network at most `MOST_FRAMES`
captured frames are shown, around the first PFC frame through a tunnel, else the first pause, else the first drop, else
where most frames are. How many are left out is counted, and the page has it in words.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.output import CAPTURES
from testbed.frames import capture_file
from testbed.frames.capture_file import CaptureError
from testbed.lab.results.folder import LATEST_NS, Folder, Network
from testbed.report.exports.captures import LARGEST
from testbed.report.replay.hops import Arrival, Direction, Drop, Fate, Hop, Hops, directions, hops_of
from testbed.report.replay.identity import PAUSES, Kind, identify
from testbed.report.timeline.columns import column, deflated, plain
from testbed.report.timeline.tracks import DROPS, PAUSED, TUNNEL, Tracks, natural

MOST_NODES = 24
"""The nodes of the largest network whose frames are drawn; in a larger one they cannot be told apart."""
MOST_FRAMES = 4000
"""The frames of one network."""
MOST_NETWORKS = 4
"""The networks of a result whose frames are shown."""
MOST_READ = 5_000_000
"""The frames that captures of one network may have; more take too long to read."""
_MOST_FLOWS, _SMALL = 40, 20
_ENDING = ".pcapng"


@dataclass
class Replay:
    """The frames of one network that a report shows."""

    network: Network
    start_ns: int
    end_ns: int
    captured: int
    """The frames in all captures of this network."""
    inside: int
    """Those of them that arrived in the window."""
    directions: Sequence[Direction]
    hops: list[Hop]
    owners: dict[str, str]
    flows: list[tuple[str, str, int | None]] = field(init=False)
    """Source, target and priority of each flow."""

    def __post_init__(self) -> None:
        counts = Counter(flow for hop in self.hops if (flow := self.flow_of(hop)) is not None)
        most = max(counts.values(), default=0)

        def place(flow: tuple[str, str, int | None]) -> tuple[Any, ...]:
            return counts[flow] < most / _SMALL, natural(flow[0]), natural(flow[1]), flow[2] or 0

        # By name, so that cases of an experiment have the same letters; those of few frames are behind the others.
        self.flows = sorted(counts, key=place)[:_MOST_FLOWS]

    def flow_of(self, hop: Hop) -> tuple[str, str, int | None] | None:
        """Return source, target and priority of a frame that belongs to a flow."""
        who = hop.identity
        if who.kind not in (Kind.DATA, Kind.ANSWER) or not who.target:
            return None
        return self.owners.get(who.source, who.source), self.owners.get(who.target, who.target), who.priority

    @property
    def left_out(self) -> int:
        return self.captured - self.inside

    def moment(self) -> int:
        """Return a moment to begin with: the first XOFF half-way, through a tunnel if there is one, else to a node that
        forwards, whose pause stops flows of others, else to a host.
        """
        first_of_kind: dict[int, Hop] = {}
        for hop in self.hops:
            if hop.leaves_ns >= self.start_ns and hop.done_ns <= self.end_ns:
                if hop.identity.kind is Kind.TUNNEL_XOFF:
                    first_of_kind.setdefault(0, hop)
                elif hop.identity.kind is Kind.XOFF:
                    is_host = self.network.nodes.get(self.directions[hop.direction].target_node) == "host"
                    first_of_kind.setdefault(2 if is_host else 1, hop)
        if not first_of_kind:
            return (self.start_ns + self.end_ns) // 2
        hop = first_of_kind[min(first_of_kind)]
        return (hop.leaves_ns + hop.done_ns) // 2

    @property
    def has_tunnel(self) -> bool:
        """True if a PFC frame goes through a tunnel."""
        return any(hop.identity.kind in (Kind.TUNNEL_XOFF, Kind.TUNNEL_XON) for hop in self.hops)

    def counts(self) -> Counter[Fate]:
        return Counter(hop.fate for hop in self.hops)


@dataclass
class Replays:
    """The frames of a result, and why there are none of a network."""

    found: list[Replay] = field(default_factory=list)
    captured: int = 0
    """The networks with captures."""
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    """The fault of the captures for which frames cannot be shown; empty if there is none."""

    def moment(self) -> int:
        """Return a moment to begin with; there has to be a replay."""
        return max(self.found, key=lambda replay: replay.has_tunnel).moment()


def replays(folder: Folder, tracks: Tracks, most: int = MOST_FRAMES) -> Replays:
    """Return the frames of a result's networks, as far as they were captured."""
    out = Replays()
    try:
        numbers = sorted(int(name) for name in folder.files.listing(CAPTURES) if name.isdecimal() and len(name) < 6)
        out.captured = len(numbers)
        for number in numbers:
            if not 1 <= number <= len(folder.networks):
                raise CaptureError(f"{CAPTURES}/{number} is of no network in networks.jsonl")
            network = folder.networks[number - 1]
            if len(network.nodes) > MOST_NODES:
                words = f"{len(network.nodes)} nodes are too many to show frames between; at most {MOST_NODES} are."
                out.notes.append(f"{network.title}: {words}")
            elif len(out.found) == MOST_NETWORKS:
                out.notes.append(f"{network.title}: frames are shown of {MOST_NETWORKS} networks.")
            elif (replay := _replay(folder, number, tracks, most, out.notes)) is not None:
                out.found.append(replay)
    except (XoffError, OSError) as error:
        out.found, out.problem = [], str(error)
    return out


def _replay(folder: Folder, number: int, tracks: Tracks, most: int, notes: list[str]) -> Replay | None:
    network = folder.networks[number - 1]
    ways = directions(network.cables, network.ports)
    places = {(way.source, way.target): place for place, way in enumerate(ways)}
    times = array("q")
    for _, frame in _frames(folder, number, places):
        times.append(frame.t_ns or 0)
        if len(times) > MOST_READ:
            raise CaptureError(f"{CAPTURES}/{number} has more than {MOST_READ:,} frames")
    if not times:
        return None
    times = array("q", sorted(times))
    first, last = chosen(times, _about(network, tracks), most)
    start, end = times[first], times[last]
    # What waits when the window begins has come before it, and leaves after it.
    earliest, latest = times[max(0, first - most)], times[min(len(times) - 1, last + most)]
    arrivals = [
        Arrival(frame.t_ns or 0, place, frame.length, identify(frame.octets))
        for place, frame in _frames(folder, number, places)
        if earliest <= (frame.t_ns or 0) <= latest
    ]
    drops = _drops(folder, earliest, latest) if tracks.in_panel(DROPS) else []
    made = hops_of(arrivals, ways, network.nodes, drops)
    if any(one.identity.is_cut for one in arrivals):
        words = "of frames in tunnels too little was captured to follow them; --capture has all of it"
        notes.append(f"{network.title}: {words}.")
        for hop in made.hops:  # a frame that enters a tunnel only seems to be lost
            hop.fate = Fate.ARRIVED if hop.fate in (Fate.WAITS, Fate.LOST) else hop.fate
    return Replay(network, start, end, len(times), last - first + 1, ways, _inside(made, start, end), made.owners)


def _inside(made: Hops, start: int, end: int) -> list[Hop]:
    """Return the hops that are on a cable or in a queue at some time of a window."""

    def begins(hop: Hop) -> int:
        return hop.leaves_ns if hop.ready_ns is None else hop.ready_ns

    return [hop for hop in made.hops if begins(hop) <= end and hop.done_ns >= start]


def chosen(times: Sequence[int], about: int | None, most: int) -> tuple[int, int]:
    """Return the first and the last of at most so many frames: around a time, else where they are densest."""
    count = min(most, len(times))
    if about is None:
        first = min(range(len(times) - count + 1), key=lambda place: times[place + count - 1] - times[place])
    else:
        first = min(max(0, bisect_left(times, about) - count // 4), len(times) - count)
    return first, first + count - 1


def _about(network: Network, tracks: Tracks) -> int | None:
    """Return the time around which frames are shown."""
    for panel in (TUNNEL, PAUSED, DROPS):
        begins = [
            t_ns
            for track in tracks.in_panel(panel)
            for t_ns, value in zip(track.t_ns, track.values, strict=True)
            if network.start_ns <= t_ns <= network.end_ns and value
        ]
        if begins:
            return min(begins)
    return None


def _frames(
    folder: Folder, number: int, places: dict[tuple[str, str], int]
) -> Iterator[tuple[int, capture_file.Captured]]:
    """Yield the frames of a network's captures, each with the number of its direction."""
    base = f"{CAPTURES}/{number}"
    for name in folder.files.listing(base):
        if not name.endswith(_ENDING):
            continue
        with ExitStack() as stack:
            file = stack.enter_context(folder.files.open(f"{base}/{name}", LARGEST))
            known: dict[str, int | None] = {}
            try:
                for frame in capture_file.frames(file):
                    if frame.t_ns is None or not 0 <= frame.t_ns <= LATEST_NS:
                        raise CaptureError(f"a frame has the time {frame.t_ns} ns, and no run has")
                    if frame.interface not in known:
                        known[frame.interface] = _place(folder, frame.interface, places)
                    if (place := known[frame.interface]) is not None:
                        yield place, frame
            except CaptureError as error:
                raise CaptureError(f"{base}/{name}: {error}") from None


def _place(folder: Folder, interface: str, places: dict[tuple[str, str], int]) -> int | None:
    source, _, target = interface.partition(" > ")
    return places.get((folder.names.get(source, source), folder.names.get(target, target)))


def _drops(folder: Folder, earliest: int, latest: int) -> list[Drop]:
    found = []
    for event in folder.events():
        if event.name == "drop" and earliest <= event.t_ns <= latest:
            octets = event.fields.get("octets")
            if type(octets) is int:
                found.append(Drop(event.t_ns, event.port, octets, str(event.fields.get("reason"))))
    return found


def packed(found: Sequence[Replay]) -> tuple[list[dict[str, Any]], bytes]:
    """Return the descriptions of replays for the page, and all their columns, compressed.

    The columns of a replay are, for each hop: when it left, as the difference to the one before; the number of its
    direction; its octets; its kind; one more than its priority, or 0; one more than the number of its flow, or 0; its
    time on the cable; for how long it waited before, and 0 if it did not; its fate; the number of its words.
    """
    descriptions, pieces = [], []
    for replay in found:
        numbers = {flow: number for number, flow in enumerate(replay.flows, 1)}
        words: dict[str, int] = {"": 0}
        columns: list[list[int]] = [[] for _ in range(9)]
        for hop in replay.hops:
            who, flow = hop.identity, replay.flow_of(hop)
            text = hop.reason if hop.fate is Fate.DROPPED else who.words if who.kind in PAUSES else ""
            row = (
                hop.direction, hop.octets, who.kind, 0 if who.priority is None else who.priority + 1,
                0 if flow is None else numbers.get(flow, 0), hop.done_ns - hop.leaves_ns,
                0 if hop.ready_ns is None else hop.leaves_ns - hop.ready_ns, hop.fate,
                words.setdefault(text, len(words)),
            )  # fmt: skip
            for values, value in zip(columns, row, strict=True):
                values.append(int(value))
        pieces += [column(hop.leaves_ns for hop in replay.hops), *map(plain, columns)]
        descriptions.append(
            {
                "start_ns": replay.start_ns,
                "end_ns": replay.end_ns,
                "rows": len(replay.hops),
                "directions": [[way.source, way.target, way.delay_ns] for way in replay.directions],
                "flows": [[source, target] for source, target, _ in replay.flows],
                "words": list(words),
                "moment": replay.moment(),
            }
        )
    return descriptions, deflated(pieces)
