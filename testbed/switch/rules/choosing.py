"""The interface of rules that choose: classes that say by which of the equal ways of a switch a frame leaves.

On `um` the port program asks the rule's code of each frame that has several ways (`testbed.switch.rules.way_code`). The
class itself runs in unit tests, and in the reference of equal ways (`testbed.switch.ways.model`).

Runs in C: `testbed/linux/port_program/port_rules.bpf.h`, `testbed/lab/um/linux/xoff_rule_kern.c`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from testbed.bytecode import sources
from testbed.switch.rules.marking import Rule, RuleError
from testbed.units import Line

MOST_WAYS = 64
"""The most ways that a switch chooses among."""


@dataclass(frozen=True)
class SwitchLine(Line):
    """A switch, as a rule that chooses knows it. The rate is that of the line of its first way."""

    switch: str = ""
    """The switch's name."""
    seed: int = 1
    """The seed of the run."""


@dataclass(frozen=True, slots=True)
class ForwardedFrame:
    """A frame that can leave a switch by several equal ways. Times are those of the lab."""

    now_lab_ns: int
    """The moment by the lab's clock, which never goes backwards."""
    octets: int
    """The octets of the frame from its destination address on, without FCS."""
    hash: int
    """The hash of the fields that `Ways` names, 32 bits, by the switch's seed."""
    since_lab_ns: int
    """The time since the last frame with the same last ten bits of the hash, which stand for a flow. Of the first one
    it is the time since the lab's clock began."""
    last: int
    """The way that this last frame took, or -1 for the first one."""
    source_port: int
    destination_port: int
    protocol: int
    queue_pair: int
    """The destination queue pair of RoCEv2."""
    flow_label: int
    source: int
    """The IPv4 address, or the last 32 bits of the IPv6 address."""
    destination: int
    group: int
    """The number of the set of equal ways, which is another one for each set of ports of each switch."""


class WayLoad(NamedTuple):
    """One of the equal ways, as it is now."""

    queued_octets: int
    """The octets that wait at its port, in all queues."""
    given_octets: int
    """The octets that the switch gave it lately: they count half after each `half_life` of `Ways`."""
    is_there: bool
    """False if the port has lost its carrier, and the switch has noticed."""


class WayRule(Rule):
    """A rule by which a switch chooses among equal ways. An object of it serves one switch.

    What the method assigns to `self` stays from frame to frame.
    """

    is_interface: ClassVar = True

    def __init__(self, line: SwitchLine) -> None:
        self.line = line
        self._draw_from(line.seed, line.switch)

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        """Return the number of the way by which a frame leaves, from 0 on.

        In place of one that is not there, the frame takes the way of its hash.
        """
        return frame.hash % len(ways)


def of_numbers(rule: WayRule) -> Callable[[Sequence[int], Sequence[tuple[int, int, bool]]], int]:
    """Return a rule as a function of numbers, in the order of the fields, as the reference of equal ways asks it."""

    def choose(told: Sequence[int], ways: Sequence[tuple[int, int, bool]]) -> int:
        return rule.choose(ForwardedFrame(*told), [WayLoad(*one) for one in ways])

    return choose


WayRuleMaker = Callable[[SwitchLine], WayRule]


def made(rule: WayRuleMaker, line: SwitchLine) -> WayRule:
    """Return the rule of a switch."""
    found = rule(line)
    if not isinstance(found, WayRule):
        raise RuleError(f"{line.switch}: {rule!r} makes {found!r}; a rule that chooses is a subclass of WayRule")
    return found


sources.keep(__file__)
