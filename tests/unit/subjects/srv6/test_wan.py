"""End.X.PFC at a router: the packets that it sends into its tunnels, and the treatment of those that come out of them.

The agent is the real one, with sockets in a network namespace where nothing is; packets are caught before they go, and
handed in by a socket in the place of the one that reads them.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.agent.events import AgentEvent
from testbed.agent.orders import Order, OrderType
from testbed.agent.plan import AgentPlan, Arrangement, PortPlan
from testbed.errors import UsageError
from testbed.frames import Mac, ipv6, mac_control
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.frames.srh import Srh
from testbed.linux.netlink.messages import Message
from testbed.linux.process import kernel
from testbed.subjects.srv6.agent.plan import ControlPlan, SliceQueues, WanPlan
from testbed.subjects.srv6.agent.sr_notes import Noted, SrNotes
from testbed.subjects.srv6.agent.wan_agent import WanAgent, WanServices
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.lab.routers import WanGraph
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid
from testbed.subjects.srv6.protocol.pause_refresh import Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Flavours, Sid
from testbed.subjects.srv6.protocol.tunnel_learning import LearnerSettings
from testbed.subjects.srv6.session.messages import OwnTunnel, Pause, Report, TunnelItem
from testbed.switch.pfc.settings import PfcSettings
from testbed.units import NEVER, Duration, Rate

MS = 10**6
RATE = Rate("10Mb/s")
QUIET = Refresh.of(RATE, Duration("1ms"), Duration("1ms"))
GRAPH = WanGraph([("r1", "r2", Duration("1ms")), ("r2", "r3", Duration("1ms"))], {"r1": 1, "r3": 1})
TENANT, WAN = 0, 1
"""The slots of a router's two ports; one leads to its data centre, the other to r2."""
RED, BLUE = SliceQueues(10, "red", {3: 4, 5: 6}), SliceQueues(20, "blue", {3: 5})


def sid(router: str, slice_id: int | None = None) -> IPv6Address:
    return srv6.end_x_pfc_sid(router, 0, GRAPH.legs[router][0], slice_id).address


def back(slice_id: int | None = None, interface: str | None = "r3-eth1", last: IPv6Address | None = None,
         **more: Any) -> ReverseTunnel:  # fmt: skip
    """Return the reverse tunnel from r3 to r1."""
    first = more.pop("first", srv6.end_sid("r3").address)
    return ReverseTunnel("r3", "r1", (first, last or sid("r1", slice_id)), slice_id, interface, **more)


def port(slot: int, name: str, rate: Rate = RATE) -> PortPlan:
    def arrange(_: object) -> Arrangement:
        raise AssertionError

    mac = Mac.parse(f"02:00:00:00:00:{slot:02x}")
    return PortPlan(slot, name, 10 + slot, mac, rate, PfcSettings(), True, (), (), (), tuple(range(8)), arrange,
                    notifies_speaker=slot == WAN)  # fmt: skip


class Buffer:
    """A port program, and its buffers, of which the agent asks only these two questions."""

    def __init__(self) -> None:
        self.buffers = self
        self.congested: set[tuple[int, int]] = set()
        self.relieved: set[tuple[int, int]] = set()

    def is_congested(self, slot: int, priority: int) -> bool:
        return (slot, priority) in self.congested

    def has_room(self, slot: int, priority: int) -> bool:
        return (slot, priority) in self.relieved


class RecordedAgent(WanAgent):
    """A WAN agent that keeps what it would send and report."""

    is_recorded = True

    def __init__(self, *given: Any) -> None:
        self.sent: list[bytes] = []
        self.reported: list[Pause | OwnTunnel] = []
        super().__init__(*given)

    def _send_packet(self, packet: bytes) -> None:
        if self.is_recorded:
            self.sent.append(packet)
        else:
            super()._send_packet(packet)

    def _report(self, message: Pause | OwnTunnel, now_ns: int) -> None:
        self.reported.append(message)


@dataclass
class Edge:
    """A router's agent, and a record of what it did."""

    agent: RecordedAgent
    inside: socket.socket
    data: socket.socket
    sent: list[bytes]
    orders: list[Order]
    records: list[tuple[AgentEvent, int, int]]
    told: list[Pause | OwnTunnel]
    requests: list[Message]
    """The netlink requests."""
    buffer: Buffer = field(default_factory=Buffer)

    def signalled(self) -> list[str]:
        """Return what went into tunnels since the last call, as in "xoff 3 to fd00:5:1:10::"."""
        lines = []
        for packet in self.sent:
            found, slice_id = opened(packet)
            words = ["xoff" if quanta else "xon" for _, quanta in found.changes()]
            priorities = ",".join(str(priority) for priority, _ in found.changes())
            inside = f" in {slice_id}" if slice_id is not None else ""
            lines.append(f"{words[0]} {priorities} to {IPv6Address(packet[24:40])}{inside}")
        self.sent.clear()
        return lines

    def receive(self, packet: bytes, now_ns: int) -> None:
        self.inside.send(packet)
        self.agent._process_ended(now_ns)

    def learn(self, now_ns: int) -> None:
        """Give r3 a data packet of r1, which teaches it the tunnel back."""
        routing = Srh.along((sid("r1"), srv6.vpn_sid("r3").address), 4, done=1).encode()
        self.data.send(
            Packet(srv6.source_address(1), srv6.vpn_sid("r3").address, ipv6.ROUTING, routing + bytes(20)).encode()
        )
        self.agent._learn(now_ns)

    def obeyed(self) -> list[tuple[int, dict[int, int]]]:
        """Return slot and the times in quanta of each order since the last call."""
        found = []
        for order in self.orders:
            assert order.type is OrderType.OBEY
            frame = mac_control.parse(order.frame)
            assert isinstance(frame, PfcFrame)
            found.append((order.slot, dict(frame.changes())))
        self.orders.clear()
        return found

    def told_of(self) -> list[str]:
        lines = []
        for message in self.told:
            assert isinstance(message, Pause)
            assert message.interface.endswith("-eth1")
            inside = f" in {message.slice_id}" if message.slice_id is not None else ""
            lines.append(f"{'stopped' if message.stopped else 'on'} {message.priority}{inside}")
        self.told.clear()
        return lines


def opened(packet: bytes) -> tuple[PfcFrame, int | None]:
    """Return the frame in a tunnel's packet, and the slice."""
    slice_id = None
    for header in ipv6.headers(packet):
        if header.protocol == ipv6.HOP_BY_HOP:
            slice_id = int.from_bytes(packet[header.end - 8 : header.end - 4])
        if header.protocol == ipv6.ETHERNET:
            frame = mac_control.parse(packet[header.start :])
            assert isinstance(frame, PfcFrame)
            return frame, slice_id
    raise AssertionError("there is no frame in the packet")


def pfc(changes: dict[int, int], slice_id: int | None = None) -> bytes:
    """Return a packet for r1's SID as r3 sends it, with these times in quanta."""
    frame = PfcFrame.of(Mac.parse("02:00:00:00:00:03"), changes)
    return Encapsulator(back(slice_id), srv6.source_address(3)).packet(frame)


FIGURE = (
    srv6.end_x_pfc_sid("r3", 0, GRAPH.legs["r3"][0]),
    srv6.end_sid("r3"),
    srv6.vpn_sid("r3"),
    srv6.end_x_pfc_sid("r1", 0, GRAPH.legs["r1"][0]),
)
"""The announcements of figure 3 that a learner at r3 has to know."""
Make = Callable[..., Edge]


@pytest.fixture
def make(tmp_path: Any, namespace: int) -> Iterator[Make]:
    """Make r1 or r3; with `control`, as one that has a session with a controller."""
    with kernel.in_network(namespace):
        kernel.set_up("lo")
    opened_sockets: list[socket.socket] = []

    def one(
        router: str = "r3",
        *,
        tunnels: Sequence[ReverseTunnel] = (),
        slices: Sequence[SliceQueues] = (),
        congested: Sequence[tuple[int, int]] = (),
        control: bool = False,
        left: SrNotes | None = None,
        flavours: Flavours = Flavours.NONE,
        allowed: frozenset[int] = frozenset(),
        knows: Sequence[Sid] = (),
        enabled: frozenset[int] = frozenset(),
        succeeds: bool = False,
    ) -> Edge:
        leg = GRAPH.legs[router][0]
        sids = [srv6.end_x_pfc_sid(router, 0, leg, slice_id) for slice_id in [one.id for one in slices] or (None,)]
        session = ControlPlan(str(tmp_path / "nobody"), bytes(32), Report(router), f"{router}-eth1")
        plan = WanPlan(
            srv6.source_address(srv6.router_number(router)),
            tuple(LocalSid(replace(sid, flavours=flavours), srv6.DOMAIN, allowed=allowed) for sid in sids),
            tuple((tunnel, QUIET) for tunnel in tunnels),
            slices=tuple(slices),
            fastest=RATE,
            control=session if control else None,
            learner=LearnerSettings(srv6.end_sid(router), srv6.DOMAIN) if knows else None,
            directory=tuple(knows),
            learned_refresh=QUIET,
        )
        buffer, orders, records, requests = (
            Buffer(),
            list[Order](),
            list[tuple[AgentEvent, int, int]](),
            list[Message](),
        )
        buffer.congested.update(congested)
        services = WanServices(
            buffer,  # type: ignore[arg-type]
            lambda order: orders.append(Order.parse(order)),
            lambda now_ns, kind, slot, mask, value: records.append((kind, slot, mask)),
            requests.extend,
            lambda: None,
            lambda slot, round_trip: None,
        )
        ports = tuple(
            replace(port(slot, f"{router}-{name}"), pfc=PfcSettings(enabled))
            for slot, name in ((TENANT, "eth0"), (WAN, "eth1"))
        )
        with kernel.in_network(namespace):
            agent = RecordedAgent(plan, AgentPlan(router, 1, os.getpid(), ports), services, left)
        opened_sockets.extend([agent._raw, agent._ending, agent._data, agent._own])
        agent._ending, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        agent._ending.setblocking(False)
        opened_sockets.extend([agent._ending, inside])
        agent._data, data = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        agent._data.setblocking(False)
        opened_sockets.extend([agent._data, data])
        made = Edge(agent, inside, data, agent.sent, orders, records, agent.reported, requests, buffer)
        agent.start(0, succeeds=succeeds)
        return made

    yield one
    for other in opened_sockets:
        other.close()


# What goes into tunnels


def test_congestion_of_a_port_goes_into_its_tunnel_and_so_does_its_end(make: Make) -> None:
    edge = make(tunnels=[back()])
    edge.agent.congested(WAN, 3, True, 0, 0)
    edge.agent.congested(WAN, 3, True, 0, 0)
    edge.agent.congested(TENANT, 3, True, 0, 0)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]
    edge.agent.congested(WAN, 3, False, 0, 0)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::"]
    assert edge.records == [(AgentEvent.TUNNEL_XOFF, WAN, 8), (AgentEvent.TUNNEL_XON, WAN, 8)]
    assert edge.agent.deadline_ns == NEVER


def test_the_reaction_that_headroom_covers_is_that_of_xoff_alone(make: Make) -> None:
    edge, now_ns = make(tunnels=[back()]), time.monotonic_ns()
    headroom: Any = SimpleNamespace(reaction_ns=0)
    edge.agent._tunnels.headroom = headroom
    edge.agent.congested(WAN, 3, True, now_ns - MS, now_ns)
    of_xoff_ns = headroom.reaction_ns
    assert of_xoff_ns >= MS
    edge.agent.congested(WAN, 3, False, now_ns - 10**6 * MS, now_ns)
    assert len(edge.signalled()) == 2 and headroom.reaction_ns == of_xoff_ns


def test_xoff_is_repeated_until_there_is_room(make: Make) -> None:
    edge = make(tunnels=[back()])
    edge.agent.congested(WAN, 3, True, 0, 0)
    edge.agent.congested(WAN, 4, True, 0, 0)
    edge.signalled()
    due_ns = edge.agent.deadline_ns
    assert due_ns == QUIET.interval_ns
    edge.agent.expire(due_ns - 1)
    assert edge.signalled() == []
    edge.agent.expire(due_ns)
    assert edge.signalled() == ["xoff 3,4 to fd00:5:1:10::"]
    edge.buffer.relieved.add((WAN, 3))
    edge.agent.expire(edge.agent.deadline_ns)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::", "xoff 4 to fd00:5:1:10::"]


def test_a_new_tunnel_of_a_congested_port_gets_xoff_at_once(make: Make) -> None:
    edge = make(control=True)
    edge.agent.congested(WAN, 3, True, 0, 0)
    assert edge.signalled() == []
    edge.agent._install(back(), 5 * MS)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]
    edge.agent._install(back(delay_ns=7), 6 * MS)  # the same, with another delay
    assert edge.signalled() == []
    assert len(edge.agent.snapshot()["tunnels"]) == 1


def test_the_next_agent_sends_xoff_for_present_congestion_into_planned_and_installed_tunnels(make: Make) -> None:
    assert make(tunnels=[back()], congested=[(WAN, 3), (WAN, 5)]).signalled() == [
        "xoff 3 to fd00:5:1:10::",
        "xoff 3,5 to fd00:5:1:10::",
    ]
    left = SrNotes(Noted("r3", [TunnelItem(back())]).octets, {})
    assert make(control=True, left=left, congested=[(WAN, 3)]).signalled() == ["xoff 3 to fd00:5:1:10::"]


@pytest.mark.parametrize("succeeds", [False, True])
def test_only_the_first_agent_orders_pauses_of_its_own(make: Make, succeeds: bool) -> None:
    """At its start it has a frame obeyed; from a successor that would end the pauses which are in force."""
    edge = make("r1", enabled=frozenset({3}), succeeds=succeeds)
    assert edge.obeyed() == ([] if succeeds else [(WAN, {3: 0})])
    edge.receive(pfc({3: 500}), MS)
    assert edge.obeyed() == [(WAN, {3: 500})]


def test_the_next_agent_sends_xoff_for_present_congestion_when_it_has_learned_a_tunnel(make: Make) -> None:
    edge = make(knows=FIGURE, congested=[(WAN, 3)])
    assert edge.signalled() == []
    edge.learn(MS)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]


def test_a_learned_tunnel_that_is_forgotten_leaves_the_controllers_of_the_same_segments(make: Make) -> None:
    edge = make(knows=FIGURE, control=True)
    edge.agent._install(back(interface=None), 0)
    edge.learn(MS)
    edge.agent.congested(WAN, 3, True, MS, MS)
    assert set(edge.signalled()) == {"xoff 3 to fd00:5:1:10::"}
    edge.agent.expire(MS + LearnerSettings(srv6.end_sid("r3"), srv6.DOMAIN).age_ns)
    assert [said for said in edge.signalled() if "xon" in said] == [], "the controller's still stops it"
    assert [tunnel["stopped"] for tunnel in edge.agent.snapshot()["tunnels"]] == [[3]]
    edge.agent.congested(WAN, 3, False, MS, MS)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::"]


def test_a_tunnel_that_the_controller_removes_leaves_the_learned_one_of_the_same_segments(make: Make) -> None:
    edge = make(knows=FIGURE, control=True)
    edge.learn(MS)
    edge.agent._install(back(), 2 * MS)
    edge.agent._remove(back(), 3 * MS)
    edge.agent.congested(WAN, 3, True, 4 * MS, 4 * MS)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]


def test_a_tunnel_that_goes_lets_go_what_it_had_stopped(make: Make) -> None:
    edge = make(tunnels=[back()])
    edge.agent.congested(WAN, 3, True, 0, 0)
    edge.agent.congested(WAN, 5, True, 0, 0)
    edge.signalled()
    edge.agent._remove(back(), 0)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::", "xon 5 to fd00:5:1:10::"]
    edge.agent.congested(WAN, 3, False, 0, 0)
    edge.agent._remove(back(), 0)
    assert edge.signalled() == [] and edge.agent.deadline_ns == NEVER


def test_a_tunnel_that_goes_does_not_let_go_what_another_to_the_same_sid_has_stopped(make: Make) -> None:
    other = back(first=srv6.end_x_sid("r3", 0, GRAPH.legs["r3"][0]).address)
    edge = make(tunnels=[back(), other])
    edge.agent.congested(WAN, 3, True, 0, 0)
    assert len(edge.signalled()) == 2
    edge.agent._remove(back(), 0)
    assert edge.signalled() == []
    edge.agent.congested(WAN, 3, False, 0, 0)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::"]


def test_a_tunnel_of_another_slice_to_the_same_sid_stops_nothing_for_this_one(make: Make) -> None:
    shared = sid("r1")
    edge = make(slices=[RED, BLUE], tunnels=[back(10, last=shared), back(20, last=shared)])
    edge.agent.congested(WAN, 4, True, 0, 0)
    edge.agent.congested(WAN, 5, True, 0, 0)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10:: in 10", "xoff 3 to fd00:5:1:10:: in 20"]
    edge.agent._remove(back(10, last=shared), 0)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10:: in 10"]


def test_a_tunnel_without_an_interface_is_for_every_port(make: Make) -> None:
    edge = make(tunnels=[back(interface=None)])
    edge.agent.congested(TENANT, 3, True, 0, 0)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]


def test_a_tunnel_for_every_port_stops_until_all_of_them_have_room(make: Make) -> None:
    edge = make(tunnels=[back(interface=None)])
    edge.agent.congested(TENANT, 3, True, 0, 0)
    edge.agent.congested(WAN, 3, True, 0, 0)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"]
    edge.agent.congested(TENANT, 3, False, 0, 0)
    assert edge.signalled() == []
    edge.agent.congested(WAN, 3, False, 0, 0)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::"]


def test_a_learned_tunnel_asks_for_room_before_it_repeats_and_logs_the_port_that_is_congested(make: Make) -> None:
    edge = make(knows=FIGURE)
    edge.learn(MS)
    edge.agent.congested(WAN, 3, True, MS, MS)
    edge.agent.expire(MS + QUIET.interval_ns)
    assert edge.signalled() == ["xoff 3 to fd00:5:1:10::"] * 2
    edge.buffer.relieved.add((WAN, 3))
    edge.agent.expire(MS + 2 * QUIET.interval_ns)
    assert edge.signalled() == ["xon 3 to fd00:5:1:10::"]
    kinds = [(kind, slot) for kind, slot, _ in edge.records if kind != AgentEvent.TUNNEL_LEARNED]
    assert kinds == [(AgentEvent.TUNNEL_XOFF, WAN), (AgentEvent.TUNNEL_REFRESH, WAN), (AgentEvent.TUNNEL_XON, WAN)]


def test_a_learned_tunnel_that_is_forgotten_logs_the_port_that_is_congested(make: Make) -> None:
    edge = make(knows=FIGURE)
    edge.learn(MS)
    edge.agent.congested(WAN, 3, True, MS, MS)
    edge.agent._set_directory((), 2 * MS)
    assert edge.signalled()[-1] == "xon 3 to fd00:5:1:10::"
    assert edge.records[-1][:2] == (AgentEvent.TUNNEL_XON, WAN)


def test_a_tunnel_by_an_interface_that_is_not_there_is_refused(make: Make) -> None:
    edge = make(control=True)
    with pytest.raises(UsageError, match="there is no interface r3-eth7"):
        edge.agent._install(back(interface="r3-eth7"), 0)
    assert edge.agent.snapshot()["tunnels"] == []


def test_a_local_priority_is_the_slices_own_in_its_tunnel_and_goes_into_no_other(make: Make) -> None:
    edge = make(slices=[RED, BLUE], tunnels=[back(10), back(20)])
    edge.agent.congested(WAN, 6, True, 0, 0)
    assert edge.signalled() == [f"xoff 5 to {sid('r1', 10)} in 10"]
    edge.agent.congested(WAN, 5, True, 0, 0)
    assert edge.signalled() == [f"xoff 3 to {sid('r1', 20)} in 20"]
    edge.agent.congested(WAN, 3, True, 0, 0)  # of no slice
    assert edge.signalled() == []
    edge.agent.congested(WAN, 6, False, 0, 0)
    assert edge.signalled() == [f"xon 5 to {sid('r1', 10)} in 10"]


# What comes out of them


def test_a_pause_is_obeyed_at_j_and_reported_once_until_it_ends(make: Make) -> None:
    edge = make("r1")
    edge.receive(pfc({3: LONGEST_PAUSE}), 0)
    edge.receive(pfc({3: LONGEST_PAUSE}), 10 * MS)
    assert edge.obeyed() == [(WAN, {3: LONGEST_PAUSE})] * 2
    assert edge.told_of() == ["stopped 3"]
    edge.receive(pfc({3: 0}), 20 * MS)
    edge.receive(pfc({3: 0}), 21 * MS)
    assert edge.obeyed() == [(WAN, {3: 0})] * 2
    assert edge.told_of() == ["on 3"]
    assert edge.agent.deadline_ns == NEVER
    assert {kind for kind, _, _ in edge.records} == {AgentEvent.TUNNEL_RECEIVED}


def test_a_pause_that_is_not_repeated_ends_by_itself_at_js_own_rate(make: Make) -> None:
    edge = make("r1")
    edge.receive(pfc({3: 1000, 4: 2000}), 5 * MS)
    ends = [5 * MS + 1000 * 512 * 100, 5 * MS + 2000 * 512 * 100]  # a bit takes 100 ns
    assert edge.told_of() == ["stopped 3", "stopped 4"]
    assert edge.agent.deadline_ns == ends[0]
    edge.agent.expire(ends[0] - 1)
    assert edge.told_of() == []
    edge.agent.expire(ends[0])
    assert edge.told_of() == ["on 3"]
    edge.receive(pfc({4: 2000}), ends[1] - 1)
    edge.agent.expire(ends[1])
    assert edge.told_of() == []
    edge.agent.expire(edge.agent.deadline_ns)
    assert edge.told_of() == ["on 4"] and edge.agent.deadline_ns == NEVER
    assert len(edge.obeyed()) == 2, "the agent that obeys has its own clock; nothing is ordered for an end"


def test_a_link_of_j_that_was_lost_and_is_back_is_paused_for_the_rest_of_the_time(make: Make) -> None:
    edge = make("r1")
    edge.receive(pfc({3: 1000, 4: 2000}), 0)
    edge.obeyed()
    half_ns = 500 * 512 * 100  # a bit takes 100 ns
    edge.agent.link(10 + WAN, False, 10)
    assert edge.obeyed() == []
    edge.agent.link(10 + WAN, True, half_ns)
    assert edge.obeyed() == [(WAN, {3: 500}), (WAN, {4: 1500})]
    edge.agent.link(10 + TENANT, True, half_ns)
    assert edge.obeyed() == []


def test_a_slices_priority_stops_its_own_queue_and_no_other(make: Make) -> None:
    edge = make("r1", slices=[RED, BLUE])
    edge.receive(pfc({3: LONGEST_PAUSE}, 10), 0)
    assert (edge.obeyed(), edge.told_of()) == ([(WAN, {4: LONGEST_PAUSE})], ["stopped 3 in 10"])
    edge.receive(pfc({3: LONGEST_PAUSE}, 20), 0)
    assert (edge.obeyed(), edge.told_of()) == ([(WAN, {5: LONGEST_PAUSE})], ["stopped 3 in 20"])
    edge.receive(pfc({3: 0}, 10), 0)
    assert (edge.obeyed(), edge.told_of()) == ([(WAN, {4: 0})], ["on 3 in 10"])


def test_priorities_that_the_slice_does_not_have_here_stop_nothing(make: Make) -> None:
    edge = make("r1", slices=[RED, BLUE])
    edge.receive(pfc({2: LONGEST_PAUSE, 5: LONGEST_PAUSE}, 20), 0)
    edge.receive(pfc({1: LONGEST_PAUSE}, 10), 0)
    assert (edge.obeyed(), edge.told_of(), edge.records) == ([], [], [])
    edge.receive(pfc({2: LONGEST_PAUSE, 5: LONGEST_PAUSE}, 10), 0)
    assert edge.obeyed() == [(WAN, {6: LONGEST_PAUSE})]


def test_the_far_edge_applies_the_pauses_of_the_near_one(make: Make) -> None:
    r3, r1 = make("r3", slices=[RED], tunnels=[back(10)]), make("r1", slices=[RED])
    for is_congested in (True, False):
        r3.agent.congested(WAN, 4, is_congested, 0, 0)
        (packet,) = r3.sent
        r3.sent.clear()
        r1.receive(packet, 0)
        assert r1.obeyed() == [(WAN, {4: LONGEST_PAUSE if is_congested else 0})]
    assert r1.told_of() == ["stopped 3 in 10", "on 3 in 10"]


def test_what_comes_to_a_sid_is_counted_for_the_controller(make: Make) -> None:
    edge = make("r1")
    edge.receive(pfc({3: 1}), 0)
    edge.receive(pfc({3: 1})[:-60], 0)
    counted = {name: count for name, count in edge.agent._counted().items() if count}
    assert sum(counted.values()) == 2 and len(counted) == 2
    assert all(name.startswith(f"{sid('r1')} ") for name in counted)


def test_a_packet_that_cannot_go_is_counted_and_nothing_else(make: Make) -> None:
    edge = make(tunnels=[back()])
    edge.agent.is_recorded = False
    edge.agent.congested(WAN, 3, True, 0, 0)
    assert edge.agent.send_errors == 1, "there is no way to anywhere in an empty namespace"
    assert edge.agent.snapshot()["tunnels"][0]["stopped"] == [3]


# Errors, and what the router itself gets


def to_sid(protocol: int, content: bytes = bytes(8)) -> bytes:
    return Packet(srv6.source_address(3), sid("r1"), protocol, content).encode()


def test_an_error_is_sent_if_the_kernel_does_not_and_not_more_than_ten_at_once(make: Make) -> None:
    edge = make("r1")
    for _ in range(12):
        edge.receive(to_sid(6), 0)
    assert len(edge.sent) == 10
    assert all(packet[24:40] == srv6.source_address(3).packed and packet[6] == ipv6.ICMPV6 for packet in edge.sent)
    edge.receive(to_sid(6), 100 * MS)
    assert len(edge.sent) == 11
    routing = bytes([17, 2, 4, 1, 0, 0, 0, 0]) + srv6.end_sid("r2").address.packed
    late = to_sid(ipv6.ROUTING, routing)
    edge.receive(late[:7] + b"\1" + late[8:], 10_000 * MS)
    assert len(edge.sent) == 11, "the kernel answers it"
    assert edge.agent.snapshot()["sids"][str(sid("r1"))] == {
        "answered upper_layer": 11,
        "left_to_kernel hop_limit": 1,
        "limited upper_layer": 2,
    }


def test_what_comes_from_outside_the_domain_pauses_nothing_even_if_it_is_known(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = make("r1")
    edge.receive(pfc({3: LONGEST_PAUSE}), 0)
    assert len(edge.obeyed()) == 1
    for interface, orders in (("r1-eth0", 0), ("r1-eth1", 1), ("eth9", 0)):
        found = [(pfc({3: LONGEST_PAUSE}), 0, interface)]
        monkeypatch.setattr("testbed.subjects.srv6.agent.wan_agent.received", lambda _, found=found: iter(found))
        edge.agent._process_ended(0)
        assert len(edge.obeyed()) == orders, interface
    assert edge.agent.snapshot()["sids"][str(sid("r1"))] == {"dropped outside_domain": 2, "paused": 2}


def test_what_is_allowed_goes_to_the_routers_own_protocols(make: Make, namespace: int) -> None:
    edge = make("r1", allowed=frozenset({6}))
    with kernel.in_network(namespace):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86DD))
    tap.settimeout(5)
    edge.receive(to_sid(6), 0)
    assert tap.recv(2048) == to_sid(6)
    tap.close()
    assert edge.sent == []
    rules = [message.kind for message in edge.requests]
    assert rules == [33, 32, 24], "a rule in the place of the predecessor's, and the SID as an address"
    assert make("r1").requests == []


def test_a_sid_with_psp_is_refused_since_the_kernel_would_have_to_do_it(make: Make) -> None:
    with pytest.raises(UsageError, match=r"has the flavour PSP, and the End\.X of Linux takes no routing header off"):
        make("r1", flavours=Flavours.PSP)
    assert make("r1", flavours=Flavours.USP).agent.snapshot()["sids"]


# Learning


def test_what_the_kernel_passes_on_teaches_like_what_ends_here(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has been advanced by the time that it is read, and then it is for another router's SID."""
    mine, end2, end4 = srv6.end_x_pfc_sid("r3", 0, GRAPH.legs["r3"][0]), srv6.end_sid("r2"), srv6.end_sid("r4")
    first = srv6.end_x_pfc_sid("r1", 0, GRAPH.legs["r1"][0])
    path = [one.address for one in (first, end2, mine, end4)]
    for done, destination in ((2, mine), (3, end4)):
        edge = make("r3", knows=[first, end2, mine, srv6.end_sid("r3"), end4])
        packet = Packet(
            srv6.source_address(1),
            destination.address,
            ipv6.ROUTING,
            Srh.along(path, ipv6.UDP, done).encode() + bytes(8),
        )
        found = [(packet.encode(), 0, "r3-eth1")]
        monkeypatch.setattr("testbed.subjects.srv6.agent.wan_agent.received", lambda _, found=found: iter(found))
        edge.agent._learn(0)
        segments = [one["segments"] for one in edge.agent.snapshot()["tunnels"]]
        assert segments == [[str(sid) for sid in (srv6.end_sid("r3").address, end2.address, first.address)]]
        monkeypatch.undo()
