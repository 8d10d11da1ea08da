"""The ICMP errors to the sender of a packet to an End.X.PFC SID, on real routers: each once, from kernel or agent.

r3 sends by way of r2 to r1's SID; what r2 itself would answer is sent by r2. For the SID without flavours, and with
USP; Linux's End.X refuses to take any, and USP needs none of it.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any

from testbed.frames import icmpv6, ipv6
from testbed.frames.icmpv6 import Error
from testbed.frames.ipv6 import Packet
from testbed.frames.srh import Srh
from testbed.lab import Run, experiment
from testbed.linux.process import kernel
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol.sid import Flavours
from xoff import wan_state

if TYPE_CHECKING:
    pass


UDP_PORT = 5000
_PACKET_INFO, _ROUTING_HEADER = 49, 56  # IPV6_RECVPKTINFO, IPV6_RECVRTHDR
_PACKET_INFO_CAME, _ROUTING_HEADER_CAME = 50, 57
TIME_EXCEEDED, PARAMETER_PROBLEM = 3, 4
UNKNOWN_OPTION = bytes([0x9E, 4, 0, 0, 0, 0])
"""An option that a node has to know (its first bits are 10)."""
PADDING = bytes([1, 4, 0, 0, 0, 0])
BURST = 40
APART_S = 0.25
"""A time after which the router may send the next error."""


@dataclass(frozen=True)
class Case:
    """A packet, and the errors that its sender is to hear: type, code, pointer."""

    name: str
    packet: bytes
    expected: Sequence[tuple[int, int, int]]
    counted: str | None
    """The name of the counter at the SID, or None if the packet is not counted."""
    who: str = "r3"
    kernel: bool = False
    """True if the error is the kernel's, which quotes the packet as the kernel has changed it."""


def routing(path: Sequence[IPv6Address], next_header: int, left: int, last: int | None = None) -> bytes:
    """Return a segment routing header for a path in order of travel, with these fields, true or not."""
    octets = bytearray(Srh.along(path, next_header).encode())
    octets[3], octets[4] = left, len(path) - 1 if last is None else last
    return bytes(octets)


def udp(source: IPv6Address, destination: IPv6Address, content: bytes) -> bytes:
    """Return a datagram with its checksum."""
    length = 8 + len(content)
    head = UDP_PORT.to_bytes(2) + UDP_PORT.to_bytes(2) + length.to_bytes(2)
    pseudo = source.packed + destination.packed + length.to_bytes(4) + ipv6.UDP.to_bytes(4)
    octets = pseudo + head + bytes(2) + content + bytes(len(content) % 2)
    total = int.from_bytes(octets) % 0xFFFF
    return head + (0xFFFF - total or 0xFFFF).to_bytes(2) + content


def cases(sid: IPv6Address, after: IPv6Address) -> list[Case]:
    """Return the cases of a SID; `after` is the segment that follows it in the lists."""
    r2, r3 = srv6.source_address(2), srv6.source_address(3)
    path = [srv6.end_sid("r2").address, sid, after]

    def to(next_header: int, content: bytes, hop_limit: int = 64, source: IPv6Address = r3) -> bytes:
        return Packet(source, sid, next_header, content, hop_limit=hop_limit).encode()

    def on_its_way(left: int = 1, last: int | None = None, hop_limit: int = 64, source: IPv6Address = r3) -> bytes:
        return to(ipv6.ROUTING, routing(path, ipv6.UDP, left, last) + bytes(8), hop_limit, source)

    in_list, exceeded = [(PARAMETER_PROBLEM, 0, 43)], [(TIME_EXCEEDED, 0, 0)]
    found = [
        Case("passed on", on_its_way(), [], None),
        Case("Hop Limit 1", on_its_way(hop_limit=2), exceeded, "left_to_kernel hop_limit", "r3", True),
        Case(
            "Hop Limit 0", on_its_way(hop_limit=0, source=r2), exceeded, "left_to_kernel hop_limit", "r2", kernel=True
        ),
        Case("Hop Limit 1 and a wrong list", on_its_way(4, hop_limit=2), exceeded, "answered hop_limit"),
        Case("Segments Left is Last Entry + 2", on_its_way(4), in_list, "answered segments_left"),
        Case("Segments Left 255", on_its_way(255), in_list, "answered segments_left"),
        Case("Last Entry beyond the header", on_its_way(1, 3), in_list, "answered segments_left"),
        Case(
            "Segments Left behind an option",
            to(ipv6.HOP_BY_HOP, bytes([ipv6.ROUTING, 0]) + PADDING + on_its_way(4)[40:]),
            [(PARAMETER_PROBLEM, 0, 51)],
            "answered segments_left",
        ),
        Case(
            "an unknown option, hop by hop",
            to(ipv6.HOP_BY_HOP, bytes([ipv6.ETHERNET, 0]) + UNKNOWN_OPTION + bytes(60), source=r2),
            [(PARAMETER_PROBLEM, 2, 42)],
            "left_to_kernel header",
            "r2",
            True,
        ),
        Case(
            "an unknown option for the destination",
            to(ipv6.DESTINATION_OPTIONS, bytes([ipv6.ETHERNET, 0]) + UNKNOWN_OPTION + bytes(60)),
            [(PARAMETER_PROBLEM, 2, 42)],
            "answered header",
        ),
        Case(
            "an ICMP error",
            to(ipv6.ICMPV6, Error(icmpv6.ErrorType.TIME_EXCEEDED, 0, 0, b"").encode(r3, sid)),
            [],
            "dropped upper_layer",
        ),
        Case(
            "an ICMP error, Hop Limit 1",
            to(ipv6.ROUTING, routing(path, ipv6.ICMPV6, 4) + bytes([1, 0, 0, 0, 0, 0, 0, 0]), 2),
            [],
            "dropped hop_limit",
        ),
        Case("from many", to(6, bytes(20), source=IPv6Address("ff0e::1")), [], None, "r2"),
    ]
    for protocol in (4, 6, ipv6.NO_NEXT_HEADER, 41, 253):
        plain, behind = [(PARAMETER_PROBLEM, 4, 40)], [(PARAMETER_PROBLEM, 4, 96)]
        listed = to(ipv6.ROUTING, routing(path, protocol, 0) + bytes(20))
        found.append(Case(f"upper layer {protocol}", to(protocol, bytes(20)), plain, "answered upper_layer"))
        found.append(Case(f"upper layer {protocol} behind a list", listed, behind, "answered upper_layer"))
    return found


@experiment(timeout="120s")
def test_the_sender_of_what_a_sid_does_not_take_gets_each_error_once(run: Run) -> None:
    """Check type, code, pointer, number and quotation of the errors, and the SID's counters."""
    for flavours in (Flavours.NONE, Flavours.USP):
        _errors(run, flavours)


def _errors(run: Run, flavours: Flavours) -> None:
    from testbed.net.build.network import network

    topo = wan(flavours, frozenset({ipv6.UDP}))
    place, leg = topo.graph.leg("r1", "r2")
    sid = srv6.end_x_pfc_sid("r1", place, leg).address
    with network(topo, run) as net:
        for router in ("r2", "r3"):  # the first packets find their neighbours
            net[router].cmd(f"ping -6 -c 2 -i 0.1 -W 5 {srv6.source_address(1)}")
        before = at(net, sid)
        heard = {router: Ear(net[router]) for router in ("r2", "r3")}
        expected: Counter[str] = Counter()
        for case in cases(sid, srv6.end_sid("r3").address):
            heard[case.who].send(case.packet, sid)
            time.sleep(APART_S)
            found = heard[case.who].errors()
            name = f"{flavours}: {case.name}"
            run.claim(name, [(one.type, one.code, one.value) for one in found], equals=list(case.expected))
            came = case.packet if case.who == "r2" else hopped(case.packet)
            if found and not case.kernel:
                run.claim(f"{name}: quoted as it came", found[0].invoking == came, equals=True)
            if case.counted:
                expected[case.counted] += 1
        counted = at(net, sid)
        run.claim(f"{flavours}: counters", counted, equals=dict(sorted((Counter(before) + expected).items())))
        run.claim(f"{flavours}: packets to none of the SIDs", wan_state(net.fabric, "r1")["sids"]["other"], equals={})
        _delivered(run, net, sid, flavours)
        _limited(run, heard["r3"], net, sid, flavours)
        refused = [
            "Unsupported"
            in net["r1"].cmd(
                f"ip -6 route add fd00:5:1:99::/128 encap seg6local action End.X nh6 {leg.next_hop} flavors {name} "
                f"dev {leg.interface}"
            )
            for name in ("psp", "usp")
        ]
        run.claim(f"{flavours}: the kernel's End.X refuses the flavours PSP and USP", refused, equals=[True, True])
        for ear in heard.values():
            ear.close()


def _delivered(run: Run, net: Any, sid: IPv6Address, flavours: Flavours) -> None:
    """Check UDP, which is allowed: a program on r1 gets it, and the list too unless USP has taken it off."""
    r3 = srv6.source_address(3)
    with kernel.in_network_of(net["r1"].pid):
        program = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    program.bind(("::", UDP_PORT))
    program.settimeout(2)
    for option in (_PACKET_INFO, _ROUTING_HEADER):
        program.setsockopt(socket.IPPROTO_IPV6, option, 1)
    ear = Ear(net["r3"])
    path = [srv6.end_sid("r2").address, sid]
    packets = {
        "": Packet(r3, sid, ipv6.UDP, udp(r3, sid, b"plain")).encode(),
        " behind a list": Packet(r3, sid, ipv6.ROUTING, routing(path, ipv6.UDP, 0) + udp(r3, sid, b"listed")).encode(),
    }
    for name, packet in packets.items():
        ear.send(packet, sid)
        content, ancillary, _, sender = program.recvmsg(512, 512)
        kinds = {kind: value for _, kind, value in ancillary}
        wanted = [packet[-len(content) :], str(r3), sid.packed, bool(name) and flavours is Flavours.NONE]
        came = [content, sender[0], kinds[_PACKET_INFO_CAME][:16], _ROUTING_HEADER_CAME in kinds]
        run.claim(f"{flavours}: UDP{name} reaches a program on r1", came == wanted, equals=True)
    run.claim(f"{flavours}: errors about it", len(ear.errors()), equals=0)
    run.claim(f"{flavours}: delivered", at(net, sid).get("delivered"), equals=2)
    program.close()
    ear.close()


def _limited(run: Run, ear: Ear, net: Any, sid: IPv6Address, flavours: Flavours) -> None:
    """Check many packets at once: ten are answered, and a few more as time goes by; all are counted."""
    time.sleep(1)
    before = at(net, sid)
    packet = Packet(srv6.source_address(3), sid, 6, bytes(20)).encode()
    for _ in range(BURST):
        ear.send(packet, sid)
    time.sleep(0.5)
    heard, after = len(ear.errors()), at(net, sid)
    answered = after["answered upper_layer"] - before["answered upper_layer"]
    run.claim(f"{flavours}: errors for {BURST} packets at once", heard, at_least=10, at_most=15)
    run.claim(f"{flavours}: those that were counted as answered", answered, equals=heard)
    run.claim(f"{flavours}: the others", after.get("limited upper_layer", 0), equals=BURST - heard)


def wan(flavours: Flavours, allowed: frozenset[int]) -> Any:
    """Return figure 3 with these settings for r1's SID."""
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(n=1, wan="1km")
    mine = topo.nodeInfo("r1")["wan"]
    sids = tuple(replace(local, sid=replace(local.sid, flavours=flavours), allowed=allowed) for local in mine.plan.sids)
    topo.nodeInfo("r1")["wan"] = replace(mine, plan=replace(mine.plan, sids=sids))
    return topo


def at(net: Any, sid: IPv6Address) -> dict[str, int]:
    """Return the counters of packets to r1's SID."""
    return dict(wan_state(net.fabric, "r1")["sids"][str(sid)])


def hopped(packet: bytes) -> bytes:
    """Return the packet as it is after one more router."""
    return packet[:7] + bytes([packet[7] - 1]) + packet[8:]


class Ear:
    """Sends packets of any kind from a router, and receives the ICMP errors that come back to it."""

    def __init__(self, node: Any) -> None:
        with kernel.in_network_of(node.pid):
            self._out = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self._in = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        self._in.setblocking(False)
        self.errors()

    def send(self, packet: bytes, destination: IPv6Address) -> None:
        self._out.sendto(packet, (str(destination), 0))

    def errors(self) -> list[Error]:
        """Return the errors since the last call."""
        found: list[Error] = []
        while True:
            try:
                data = self._in.recv(2048)
            except BlockingIOError:
                return found
            if data[0] < 128:
                found.append(Error(icmpv6.ErrorType(data[0]), data[1], int.from_bytes(data[4:8]), data[8:]))

    def close(self) -> None:
        self._out.close()
        self._in.close()
