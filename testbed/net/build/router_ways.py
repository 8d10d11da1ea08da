"""Equal ways of routers: routes with several neighbours, which Linux chooses among by a hash of each flow.

The routes come from a topology's cables and addresses, or are the user's. Which fields are hashed, and the seed, are
sysctls. Linux knows no other rule that fits: it does not spray, and its resilient groups go on using a way whose
carrier is gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from pathlib import Path
from types import MappingProxyType
from typing import Any

from testbed.errors import UsageError, warn
from testbed.net.fabric.routes import has_equal_routes
from testbed.switch.ways.network import Switch, Way, seed_in_force
from testbed.switch.ways.polarisation import polarisation
from testbed.switch.ways.settings import By, HashField, Ways

Routes = Mapping[str, "str | Sequence[str]"]
"""The neighbours by which a router reaches networks: {"10.2.0.0/16": ["10.0.1.2", "10.0.2.2"]}."""
_SEED = Path("/proc/sys/net/ipv4/fib_multipath_hash_seed")
"""The file of a kernel whose seed can be set, 6.11 or newer."""
_BITS = {
    HashField.SOURCE: 0x1, HashField.DESTINATION: 0x2, HashField.PROTOCOL: 0x4, HashField.FLOW_LABEL: 0x8,
    HashField.SOURCE_PORT: 0x10, HashField.DESTINATION_PORT: 0x20,
}  # fmt: skip
"""The bits of `fib_multipath_hash_fields`; those of a packet inside of another one are 6 places higher."""
_INSIDE = 6
_BY_FIELDS = 3
"""The policy that hashes the fields that are named."""


def why_not(settings: Ways) -> str:
    """Return the reason why a router cannot choose by these settings, or an empty text."""
    if settings.by is not By.HASH:
        return f"by={str(settings.by)!r} is not among them: Linux hashes each flow ('hash')"
    if unknown := [name for one, name in _NAMES.items() if one in settings.mask]:
        return f"Linux does not hash the {unknown[0]}; leave it out"
    return ""


_NAMES = {
    HashField.QUEUE_PAIR: "queue pair", HashField.SOURCE_MAC: "source MAC", HashField.DESTINATION_MAC: "destination MAC"
}  # fmt: skip


def settings_of_kernel(settings: Ways, seed: int, has_seed: Callable[[], bool] = _SEED.exists) -> list[str]:
    """Return the commands that make a router hash these fields with this seed."""
    bits = sum(bit for one, bit in _BITS.items() if one in settings.mask)
    if HashField.INNER in settings.mask:
        bits <<= _INSIDE
    commands = []
    for family in ("ipv4", "ipv6"):
        commands += [
            f"sysctl -qw net.{family}.fib_multipath_hash_policy={_BY_FIELDS}",
            f"sysctl -qw net.{family}.fib_multipath_hash_fields={bits}",
            f"sysctl -qw net.{family}.conf.all.ignore_routes_with_linkdown=1",
        ]
    if has_seed():
        commands.append(f"sysctl -qw net.ipv4.fib_multipath_hash_seed={seed or 1}")  # 0: the kernel draws one
    return commands


def settings_for_daemons(ports: Iterable[str]) -> list[str]:
    """Return the commands by which ports have link-local addresses at once, which routing daemons speak by."""
    settings = ("disable_ipv6=0", "accept_dad=0", "addr_gen_mode=0")
    return [f"sysctl -qw net.ipv6.conf.{port}.{setting}" for port in ports for setting in settings]


def in_force(params: Mapping[str, Any]) -> Ways | None:
    """Return the settings by which a router chooses among its routes' neighbours, or None if there is no choice.

    A router hashes, whatever rule a topology's switches have.
    """
    settings: Ways | None = params.get("ways")
    if not has_equal_routes(params):
        return None
    if settings is None:
        return Ways()
    return settings if not why_not(settings) else Ways(seed=settings.seed, weights=settings.weights)


def route_command(
    destination: str,
    neighbours: str | Sequence[str],
    settings: Ways | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the command for a route by one neighbour or by several.

    `names` has the nodes of addresses, for weights.
    """
    chosen = [neighbours] if isinstance(neighbours, str) else list(neighbours)
    if not chosen:
        raise UsageError(f"the route to {destination} has no neighbour; name one, or leave the route out")
    program = "ip -6" if ":" in destination else "ip"
    if len(chosen) == 1:
        return f"{program} route replace {destination} via {chosen[0]}"
    weights = {} if settings is None else settings.weights
    ways = [f"nexthop via {one} weight {weights.get(names.get(one, one), 1)}" for one in chosen]
    return f"{program} route replace {destination} {' '.join(ways)}"


def routes_of(topo: Any) -> dict[str, dict[str, list[str]]]:
    """Return for each router its routes to the networks of the others, by all ways that cost least.

    A network is that of a router's port which leads to no router; its address is in the link's `params1` or `params2`,
    `ip` of IPv4 and `ipv6` of IPv6.
    """
    found = _routes_of(topo, "ip")
    for router, routes in _routes_of(topo, "ipv6").items():
        found[router] |= routes
    return found


def _routes_of(topo: Any, family: str) -> dict[str, dict[str, list[str]]]:
    routers = {name for name in topo.nodes() if _is_router(topo.nodeInfo(name))}
    cables: dict[str, list[tuple[str, IPv4Interface | IPv6Interface, int]]] = {name: [] for name in routers}
    networks: dict[str, list[str]] = {name: [] for name in routers}
    for _, _, info in topo.links(sort=True, withInfo=True):
        ends = [(info[f"node{end}"], (info.get(f"params{end}") or {}).get(family)) for end in (1, 2)]
        for (one, own), (other, far) in (ends, ends[::-1]):
            if one not in routers or own is None:
                continue
            if other not in routers:
                networks[one].append(str(ip_interface(own).network))
            elif far is not None:
                cables[one].append((other, ip_interface(far), info.get("cost", 1)))
    found: dict[str, dict[str, list[str]]] = {name: {} for name in routers}
    for goal in routers:
        if not networks[goal]:
            continue
        distance = _distances(goal, cables)
        for router in sorted(routers - {goal}):
            neighbours = [
                str(address.ip)
                for other, address, cost in cables[router]
                if other in distance and distance[other] + cost == distance.get(router)
            ]
            if neighbours:
                found[router] |= {network: neighbours for network in networks[goal]}
    return found


def _distances(
    goal: str, cables: Mapping[str, Sequence[tuple[str, IPv4Interface | IPv6Interface, int]]]
) -> dict[str, int]:
    """Return what the way of each router to the goal costs. A cable costs the same in both directions."""
    distance, waiting = {goal: 0}, [(0, goal)]
    while waiting:
        so_far, router = heapq.heappop(waiting)
        if so_far > distance[router]:
            continue
        for other, _, cost in cables[router]:
            if so_far + cost < distance.get(other, so_far + cost + 1):
                distance[other] = so_far + cost
                heapq.heappush(waiting, (so_far + cost, other))
    return distance


def _is_router(info: Mapping[str, Any]) -> bool:
    return _forwards_packets(info.get("cls"))


def neighbours_of(router: Any) -> dict[str, str]:
    """Return the names of the nodes at the other ends of a router's cables by their addresses of both versions."""
    found = {end.IP(): end.node.name for end in _far_ends(router) if end.IP()}
    over_ipv6 = ((getattr(end, "ipv6", None), end.node.name) for end in _far_ends(router))
    return found | {given.partition("/")[0]: name for given, name in over_ipv6 if given}


def _far_ends(router: Any) -> list[Any]:
    ends = [(one.link.intf1, one.link.intf2) for one in router.intfs.values() if one.link]
    return [other if one.node is router else one for one, other in ends]


def warn_of_polarisation(nodes: Iterable[Any], run_seed: int, has_seed: Callable[[], bool] = _SEED.exists) -> None:
    """Warn if routers choose by the hash by which others before them have chosen.

    Linux mixes a seed into its hash, which each network namespace has. A kernel before 6.11 has one key instead, which
    it draws at its first hash, for all namespaces: there all routers that hash the same fields hash alike.
    """
    routers = {node.name: node for node in nodes if _forwards_packets(node) and node.params.get("routes")}
    if not any(has_equal_routes(node.params) for node in routers.values()):
        return
    described: dict[str, Switch] = {}
    entries = []
    for name, node in routers.items():
        settings, neighbours = in_force(node.params), neighbours_of(node)
        weights = settings.weights if settings is not None else {}
        ways = {
            network: tuple(
                Way(f"{name} via {one}", neighbours.get(one, one), weights.get(neighbours.get(one, one), 1))
                for one in ([several] if isinstance(several, str) else several)
            )
            for network, several in node.params["routes"].items()
        }
        seed = seed_in_force(settings, run_seed, name) if has_seed() else 0
        described[name] = Switch(settings, seed, ways, by_range=True)
        if not all(_forwards_packets(end.node) for end in _far_ends(node)):
            entries.append(name)
    if found := polarisation(described, entries):
        warn(str(found) if has_seed() else f"{found}, with --engine um: this kernel has one seed for all routers")


def _forwards_packets(node: Any) -> bool:
    return bool(getattr(node, "forwards", False)) and not getattr(node, "bridges", False)
