"""Jobs for tests/lab/roce/test_roce.py."""

import math
import time
from pathlib import Path

from testbed.errors import XoffError
from testbed.frames.telemetry import Stamp
from testbed.lab import Run, experiment
from testbed.roce.rates import Acknowledgement, Line, RateControl
from testbed.units import Duration, Rate, Size


@experiment(_in_lab_time=True, timeout="60s")
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


@experiment(_in_lab_time=True, timeout="60s")
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


@experiment(_in_lab_time=True, timeout="60s")
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
        cnps = [report.cnps_received for report in running.reports_of(RoceReport)]
        run.figure(f"{case}: CNPs", cnps)


@experiment(_in_lab_time=True, timeout="60s")
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


@experiment(_in_lab_time=True, timeout="60s")
def too_fast(run: Run) -> None:
    """Rates of hardware on a line of the lab: two that are refused, and one that ends the run."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    def flow(transport: str) -> None:
        with Flows([Flow("h1", "r", transport=transport, rate="5Gb/s", duration="1s")]) as running:
            running.wait()

    with network(Incast(2), run):
        refused = []
        for transport in ("udp", "tcp"):
            try:
                flow(transport)
            except XoffError as error:
                refused.append(str(error))
        run.figure("refused", refused)
        flow("roce")


class Half(RateControl):
    """Half of the line, and a note of what was reported to it."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.rate_lab_bps /= 2


@experiment(_in_lab_time=True, timeout="60s")
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
        reports = flows.reports_of(RoceReport)
        run.claim("parts", [report.size for report in reports], equals=[one.size for one in tree])
        # h4 to h2, h2 and h3 to h1, h1 to h2 and h3, h2 to h4: four after one another, in the middle two on one line.
        # A first packet waits for no other, so it is a little less than six times one.
        one = Rate("10Mb/s").time_for(Size.from_bytes(50_000 + 49 * 82))
        run.claim("completion", workload.completion(reports), at_least=one * 9 // 2, at_most=one * 6)
        order = [reports[place].last_lab_ns for place in (2, 0, 3, 5)]
        run.claim("one waits for the other", order == sorted(order), equals=True)


@experiment(_in_lab_time=True, timeout="60s")
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


@experiment(_in_lab_time=True, timeout="60s")
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
        with series.recording(run):
            with Flows(flows) as running, run.measuring():
                running.wait()
            time.sleep(0.002)  # a sample of the empty buffer
        series.flows(run, running.reports, ["h1", "h2"])  # type: ignore[arg-type]
        leaving = net.fabric.sent("s1-eth3")
        run.claim("octets queued in the end", sum(leaving.queued_bytes), equals=0)
        run.figure("most octets queued", leaving.most_queued_bytes[3])
        run.claim("lost", sum(report.lost for report in running.reports), equals=0)


class Plain(RateControl):
    """The line's rate, as `fixed`, but unknown to the kernel."""


class Stuck(RateControl):
    """A fault after ten packets."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.left = 10

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        self.left -= 1
        self.rate_lab_bps = min(self.rate_lab_bps, 1e12 / max(0, self.left))


class Logarithm(RateControl):
    """One that has no code."""

    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        self.rate_lab_bps = max(self.rate_lab_bps, math.log(octets))


@experiment(timeout="60s")
def faulty(run: Run) -> None:
    """The flow with the fault ends where it is, and the other one is served."""
    from xoff import Flow, Flows, Incast, network

    with network(Incast(2)) as net:
        with Flows([Flow("h1", "r", transport="roce", size="100kB", rate_control=Stuck),
                    Flow("h2", "r", transport="roce", size="100kB", rate_control=Plain)]) as running:  # fmt: skip
            running.wait()
        broken, whole = running.reports
        run.figure("failure", broken.failure)  # type: ignore[attr-defined]
        run.claim("packets before the fault", broken.sent, equals=10)
        run.claim("octets of the other flow", (whole.size.bytes, whole.intact), equals=(100_000, True))  # type: ignore[attr-defined]
        again = net.run(Flow("h1", "r", transport="roce", size="100kB"))
        run.claim("lost by the next flow of the host", again.lost, equals=0)


@experiment(timeout="60s")
def faulty_in_python(run: Run) -> None:
    """The same by a process of the host's, for two queue pairs of which one has a fault."""
    from xoff import Flow, Incast, Roce, network

    with network(Incast(1)) as net:
        transport = Roce(served_by="python")
        broken, whole = net.run(*(
            Flow("h1", "r", transport=transport, size="100kB", rate_control=control) for control in (Stuck, Plain)
        )).reports  # fmt: skip
        run.figure("failure", broken.failure)  # type: ignore[attr-defined]
        run.claim("served by the kernel", broken.in_kernel, equals=False)  # type: ignore[attr-defined]
        run.claim("packets before the fault", broken.sent, equals=10)
        run.claim("octets of the other flow", (whole.size.bytes, whole.intact), equals=(100_000, True))  # type: ignore[attr-defined]
        again = net.run(Flow("h1", "r", transport="roce", size="100kB"))
        run.claim("lost by the next flow of the host", again.lost, equals=0)


@experiment(timeout="60s")
def refused_programs(run: Run) -> None:
    """Code that reaches outside its frame, jumps outside itself or never ends a path is refused by the kernel."""
    import ctypes

    from testbed.bytecode.code import NUMBERS
    from testbed.linux.roce_device import C, ControlCode, RoceDevice

    def program(*instructions: tuple[str, int, int, int, int], cells: int = 24, entry: int = 0) -> ControlCode:
        octets = b"".join(
            bytes(C.xc_op(op=NUMBERS[name], dst=dst, a=a, b=b, n=n)) for name, dst, a, b, n in instructions
        )
        return ControlCode(octets, cells, (entry,) + (2**32 - 1,) * 6, 0, bytes(8 * cells))

    end = ("RET", 0, 0, 0, 0)
    device = RoceDevice.__new__(RoceDevice)
    device._programs = {}
    super(RoceDevice, device).__init__(Path("/dev/xoff-roce"))
    taken = device._program(program(("MOV", 23, 22, 0, 0), end))
    run.claim("the number of a program that fits", taken, equals=0)
    for name, wrong in {
        "a cell outside": program(("MOV", 24, 0, 0, 0), end),
        "an array outside": program(("COPY", 20, 0, 0, 5), end),
        "an array of nothing": program(("LOAD", 20, 0, 1, 0), end),
        "a jump outside": program(("JMP", 2, 0, 0, 0), end),
        "an entry outside": program(end, entry=1),
        "no end": program(("JMP", 0, 0, 0, 0)),
        "fewer cells than the fixed ones": program(end, cells=8),
        "too many cells": program(end, cells=4096),
    }.items():
        error = ""
        try:
            device._program(wrong)
        except OSError as refused:
            error = type(refused).__name__ + f" {refused.errno}"
        run.claim(name, error, equals="OSError 22")
    device.close()
    assert ctypes.sizeof(C.xc_op) == 8


@experiment(timeout="60s")
def who_serves(run: Run) -> None:
    """The kernel serves sources with rate controls of Xoff and with those that have code; a process serves others."""
    from xoff import Flow, Incast, Roce, network

    served: dict[str, bool] = {}
    octets = {}
    for name, control, by in (
        ("fixed", "fixed", None), ("dcqcn", "dcqcn", None), ("dcqcn-connectx", "dcqcn-connectx", None),
        ("timely", "timely", None), ("swift", "swift", "kernel"), ("own", Plain, None), ("in Python", Plain, "python"),
        ("without code", Logarithm, None),
    ):  # fmt: skip
        with network(Incast(1), case=name) as net:
            transport = Roce(served_by=by)
            flows = net.run(Flow("h1", "r", transport=transport, size="300kB", rate_control=control))
        served[name] = flows.reports[0].in_kernel  # type: ignore[attr-defined]
        octets[name] = [report.size.bytes for report in flows.reports if report.intact]  # type: ignore[attr-defined]
    run.claim("served by the kernel", served, equals={
        "fixed": True, "dcqcn": True, "dcqcn-connectx": True, "timely": True, "swift": True, "own": True,
        "in Python": False, "without code": False,
    })  # fmt: skip
    run.claim("octets that came whole", octets, equals={name: [300_000] for name in served})


@experiment(timeout="60s")
def killed(run: Run) -> None:
    """The source's process is killed: nothing more is sent at once, and the next flow of the host runs."""
    import os
    import signal

    from xoff import Flow, Flows, Incast, network

    with network(Incast(2)) as net:
        before = net.fabric.sent("h1-eth0").sent_frames[3]
        failure = ""
        try:
            with Flows([Flow("h1", "r", transport="roce", size="30MB"), Flow("h2", "r", transport="roce", size="1MB")],
                       settle="1ms") as flows:  # fmt: skip
                net.sleep("1ms")
                victim = next(one for one in flows._processes if one.endpoint.node.name == "h1")
                os.kill(victim._helper.process.pid, signal.SIGKILL)
                net.sleep("10us")
                then = net.fabric.sent("h1-eth0").sent_frames[3]
                net.sleep("1ms")
                after = net.fabric.sent("h1-eth0").sent_frames[3]
                flows.wait()
        except Exception as error:
            failure = str(error)
        run.claim("sent before", then - before, at_least=100)
        # What the port had been given leaves it: as many frames as a socket would hold.
        run.claim("sent after", after - then, at_most=16)
        run.claim("the error", failure, equals="flow at h1: its process was killed, so what it counted is not known")
        again = net.run(Flow("h1", "r", transport="roce", size="1MB"))
        run.claim("lost", again.lost, equals=0)
        run.claim("received", again.reports[0].size.bytes, equals=1_000_000)  # type: ignore[attr-defined]


@experiment(timeout="60s")
def too_long(run: Run) -> None:
    """Packets of 4096 octets of payload on a port whose MTU is 1500."""
    from testbed.roce.settings import Settings
    from xoff import Flow, Incast, Roce, network

    with network(Incast(1)) as net:
        net.run(Flow("h1", "r", transport=Roce(settings=Settings(mtu=4096)), size="30kB"))


@experiment(timeout="60s")
def notified_by_priority(run: Run) -> None:
    """h1 sends to r, whose port marks, and to h2: with one scope of CNPs the second flow slows down as well."""
    from testbed.roce.settings import CnpScope, Settings
    from xoff import EcnCurve, Flow, Incast, Roce, marking, network

    slowest = {}
    for scope in CnpScope:
        transport = Roce(settings=Settings(cnp_scope=scope), sample=Duration("20us"))
        with network(Incast(2, **marking(EcnCurve("10kB", "40kB", "100%"))), case=scope.value) as net:
            flows = net.run(
                *[Flow(source, target, transport=transport, duration="2ms", rate_control="dcqcn")
                  for source, target in (("h1", "r"), ("h2", "r"), ("h1", "h2"))]
            )  # fmt: skip
        report = flows.reports[2]
        run.claim(f"{scope}: served by the kernel", report.in_kernel, equals=True)  # type: ignore[attr-defined]
        run.claim(f"{scope}: its own CNPs", report.cnps_received, equals=0)  # type: ignore[attr-defined]
        rates = [sample["rate_bps"] for sample in report.samples]  # type: ignore[attr-defined]
        slowest[scope.value] = round(min(rates) / 10**9, 1)
    run.claim("Gb/s with a scope of flows", slowest["flow"], equals=10.0)
    run.claim("Gb/s with a scope of priorities", slowest["priority"], at_most=5.0)


class _OneByOne(RateControl):
    """One packet under way, which collects telemetry; its state is what the last one brought back."""

    counts_acknowledgements = needs_telemetry = True

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.window = 1
        self._stamps: tuple[Stamp, ...] = ()
        self._told = self._wrong = 0

    def on_acknowledged(self, now_lab_ns: int, acknowledged: Acknowledgement) -> None:
        before, self._stamps = self._stamps, acknowledged.stamps
        self._told += 1
        for old, new in zip(before, self._stamps, strict=False):
            time_ns, octets = new.since(old)
            # The packet before this one is all that the port has sent since: a whole one, or the shorter last one.
            self._wrong += octets not in (1182, 1166) or time_ns <= 0 or new.queue_octets != 0

    def state(self) -> dict[str, float]:
        kbps = {stamp.kbps for stamp in self._stamps}
        return {"stamps": len(self._stamps), "told": self._told, "wrong": self._wrong, "kbps": sum(kbps)}


@experiment(timeout="60s")
def stamped(run: Run) -> None:
    """A flow past six ports that stamp into five places, and one of HPCC past ports that do not."""
    from xoff import Chain, Flow, Network, Port, Roce, network

    stamping, transport = Port(telemetry=True), Roce(message=Size("64kB"), sample=Duration("10us"))
    # A set of numbers has no code, so the process of the host serves it.
    in_python = Roce(message=Size("64kB"), sample=Duration("10us"), served_by="python")

    def states(net: Network, hosts: tuple[str, str], rate_control: object, by: Roce) -> list[dict[str, float]]:
        flow = Flow(*hosts, transport=by, count=1, rate_control=rate_control)
        (report,) = net.run(flow).reports
        run.claim(f"{hosts}: intact", report.intact, equals=True)  # type: ignore[attr-defined]
        return [sample for sample in report.samples if sample.get("told", 1)]  # type: ignore[attr-defined]

    with network(Chain(6, port=stamping), case="six") as net:
        found = states(net, ("h1", "h6"), _OneByOne, in_python)
        run.claim("stamps past six ports", sorted({one["stamps"] for one in found}), equals=[5])
        run.claim("wrong stamps", found[-1]["wrong"], equals=0)
        run.claim("lines that were stamped, kb/s", sorted({one["kbps"] for one in found}), equals=[10_000])
        stampings = net.fabric.core.running_program().stampings
        assert stampings is not None
        ports = [net.fabric.port(name).slot for name in ("s1-eth2", "s5-eth3", "s6-eth1", "h1-eth0")]
        run.claim("packets stamped, and not for want of room", [list(stampings.counters(slot)) for slot in ports],
                  equals=[[63, 0], [63, 0], [0, 63], [0, 0]])  # fmt: skip
    with network(Chain(2), case="two") as net:
        found = states(net, ("h1", "h2"), "hpcc", transport)
        run.claim("HPCC without stamps: window", sorted({one["window_octets"] for one in found}), equals=[16_250.0])
        run.claim("a program with telemetry", net.fabric.core.running_program().telemetry, equals=False)
