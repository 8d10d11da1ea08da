"""A rate control as code, run by the interpreter of the kernel's library, beside its class in Python."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable
from typing import Any

from testbed.bytecode import code
from testbed.bytecode.values import Const, Items, Maybe, Num, Series, Value
from testbed.frames.telemetry import Stamp
from testbed.linux.roce_device import C
from testbed.roce.control import rate_code
from testbed.roce.rates import Acknowledgement, RateControl
from testbed.units import NEVER

SENT, CNP, ROUND_TRIP, ACKNOWLEDGED, LOSS, DEADLINE = range(6)


def struct_of(program: Any) -> Any:
    """Return a program as a `struct xc_program`; it keeps its code alive."""
    made = C.xc_program(count=len(program.instructions), cells=program.cells, stamps=program.stamps)
    made.entries[:] = program.entries
    made.kept = ctypes.create_string_buffer(program.octets, len(program.octets))
    made.code = ctypes.addressof(made.kept)
    return made


class Interpreted:
    """A rate control in a queue pair of the library."""

    def __init__(self, library: Any, control: RateControl) -> None:
        self._library, self.lowered = library, rate_code.lowered(control)
        self._program = struct_of(self.lowered.program)
        assert library.xc_fits(ctypes.byref(self._program))
        self.frame = bytearray(rate_code.frame(self.lowered, control))
        self._cells = (ctypes.c_char * len(self.frame)).from_buffer(self.frame)
        self.pair = C.xr_queue_pair(program=ctypes.addressof(self._program), frame=ctypes.addressof(self._cells))
        self.pair.rate.rate_bps, self.pair.rate.deadline_ns = control.rate_lab_bps, min(control.deadline_lab_ns, NEVER)
        self.pair.rate.window = control.window or 0

    def tell(self, kind: int, now_ns: int, stamps: tuple[Stamp, ...] = (), **values: int) -> None:
        """Let an event happen, if the class has a method for it."""
        if self.lowered.program.entries[kind] == code.NO_ENTRY:
            return
        area = b"".join(struct.pack("!4I", *stamp) for stamp in stamps)
        room = ctypes.create_string_buffer(area, len(area) + 1)
        event = C.xr_event(kind=kind, now_ns=now_ns, stamps_count=len(stamps), stamps=ctypes.addressof(room), **values)
        self._library.xc_tell(ctypes.byref(self.pair), ctypes.byref(event))

    @property
    def fault(self) -> str:
        """What has ended an event, and where; empty if nothing has."""
        rate = self.pair.rate
        return self.lowered.program.fault(rate.fault, rate.fault_at) if rate.fault else ""

    def shown(self, now_ns: int) -> dict[str, float]:
        """Return what a recorder shows."""
        state = (ctypes.c_double * code.MOST_STATE)()
        self._library.xc_show(ctypes.byref(self._program), self._cells, ctypes.c_int64(now_ns), state)
        return {name: state[place] for place, (name, _) in enumerate(self.lowered.program.shown)}

    def state(self, name: str) -> Any:
        """Return an attribute, as Python has it."""
        return value_of(self.lowered.states[name], self.frame)


def value_of(value: Value, frame: bytearray) -> Any:
    """Return what is in the cells of a frame, as Python has it."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Num):
        return cells(frame, value.cell, value.kind)[0]
    if isinstance(value, Maybe):
        return value_of(value.value, frame) if value_of(value.flag, frame) else None
    if isinstance(value, Items):
        return tuple(value_of(one, frame) for one in value.items)
    assert isinstance(value, Series)
    shape = value.shape
    many = shape.most if value.length is None else value_of(value.length, frame)
    columns = [cells(frame, value.first + number * shape.most, kind, many) for number, kind in enumerate(shape.kinds)]
    items = list(zip(*columns, strict=True)) if shape.of is not None else list(columns[0])
    return items if shape.is_list else tuple(items)


def cells(frame: bytearray, first: int, kind: str, many: int = 1) -> tuple[Any, ...]:
    """Return the numbers of so many cells one after the other."""
    return struct.unpack_from(f"={many}{'d' if kind == 'float' else 'q'}", frame, 8 * first)


def differences(control: RateControl, own: Interpreted) -> dict[str, tuple[Any, Any]]:
    """Return the state in which the class and its code differ, bit for bit."""
    found = {name: (getattr(control, name), own.state(name)) for name in own.lowered.states}
    rate = own.pair.rate
    found["rate"] = control.rate_lab_bps, rate.rate_bps
    found["deadline"] = min(control.deadline_lab_ns, NEVER), rate.deadline_ns
    found["given window"] = control.window or 0, rate.window
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


class Events:
    """Random events for a class and its code: of all kinds, with pauses from nothing to a fifth of a second.

    `long_pauses` is the share of those from 60 ms on. On a line without a scale they are rare: each is thousands of
    steps of a timer there.
    """

    def __init__(self, seed: int, control: RateControl, own: Interpreted, long_pauses: float = 0.2) -> None:
        self._long_pauses = long_pauses
        self._dice, self._control, self._own = random.Random(seed), control, own
        self.now_ns, self._until, self._sent = 1_000_000_000, 0, 0
        self.count = 0
        self._stamps = [Stamp(0, 0, 0, 100_000)] * 3

    def run(self, many: int, check: Callable[[], None]) -> None:
        """Let so many events happen, and check after each of them."""
        while self.count < many:
            self._step()
            check()

    def _step(self) -> None:
        dice, control, own = self._dice, self._control, self._own
        is_long = dice.random() < self._long_pauses
        self.now_ns += (60_000_000 if is_long else dice.choice((0, 100, 50_000, 1_000_000))) * dice.randint(0, 3)
        now_ns = self.now_ns
        for _ in range(64):
            if control.deadline_lab_ns > now_ns:
                break
            control.on_deadline(now_ns)
            own.tell(DEADLINE, now_ns)
            self.count += 1
        kind = dice.choices((SENT, CNP, ROUND_TRIP, ACKNOWLEDGED, LOSS), (60, 8, 10, 20, 2))[0]
        self.count += 1
        round_trip_ns = dice.randint(20_000_000, 90_000_000)
        if kind == SENT:
            octets = dice.choice((66, 1130, 1130, 4186))
            self._sent += 1
            control.on_sent(now_ns, octets)
            own.tell(SENT, now_ns, octets=octets)
        elif kind == CNP:
            control.on_cnp(now_ns)
            own.tell(CNP, now_ns)
        elif kind == ROUND_TRIP:
            control.on_round_trip(now_ns, round_trip_ns)
            own.tell(ROUND_TRIP, now_ns, round_trip_ns=round_trip_ns)
        elif kind == LOSS:
            control.on_loss(now_ns)
            own.tell(LOSS, now_ns)
        else:
            packets = dice.randint(1, 4)
            self._until += packets
            known = None if dice.random() < 0.1 else round_trip_ns
            stamps = self._stamped()
            if control.counts_acknowledgements:
                control.on_acknowledged(now_ns, Acknowledgement(packets, self._until, self._sent, known, stamps))
            own.tell(ACKNOWLEDGED, now_ns, stamps, packets=packets, until=self._until, next=self._sent,
                     round_trip_ns=-1 if known is None else known)  # fmt: skip

    def _stamped(self) -> tuple[Stamp, ...]:
        dice = self._dice
        if not self._control.needs_telemetry or dice.random() < 0.02:
            return ()
        if dice.random() < 0.02:
            self._stamps = self._stamps[: dice.randint(1, 3)] + [Stamp(0, 0, 0, 0)] * dice.randint(0, 12)
        self._stamps = [
            Stamp(self.now_ns % (1 << 32), dice.choice((0, dice.randrange(300_000))),
                  (one.sent_octets + dice.randrange(100_000)) % (1 << 32), dice.choice((100_000, 10_000)))
            for one in self._stamps
        ]  # fmt: skip
        return tuple(self._stamps)
