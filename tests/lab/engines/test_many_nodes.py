"""A network of 512 hosts starts, is healthy and ends; one that has too many ports is refused before it is built."""

import time
from itertools import combinations

from testbed.lab import Run, experiment
from testbed.lab.job.job import Limits

MARKS = {"test_many_hosts_start_and_end": [("long",)]}
# They take 2.0 GB; that a job has 3.4 GB would hide it if a node took more.
CASES = {"test_many_hosts_start_and_end": [{"hosts": "512", "limits": Limits(memory_mb=2500)}]}


@experiment(timeout="300s")
def test_many_hosts_start_and_end(run: Run, hosts: int = 64) -> None:
    """Leaves of 16 hosts and two spines; a ping crosses them."""
    from testbed.net import traffic
    from testbed.net.build.topo import LosslessTopo
    from xoff import network

    class Leaves(LosslessTopo):
        def build(self) -> None:
            spines = [self.addSwitch(f"s{number + 1}") for number in range(2)]
            for number in range(hosts):
                leaf = f"l{number // 16 + 1}"
                if not number % 16:
                    self.addSwitch(leaf)
                    for spine in spines:
                        self.addLink(spine, leaf)
                self.addLink(self.addHost(f"h{number + 1}"), leaf)

    with network(Leaves()) as net, run.measuring():
        time.sleep(1.5)
        run.claim("a ping across leaves", traffic.ping(net["h1"], net[f"h{hosts}"]) is not None, equals=True)
        run.claim("ports", len(net.fabric.ports), equals=2 * (hosts + hosts // 8))


@experiment(timeout="20s")
def test_too_many_ports_are_refused_at_once(run: Run) -> None:
    """Each of 46 switches has a cable to each other: nothing of them is laid."""
    from testbed.errors import XoffError
    from testbed.net.build.topo import LosslessTopo
    from xoff import network

    class Mesh(LosslessTopo):
        def build(self) -> None:
            for one, other in combinations([self.addSwitch(f"s{number + 1}") for number in range(46)], 2):
                self.addLink(one, other)

    refused = ""
    try:
        with network(Mesh()):
            pass
    except XoffError as error:
        refused = str(error)
    run.claim("why", refused, equals="a network has at most 2048 lossless ports; this one needs 2070")
    run.claim("it took no second of the lab", run.lab_ns < 10**9, equals=True)


@experiment(timeout="60s")
def test_switches_with_many_ports_start(run: Run) -> None:
    """Switches with 24 and 25 ports need more open files for their ports than for themselves."""
    from xoff import LeafSpine, network

    with network(LeafSpine(24, 24, 1)) as net:
        run.claim("ports", len(net.fabric.ports), equals=2 * (24 * 24 + 24))
