"""The headroom proposal's picture: 10G over 5 m, 25G over 500 m and 100G over 50 km, and three ways to set headroom."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace

from experiments.headroom._bars import Bar, as_svg, size
from experiments.headroom._headroom import wait_until_measured
from testbed.net.shell.views import headroom, table
from testbed.switch.headroom import annex_n, calculation, vendor
from xoff import (
    Buffer,
    Cable,
    Duration,
    Flow,
    Flows,
    Length,
    PfcFrame,
    Port,
    Rate,
    RawPort,
    Run,
    Scale,
    Size,
    ThreeLinks,
    experiment,
    network,
)

SCALE = Scale(10_000)
"""100 Gb/s is 10 Mb/s in the lab, and 50 km there and back take 5 s; what agents take is then next to nothing."""
LINKS = {"10G, 5 m": "h1", "25G, 500 m": "h2", "100G, 50 km": "h3"}
SHORT, MIDDLE, LONG = LINKS
FRAME = Size("1514B")
WIRE = Size("24B")
CELL, FRAME_CELLS = 208, 8
PRIORITY = 3
CLOSED = Duration("300us")
"""The time for which the receiver takes nothing where throughput is measured."""
LAST = Duration("600us")
"""The time that each sender then needs, if it is never paused."""
SMALL, LARGE, ADAPTIVE = "small default", "large default", "adaptive"
PICTURE = "three-links.svg"


@dataclass(frozen=True)
class Seen:
    """One port under one setting."""

    headroom: int
    bridge: int
    """The cells below its XOFF threshold."""
    absorbed: int
    """The burst, in octets of frames, that was in the buffer when it sent PAUSE."""
    lost: int
    dropped: int
    throughput: float
    """Part of the line that it got while the receiver took nothing for half of the time."""


@experiment(timeout="900s")
def three_links(run: Run) -> None:
    """One small headroom for all ports loses frames on long links, one large headroom leaves no buffer for bursts.

    First the receiver takes nothing until every sender has been paused: what is in the buffer when a port sends PAUSE
    is the burst that it absorbs, and what comes after it needs headroom. Then the receiver takes nothing for a shorter
    while, in which a port with enough buffer need not pause. The small default is what a switch comes with for 10 Gb/s
    and 5 m, the large one is Annex N's worst case for 100 Gb/s and 50 km, and adaptive is what the ports measured.
    """
    found = {way: _case(run, way) for way in (SMALL, LARGE, ADAPTIVE)}
    small, large, adaptive = found[SMALL], found[LARGE], found[ADAPTIVE]
    for way, ports in found.items():
        for link, seen in ports.items():
            run.claim(f"{way}, {link}: the burst absorbed, in frames", seen.absorbed // FRAME.bytes,
                      equals=seen.bridge // FRAME_CELLS)  # fmt: skip
            run.claim(f"{way}, {link}: lost in the switch's buffer", seen.dropped, equals=seen.lost)
    run.claim(f"{SMALL}, {SHORT}: lost", small[SHORT].lost, equals=0)
    run.claim(f"{SMALL}, {MIDDLE}: lost", small[MIDDLE].lost, at_least=1)
    run.claim(f"{SMALL}, {LONG}: lost", small[LONG].lost, at_least=4000)
    for way in (LARGE, ADAPTIVE):
        for link in LINKS:
            run.claim(f"{way}, {link}: lost", found[way][link].lost, equals=0)
    gain = adaptive[SHORT].absorbed // large[SHORT].absorbed
    run.claim(f"{SHORT}: times the burst that the large default absorbs", gain, at_least=10)
    saved = large[SHORT].headroom // adaptive[SHORT].headroom
    run.claim(f"{SHORT}: the large default is so many times the headroom measured", saved, at_least=100)
    run.claim(f"{LARGE}, {SHORT}: part of the line", large[SHORT].throughput, at_most=0.9)
    for link in LINKS:
        run.claim(f"{ADAPTIVE}, {link}: part of the line", adaptive[link].throughput, at_least=0.99)
    _show(run, found)


def _case(run: Run, way: str) -> dict[str, Seen]:
    """Return the three ports with headroom that was found in this way."""

    class WithReceiver(ThreeLinks):
        def build(self) -> None:
            super().build()
            self.addLink(self.addHost("r"), "s1", cable=Cable("400Gb/s"))

    # An agent notes every drop, and thousands of them keep it busy for milliseconds: where frames are to be lost it is
    # late, and what is counted there are frames.
    judged = None if way == SMALL else run
    measuring = nullcontext if judged is None else run.measuring
    port, buffer = _settings(way)
    topo = WithReceiver(scale=SCALE, port=port, buffer=buffer)
    with network(topo, judged) as net, RawPort(net["r"], "r-eth0") as wire:
        fabric, target = net.fabric, net["r"]
        mac = fabric.port("r-eth0").mac
        ports = [f"s1-eth{number}" for number in range(1, len(LINKS) + 1)]
        cables = [fabric.port(name).cable for name in ports]
        longest = max(cable.delay for cable in cables)
        hosts = [net[name] for name in LINKS.values()]
        if way == ADAPTIVE:
            wait_until_measured(fabric, [*ports, "s1-eth4"])
            print(headroom(fabric, "s1"))

        def close(duration: Duration) -> None:
            """Keep the receiver from taking anything for so long."""
            until_lab_s = time.monotonic() + net.lab_ns(duration) / 1e9
            while (left_lab_s := until_lab_s - time.monotonic()) > 0:
                wire.send(PfcFrame.xoff(mac, [PRIORITY]).encode())
                time.sleep(min(left_lab_s, net.lab_ns("50us") / 1e9))

        flows = [Flow(host, target, PRIORITY, FRAME) for host in hosts]
        with Flows(flows, settle=Duration("6ms")) as bursts:
            with measuring():
                while not all(fabric.group(name, PRIORITY).xoff for name in ports):
                    close(Duration("100us"))
                close(longest * 2 + Duration("100us"))
                bursts.stop_sending()
            wire.send(PfcFrame.xon(mac, [PRIORITY]).encode())
        groups = [fabric.group(name, PRIORITY) for name in ports]
        limits = [fabric.limits(name, PRIORITY) for name in ports]

        counts = [LAST // cable.rate.time_for(FRAME + WIRE) for cable in cables]
        flows = [  # so that the first frames of all arrive at one moment
            Flow(host, target, PRIORITY, FRAME, count=count, start=longest - cable.delay)
            for host, count, cable in zip(hosts, counts, cables, strict=True)
        ]
        with Flows(flows, settle=Duration("6ms")) as steady, measuring():
            begin_lab_ns = time.monotonic_ns() + net.lab_ns(longest)
            close(longest + CLOSED)
            wire.send(PfcFrame.xon(mac, [PRIORITY]).encode())
            steady.wait()
        dropped = [sum(fabric.group(name, PRIORITY).dropped_frames) for name in ports]
    found = {}
    for place, link in enumerate(LINKS):
        group, limit = groups[place], limits[place]
        needed = cables[place].rate.time_for(FRAME + WIRE) * counts[place]
        found[link] = Seen(
            headroom=limit.headroom,
            bridge=limit.static,
            absorbed=group.high_water[1] // FRAME_CELLS * FRAME.bytes,
            lost=bursts.reports[place].lost + steady.reports[place].lost,
            dropped=dropped[place],
            throughput=round(SCALE.lab(needed).ns / (steady.reports[place].last_lab_ns - begin_lab_ns), 4),
        )
    return found


def _settings(way: str) -> tuple[Port, Buffer]:
    """Return ports and buffer: one pool, of which bridge buffer is what headroom leaves, in even parts."""
    fits_the_short = vendor.SHIPPED.headroom(calculation.HeadroomPort(Rate("10Gb/s")), Length("5m")).cells
    buffer = replace(ThreeLinks.buffer, xoff=None, shortest=FRAME.bytes + 4, headroom=fits_the_short)
    if way == SMALL:
        return Port(), buffer
    if way == LARGE:
        port = calculation.HeadroomPort(Rate("100Gb/s"), FRAME.bytes + 4, FRAME.bytes + 4, CELL)
        worst = annex_n.worst_case(port, Length("50km"), annex_n.port_type_for(port.rate))
        return Port(), replace(buffer, headroom=worst.cells + FRAME_CELLS)
    return Port().with_dcbx(headroom=True), buffer


def _show(run: Run, found: dict[str, dict[str, Seen]]) -> None:
    """Report the figures, the table and the picture."""
    rows = []
    for way, ports in found.items():
        for link, seen in ports.items():
            run.figure(f"{way}, {link}: cells of headroom and of bridge buffer", [seen.headroom, seen.bridge])
            run.figure(f"{way}, {link}: octets absorbed before PAUSE", seen.absorbed)
            run.figure(f"{way}, {link}: frames lost", seen.lost)
            run.figure(f"{way}, {link}: part of the line", seen.throughput)
            rows.append(
                (
                    way,
                    link,
                    size(seen.headroom * CELL),
                    size(seen.bridge * CELL),
                    size(seen.absorbed),
                    seen.lost,
                    f"{seen.throughput:.0%}",
                )
            )
    heads = ("headroom", "port", "headroom of the port", "bridge buffer", "burst absorbed", "frames lost", "throughput")
    print(table(heads, rows), end="")
    groups = [
        (
            way,
            [
                Bar(
                    link,
                    seen.headroom * CELL,
                    seen.bridge * CELL,
                    seen.lost * FRAME_CELLS * CELL,
                    f"{seen.lost} frames lost",
                    f"{seen.throughput:.0%} of line",
                )
                for link, seen in ports.items()
            ],
        )
        for way, ports in found.items()
    ]
    (run.directory / PICTURE).write_text(as_svg("Three links and one buffer of 31.2 MB, seen in the lab", groups))
