"""Rate controls as code: the interpreter of the kernel's library against the classes in Python, bit for bit."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import testbed
from experiments.templates.rate_control import NewThing
from testbed.linux.roce_device import C
from testbed.roce import rates
from testbed.roce.rates import Acknowledgement, Line, RateControl
from testbed.roce.rates.dcqcn import PAPER, Dcqcn
from testbed.units import Rate, Scale

from .interpreted import ACKNOWLEDGED, CNP, DEADLINE, ROUND_TRIP, SENT, Events, Interpreted, differences

_HEADERS = Path(testbed.__path__[0]) / "lab/um/linux"
LINES = (Line(Rate("10Mb/s"), Scale(1000)), Line(Rate("100Gb/s"), Scale(1)))
EVENTS = 40_000

pytestmark = pytest.mark.engines("um")


class Remembering(RateControl):
    """A list, tuples, loops, None, and a helper of this module: all that has code."""

    counts_acknowledgements = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.trips = [0] * 8
        self.place = 0
        self.last: tuple[int, float] | None = None
        self.worst: int | None = None

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        trip_ns = acknowledged.round_trip_lab_ns
        if trip_ns is None:
            return
        self.trips[self.place % len(self.trips)] = trip_ns
        self.trips[-1] += 1
        self.place += 1
        total, count = 0, 0
        for one in self.trips:
            if not one:
                continue
            total += one
            count += 1
            if count == 5 and one & 1:
                break
        mean = total / count
        if self.last is not None:
            before_ns, before = self.last
            if 0 < now_lab_ns - before_ns < 10**9 and mean != before:
                self.rate_lab_bps = clamped(self.rate_lab_bps * before / mean, self.line.rate.bps)
        self.last = now_lab_ns, mean
        self.worst = trip_ns if self.worst is None or trip_ns > self.worst else self.worst
        self.window = None if count < 3 else max(1, round(mean / 7e6) ^ 3)

    def on_loss(self, now_lab_ns: int) -> None:
        number = self.place
        while number > 9:
            number = number // 3 - (number % 7 in (2, 5))
        for place in range(7, 0, -2):
            self.trips[place], self.trips[place - 1] = self.trips[place - 1], self.trips[place]
        self.worst = None if number else -number


def clamped(rate: float, most: float, *, least: float = 1000.0) -> float:
    """Return a rate between two others."""
    return least if rate < least else min(rate, most)


KINDS: tuple[Any, ...] = (
    "fixed", "dcqcn", "dcqcn-mlx", "dcqcn-connectx", "timely", "swift", "hpcc", NewThing, Remembering,
)  # fmt: skip


@pytest.fixture(scope="module")
def library(library_file: Path) -> Any:
    """The library that is built with the kernel of `um`."""
    return load(library_file)


def load(file: Path) -> Any:
    made = ctypes.CDLL(str(file))
    made.xr_rate_next.restype = ctypes.c_int64
    return made


def compare(library: Any, maker: Any, line: Line, seed: int, events: int) -> None:
    """Let the same random events happen to a class and to its code, and compare all of their state after each."""
    control, own = rates.control(maker, line), Interpreted(library, rates.control(maker, line))
    happening = Events(seed, control, own, long_pauses=0.2 if line.scale.k > 1 else 0.01)

    def check() -> None:
        assert not own.fault, own.fault
        assert not differences(control, own), (happening.count, differences(control, own))

    happening.run(events, check)
    seen = dict(vars(control))
    control.settle(happening.now_ns)
    shown = own.shown(happening.now_ns)
    assert shown == control.state()
    assert seen.keys() == vars(control).keys()


@pytest.mark.parametrize("line", LINES, ids=["10 Mb/s", "100 Gb/s"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind if isinstance(kind, str) else kind.__name__)
def test_a_class_and_its_code_are_equal_bit_for_bit(library: Any, kind: Any, line: Line) -> None:
    compare(library, kind, line, 7, EVENTS // 2)


class OwnDcqcn(Dcqcn):
    """DCQCN as a class of one's own."""

    def __init__(self, line: Line) -> None:
        super().__init__(line, PAPER)


def compare_with_c(library: Any, events: int) -> None:
    """Let the same events happen to the kernel's own DCQCN and to the code of the class."""
    line = LINES[0]
    _, numbers = Dcqcn(line, PAPER).in_kernel() or (0, {})
    own, dice, now_ns = Interpreted(library, OwnDcqcn(line)), random.Random(3), 0
    rate = C.xr_rate()
    names = ("line_bps", "minimum_bps", "additive_bps", "hyper_bps", "gain", "alpha", "alpha_ns", "increase_ns",
             "decrease_ns", "bytes", "recovery")  # fmt: skip
    parts = {"gain": 1024, "alpha": 1024}
    given = C.xr_dcqcn(**{name: int(numbers[name] * parts.get(name, 1)) for name in names})
    library.xr_dcqcn_start(ctypes.byref(rate), ctypes.byref(given))
    for _ in range(events):
        now_ns += dice.choice((1000, 50_000, 900_000, 5_000_000)) * dice.randint(0, 3)
        i64 = ctypes.c_int64(now_ns)
        if dice.random() < 0.03:
            library.xr_rate_cnp(ctypes.byref(rate), i64)
            own.tell(CNP, now_ns)
        else:
            library.xr_rate_next(ctypes.byref(rate), ctypes.c_int64(0), 0, 1130, i64)
            while own.pair.rate.deadline_ns <= now_ns:
                own.tell(DEADLINE, now_ns)
            own.tell(SENT, now_ns, octets=1130)
        assert (rate.rate_bps, own.pair.rate.fault) == (own.pair.rate.rate_bps, 0)


def test_the_code_of_dcqcn_is_that_of_the_kernel_event_by_event(library: Any) -> None:
    compare_with_c(library, 30_000)


@pytest.mark.long
def test_the_code_of_dcqcn_is_that_of_the_kernel_in_a_million_events(library: Any) -> None:
    compare_with_c(library, 1_000_000)


# Faults


class Faulty(RateControl):
    """A fault of each kind, by the round trip that it is told."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.row = [1, 2, 3]
        self.number = 0
        self.maybe: int | None = None

    def on_round_trip(self, now_lab_ns: int, round_trip_lab_ns: int) -> None:
        what = round_trip_lab_ns
        if what == 1:
            self.number = now_lab_ns * now_lab_ns
        elif what == 2:
            self.rate_lab_bps = 1.0 / self.number
        elif what == 3:
            self.number = int(self.rate_lab_bps * 1e300 * 1e300)
        elif what == 5:
            self.number = self.row[what]
        elif what == 6:
            self.number += self.maybe  # type: ignore[operator]
        elif what == 7:
            self.number = 1 << -what
        elif what == 8:
            while self.number < 1:
                self.rate_lab_bps += 0
        elif what == 9:
            self.rate_lab_bps = -1.0
        elif what == 10:
            self.window = 0
        elif what == 13:
            assert self.number > 0
        self.maybe = 1 if what == 14 else None


@pytest.mark.parametrize(
    ("number", "text", "words"),
    [
        (1, "now_lab_ns * now_lab_ns", "a whole number needs more than 64 bits"),
        (2, "1.0 / self.number", "a division by 0"),
        (3, "int(self.rate_lab_bps", "int() of a number that is not finite"),
        (5, "self.row[what]", "an index outside its sequence"),
        (6, "self.number += self.maybe", "None where a number is needed"),
        (7, "1 << -what", "a shift by less than 0"),
        (8, "while self.number < 1", "a loop without end"),
        (13, "assert self.number", "an assertion that does not hold, or raise"),
    ],
)
def test_a_fault_names_what_and_the_line(library: Any, number: int, text: str, words: str) -> None:
    own = Interpreted(library, Faulty(LINES[0]))
    own.tell(ROUND_TRIP, 10**12, round_trip_ns=number)
    lines = Path(__file__).read_text().splitlines()
    near = {place for place, line in enumerate(lines, 1) if text in line}
    fault, _, line = own.fault.rpartition(", at test_control_code.py:")
    assert fault == words
    assert int(line) in near | {place + 1 for place in near}


@pytest.mark.parametrize(
    ("number", "words"), [(9, "rate_lab_bps is not above 0"), (10, "window is neither None nor 1")]
)
def test_a_rate_or_a_window_that_nothing_can_have_is_a_fault(library: Any, number: int, words: str) -> None:
    own = Interpreted(library, Faulty(LINES[0]))
    own.tell(ROUND_TRIP, 5, round_trip_ns=number)
    assert own.fault.startswith(words)


# Random classes and random programs


def random_class(seed: int) -> str:
    """Return a module with a rate control of random statements, most of them without a fault."""
    dice = random.Random(seed)
    numbers = ["self.a", "self.b", "self.c", "x", "y", "now_lab_ns", "round_trip_lab_ns", "3", "7", "0.5", "-2", "1e3"]

    def expression(depth: int) -> str:
        if depth <= 0 or dice.random() < 0.2:
            return dice.choice(numbers)
        one, other = expression(depth - 1), expression(depth - 1)
        return dice.choice([
            f"({one} + {other})", f"({one} - {other})", f"({one} * 0.25 + {other})", f"({one} / (1 + abs({other})))",
            f"(int({one}) % (1 + abs(int({other}))))", f"(int({one}) // (2 + abs(int({other}))))",
            f"min({one}, {other})", f"max({one}, {other}, 1)", f"({one} if {condition(depth - 1)} else {other})",
            f"({one} or {other})", f"({one} and {other})", f"-{one}", f"abs({one})", f"round({one} / 3)",
            f"math.floor({one} / 4)", f"math.ceil({one} / 4)", f"math.sqrt(abs({one}))", f"self.mix({one}, {other})",
            f"(int({one}) & 255)", f"(int({one}) >> 3)", f"self.row[int({one}) % 4]", f"float({one})",
            f"({one}, {other})[{dice.randint(0, 1)}]", f"(self.d is not None) + {other}",
        ])  # fmt: skip

    def condition(depth: int) -> str:
        one, other = expression(depth), expression(depth)
        return dice.choice([
            f"{one} < {other}", f"{one} <= {other}", f"{one} == {other}", f"{one} != {other}", f"{one} > {other}",
            f"{one} >= {other}", f"not {one}", f"{one} < {other} < {expression(depth)}", f"{one}", "self.d is None",
            f"({one} < 5 and {other} > 2)", f"({one} < 5 or not {other} > 2)", f"int({one}) % 5 in (1, 3)",
        ])  # fmt: skip

    def block(depth: int, indent: str) -> list[str]:
        made: list[str] = []
        for _ in range(dice.randint(1, 4)):
            target = dice.choice(["self.a", "self.b", "self.c", "x", "y", "self.row[1]", "self.row[x_place]"])
            kind = dice.random()
            if kind < 0.5 or depth <= 0:
                made.append(f"{indent}{target} = {bounded(target, expression(2))}")
            elif kind < 0.6:
                made.append(f"{indent}x, y = y, {expression(1)}")
            elif kind < 0.7:
                made.append(f"{indent}self.d = None if {condition(1)} else {expression(1)}")
            elif kind < 0.85:
                made += [f"{indent}if {condition(1)}:", *block(depth - 1, indent + "    ")]
                if dice.random() < 0.6:
                    made += [f"{indent}else:", *block(depth - 1, indent + "    ")]
            elif kind < 0.93:
                made += [f"{indent}for place in range({dice.randint(0, 4)}):", *block(depth - 1, indent + "    ")]
                made.append(f"{indent}    {dice.choice(['continue', 'break', 'pass', 'x += place'])}")
            else:
                made += [f"{indent}for one in self.row:", f"{indent}    y = {bounded('y', 'y + one')}"]
        return made

    def bounded(target: str, text: str) -> str:
        return (
            f"int(min(max({text}, -1e6), 1e6))"
            if target in ("self.a", "self.row[1]", "self.row[x_place]")
            else (f"min(max({text}, -1e9), 1e9) * 1.0")
        )

    return "\n".join([
        "import math", "from testbed.roce.rates import RateControl", "class Random(RateControl):",
        "    def __init__(self, line):", "        super().__init__(line)",
        "        self.a, self.b, self.c, self.d = 1, 2.5, 0.0, None", "        self.row = [5, 6, 7, 8]",
        "    def mix(self, one, other=2):", "        if one > other:", "            return one - other / 2",
        "        return other * 0.5 + one",
        "    def on_round_trip(self, now_lab_ns, round_trip_lab_ns):",
        "        x, y, x_place = 1.0, 2.0, round_trip_lab_ns % 4",
        *block(3, "        "),
        "        self.rate_lab_bps = min(max(abs(x + self.b), 1.0), 1e9)",
    ])  # fmt: skip


def module_of(text: str, folder: Path, name: str) -> Any:
    file = folder / f"{name}.py"
    file.write_text(text + "\n")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    try:
        spec.loader.exec_module(made)
    finally:
        del sys.modules[name]
    return made


def compare_random(library: Any, folder: Path, seeds: range) -> None:
    for seed in seeds:
        text = random_class(seed)
        kind: Callable[[Line], RateControl] = module_of(text, folder, f"random_{seed}").Random
        control, own, dice = kind(LINES[0]), Interpreted(library, kind(LINES[0])), random.Random(seed)
        for now_ns in range(1, 40):
            round_trip_ns = dice.randint(0, 50)
            try:
                control.on_round_trip(now_ns, round_trip_ns)
            except (ArithmeticError, ValueError, TypeError, IndexError):
                own.tell(ROUND_TRIP, now_ns, round_trip_ns=round_trip_ns)
                assert own.fault, text
                break
            own.tell(ROUND_TRIP, now_ns, round_trip_ns=round_trip_ns)
            assert not own.fault, (own.fault, text)
            assert not differences(control, own), (differences(control, own), text)


def test_random_classes_are_equal_to_their_code(library: Any, tmp_path: Path) -> None:
    compare_random(library, tmp_path, range(60))


@pytest.mark.long
def test_many_random_classes_are_equal_to_their_code(library: Any, tmp_path: Path) -> None:
    compare_random(library, tmp_path, range(1000, 6000))


def fuzzed(folder: Path, programs: int, seed: int) -> str:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("this machine has no gcc")
    made = folder / "fuzz"
    flags = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{_HEADERS}"]
    built = subprocess.run(
        [compiler, *flags, "-o", str(made), str(Path(__file__).with_name("control_fuzz.c"))], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if "libasan" in built.stderr or "libubsan" in built.stderr:
        pytest.skip("this machine's gcc has no sanitizers")
    assert built.returncode == 0, built.stderr
    run = subprocess.run([str(made), str(programs), str(seed)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout


def test_random_programs_touch_nothing_but_their_frame(tmp_path: Path) -> None:
    accepted = int(fuzzed(tmp_path, 200_000, 1).split()[0])
    assert accepted > 100_000


@pytest.mark.long
def test_ten_million_random_programs_touch_nothing_but_their_frame(tmp_path: Path) -> None:
    assert int(fuzzed(tmp_path, 10_000_000, 2).split()[0]) > 5_000_000


def test_stamps_of_a_longer_way_are_as_many_as_there_is_room_for(library: Any) -> None:
    own = Interpreted(library, rates.control("hpcc", LINES[0]))
    assert own.lowered.program.stamps
    own.tell(ACKNOWLEDGED, 5, packets=1, until=1, next=2, round_trip_ns=-1)
    assert not own.fault
