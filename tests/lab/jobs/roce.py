"""Jobs for tests/lab/test_roce.py."""

from testbed.lab import Run, experiment
from testbed.roce.rates import Line, RateControl
from testbed.units import Duration, Rate, Size


@experiment(in_lab_time=True, timeout="60s")
def fills_a_line(run: Run) -> None:
    """One flow of 500 kB over 100 Mb/s: nothing but its packets is on the line."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(1, rate="100Gb/s"), run, autoStaticArp=True) as net:
        with run.measuring(), Flows([Flow("h1", "r", transport="roce", size="500kB")]) as flows:
            flows.wait()
        (report,) = flows.reports
        run.claim("goodput", report.goodput, at_least=Rate("99Mb/s"), at_most=Rate("100Mb/s"))
        run.figure("completion", report.completion)
        run.claim("lost", net.fabric.dropped(), equals=0)


@experiment(in_lab_time=True, timeout="60s")
def on_the_wire(run: Run) -> None:
    """Every kind of packet at h1's port, with a mark on each that leaves the switch."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import capture
    from testbed.net.traffic import Flow, Flows
    from testbed.net.traffic.roce import Roce
    from testbed.switch.ecn.curve import EcnCurve
    from topologies.incast import Incast

    port = Port(ecn={3: EcnCurve.step("1B")})
    with network(Incast(2, port=port, hopts={"port": Port()}), run, autoStaticArp=True) as net:
        flows = [
            Flow("h1", "r", transport=Roce(operation=operation), size="20kB", rate_control="dcqcn")
            for operation in ("write", "send", "read")
        ]
        flows.append(Flow("h2", "r", transport="roce", size="20kB", rate_control="dcqcn"))
        captured = capture(net["h1"], "h1-eth0", run.directory / "h1.pcap", "udp port 4791")
        with captured, Flows(flows) as running, run.measuring():
            running.wait()
        run.claim("CNPs", sum(report.marked for report in running.reports), at_least=1)


@experiment(in_lab_time=True, timeout="60s")
def goes_by_marks(run: Run) -> None:
    """DCQCN where nothing marks, and where the switch does."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.net.traffic.roce import RoceReport
    from testbed.switch.ecn.curve import EcnCurve
    from topologies.incast import Incast

    for case, port in (("bare", Port()), ("marking", Port(ecn={3: EcnCurve("40kB", "160kB", "20%")}))):
        with network(Incast(2, port=port), run, case=case, autoStaticArp=True):
            flows = [Flow(host, "r", transport="roce", size="1MB", rate_control="dcqcn") for host in ("h1", "h2")]
            with run.measuring(), Flows(flows) as running:
                running.wait()
        cnps = [report.cnps_received for report in running.reports if isinstance(report, RoceReport)]
        run.figure(f"{case}: CNPs", cnps)


@experiment(in_lab_time=True, timeout="60s")
def timely_beside_fixed(run: Run) -> None:
    """Two flows into one port, at line rate and with TIMELY as it is by default."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    for control in ("fixed", "timely"):
        with network(Incast(2), run, case=control, autoStaticArp=True):
            flows = [Flow(host, "r", transport="roce", size="1MB", rate_control=control) for host in ("h1", "h2")]
            with run.measuring(), Flows(flows) as running:
                running.wait()
        run.figure(control, max(report.completion for report in running.reports))


@experiment(in_lab_time=True, timeout="60s")
def too_fast(run: Run, transport: str = "udp") -> None:
    """A rate of hardware on a line of the lab."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(2), run), Flows([Flow("h1", "r", transport=transport, rate="5Gb/s", duration="1s")]) as running:
        running.wait()


class Half(RateControl):
    """Half of the line, and a note of what was reported to it."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.rate_bps /= 2


@experiment(in_lab_time=True, timeout="60s")
def own_rate_control(run: Run) -> None:
    """A class of this file sends at half of the line; a tree all-reduce of four hosts has every part."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows, workload
    from testbed.net.traffic.roce import RoceReport
    from testbed.workload import transfers
    from topologies.incast import Incast

    with network(Incast(4), run, autoStaticArp=True):
        with run.measuring(), Flows([Flow("h1", "r", transport="roce", size="200kB", rate_control=Half)]) as flows:
            flows.wait()
        goodput = flows.reports[0].goodput
        run.claim("goodput at half of the line", goodput, at_least=Rate("4.95Mb/s"), at_most=Rate("5.05Mb/s"))
        tree = transfers.tree_all_reduce(["h1", "h2", "h3", "h4"], Size("50kB"))
        with run.measuring(), Flows(workload.flows(tree)) as flows:
            flows.wait()
        reports = [report for report in flows.reports if isinstance(report, RoceReport)]
        run.claim("parts", [report.size for report in reports], equals=[one.size for one in tree])
        # h4 to h2, h2 and h3 to h1, h1 to h2 and h3, h2 to h4: four after one another, in the middle two on one line.
        # A first packet waits for no other, so it is a little less than six times one.
        one = Rate("10Mb/s").time_for(Size.from_bytes(50_000 + 49 * 82))
        run.claim("completion", workload.completion(reports), at_least=one * 9 // 2, at_most=one * 6)
        order = [reports[place].last_ns for place in (2, 0, 3, 5)]
        run.claim("one waits for the other", order == sorted(order), equals=True)


@experiment(in_lab_time=True, timeout="60s")
def asks(run: Run) -> None:
    """A client asks ten times over cables of 10 ms: each time a round trip over two of them, and ten packets."""
    from testbed.net.build.network import network
    from testbed.net.fabric.cable import Cable
    from testbed.net.traffic import Flows, workload
    from testbed.workload import transfers
    from topologies.incast import Incast

    with network(Incast(1, cable=Cable("10Gb/s", delay="10us")), run, autoStaticArp=True):
        pattern = transfers.request_response("h1", "r", Size("1kB"), Size("10kB"), 10)
        with run.measuring(), Flows(workload.flows(pattern)) as flows:
            flows.wait()
        trip, packet = Duration("40ms"), Rate("10Mb/s").time_for(Size("1106B"))
        took = workload.completion(flows.reports)
        run.claim("completion", took, at_least=(trip + packet * 9) * 10, at_most=(trip + packet * 12) * 10)


@experiment(in_lab_time=True, timeout="60s")
def recorded(run: Run) -> None:
    """Two flows into one port, with the buffer and the rates recorded each millisecond."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from testbed.net.traffic.roce import Roce
    from testbed.net.watch import series
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    with network(Incast(2, buffer=Buffer(xoff=Static(100), xon_offset=16)), run, autoStaticArp=True) as net:
        flows = [
            Flow(name, "r", transport=Roce(sample=Duration("10ms")), size="200kB", rate_control="dcqcn")
            for name in ("h1", "h2")
        ]
        with series.recording(run), Flows(flows) as running, run.measuring():
            running.wait()
        series.flows(run, running.reports, ["h1", "h2"])  # type: ignore[arg-type]
        leaving = net.fabric.sent("s1-eth3")
        run.claim("octets queued in the end", sum(leaving.queued_bytes), equals=0)
        run.figure("most octets queued", leaving.most_queued_bytes[3])
        run.claim("lost", sum(report.lost for report in running.reports), equals=0)
