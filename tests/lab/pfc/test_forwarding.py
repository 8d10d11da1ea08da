"""Exact moments at which a node has a frame: with its first bit, with its header, or with its last bit."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from testbed.lab import Run, experiment

DELAY_NS = 5_000_000
HEADER_NS = (8 + 64) * 800
"""The time of preamble and 64 octets at the lab's 10 Mb/s: 800 ns each octet."""
PFC_NS = 84 * 800
KERNEL_NS = 1000
"""The most that the kernel's timers and hand-overs add: a nanosecond for each cable, some hundreds without a delay."""


def on_line(octets: int) -> int:
    """Return how long a frame without FCS takes on the line, with preamble, FCS and gap."""
    return (octets + 24) * 800


@experiment(timeout="60s")
def test_a_frame_is_there_when_the_node_has_as_much_of_it_as_it_waits_for(run: Run) -> None:
    """Two frames cross two switches: alone, back to back, and with a smaller one behind a larger one."""
    forwarding: dict[str, Any]
    for octets in (60, 1514):
        for name, forwarding, waits_ns in (
            ("first bit", {}, 0),
            ("cut-through", {"forwarding": "cut-through"}, HEADER_NS),
            ("last bit", {"forwarding": "store-and-forward"}, on_line(octets)),
        ):
            left, arrived = _crossing(forwarding, [octets])
            wanted = 3 * (DELAY_NS + waits_ns)
            run.claim(f"{name}: {octets} octets", arrived[0] - left[0], at_least=wanted, at_most=wanted + KERNEL_NS)
    left, arrived = _crossing({"forwarding": "store-and-forward"}, [1514, 1514, 1514])
    gaps = [later - earlier for earlier, later in pairwise(arrived)]
    run.claim("last bit: three in a row keep their distance", gaps, equals=[on_line(1514)] * 2)


@experiment(timeout="60s")
def test_only_the_switch_that_stores_frames_delays_them(run: Run) -> None:
    """One of two switches stores frames, and a cable without a delay gets a middle for it."""
    left, arrived = _crossing({"delay": "0s"}, [1514], {"s2": "store-and-forward"})
    wanted = on_line(1514)
    run.claim("one switch", arrived[0] - left[0], at_least=wanted, at_most=wanted + KERNEL_NS)


@experiment(timeout="60s")
def test_a_pfc_frame_waits_for_the_frame_that_is_leaving_where_frames_are_stored(run: Run) -> None:
    """A host sends a frame and, when half of it is on the line, PAUSE: that leaves after the frame's last bit. Where
    frames are stored, the switch has it with its own last one.
    """
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.build.network import network
    from testbed.net.shell.wire import RawPort, Tap
    from topologies.incast import Incast

    for forwarding in (None, "store-and-forward"):
        with network(Incast(1, delay="5us", forwarding=forwarding)) as net:
            mac = net.fabric.port("h1-eth0").mac
            pause = PfcFrame.xoff(mac, [3], 1).encode()
            with (
                RawPort(net["h1"], "h1-eth0") as raw,
                Tap(net["h1"], "h1-eth0", outgoing=True) as leaving,
                Tap(net["s1"], "s1-eth1") as tap,
            ):
                begin_ns = time.monotonic_ns() + 20 * DELAY_NS
                raw.send_at(_frame(net, "h1", "r", 1514), begin_ns)
                raw.send_at(pause, begin_ns + on_line(1514) // 2)
                net.sleep("40us")
                left = {octets[12:14]: at for at, octets in leaving.arrivals() if octets[6:12] == mac.octets}
                moments = [at for at, octets in tap.arrivals() if octets[12:14] == b"\x88\x08"]
            run.claim(
                f"{forwarding}: PAUSE left behind the frame",
                left[b"\x88\x08"] - left[b"\x08\x00"],
                equals=on_line(1514),
            )
            wanted = left[b"\x88\x08"] + DELAY_NS
            if forwarding:
                wanted = left[b"\x08\x00"] + on_line(1514) + DELAY_NS + PFC_NS
            run.claim(f"{forwarding}: PAUSE is there", moments[0] - wanted, at_least=0, at_most=KERNEL_NS)


def _frame(net: Any, source: str, target: str, octets: int) -> bytes:
    ends = (net.fabric.port(f"{name}-eth0").mac.octets for name in (target, source))
    return (b"".join(ends) + b"\x08\x00\x45" + bytes([26 << 2])).ljust(octets, b"\0")


def _crossing(
    options: dict[str, Any], frames: list[int], forwarding: dict[str, str] | None = None
) -> tuple[list[int], list[int]]:
    """Send frames of these lengths at once from h1 to h2; return when they left and when they were there."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.shell.wire import RawPort, Tap

    class Line(LosslessTopo):
        def build(self) -> None:
            for switch in ("s1", "s2"):
                chosen = {"forwarding": forwarding[switch]} if forwarding and switch in forwarding else {}
                self.addSwitch(switch, **chosen)
            self.addLink("s1", "s2")
            for host, switch in (("h1", "s1"), ("h2", "s2")):
                self.addLink(self.addHost(host), switch)

    with (
        network(Line(**{"delay": "5us"} | options)) as net,
        RawPort(net["h1"], "h1-eth0") as raw,
        Tap(net["h1"], "h1-eth0", outgoing=True) as leaving,
        Tap(net["h2"], "h2-eth0") as arriving,
    ):
        raw.send_all([_frame(net, "h1", "h2", octets) for octets in frames])
        net.sleep("60us")
        source = net.fabric.port("h1-eth0").mac.octets
        left = [at for at, octets in leaving.arrivals() if octets[6:12] == source and octets[12:14] == b"\x08\x00"]
        arrived = [at for at, octets in arriving.arrivals() if octets[6:12] == source and octets[12:14] == b"\x08\x00"]
        return left, arrived
