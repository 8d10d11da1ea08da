"""Two senders into one port: a beginning for an experiment of your own."""

from typing import Annotated

from xoff import Between, Flow, Incast, Run, experiment, network


@experiment(timeout="60s")
def new_thing(run: Run, frames: Annotated[int, Between(100, 2000)] = 400, xoff: int = 300) -> None:
    """Two senders, one receiver: nothing is lost, and the switch sends pauses. `xoff` is its threshold in cells."""
    with network(Incast(2, total=3000, xoff=xoff)) as net:
        flows = net.run(Flow("h1", "r", count=frames), Flow("h2", "r", count=frames))
        port = net.port("s1", "h1")
        pauses = net.fabric.pfc(port, 3)["xoff_sent"]
        most = net.fabric.group(port, 3).most_cells
    run.figure("most cells of h1's frames", most)
    run.claim("lost", flows.lost, equals=0)
    run.claim("XOFF sent to h1", pauses, at_least=1)
