"""Ports that stood still: for how long flow control stopped each, and over how many cables in a row that went.

PFC stops a port's priority by pauses, credits by not being there. Both are the lab's own readings: what agents say of
pauses, and what the kernel's gates say of frames that had the line and no credits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError
from testbed.units import Duration

if TYPE_CHECKING:
    from testbed.net.build.network import Network
    from testbed.net.traffic import Flow


_ANY_PORT = 50_000


def stood_still(net: Network, priority: int) -> dict[str, Duration]:
    """Return the time for which a priority of each port stood still, by the port's name: paused, or without credits."""
    found: dict[str, Duration] = {}
    for node in {port.node.name for port in net.fabric.ports.values()}:
        for name, port in net.fabric.snapshot(node)["ports"].items():
            found[name] = Duration.nearest_ns(port["priorities"][priority]["paused_ns"])
    if net.fabric.core.cabling.credits is not None:
        for name, waited_ns in _without_credits(net, priority):
            found[name] = found.get(name, Duration("0s")) + Duration.nearest_ns(waited_ns)
    return found


def _without_credits(net: Network, vc: int) -> Iterable[tuple[str, Any]]:
    from testbed.net.fabric.link.credits import shared_vcs

    for port in net.fabric.ports.values():
        if vc in shared_vcs(net.fabric.core.ports, port):
            yield port.name, net.fabric.credits(port.name).vcs[vc].stalled_ns


def hops(net: Network, stopped: Collection[str], congested: str) -> int:
    """Return the number of cables in a row that a stop went back from the node `congested`; 0 if none leads to it.

    `stopped` are the ports that stood still. A cable counts if its port sends to the node, or to one from which a
    counted cable comes. What stops in a circle counts once.
    """
    into: dict[str, set[str]] = {}
    for name in stopped:
        port = net.fabric.port(name)
        into.setdefault(net.fabric.far_end(port).node.name, set()).add(port.node.name)
    seen, here, count = {congested}, {congested}, 0
    while here := set().union(*(into.get(node, set()) for node in here)) - seen:
        seen |= here
        count += 1
    return count


def longest_on_the_way(net: Network, flow: Flow, times: Mapping[str, Duration]) -> Duration:
    """Return the longest time for which a port on the way of a UDP flow stood still: its head-of-line blocking.

    Where switches choose among equal ways, the flow needs a source port.
    """
    port = flow.source_port
    path = net.path(flow.source, flow.target, transport="udp", source_port=_ANY_PORT if port is None else port)
    if port is None and any(len(hop.ways) > 1 for hop in path.hops):
        raise UsageError(f"the way of {flow.source} to {flow.target} depends on the source port; give the flow one")
    return max(times.get(name, Duration("0s")) for name in path.ports)
