"""Marking rules as code: the interpreter of the kernel's library against the classes in Python, bit for bit."""

from __future__ import annotations

import ctypes
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from experiments.switch_rules.l4s_dual_queue import Coupled
from experiments.switch_rules.pi_marking import Pi
from testbed.bytecode.lowering import lower
from testbed.bytecode.sharing import frame_of
from testbed.linux.roce_device import C
from testbed.switch.rules.marking import MarkingRule, PortLine, QueuedFrame
from testbed.switch.rules.rule_code import RuleLowering
from testbed.units import Rate, Scale
from tests.lab.roce.interpreted import struct_of, value_of

LINE = PortLine(Rate("10Mb/s"), Scale(1000), "s1-eth2", 7)
ARRIVES, DEPARTS = range(2)

pytestmark = pytest.mark.engines("um")


class Averaged(MarkingRule):
    """RED with an average and a count of its own, a list for each queue, None, and the random numbers of the port."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.average = 0.0
        self.since = [0] * 8
        self.worst_lab_ns: int | None = None
        self.idle_lab_ns = line.lab_ns("20us")
        self.last_lab_ns = 0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        if frame.now_lab_ns - self.last_lab_ns > self.idle_lab_ns:
            self.average /= 2
        self.last_lab_ns = frame.now_lab_ns
        self.average += (frame.queued_octets - self.average) / 16
        if self.average < 5_000 or frame.ecn == 0:
            return False
        self.since[frame.queue] += 1
        if self.chance() * 40_000 < self.average * self.since[frame.queue] / 8:
            self.since[frame.queue] = 0
            return True
        return False

    def on_departure(self, frame: QueuedFrame) -> bool:
        if self.worst_lab_ns is None or frame.waited_lab_ns > self.worst_lab_ns:
            self.worst_lab_ns = frame.waited_lab_ns
            return frame.queued_frames > 3
        return False

    def state(self) -> dict[str, float]:
        return {"average": self.average, "worst": 0 if self.worst_lab_ns is None else self.worst_lab_ns}


def compare(library: Any, kind: type[MarkingRule], events: int, seed: int) -> int:
    """Ask a class and its code of the same random frames, and compare the answers and all state; return the marks."""
    rule, other = kind(LINE), kind(LINE)
    made = lower(RuleLowering, other)
    program = struct_of(made.program)
    assert library.xc_fits(ctypes.byref(program))
    frame = frame_of(made, other)
    cells = (ctypes.c_char * len(frame)).from_buffer(frame)
    answer, stopped = ctypes.c_uint32(), ctypes.c_uint32()
    dice, now_lab_ns, marks = random.Random(seed), 10**9, 0
    for number in range(events):
        now_lab_ns += dice.choice((0, 1, 800_000, 1_200_000, 50_000_000))
        waits = dice.choice((0, dice.randrange(200_000)))
        told = QueuedFrame(
            now_lab_ns, dice.choice((3, 4)), dice.randrange(60, 4200), dice.randrange(4), waits, -(-waits // 1100),
            dice.randrange(90_000_000),
        )  # fmt: skip
        event = dice.randrange(2)
        about = C.xs_frame(**{name.replace("_lab_", "_"): getattr(told, name) for name in told.__dataclass_fields__})
        if made.program.entries[event] == 2**32 - 1:
            continue
        fault = library.xs_ask(
            ctypes.byref(program), event, cells, ctypes.byref(about), ctypes.byref(answer), ctypes.byref(stopped)
        )
        assert not fault, made.program.fault(fault, stopped.value)
        wanted = rule.on_departure(told) if event == DEPARTS else rule.on_arrival(told)
        assert answer.value == wanted, number
        marks += wanted
        for name, storage in made.states.items():
            assert value_of(storage, frame) == getattr(rule, name), (number, name)
    shown = (ctypes.c_double * 8)()
    library.xc_show(ctypes.byref(program), cells, ctypes.c_int64(now_lab_ns), shown)
    assert dict(zip(rule.state(), shown, strict=False)) == rule.state()
    return marks


@pytest.mark.parametrize(("kind", "marks"), [(Averaged, 1000), (Coupled, 1000), (Pi, 20)])
def test_a_rule_and_its_code_are_equal_bit_for_bit(library_file: Path, kind: type[MarkingRule], marks: int) -> None:
    assert compare(ctypes.CDLL(str(library_file)), kind, 40_000, 3) > marks


@pytest.mark.long
@pytest.mark.parametrize("kind", [Averaged, Coupled])
def test_a_rule_and_its_code_are_equal_in_a_million_events(library_file: Path, kind: type[MarkingRule]) -> None:
    assert compare(ctypes.CDLL(str(library_file)), kind, 1_000_000, 11) > 25_000


def test_a_fault_is_that_of_the_line_in_the_class(library_file: Path) -> None:
    library = ctypes.CDLL(str(library_file))
    rule = Divides(LINE)
    made = lower(RuleLowering, rule)
    program, frame = struct_of(made.program), frame_of(made, rule)
    cells = (ctypes.c_char * len(frame)).from_buffer(frame)
    answer, stopped = ctypes.c_uint32(), ctypes.c_uint32()
    about = C.xs_frame(queue=3, octets=100)
    fault = library.xs_ask(
        ctypes.byref(program), ARRIVES, cells, ctypes.byref(about), ctypes.byref(answer), ctypes.byref(stopped)
    )
    lines = Path(__file__).read_text().splitlines()
    line = next(at for at, text in enumerate(lines, 1) if text.strip().startswith("return 60_000"))
    assert made.program.fault(fault, stopped.value) == f"a division by 0, at test_rule_code.py:{line}"
    assert struct.unpack_from("=q", frame, 8 * 3)[0] == 100


class Divides(MarkingRule):
    """A fault at an empty queue."""

    def on_arrival(self, frame: QueuedFrame) -> bool:
        return 60_000 // frame.queued_octets < 3
