"""A network over several kernels: what crosses the cables between them, and what cannot be."""

import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

from testbed.net.watch import readings, series
from xoff import (
    Buffer,
    Cable,
    Duration,
    EcnCurve,
    Flow,
    Flows,
    LosslessTopo,
    Port,
    Ring,
    Run,
    Static,
    WatchdogSettings,
    experiment,
    network,
)


class Racks(LosslessTopo):
    """Racks in a row, with a cable between the switches of neighbours."""

    def build(self, racks: int = 2, hosts: int = 2, between: str = "100m") -> None:
        for rack in range(1, racks + 1):
            self.addSwitch(f"s{rack}")
            for host in range(1, hosts + 1):
                self.addLink(self.addHost(_host(rack, host)), f"s{rack}")
            if rack > 1:
                self.addLink(f"s{rack - 1}", f"s{rack}", cable=Cable("10Gb/s", between))


def _host(rack: int, host: int) -> str:
    return f"h{rack}{chr(96 + host)}"


@experiment(timeout="60s", partitions=2)
def roce(run: Run, racks: int = 2, hosts: int = 2, ms: int = 1) -> None:
    """RoCE with DCQCN: in each rack the first host gets the frames of its own rack and of another one, so its switch
    pauses the cable that leads to another kernel.
    """
    port = Port(ecn={3: EcnCurve("10kB", "40kB", "20%")}).with_pfc(3)
    with network(Racks(racks, hosts, port=port, total=400)) as net:
        ends = [
            (_host(source, host), _host(target, 1))
            for target in range(1, racks + 1)
            for source in (target, target % racks + 1)
            for host in range(1, hosts + 1)
            if (source, host) != (target, 1)
        ]
        flows = [Flow(*pair, 3, transport="roce", rate_control="dcqcn", duration=f"{ms}ms") for pair in ends]
        running = net.run(*flows)
        pauses = [net.fabric.pfc(net.port(*way), 3) for way in (("s1", "s2"), ("s2", "s1"))]
        run.figure("frames from the cable between racks", net.fabric.group(net.port("s2", "s1"), 3).admitted_frames)
        run.figure("most cells in the second switch", net.fabric.buffer("s2").high_water)
        run.figure("the far host's answer", net["h2a"].cmd("cat /proc/sys/net/ipv4/ip_forward").strip())
        run.figure("events", len(net.fabric.events()))
        marked = sum(one["marked"] for queues in readings.ecn(net.fabric).values() for one in queues.values())
    # A frame that both switches mark arrives as one that is marked.
    run.claim("marks of switches", marked, at_least=sum(report.marked for report in running.reports))
    run.figure("pauses sent between racks", [one["xoff_sent"] for one in pauses])
    run.figure("pauses received between racks", [one["xoff_received"] for one in pauses])
    run.figure("received", [report.received for report in running.reports])
    run.figure("marked", sum(report.marked for report in running.reports))
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


@experiment(timeout="60s", partitions=2)
def udp(run: Run, hosts: int = 2, ms: int = 2, length: str = "100m") -> None:
    """UDP at line rate: a host of each rack sends to the other one, and the others send within their rack."""
    with network(Racks(2, hosts, length, port=Port().with_pfc(3))) as net:
        flows = [
            Flow(_host(rack, host), _host(3 - rack if host == 1 else rack, host % hosts + 1), 3, duration=f"{ms}ms")
            for rack in (1, 2)
            for host in range(1, hosts + 1)
        ]
        running = net.run(*flows)
    run.figure("received", [report.received for report in running.reports])
    run.claim("lost", sum(report.lost for report in running.reports), equals=0)


@experiment(timeout="60s", partitions=2)
def rated(run: Run, of_script: bool = False) -> None:
    """UDP below line rate, within racks and between them, in two networks one after the other. Two flows have one name.

    With `of_script` the script itself records a series, and reads it.
    """
    ends = [("h1a", "h2a"), ("h2a", "h1a"), ("h1b", "h1a"), ("h2b", "h2a"), ("h1a", "h1b"), ("h1a", "h2a")]
    received: Counter[str] = Counter()
    for case in ("first", "second"):
        with network(Racks(2, port=Port().with_pfc(3)), case=case) as net:
            flows = [Flow(*pair, 3, rate="2Gb/s", count=200 + 10 * place) for place, pair in enumerate(ends)]
            with series.recording(run, "10us") if of_script else nullcontext():
                running = net.run(*flows)
        for (source, target), report in zip(ends, running.reports, strict=True):
            received[f"{source} to {target} p3"] += report.received
        if of_script:
            rows = (run.directory / "series-buffer.csv").read_text().splitlines()
            run.figure(f"{case}: ports with rows", sorted({row.split(",")[2] for row in rows[1:]}))
    run.figure("received", dict(received))


_BOTH_NS = 70_000_000
"""The interval of what looks for deadlocks and of the watchdog, together."""


class Circle(Ring):
    """A ring of four switches, two of them in each part."""

    partition = (["s1", "s2"], ["s3", "s4"])
    buffer = Buffer(xoff=Static(160), xon_offset=40)
    deadlock_poll = Duration("10us")

    def build(self, n: int = 4, clockwise: bool = False, watchdog: bool = False) -> None:
        self.n, self.clockwise = n, clockwise
        own = Port()
        limits = WatchdogSettings(Duration("200us"), Duration("200us"), Duration("7us"))
        watched = replace(own, pfc=replace(own.pfc, watchdog=limits))
        for number in range(1, n + 1):
            self.addSwitch(f"s{number}", port=watched if watchdog and number == 1 else own)
            self.addLink(self.addHost(f"h{number}"), f"s{number}")
        for number in range(1, n + 1):
            self.addLink(f"s{number}", f"s{number % n + 1}", cable=Cable("10Gb/s", "100m"))


@experiment(timeout="60s", partitions=2)
def circle(run: Run, clockwise: bool = True, watchdog: bool = False) -> None:
    """A deadlock whose circle is in two kernels, with the moments of looks at which it is found and broken."""
    with network(Circle(4, clockwise, watchdog)) as net:
        # Looks and the watchdog's polls are at multiples of 10 and 7 ms of the lab. Flows of a divided network begin
        # three of its ways later, 1.5 ms, and here no pause has such a multiple in that time.
        time.sleep((_BOTH_NS - time.monotonic_ns() % _BOTH_NS) / 1e9 + 0.004)
        flows = [Flow(f"h{n}", f"h{(n + 1) % 4 + 1}", buffer="64kB") for n in range(1, 5)]
        with Flows(flows, settle="2ms") as running:
            time.sleep(1)
            run.figure("deadlocks while flows run", len(net.fabric.deadlocks()))
            running.stop_sending()
            time.sleep(0.5)
        found = net.fabric.deadlocks()
    run.figure("circles", [str(one) for one in found])


class LongEnds(LosslessTopo):
    """Two racks whose hosts' cables have a delay, as the one between the racks has."""

    def build(self) -> None:
        for rack in ("1", "2"):
            self.addLink(self.addHost(f"h{rack}"), self.addSwitch(f"s{rack}"), cable=Cable("10Gb/s", "100m"))
        self.addLink("s1", "s2", cable=Cable("10Gb/s", "100m"))


@experiment(timeout="60s", partitions=2)
def changed(run: Run) -> None:
    """Cables in either part and between them that get another delay, lose all frames, and lose none again."""
    with network(LongEnds(port=Port().with_pfc(3))) as net:
        for ends in (("s1", "h1"), ("s2", "h2"), ("s1", "s2")):
            port, name = net.port(*ends), "-".join(ends)
            net.fabric.cabling.change_delay(port, Duration("2us"))
            run.figure(f"{name}: delay", net.run(Flow("h1", "h2", count=1)).reports[0].worst_delay.ns)
            for loss in (1, 0):
                net.fabric.cabling.change_loss(port, loss)
                run.figure(f"{name}: lost of 20 at {loss}", net.run(Flow("h1", "h2", count=20), settle="1ms").lost)


@experiment(timeout="60s", partitions=2)
def read(run: Run) -> None:
    """Counters of both parts that are read while frames come: the part that counts does not see more than the other."""
    with network(Racks(2, 2, port=Port().with_pfc(3))) as net:
        ports, counted = [net.port(*way) for way in (("s1", "h1a"), ("s1", "s2"), ("s2", "s1"))], []
        with Flows([Flow("h1a", "h2a", 3), Flow("h2b", "h1a", 3)]) as flows:
            for _ in range(5):
                counted.append([net.fabric.group(port, 3).admitted_frames for port in ports])
                net.sleep("20us")
            flows.stop_sending()
    run.figure("counted", counted)
    more = [last - first for first, last in zip(*counted[::4], strict=True)]
    run.claim("counted more in the end", min(more), at_least=1)
