"""Routers with routing daemons over several kernels."""

from typing import Annotated

from xoff import Bgp, Bird, Duration, Frr, LosslessTopo, OneOf, Run, experiment, network, ping

UPLINK = "r2-eth2"


class Around(LosslessTopo):
    """Four routers in a ring, with a host each."""

    partition = (["r1", "r2"], ["r3", "r4"])

    def build(self) -> None:
        for number in range(1, 5):
            self.addRouter(f"r{number}", ip=None)
            host = self.addHost(f"h{number}", ip=f"10.{number}.0.2/24", defaultRoute=f"via 10.{number}.0.1")
            self.addLink(host, f"r{number}", params2={"ip": f"10.{number}.0.1/24"})
        for number in range(1, 5):
            self.addLink(f"r{number}", f"r{number % 4 + 1}", delay="1ms")


@experiment(debs=["frr", "bird2"], timeout="120s", partitions=2)
def found(run: Run, software: Annotated[str, OneOf("frr", "bird")] = "frr") -> None:
    """Daemons of both parts find routes by cables between them, lose one, and are asked."""
    chosen = Frr(Bgp()) if software == "frr" else Bird(Bgp())
    for case in ("first", "second"):
        with network(Around(scale=1, rate="100Mb/s", routing=chosen), case=case) as net:
            run.figure(f"{case}: until all routes", net.converged("30s"))
            run.claim(f"{case}: ping", ping(net["h1"], net["h3"]).ns, at_least=2_000_000)
            ways = {name: sorted(net.routing.routes(name)["10.4.0.0/24"]) for name in ("r2", "r3")}
            run.claim(f"{case}: ways to h4", ways, equals={"r2": ["r2-eth1", "r2-eth2"], "r3": ["r3-eth2"]})
            told = net["r3"].vtysh("show bgp summary") if software == "frr" else net["r3"].birdc("show protocols")
            run.claim(f"{case}: r3 speaks BGP", "r3-eth1" in told or "bgp" in told.lower(), equals=True)
            net.fabric.cabling.pull(UPLINK)
            run.figure(f"{case}: a cut: until the last route", net.converged("30s"))
            ways = {name: sorted(net.routing.routes(name)["10.3.0.0/24"]) for name in ("r1", "r2")}
            run.claim(f"{case}: a cut: ways to h3", ways, equals={"r1": ["r1-eth2"], "r2": ["r2-eth1"]})
            run.figure(f"{case}: quiet", net.converged("30s", quiet="1s") < Duration("1ms"))
            changes = net.routing.changes()
            run.figure(f"{case}: changes", [(one.router, one.route, one.ports) for one in changes])
            run.claim(f"{case}: changed", sorted({one.router for one in changes}), equals=["r1", "r2", "r3", "r4"])


@experiment(debs=["frr"], timeout="60s", partitions=2)
def dies(run: Run) -> None:
    """A daemon of the other part that dies."""
    with network(Around(scale=1, rate="100Mb/s", routing=Frr(Bgp()))) as net:
        net.converged("30s")
        net["r3"].cmd("kill -9 $(cat /run/frr/r3/bgpd.pid)")
        net.sleep("10ms")
        net.converged("5s")
