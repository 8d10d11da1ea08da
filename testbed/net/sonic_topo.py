"""Networks of switches that were read from config_db.json files. Only the lab can import this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.net.cable import MTU, Cable
from testbed.net.port import Port
from testbed.net.sonic import Switch, SwitchError, SwitchPort, node_name
from testbed.net.topo import LosslessTopo
from testbed.sonic.division import egress_pools, ingress_pools
from testbed.units import Length


class SonicTopo(LosslessTopo):
    """Switches with the cables that their DEVICE_NEIGHBOR tables name, and a host h1, h2, ... on each other port.

    `hosts` limits the hosts of each switch; ports beyond are left out. `mtu` is that of all links.

    `names` has the SONiC name of each port by that
    of the lab, as {"s1-eth1": "Ethernet0"}, and `nodes` the lab's name of each switch by its hostname. `at` has the
    port of the switch at which a host is: {"h1": ("s1", "Ethernet0")}.
    """

    def __init__(self, *switches: Switch, hosts: int | None = None, mtu: int = MTU, **options: Any) -> None:
        if not switches:
            raise SwitchError("no switch; SonicTopo(Switch.from_config_db(...)) has one")
        names = [switch.name for switch in switches]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SwitchError(f"two files have the hostname {twice}; DEVICE_METADATA|localhost has to tell them apart")
        self.switches_read = switches
        self.names: dict[str, str] = {}
        self.nodes_by_hostname: dict[str, str] = {}
        self.at: dict[str, tuple[str, str]] = {}
        self.pools: dict[str, list[str]] = {}
        scale = max((switch.scale for switch in switches), key=lambda one: one.k)
        super().__init__(switches=switches, hosts=hosts, mtu=mtu, **{"scale": scale, "mismatch": "warn"} | options)

    def build(self, switches: Sequence[Switch], hosts: int | None = None, mtu: int = MTU) -> None:
        nodes = {switch.name: node_name(switch.name, number) for number, switch in enumerate(switches, 1)}
        self.nodes_by_hostname = nodes
        cables = self._cables(switches)
        cabled = {(switch, port.name) for ends in cables for switch, port in ends}
        free = {
            switch.name: [one for one in switch.ports.values() if one.up and (switch.name, one.name) not in cabled][
                :hosts
            ]
            for switch in switches
        }
        for switch in switches:
            present = [name for name in switch.ports if (switch.name, name) in cabled]
            present += [port.name for port in free[switch.name]]
            self.addSwitch(nodes[switch.name], buffer=switch.buffer_of(present))
            egress = egress_pools(switch.tables) if switch.buffer.egress_pools else {}
            self.pools[nodes[switch.name]] = [*ingress_pools(switch.tables), *egress]
            for port in switch.ports.values():
                self.names[f"{nodes[switch.name]}-eth{port.number}"] = port.name
        for (one, port), (other, far) in cables:
            self.addLink(
                nodes[one], nodes[other], port.number, far.number,
                cable=_cable(port, far, mtu), settings1=port.settings, settings2=far.settings,
            )  # fmt: skip
        hosts_of = [(nodes[switch.name], port) for switch in switches for port in free[switch.name]]
        for number, (node, port) in enumerate(hosts_of, 1):
            self._host(f"h{number}", node, port, mtu)

    @staticmethod
    def _cables(switches: Sequence[Switch]) -> list[tuple[tuple[str, SwitchPort], tuple[str, SwitchPort]]]:
        """Between the switches, each once: (switch, port) of both ends."""
        by_name = {switch.name: switch for switch in switches}
        found: list[tuple[tuple[str, SwitchPort], tuple[str, SwitchPort]]] = []
        cabled: set[tuple[str, str]] = set()
        for switch in switches:
            for port in switch.ports.values():
                if port.neighbour is None or (switch.name, port.name) in cabled or not port.up:
                    continue
                other = by_name.get(port.neighbour[0])
                if other is None:
                    continue
                far = other.ports.get(port.neighbour[1])
                if far is None or other is switch:
                    raise SwitchError(
                        f"{switch.name}: DEVICE_NEIGHBOR of {port.name} is {' '.join(port.neighbour)}, and there "
                        f"is no "
                        "such port of another switch"
                    )
                if (other.name, far.name) in cabled or not far.up:
                    continue
                cabled |= {(switch.name, port.name), (other.name, far.name)}
                found.append(((switch.name, port), (other.name, far)))
        return found

    def _host(self, name: str, node: str, port: SwitchPort, mtu: int) -> None:
        self.at[name] = node, port.name
        self.addLink(
            self.addHost(name, port=host_port(port.settings)), node, None, port.number,
            cable=_cable(port, port, mtu), settings2=port.settings,
        )  # fmt: skip


def host_port(settings: Port) -> Port:
    """The port of a host at such a port: the same priorities, and nothing of what only a switch does."""
    return Port(replace(settings.pfc, watchdog=None), settings.priorities)


def _cable(one: SwitchPort, other: SwitchPort, mtu: int) -> Cable:
    rate = min(one.rate, other.rate)
    length: Length = max(one.length, other.length)
    return Cable(rate, length, mtu=mtu)
