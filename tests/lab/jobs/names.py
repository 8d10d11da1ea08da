"""Options of topologies and names in a running network, right and wrong."""

from collections.abc import Callable, Mapping
from typing import Any

from testbed.lab import Run, experiment


def _own() -> Any:
    from testbed.net.topo import LosslessTopo

    class Own(LosslessTopo):
        """Two hosts and a switch, with options for each."""

        def build(
            self,
            link: Mapping[str, Any] | None = None,
            switch: Mapping[str, Any] | None = None,
            host: Mapping[str, Any] | None = None,
        ) -> None:
            self.addSwitch("s1", **(switch or {}))
            for name in ("h1", "h2"):
                self.addLink(self.addHost(name, **(host or {})), "s1", **(link or {}))

    return Own


@experiment
def mistakes(run: Run) -> None:
    """What is said of each mistake."""
    from testbed.net.network import network

    own = _own()
    said = {
        "link": _said(lambda: own(link={"cabel": 1})),
        "settings": _said(lambda: own(link={"setings2": 1})),
        "switch": _said(lambda: own(switch={"bufer": 1})),
        "host": _said(lambda: own(host={"prot": 1})),
        "topology": _said(lambda: own(scael=1)),
        "mininet": _said(lambda: own(link={"jitter": "1ms"})),
    }
    with network(own()) as net:
        said["running node"] = _said(lambda: net["leaf"])
        said["running port"] = _said(lambda: net.fabric.port("s1-eth9"))
        said["priority"] = _said(lambda: net.fabric.pfc("s1-eth1", 9))
    run.figure("said", said)


@experiment
def cable(run: Run) -> None:
    """Mininet's words, on a scale of 1000: about a tenth is lost, and the rest is late."""
    from testbed.net.network import network
    from testbed.net.traffic import Flow, Flows

    with network(_own()(link={"bw": 10_000, "delay": "5us", "loss": 10}), autoStaticArp=True) as net:
        run.figure("cable", str(net.fabric.port("h1-eth0").cable))
        with Flows([Flow("h1", "h2", rate="2Mb/s", count=200)]) as flows:
            flows.wait()
        report = flows.reports[0]
        run.claim("lost on two cables", report.lost, at_least=15, at_most=70)
        run.claim("longest way in ns", report.worst_delay_ns, at_least=10_000_000)


def _said(call: Callable[[], object]) -> str:
    from testbed.errors import UsageError

    try:
        call()
    except UsageError as error:
        return str(error)
    return "nothing"
