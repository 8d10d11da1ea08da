"""Classes of rate controls as code: what has code, what has none and where, and what those of a class share."""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import testbed
from testbed.bytecode import code
from testbed.bytecode.code import NO_ENTRY, NUMBERS, SHOW
from testbed.bytecode.values import Refusal
from testbed.roce import rates
from testbed.roce.control import cells as fixed
from testbed.roce.control.rate_code import Code, code_of
from testbed.roce.control.rate_code import lowered as lower
from testbed.roce.rates import Dcqcn, Line, RateControl
from testbed.roce.rates.dcqcn import PAPER
from testbed.units import Rate, Scale, Size

LINE = Line(Rate("10Mb/s"), Scale(1000))
_HEADER = (Path(testbed.__path__[0]) / "lab/um/linux/xoff_control_vm.h").read_text()


def code_for(maker: Callable[[Line], RateControl], line: Line = LINE) -> Code:
    made = code_of(maker(line))
    assert isinstance(made, Code), made
    return made


def refusal(kind: Callable[[Line], RateControl]) -> str:
    made = code_of(kind(LINE))
    assert isinstance(made, Refusal)
    return str(made)


def line_of(kind: type, text: str) -> int:
    """Return the line of this file at which a class has some text."""
    lines, first = inspect.getsourcelines(kind)
    return first + next(place for place, line in enumerate(lines) if text in line)


# The header in C


def test_operations_have_the_numbers_and_the_fields_of_the_header_in_c() -> None:
    listed = re.findall(r'X\((\w+), "(...)"\)', _HEADER)
    assert dict(listed) == code.FORMS
    assert [name for name, _ in listed] == list(NUMBERS)


def test_fixed_cells_faults_and_limits_are_those_of_the_header_in_c() -> None:
    (cells,) = re.findall(r"enum xc_cell \{([^}]*)\}", _HEADER)
    names = re.findall(r"XC_(\w+)", cells)
    assert [getattr(fixed, name.removesuffix("_COUNT"), code.STATE) for name in names] == list(range(len(names)))
    (faults,) = re.findall(r"enum xc_fault \{([^}]*)\}", _HEADER)
    named = re.findall(r"XC_(\w+)", faults)
    assert len(named) == len(code.FAULTS)
    for name in ("INDEX", "NOTHING", "UNEQUAL", "RAISED"):
        assert getattr(code, name) == named.index(name)
    macros = dict(re.findall(r"#define XC_(\w+) (\d+)\b", _HEADER))
    limits = {"MOST_CELLS": code.MOST_CELLS, "MOST_CODE": code.MOST_CODE, "STAMPS": fixed.MOST_STAMPS, "SHOW": SHOW}
    assert {name: int(macros[name]) for name in limits} == limits


# What has code


@pytest.mark.parametrize(
    "name", ["fixed", "dcqcn", "dcqcn-mlx", "dcqcn-connectx", "dcqcn-e810", "timely", "swift", "hpcc"]
)
def test_every_rate_control_of_xoff_has_code(name: str) -> None:
    assert isinstance(code_of(rates.control(name, LINE)), Code)


class Halving(RateControl):
    """That of the guide."""

    needs_marks = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self._until_ns = 1 << 62

    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps /= 2
        self._until_ns = now_lab_ns + self.line.lab_ns("100us")

    @property
    def deadline_lab_ns(self) -> int:
        return self._until_ns

    def on_deadline(self, now_lab_ns: int) -> None:
        self.rate_lab_bps, self._until_ns = self.line.rate.bps, 1 << 62


def test_a_program_has_an_entry_for_each_event_of_the_class_and_one_for_recorders() -> None:
    program = code_for(Halving).program
    assert [entry != NO_ENTRY for entry in program.entries] == [False, True, False, False, False, True, True]
    assert program.wants == 1 << 1 | 1 << 5
    assert program.shown == (("rate_lab_bps", "float"),)


def test_an_instruction_knows_its_line() -> None:
    program = code_for(Halving).program
    assert program.instructions[program.entries[1]].operation == "DIVF"
    place = program.places[program.entries[1]]
    assert (place.file, place.line) == (__file__, line_of(Halving, "self.rate_lab_bps /= 2"))
    assert program.fault(2, program.entries[1]) == f"a division by 0, at test_lowering.py:{place.line}"


# What those of a class share


def test_rate_controls_of_a_class_have_one_program_and_frames_of_their_own() -> None:
    one, other = code_for(Halving), code_for(Halving)
    assert one.program is other.program
    assert one.frame == other.frame
    changed = Halving(LINE)
    changed._until_ns = 5
    third = code_of(changed)
    assert isinstance(third, Code)
    assert third.program is one.program
    assert third.frame != one.frame


def test_other_constants_are_another_program_or_other_cells() -> None:
    whole = code_for(Dcqcn)
    assert code_for(lambda line: Dcqcn(line, PAPER)).program is whole.program
    small = code_for(lambda line: Dcqcn(line, replace(PAPER, byte_counter=Size("1kB"))))
    assert small.frame != whole.frame
    without = code_for(lambda line: Dcqcn(line, replace(PAPER, byte_counter=None)))
    assert len(without.program.instructions) < len(whole.program.instructions)


# What has no code


class Logarithm(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = math.log(self.rate_lab_bps)


class Drawn(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = random.random() * self.rate_lab_bps


class Kept(RateControl):
    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.history: list[int] = []

    def on_cnp(self, now_lab_ns: int) -> None:
        self.history.append(now_lab_ns)


class Named(RateControl):
    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.phase: object = "slow"

    def on_cnp(self, now_lab_ns: int) -> None:
        self.phase = "fast"


class Trying(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        try:
            self.rate_lab_bps /= 2
        except ZeroDivisionError:
            self.rate_lab_bps = 1.0


class FloatWindow(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        self.window = self.rate_lab_bps / 2  # type: ignore[assignment]


class ForEver(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = self.again(self.rate_lab_bps)

    def again(self, rate: float) -> float:
        return self.again(rate)


@pytest.mark.parametrize(
    ("kind", "where", "why"),
    [
        (Logarithm, "math.log", "math.log() has no code"),
        (Drawn, "random.random", "random.random() has no code"),
        (Kept, "append", "self.history.append() has no code"),
        (Named, 'self.phase = "fast"', "self.phase is 'slow', and is set: numbers can be state"),
        (Trying, "try:", "`try:` has no code"),
        (FloatWindow, "self.window =", "self.window is int or None, and here float"),
    ],
)
def test_what_has_no_code_is_named_with_its_line(kind: type[RateControl], where: str, why: str) -> None:
    assert refusal(kind) == f"test_lowering.py:{line_of(kind, where)}: {why}"


def test_a_method_that_calls_itself_has_no_code() -> None:
    assert "ForEver.again calls itself" in refusal(ForEver)


def test_a_class_without_source_has_no_code() -> None:
    made: dict[str, type[RateControl]] = {}
    exec("class Typed(RateControl):\n    def on_cnp(self, now_lab_ns):\n        self.rate_lab_bps /= 2\n",
         {"RateControl": RateControl, "__name__": "typed"}, made)  # fmt: skip
    assert refusal(made["Typed"]) == "the source of Typed.on_cnp is not at hand"


def test_a_refusal_is_told_once_for_a_class() -> None:
    assert code_of(Drawn(LINE)) is code_of(Drawn(LINE))


def test_a_shape_that_a_later_line_needs_is_that_of_all() -> None:
    class Widening(RateControl):
        def __init__(self, line: Line) -> None:
            super().__init__(line)
            self.last: float | None = None
            self.count: float = 0

        def on_cnp(self, now_lab_ns: int) -> None:
            self.count += 1
            self.last = None if self.count > 3 else now_lab_ns
            self.count = self.count / 2

    lowered = lower(Widening(LINE))
    assert {name: str(value) for name, value in lowered.states.items() if name in ("last", "count")}.keys() == {
        "last",
        "count",
    }
    assert "float" in str(lowered.states["count"])
