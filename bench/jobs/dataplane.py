"""The experiments of bench/dataplane.py."""

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="300s")
def reaction(run: Run, scale: int = 200, frames: int = 9000) -> None:
    """An incast that pauses its senders over a thousand times; how fast agents were, from their logs."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    with network(Incast(2, scale=scale, buffer=Buffer(total=1000, xon_offset=16)), run) as net:
        *senders, target = net.hosts
        with Flows([Flow(sender, target, count=frames) for sender in senders]) as flows:
            flows.wait()
        run.figure("lost", sum(report.lost for report in flows.reports))
        for kind in ("frame_sent", "queue_stopped"):
            taken = sorted(event.detail["reaction_ns"] for event in net.fabric.events() if event.kind == kind)
            run.figure(f"{kind}: samples", len(taken))
            for part in (50, 90, 99):
                run.figure(f"{kind}: p{part}", taken[len(taken) * part // 100] / 1000, "us")
            run.figure(f"{kind}: worst", taken[-1] / 1000, "us")


@experiment(_in_lab_time=True, timeout="300s")
def cost(run: Run, frames: int = 4000, runs: int = 10) -> None:
    """One flow through a switch whose line is faster than the lab's CPU: with everything, and with queues only."""
    from testbed.net.build.network import network
    from testbed.net.fabric.fabric import Fabric
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    for name, queues_only in (("queues only", True), ("everything", False)):
        Fabric.current().core.options.queues_only = queues_only
        spent = 0.0
        with network(Incast(1, scale=1, buffer=Buffer(total=100_000)), run) as net:
            for _ in range(runs):  # how sender and receiver take turns differs from one to the next
                with Flows([Flow(*net.hosts, count=frames)]) as flows:
                    flows.wait()
                (report,) = flows.reports
                run.figure(f"{name}: lost", report.lost)
                spent += (report.last_lab_ns - report.first_lab_ns) / (report.received - 1)
        run.figure(f"{name}: us per frame", spent / runs / 1000)


@experiment(_in_lab_time=True, timeout="300s")
def start(run: Run) -> None:
    """Eight hosts and two switches: plain Mininet with shaped links, then lossless; how long the start takes."""
    from mininet.topo import Topo

    from testbed.linux import vswitch
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo

    vswitch.ensure_daemons()
    for name, base, link in (("plain", Topo, {"bw": 100, "use_tbf": True}), ("lossless", LosslessTopo, {})):

        class Eight(base):  # type: ignore[misc, valid-type]
            def build(self) -> None:
                ends = [self.addSwitch("s1"), self.addSwitch("s2")]
                self.addLink(*ends, **link)  # noqa: B023
                for number in range(8):
                    self.addLink(self.addHost(f"h{number + 1}"), ends[number % 2], **link)  # noqa: B023

        topo = Eight()
        begin_ns = run.lab_ns
        with network(topo):
            run.figure(f"{name}: start", (run.lab_ns - begin_ns) / 1e6, "ms")


@experiment(_in_lab_time=True, timeout="600s")
def incast(run: Run, frames: int = 1000, scale: int = 100, hosts: int = 2, queues_only: bool = False) -> None:
    """A saturated incast of so many frames; the guest's share of where the time goes."""
    from pathlib import Path

    from testbed.net.build.network import network
    from testbed.net.fabric.fabric import Fabric
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    def counted() -> tuple[int, int]:
        lines = Path("/proc/stat").read_text().splitlines()
        named = {line.split()[0]: int(line.split()[1]) for line in lines if line.split()[0] in ("intr", "ctxt")}
        return named["intr"], named["ctxt"]

    Fabric.current().core.options.queues_only = queues_only
    with network(Incast(hosts, scale=scale), run) as net:
        *senders, target = net.hosts
        before = counted()
        # Fidelity is that of the traffic: to start the flows' processes keeps the CPU busy.
        with Flows([Flow(sender, target, count=frames) for sender in senders]) as flows, run.measuring():
            flows.wait()
        after = counted()
        received = sum(report.received for report in flows.reports)
        run.figure("lost", sum(report.lost for report in flows.reports))
        run.figure("frames", received)
        if not queues_only:
            run.figure("pauses", sum(net.fabric.pfc(f"s1-eth{port}", 3)["xoff_sent"] for port in range(1, hosts + 1)))
        run.figure("interrupts per frame", (after[0] - before[0]) / received)
        run.figure("context switches per frame", (after[1] - before[1]) / received)


@experiment(_in_lab_time=True, timeout="120s")
def tcp(run: Run, seconds: int = 5, scale: int = 100, joined: bool = False, queues_only: bool = False) -> None:
    """One TCP flow over two hops. `joined`: hosts hand their ports segments joined, as on lines without PFC (GSO)."""
    from testbed.net.build.network import network
    from testbed.net.fabric.fabric import Fabric
    from testbed.net.traffic import Flow, Flows
    from testbed.net.traffic.tcp import TcpReport
    from testbed.units import Duration
    from topologies.incast import Incast

    Fabric.current().core.options.queues_only = queues_only
    with network(Incast(1, scale=scale), run) as net:
        if joined:
            for host in net.hosts:
                host.cmd("ip", "link", "set", host.defaultIntf().name, "gso_max_segs", "64")
        with Flows(
            [Flow(net.hosts[0], net.hosts[1], priority=0, transport="tcp", duration=Duration("1s") * seconds)]
        ) as flows:
            flows.wait()
        (report,) = flows.reports
        # What goes into a queue: data and acknowledgements, each at its host's port and at the switch's.
        sent = [net.fabric.sent(port) for port in net.fabric.names()]
        queued = [(sum(port.sent_frames), sum(port.sent_bytes)) for port in sent]
        run.figure("packet-hops", sum(frames for frames, _ in queued))
        run.figure("frames on lines", sum(max(frames, (octets - 66 * frames) // 1448) for frames, octets in queued))
        run.figure("goodput", report.goodput.bps / 1e6, "Mb/s")
        assert isinstance(report, TcpReport)
        run.figure("retransmits", report.retransmits)
