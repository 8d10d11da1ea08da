"""Categories 6 and 7, scale and endurance: a ring all-reduce of more and more hosts, and iterations in one network."""

import statistics
from collections.abc import Iterator, Sequence

from experiments._benchmark.collectives import bus_bandwidth, flows
from experiments._benchmark.load import lossless, offer, row, share
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.net.traffic.workload import completion
from testbed.workload import transfers
from testbed.workload.transfers import Transfer
from xoff import ROCE_PRIORITY, Duration, Flows, RoceReport, Run, Size, network

_SIZE = Size("256kB")
_STEPS, _FEW_STEPS = (4, 8, 16, 32, 64), (4, 16, 64)


def scale(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """A ring all-reduce of the first hosts, then of more, and of all of them."""
    have = len(fabric.hosts)
    for many in sorted({*(_FEW_STEPS if quick else _STEPS), have}):
        name = f"N = {many}"
        if many > have:
            run.figure(f"{name}: not applicable", f"the topology has {have} hosts")
            continue
        pattern = transfers.ring_all_reduce(fabric.hosts[:many], _SIZE)
        load = offer(fabric, flows(fabric, pattern), name)
        part = 2 * (many - 1) / many
        bus = bus_bandwidth(load, _SIZE, part)
        ideal_ps = _SIZE.bits * part * 10**12 / fabric.line.bps
        row(
            run, name, completion=load.completion, JCT_ratio=round(load.completion.ps / ideal_ps, 3),
            bus_bandwidth=bus, of_the_line_percent=share(bus, fabric.line), marked_percent=load.marked,
            PAUSE_frames=load.pauses.frames, deepest_queue=load.deepest, sent_again=load.sent_again,
        )  # fmt: skip
        lossless(run, fabric, name, load)
    run.figure("processor and memory of switches: not applicable", "the lab has no software of a product")
    run.figure("routing after adjacencies are cleared: not applicable", "its routes are static; `xoff run bgp_fabric`")


def soak(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """All-reduce and all-to-all by turns in one network: does a later iteration take longer, and is anything left?"""
    iterations = 6 if quick else 40
    took: list[int] = []
    dropped, intact, held, again = 0, True, [], []
    with network(fabric.topo(), case="soak") as net:
        for pattern in _turns(fabric.hosts, iterations):
            with Flows(flows(fabric, pattern)) as running:
                running.wait()
            took.append(completion(running.reports).ps)
            reports = running.reports_of(RoceReport)
            intact = intact and all(one.intact for one in reports)
            again.append(sum(one.retransmitted for one in reports))
            held.append(net.fabric.held(ROCE_PRIORITY))
        dropped = net.fabric.dropped()
    for name, times, sent in (("all-reduce", took[::2], again[::2]), ("all-to-all", took[1::2], again[1::2])):
        mean = statistics.fmean(times)
        row(
            run, name, iterations=len(times), mean=_time(mean), least=_time(min(times)), most=_time(max(times)),
            deviation_percent=round(100 * statistics.pstdev(times) / mean, 3),
            last_over_first=round(times[-1] / times[0], 3), sent_again=sum(sent),
        )  # fmt: skip
    row(run, "all iterations", cells_left_in_buffers_at_most=max(held))
    run.claim("all iterations: cells left in buffers", max(held), equals=0)
    run.claim("all iterations: every octet as it was sent", intact, equals=True)
    if fabric.pfc:
        run.claim("all iterations: frames dropped", dropped, equals=0)
    run.figure("24 hours: not applicable", "hours of the hardware are weeks at the lab's scale")
    run.figure("memory of processes (12.2): not applicable", "the lab has no software of a product, whose memory grows")


def _turns(hosts: Sequence[str], iterations: int) -> Iterator[list[Transfer]]:
    each = Size.from_bytes(-(-_SIZE.bytes // len(hosts)))
    for number in range(iterations):
        yield transfers.all_to_all(hosts, each) if number % 2 else transfers.ring_all_reduce(hosts, _SIZE)


def _time(ps: float) -> Duration:
    return Duration.from_ps(round(ps))
