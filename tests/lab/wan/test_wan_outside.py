"""A host in a data centre attacks the SR domain: it sends what only routers may send, and nothing comes of it.

The same attacks go on after the filters of its router's port have been taken away; then they do what they are meant to.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from testbed.frames import Mac, ipv6
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import PfcFrame
from testbed.frames.srh import Srh
from testbed.lab import Run, experiment
from testbed.linux.process import kernel
from testbed.subjects.srv6.lab import routers as srv6
from xoff import wan_filtered, wan_state

if TYPE_CHECKING:
    pass


MAC = Mac.parse("02:00:00:00:00:66")
PORT = 5000
STOP = PfcFrame.xoff(MAC, [3], 65535).encode()
PRIORITY_TAG = bytes.fromhex("81006000")
IPV6 = bytes.fromhex("86dd")
IN_IPV4 = 4


@dataclass(frozen=True)
class Seen:
    """The things that the attacks can change."""

    paused: list[str]
    """The ports to the WAN whose lossless queue is stopped."""
    intruded: int
    """The number of datagrams that came to b1 from outside of its VPN."""
    learned: int
    """The number of tunnels that routers learned."""
    at_sids: int
    """The number of packets that came to SIDs of End.X.PFC."""


@experiment(_in_lab_time=True, timeout="120s")
def test_who_is_outside_the_domain_changes_nothing_and_is_counted(run: Run) -> None:
    """Make all attacks, also with a priority tag: nothing changes, and each packet is counted. Repeat without
    filters.
    """
    from testbed.net.build.network import network
    from testbed.net.traffic import ping
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(n=1, wan="1km", back="learned")
    with network(topo, run) as net:
        with kernel.in_network_of(net["b1"].pid):
            victim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        victim.bind(("", PORT))
        victim.setblocking(False)
        for host in ("a1", "b1"):  # who is where is known by now, and r3 has seen data
            ping(net[host], net["b1" if host == "a1" else "a1"])
        time.sleep(0.5)
        before = _seen(net, victim)
        packets = _attacks(topo)
        _send(net, packets)
        filtered = wan_filtered(net.fabric, "r1")
        run.claim("with filters: what has changed", _changes(before, _seen(net, victim)), equals={})
        wanted = {"source_outside": 0, "to_the_domain": 2 * (len(packets) - 1), "from_the_domain": 2}
        run.claim("with filters: dropped at the edge", filtered, equals=wanted)
        run.claim("visible beside the counters of SIDs", wan_state(net.fabric, "r1")["filtered"], equals=wanted)
        run.claim("elsewhere", [wan_filtered(net.fabric, router) for router in ("r2", "r3")], equals=[_none(), _none()])
        run.claim("the VPN works as before", ping(net["a1"], net["b1"]) is not None, equals=True)
        net["r1"].cmd("tc qdisc del dev r1-eth0 clsact")
        _send(net, packets)
        after = _seen(net, victim)
        run.claim("without filters: stopped at r3", "r3-eth1" in after.paused, equals=True)
        run.claim("without filters: stopped at r1, whose agent has the port", "r1-eth1" in after.paused, equals=False)
        run.claim("without filters: intruded into the VPN", after.intruded, at_least=2)
        run.claim("without filters: came to SIDs", after.at_sids - before.at_sids, at_least=6)
        victim.close()


@experiment(_in_lab_time=True, timeout="120s")
def test_a_stranger_inside_the_domain_reaches_no_sid(run: Run) -> None:
    """Check a packet inside the domain with a foreign source: each router drops packets to its own SIDs."""
    from testbed.net.build.network import network
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(n=1, wan="1km")
    stranger = IPv6Address("fd00:bad::1")
    place, leg = topo.graph.leg("r1", "r2")
    mine, end2 = srv6.end_x_pfc_sid("r1", place, leg).address, srv6.end_sid("r2").address
    with network(topo, run) as net:
        with kernel.in_network_of(net["r3"].pid):
            raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
        srh = Srh.along([end2, mine], ipv6.ETHERNET).encode()
        for source in (stranger, srv6.source_address(3)):
            straight = Packet(source, mine, ipv6.ETHERNET, STOP)
            by_r2 = Packet(source, end2, ipv6.ROUTING, srh + STOP)
            for packet in (straight, by_r2):
                raw.sendto(packet.encode(), (str(packet.destination), 0))
            time.sleep(0.5)
        raw.close()
        found = {router: wan_filtered(net.fabric, router)["source_outside"] for router in ("r1", "r2", "r3")}
        run.claim("dropped by the filters", found, equals={"r1": 1, "r2": 1, "r3": 0})
        run.claim("at the SID", wan_state(net.fabric, "r1")["sids"][str(mine)], equals={"paused": 2})


def _attacks(topo: Any) -> Mapping[str, bytes]:
    (r1, leg1), (r3, leg3) = topo.graph.leg("r1", "r2"), topo.graph.leg("r3", "r2")
    at_r1, at_r3 = srv6.end_x_pfc_sid("r1", r1, leg1).address, srv6.end_x_pfc_sid("r3", r3, leg3).address
    near, far = srv6.source_address(1), srv6.source_address(3)
    end1, end2, vpn = srv6.end_sid("r1").address, srv6.end_sid("r2").address, srv6.vpn_sid("r3").address
    itself = IPv6Address("2001:db8::a1")
    by_r1 = Srh.along([end1, at_r3], ipv6.ETHERNET).encode()
    back = Srh.along([at_r1, end2, vpn], IN_IPV4, done=2).encode()
    return {
        "a forged PFC frame to the near edge": Packet(far, at_r1, ipv6.ETHERNET, STOP).encode(),
        "a forged PFC frame to the far edge": Packet(near, at_r3, ipv6.ETHERNET, STOP).encode(),
        "the same by a segment of the near edge": Packet(near, end1, ipv6.ROUTING, by_r1 + STOP).encode(),
        "an upper layer that would be answered": Packet(itself, at_r1, 6, bytes(20)).encode(),
        "a datagram into the VPN": Packet(near, vpn, IN_IPV4, _datagram()).encode(),
        "data that teach a tunnel": Packet(near, vpn, ipv6.ROUTING, back + _datagram()).encode(),
        "a forged response of a measurement": Packet(far, near, ipv6.ETHERNET, bytes(60)).encode(),
        "from a router to anybody": Packet(far, IPv6Address("ff02::1"), ipv6.NO_NEXT_HEADER, b"").encode(),
    }


def _datagram() -> bytes:
    """Return an IPv4 packet with UDP for b1's program."""
    head = bytes.fromhex("4500 0020 0000 0000 4011 0000 0a010063 0a020001".replace(" ", ""))
    total = int.from_bytes(head) % 0xFFFF
    return head[:10] + (0xFFFF - total).to_bytes(2) + head[12:] + PORT.to_bytes(2) * 2 + bytes([0, 12, 0, 0]) + b"boo!"


def _send(net: Any, packets: Mapping[str, bytes]) -> None:
    """Send all attacks from a1 to its gateway, without a tag and with one."""
    from testbed.net.shell.wire import RawPort

    fabric = net.fabric
    with RawPort(net["a1"], "a1-eth0") as port:
        for packet in packets.values():
            for tag in (b"", PRIORITY_TAG):
                port.send(fabric.port("r1-eth0").mac.octets + fabric.port("a1-eth0").mac.octets + tag + IPV6 + packet)
                time.sleep(0.05)
    time.sleep(0.3)


def _seen(net: Any, victim: socket.socket) -> Seen:
    fabric, intruded = net.fabric, 0
    while True:
        try:
            victim.recv(512)
        except BlockingIOError:
            break
        intruded += 1
    both = [wan_state(fabric, router) for router in ("r1", "r3")]
    return Seen(
        paused=[port for port in ("r1-eth1", "r3-eth1") if fabric.pfc(port, 3)["paused_until_ns"] is not None],
        intruded=intruded,
        learned=sum(len(one["tunnels"]) for one in both),
        at_sids=sum(sum(counted.values()) for one in both for counted in one["sids"].values()),
    )


def _changes(before: Seen, after: Seen) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in Seen.__dataclass_fields__}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _none() -> dict[str, int]:
    return {"source_outside": 0, "to_the_domain": 0, "from_the_domain": 0}
