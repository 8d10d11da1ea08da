"""Tries the topology new-thing."""

from typing import Annotated

from new_thing import NewThing

from xoff import Between, Flow, Run, experiment, network


@experiment(timeout="60s", files=["new_thing.py"])
def try_new_thing(run: Run, n: Annotated[int, Between(1, 8)] = 2) -> None:
    """All hosts send to the one behind the cable, and nothing is lost."""
    with network(NewThing(n=n)) as net:
        flows = net.run(*(Flow(f"h{number}", "r", count=200) for number in range(1, n + 1)))
    run.claim("received", flows.received, equals=200 * n)
    run.claim("lost", flows.lost, equals=0)
