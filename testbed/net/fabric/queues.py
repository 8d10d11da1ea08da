"""The queueing disciplines of a port: the messages that create them, and those that stop and restart a queue.

There are two htb, one below the other (decision 0730). The root has one class, of line rate, and asks for a frame when
the last bit of the one before it has left: nothing is taken out of a queue before it begins to leave, and no frame
leaves before it may. The scheduler below has a class for each queue, and serves strict ones first and the others by
their shares. A queue ends in red (if it has ECN) and plug, its pause point. MAC control frames and LLDP of the node's
agent bypass all queues, but for PFC frames on a real line: these have a class before all others, so they wait for the
frame that is leaving, and take their part of the line.

Queue n belongs to local priority n, unless ETS maps several priorities to one traffic class: then class n has queue n,
and a pause of any of its priorities stops the whole queue (decision 0160).

Strict queues have an order, and the others share the rest: by a port's own shares, a negotiated ETS table, or the lanes
of a QoS policy. All take one form (`Scheduling`): a queue for each local priority, and for each queue a level (0 is
served first) and a weight within its level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from testbed.agent.plan import Arrangement
from testbed.frames.dcbx.values import STRICT, Ets, Tsa
from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Message
from testbed.linux.process import kernel
from testbed.net.fabric.cable import Line
from testbed.net.fabric.port import Port
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.ecn.red import red_parameters
from testbed.units import Duration, Rate, Size

if TYPE_CHECKING:
    from testbed.linux.queue_rule import RuleProgram

PRIORITIES = range(8)
SHARED = 6
"""The level of the queues that share the line, at ports where other queues can become strict later."""

_ALL_SHARES = 1_000_000
_SCHEDULER, _LINE = 1, 2
_PAUSE = 0x2
_CLASS, _TBF, _RED, _PLUG, _SPARE_PLUG, _NETEM = 0x10, 0x10, 0x20, 0x30, 0x40, 0x50
_UNLIMITED = Rate("4Gb/s") * 8
_UNLIMITED_NS = 1_000_000
_OWN_FRAMES = Size.from_bytes(64 << 20)
"""The room beside the buffer for frames that a switch or router sends itself, which its buffer does not charge."""
_MOST = Size.from_bytes(0xFFFF_FFFF - 0xFFFF)
"""The greatest limit: qdiscs count waiting octets in 32 bits, and add a frame to them before they compare."""
_WATCHED_BURST = 1 << 20
_AT_ONCE = Duration("1ns")
_BURST_NS = 20_000
"""The time by which the kernel may be late without losing line rate. No longer burst leaves a port faster."""


@dataclass(frozen=True)
class Scheduling:
    """The scheduling of one port."""

    queue_of: tuple[int, ...]
    """The queue of each local priority."""
    strict: frozenset[int]
    levels: tuple[int, ...]
    weights: tuple[int, ...]
    """The weight of each queue, in hundredths of a percent. A queue without a share has the least weight of the others;
    one that no priority uses has the most, so that frames in it leave soon."""

    @classmethod
    def of_port(cls, port: Port) -> Scheduling:
        """Return the scheduling of a port's settings: a queue for each priority, the highest strict one first."""
        strict = sorted(port.strict, reverse=True)
        # With DCBX there may be a table of ETS later, and with virtual lanes a policy.
        shared = SHARED if port.dcbx or port.vls else min(1 + len(strict), 7)
        return cls._made(tuple(PRIORITIES), strict, port.weights(), shared)

    @classmethod
    def of_lanes(cls, strict: Sequence[int], weighted: Mapping[int, Fraction]) -> Scheduling:
        """Return the scheduling of virtual lanes; lane n is queue n.

        Strict ones are served in their order. A lane that is neither strict nor weighted gets what the others leave.
        """
        weights = {vl: max(1, round(part * _ALL_SHARES)) for vl, part in weighted.items()}
        return cls._made(tuple(PRIORITIES), list(strict), weights, SHARED)

    @classmethod
    def of_ets(cls, ets: Ets) -> Scheduling:
        """Return the scheduling of an ETS table; traffic class n is queue n.

        In the published standard's tables strict classes come first, the highest of them before the others. A class
        with the credit-based shaper is strict here, as there is no such shaper; a class with a vendor's algorithm,
        which is unknown, has its bandwidth. In a draft's tables each priority that is assigned to AVB (13, 14) or is
        strict (15) has a queue that no group uses; AVB comes first. A class with a bandwidth of 0 gets what all others
        leave.

        The level of the classes that share is always the same, because the kernel does not move a class that holds
        frames to another level. That leaves six levels above them, so the strict classes from the sixth on take turns.
        """
        return cls._draft(ets) if ets.tsa is None else cls._published(ets, ets.tsa)

    @classmethod
    def _published(cls, ets: Ets, tsa: tuple[int, ...]) -> Scheduling:
        strict = [queue for queue in reversed(PRIORITIES) if tsa[queue] in (Tsa.STRICT, Tsa.CBS)]
        used = set(ets.assignment)
        weights = {queue: ets.bandwidth[queue] * 100 for queue in PRIORITIES if queue not in strict}
        return cls._made(ets.assignment, [queue for queue in strict if queue in used], weights, SHARED)

    @classmethod
    def _draft(cls, ets: Ets) -> Scheduling:
        groups = {group for group in ets.assignment if group in PRIORITIES}
        free = [queue for queue in PRIORITIES if queue not in groups]
        queue_of = list(ets.assignment)
        alone = [priority for priority in PRIORITIES if ets.assignment[priority] not in PRIORITIES]
        for priority in sorted(alone, key=lambda priority: priority not in free):  # its own queue, if that is free
            queue_of[priority] = priority if priority in free else free[0]
            free.remove(queue_of[priority])
        order = sorted(alone, key=lambda priority: (ets.assignment[priority] == STRICT, -priority))
        weights = {group: ets.bandwidth[group] * 100 for group in groups}
        return cls._made(tuple(queue_of), [queue_of[priority] for priority in order], weights, SHARED)

    @classmethod
    def _made(cls, queue_of: tuple[int, ...], strict: list[int], weights: dict[int, int], shared: int) -> Scheduling:
        """Return the scheduling with these queues; `shared` is the level of those that share what strict ones leave."""
        used = set(queue_of)
        lowest_strict = shared - 1 if used - set(strict) else 7
        first = 1 if len(strict) <= lowest_strict else 0  # the first level is that of PFC frames
        levels = [0] * 8
        for queue in PRIORITIES:
            if queue in strict:
                levels[queue] = min(first + strict.index(queue), lowest_strict)
            else:
                levels[queue] = shared if weights.get(queue) or queue not in used else min(shared + 1, 7)
        given = [weights[queue] for queue in used if weights.get(queue)] or [1]
        left = {True: min(given), False: max(given)}
        return cls(
            queue_of,
            frozenset(strict),
            tuple(levels),
            tuple((queue in used and weights.get(queue)) or left[queue in used] for queue in PRIORITIES),
        )


@dataclass(frozen=True)
class Queues:
    """The queueing disciplines of one port."""

    interface: int
    rate: Rate
    settings: Port
    frees: bool = False
    """True if a frame leaves its socket's send buffer here, at a switch: a cable with a delay does that by itself."""
    mtu: int = 1500
    buffer: Size | None = None
    """The size of the node's buffer, which decides what is dropped, so a queue holds all that it admits. None if the
    node has no buffer: the sockets of its programs limit what waits."""
    line: Line = Line.IDEAL
    rule: RuleProgram | None = None
    """The code of the settings' marking rule."""

    def messages(self) -> list[Message]:
        """Return the messages that create the queueing disciplines."""
        made = self._line_and_scheduler()
        for place in self._places:
            if curve := self.settings.ecn.get(place % 8):
                made.append(self._watched(place))
                parameters = (*red_parameters(curve, plug_below=True).attributes(), *self._rule_at(place))
                made.append(qdiscs.red(self.interface, self._watch(place), qdiscs.handle(_RED + place), parameters))
            if self.frees:
                own = qdiscs.handle(_NETEM + place)
                made.append(qdiscs.netem(self.interface, own, _AT_ONCE, parent=self._below_red(place)))
            made += qdiscs.plug(self.interface, self._plug_parent(place), self._plug(place), self._limit(place).bytes)
        return made

    def arrange(self, ets: Ets | None = None) -> Arrangement:
        """Return the queues of priorities and the messages that set shares, for an ETS table or the port's settings."""
        return self.arranged(self._scheduling(ets))

    def arranged(self, scheduling: Scheduling) -> Arrangement:
        """Return the queues of priorities and the messages that set shares, for any scheduling."""
        return Arrangement(
            scheduling.queue_of,
            tuple(self._class(self._place(queue, scheduling)) for queue in scheduling.queue_of),
            tuple(replace(message, create=False) for message in self._classes(scheduling)),
        )

    def served(self, classes: Mapping[int, tuple[int, int]], scheduling: Scheduling) -> dict[int, tuple[int, int]]:
        """Return (level, quantum) of each queue in the kernel.

        `classes` are those of the interface; a queue has the one that this scheduling uses.
        """
        found = {}
        for queue in PRIORITIES:
            own = self._class(self._place(queue, scheduling))
            if own in classes:
                found[queue] = classes[own]
        return found

    def rule_handles(self) -> list[int]:
        """Return the handles of the qdiscs that a marking rule is for; the first of them has its code."""
        queues = self.settings.marking.queues if self.settings.marking else ()
        return [qdiscs.handle(_RED + place) for place in self._places if place % 8 in queues]

    def _rule_at(self, place: int) -> tuple[tuple[int, bytes], ...]:
        """Return the attribute of the marking rule, if there is one for the queue of a place."""
        if self.rule is None:
            return ()
        from testbed.linux import queue_rule

        handles, own = self.rule_handles(), qdiscs.handle(_RED + place)
        if own not in handles:
            return ()
        is_first = own == handles[0]
        return (queue_rule.own(place % 8, self.rule) if is_first else queue_rule.shared(place % 8, handles[0]),)

    @property
    def control(self) -> int:
        """The socket priority that bypasses all queues."""
        return qdiscs.handle(_LINE)

    @property
    def pause(self) -> int:
        """The socket priority of PFC frames."""
        return qdiscs.handle(_SCHEDULER, _PAUSE) if self.line is Line.REAL else self.control

    def pausing(self, queue: int, stop: bool) -> bytes:
        """Return the finished messages that stop or restart a queue."""
        places = self._places_of(queue)
        return b"".join(qdiscs.pausing(self.interface, self._plug_parent(place), stop) for place in places)

    def red_handles(self, queue: int) -> list[int]:
        """Return the handles of the qdiscs that mark a queue with ECN."""
        return [qdiscs.handle(_RED + place) for place in self._places_of(queue)]

    def marking(self, queue: int, curve: EcnCurve) -> list[Message]:
        """Return the messages that give a queue with ECN another curve; the frames in it stay."""
        parameters = red_parameters(curve, plug_below=True).attributes()
        return [
            qdiscs.red(self.interface, self._watch(place), qdiscs.handle(_RED + place), parameters)
            for place in self._places_of(queue)
        ]

    def emptied(self, queue: int) -> bytes:
        """Return the finished messages that drop all frames in a queue and leave it stopped.

        There are two for each plug, since a new one needs another handle than the old one: in the end the queue has its
        usual plug.
        """
        return b"".join(
            qdiscs.emptied(
                self.interface,
                self._plug_parent(place),
                self._plug(place, spare),
                self._limit(place).bytes,
            )
            for place in self._places_of(queue)
            for spare in (True, False)
        )

    @property
    def _places(self) -> range:
        """The places where frames wait: that of a queue is its number, and eight more when the queue is strict."""
        rescheduled = self.settings.dcbx or self.settings.vls is not None
        return range(2 * 8) if rescheduled else PRIORITIES

    def _places_of(self, queue: int) -> range:
        return self._places[queue::8]

    def _place(self, queue: int, scheduling: Scheduling) -> int:
        return self._places_of(queue)[-1] if queue in scheduling.strict else queue

    def _scheduling(self, ets: Ets | None) -> Scheduling:
        if ets is None and self.settings.dcbx:
            ets = self.settings.dcbx.shares
        return Scheduling.of_port(self.settings) if ets is None else Scheduling.of_ets(ets)

    def _line_and_scheduler(self) -> list[Message]:
        root, line, scheduler = qdiscs.handle(_LINE), qdiscs.handle(_LINE, 1), qdiscs.handle(_SCHEDULER)
        burst_ns = 0 if kernel.cpu_work_takes_no_time() else _BURST_NS
        return [
            qdiscs.htb(self.interface, root, 1),
            qdiscs.htb_class(self.interface, root, line, rate=self.rate, burst_ns=burst_ns, quantum=self._frame),
            qdiscs.htb(self.interface, scheduler, _CLASS, parent=line),
            *([self._queue(_PAUSE, self._frame, 0)] if self.line is Line.REAL else []),
            *self._classes(self._scheduling(None)),
        ]

    def _queue(self, minor: int, quantum: int, level: int) -> Message:
        """Return the class of a queue, which may always send: it is only asked when the line is free."""
        scheduler = qdiscs.handle(_SCHEDULER)
        return qdiscs.htb_class(
            self.interface,
            scheduler,
            scheduler | minor,
            rate=_UNLIMITED,
            burst_ns=_UNLIMITED_NS,
            quantum=quantum,
            level=level,
        )

    def _classes(self, scheduling: Scheduling) -> list[Message]:
        least, most = min(scheduling.weights), max(scheduling.weights)
        # A quantum of less than a frame would not be served in proportion.
        made = []
        for place in self._places:
            queue = place % 8
            if place == self._place(queue, scheduling):
                level, weight = scheduling.levels[queue], scheduling.weights[queue]
            else:  # only frames from before a change can wait here, and they should leave soon
                level, weight = (1 if place >= 8 else SHARED), most
            made.append(self._queue(_CLASS + place, -(-self._frame * weight // least), level))
        return made

    @property
    def _frame(self) -> int:
        """The octets of the longest frame on the wire."""
        return self.mtu + 18 + qdiscs.WIRE_OVERHEAD

    def _watched(self, place: int) -> Message:
        """Return the tbf by which red measures its queue during a pause, too (decision 0305); it delays no frame."""
        return qdiscs.tbf(
            self.interface,
            self._class(place),
            qdiscs.handle(_TBF + place),
            rate=_UNLIMITED,
            burst=_WATCHED_BURST,
            limit=self._room.bytes,
        )

    def _class(self, place: int) -> int:
        return qdiscs.handle(_SCHEDULER, _CLASS + place)

    def _watch(self, place: int) -> int:
        return qdiscs.handle(_TBF + place, 1)

    def _limit(self, place: int) -> Size:
        """Return the most octets that wait in a place."""
        curve = self.settings.ecn.get(place % 8)
        return curve.limit or self._room if curve else self._room

    @property
    def _room(self) -> Size:
        return _MOST if self.buffer is None else min(self.buffer + _OWN_FRAMES, _MOST)

    def _below_red(self, place: int) -> int:
        return qdiscs.handle(_RED + place, 1) if place % 8 in self.settings.ecn else self._class(place)

    def _plug_parent(self, place: int) -> int:
        return qdiscs.handle(_NETEM + place, 1) if self.frees else self._below_red(place)

    def _plug(self, place: int, spare: bool = False) -> int:
        return qdiscs.handle((_SPARE_PLUG if spare else _PLUG) + place)
