"""Atomic operations in the lab: flows that count in the memory of their target, in the kernel and in a process."""

from __future__ import annotations

from testbed.lab import Run, experiment
from testbed.net.build.topo import LosslessTopo
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce.nic import Nic
from testbed.roce.settings import Settings
from testbed.units import Duration

COUNT = 300


class Lossy(LosslessTopo):
    """Two senders and a target, whose cable loses one frame in fifty."""

    def build(self) -> None:
        self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), "s1")
        self.addLink(self.addHost("r"), "s1", loss=2)


@experiment
def test_atomic_operations_are_done_once_each_over_both_versions_in_the_kernel_and_in_a_process(run: Run) -> None:
    from testbed.net.build.network import network

    for by in ("kernel", "python"):
        with network(Lossy(ipv6=True), run, case=by) as net:
            flows = net.run(*(
                Flow(source, "r", count=COUNT, transport=Roce(
                    operation, ip_version=version, served_by=by, settings=Settings(retransmit_after=Duration("200us")),
                ))
                for source, operation, version in (
                    ("h1", "fetch and add", 4), ("h1", "compare and swap", 6),
                    ("h2", "fetch and add", 6), ("h2", "compare and swap", 4),
                )
            ))  # fmt: skip
        reports = flows.reports_of(RoceReport)
        run.claim(f"{by}: served by the kernel", [one.in_kernel for one in reports], equals=[by == "kernel"] * 4)
        run.claim(f"{by}: messages", [one.messages for one in reports], equals=[COUNT] * 4)
        run.claim(f"{by}: the words have counted each once", [one.intact for one in reports], equals=[True] * 4)
        run.claim(f"{by}: octets", [one.size.bytes for one in reports], equals=[8 * COUNT] * 4)
        run.claim(f"{by}: asked again", min(one.retransmitted for one in reports), at_least=1)
        run.claim(f"{by}: answered again", min(one.doubled for one in reports), at_least=1)
        run.claim(
            f"{by}: octets of a frame", [one.octets // one.received for one in reports], equals=[86, 106, 106, 86]
        )


@experiment
def test_flows_without_a_retransmission_timer_come_to_their_end_where_nothing_is_lost(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(2), run) as net:
        flows = net.run(*(
            Flow(source, "r", size="200kB", transport=Roce(settings=Settings(ack_timeout=0), served_by=by))
            for source, by in (("h1", "kernel"), ("h2", "python"))
        ))  # fmt: skip
    run.claim("whole", [one.intact for one in flows.reports_of(RoceReport)], equals=[True, True])
    run.claim("sent again", [one.retransmitted for one in flows.reports_of(RoceReport)], equals=[0, 0])


@experiment
def test_atomic_operations_go_at_the_pace_of_the_answers_that_may_be_missing(run: Run) -> None:
    from testbed.net.build.network import network
    from topologies.incast import Incast

    times = {}
    for reads in (1, 8):
        with network(Incast(1, delay="5us"), run, case=f"{reads} at a time") as net:
            transport = Roce("fetch and add", nic=Nic(reads=reads))
            (report,) = net.run(Flow("h1", "r", count=COUNT, transport=transport)).reports_of(RoceReport)
        assert report.completion is not None
        times[reads] = report.completion.ns
        run.claim(f"{reads} at a time: sent again", report.retransmitted, equals=0)
        run.figure(f"{reads} at a time: completion", report.completion)
    run.claim("times as long, one at a time", times[1] / times[8], at_least=4, at_most=8)
