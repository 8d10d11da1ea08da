"""The way of each frame over the cables of a network, from what was captured where frames arrive.

A capture has when a frame arrived at the end of a cable. Its first bit left the other end earlier by the cable's delay,
and its last bit arrives later by its time on the line. Between its arrival at a node and its departure from it a frame
waits in the queue of the port by which it leaves. So each frame that reached a node goes on from it, is for this node,
was dropped by its buffer, waited there when the captures ended, or is named as lost.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.report.replay.identity import PAUSES, Identity, Kind

ON_THE_LINE = 24
"""The octets that a frame takes of a line beside those that are captured: preamble, FCS and the gap behind it."""
_HEADER = 72
"""The octets after which a node that cuts through has a frame: preamble and the first 64."""
_SHORTEST = 60
"""The octets of the shortest frame, without FCS."""


class Fate(enum.IntEnum):
    """The end of a frame where it arrived. `assets/frames.js` has the same numbers."""

    GOES_ON = 0
    ARRIVED = 1
    """It was for this node."""
    DROPPED = 2
    """The node's buffer had no room for it."""
    WAITS = 3
    """It had not left the node when the captures ended."""
    LOST = 4
    """It is in no later capture, although a later frame of its flow is: its next cable lost or damaged it, or a buffer
    dropped it after the end of the log.
    """


@dataclass(frozen=True)
class Direction:
    """One direction of a cable."""

    source: str
    """The port that sends."""
    target: str
    """The port at which frames were captured."""
    source_node: str
    target_node: str
    delay_ns: int
    rate_bps: int
    forwarding: str = ""
    """The part of a frame for which the node at its end waits: all, the header or, if it is empty, the first bit."""

    def line_ns(self, octets: int) -> int:
        """Return the time that a frame of so many captured octets takes on the line, the gap behind it included."""
        return self._ns(max(octets, _SHORTEST) + ON_THE_LINE)

    def waits_ns(self, octets: int) -> int:
        """Return the time from the arrival of a frame's first bit until the node has it, which captures show."""
        if self.forwarding == "store-and-forward":
            return self.line_ns(octets)
        return self._ns(_HEADER) if self.forwarding == "cut-through" else 0

    def _ns(self, octets: int) -> int:
        return -(-octets * 8 * 10**9 // self.rate_bps) if self.rate_bps else 0


@dataclass(frozen=True)
class Arrival:
    """A captured frame."""

    t_ns: int
    direction: int
    """The number of the direction of a cable at whose end it was captured."""
    octets: int
    identity: Identity


@dataclass
class Hop:
    """A frame on one cable."""

    direction: int
    octets: int
    identity: Identity
    leaves_ns: int
    """When its first bit left."""
    arrives_ns: int
    """When the node at the far end had it, by its first bit if nothing else is set, and could send it on."""
    done_ns: int
    """When its last bit had arrived."""
    ready_ns: int | None = None
    """Since when it waited at the port that sent it; None if it came from this node or did not wait."""
    fate: Fate = Fate.ARRIVED
    reason: str = ""
    """Why it was dropped."""

    def part(self, t_ns: int) -> float | None:
        """Return which part of the cable it has behind it at a time, or None if it is not on the cable then.

        A drawing moves it evenly from the time when its first bit leaves to the time when its last bit has arrived.
        """
        if not self.leaves_ns <= t_ns < self.done_ns:
            return None
        return (t_ns - self.leaves_ns) / (self.done_ns - self.leaves_ns)


@dataclass
class Hops:
    """All frames on all cables, in the order in which they left."""

    directions: Sequence[Direction]
    hops: list[Hop]
    owners: dict[str, str] = field(default_factory=dict)
    """The node of each address that frames came from or ended at."""

    def lost(self) -> list[Hop]:
        return [hop for hop in self.hops if hop.fate is Fate.LOST]


@dataclass(frozen=True)
class Drop:
    """A frame that a buffer dropped, from the event log."""

    t_ns: int
    port: str
    octets: int
    reason: str


def directions(
    cables: Iterable[Mapping[str, Any]], ports: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Direction]:
    """Return both directions of each cable of a network, whose ports have the settings of their nodes."""
    waits = {name: str(port.get("forwarding", "")) for name, port in (ports or {}).items()}
    found = []
    for cable in cables:
        (one, other), (node, beyond) = cable["ends"], cable["nodes"]
        rate, delay = cable.get("lab_rate_bps"), cable.get("lab_delay_ns")
        known = rate if type(rate) is int and 0 < rate < 1 << 53 else 0
        late = delay if type(delay) is int and 0 <= delay < 1 << 53 else 0
        found.append(Direction(one, other, node, beyond, late, known, waits.get(other, "")))
        found.append(Direction(other, one, beyond, node, late, known, waits.get(one, "")))
    return found


def hops_of(
    arrivals: Iterable[Arrival], ways: Sequence[Direction], kinds: Mapping[str, str], drops: Iterable[Drop] = ()
) -> Hops:
    """Return the hops of frames. `kinds` are those of nodes: what a host has is for it."""
    hops, by_key = [], dict[bytes, list[Hop]]()
    for one in arrivals:
        way = ways[one.direction]
        begins_ns = one.t_ns - way.waits_ns(one.octets)
        done_ns = max(begins_ns + way.line_ns(one.octets), one.t_ns + 1)
        hop = Hop(one.direction, one.octets, one.identity, begins_ns - way.delay_ns, one.t_ns, done_ns)
        hops.append(hop)
        if one.identity.key:
            by_key.setdefault(one.identity.key, []).append(hop)
    hops.sort(key=lambda hop: (hop.leaves_ns, hop.direction))
    first: set[int] = set()
    for group in by_key.values():
        first |= _joined(group, ways)
    owners = _owners(hops, first, ways, kinds)
    _end(hops, ways, kinds, owners, drops)
    return Hops(ways, hops, owners)


def _joined(group: list[Hop], ways: Sequence[Direction]) -> set[int]:
    """Join the hops of one frame, or of frames that are alike, first come, first gone; return the first hops by id.

    A hop that goes on has the fate GOES_ON, and the next one is ready when its last bit has come.
    """
    here: dict[str, deque[Hop]] = {}
    for hop in sorted(group, key=lambda hop: hop.arrives_ns):
        here.setdefault(ways[hop.direction].target_node, deque()).append(hop)
    gone: dict[str, Hop] = {}
    first = set()
    for hop in sorted(group, key=lambda hop: (hop.leaves_ns, hop.arrives_ns)):
        node = ways[hop.direction].source_node
        waiting = here.get(node)
        before: Hop | None = None
        if waiting and waiting[0].arrives_ns <= hop.leaves_ns:
            before = gone[node] = waiting.popleft()
        elif hop.identity.is_to_many:
            before = gone.get(node)
        if before is None or before is hop:
            first.add(id(hop))
            continue
        before.fate = Fate.GOES_ON
        hop.ready_ns = before.done_ns if before.done_ns < hop.leaves_ns else None
    return first


def _owners(hops: list[Hop], first: set[int], ways: Sequence[Direction], kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the node of each address: the one where its frames begin, else the host where frames to it end."""
    found: dict[str, str] = {}
    ends: dict[str, str] = {}
    for hop in hops:
        way, who = ways[hop.direction], hop.identity
        if who.source and id(hop) in first:
            found.setdefault(who.source, way.source_node)
        if who.target and hop.fate is not Fate.GOES_ON and kinds.get(way.target_node) == "host" and not who.is_to_many:
            ends.setdefault(who.target, way.target_node)
    return ends | found


def _end(
    hops: list[Hop],
    ways: Sequence[Direction],
    kinds: Mapping[str, str],
    owners: Mapping[str, str],
    drops: Iterable[Drop],
) -> None:
    """Set the fate of hops behind which there is no other."""
    stays: dict[str, list[Hop]] = {}
    last_gone: dict[tuple[str, str, str, int | None], int] = {}
    for hop in hops:
        way, who = ways[hop.direction], hop.identity
        flow = (way.target, who.source, who.target, who.priority)
        if hop.fate is Fate.GOES_ON:
            last_gone[flow] = max(last_gone.get(flow, hop.arrives_ns), hop.arrives_ns)
        elif _is_to_go_on(hop, way, kinds, owners):
            stays.setdefault(way.target, []).append(hop)
    for drop in sorted(drops, key=lambda drop: drop.t_ns):
        _drop(stays.get(drop.port, []), drop)
    for port, found in stays.items():
        for hop in found:
            if hop.fate is Fate.DROPPED:
                continue
            who = hop.identity
            gone = last_gone.get((port, who.source, who.target, who.priority))
            hop.fate = Fate.LOST if gone is not None and gone > hop.arrives_ns else Fate.WAITS


def _is_to_go_on(hop: Hop, way: Direction, kinds: Mapping[str, str], owners: Mapping[str, str]) -> bool:
    """Return True if a node that has the frame is to send it on."""
    who = hop.identity
    if kinds.get(way.target_node) == "host" or who.kind in PAUSES or who.kind is Kind.CONTROL or who.is_to_many:
        return False
    return bool(who.target) and owners.get(who.target) != way.target_node


def _drop(found: list[Hop], drop: Drop) -> None:
    """Give the hop that a buffer dropped its fate: the last one of the same length that was there then."""
    place = bisect_right(found, drop.t_ns, key=lambda hop: hop.arrives_ns)
    for number in range(place - 1, max(-1, place - 65), -1):
        hop = found[number]
        if hop.fate is not Fate.DROPPED and hop.octets == drop.octets:
            hop.fate, hop.reason = Fate.DROPPED, drop.reason
            return
