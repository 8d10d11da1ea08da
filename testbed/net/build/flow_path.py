"""The way of a flow, hop by hop: in a topology that nobody has built, or in a network that runs.

Both ask the reference of equal ways (`testbed.switch.ways`) with the addresses and names that Mininet gives.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Network
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.linux.process import kernel
from testbed.net.build import router_ways
from testbed.net.build.nodes import LosslessSwitch
from testbed.net.build.options import UNIQUE_LOCAL, ipv6_addresses
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.ports import PortState, PortTable, address_of, bridges
from testbed.net.fabric.routes import Graph
from testbed.roce.source_port import flow_label
from testbed.switch.ways.model import Fields
from testbed.switch.ways.network import Switch, Way
from testbed.switch.ways.path import FlowPath, Hop, path
from testbed.switch.ways.polarisation import Polarisation, polarisation
from testbed.switch.ways.settings import HashField

TRANSPORTS = {"roce": (17, 4791), "udp": (17, 20_000), "tcp": (6, 5201)}
"""The protocol of each transport, and the port that its first flow is sent to."""
_FIRST_QUEUE_PAIR, _FIRST_ROCE_PORT = 0x100, 0xC100
"""The first queue pair of a host, and the port that it sends from where a flow names none."""
_PORTS = 1 << 16
_NETWORK = 10 << 24
"""Mininet's addresses: 10.0.0.0/8."""


@dataclass(frozen=True)
class FlowNames:
    """The fields that tell a flow apart from others between the same hosts, as far as switches look."""

    transport: str = "roce"
    source_port: int | None = None
    """None: that of the first queue pair of a host, with RoCE."""
    destination_port: int | None = None
    """The destination port; with None it is that of the flow of this `number`."""
    queue_pair: int | None = None
    flow_label: int | None = None
    """The flow label over IPv6; with None it is that of RoCE between queue pairs of one number, else 0."""
    number: int = 0
    """The number of a flow of UDP or TCP among those that run together, from 0: each is sent to a port of its own."""
    ip_version: int = 4

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise UsageError(f"there is no transport {self.transport}; {nearest(self.transport, TRANSPORTS)}")
        if self.ip_version not in (4, 6):
            raise UsageError(f"ip_version is {self.ip_version!r}; 4 or 6 is expected")
        if self.flow_label and self.ip_version == 4:
            raise UsageError(f"flow_label is {self.flow_label}, and IPv4 has none; take ip_version=6, or leave it out")
        if self.queue_pair is not None and self.transport != "roce":
            raise UsageError(f"queue_pair is {self.queue_pair}, but {self.transport} has none; leave it out")
        if self.number and (self.transport == "roce" or self.destination_port is not None):
            told = (
                "all RoCE flows have one port, and queue_pair tells them apart"
                if self.transport == "roce"
                else ("destination_port has the port that it stands for")
            )
            raise UsageError(f"number is {self.number}, but {told}; leave one of them out")
        for name, most in (
            ("source_port", _PORTS),
            ("destination_port", _PORTS),
            ("queue_pair", 1 << 24),
            ("flow_label", 1 << 20),
            ("number", _PORTS - max(port for _, port in TRANSPORTS.values())),
        ):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value < most):
                raise UsageError(f"{name} is {value!r}; a whole number below {most} is expected")
        if self.source_port is None and self.transport != "roce":
            advice = "give one, such as 50000; Flow takes it as source_port=50000"
            raise UsageError(f"the kernel chooses the source port of {self.transport} flows; {advice}")

    def fields(self, source: tuple[str, bytes], target: tuple[str, bytes]) -> Fields:
        """Return the fields of the flow's frames between two hosts, of which each has an address and a MAC address."""
        protocol, port = TRANSPORTS[self.transport]
        pair = (self.queue_pair or _FIRST_QUEUE_PAIR) if self.transport == "roce" else 0
        own = _FIRST_ROCE_PORT if self.queue_pair is None else 0xC000 | self.queue_pair & 0x3FFF
        label = self.flow_label
        if label is None:
            label = flow_label(pair, pair) if self.ip_version == 6 else 0
        return Fields(
            source[0],
            target[0],
            protocol,
            own if self.source_port is None else self.source_port,
            port + self.number if self.destination_port is None else self.destination_port,
            label,
            pair,
            source[1],
            target[1],
        )


def in_topology(
    topo: Any, source: str, target: str, flow: FlowNames, seed: int = 1
) -> tuple[FlowPath, Polarisation | None]:
    """Return the way of a flow in the network that is built of a topology, and what is polarised there."""
    if not isinstance(topo, LosslessTopo):
        raise UsageError(f"{type(topo).__name__} has no lossless switches, whose choice is known; fat-tree,4 has some")
    addresses: dict[str, tuple[str, bytes]] = {}
    over_ipv6 = ipv6_addresses(topo, IPv6Network(UNIQUE_LOCAL)) if flow.ip_version == 6 else {}
    for number, name in enumerate(topo.hosts(), 1):
        info, packed = topo.nodeInfo(name), _NETWORK + number
        ip = str(info.get("ip", "")).partition("/")[0] or ".".join(map(str, packed.to_bytes(4)))
        mac = bytes.fromhex(str(info["mac"]).replace(":", "")) if info.get("mac") else number.to_bytes(6)
        if flow.ip_version == 6:
            ip = str(over_ipv6[name].ip) if name in over_ipv6 else ""
        addresses[name] = ip, mac
    hosts = {name: addresses[name] for name in addresses if not getattr(topo.nodeInfo(name).get("cls"), "forwards", 0)}
    _check(hosts, source, target)
    _require_addresses(hosts, source, target, flow.ip_version)
    graph = Graph.of_topo(topo)
    switches = graph.switches(lambda name: _ways_of(topo.nodeInfo(name)), seed)
    found = _path(graph, switches, hosts, (source, target), flow)
    _refuse_leaves(
        graph, {name for name in topo.nodes() if getattr(topo.nodeInfo(name).get("cls"), "steered", 0)}, found
    )
    return found, polarisation(switches, graph.entries())


def in_network(net: Any, source: str, target: str, flow: FlowNames) -> FlowPath:
    """Return the way of a flow in a network that runs, without the ways that switches have left."""
    core = net.fabric.core
    core.running_program()
    hosts = {
        host.name: (address_of(host, flow.ip_version) or "", bytes.fromhex(host.MAC().replace(":", "")))
        for host in net.hosts
        if host.name in core.ports.graph.neighbours and not getattr(host, "forwards", False)
    }
    _check(hosts, source, target)
    _require_addresses(hosts, source, target, flow.ip_version)
    graph, switches = core.ports.graph, core.ways.switches()
    routers = {node.name for node in net.hosts if getattr(node, "forwards", False)}
    if not routers:
        found = _path(graph, switches, hosts, (source, target), flow)
        _refuse_leaves(graph, {node.name for node in net.switches if getattr(node, "steered", False)}, found)
        return found
    by_address = {port.intf.IP(): port.node for port in core.ports if port.intf.IP()}
    by_address |= {port.intf.ipv6.partition("/")[0]: port.node for port in core.ports if port.intf.ipv6}
    fields = flow.fields(hosts[source], hosts[target])
    return _routed_path(core.ports, switches, (source, target), fields, by_address)


def _refuse_leaves(graph: Graph, leaves: set[str], found: FlowPath) -> None:
    """Refuse a way on which a leaf has a choice, which is Open vSwitch's."""
    for name in found.nodes:
        if name in leaves and found.target in graph.equal_ways(name):
            raise UsageError(
                f"{name} chooses among equal ways to {found.target} as its controller says; ask Open vSwitch in a "
                f"network that runs: net[{name!r}].vswitch.appctl('ofproto/trace', {name!r}, 'in_port=1,udp,...')"
            )


def _check(hosts: Iterable[str], source: str, target: str) -> None:
    for name in (source, target):
        if name not in hosts:
            raise UsageError(f"there is no host {name} in this network; {nearest(name, hosts)}")
    if source == target:
        raise UsageError(f"a flow from {source} to itself takes no way; name two hosts")


def _require_addresses(hosts: Mapping[str, tuple[str, bytes]], source: str, target: str, version: int) -> None:
    for name in (source, target):
        if version == 6 and not hosts[name][0]:
            raise UsageError(f"{name} has no IPv6 address; the topology's option ipv6=True gives hosts some")


def _ways_of(info: dict[str, Any]) -> Any:
    return info.get("ways") if info.get("cls") is LosslessSwitch else None


def _path(
    graph: Graph,
    switches: dict[str, Switch],
    hosts: dict[str, tuple[str, bytes]],
    ends: tuple[str, str],
    flow: FlowNames,
) -> FlowPath:
    source, target = ends
    first = graph.neighbours[source][0]
    found = path(switches, source, target, first, flow.fields(hosts[source], hosts[target]))
    if first[1] not in switches and first[1] != target:
        told = "what Linux chooses there is known in a network that runs, by net.path"
        raise UsageError(f"{source} is at the router {first[1]}; {told}")
    return found


_MOST_HOPS = 64
_ON_THE_CABLE = ("fe80:", "169.254.")
"""The beginnings of addresses that stand for whoever is at the other end, as daemons write them into routes."""
_PROTOCOLS = {6: "tcp", 17: "udp"}


def _routed_path(
    ports: PortTable,
    switches: Mapping[str, Switch],
    ends: tuple[str, str],
    fields: Fields,
    by_address: Mapping[str, Any],
) -> FlowPath:
    """Return the way of a flow; `by_address` has the nodes by the addresses of their ports."""
    source, target = ends
    hops: list[Hop] = []
    first_port, node, came_by = "", ports.node(source), ""
    tunnel: _Tunnel | None = None
    while node.name != target and len(hops) < _MOST_HOPS:
        leaving, gateway, hop, tunnel = _routed(ports, node, fields, came_by, tunnel)
        first_port = first_port or ("" if leaving is None else leaving.name)
        if came_by:
            hops.append(hop)
        if leaving is None:
            break
        far = ports.far_end(leaving)
        goal = by_address.get(gateway) if bridges(far.node) and not gateway.startswith(_ON_THE_CABLE) else far.node
        if goal is None:
            hops.append(Hop(node.name, (), None, f"sends to {gateway}, which is no node of this network"))
            break
        if far.node is not goal:
            macs = replace(fields, source_mac=leaving.mac.octets, destination_mac=_mac_of(ports, goal, gateway))
            between = path(switches, node.name, goal.name, (leaving.name, far.node.name), macs)
            hops += between.hops
            last = between.hops[-1].chosen if between.hops else None
            if last is None:
                break
            far = ports.far_end(ports.port(last.port))
        node, came_by = goal, far.name
    return FlowPath(source, target, fields, tuple(hops), first_port)


@dataclass(frozen=True)
class _Tunnel:
    """The outer header of a packet in SRv6: where it goes next, and the segments behind that."""

    destination: str
    segments: tuple[str, ...] = ()

    def at_next(self) -> _Tunnel:
        return _Tunnel(self.segments[0], self.segments[1:])


def _routed(
    ports: PortTable, node: Any, fields: Fields, came_by: str, tunnel: _Tunnel | None
) -> tuple[PortState | None, str, Hop, _Tunnel | None]:
    """Return the port by which a host or router sends a flow on, the address of the next node, the hop, and the tunnel
    in which the flow leaves.
    """
    notes: list[str] = []
    arrived_at = came_by
    for _ in range(_MOST_HOPS):
        destination = tunnel.destination if tunnel else fields.destination
        asked = _question(fields, destination, arrived_at, is_outer=tunnel is not None)
        answer, why = _ip(node, asked)
        if not answer:
            told = "; ".join([*notes, f"has no route to {destination}: {why}"])
            return None, "", Hop(node.name, (), None, told), None
        found, into = answer[0], None
        kind, action = found.get("encap"), str(found.get("action", ""))
        if kind is None:
            break
        if kind == "seg6" and str(found.get("mode", "")).startswith("encap") and found.get("segs") and not tunnel:
            tunnel = _Tunnel(found["segs"][0], tuple(found["segs"][1:]))
            notes.append(f"puts it into a tunnel by {', '.join(found['segs'])}")
            arrived_at = ""
        elif kind == "seg6local" and tunnel and action in ("End", "End.X") and tunnel.segments:
            notes.append(f"{action} at {destination}")
            tunnel, into = tunnel.at_next(), found.get("nh6")
        elif kind == "seg6local" and tunnel and action.startswith("End.DT"):
            notes.append(f"{action} at {destination} takes it out of the tunnel")
            tunnel, arrived_at = None, str(found["dev"])
        else:
            told = "; ".join(
                [*notes, f"puts the flow into a tunnel ({kind} {action}".rstrip() + "), which is not followed"]
            )
            return None, "", Hop(node.name, (), None, told), None
        if into:
            answer, why = _ip(node, ["route", "get", str(into)])
            if not answer:
                told = "; ".join([*notes, f"has no route to {into}: {why}"])
                return None, "", Hop(node.name, (), None, told), None
            found, destination = answer[0], str(into)
            break
    gateway = str(found.get("gateway") or found.get("via", {}).get("host") or destination)
    port = ports.port(found["dev"])
    ways = _ways(ports, node, destination) or (Way(port.name, ports.far_end(port).node.name),)
    settings = router_ways.in_force(node.params)
    if len(ways) > 1 and fields.flow_label and settings is not None and HashField.FLOW_LABEL in settings.mask:
        told = "; ".join([*notes, "hashes the flow label, and Linux tells no route of one"])
        return None, "", Hop(node.name, ways, None, told), None
    chosen = next((way for way in ways if way.port == port.name), ways[0])
    reason = "its only route" if len(ways) == 1 else f"what Linux's hash chooses among {len(ways)} equal routes"
    told = "; ".join([*notes, f"{chosen.port} to {chosen.neighbour}: {reason}"])
    return port, gateway, Hop(node.name, ways, chosen, told), tunnel


def _question(fields: Fields, destination: str, came_by: str, *, is_outer: bool) -> list[str]:
    """Return what `ip` is asked about a route: for the flow, or for the outer header of its tunnel."""
    asked = ["route", "get", destination]
    if is_outer:
        return asked
    asked += ["from", fields.source, *(["iif", came_by] if came_by else [])]
    asked += ["ipproto", _PROTOCOLS[fields.protocol], "sport", str(fields.source_port)]
    return [*asked, "dport", str(fields.destination_port)]


def _ways(ports: PortTable, node: Any, destination: str) -> tuple[Way, ...]:
    """Return the neighbours of a route with several."""
    routes, _ = _ip(node, ["route", "show", "match", destination])
    several = [route["nexthops"] for route in routes if route.get("nexthops")]
    if not several:
        return ()
    found = []
    for one in several[-1]:
        far = ports.far_end(ports.port(one["dev"])).node.name
        found.append(Way(one["dev"], far, int(one.get("weight", 1)), not {"linkdown", "dead"} & set(one["flags"])))
    return tuple(found)


def _ip(node: Any, words: list[str]) -> tuple[list[dict[str, Any]], str]:
    with kernel.in_network_of(node.pid):
        done = subprocess.run(
            ["ip", "-j", *(["-6"] if any(":" in one for one in words) else []), *words],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        return json.loads(done.stdout) if done.stdout.strip() else [], done.stderr.strip()
    except json.JSONDecodeError:
        raise UsageError(f"{node.name}: ip {' '.join(words)}: {done.stdout.strip()}") from None


def _mac_of(ports: PortTable, node: Any, address: str) -> bytes:
    own = [port for port in ports if port.node is node]
    return next(
        (p.mac.octets for p in own if address in (p.intf.IP(), (p.intf.ipv6 or "").partition("/")[0])), bytes(6)
    )
