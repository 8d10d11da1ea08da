"""A cable that goes silent and keeps its carrier: how soon BFD finds out, and how soon BGP does alone."""

import struct
import time
from collections.abc import Callable
from typing import Annotated

from xoff import (
    Between,
    Bfd,
    Bgp,
    Duration,
    Flow,
    Frr,
    Network,
    RoutedLeafSpine,
    Run,
    Tap,
    experiment,
    flowing,
    network,
)

MULTIPLIER = 3
HOLD, KEEPALIVE = Duration("3s"), Duration("1s")
FRAME, RATE, INTERVAL = "226B", "2Mb/s", Duration("1ms")
BEFORE, SOURCE_PORT = Duration("100ms"), 50_000
PREFIX = "10.2.1.0/30"
BFD_PORT, BFD_PLACE, BFD_DOWN = 3784, 62, 1
"""The UDP port of BFD's packets, where they begin in a frame without an IPv4 address, and their state Down."""
BGP_MARKER = b"\xff" * 16
"""The first octets of each message of BGP."""
BY_BGP = Duration("200ms")
"""The most that bgpd takes from the end of a session to the other way; it holds back changes for 50 ms by itself."""


@experiment(timeout="60s", debs=["frr"], free_cpu=True)
def bfd_detection(run: Run, interval: Annotated[Duration, Between("50ms", "200ms")] = Duration("50ms")) -> None:
    """Measure how long routers take to notice a cable that loses everything, while both ends have a carrier.

    A flow of 1000 frames a second goes by one of two spines, and the cable to it begins to lose all frames. With BFD
    the leaf tells the neighbour three intervals after the last BFD packet that came in, to the millisecond, that it has
    lost it, and as many frames are lost as are sent until bgpd has moved the route. Control case: BGP alone moves it
    when its hold time of 3 s is over.
    """
    for case, limit, is_sign in (("BFD", interval * MULTIPLIER, _is_bfd), ("BGP alone", HOLD, _is_bgp)):
        protocols = [Bgp(keepalive=KEEPALIVE, hold=HOLD), *([Bfd(interval, MULTIPLIER)] if case == "BFD" else [])]
        topo = RoutedLeafSpine(2, 2, 1, routing=Frr(*protocols), scale=1, rate="100Mb/s", delay="1us")
        with network(topo, case=case) as net:
            net.converged("30s")
            cable = _cable(net)
            signs, ends = Tap(net["leaf1"], cable), Tap(net["leaf1"], cable, outgoing=True)
            net.sleep("2s")  # BFD goes from its slow start to the interval, and BGP sends a KEEPALIVE
            flow = Flow("h1", "h2", rate=RATE, frame=FRAME, duration=limit + BEFORE * 4, source_port=SOURCE_PORT)
            with flowing(flow) as flows:
                net.sleep(BEFORE)
                silent_ns = time.monotonic_ns()
                net.fabric.cabling.change_loss(cable, 1)
                flows.wait()
            moved_ns = [one.lab_ns for one in net.routing.changes("leaf1") if one.route == PREFIX][-1]
            last_ns = _moments(signs, is_sign)[-1]
            told_ns = [moment for moment in _moments(ends, _is_down) if moment > silent_ns]
        if is_sign is _is_bfd:
            told, most = Duration.from_ns(told_ns[0] - last_ns), limit + Duration("1ms")
            run.claim(f"{case}: from the last packet to the end", told, at_least=limit, at_most=most)
        moved = Duration.from_ns(moved_ns - last_ns)
        run.claim(f"{case}: from the last packet to the other way", moved, at_least=limit, at_most=limit + BY_BGP)
        outage = Duration.from_ns(moved_ns - silent_ns)
        run.figure(f"{case}: silence until the other way", outage)
        run.figure(f"{case}: lost", flows.lost)
        run.claim(
            f"{case}: lost beyond the frames of that time", flows.lost - outage // INTERVAL, at_least=-1, at_most=2
        )


def _cable(net: Network) -> str:
    """Return the port of the first cable between routers that the flow takes."""
    chosen = net.path("h1", "h2", transport="udp", source_port=SOURCE_PORT).hops[0].chosen
    assert chosen is not None
    return chosen.port


def _moments(tap: Tap, is_wanted: Callable[[bytes], bool]) -> list[int]:
    return [moment_ns for moment_ns, frame in tap.arrivals() if is_wanted(frame)]


def _is_bfd(frame: bytes) -> bool:
    return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and struct.unpack_from("!H", frame, 56)[0] == BFD_PORT


def _is_down(frame: bytes) -> bool:
    return _is_bfd(frame) and frame[BFD_PLACE + 1] >> 6 == BFD_DOWN


def _is_bgp(frame: bytes) -> bool:
    return BGP_MARKER in frame
