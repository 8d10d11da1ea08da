"""The experiments of bench/load.py."""

from itertools import pairwise

from testbed.lab import Run, experiment


@experiment(_in_lab_time=True, timeout="300s")
def cost(run: Run, switches: int = 1, frames: int = 4000, runs: int = 5) -> None:
    """One flow through a row of switches whose lines are faster than the lab's CPU: what a frame takes of it."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows

    class Row(LosslessTopo):
        def build(self) -> None:
            names = [
                self.addHost("h1"),
                *(self.addSwitch(f"s{number + 1}") for number in range(switches)),
                self.addHost("h2"),
            ]
            for one, other in pairwise(names):
                self.addLink(one, other)

    spent = 0.0
    with network(Row(scale=1, buffer=Buffer(total=100_000)), run) as net:
        for _ in range(runs):  # how sender and receiver take turns differs from one to the next
            with Flows([Flow(net["h1"], net["h2"], frame="60B", count=frames)]) as flows:
                flows.wait()
            (report,) = flows.reports
            run.claim("lost", report.lost, equals=0)
            spent += (report.last_lab_ns - report.first_lab_ns) / (report.received - 1)
    run.figure("us per frame", spent / runs / 1000)


@experiment(timeout="600s")
def incast(  # noqa: PLR0917  parameters of an experiment
    run: Run, transport: str = "udp", senders: int = 4, switches: int = 1, frames: int = 4000, scale: int = 1000
) -> None:
    """Flows through a row of switches to one host, each of so many frames."""
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.traffic import Flow, Flows
    from testbed.units import Size

    class Row(LosslessTopo):
        def build(self) -> None:
            names = [*(self.addSwitch(f"s{number + 1}") for number in range(switches)), self.addHost("r")]
            for number in range(senders):
                self.addLink(self.addHost(f"h{number + 1}"), "s1")
            for one, other in pairwise(names):
                self.addLink(one, other)

    def flow(source: str) -> Flow:
        if transport == "tcp":
            return Flow(source, "r", priority=0, transport="tcp", size=Size.from_bytes(1448 * frames))
        if transport == "roce":
            return Flow(source, "r", transport="roce", size=Size.from_bytes(1024 * frames))
        return Flow(source, "r", count=frames)

    with network(Row(scale=scale), run):
        with Flows([flow(f"h{number + 1}") for number in range(senders)]) as flows:
            flows.wait()
        run.claim("lost", sum(report.lost for report in flows.reports), equals=0)


@experiment(timeout="600s")
def idle(run: Run, hosts: int = 10, seconds: int = 0) -> None:
    """Hosts at switches of 16 that do nothing."""
    import time

    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo

    class Leaves(LosslessTopo):
        def build(self) -> None:
            for number in range(hosts):
                leaf = f"s{number // 16 + 1}"
                if not number % 16:
                    self.addSwitch(leaf)
                    if number:
                        self.addLink(f"s{number // 16}", leaf)
                self.addLink(self.addHost(f"h{number + 1}"), leaf)

    with network(Leaves(scale=100), run) as net:
        time.sleep(seconds)
        run.claim("hosts", len(net.hosts), equals=hosts)
