"""Networks of switches that were read from config_db.json files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import MTU, Cable
from testbed.net.fabric.port import Port
from testbed.subjects.sonic.headroom import egress_pools, ingress_pools
from testbed.subjects.sonic.lab.configuration import Configuration
from testbed.subjects.sonic.lab.places import Place, by_name, cables_between, free_places
from testbed.subjects.sonic.lab.settings import Switch, SwitchError, SwitchPort, node_name
from testbed.units import Length


class SonicTopo(LosslessTopo):
    """Switches with the cables that their DEVICE_NEIGHBOR tables name, and a host h1, h2, ... on each other port.

    `hosts` limits the hosts of each switch; other ports are left out. `places` has instead the port of each host in
    their order, by the hostname of its switch: [("leaf1", "Ethernet4"), ...]. `mtu` is that of all links.

    `names` has the SONiC name of each port by that of the lab, as {"s1-eth1": "Ethernet0"}, and `nodes` the lab's name
    of each switch by its hostname. `at` has the port of the switch at which a host is: {"h1": ("s1", "Ethernet0")}.
    """

    def __init__(
        self,
        *switches: Switch,
        hosts: int | None = None,
        places: Sequence[Place] | None = None,
        mtu: int = MTU,
        **options: Any,
    ) -> None:
        if not switches:
            raise SwitchError("no switch; SonicTopo(Switch.from_config_db(...)) has one")
        by_name(switches)
        self.switches_read = switches
        self.names: dict[str, str] = {}
        self.nodes_by_hostname: dict[str, str] = {}
        self.at: dict[str, tuple[str, str]] = {}
        self.pools: dict[str, list[str]] = {}
        scale = max((switch.scale for switch in switches), key=lambda one: one.k)
        given = {"scale": scale, "mismatch": "warn"} | options
        super().__init__(switches=switches, hosts=hosts, places=places, mtu=mtu, **given)

    def build(
        self,
        switches: Sequence[Switch],
        hosts: int | None = None,
        places: Sequence[Place] | None = None,
        mtu: int = MTU,
    ) -> None:
        nodes = {switch.name: node_name(switch.name, number) for number, switch in enumerate(switches, 1)}
        self.nodes_by_hostname = nodes
        cables = cables_between(switches)
        if places is None:
            free = free_places(switches)
            places = [place for switch in switches for place in [one for one in free if one[0] == switch.name][:hosts]]
        for switch in switches:
            present = [port.name for ends in cables for one, port in ends if one is switch]
            present += [port for name, port in places if name == switch.name]
            self.addSwitch(nodes[switch.name], buffer=switch.buffer_of(present))
            self.nodeInfo(nodes[switch.name])["configuration"] = Configuration(switch.tables)
            egress = egress_pools(switch.tables) if switch.buffer.egress_pools else {}
            self.pools[nodes[switch.name]] = [*ingress_pools(switch.tables), *egress]
            for port in switch.ports.values():
                self.names[f"{nodes[switch.name]}-eth{port.number}"] = port.name
        for (one, port), (other, far) in cables:
            self.addLink(
                nodes[one.name], nodes[other.name], port.number, far.number,
                cable=_cable(port, far, mtu), settings1=self._settings(port), settings2=self._settings(far),
            )  # fmt: skip
        for number, (name, place) in enumerate(places, 1):
            self._host(f"h{number}", nodes[name], by_name(switches)[name].ports[place], mtu)

    def _host(self, name: str, node: str, port: SwitchPort, mtu: int) -> None:
        self.at[name] = node, port.name
        self.addLink(
            self.addHost(name, port=host_port(port.settings)), node, None, port.number,
            cable=_cable(port, port, mtu), settings2=self._settings(port),
        )  # fmt: skip

    def _settings(self, port: SwitchPort) -> Port:
        """The settings of a port with the lab's times, for a network in lab time as for any other."""
        return port.settings.in_lab(self.scale)


def host_port(settings: Port) -> Port:
    """Return the port of a host at such a port: the same priorities, without all that only a switch does."""
    return Port(replace(settings.pfc, watchdog=None), settings.priorities)


def _cable(one: SwitchPort, other: SwitchPort, mtu: int) -> Cable:
    rate = min(one.rate, other.rate)
    length: Length = max(one.length, other.length)
    return Cable(rate, length, mtu=mtu, llr=one.llr if one.llr and other.llr else None)
