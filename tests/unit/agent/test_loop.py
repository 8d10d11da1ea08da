"""An agent's loop between the port program and PFC: events in any order, refreshes, links. No socket, no kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.agent import event_log
from testbed.agent.events import AgentEvent
from testbed.agent.orders import NOTICE, NoticeType, Order, OrderType
from testbed.agent.pfc.loop import Loop
from testbed.agent.pfc.lost_ways import LostWays
from testbed.agent.pfc.port import SHARED, AgentPort
from testbed.agent.plan import Arrangement, PortPlan
from testbed.frames import Mac, mac_control
from testbed.frames.mac_control import PfcFrame
from testbed.linux.netlink.link_state import Link
from testbed.linux.port_program import EVENT, FIRST_INTERFACE, EventKind
from testbed.linux.port_program.buffer_tables import BufferTables
from testbed.linux.port_program.ways_tables import WaysTables
from testbed.switch.pfc.settings import PfcSettings
from testbed.switch.pfc.timers import TIMERS
from testbed.units import Rate

SLOT, PRIORITY = 2, 3
PEER = Mac.parse("02:00:00:00:00:02")
XOFF, XON = EventKind.XOFF, EventKind.XON


class Program:
    """A port program, and its buffers, with one group and the result of a recheck of it."""

    has_room = BufferTables.has_room

    def __init__(self) -> None:
        self.buffers = self
        self.congested = False
        self.made_room = False
        self.holds_headroom = False
        self.rechecks = 0
        self.blocked = 0

    def is_congested(self, slot: int, priority: int) -> bool:
        return self.congested and (slot, priority) == (SLOT, PRIORITY)

    def recheck(self, slot: int, priority: int) -> bool:
        """Answer as port.bpf.c does: XON for a group that was congested until now; nothing for one that was not."""
        self.rechecks += 1
        xon = self.congested and self.made_room
        self.congested = self.congested and not xon
        return xon

    def _holds_headroom(self, slot: int, priority: int) -> bool:
        return self.holds_headroom

    def set_blocked(self, slot: int, priorities: int) -> None:
        self.blocked = priorities


class Ring:
    def __init__(self) -> None:
        self.memory = b""

    def records(self) -> Iterator[int]:
        yield from range(0, len(self.memory), EVENT.size)

    def map_pages(self) -> None:
        pass


class Agent:
    """A loop with one port, driven by hand; `shared` is the memory of its predecessor."""

    def __init__(
        self, notifies_speaker: bool = False, shared: bytearray | None = None, timers: list[int] | None = None
    ) -> None:
        plan = PortPlan(
            slot=SLOT,
            name="lo",
            interface=FIRST_INTERFACE + SLOT,
            mac=Mac.parse("02:00:00:00:00:01"),
            rate=Rate("10Mb/s"),
            pfc=PfcSettings(frozenset({PRIORITY})),
            has_buffer=True,
            stop=tuple(b"stop %d," % queue for queue in range(8)),
            go=tuple(b"go %d," % queue for queue in range(8)),
            empty=(),
            local=tuple(range(8)),
            arrange=lambda ets: Arrangement(tuple(range(8)), tuple(range(8)), ()),
            notifies_speaker=notifies_speaker,
        )
        self.shared = shared if shared is not None else bytearray(SHARED)
        self.timers = timers if timers is not None else [0] * TIMERS
        self.port = AgentPort(plan, self.timers, memoryview(self.shared))  # type: ignore[arg-type]
        self.sent: list[int] = []
        self.requests: list[bytes] = []
        self.told: list[int] = []
        self.port.send = self._sent  # type: ignore[assignment]
        self.program, self.ring = Program(), Ring()
        loop: Any = Loop.__new__(Loop)
        self.loop: Any = loop
        loop._program, loop._ring, loop._ports = self.program, self.ring, {SLOT: self.port}
        loop._touched, loop._later, loop._sent = {}, [], False
        loop._lateness, loop._stop_ns, loop._started_ns, loop._now_ns = [0], 0, 0, 0
        loop._waiting = SimpleNamespace(started_ns=0)
        loop._resources = SimpleNamespace(timers=self.timers, shared=self.shared)
        loop._cpu_takes_time, loop._ways = True, LostWays((), WaysTables(bytearray(), 0))
        self.log = event_log.new()
        loop._log = event_log.MappedLog(self.log)
        loop._netlink = self
        loop._news = News(self.told)

    def send(self, request: bytes) -> None:
        """Note a netlink request."""
        self.requests.append(request)

    def _sent(self, frame: bytes) -> int:
        parsed = mac_control.parse(frame)
        assert isinstance(parsed, PfcFrame)
        self.sent.append(dict(parsed.changes())[PRIORITY])
        return len(frame)

    def events(self, *kinds: EventKind) -> list[str]:
        """Have the loop read these events from the ring, and return the frames that it sent."""
        now_ns = time.monotonic_ns()
        self.ring.memory = b"".join(EVENT.pack(now_ns, kind, SLOT, PRIORITY, 0, 0, 0, 0) for kind in kinds)
        self.loop._read_events(self.loop._ring.memory, self.loop._ring.records())
        return self.frames()

    def refresh(self) -> list[str]:
        deadline_ns = self.port.pfc.deadline_ns
        assert deadline_ns is not None
        self.loop._expire(self.port, deadline_ns)
        return self.frames()

    def link(self, is_up: bool, downs: int | None = None) -> list[str]:
        link = Link(FIRST_INTERFACE + SLOT, "lo", None, is_up, is_up, False, True, downs=downs)
        self.loop._follow([link], time.monotonic_ns())
        return self.frames()

    def frames(self) -> list[str]:
        said = ["xoff" if quanta else "xon" for quanta in self.sent]
        self.sent.clear()
        return said

    def logged(self) -> list[tuple[int, int, int]]:
        """Return kind, slot and priorities of each record of the log, with what is to be logged yet."""
        self.loop._log.write_noted()
        return [(kind, slot, mask) for _, kind, slot, mask, _ in event_log.read(self.log)]

    def receive(self, quanta: int) -> None:
        frame = PfcFrame.of(PEER, {PRIORITY: quanta}).encode()
        self.loop._apply_frame(SLOT, frame, time.monotonic_ns())


class News:
    """The socket to the speaker."""

    def __init__(self, told: list[int]) -> None:
        self._told = told

    def send(self, what: bytes) -> None:
        self._told.append(NOTICE.unpack_from(what)[0])


# Before there is traffic


def test_a_warm_up_leaves_nothing_behind() -> None:
    agent = Agent()
    before = agent.port.pfc.snapshot(0), bytes(agent.shared), list(agent.timers)
    agent.loop._warm_up(agent.port)
    assert agent.requests == 3 * [b"stop 3,", b"go 3,"] and agent.frames() == [] and agent.told == []
    assert (agent.port.pfc.snapshot(0), bytes(agent.shared), list(agent.timers)) == before
    assert agent.loop._ports[SLOT] is agent.loop._touched[SLOT] is agent.port and agent.logged() == []
    agent.receive(65535)
    agent.loop._write_log()
    kinds = [kind for kind, _, _ in agent.logged()]
    assert kinds.count(AgentEvent.QUEUE_STOPPED) == 1  # the log is the agent's own again


# What counts as late


@pytest.mark.parametrize(("allowed_ns", "late"), [(0, True), (10**9, False)])
def test_a_pause_is_late_by_what_headroom_does_not_allow_for(allowed_ns: int, late: bool) -> None:
    agent, begin_ns = Agent(), time.monotonic_ns()
    agent.port.plan = replace(agent.port.plan, xoff_allowed_ns=allowed_ns, stop_allowed_ns=10**9)
    agent.events(XOFF)
    assert (0 < agent.loop._lateness[0] <= time.monotonic_ns() - begin_ns) is late
    agent = Agent()
    agent.port.plan = replace(agent.port.plan, xoff_allowed_ns=10**9, stop_allowed_ns=allowed_ns)
    agent.receive(65535)
    assert (0 < agent.loop._lateness[0] <= time.monotonic_ns() - begin_ns) is late


def test_the_lateness_of_an_agent_that_died_stays_with_its_successor() -> None:
    late, successor = Agent(), Agent()
    late.port.plan = replace(late.port.plan, xoff_allowed_ns=0)
    late.events(XOFF)
    before_ns = late.loop._lateness[0]
    successor.loop._lateness = late.loop._lateness  # the memory that both have
    successor.port.plan = replace(successor.port.plan, xoff_allowed_ns=10**9)
    successor.events(XOFF)
    assert successor.loop._lateness[0] == before_ns > 0


def test_what_came_before_an_agent_ran_is_not_late() -> None:
    agent = Agent()
    agent.port.plan = replace(agent.port.plan, xoff_allowed_ns=0, stop_allowed_ns=0)
    agent.loop._started_ns = time.monotonic_ns() + 10**9
    agent.events(XOFF)
    agent.receive(65535)
    assert agent.loop._lateness[0] == 0


# XOFF and XON in any order


def test_xoff_that_two_cpus_posted_after_its_own_xon_leaves_no_far_end_paused() -> None:
    agent = Agent()  # by the time that the ring is read the group has room again
    assert agent.events(XON, XOFF) == ["xoff", "xon"]
    assert agent.port.pfc.congested_mask == 0 and agent.port.pfc.deadline_ns is None


def test_xon_that_came_late_does_not_let_a_group_go_that_is_congested_again() -> None:
    agent = Agent()
    agent.program.congested = True
    assert agent.events(XOFF) == ["xoff"]
    assert agent.events(XOFF, XON) == []  # posted in the wrong order: it was relieved first
    assert agent.port.pfc.congested_mask == 1 << PRIORITY


def test_in_the_right_order_each_is_sent() -> None:
    agent = Agent()
    agent.program.congested = True
    assert agent.events(XOFF) == ["xoff"]
    agent.program.congested = False
    assert agent.events(XON) == ["xon"]


def test_both_that_wait_are_sent() -> None:
    assert Agent().events(XOFF, XON) == ["xoff", "xon"]


def test_the_speaker_is_notified_of_what_the_far_end_receives() -> None:
    agent = Agent(notifies_speaker=True)
    agent.events(XON, XOFF)
    assert agent.told[-1] == NoticeType.XON
    agent.told.clear()
    agent.program.congested = True
    agent.events(XOFF, XON)
    assert agent.told == [NoticeType.XOFF]


def test_a_refresh_for_a_group_that_is_not_congested_sends_xon() -> None:
    """An event can be lost, too. A recheck finds nothing to do for a group that has room already."""
    agent = Agent()
    agent.program.congested = True
    assert agent.events(XOFF) == ["xoff"]
    assert agent.refresh() == ["xoff"]
    agent.program.congested = False
    assert agent.refresh() == ["xon"]
    assert agent.port.pfc.deadline_ns is None


def test_a_refresh_checks_whether_other_groups_freed_cells() -> None:
    agent = Agent()
    agent.program.congested = agent.program.made_room = True
    agent.events(XOFF)
    assert agent.refresh() == ["xon"]
    assert agent.program.rechecks == 1


def test_a_refresh_does_not_ask_whether_a_group_has_room_whose_frames_are_in_headroom() -> None:
    agent = Agent()
    agent.program.congested = agent.program.holds_headroom = True
    agent.events(XOFF)
    assert agent.refresh() == ["xoff"]
    assert agent.program.rechecks == 0


# Links


def test_a_lost_link_ends_the_pause_that_was_received() -> None:
    agent = Agent()
    agent.link(True, 1)
    agent.receive(65535)
    assert agent.requests[-1] == b"stop 3,"
    agent.link(False, 2)
    assert agent.requests[-1] == b"go 3,"
    assert agent.port.pfc.paused_mask == 0 and agent.port.pfc.deadline_ns is None


def test_a_link_that_is_back_gets_xoff_for_what_is_congested_and_soon_again() -> None:
    agent = Agent()
    agent.link(True, 1)
    agent.program.congested = True
    assert agent.events(XOFF) == ["xoff"]
    assert agent.link(False, 2) == []
    assert agent.port.pfc.deadline_ns is None, "nothing is repeated on a link that is down"
    before_ns = time.monotonic_ns()
    assert agent.link(True, 2) == ["xoff"]
    assert agent.port.pfc.deadline_ns is not None
    assert agent.port.pfc.deadline_ns - before_ns < 10_000_000 + time.monotonic_ns() - before_ns
    assert agent.refresh() == ["xoff"]


def test_congestion_while_there_is_no_link_sends_nothing_until_there_is_one() -> None:
    agent = Agent()
    agent.link(False, 1)
    agent.program.congested = True
    assert agent.events(XOFF) == []
    assert agent.link(True, 1) == ["xoff"]


def test_a_loss_so_short_that_only_its_number_shows_it_counts() -> None:
    agent = Agent()
    agent.link(True, 1)
    agent.receive(65535)
    agent.link(True, 1)
    assert agent.port.pfc.paused_mask, "other news of the interface change nothing"
    agent.link(True, 2)
    assert not agent.port.pfc.paused_mask


def test_frames_of_before_that_a_slow_port_would_obey_later_are_forgotten() -> None:
    agent = Agent()
    agent.link(True, 1)
    agent.loop._later = [(1, SLOT, 0, b""), (2, SLOT + 1, 0, b"")]
    agent.link(False, 2)
    assert agent.loop._later == [(2, SLOT + 1, 0, b"")]


@pytest.mark.parametrize("is_up", [True, False])
def test_a_successor_finds_that_the_link_was_lost_while_no_agent_ran(is_up: bool) -> None:
    first = Agent()
    first.link(True, 1)
    first.receive(65535)
    second = Agent(shared=first.shared, timers=list(first.timers))
    second.port.pfc.restore({PRIORITY: first.timers[PRIORITY]}, 0, time.monotonic_ns())
    assert second.port.pfc.paused_mask
    second.link(is_up, 2)
    assert not second.port.pfc.paused_mask


def test_a_successor_on_a_link_that_is_down_starts_afresh_when_it_is_back() -> None:
    first = Agent()
    first.link(False, 1)
    second = Agent(shared=first.shared, timers=list(first.timers))
    second.program.congested = True
    second.port.pfc.restore({}, 1 << PRIORITY, time.monotonic_ns())
    assert second.link(True, 1) == ["xoff"]


def order(agent: Agent, held: int) -> list[bytes]:
    """Order a hold, and return the netlink requests since the last order."""
    agent.requests.clear()
    agent.loop._carry_out(Order(OrderType.HOLD, SLOT, held), time.monotonic_ns())
    return agent.requests[:]


def test_a_held_priority_is_stopped_until_it_is_released() -> None:
    agent = Agent()
    assert order(agent, 1 << PRIORITY) == [b"stop 3,"]
    assert order(agent, 1 << PRIORITY) == []  # the same again
    assert order(agent, 1 << 5) == [b"stop 5,go 3,"]
    assert order(agent, 0) == [b"go 5,"]
    assert agent.logged() == [(AgentEvent.HOLD_SET, SLOT, mask) for mask in (1 << PRIORITY, 1 << 5, 0)]


def test_neither_the_end_of_a_pause_nor_that_of_a_hold_resumes_what_the_other_stops() -> None:
    agent = Agent()
    agent.receive(0xFFFF)
    order(agent, 1 << PRIORITY)
    agent.receive(0)
    assert b"go" not in b"".join(agent.requests)
    agent.receive(0xFFFF)
    assert order(agent, 0) == []
    agent.requests.clear()
    agent.receive(0)
    assert agent.requests == [b"go 3,"]


def test_a_lost_link_ends_pauses_and_no_hold() -> None:
    agent = Agent()
    order(agent, 1 << PRIORITY)
    agent.receive(0xFFFF)
    agent.link(False)
    assert b"go" not in b"".join(agent.requests)


def test_a_successor_goes_on_holding() -> None:
    agent = Agent()
    order(agent, 1 << PRIORITY)
    successor = Agent(shared=agent.shared, timers=agent.timers)
    assert successor.port.held_mask == 1 << PRIORITY
    successor.loop._plan = SimpleNamespace(warms_up=False)
    successor.loop._take_over()
    requests = b"".join(successor.requests)
    assert requests.startswith(b"stop 3,") and b"go 3" not in requests
    assert order(successor, 0) == [b"go 3,"]
