"""A rate control as code: its event methods, and what the kernel's queue pairs need of it beside them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from testbed.bytecode import code
from testbed.bytecode.code import Program
from testbed.bytecode.lowering import Lowered, Lowering, lower
from testbed.bytecode.sharing import frame_of, lowered_of
from testbed.bytecode.values import BOOL, FLOAT, INT, Const, Maybe, Num, OrNone, Record, Refusal, Rows, Series, Value
from testbed.frames.telemetry import Stamp
from testbed.roce.control import cells
from testbed.roce.rates.base import Acknowledgement, RateControl
from testbed.units import NEVER

_STAMPS = Rows((INT,) * 4, Stamp, cells.MOST_STAMPS, varies=True)


@dataclass(frozen=True)
class Code:
    """A rate control as code: the program of its class, and its own frame at the start."""

    program: Program
    frame: bytes
    numbers: dict[str, float]
    """The values that the queue pair needs of it, by name as in `struct xr_rate`."""


class RateLowering(Lowering):
    """The lowering of rate controls."""

    control: RateControl
    kind = "rate control"
    methods = cells.EVENTS
    pinned: ClassVar = {
        "rate_lab_bps": (FLOAT, Num(cells.RATE, FLOAT)),
        "window": (OrNone(INT), Maybe(Num(cells.HAS_WINDOW, BOOL), Num(cells.WINDOW, INT))),
    }
    inputs = range(cells.NOW, code.FIRST)

    def _arrays(self) -> int:
        if not self.control.needs_telemetry:
            return 0
        first = self._new(4 * cells.MOST_STAMPS)
        self.given.add(first)
        return first

    def _is_told(self, name: str) -> bool:
        return self._is_own(name) and (name != "on_acknowledged" or self.control.counts_acknowledgements)

    def _is_own(self, name: str) -> bool:
        return getattr(type(self.control), name) is not getattr(RateControl, name)

    def _event(self, name: str) -> None:
        arguments: list[Value] = [Num(cells.NOW, INT)]
        if name == "on_sent":
            arguments.append(Num(cells.OCTETS, INT))
        elif name == "on_round_trip":
            arguments.append(Num(cells.ROUND_TRIP, INT))
        elif name == "on_acknowledged":
            arguments.append(self._acknowledgement())
        self._method(name, arguments)
        if self._is_own("deadline_lab_ns"):
            deadline = self._attribute_of(Const(self.control, ()), "deadline_lab_ns")
            self._move(Num(cells.DEADLINE, INT), deadline)
        self._emit("RET")

    def _acknowledgement(self) -> Value:
        stamps: Value = Const(())
        if self.stamps:
            stamps = Series(self.stamps, _STAMPS, Num(cells.STAMPS, INT))
        fields: dict[str, Value] = {
            "packets": Num(cells.PACKETS, INT),
            "until": Num(cells.UNTIL, INT),
            "next": Num(cells.NEXT, INT),
            "round_trip_lab_ns": Maybe(Num(cells.HAS_ROUND_TRIP, BOOL), Num(cells.ROUND_TRIP, INT)),
            "stamps": stamps,
        }
        assert fields.keys() == Acknowledgement.__dataclass_fields__.keys()
        return Record(fields, "an acknowledgement")

    def _show(self, shown: list[tuple[str, str]]) -> None:
        self._method("settle", [Num(cells.NOW, INT)])
        super()._show(shown)


def lowered(control: RateControl) -> Lowered:
    """Return a rate control as code, or say what has none."""
    return lower(RateLowering, control)


def frame(made: Lowered, control: RateControl) -> bytes:
    """Return the cells of a rate control as they are at its start."""
    at_first = frame_of(made, control)
    struct.pack_into("=q", at_first, 8 * cells.DEADLINE, min(control.deadline_lab_ns, NEVER))
    return bytes(at_first)


def code_of(control: RateControl) -> Code | Refusal:
    """Return a rate control as code, or what cannot be lowered and where."""
    made = lowered_of(RateLowering, control)
    if isinstance(made, Refusal):
        return made
    return Code(made.program, frame(made, control), {
        "rate_bps": control.rate_lab_bps,
        "line_bps": control.line.rate.bps,
        "wants": made.program.wants,
        "counts_acknowledgements": control.counts_acknowledgements,
        "needs_telemetry": control.needs_telemetry,
        "window": control.window or 0,
        "deadline_ns": min(control.deadline_lab_ns, NEVER),
    })  # fmt: skip
