"""Categories 5 and 6, job completion time: against the roofline, beside another job, and when a link fails."""

from collections.abc import Sequence
from dataclasses import replace

from experiments._benchmark.balancing import NO_WAYS
from experiments._benchmark.collectives import flows
from experiments._benchmark.load import STRATEGIES, lossless, offer, row
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.measures.training_load import TrainingLoad, carried
from testbed.net.traffic.workload import completion
from testbed.workload import traces, transfers
from xoff import Duration, Flow, Flows, Network, RoceReport, Run, Size, network

_SIZE = Size("256kB")
_PAYLOAD = 1024 / 1106
"""The part of the line that is data, with packets of 1024 octets."""
_LOST_FOR = Duration("100us")
"""The time for which a link is lost."""
_STRAGGLES = 5
"""The part of the time, one in so many, that a straggler computes longer."""


def jct(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Iterations of C of computing and a ring all-reduce of S, and the same with one host that computes longer."""
    many = len(fabric.hosts)
    factor = 2 * (many - 1) / many
    iterations = 2 if quick else 10
    pattern = transfers.ring_all_reduce(fabric.hosts, _SIZE)
    for compute in (Duration("200us"), Duration("2ms")):
        for case, late in (("", Duration("0s")), (", a straggler", compute // _STRAGGLES)):
            name = f"C = {compute}, S = {_SIZE}{case}"
            took, again = Duration("0s"), 0
            with network(fabric.topo(), case=name) as net:
                for _ in range(iterations):
                    net.sleep(compute)
                    all_flows = _late(flows(fabric, pattern), fabric.hosts[0], late)
                    with Flows(all_flows) as running:
                        running.wait()
                    took = took + compute + completion(running.reports)
                    again += sum(one.retransmitted for one in running.reports_of(RoceReport))
                dropped = net.fabric.dropped()
            ideal = _SIZE.bits * factor * 10**12 / fabric.line.bps
            roofline = iterations * (compute.ps + ideal)
            with_headers = iterations * (compute.ps + ideal / _PAYLOAD)
            row(
                run, name, iterations=iterations, JCT=took, roofline_JCT=Duration.from_ps(round(roofline)),
                JCT_ratio=round(took.ps / roofline, 3), JCT_ratio_with_headers=round(took.ps / with_headers, 3),
                sent_again=again,
            )  # fmt: skip
            if fabric.pfc:
                run.claim(f"{name}: frames dropped", dropped, equals=0)


def _late(all_flows: list[Flow], host: str, late: Duration) -> list[Flow]:
    """Return flows of which those of one host begin later."""
    return [replace(one, start=late) if str(one.source) == host and late.ps else one for one in all_flows]


def training(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Training jobs of the execution traces that come with Xoff, in place of MLPerf's, which take accelerators."""
    for name in traces.names():
        files = [(path.name, path.read_bytes()) for path in traces.files(name)]
        if len(files) > len(fabric.hosts):
            run.figure(f"{name}: not applicable", f"it has {len(files)} ranks")
            continue
        load = TrainingLoad.of(fabric, files, ranks=0, shrink=1, stragglers="")
        done = carried(load, case=name)
        row(
            run, name, ranks=done.job.ranks, JCT=done.job.completion, computing_of_the_slowest_rank=done.slowest,
            JCT_ratio=round(done.job.completion.ps / done.slowest.ps, 3), data_sent=Size.from_bytes(done.octets),
            times_a_switch_paused=done.paused, sent_again=done.sent_again,
        )  # fmt: skip
        run.claim(f"{name}: every octet as it was sent", done.intact, equals=True)
        if fabric.pfc:
            run.claim(f"{name}: frames dropped", done.dropped, equals=0)
    run.figure("BERT, ResNet, GPT-3: not applicable", "MLPerf takes accelerators; `xoff workload --trace` takes traces")


def tenants(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """Two jobs, each a ring all-reduce: on hosts in a row, and on every other host so that both use the same links."""
    hosts = fabric.hosts[: len(fabric.hosts) // 2 * 2]
    size = _SIZE if quick else _SIZE * 4
    half = len(hosts) // 2
    for case, jobs in (
        ("hosts in a row", (hosts[:half], hosts[half:])),
        ("every other host", (hosts[::2], hosts[1::2])),
    ):
        if half < 2:
            run.figure(f"{case}: not applicable", "two jobs take four hosts")
            continue
        rings = [transfers.ring_all_reduce(job, size) for job in jobs]
        alone = offer(fabric, flows(fabric, rings[0]), f"{case}, alone")
        both = offer(fabric, [*flows(fabric, rings[0]), *flows(fabric, rings[1], first=half)], f"{case}, both")
        first = completion(both.reports[:half])
        row(
            run, case, JCT_alone=alone.completion, JCT_of_both=first,
            interference_factor=round(first.ps / alone.completion.ps, 3), PAUSE_frames=both.pauses.frames,
            sent_again=both.sent_again,
        )  # fmt: skip
        lossless(run, fabric, case, both)


def failure(run: Run, fabric: FabricUnderTest, quick: bool) -> None:
    """A ring all-reduce, in the middle of which a switch loses one of its equal ways for a while.

    It comes back, since no routing protocol tells the other switches, which go on sending towards the lost cable.
    """
    pattern = transfers.ring_all_reduce(fabric.hosts, _SIZE if quick else _SIZE * 4)
    for strategy, (ways, nic) in STRATEGIES.items():
        steady = offer(fabric, flows(fabric, pattern, nic=nic), f"{strategy}, steady", ways=ways)
        if steady.balance is None:
            run.figure(f"{strategy}: not applicable", NO_WAYS)
            continue

        def pull(net: Network, running: Flows, after: Duration = steady.completion // 2) -> None:
            net.sleep(after)
            switch = next(one for one in net.switches if net.ways(one.name))
            port = net.ways(switch.name)[0].port
            net.fabric.cabling.pull(port)
            net.sleep(_LOST_FOR)
            net.fabric.cabling.plug(port)

        failed = offer(fabric, flows(fabric, pattern, nic=nic), f"{strategy}, a link fails", ways=ways, meanwhile=pull)
        row(
            run, strategy, completion=steady.completion, completion_with_the_failure=failed.completion,
            overhead_factor=round(failed.completion.ps / steady.completion.ps, 3), sent_again=failed.sent_again,
            longest_wait=_silence(failed.reports),
            zero_impact="yes" if failed.completion.ps <= steady.completion.ps else "no",
        )  # fmt: skip
        run.claim(f"{strategy}: every octet as it was sent", all(one.intact for one in failed.reports), equals=True)


def _silence(reports: Sequence[RoceReport]) -> Duration:
    """Return the longest time in which a flow that had begun got nothing, in windows of 10 ms of the lab."""
    longest = 0
    for one in reports:
        run_of = 0
        for frames in one.windows:
            run_of = 0 if frames else run_of + 1
            longest = max(longest, run_of)
    return reports[0].scale.nearest_real(Duration.from_ns(longest * 10_000_000))
