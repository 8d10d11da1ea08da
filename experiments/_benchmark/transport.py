"""Category 1, transport of RDMA: throughput by size of messages and queue pairs, and latency without and under load."""

import math

from experiments._benchmark.load import lossless, offer, row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.workload.statistics import percentile
from xoff import Duration, Roce, Run, Size

_SIZE = Size("256kB")


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
            row(run, name, goodput=load.goodput, of_all_lines_percent=share(load.goodput, whole))
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
            )  # fmt: skip
        row(run, f"{size}, loaded", times_the_unloaded_mean=round(means["loaded"] / means["unloaded"], 3))


def _time(ns: float) -> Duration:
    return Duration.nearest_ns(round(ns))
