"""Scenario 2 of the draft: a router learns from data packets the tunnels for its PFC frames.

A data packet that arrives at one of the router's SIDs carries the list of segments that it has passed. If there is an
End.X.PFC SID among them, the nearest one is where back-pressure belongs, and the way there is the list backwards: an
own SID, then each router passed since, then that SID (decision 0140). Which SIDs are End.X.PFC is known from what
routers advertise. A router passed by an End.X SID is named by its End SID on the way back, since an End.X leads
onwards; if it advertises none, the packet teaches nothing.

A list can be forged. So a tunnel is learned only from packets that arrive by an interface inside the SR domain, from a
source inside it (RFC 8754, section 5.1), to a SID of this router that the list agrees with, and whose passed segments
are advertised. Everything else is refused, counted by reason, and changes nothing.

The table is bounded. A tunnel is forgotten when no packet has used its list for a time, or when the table is full and
its packets are the longest ago. A policy that changes its path brings a new list, and so a new tunnel beside the old
one, which ages out. `tunnels` gives the newest for each SID that can be paused: pausing twice would do no harm, but
the newest is the way that is known to work. Times come in as arguments and must not go back.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.frames import ipv6
from testbed.frames.ipv6 import PacketError
from testbed.frames.srh import Srh
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import SrDomain, Srv6Error
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Sid


class Refusal(enum.StrEnum):
    """The reason why a packet teaches nothing, besides malformed packets (`ipv6.PacketReason`)."""

    NOT_OUR_SID = "not_our_sid"
    FROM_OUTSIDE = "from_outside"  # the interface
    SOURCE_OUTSIDE = "source_outside"
    NO_SRH = "no_srh"
    LIST_DISAGREES = "list_disagrees"  # the active segment is not the destination
    NOT_DATA = "not_data"  # PFC in a reverse tunnel
    NOT_ADVERTISED = "not_advertised"  # a passed segment that no router has announced
    NO_PFC_UPSTREAM = "no_pfc_upstream"
    NO_WAY_BACK = "no_way_back"  # a router passed that has no End SID


@dataclass(frozen=True)
class Learned:
    """A packet that named a tunnel; `new` if the table did not have it."""

    tunnel: ReverseTunnel
    new: bool
    evicted: ReverseTunnel | None = None  # which had to make room


@dataclass(frozen=True)
class Refused:
    reason: Refusal | ipv6.PacketReason


@dataclass(frozen=True)
class LearnerSettings:
    """The facts about its router that the learner needs."""

    own: Sid  # the first segment of its tunnels, End or End.X
    domain: SrDomain
    size: int = 256
    age_ns: int = 60 * 10**9
    slice_option: int = ipv6.SLICE

    def __post_init__(self) -> None:
        if self.own.behaviour not in (behaviours.END, behaviours.END_X):
            raise Srv6Error(f"{self.own.name} cannot start a reverse tunnel; that is an End or End.X SID")
        for name in ("size", "age_ns"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise Srv6Error(f"{name} is {value!r}; it is a whole number above 0")


class Learner:
    """The reverse tunnels that one router has learned."""

    def __init__(self, settings: LearnerSettings) -> None:
        self._settings = settings
        self._directory: dict[IPv6Address, Sid] = {}
        self._end_of: dict[tuple[str, int | None], IPv6Address] = {}  # of a router, for a slice
        # Oldest first. The key is what teaches: the segments of the tunnel and its slice.
        self._table: OrderedDict[tuple[object, ...], tuple[ReverseTunnel, int]] = OrderedDict()
        self.counters: Counter[str] = Counter()

    def advertised(self, sids: Iterable[Sid]) -> tuple[ReverseTunnel, ...]:
        """Take in all SIDs announced now, the router's own too, and forget tunnels over SIDs that are gone."""
        self._directory = {sid.address: sid for sid in sids}
        ends = sorted(
            (sid for sid in self._directory.values() if sid.behaviour is behaviours.END), key=lambda sid: sid.address
        )
        self._end_of = {(sid.node, sid.slice_id): sid.address for sid in reversed(ends)}  # the lowest one stays
        gone = [key for key, (tunnel, _) in self._table.items() if not self._is_announced(tunnel)]
        return self._forget(gone, "withdrawn")

    def data_packet(self, data: bytes, now_ns: int, from_outside: bool = False) -> Learned | Refused:
        """Learn from an IPv6 packet that has come to this router."""
        outcome: ReverseTunnel | Refusal | ipv6.PacketReason
        try:
            outcome = self._read(data, from_outside)
        except PacketError as error:
            outcome = error.reason
        if not isinstance(outcome, ReverseTunnel):
            self.counters[f"refused {outcome}"] += 1
            return Refused(outcome)
        key = outcome.identity
        known = self._table.pop(key, None)
        evicted = None
        if known is None and len(self._table) == self._settings.size:
            _, (evicted, _) = self._table.popitem(last=False)
            self.counters["evicted"] += 1
        self._table[key] = (outcome, now_ns)
        self.counters["known" if known else "learned"] += 1
        return Learned(outcome, known is None, evicted)

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `expire` has work next, if nothing is received until then."""
        oldest = next(iter(self._table.values()), None)
        return oldest[1] + self._settings.age_ns if oldest else None

    def expire(self, now_ns: int) -> tuple[ReverseTunnel, ...]:
        """Remove the tunnels whose last packet is too old."""
        old = [key for key, (_, used_ns) in self._table.items() if used_ns + self._settings.age_ns <= now_ns]
        return self._forget(old, "expired")

    def tunnels(self, slice_id: int | None = None) -> tuple[ReverseTunnel, ...]:
        """Return the tunnels of a slice: for each SID that can be paused, the one used last. The newest is first."""
        chosen: dict[IPv6Address, ReverseTunnel] = {}
        for tunnel, _ in reversed(self._table.values()):
            if tunnel.slice_id == slice_id:
                chosen.setdefault(tunnel.target, tunnel)
        return tuple(chosen.values())

    def __len__(self) -> int:
        return len(self._table)

    def _is_announced(self, tunnel: ReverseTunnel) -> bool:
        target = self._directory.get(tunnel.target)
        middle = all(segment in self._directory for segment in tunnel.segments[1:-1])
        return middle and target is not None and target.behaviour is behaviours.END_X_PFC

    def _forget(self, keys: Iterable[tuple[object, ...]], why: str) -> tuple[ReverseTunnel, ...]:
        forgotten = tuple(self._table.pop(key)[0] for key in keys)
        self.counters[why] += len(forgotten)
        return forgotten

    def _read(self, data: bytes, from_outside: bool) -> ReverseTunnel | Refusal:
        packet = ipv6.whole(data)
        source, destination = ipv6.addresses(packet)
        node = self._settings.own.node
        local = self._directory.get(destination)
        if local is None or local.node != node:
            return Refusal.NOT_OUR_SID
        if from_outside:
            return Refusal.FROM_OUTSIDE
        if not self._settings.domain.is_router(source):
            return Refusal.SOURCE_OUTSIDE
        routing: Srh | None = None
        named: ipv6.SliceOption | None = None
        for header in ipv6.headers(packet):
            if header.protocol == ipv6.HOP_BY_HOP:
                options = ipv6.parse_header(packet, header)
                named = ipv6.find_slice(options, self._settings.slice_option)
            elif header.protocol == ipv6.ROUTING and routing is None:
                routing = Srh.parse(packet, header.start)
            elif header.protocol == ipv6.ETHERNET:
                return Refusal.NOT_DATA
        if routing is None:
            return Refusal.NO_SRH
        if routing.active not in (None, destination):
            return Refusal.LIST_DISAGREES
        return self._backwards(routing, named)

    def _backwards(self, routing: Srh, named: ipv6.SliceOption | None) -> ReverseTunnel | Refusal:
        own = self._settings.own
        passed: list[IPv6Address] = []
        for segment in routing.visited:  # the latest first
            sid = self._directory.get(segment)
            if sid is None:
                return Refusal.NOT_ADVERTISED
            if sid.node == own.node:
                continue
            if sid.behaviour is behaviours.END_X_PFC:
                slice_id = named.slice_id if named else sid.slice_id
                return ReverseTunnel(own.node, sid.node, (own.address, *passed, segment), slice_id)
            back = segment if sid.behaviour is behaviours.END else self._end(sid)
            if back is None:
                return Refusal.NO_WAY_BACK
            if passed[-1:] != [back]:  # two SIDs of one router in a row are one stop
                passed.append(back)
        return Refusal.NO_PFC_UPSTREAM

    def _end(self, sid: Sid) -> IPv6Address | None:
        """Return the End SID of the router that has this SID."""
        return self._end_of.get((sid.node, sid.slice_id)) or self._end_of.get((sid.node, None))
