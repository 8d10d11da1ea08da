"""Pauses of an agent that is not there: ended at their end, each once, and nothing else."""

from __future__ import annotations

from array import array

import pytest

from testbed.agent.plan import AgentPlan, Arrangement, PortPlan
from testbed.agent.port import SHARED
from testbed.agent.standin import StandIn
from testbed.frames import Mac
from testbed.pfc import NEVER
from testbed.pfc.port import TIMERS
from testbed.pfc.settings import PfcSettings
from testbed.units import Rate

SLOTS = (2, 5)
NOTHING = tuple(b"" for _ in range(8))


class Alarm:
    """Remembers what it was set to."""

    moment_ns: int | None = None

    def set(self, moment_ns: int) -> None:
        self.moment_ns = moment_ns


class Node:
    """A stand-in for the agent of a node with two ports, and what it has sent."""

    def __init__(self) -> None:
        self.memory = array("q", [0] * 8 * TIMERS)
        self.alarm = Alarm()
        self.sent: list[bytes] = []
        ports = tuple(
            PortPlan(
                slot=slot,
                name=f"s1-eth{slot}",
                interface=4096 + slot,
                mac=Mac.parse("02:00:00:00:00:01"),
                rate=Rate("10Mb/s"),
                pfc=PfcSettings(),
                charged=True,
                stop=NOTHING,
                go=tuple(b"go %d %d" % (slot, priority) for priority in range(8)),
                empty=NOTHING,
                local=tuple(range(8)),
                arrange=lambda ets: Arrangement(tuple(range(8)), tuple(range(8)), ()),
            )
            for slot in SLOTS
        )
        plan = AgentPlan("s1", 0, 1, ports)
        self.shared = bytearray(bytes(1 << queue for queue in range(8)).ljust(SHARED, b"\0") * 8)
        self.stand_in = StandIn(plan, memoryview(self.memory), memoryview(self.shared), self.alarm, self.sent.append)

    def pause(self, slot: int, priority: int, until_ns: int) -> None:
        self.memory[slot * TIMERS + priority] = until_ns


def test_a_pause_is_ended_when_it_is_over_and_not_before() -> None:
    node = Node()
    node.pause(2, 3, 1000)
    assert node.stand_in.look(999) == 1000
    assert (node.sent, node.alarm.moment_ns) == ([], 1000)
    assert node.stand_in.look(1000) == NEVER
    assert node.sent == [b"go 2 3"]


def test_a_pause_is_ended_once_and_a_new_one_of_the_same_queue_again() -> None:
    node = Node()
    node.pause(2, 3, 1000)
    for moment_ns in (1000, 1500, 2000):
        node.stand_in.look(moment_ns)
    assert node.sent == [b"go 2 3"]
    node.pause(2, 3, 3000)
    node.stand_in.look(3001)
    assert node.sent == [b"go 2 3"] * 2


def test_the_alarm_is_set_to_the_pause_that_ends_next() -> None:
    node = Node()
    for slot, priority, until_ns in ((2, 0, 900), (2, 7, 5000), (5, 0, 4000), (5, 7, 1000)):
        node.pause(slot, priority, until_ns)
    assert node.stand_in.look(1000) == node.alarm.moment_ns == 4000
    assert sorted(node.sent) == [b"go 2 0", b"go 5 7"]
    assert node.stand_in.look(4000) == node.alarm.moment_ns == 5000
    assert node.stand_in.look(5000) == NEVER


@pytest.mark.parametrize("content", [0, NEVER])
def test_what_is_not_paused_is_left_alone(content: int) -> None:
    node = Node()
    node.memory[:] = array("q", [content] * len(node.memory))
    assert node.stand_in.look(NEVER - 1) == NEVER
    assert (node.sent, node.alarm.moment_ns) == ([], None)


def test_refreshes_polls_and_ports_of_other_nodes_are_nobodys_pause() -> None:
    node = Node()
    for place in range(len(node.memory)):
        slot, number = divmod(place, TIMERS)
        if slot not in SLOTS or number >= 8:
            node.memory[place] = 10
    assert node.stand_in.look(1000) == NEVER
    assert node.sent == []


def test_what_the_agent_noted_is_not_changed() -> None:
    node = Node()
    node.pause(2, 3, 1000)
    before = list(node.memory)
    node.stand_in.look(2000)
    assert list(node.memory) == before
