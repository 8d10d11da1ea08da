"""End.X.PFC over 10, 100 and 1000 km: what the far edge has to hold grows with the distance, and nothing is lost.

From the moment at which r3 sends XOFF into the reverse tunnel, frames go on to come for a whole round trip between the
edges: those that are in the fibre, and those that r1 sends before the pause arrives.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

from xoff import Buffer, Duration, Flow, Flows, PfcFrame, RawPort, Run, Size, Srv6Wan, Static, experiment, network, ping

DISTANCES = ("10km", "100km", "1000km")
"""Lengths of the fibre between the edges."""
CABLES = ("5km", "50km", "500km")
"""Lengths of one cable; two of them are between the edges."""
RATE = "4Gb/s"
"""A round trip of 1000 km is 40 Mbit at this rate: some 3300 frames."""
LOSSLESS = 3
FRAME = Size("1400B")
"""The headers of the tunnel, 96 octets, have to fit into the WAN's frames as well."""
FRAME_CELLS = 7
CELL = 208
BELOW = 80
"""The threshold of the far data centre's switch, in cells: some ten frames wait there."""
AGAIN = Duration("2ms")
"""The interval at which b1 repeats XOFF; one holds for 8.4 ms."""


@dataclass(frozen=True)
class Seen:
    sent: int
    lost: int
    dropped: int
    headroom: int
    used: int
    """The most cells of headroom that were used."""
    xoffs: int
    carried: int
    """Bits that the line between the edges carries in a round trip."""
    stopped: int
    """Queues that r2 has stopped."""


@experiment(timeout="600s")
def wan_distance(run: Run) -> None:
    """b1 takes nothing for a while, so that r3 has to hold all that comes until a1's frames end.

    Then b1 takes everything again, and all of it has to arrive. The headroom is what the topology computes from its
    cables. The control case has the headroom of 10 km at 1000 km: it loses what does not fit.
    """
    found = [_case(run, distance, cable) for distance, cable in zip(DISTANCES, CABLES, strict=True)]
    for distance, seen in zip(DISTANCES, found, strict=True):
        run.claim(f"{distance}: lost", seen.lost, equals=0)
        run.claim(f"{distance}: dropped by any buffer", seen.dropped, equals=0)
        run.claim(f"{distance}: XOFF sent into the tunnel", seen.xoffs, at_least=1)
        run.claim(f"{distance}: headroom used at r3, in cells", seen.used, at_least=1, at_most=seen.headroom)
        run.claim(f"{distance}: queues that r2 has stopped", seen.stopped, equals=0)
        # What the line carries in a round trip comes after XOFF; more is for cells that are not full, and for routers.
        least = -(-seen.carried // (8 * CELL))
        most = least * 11 // 10 + 150
        run.claim(f"{distance}: headroom configured, in cells", seen.headroom, at_least=least, at_most=most)
    for (shorter, less), (longer, more) in pairwise(zip(DISTANCES, found, strict=True)):
        times = round(more.used / less.used, 2)
        run.claim(f"headroom used at {longer}: times that at {shorter}", times, at_least=9.5, at_most=10.5)
    short = _case(run, DISTANCES[-1], CABLES[-1], found[0].headroom)
    missing = (found[-1].used - short.headroom) // FRAME_CELLS
    name = f"{DISTANCES[-1]} with the headroom of {DISTANCES[0]}"
    run.claim(f"{name}: lost", short.lost, at_least=missing - 10, at_most=missing + 10)
    run.claim(f"{name}: dropped by a buffer", short.dropped, equals=short.lost)


def _case(run: Run, distance: str, cable: str, headroom: int = 0) -> Seen:
    buffer = Buffer(xoff=Static(BELOW), xon_offset=32)
    topo = Srv6Wan(n=1, wan=cable, rate=RATE, buffer=buffer, headroom=headroom)
    trip = topo.delay * 4
    with network(topo) as net, RawPort(net["b1"], "b1-eth0") as wire:
        fabric = net.fabric
        mac = fabric.port("b1-eth0").mac
        ping(net["a1"], net["b1"])
        flow = Flow("a1", "b1", LOSSLESS, FRAME, buffer=Size("32kB"))
        with Flows([flow], settle=trip * 4 + Duration("30ms")) as flows:
            # Until the first frame is there, r3 is full, r1 has received XOFF, and its last frame is there too.
            until = time.monotonic() + net.lab_ns(trip + topo.delay * 2 + Duration("1ms")) / 1e9
            while (left := until - time.monotonic()) > 0:
                wire.send(PfcFrame.xoff(mac, [LOSSLESS]).encode())
                time.sleep(min(left, net.lab_ns(AGAIN) / 1e9))
            flows.stop_sending()
            wire.send(PfcFrame.xon(mac, [LOSSLESS]).encode())
        events = fabric.events()
        (report,) = flows.reports
        found = Seen(
            sent=report.sent,
            lost=report.lost,
            dropped=fabric.dropped(),
            headroom=fabric.limits("r3-eth1", LOSSLESS).headroom,
            used=fabric.group("r3-eth1", LOSSLESS).high_water[2],
            xoffs=sum(event.kind == "tunnel_xoff" for event in events),
            carried=int(topo.rate.bits_in(trip)),
            stopped=sum(event.kind == "queue_stopped" and event.port.startswith("r2") for event in events),
        )
        name = f"{distance} with {found.headroom} cells"
        run.figure(f"{name}: round trip between the edges", trip)
        run.figure(f"{name}: sent", found.sent)
        run.figure(f"{name}: lost", found.lost)
        run.figure(f"{name}: headroom used", found.used)
        return found
