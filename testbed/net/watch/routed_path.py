"""The way of a flow in a network with routers that runs: the kernels of hosts and routers are asked for each hop.

Linux's hash is not described here. `ip route get` with a flow's ports goes through the function that forwards its
packets, so what it says is what happens. Switches between are the reference's, as everywhere.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from testbed.errors import UsageError
from testbed.linux.process import kernel
from testbed.net.fabric.ports import PortState, PortTable
from testbed.switch.ways.model import Fields
from testbed.switch.ways.network import Switch, Way
from testbed.switch.ways.path import FlowPath, Hop, path

_MOST_HOPS = 64
_ON_THE_CABLE = ("fe80:", "169.254.")
"""The beginnings of addresses that stand for whoever is at the other end, as daemons write them into routes."""
_PROTOCOLS = {6: "tcp", 17: "udp"}


def routed_path(
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
    while node.name != target and len(hops) < _MOST_HOPS:
        leaving, gateway, hop = _routed(ports, node, fields, came_by)
        first_port = first_port or ("" if leaving is None else leaving.name)
        if came_by:
            hops.append(hop)
        if leaving is None:
            break
        goal = ports.far_end(leaving).node if gateway.startswith(_ON_THE_CABLE) else by_address.get(gateway)
        if goal is None:
            hops.append(Hop(node.name, (), None, f"sends to {gateway}, which is no node of this network"))
            break
        far = ports.far_end(leaving)
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


def _routed(ports: PortTable, node: Any, fields: Fields, came_by: str) -> tuple[PortState | None, str, Hop]:
    """Return the port by which a host or router sends a flow on, the address of the next node, and the hop."""
    asked = ["route", "get", fields.destination, "from", fields.source]
    asked += ["iif", came_by] if came_by else []
    asked += ["ipproto", _PROTOCOLS[fields.protocol], "sport", str(fields.source_port)]
    asked += ["dport", str(fields.destination_port)]
    answer, why = _ip(node, asked)
    if not answer:
        return None, "", Hop(node.name, (), None, f"has no route to {fields.destination}: {why}")
    found = answer[0]
    if "encap" in found:
        return (
            None,
            "",
            Hop(node.name, (), None, f"puts the flow into a tunnel ({found['encap']}), which is not followed"),
        )
    gateway = str(found.get("gateway") or found.get("via", {}).get("host") or fields.destination)
    port = ports.port(found["dev"])
    ways = _ways(ports, node, fields.destination) or (Way(port.name, ports.far_end(port).node.name),)
    chosen = next((way for way in ways if way.port == port.name), ways[0])
    reason = "its only route" if len(ways) == 1 else f"what Linux's hash chooses among {len(ways)} equal routes"
    return port, gateway, Hop(node.name, ways, chosen, f"{chosen.port} to {chosen.neighbour}: {reason}")


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
        done = subprocess.run(["ip", "-j", *words], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout) if done.stdout.strip() else [], done.stderr.strip()
    except json.JSONDecodeError:
        raise UsageError(f"{node.name}: ip {' '.join(words)}: {done.stdout.strip()}") from None


def _mac_of(ports: PortTable, node: Any, address: str) -> bytes:
    return next((port.mac.octets for port in ports if port.node is node and port.intf.IP() == address), bytes(6))
