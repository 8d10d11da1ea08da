"""Ports of a node without an agent: lossless queues stand still and far ends are paused, until there is one again."""

from __future__ import annotations

from testbed.agent.pfc.pause_failsafe import PauseFailsafe
from testbed.agent.pfc.port import ENABLED, SHARED
from testbed.agent.plan import AgentPlan, Arrangement, PortPlan
from testbed.frames import Mac, mac_control
from testbed.frames.mac_control import PfcFrame
from testbed.switch.pfc.settings import PfcSettings
from testbed.units import Rate

CHARGED, HOSTS = 2, 5
"""The slots of a port with a buffer, and of one without."""


def _port(slot: int) -> PortPlan:
    return PortPlan(
        slot=slot,
        name=f"s1-eth{slot}",
        interface=4096 + slot,
        mac=Mac.parse("02:00:00:00:00:01"),
        rate=Rate("10Mb/s"),
        pfc=PfcSettings(frozenset({3}), pause_quanta=1000),
        has_buffer=slot == CHARGED,
        stop=tuple(b"stop %d %d," % (slot, queue) for queue in range(8)),
        go=tuple(b"go %d %d," % (slot, queue) for queue in range(8)),
        empty=(),
        local=tuple(range(8)),
        arrange=lambda ets: Arrangement(tuple(range(8)), tuple(range(8)), ()),
    )


class Node:
    """A node of two ports without an agent, and the requests and frames at it."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.sent: list[tuple[str, dict[int, int]]] = []
        self.shared = bytearray(bytes(1 << queue for queue in range(8)).ljust(SHARED, b"\0") * 8)
        plan = AgentPlan("s1", 0, 1, (_port(CHARGED), _port(HOSTS)))
        self.failsafe = PauseFailsafe(plan, memoryview(self.shared), self.requests.append, self._sent)

    def enable(self, slot: int, mask: int) -> None:
        self.shared[slot * SHARED + ENABLED] = mask

    def _sent(self, port: PortPlan, frame: bytes) -> None:
        parsed = mac_control.parse(frame)
        assert isinstance(parsed, PfcFrame) and parsed.source == port.mac
        self.sent.append((port.name, dict(parsed.changes())))


def test_lossless_queues_stop_at_every_port_and_far_ends_where_a_buffer_can_become_congested() -> None:
    node = Node()
    node.enable(CHARGED, 0b1000)
    node.enable(HOSTS, 0b10001)
    node.failsafe.engage()
    assert node.requests == [b"stop 2 3,", b"stop 5 0,stop 5 4,"]
    assert node.sent == [("s1-eth2", {3: 1000})]


def test_what_is_lossless_is_what_is_so_now_and_its_queues_are_those_of_now() -> None:
    node = Node()
    node.enable(CHARGED, 0b10010)  # not priority 3 as in the plan
    node.shared[CHARGED * SHARED + 4] = 0b01100000  # its frames lie in two queues
    node.failsafe.engage()
    assert node.requests == [b"stop 2 1,stop 2 5,stop 2 6,"]
    assert node.sent == [("s1-eth2", {1: 1000, 4: 1000})]


def test_a_node_without_a_successor_has_all_queues_open_and_its_far_ends_resumed() -> None:
    node = Node()
    node.enable(CHARGED, 0b1000)
    node.failsafe.release()
    assert node.requests == [b"".join(b"go %d %d," % (slot, queue) for queue in range(8)) for slot in (CHARGED, HOSTS)]
    assert node.sent == [("s1-eth2", {3: 0})]
