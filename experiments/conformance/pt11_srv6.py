"""PT11: SRv6 packets that are trimmed."""

import struct
import time
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any

from experiments.conformance._case import Bench, Control, case
from experiments.conformance._trimming import DSCP, FRAMES, SIZE, UDP, block, ip, transport, trims, without_trimming
from xoff import LosslessTopo, Port, RawPort, Tap

CAME = "SHIFT: packets that arrived with 256 octets"
_END, _DECAP = "fc00:1::1", "fc00:2::100"
_TARGET = "8000:3::2"
_INNER_DSCP = 3
_ROUTING, _IN_IPV6 = 43, 41
_HOP_LIMIT = 61
_HEADERS = 40 + 40
"""The octets of the outer header and of a routing header with two segments."""
_ALL = "sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.all.forwarding=1"


class Segments(LosslessTopo):
    """h1, the router r1 under test, the router r2, h3."""

    def build(self, bench: Bench) -> None:
        ports = bench.ports[:2]
        settings = [bench.switch.ports[port].settings.in_lab(self.scale) for port in ports]
        plain = Port().without_pfc()
        numbers = [bench.switch.ports[port].number for port in ports]
        cable: dict[str, Any] = {"rate": bench.line, "length": "40m"}
        self.addRouter("r1", buffer=bench.switch.buffer_of(ports))
        self.addRouter("r2")
        self.addLink(self.addHost("h1", port=plain), "r1", None, numbers[0], settings2=settings[0], **cable)
        self.addLink("r1", "r2", numbers[1], 1, settings1=settings[1], settings2=plain, **cable)
        self.addLink(self.addHost("h3", port=plain), "r2", None, 2, settings2=plain, **cable)


@case(ports=2, tables=trims, timeout="240s", control=Control("the action drop", without_trimming, fails=[CAME]))
def pt11_srv6(bench: Bench) -> None:
    """A packet with a segment routing header is cut, with the outer DSCP alone changed, and can be decapsulated."""
    options: dict[str, Any] = {"scale": bench.switch.scale, "mismatch": "ignore"}
    priority = next(one for one in bench.lossy if one not in (5, 6))
    queue = int(bench.given.ports[bench.ports[0]].settings.priorities.dot1p_to_local[priority])
    with bench.network(topo=Segments(bench, **options)) as net, ExitStack() as stack, bench.run.measuring():
        one, two = (net.fabric.between("r1", name).name for name in ("h1", "r2"))
        back, out = (net.fabric.between("r2", name).name for name in ("r1", "h3"))
        mac = {name: str(net.fabric.port(name).mac) for name in (one, back, "h3-eth0")}
        for router, commands in {
            "r1": (_ALL, f"sysctl -qw net.ipv6.conf.{one}.seg6_enabled=1",
                   f"ip -6 addr add fd00:12::1/64 dev {two} nodad",
                   f"ip -6 neigh add fd00:12::2 lladdr {mac[back]} dev {two}",
                   f"ip -6 route add {_END}/128 encap seg6local action End dev {two}",
                   f"ip -6 route add fc00:2::/64 via fd00:12::2 dev {two}"),
            "r2": (_ALL, f"sysctl -qw net.ipv6.conf.{back}.seg6_enabled=1",
                   f"ip -6 addr add fd00:12::2/64 dev {back} nodad", f"ip -6 addr add 8000:3::1/64 dev {out} nodad",
                   f"ip -6 neigh add {_TARGET} lladdr {mac['h3-eth0']} dev {out}",
                   f"ip -6 route add {_DECAP}/128 encap seg6local action End.DT6 table 254 dev {out}"),
        }.items():  # fmt: skip
            said = [net[router].cmd(command) for command in commands]
            bench.figure(f"what {router} says of its commands", "".join(said).strip())
        raw = stack.enter_context(RawPort(net["h1"], "h1-eth0", past_queues=True))
        shifted, arrived = (
            stack.enter_context(Tap(net[name], port)) for name, port in (("r2", back), ("h3", "h3-eth0"))
        )
        own = bytes.fromhex(mac[one].replace(":", "").replace("-", "")) + bytes.fromhex(
            net["h1"].MAC().replace(":", "")
        )
        frame = own + b"\x86\xdd" + _packet(bench.given.dscp(priority) << 2 | 2)
        each_s = bench.lab_ns(bench.frame_time("1500B")) * 1.2 / 1e9

        def send(count: int) -> None:
            for _ in range(count):
                raw.send(frame)
                time.sleep(each_s)
            time.sleep(20 * each_s + bench.lab_ns(bench.round_trip(net)) / 1e9)

        block(net, two, queue)
        sent = 0
        while net.fabric.dropped() + net.fabric.trimmed().frames == 0 and sent < net.fabric.buffers["r1"].total:
            send(20)
            sent += 20
        for tap in (shifted, arrived):
            list(tap.frames())
        send(FRAMES)
        shift = [one for one in shifted.frames() if one[20] == _ROUTING]
        decap = [
            one for one in arrived.frames() if one[12:14] == b"\x86\xdd" and one[38:54] == ip_address(_TARGET).packed
        ]
        block(net, two, queue, False)
    bench.claim(CAME, sum(len(one) == SIZE for one in shift), equals=FRAMES)
    bench.claim("SHIFT: outer and inner DSCP", sorted({(_dscp(one, 14), _dscp(one, 14 + _HEADERS)) for one in shift}),
                equals=[(DSCP, _INNER_DSCP)])  # fmt: skip
    bench.claim("SHIFT: segments left, one less than sent", sorted({one[57] for one in shift}), equals=[0])
    bench.claim("SHIFT: hop limit, one less than sent", sorted({one[21] for one in shift}), equals=[_HOP_LIMIT - 1])
    bench.claim("DECAP: size and DSCP of what arrived", sorted({(len(one), _dscp(one, 14)) for one in decap}),
                equals=[(SIZE - _HEADERS, _INNER_DSCP)])  # fmt: skip
    bench.claim("DECAP: packets decapsulated", len(decap), equals=FRAMES)


def _dscp(frame: bytes, at: int) -> int:
    return (frame[at] & 15) << 2 | frame[at + 1] >> 6


def _packet(tos: int) -> bytes:
    """Return an IPv6 packet with two segments, of which the first is r1's, around another."""
    inner = ip(6, UDP, _INNER_DSCP << 2, transport(UDP, 1500 - 14 - _HEADERS - 40), target=_TARGET)
    segments = ip_address(_DECAP).packed + ip_address(_END).packed
    routing = struct.pack("!BBBBBBH", _IN_IPV6, len(segments) // 8, 4, 1, 1, 0, 0) + segments
    return ip(6, _ROUTING, tos, routing + inner, "fd00:1::1", target=_END)
