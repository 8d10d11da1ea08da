"""ECN in the tunnels of the SRv6 WAN: RFC 6040 with `tunnel_ecn`, and what Linux does without it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.linux.process.kernel import in_network_of
from testbed.net.build.topo import LosslessTopo
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.roce import Roce
from testbed.net.watch.tunnels import tunnel_marks
from testbed.roce.settings import Settings
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import Duration

CASES = {"test_marks_outside_are_marks_inside_and_cnps": [{"ip_version": 4}, {"ip_version": 6}]}

LOSSLESS, CURVE = 3, EcnCurve("4kB", "16kB", "20%")
NOT_ECT, ECT_1, ECT_0, CE = range(4)
END = socket.inet_pton(socket.AF_INET6, "fd00:2::1")


def marks_at_ports(net: Any) -> tuple[int, int]:
    """Return how many packets the WAN's ports have marked, and dropped because they could not mark them."""
    from testbed.net.watch import readings

    found = [row for port in readings.ecn(net.fabric).values() for row in port.values()]
    return sum(one["marked"] for one in found), sum(one["dropped"] for one in found)


@experiment(timeout="120s")
def test_marks_outside_are_marks_inside_and_cnps(run: Run, ip_version: int = 6) -> None:
    """Two senders fill the WAN, whose headers are longer. Each mark comes out of the tunnel, and brings a CNP."""
    from testbed.net.build.network import network
    from topologies.srv6_wan import Srv6Wan

    each = Settings(cnp_interval=Duration("0s"))
    transport = Roce(ip_version=ip_version, settings=each, target_settings=each)
    marks = {}
    for name, copies in (("RFC 6040", True), ("as Linux does", False)):
        with network(Srv6Wan(wan="1km", ipv6=True, wan_ecn=CURVE, tunnel_ecn=copies), run, case=name) as net:
            size = "1MB" if copies or ip_version == 6 else "50kB"
            flows = net.run(*(
                Flow(*ends, size=size, rate_control="dcqcn", transport=transport)
                for ends in (("a1", "b1"), ("a2", "b2"))
            ))  # fmt: skip
            outside, dropped = marks_at_ports(net)
            inside, cnps, sent = (
                sum(getattr(one, word) for one in flows.reports) for word in ("marked", "cnps_received", "sent")
            )
            marks[name] = {"outside": outside, "inside": inside, "CNPs": cnps, "dropped": dropped}
            run.figure(f"{name}: marks", marks[name])
            if copies:
                going, coming = (tunnel_marks(net.fabric, port) for port in ("r1-eth1", "r3-eth1"))
                run.claim("outer headers with the inner field", going.copied_out, equals=sent if ip_version == 4 else 0)
                run.claim("inner headers with the outer field", coming.copied_in, equals=outside)
            else:
                try:
                    tunnel_marks(net.fabric, "r3-eth1")
                except UsageError as error:
                    said = str(error)
                run.claim("what is said of a router without it", said, equals=(
                    "r3-eth1: r3 copies no marks of tunnels; make it with tunnel_ecn=True"
                ))  # fmt: skip
    one = marks["RFC 6040"]
    run.claim("marks outside", one["outside"], at_least=10)
    run.claim("marks inside and CNPs", [one["inside"], one["CNPs"], one["dropped"]], equals=[one["outside"]] * 2 + [0])
    other = marks["as Linux does"]
    run.claim("Linux: marks inside and CNPs", [other["inside"], other["CNPs"]], equals=[0, 0])
    if ip_version == 6:
        run.claim("Linux, IPv6: marks outside, which are lost", other["outside"], at_least=100)
    else:
        run.claim("Linux, IPv4: dropped in place of marked", [other["outside"], other["dropped"] > 0], equals=[0, True])


class Tunnel(LosslessTopo):
    """Two hosts at a router that copies marks, in the midst of tunnels between the hosts."""

    def build(self) -> None:
        self.addRouter("r1", ip=None, tunnel_ecn=True)
        for number in (1, 2):
            own = f"fd00:{number}::"
            self.addHost(f"h{number}", ip=None, ipv6=f"{own}1/64", defaultRoute6=f"via {own}2")
            self.addLink("r1", f"h{number}", params1={"ipv6": f"{own}2/64"})


def packet(outer: int, inner: int, version: int, extensions: bytes = b"") -> bytes:
    """Return a datagram in a tunnel to h2, with these ECN fields and extension headers."""
    udp = struct.pack("!HHHH", 9, 9, 8 + 16, 0) + bytes(16)
    ends = [socket.inet_pton(socket.AF_INET6, f"fd00:{number}::1") for number in (1, 2)]
    if version == 4:
        inside = bytes([0x45, inner, 0, 20 + len(udp), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2])
        total = sum(struct.unpack("!10H", inside))
        inside = inside[:10] + struct.pack("!H", 0xFFFF - (total % 0xFFFF)) + inside[12:]
    else:
        inside = bytes([0x60, inner << 4, 0, 0]) + struct.pack("!HBB", len(udp), 17, 64) + b"".join(ends)
    content = extensions + inside + udp
    first = 60 if extensions else 4 if version == 4 else 41
    return bytes([0x60, outer << 4, 0, 0]) + struct.pack("!HBB", len(content), first, 64) + b"".join(ends) + content


def destination_options(version: int) -> bytes:
    """Return two headers of destination options that are padding, before the packet."""
    return bytes([60, 0, 1, 4, 0, 0, 0, 0, 4 if version == 4 else 41, 1, 1, 12, *bytes(12)])


@experiment(timeout="60s")
def test_each_field_outside_and_inside_comes_out_as_the_table_of_rfc_6040_has_it(run: Run) -> None:
    """Send all pairs of ECN fields in tunnels to a host, and read what its port passes on."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap

    table = {
        NOT_ECT: (NOT_ECT, ECT_1, ECT_0, CE),
        ECT_1: (NOT_ECT, ECT_1, ECT_1, CE),
        ECT_0: (NOT_ECT, ECT_1, ECT_0, CE),
        CE: (None, CE, CE, CE),
    }  # by the outer field, then by the inner one; None: dropped
    with network(Tunnel(), run) as net:
        net["h1"].cmd("ping -c 1 -W 5 fd00:2::1")  # so that the router knows h2's MAC address
        to, own = (port.mac.octets for port in map(net.fabric.port, ("r1-eth0", "h1-eth0")))
        for version in (4, 6):
            for name, extensions in (("at once", b""), ("behind options", destination_options(version))):
                found: dict[int, tuple[int | None, ...]] = {}
                sums = set()
                for outer in range(4):
                    row: list[int | None] = []
                    for inner in range(4):
                        with Tap(net["h2"], "h2-eth0") as tap, in_network_of(net["h1"].pid):
                            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                            raw.bind(("h1-eth0", 0))
                            raw.send(to + own + b"\x86\xdd" + packet(outer, inner, version, extensions))
                            raw.close()
                            time.sleep(0.001)
                            frames = [one for one in tap.frames() if one[38:54] == END]
                        inside = [one[54 + len(extensions) :] for one in frames]
                        row.append(next((_ecn(one, version) for one in inside), None))
                        sums |= {sum(struct.unpack("!10H", one[:20])) % 0xFFFF for one in inside if version == 4}
                    found[outer] = tuple(row)
                run.claim(f"IPv{version}, {name}: fields inside", _shown(found), equals=_shown(table))
                run.claim(f"IPv{version}, {name}: checksums", sorted(sums), equals=[0] if version == 4 else [])
        marks = tunnel_marks(net.fabric, "r1-eth0")
        run.claim("dropped, and written inside", [marks.dropped, marks.copied_in], equals=[4, 4 * 3])
        sent = tunnel_marks(net.fabric, "r1-eth1").copied_out
        run.claim("outer fields that were empty, and got the inner one", sent, equals=4 * 3)
        losses = net.fabric.losses() or {}
        run.claim("the fabric knows the drops", losses.get("CE of a tunnel, not ECN-capable inside"), equals=4)


def _shown(table: Mapping[int, tuple[int | None, ...]]) -> list[list[int]]:
    return [[-1 if one is None else one for one in table[outer]] for outer in range(4)]


def _ecn(inside: bytes, version: int) -> int:
    return inside[1] & 3 if version == 4 else inside[1] >> 4 & 3
