"""Runs of known work, for the forecast of what runs take."""

import time

from testbed.lab import Run, experiment

FRAMES = {"udp": 8000, "roce": 5000}


@experiment(timeout="300s")
def incast(run: Run, transport: str = "udp", senders: int = 4) -> None:
    """Flows from several hosts to one, which are stopped by pauses."""
    from testbed.net import traffic
    from testbed.units import Size
    from xoff import Incast, network

    frames = FRAMES[transport]
    with network(Incast(senders)):
        flows = [
            traffic.Flow(f"h{number + 1}", "r", count=frames)
            if transport == "udp"
            else traffic.Flow(f"h{number + 1}", "r", transport="roce", size=Size.from_bytes(1024 * frames))
            for number in range(senders)
        ]
        with run.measuring(), traffic.Flows(flows) as running:  # in a measured part nothing else is told of the flows
            running.wait()
    run.claim("lost", running.lost, equals=0)


@experiment(timeout="60s")
def idle(run: Run, hosts: int = 64) -> None:
    """Many hosts that do nothing."""
    from testbed.net.build.topo import LosslessTopo
    from xoff import network

    class Switch(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            for number in range(hosts):
                self.addLink(self.addHost(f"h{number + 1}"), "s1")

    with network(Switch()) as net:
        time.sleep(1)
    run.claim("hosts", len(net.hosts), equals=hosts)
