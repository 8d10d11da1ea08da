"""Headroom through a reverse tunnel: two edges, and a tunnel in memory between them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from testbed.frames import Mac, ipv6
from testbed.linux.netlink import links, messages
from testbed.linux.process import kernel
from testbed.subjects.srv6.agent.tunnel_headroom import TunnelHeadroom
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol.endx_pfc import Drop, DropReason, LocalSid, Measure, process
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.units import Duration

MS = 10**6
GRAPH = srv6.WanGraph([("r1", "r2", Duration("5ms")), ("r2", "r3", Duration("5ms"))], {"r1": 1, "r3": 1})
SID = srv6.end_x_pfc_sid("r1", 0, GRAPH.legs["r1"][0])
SEGMENTS = tuple(sid.address for sid in (srv6.end_sid("r3"), srv6.end_sid("r2"), SID))
TUNNEL = ReverseTunnel("r3", "r1", SEGMENTS, None, "r3-eth1", 10 * MS)
PACKETS = Encapsulator(TUNNEL, srv6.source_address(3))


@dataclass
class Edge:
    """One edge; `inside` is where its answers come in."""

    machine: TunnelHeadroom
    inside: socket.socket
    sent: list[bytes]
    found: list[tuple[str | None, Duration]] = field(default_factory=list)

    def hear(self, packet: bytes) -> None:
        header = next(one for one in ipv6.headers(packet) if one.protocol == ipv6.ETHERNET)
        self.inside.send(packet[header.start :])
        self.machine.receive(time.monotonic_ns())


@pytest.fixture
def edges(namespace: int) -> Iterator[tuple[Edge, Edge]]:
    """Return r1, which answers, and r3, which asks."""
    made = []
    with kernel.in_network(namespace):
        kernel.set_up("lo")
        own = messages.Socket()
        own.send([links.address(1, f"{srv6.source_address(number)}/128") for number in (1, 3)])
        own.close()
        for number in (1, 3):
            sent, found = list[bytes](), list[tuple[str | None, Duration]]()
            mac = Mac(bytes([2, 0, 0, 0, 0, number]))
            machine = TunnelHeadroom(
                srv6.source_address(number), mac, sent.append, lambda *what, found=found: found.append(what)
            )
            machine._answers.close()
            machine._answers, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            machine._answers.setblocking(False)
            made.append(Edge(machine, inside, sent, found))
    yield made[0], made[1]
    for edge in made:
        edge.machine._answers.close()
        edge.inside.close()


def ask(one: Edge, other: Edge) -> None:
    """Carry r3's requests to r1, and the answers back, until r3 has nothing to ask."""
    for _ in range(40):
        due_ns = one.machine.deadline_ns
        if due_ns > time.monotonic_ns() + 1000 * MS:
            return
        time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
        one.machine.expire(time.monotonic_ns())
        for packet in one.sent:
            result = process(_passed_on(packet), LocalSid(SID, srv6.DOMAIN, measures=True))
            assert isinstance(result, Measure), result
            other.machine.answer(result, time.monotonic_ns())
        for packet in other.sent:
            one.hear(packet)
        one.sent.clear()
        other.sent.clear()
    raise AssertionError("it asks without end")


def asked(edge: Edge) -> Measure:
    """Return the first request of an edge that has a tunnel, as it comes out of the tunnel."""
    edge.machine.add(TUNNEL, PACKETS, time.monotonic_ns())
    edge.machine.expire(time.monotonic_ns())
    result = process(_passed_on(edge.sent.pop()), LocalSid(SID, srv6.DOMAIN, measures=True))
    assert isinstance(result, Measure)
    return result


def _passed_on(packet: bytes) -> bytes:
    """Return a packet as it comes to the last segment: r2 has done its part."""
    header = next(one for one in ipv6.headers(packet) if one.protocol == ipv6.ROUTING)
    changed = bytearray(packet)
    changed[header.start + 3] = 0  # Segments Left
    changed[24:40] = SID.address.packed
    return bytes(changed)


def test_the_first_series_does_not_count_and_the_second_includes_the_own_reaction(edges: tuple[Edge, Edge]) -> None:
    far, near = edges
    near.machine.reaction_ns = 5 * MS
    far.machine.obeying_ns = 2 * MS
    near.machine.add(TUNNEL, PACKETS, time.monotonic_ns())
    ask(near, far)
    ((interface, trip),) = near.found
    assert interface == "r3-eth1"
    assert 7 * MS <= trip.ns < 60 * MS, "the far end obeys after 2 ms, and XOFF leaves 5 ms after the threshold"
    (seen,) = near.machine.snapshot()
    assert (seen["sent"]["requests"], seen["received"]) == (16, 16)
    assert seen["round_trip_ns"] == trip.ns - 5 * MS


def test_an_answer_comes_back_by_the_same_routers(edges: tuple[Edge, Edge]) -> None:
    far, near = edges
    result = asked(near)
    assert result.back == (SID.address, srv6.end_sid("r2").address, srv6.source_address(3))
    far.machine.answer(result, time.monotonic_ns())
    (answer,) = far.sent
    assert ipv6.addresses(answer) == (srv6.source_address(1), srv6.end_sid("r2").address)


def test_a_sid_that_is_not_set_to_measure_drops_what_is_not_pfc(edges: tuple[Edge, Edge]) -> None:
    _, near = edges
    near.machine.add(TUNNEL, PACKETS, time.monotonic_ns())
    near.machine.expire(time.monotonic_ns())
    packet = _passed_on(near.sent.pop())
    assert process(packet, LocalSid(SID, srv6.DOMAIN)) == Drop(DropReason.INNER_OTHER_OPCODE)


def test_a_tunnel_that_is_gone_is_not_measured(edges: tuple[Edge, Edge]) -> None:
    _, near = edges
    near.machine.add(TUNNEL, PACKETS, time.monotonic_ns())
    near.machine.remove(TUNNEL)
    near.machine.expire(time.monotonic_ns())
    assert not near.sent and not near.machine.snapshot()
    assert near.machine.deadline_ns > time.monotonic_ns() + 10**15


def test_a_request_that_comes_twice_is_answered_once(edges: tuple[Edge, Edge]) -> None:
    far, near = edges
    result = asked(near)
    for _ in range(2):
        far.machine.answer(result, time.monotonic_ns())
    assert len(far.sent) == 1


def test_nonsense_and_too_many_peers_change_nothing(edges: tuple[Edge, Edge]) -> None:
    far, near = edges
    result = asked(near)
    far.machine.answer(replace(result, frame=bytes(60)), time.monotonic_ns())
    assert not far.sent
    for number in range(100):
        sender = srv6.source_address(1000 + number)
        far.machine.answer(replace(result, back=(*result.back[:-1], sender)), time.monotonic_ns())
    assert len(far.sent) == 63, "with the one that sent nonsense they are 64"
    near.inside.send(os.urandom(60))
    near.machine.receive(time.monotonic_ns())
    assert near.machine.snapshot()[0]["received"] == 0
