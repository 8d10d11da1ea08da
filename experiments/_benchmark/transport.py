"""Category 1, transport of RDMA: throughput by size of messages and queue pairs, latency, and bursts back to back."""

import math
from typing import Any

from experiments._benchmark.load import lossless, offer, row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.workload.statistics import percentile
from xoff import Duration, Ecn, Roce, Run, Size, network

_SIZE = Size("256kB")
_FRAME, _ON_THE_WIRE = Size("1514B"), Size("1538B")
_BURST = Size("8MB")
"""The octets that the senders of a burst have together, if none is stopped before."""


def throughput(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Each host writes to the one half of all hosts further on, both ways at once."""
    messages = ("4kB", "64kB", "1MB") if quick else ("1kB", "4kB", "64kB", "256kB", "1MB", "4MB")
    for message in messages:
        for pairs in (1, 4) if quick else (1, 4, 16, 32):
            size = max(_SIZE, Size(message))
            transport = Roce(message=Size(message), queue_pairs=pairs)
            flows = [
                fabric.flow(one, other, transport=transport, size=size, rate_control="fixed")
                for one, other in fabric.across()
            ]
            name = f"{message}, {pairs} QP"
            load = offer(fabric, flows, name)
            whole = fabric.line * len(fabric.hosts)
            part = share(load.goodput, whole)
            row(run, name, goodput=load.goodput, of_all_lines_percent=part, sent_again=load.sent_again)
            lossless(run, fabric, name, load)


def latency(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Single messages of the first host to the one half of all hosts further on, while others are silent or send."""
    many, every = (20, Duration("20us")) if quick else (100, Duration("20us"))
    one, other = fabric.across()[0]
    for size in ("64B", "4kB") if quick else ("64B", "1kB", "4kB", "64kB"):
        means = {}
        for case in ("unloaded", "loaded"):
            transport = Roce(message=Size(size))
            probes = [
                fabric.flow(
                    one, other, transport=transport, size=Size(size), start=every * number, rate_control="fixed"
                )
                for number in range(1, many + 1)
            ]
            octets = Size.from_bytes(fabric.line.bps * every.ps * many // (8 * 10**12))
            beside = [
                fabric.flow(source, target, transport=Roce(), size=octets, rate_control="fixed")
                for source, target in fabric.across()[1:]
            ]
            load = offer(fabric, [*probes, *(beside if case == "loaded" else [])], f"{size}, {case}")
            times = sorted(report.completion.ns for report in load.reports[:many])
            means[case] = math.fsum(times) / many
            found = {"P50": percentile(times, 50), "P95": percentile(times, 95), "P99": percentile(times, 99)}
            row(
                run, f"{size}, {case}", least=_time(times[0]), mean=_time(means[case]),
                **{name: _time(value) for name, value in found.items()}, most=_time(times[-1]),
                sent_again=load.sent_again,
            )  # fmt: skip
        row(run, f"{size}, loaded", times_the_unloaded_mean=round(means["loaded"] / means["unloaded"], 3))


def burst(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Bursts at line rate without gaps to one host: what comes before the first pause, and before the first loss.

    A lossless fabric loses nothing, however long the burst is; so the loss is looked for with PFC off.
    """
    for many in (2, 8, 32) if quick else (2, 4, 8, 16, 32):
        name = f"{many} to 1"
        if many > len(fabric.hosts) - 1:
            run.figure(f"{name}: not applicable", f"there are {len(fabric.hosts)} hosts")
            continue
        columns: dict[str, object] = {}
        if fabric.pfc:
            columns |= _absorbed(run, fabric, many, "pause", f"{name}, PFC on")
        if not fabric.of_file:
            columns |= _absorbed(run, fabric, many, "loss", f"{name}, PFC off", pfc=False, marks=False)
        row(run, name, **columns)
    if fabric.of_file:
        run.figure("without PFC: not applicable", "PFC of a switch of a file is as the file says")


def _absorbed(run: Run, fabric: FabricUnderTest, many: int, end: str, case: str, **options: Any) -> dict[str, object]:
    """Send a burst, and return the frames and octets that had been sent until the first pause or loss of a switch."""
    count = _BURST.bytes // _FRAME.bytes // many
    kind = {"pause": "xoff_sent", "loss": "drop"}[end]
    with network(fabric.topo(**options), case=case) as net:
        flows = [
            fabric.flow(one, fabric.hosts[-1], frame=_FRAME, count=count, ecn=Ecn.ECT_0) for one in fabric.senders(many)
        ]
        running = net.run(*flows)
        switches = {switch.name for switch in net.switches}
        moments = [
            event.lab_ns
            for event in net.fabric.events()
            if event.kind == kind and event.port and net.fabric.port(event.port).node.name in switches
        ]
        if end == "pause":
            run.claim(f"{case}: frames lost", running.lost, equals=0)
        if not moments:
            return {f"until a {end}": f"none in {_BURST}"}
        begin_ns = min(report.begin_lab_ns for report in running.reports)
        frame_ns = net.lab_ns(fabric.line.time_for(_ON_THE_WIRE))
        frames = many * max(0, (min(moments) - begin_ns) // frame_ns)
    return {f"frames until a {end}": frames, f"octets until a {end}": _FRAME * frames}


def _time(ns: float) -> Duration:
    return Duration.nearest_ns(round(ns))
