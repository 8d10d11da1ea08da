"""Tries the topology new-thing."""

from typing import Annotated

from testbed.lab import Between, Run, experiment


@experiment(timeout="60s", files=["new_thing.py"])
def try_new_thing(run: Run, n: Annotated[int, Between(1, 8)] = 2) -> None:
    """All hosts send to the one behind the cable, and nothing is lost."""
    from new_thing import NewThing

    from testbed.net.network import network
    from testbed.net.traffic import Flow, Flows

    with network(NewThing(n=n), autoStaticArp=True) as net:
        *senders, target = net.hosts
        with run.measuring(), Flows([Flow(sender, target, count=200) for sender in senders]) as flows:
            flows.wait()
        run.claim("lost", sum(report.lost for report in flows.reports), equals=0)
        run.claim("hosts that sent", len(senders), equals=n)
