"""A port's queueing disciplines: which requests make them, and which stop and restart a queue.

Switch and router ports share the line: htb with one class per queue below a class of line rate, strict ones first and
the others by their shares. Host ports have a hardware queue per priority (mqprio), each at line rate by itself as a
card with a scheduler per queue would be; a host that runs ETS shares its line as a switch does. Either way a queue ends
in red (where it has ECN) and plug, its pause point. MAC control frames and LLDP of the node's agent pass all of them.

Queue n is that of local priority n, unless ETS puts several priorities into one traffic class: then class n has queue
n, all of it, and a pause of one of its priorities stops it (decision 0160).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from testbed.agent.plan import Arrangement
from testbed.ecn.curve import EcnCurve
from testbed.ecn.red import red_parameters
from testbed.frames.dcbx.values import Ets
from testbed.linux import qdiscs
from testbed.linux.netlink import Message
from testbed.net.port import Port
from testbed.net.scheduling import SHARED, Scheduling
from testbed.units import Duration, Rate, Size

PRIORITIES = range(8)
CONTROL_QUEUE = 8

_ROOT = 1
_LINE = 0x1
_CLASS, _TBF, _RED, _PLUG, _SPARE_PLUG, _NETEM = 0x10, 0x10, 0x20, 0x30, 0x40, 0x50
_NONE = Rate("8b/s")
_UNLIMITED = Rate("4Gb/s") * 8
_OWN_FRAMES = Size.from_bytes(64 << 20)
"""Room beside the buffer for what a switch or router sends itself, which its buffer does not charge."""
_MOST = Size.from_bytes(0xFFFF_FFFF - 0xFFFF)
"""Qdiscs count the octets that wait in 32 bits, and add a frame to them before they compare."""
_WATCHED_BURST = 1 << 20
_AT_ONCE = Duration("1ns")
_BURST_NS = 20_000
"""How late the kernel may be without losing line rate; a faster burst than this never leaves a port."""


@dataclass(frozen=True)
class Queues:
    """The arrangement of one port."""

    interface: int
    rate: Rate
    settings: Port
    is_host: bool
    frees: bool = False
    """True if a frame leaves its sender's account here. A cable with a delay does that; without one, the switch."""
    mtu: int = 1500
    buffer: Size | None = None
    """The room in the node's buffer, which decides what is dropped, so that a queue takes all that it admits. None: the
    node has no buffer, and the sockets of its programs limit what waits."""

    def messages(self) -> list[Message]:
        """The requests that make it."""
        made = self._shared() if self.shares_line else self._host()
        for place in self._places:
            if curve := self.settings.ecn.get(place % 8):
                if self.shares_line:
                    made.append(self._watched(place))
                parameters = red_parameters(curve, plug_below=True).attributes()
                made.append(qdiscs.red(self.interface, self._class(place), qdiscs.handle(_RED + place), parameters))
            if self.frees:
                own = qdiscs.handle(_NETEM + place)
                made.append(qdiscs.netem(self.interface, own, _AT_ONCE, parent=self._below_red(place)))
            made += qdiscs.plug(self.interface, self._plug_parent(place), self._plug(place), self._limit(place).bytes)
        return made

    @property
    def shares_line(self) -> bool:
        """Has the port one scheduler for all its queues?"""
        dcbx = self.settings.dcbx
        return not self.is_host or bool(dcbx and dcbx.ets) or self.settings.vls is not None

    def arrange(self, ets: Ets | None = None) -> Arrangement:
        """The queue of each local priority, and what gives queues their shares; None: as the settings have it."""
        return self.arranged(self._scheduling(ets))

    def arranged(self, scheduling: Scheduling) -> Arrangement:
        """The same by any scheduling."""
        if not self.shares_line:
            return Arrangement(tuple(PRIORITIES), tuple(PRIORITIES), ())
        return Arrangement(
            scheduling.queue_of,
            tuple(qdiscs.handle(_ROOT, _CLASS + self._place(queue, scheduling)) for queue in scheduling.queue_of),
            tuple(replace(message, create=False) for message in self._classes(scheduling)),
        )

    def served(self, classes: Mapping[int, tuple[int, int]], scheduling: Scheduling) -> dict[int, tuple[int, int]]:
        """(level, quantum) of each queue as the kernel has it: of the class that such a scheduling uses, out of all
        classes of the interface."""
        found = {}
        for queue in PRIORITIES:
            own = qdiscs.handle(_ROOT, _CLASS + self._place(queue, scheduling))
            if own in classes:
                found[queue] = classes[own]
        return found

    @property
    def control(self) -> int:
        """The kernel's priority that passes all queues."""
        return qdiscs.handle(_ROOT) if self.shares_line else CONTROL_QUEUE

    def pausing(self, queue: int, stop: bool) -> bytes:
        """The request that stops or restarts a queue, ready to send."""
        places = self._places_of(queue)
        return b"".join(qdiscs.pausing(self.interface, self._plug_parent(place), stop) for place in places)

    def red_handles(self, queue: int) -> list[int]:
        """The handles of the qdiscs that mark, if the queue has ECN."""
        return [qdiscs.handle(_RED + place) for place in self._places_of(queue)]

    def marking(self, queue: int, curve: EcnCurve) -> list[Message]:
        """The requests that give a queue with ECN another curve; the frames in it stay."""
        parameters = red_parameters(curve, plug_below=True).attributes()
        return [
            qdiscs.red(self.interface, self._class(place), qdiscs.handle(_RED + place), parameters)
            for place in self._places_of(queue)
        ]

    def emptied(self, queue: int) -> bytes:
        """The request that throws away what a queue holds and leaves it stopped.

        It is two in one, for a new pause point needs another handle than the old one's: the queue ends with its usual
        one.
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
        """Where frames wait: a queue's place is its number, and among strict classes eight more."""
        rescheduled = self.settings.dcbx or self.settings.vls is not None
        return range(2 * 8) if self.shares_line and rescheduled else PRIORITIES

    def _places_of(self, queue: int) -> range:
        return self._places[queue::8]

    def _place(self, queue: int, scheduling: Scheduling) -> int:
        return self._places_of(queue)[-1] if queue in scheduling.strict else queue

    def _scheduling(self, ets: Ets | None) -> Scheduling:
        dcbx = self.settings.dcbx
        if ets is None and dcbx and dcbx.ets:
            ets = dcbx.ets.table
        return Scheduling.of_port(self.settings) if ets is None else Scheduling.of_ets(ets)

    def _shared(self) -> list[Message]:
        root, line = qdiscs.handle(_ROOT), qdiscs.handle(_ROOT, _LINE)
        return [
            qdiscs.htb(self.interface, root, _CLASS),
            qdiscs.htb_class(
                self.interface, root, line, rate=self.rate, ceil=self.rate, burst_ns=_BURST_NS, quantum=self._frame
            ),
            *self._classes(self._scheduling(None)),
        ]

    def _classes(self, scheduling: Scheduling) -> list[Message]:
        least, most = min(scheduling.weights), max(scheduling.weights)
        # Next to no rate of its own: a class gets what it borrows from the line, strict ones before the others, and
        # these by quanta. A quantum of less than a frame would not be served in proportion.
        made = []
        for place in self._places:
            queue = place % 8
            if place == self._place(queue, scheduling):
                level, weight = scheduling.levels[queue], scheduling.weights[queue]
            else:  # it can only have frames from before, which are to go soon
                level, weight = (0 if place >= 8 else SHARED), most
            made.append(
                qdiscs.htb_class(
                    self.interface,
                    qdiscs.handle(_ROOT, _LINE),
                    qdiscs.handle(_ROOT, _CLASS + place),
                    rate=_NONE,
                    ceil=_UNLIMITED,
                    burst_ns=1,
                    quantum=-(-self._frame * weight // least),
                    level=level,
                )
            )
        return made

    def _host(self) -> list[Message]:
        queue_of = [*PRIORITIES, *[CONTROL_QUEUE] * 8]
        made = [qdiscs.mqprio(self.interface, qdiscs.handle(_ROOT), queue_of, CONTROL_QUEUE + 1)]
        for priority in PRIORITIES:
            made.append(
                qdiscs.tbf(
                    self.interface,
                    qdiscs.handle(_ROOT, priority + 1),
                    qdiscs.handle(_TBF + priority),
                    rate=self.rate,
                    burst=self._frame,
                    limit=self._room.bytes,
                )
            )
        return made

    @property
    def _frame(self) -> int:
        """The longest frame on the wire."""
        return self.mtu + 18 + qdiscs.WIRE_OVERHEAD

    def _watched(self, place: int) -> Message:
        """What makes red measure the queue also during a pause (decision 0305): it never holds a frame back."""
        return qdiscs.tbf(
            self.interface,
            qdiscs.handle(_ROOT, _CLASS + place),
            qdiscs.handle(_TBF + place),
            rate=_UNLIMITED,
            burst=_WATCHED_BURST,
            limit=self._room.bytes,
        )

    def _class(self, place: int) -> int:
        if self.shares_line and place % 8 not in self.settings.ecn:
            return qdiscs.handle(_ROOT, _CLASS + place)
        return qdiscs.handle(_TBF + place, 1)

    def _limit(self, place: int) -> Size:
        """What a place holds at most."""
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
