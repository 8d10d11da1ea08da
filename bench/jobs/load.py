"""The experiments of bench/load.py."""

from itertools import pairwise

from testbed.lab import Run, experiment


@experiment(in_lab_time=True, timeout="300s")
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
