"""Marking rules of one's own: the model of a port, what has code, and what is refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import testbed
from testbed.bytecode.values import Refusal
from testbed.linux import queue_rule
from testbed.linux.process import kernel
from testbed.net.fabric.port import Port, PortError
from testbed.net.fabric.ports import FabricError
from testbed.net.fabric.queues import Queues
from testbed.net.fabric.rules import at_ports
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.rules import rule_code
from testbed.switch.rules.marking import Marking, MarkingRule, PortLine, QueuedFrame, RuleError
from testbed.switch.rules.model import MarkedPort
from testbed.switch.rules.rule_code import RuleCode, code_of
from testbed.units import Rate, Scale

LINE = PortLine(Rate("10Mb/s"), Scale(1000), "s1-eth2", 7)
CURVE = EcnCurve.step("40kB")
_LINUX = Path(testbed.__path__[0]) / "lab/um/linux"


class Step(MarkingRule):
    """Every frame that finds so much in its queue."""

    def on_arrival(self, frame: QueuedFrame) -> bool:
        return frame.queued_octets >= 3000


class Late(MarkingRule):
    """Every frame that has waited for 5 us of the hardware, and how many there were."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.late = 0
        self.target_lab_ns = line.lab_ns("5us")

    def on_departure(self, frame: QueuedFrame) -> bool:
        is_late = frame.waited_lab_ns > self.target_lab_ns
        self.late += is_late
        return is_late

    def state(self) -> dict[str, float]:
        return {"late": self.late}


class Logarithmic(MarkingRule):
    """What has no code."""

    def on_arrival(self, frame: QueuedFrame) -> bool:
        return math.log(frame.queued_octets + 1) > 3


def code_for(kind: type[MarkingRule]) -> RuleCode:
    made = code_of(kind(LINE))
    assert isinstance(made, RuleCode), made
    return made


# The model of a port


def test_a_step_marks_the_frames_that_find_so_much_in_their_queue() -> None:
    port = MarkedPort(Step(LINE))
    for _ in range(6):
        port.arrive(0, 3, 1000)
    port.run(10**9)
    assert [frame.ecn for frame in port.sent] == [2, 2, 2, 2, 3, 3], "the first is on the line when the second comes"


def test_a_frame_departs_when_the_line_has_sent_the_one_before_it() -> None:
    port = MarkedPort(Late(LINE))
    for _ in range(8):
        port.arrive(100, 3, 976)  # 1000 octets on the wire are 800 us at 10 Mb/s
    port.run(10**9)
    assert [frame.departed_lab_ns for frame in port.sent] == [100 + 800_000 * place for place in range(8)]
    assert [frame.ecn for frame in port.sent] == [2] * 7 + [3], "7 x 800 us are more than 5 ms, and 6 are not"


def test_queues_are_served_in_turn_and_counted_alone() -> None:
    port = MarkedPort(Step(LINE))
    for queue in (3, 3, 3, 4):
        port.arrive(0, queue, 1000)
    assert (port.queued_octets(3), port.queued_octets(4)) == (2000, 1000)
    port.run(10**9)
    assert [frame.queue for frame in port.sent] == [3, 4, 3, 3]


def test_what_cannot_be_marked_stays_as_it_is() -> None:
    port = MarkedPort(Step(LINE))
    for ecn in (2, 2, 2, 2, 0, 1, 3):
        port.arrive(0, 3, 1000, ecn)
    port.run(10**9)
    assert [frame.ecn for frame in port.sent] == [2, 2, 2, 2, 0, 3, 3]


def test_the_numbers_of_chance_are_those_of_the_port_and_the_seed() -> None:
    first, again, other = (
        MarkingRule(LINE),
        MarkingRule(LINE),
        MarkingRule(PortLine(LINE.rate, LINE.scale, "s1-eth3", 7)),
    )
    drawn = [first.chance() for _ in range(10_000)]
    assert drawn[:5] == [again.chance() for _ in range(5)]
    assert drawn[0] != other.chance()
    assert all(0 <= one < 1 for one in drawn)
    assert 0.49 < sum(drawn) / len(drawn) < 0.51


# Code


def test_the_cells_and_the_entries_are_those_of_the_headers_in_c() -> None:
    (cells,) = re.findall(r"enum xs_cell \{([^}]*)\}", (_LINUX / "xoff_control_vm.h").read_text())
    names = re.findall(r"XS_(\w+)", cells)
    assert [getattr(rule_code, name) for name in names] == list(range(len(names)))
    (events,) = re.findall(r"enum xs_event \{([^}]*)\}", (_LINUX / "xoff_rule.h").read_text())
    assert re.findall(r"XS_(\w+)", events) == ["ARRIVES", "DEPARTS", "ADMITS", "STAMPS", "WEIGHS"]
    assert rule_code.METHODS == ("on_arrival", "on_departure", "on_admission", "on_stamp", "on_weight")


def test_a_rule_has_entries_for_the_methods_that_it_has() -> None:
    assert [entry != 2**32 - 1 for entry in code_for(Step).program.entries[:2]] == [True, False]
    assert [entry != 2**32 - 1 for entry in code_for(Late).program.entries[:2]] == [False, True]
    assert code_for(Late).program.shown == (("late", "int"),)


def test_the_cost_of_a_frame_is_said_in_instructions() -> None:
    assert code_for(Step).cost == "6 instructions for a frame that arrives"
    assert re.fullmatch(r"\d+ instructions for a frame that departs", code_for(Late).cost)


def test_what_has_no_code_is_named_with_its_place() -> None:
    made = code_of(Logarithmic(LINE))
    assert isinstance(made, Refusal)
    line = next(at for at, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "return math.log" in text)
    assert str(made) == f"test_marking_rules.py:{line}: math.log() has no code"


# At a port


def test_a_rule_stands_in_place_of_the_curves_that_a_port_has() -> None:
    assert Port(ecn={3: CURVE, 4: CURVE}).with_marking(Step).marking == Marking(Step, frozenset({3, 4}))
    assert Port(ecn={3: CURVE, 4: CURVE}).with_marking(Step, 4).marking == Marking(Step, frozenset({4}))
    with pytest.raises(PortError, match=r"stands in place of ECN curves, and this port has none; write Port\(ecn="):
        Port().with_marking(Step)
    with pytest.raises(PortError, match="queue 5 has a marking rule and no curve, which marks if the rule has a fault"):
        Port(ecn={3: CURVE}).with_marking(Step, 5)
    with pytest.raises(RuleError, match=r"the marking rule is 'step'; give a subclass of MarkingRule"):
        Port(ecn={3: CURVE}).with_marking("step")  # type: ignore[arg-type]
    with pytest.raises(RuleError, match=r"s1-eth2: .* makes 3; a marking rule is a subclass of MarkingRule"):
        Marking(lambda _: 3, frozenset({3})).made(LINE)  # type: ignore[arg-type, return-value]


def test_the_first_queue_has_the_code_and_the_others_name_it() -> None:
    port = Port(ecn={3: CURVE, 4: CURVE, 5: CURVE}).with_marking(Step, 3, 5)
    program = at_ports.program_of(code_for(Step))
    queues = Queues(4097, LINE.rate, port, rule=program)
    first, none, other = (queues._rule_at(place) for place in (3, 4, 5))
    assert first == (queue_rule.own(3, program),)
    assert none == ()
    assert other == (queue_rule.shared(5, 0x23 << 16),)
    assert len(first[0][1]) == 48 + 8 * program.count + len(program.frame)


def test_only_the_kernel_of_um_can_ask_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    state = _PortState()
    marking = Marking(Step, frozenset({3}))
    monkeypatch.setattr(kernel, "cpu_work_takes_no_time", lambda: False)
    with pytest.raises(FabricError, match=r"s1-eth2 has the marking rule Step, which only the kernel of the engine um"):
        at_ports.code_for(state, marking)  # type: ignore[arg-type]
    monkeypatch.setattr(kernel, "cpu_work_takes_no_time", lambda: True)
    assert at_ports.code_for(state, marking).name == "Step"  # type: ignore[arg-type]
    with pytest.raises(FabricError, match=r"s1-eth2: the marking rule Logarithmic has no code: test_marking_rules.py:"):
        at_ports.code_for(state, Marking(Logarithmic, frozenset({3})))  # type: ignore[arg-type]


class _PortState:
    """What is asked of a port."""

    name = "s1-eth2"
    units = Scale(1000)

    class lab_cable:
        rate = Rate("10Mb/s")


def test_statistics_of_a_curve_tell_of_no_rule() -> None:
    assert queue_rule.reading(bytes(16)) is None
