"""A routing loop is a circle of buffers: from which rate on it becomes a deadlock of PFC."""

import struct
from dataclasses import dataclass

from xoff import Duration, LosslessTopo, Network, Port, Rate, RawPort, Run, Size, experiment, network

SOURCE = (
    "Hu et al., Deadlocks in Datacenter Networks: Why Do They Form, and How to Avoid Them, HotNets 2016: r > nB/TTL"
)
LINE = Rate("10Gb/s")
ROUTERS, PRIORITY = 2, 3
FRAME, ON_THE_WIRE = Size("1514B"), Size("1538B")
NOWHERE = "10.9.0.1"
LASTS, AFTERWARDS = Duration("1500us"), Duration("1ms")
LOWEST, HIGHEST = 75, 125
"""The bounds of the search for the rate, in percent of nB/TTL. They are wider than what is claimed."""


@dataclass(frozen=True)
class Seen:
    """The state of a loop after its sender had stopped."""

    held: int  # cells, a while after the last frame was sent
    held_later: int

    @property
    def is_dead(self) -> bool:
        """True if frames are there and none moves."""
        return self.held > 0 and self.held == self.held_later


@experiment(timeout="120s", free_cpu=True)
def routing_loop(run: Run) -> None:
    """Two routers send each other the frames of one destination, until their TTL has run out.

    Published is the threshold: a loop of n switches with lines B is a deadlock if the sender's rate is above nB/TTL, as
    each frame passes each line TTL/n times. Below it all frames die of their TTL, and above it both routers wait for
    each other for ever. The lowest rate of a deadlock is searched by halves, to a percent. Twice the TTL has half the
    threshold. The control case is the loop without PFC, where what is too much waits or is dropped, and nothing stands
    still.
    """
    for ttl in (16, 32):
        threshold = Rate.from_bps(ROUTERS * LINE.bps // ttl)
        tried = {percent: _is_dead(ttl, threshold, percent) for percent in (LOWEST, HIGHEST)}
        low, high = LOWEST, HIGHEST
        while high - low > 1:
            middle = (low + high) // 2
            tried[middle] = _is_dead(ttl, threshold, middle)
            low, high = (low, middle) if tried[middle] else (middle, high)
        run.claim(f"TTL {ttl}: rates of a deadlock, in percent of nB/TTL",
                  sorted(percent for percent, is_dead in tried.items() if is_dead),
                  equals=sorted(percent for percent in tried if percent >= high))  # fmt: skip
        run.published(
            f"TTL {ttl}: threshold of the rate", threshold * high // 100, value=threshold, within="10%", source=SOURCE,
            differs=f"the lowest rate of a deadlock within {LASTS}, in which the loop has to fill; a frame "
            "passes TTL - 1 lines, as each router counts down before it sends",
        )  # fmt: skip
    without = _looped(16, Rate.from_bps(ROUTERS * LINE.bps // 16 * HIGHEST // 100), Port().without_pfc())
    run.claim("TTL 16 without PFC: a deadlock", without.is_dead, equals=False)
    run.claim("TTL 16 without PFC: cells that are held in the end", without.held, equals=0)


class _Loop(LosslessTopo):
    """h1 at r1, whose route to 10.9.0.0/16 is r2, whose route there is r1."""

    def build(self) -> None:
        self.addRouter("r1", ip=None, routes={"10.9.0.0/16": "10.100.0.2"})
        self.addRouter("r2", ip=None, routes={"10.9.0.0/16": "10.100.0.1"})
        host = self.addHost("h1", ip="10.1.0.2/30", defaultRoute="via 10.1.0.1")
        self.addLink(host, "r1", params2={"ip": "10.1.0.1/30"})
        self.addLink("r1", "r2", params1={"ip": "10.100.0.1/30"}, params2={"ip": "10.100.0.2/30"})


def _is_dead(ttl: int, threshold: Rate, percent: int) -> bool:
    return _looped(ttl, threshold * percent // 100, Port()).is_dead


def _looped(ttl: int, rate: Rate, port: Port) -> Seen:
    with network(_Loop(port=port, total=600, xoff=60, xon_offset=16), case=f"TTL {ttl}, {rate}") as net:
        interval = rate.time_for(ON_THE_WIRE)
        with RawPort(net["h1"], "h1-eth0", buffer="4MB") as wire:  # a paused host has all that is sent later
            wire.repeat(_frame(net, ttl), net.lab_ns(interval), LASTS // interval)
        net.sleep(AFTERWARDS)
        held = net.fabric.held(PRIORITY)
        net.sleep(AFTERWARDS)
        return Seen(held, net.fabric.held(PRIORITY))


def _frame(net: Network, ttl: int) -> bytes:
    """Return a datagram from h1 to nowhere, of the lossless priority."""
    first = net["r1"].intf(net.port("r1", "h1")).MAC()
    macs = b"".join(bytes.fromhex(one.replace(":", "")) for one in (first, net["h1"].MAC()))
    addresses = b"".join(bytes(map(int, one.split("."))) for one in (net["h1"].IP(), NOWHERE))
    size = FRAME.bytes - 14
    head = struct.pack("!BBHHHBBH", 0x45, PRIORITY * 8 << 2, size, 0, 0, ttl, 17, 0) + addresses
    checked = struct.pack("!BBHHHBBH", 0x45, PRIORITY * 8 << 2, size, 0, 0, ttl, 17, _sum(head)) + addresses
    return macs + b"\x08\x00" + checked + struct.pack("!HHHH", 5000, 5000, size - 20, 0) + bytes(size - 28)


def _sum(header: bytes) -> int:
    """Return the Internet checksum."""
    total = int(sum(struct.unpack(f"!{len(header) // 2}H", header)))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
