"""A switch port's queues, measured at the receiver: line rate, shares, strict priority, and a class that is paused."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.lab import Run, experiment
from testbed.net.port import Buffer, Port
from testbed.pfc.settings import PfcSettings
from testbed.units import Duration, Rate, Size

LINE = Rate("100Mb/s")
SCALE = 100
WINDOW_NS = 10_000_000
WIRE = 24
LOSSLESS = frozenset({1, 2, 3})
SHARES = {1: 20, 2: 30, 3: 45}


def _port(**more: Any) -> Port:
    return Port(pfc=PfcSettings(enabled=LOSSLESS), **more)


def _frames(file: Path) -> Iterator[tuple[int, int]]:
    """(ns, octets without FCS) of each frame of a capture."""
    data = file.read_bytes()
    at = 24
    while at < len(data):
        seconds, ns, _, length = struct.unpack_from("=IIII", data, at)
        at += 16 + struct.unpack_from("=I", data, at + 8)[0]
        yield seconds * 10**9 + ns, length


def _network(run: Run, port: Port) -> Any:
    from testbed.net.network import network
    from topologies.incast import Incast

    return network(Incast(3, scale=SCALE, port=port, buffer=Buffer(total=3000)), run, autoStaticArp=True)


@experiment(timeout="60s")
def line_rate(run: Run) -> None:
    """Three classes, each of which alone would fill the line."""
    from testbed.net.flows import Flow, Flows
    from testbed.net.wire import capture

    with _network(run, _port(shares=SHARES)) as net:
        *senders, target = net.hosts
        file = run.directory / "receiver.pcap"
        flows = [Flow(sender, target, priority, count=900) for sender, priority in zip(senders, SHARES, strict=True)]
        with capture(target, "r-eth0", file, "-s 64 udp"), Flows(flows) as running:
            running.wait()
    lost = sum(report.lost for report in running.reports)
    frames = list(_frames(file))
    file.unlink()
    most, start, octets = 0, 0, 0
    for number, (moment_ns, length) in enumerate(frames):
        octets += length + WIRE
        while frames[start][0] <= moment_ns - WINDOW_NS:
            octets -= frames[start][1] + WIRE
            start += 1
        most = max(most, octets)
        assert start <= number
    may = LINE.size_in(Duration.from_ns(WINDOW_NS)).bytes
    whole = sum(length + WIRE for _, length in frames[1:]) * 8 * 10**9 // (frames[-1][0] - frames[0][0])
    run.claim("lost", lost, equals=0)
    run.claim("most octets on the wire in any 10 ms", most, at_most=may * 101 // 100 + 1538)
    run.claim(
        "rate of all classes together", Rate.from_bps(whole), at_least=LINE * 99 // 100, at_most=LINE * 1001 // 1000
    )


@experiment(timeout="60s")
def shares(run: Run, only: int = 0) -> None:
    """All classes backlogged: each has its share of the line. `only` makes the shares equal, as a control."""
    weights = dict.fromkeys(SHARES, 12) if only else SHARES
    measured = _together(run, _port(shares=weights))
    for priority, share in SHARES.items():
        wanted = share / sum(SHARES.values())
        name = f"part of priority {priority}"
        run.claim(name, measured[priority], at_least=wanted * 0.95, at_most=wanted * 1.05)


@experiment(timeout="60s")
def strict(run: Run) -> None:
    """A strict class is served before the others, which share what it leaves."""
    measured = _together(run, _port(strict=frozenset({3}), shares={1: 25, 2: 25}), rates={3: LINE // 2})
    run.claim("part of the strict class, at half of line rate", measured[3], at_least=0.49, at_most=0.51)
    for priority in (1, 2):
        run.claim(f"part of priority {priority}", measured[priority], at_least=0.24, at_most=0.26)


@experiment(timeout="60s")
def yields(run: Run) -> None:
    """A class that its receiver has paused gives its share to the others, and gets it back."""
    from testbed.net.wire import RawPort

    def pause(target: Any) -> None:
        with RawPort(target, "r-eth0") as port:
            port.send(PfcFrame.xoff(Mac.parse(target.MAC()), [3]).encode())

    measured = _together(run, _port(shares=SHARES), meanwhile=pause)
    run.claim("part of the paused class", measured[3], equals=0)
    run.claim("part of priority 1, 20 of 50", measured[1], at_least=0.38, at_most=0.42)
    run.claim("part of priority 2, 30 of 50", measured[2], at_least=0.57, at_most=0.63)
    run.claim("together, of the line", measured[0], at_least=0.99, at_most=1.001)


def _together(run: Run, port: Port, rates: dict[int, Rate] | None = None, meanwhile: Any = None) -> dict[int, float]:
    """Three senders at a time, one for each class; the part of each in what arrived in 200 ms, and 0: of the line."""
    import time

    from testbed.net.flows import Flow, Flows

    frame = Size("1514B")
    with _network(run, port) as net:
        *senders, target = net.hosts
        flows = [
            Flow(sender, target, priority, rate=(rates or {}).get(priority), duration=Duration("900ms"))
            for sender, priority in zip(senders, SHARES, strict=True)
        ]
        with Flows(flows) as running:
            while not all(running.received(index) for index in range(3)):
                time.sleep(0.01)
            time.sleep(0.1)
            if meanwhile:
                meanwhile(target)
                time.sleep(0.05)
            with run.measuring():
                before, begin_ns = [_taken(net, priority) for priority in SHARES], time.monotonic_ns()
                time.sleep(0.2)
                after, end_ns = [_taken(net, priority) for priority in SHARES], time.monotonic_ns()
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)
    counts = [b - a for a, b in zip(before, after, strict=True)]
    line = sum(counts) * (frame.bytes + WIRE) * 8 * 10**9 / (end_ns - begin_ns) / LINE.bps
    return {0: line} | {priority: count / sum(counts) for priority, count in zip(SHARES, counts, strict=True)}


def _taken(net: Any, priority: int) -> int:
    """Frames of a priority that have left the switch: whoever came in by whichever port."""
    return sum(net.fabric.group(f"s1-eth{number}", priority).released_frames for number in (1, 2, 3))


@experiment(timeout="60s")
def pause_frames(run: Run) -> None:
    """What agents send, as an analyser on the senders' cables sees it: XOFF, refreshes, XON, several classes."""
    from testbed.net.flows import Flow, Flows
    from testbed.net.network import network
    from testbed.net.wire import capture
    from topologies.incast import Incast

    port = Port(pfc=PfcSettings(enabled=LOSSLESS, pause_quanta=2000))
    topo = Incast(2, scale=SCALE, port=port, buffer=Buffer(total=1500, xon_offset=200))
    with network(topo, run, autoStaticArp=True) as net:
        *senders, target = net.hosts
        flows = [Flow(sender, target, priority, count=250) for sender in senders for priority in sorted(LOSSLESS)]
        with capture(senders[0], "h1-eth0", run.directory / "h1.pcap", "ether proto 0x8808"), Flows(flows) as running:
            running.wait()
        run.figure("source", str(net.fabric.port("s1-eth1").mac))
        states = net.fabric.snapshot("s1")["ports"]["s1-eth1"]["priorities"]
        for kind in ("xoff_sent", "xoff_refreshed", "xon_sent"):
            run.figure(kind, [state[kind] for state in states])
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)
