"""Routing daemons of others in routers: FRR and BIRD speak to each other, are asked, and say what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

WRONG = "hostname r1\nrouter bgp 65001\n no bgp ebgp-requires-policy\n bgp wrong thing\n"


def _pair(first: Any, second: Any) -> Any:
    from xoff import LosslessTopo

    class Pair(LosslessTopo):
        def build(self) -> None:
            for number, software in enumerate((first, second), 1):
                self.addRouter(f"r{number}", ip=None, routing=software)
                host = self.addHost(f"h{number}", ip=f"10.{number}.0.2/24", defaultRoute=f"via 10.{number}.0.1")
                self.addLink(host, f"r{number}", params2={"ip": f"10.{number}.0.1/24"})
            self.addLink("r1", "r2", delay="1us")

    return Pair(scale=1, rate="100Mb/s")


@experiment(debs=["frr", "bird2"], timeout="60s")
def test_frr_and_bird_find_routes_are_asked_and_say_what_is_wrong(run: Run) -> None:
    from xoff import Bgp, Bird, Frr, XoffError, network, ping

    def message(call: Any) -> str:
        try:
            call()
        except XoffError as error:
            return str(error)
        return "no error"

    begin = len(list(Path("/proc").glob("[0-9]*")))
    died = ""
    try:
        with network(_pair(Frr(Bgp()), Bird(Bgp()))) as net:
            net.converged("20s")
            run.claim("r1's route", sorted(net.routing.routes("r1")["10.2.0.0/24"]), equals=["r1-eth1"])
            run.claim("ping", ping(net["h1"], net["h2"]).ns, at_least=1)
            summary = json.loads(net["r1"].vtysh("show bgp summary json"))
            run.claim("r1's neighbours", list(summary["ipv4Unicast"]["peers"]), equals=["r1-eth1"])
            run.claim("r2 has r1's network", "10.1.0.0/24" in net["r2"].birdc("show route"), equals=True)
            run.claim("changes of r2's routes", len(net.routing.changes("r2")), at_least=1)
            for name, call, words in (
                ("vtysh", lambda: net["r1"].vtysh("show nonsense"), "Unknown command"),
                ("birdc", lambda: net["r2"].birdc("show nonsense"), "router r2: birdc: No such command"),
                ("other program", lambda: net["r2"].vtysh("show ip route"), "no vtysh for Bird's daemons"),
                ("no daemon", lambda: net["r1"].daemons.kill("ospfd"), "it has zebra, bgpd"),
            ):
                said = message(call)
                run.claim(f"{name}: {said}", words in said, equals=True)
            net.fabric.cabling.pull("r1-eth1")
            net.converged("20s")
            run.claim("without the cable", net.routing.routes("r1"), equals={})
            net["r1"].cmd("kill -9 $(cat /run/frr/r1/bgpd.pid)")
    except XoffError as error:
        died = str(error)
    run.claim("who died", died.partition(":\n")[0], equals="router r1: bgpd was killed by signal 9")
    left = [str(path) for place in ("/run/frr", "/etc/frr", "/run/xoff-bird") for path in Path(place).glob("r[12]")]
    run.claim("what is left", (left, len(list(Path("/proc").glob("[0-9]*"))) - begin), equals=([], 0))

    def start(first: Any, second: Any) -> None:
        with network(_pair(first, second)):
            pass

    said = message(lambda: start(Frr(config=WRONG), Bird(Bgp())))
    run.claim(said, said, equals="router r1: its configuration: line 4: % Unknown command: bgp wrong thing")
    said = message(lambda: start(Frr(Bgp()), Bird(config="router id 1.1.1.1;\nprotocol nonsense {}\n")))
    run.claim(said, said.startswith("router r2: its configuration: line 2:"), equals=True)
    said = message(lambda: start(Frr(Bgp(asn=7)), Bird(Bgp(asn=7))))
    run.claim(said, "both of AS 7" in said, equals=True)


def _own(number: int, port: str, remote: str = "external", other: str = "") -> Any:
    from xoff import Frr

    return Frr(
        config=f"""{other}router bgp 6500{number}
 no bgp ebgp-requires-policy
 bgp router-id 1.1.1.{number}
 neighbor {port} interface remote-as {remote}
 address-family ipv4 unicast
  network 10.{number}.0.0/24
 exit-address-family
"""
    )


@experiment(debs=["frr"], timeout="120s")
def test_routes_of_ones_own_configuration_are_waited_for_until_its_sessions_were_up(run: Run) -> None:
    from xoff import XoffError, network

    def message(first: Any) -> str:
        try:
            with network(_pair(first, _own(2, "r2-eth1"))) as net:
                net.converged("12s", quiet="3s")
        except XoffError as error:
            return str(error)
        return "no error"

    with network(_pair(_own(1, "r1-eth1"), _own(2, "r2-eth1"))) as net:
        took = net.converged("30s", quiet="3s")
        run.claim("routes came", took.ns, at_least=1)
        run.claim("r1's route", sorted(net.routing.routes("r1")["10.2.0.0/24"]), equals=["r1-eth1"])
        net.fabric.cabling.pull("r1-eth1")
        net.converged("30s", quiet="3s")  # a session that was up is not waited for again
        run.claim("without the cable", net.routing.routes("r1"), equals={})
    said = message(_own(1, "r1-eth2"))
    run.claim(said, said, equals=(
        "router r1: its configuration names the interface r1-eth2, which is not there; its ports are r1-eth0 to h1, "
        "r1-eth1 to r2 (those of routers and hosts count from 0)"
    ))  # fmt: skip
    said = message(_own(1, "r1-eth1", "64999"))
    run.claim(said, said.startswith("net.converged: not all sessions of BGP were up in time: r1 with r1-eth1 is "),
              equals=True)  # fmt: skip


def _by_itself(number: int, isis: str = "", ospf: str = "") -> Any:
    """Return a configuration of OSPF and IS-IS, with more lines for the port to the other router."""
    from xoff import Frr

    return Frr(
        config=f"""interface r{number}-eth0
 ip ospf area 0
 ip router isis 1
interface r{number}-eth1
 ip address 10.9.0.{number}/30
 ip ospf area 0
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip router isis 1
 isis network point-to-point
 isis hello-interval 1
{isis}router isis 1
 net 49.0001.0000.0000.000{number}.00
 is-type level-2-only
router ospf
{ospf}"""
    )


@experiment(debs=["frr"], timeout="200s")
def test_neighbours_of_ospf_and_isis_of_ones_own_configuration_are_waited_for(run: Run) -> None:
    from xoff import XoffError, network

    def found(second: Any, within: str) -> tuple[str, Mapping[str, Any]]:
        with network(_pair(_by_itself(1), second)) as net:
            try:
                net.converged(within, quiet="10s")
            except XoffError as error:
                return str(error), {}
            return "", net.routing.routes("r1")

    said, routes = found(_by_itself(2), "60s")
    run.claim("both came", (said, sorted(routes.get("10.2.0.0/24", ()))), equals=("", ["r1-eth1"]))
    said, _ = found(_by_itself(2, isis=" isis passive\n"), "60s")
    run.claim("a passive end of IS-IS is not waited for", said, equals="")
    said, _ = found(_by_itself(2, ospf=" passive-interface r2-eth1\n"), "60s")
    run.claim("nor one of OSPF", said, equals="")
    late = "net.converged: not all sessions of IS-IS were up in time: r1 with r1-eth1 is "
    said, _ = found(_by_itself(2, isis=" isis password clear secret\n"), "5s")
    run.claim(said, said.startswith(late), equals=True)


@experiment
def without_the_package(run: Run) -> None:
    """A router is to run FRR, and the lab has none."""
    from xoff import Bgp, Frr, network

    with network(_pair(Frr(Bgp()), Frr(Bgp()))):
        run.claim("it starts", 1, equals=0)


def test_a_lab_without_the_package_says_what_to_write(run: Runner) -> None:
    assert '@experiment(debs=["frr"])' in run(without_the_package).reason
