"""Rules of ports beside marks, and rules that choose among ways: settings, the reference, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from testbed.bytecode.values import Refusal
from testbed.errors import UsageError
from testbed.net.fabric.port import Port, PortError
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.rules import way_code
from testbed.switch.rules.choosing import MOST_WAYS, ForwardedFrame, SwitchLine, WayLoad, WayRule, made, of_numbers
from testbed.switch.rules.hooks import OfferedFrame, PortRule
from testbed.switch.rules.marking import Marking, PortLine, RuleError
from testbed.switch.rules.rule_code import RuleCode, code_of
from testbed.switch.ways.model import Group
from testbed.switch.ways.settings import MEMBERS, By, Ways
from testbed.units import Rate, Scale

LINE = PortLine(Rate("10Mb/s"), Scale(1000), "s1-eth2", 7)
SWITCH = SwitchLine(Rate("10Mb/s"), Scale(1000), "leaf1", 7)


class Short(PortRule):
    """A queue of 3000 octets."""

    def on_admission(self, frame: OfferedFrame) -> int:
        return self.ADMIT if frame.queued_octets < 3000 else self.DROP


class Idle(WayRule):
    """The first way where nothing waits."""

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        for place in range(len(ways)):
            if not ways[place].queued_octets:
                return place
        return frame.hash % len(ways)


def test_only_methods_of_its_own_are_entries_of_a_rule() -> None:
    made = code_of(Short(LINE))
    assert isinstance(made, RuleCode)
    assert [entry != 2**32 - 1 for entry in made.program.entries] == [False, False, True, False, False, False, True]
    assert made.cost.endswith(" instructions for a frame that is to be admitted")
    ways = way_code.code_of(Idle(SWITCH))
    assert isinstance(ways, RuleCode) and ways.program.more
    assert ways.cost.endswith(" instructions for a frame that has several ways")


def test_a_rule_that_does_more_than_mark_says_so() -> None:
    with pytest.raises(RuleError, match=r"s1-eth2: Short has on_admission\(\), which a rule that marks is not asked"):
        Marking(Short, frozenset({3})).made(LINE)
    assert isinstance(Marking(Short, frozenset({3}), hooks=True).made(LINE), Short)


def test_a_queue_with_a_rule_and_no_curve_gets_one_that_marks_nothing() -> None:
    port = Port(ecn={4: EcnCurve.step("40kB")}).with_rule(Short, 3, 4)
    assert port.ecn[4] == EcnCurve.step("40kB") and port.ecn[3].kmin.bytes == 10**9
    assert Port(ecn={4: EcnCurve.step("40kB")}).with_rule(Short).marking == Marking(Short, frozenset({4}), hooks=True)
    with pytest.raises(PortError, match=r"with_rule\(\) names no queue"):
        Port().with_rule(Short)


def test_ways_with_a_rule_go_by_it() -> None:
    assert Ways(rule=Idle).by is By.RULE
    assert Ways(rule=Idle, half_life="5us", fields="source").unused() == []
    assert Ways(rule=Idle, gap="5us", weights={"spine1": 2}).unused() == ["weights", "gap"]
    for wrong, said in (
        ({"by": "rule"}, "Ways: no rule is given; write Ways(rule=MyRule)"),
        ({"by": "spray", "rule": Idle}, "Ways: by='spray' and a rule are both given"),
        ({"rule": 5}, "Ways: the rule is 5; write Ways(rule=MyRule)"),
    ):
        with pytest.raises(UsageError) as caught:
            Ways(**wrong)
        assert str(caught.value).startswith(said)
    with pytest.raises(RuleError, match=r"leaf1: .* a rule that chooses is a subclass of WayRule"):
        made(lambda line: Short(LINE), SWITCH)  # type: ignore[arg-type, return-value]


def test_a_rule_is_told_of_as_many_ways_as_a_switch_has() -> None:
    assert MOST_WAYS == MEMBERS


def test_a_way_that_has_left_is_replaced_by_that_of_the_hash() -> None:
    group = Group(Ways(rule=Idle), 1, [1] * 4, 1, 1000, rule=of_numbers(Idle(SWITCH)))
    words = [7] * 15
    assert group.choose(words, 5, 100) == 0
    group.set_there(0, False)
    hashed = group.table[group.hash(words) % 3]
    assert [group.choose(words, 6, 100), hashed] == [hashed, hashed]
    assert group.flowlets == 2


class Kept(WayRule):
    """A dict, which has no code."""

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        return {0: 1}[frame.last]


def test_what_has_no_code_is_named_with_its_place() -> None:
    refused = way_code.code_of(Kept(SWITCH))
    assert isinstance(refused, Refusal) and str(refused).startswith("test_port_rules.py:")
