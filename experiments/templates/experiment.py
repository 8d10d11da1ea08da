"""Two senders into one port: a beginning for an experiment of your own."""

from typing import Annotated

from testbed.lab import Between, Run, experiment


@experiment(timeout="60s")
def new_thing(run: Run, frames: Annotated[int, Between(100, 2000)] = 400, xoff: int = 300) -> None:
    """Two senders, one receiver: nothing is lost, and the switch sends pauses. `xoff` is its threshold in cells."""
    from testbed.buffer.settings import Static
    from testbed.net.network import network
    from testbed.net.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from topologies.incast import Incast

    buffer = Buffer(total=3000, xoff=Static(xoff))
    with network(Incast(2, buffer=buffer), autoStaticArp=True) as net:
        *senders, target = net.hosts
        with run.measuring(), Flows([Flow(sender, target, count=frames) for sender in senders]) as flows:
            flows.wait()
        pauses = net.fabric.pfc("s1-eth1", 3)["xoff_sent"]
        most = net.fabric.group("s1-eth1", 3).most_cells
    run.figure("most cells of h1's frames", most)
    run.claim("lost", sum(report.lost for report in flows.reports), equals=0)
    run.claim("XOFF sent to h1", pauses, at_least=1)
