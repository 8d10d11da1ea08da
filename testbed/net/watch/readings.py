"""Counters and states of a running network as plain data, which JSON can show, in total or counted from a moment on.

Counters have the names of the agents (`switch/pfc/record.py`) and the port program (`linux/port_program`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from testbed.linux.netlink import qdiscs
from testbed.linux.netlink.messages import Socket
from testbed.linux.netlink.rdma import SOFT_ROCE
from testbed.linux.port_program import DROP_REASONS, WholePort
from testbed.linux.rdma_devices import counters
from testbed.net.fabric.fabric import Fabric, FabricError, PortState
from testbed.net.fabric.ports import rdma_of
from testbed.units import real_ns

Reading = dict[str, Any]
PRIORITIES = range(8)
_POOLS = ("guaranteed", "shared", "headroom")
_STATES = frozenset((
    "now_ns", "priority", "slice", "enabled", "paused_until_ns", "is_congested", "stormed", "used", "most", "size",
    "lossless", "xon_offset", "headroom", "limit", "cell_bytes", "waiting_bytes", "stopped", "controller", "sender",
    "receiver",
))  # fmt: skip
"""The names of values that are not counts, so that clearing leaves them as they are."""


def pfc(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each port the ignored frames, and for each priority its state and its pauses."""
    found = {}
    for node, ports in by_node(fabric, wanted):
        snapshot = fabric.snapshot(node)
        for port in ports:
            found[port.name] = {"now_ns": snapshot["now_ns"], **snapshot["ports"][port.name]}
    return found


def soft_roce(fabric: Fabric, port: str) -> dict[str, int]:
    """Return the counters of the Soft-RoCE device of a host's port, by the names of the kernel's drivers."""
    found = fabric.port(port)
    if rdma_of(found.node) != SOFT_ROCE:
        raise FabricError(f"{port}: {found.node.name} has no Soft-RoCE; make it with rdma=True")
    return counters(found.node.pid, port)


def buffers(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each switch its pool, and every group that is lossless or was used."""
    found = {}
    for node, ports in by_node(fabric, wanted):
        settings = fabric.buffers.get(node)
        if settings is None:
            continue
        pools = fabric.buffer(node)
        groups = {}
        for port in ports:
            number = port.node.ports[port.intf]
            for priority in PRIORITIES:
                group, counted = settings.group(number, priority), fabric.group(port.name, priority)
                dropped = dict(zip(DROP_REASONS, counted.dropped_frames, strict=True))
                if not (group.lossless or counted.admitted_frames or counted.trimmed_frames or any(dropped.values())):
                    continue
                limit = group.threshold.limit(pools.size[1] - pools.used[1])
                if settings.policy.pauses_ports and group.lossless:
                    limit = max(0, limit - group.headroom)
                groups[f"{port.name} {priority}"] = {
                    "lossless": group.lossless,
                    "xoff": counted.xoff,
                    "used": dict(zip(_POOLS, counted.used, strict=True)),
                    "most": dict(zip(_POOLS, counted.high_water, strict=True)),
                    "limit": limit,
                    "xon_offset": group.xon_offset,
                    "headroom": group.headroom,
                    "admitted_frames": counted.admitted_frames,
                    "dropped_frames": dropped,
                    **({"trimmed_frames": counted.trimmed_frames} if counted.trimmed_frames else {}),
                }
        found[node] = {
            "cell_bytes": settings.cell_bytes,
            "used": dict(zip(_POOLS, pools.used, strict=True)),
            "most": dict(zip(_POOLS, pools.high_water, strict=True)),
            "size": dict(zip(_POOLS, pools.size, strict=True)),
            "groups": groups,
        }
    return found


def whole_port(fabric: Fabric, port: str) -> WholePort:
    """Return what the lossless groups of a switch's port hold together, where ports are paused as a whole."""
    return fabric.core.running_program().buffers.whole_port(fabric.port(port).slot)


def ecn(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each port with ECN, and each priority that has it, the curve and the waiting, marked and dropped."""
    found: Reading = {}
    for name, ports in by_node(fabric, wanted):
        if any(port.settings and port.settings.ecn for port in ports):
            found |= fabric.core.parts.of(name, "ecn", partial(_ecn_of_node, fabric, ports, wanted))
    return found


def _ecn_of_node(fabric: Fabric, ports: list[PortState], wanted: str) -> Reading:
    node = ports[0].node
    return ecn_by(fabric, {node.name: fabric.core.sockets.of(node)}, wanted)


def ecn_by(fabric: Fabric, sockets: Mapping[str, Socket], wanted: str = "") -> Reading:
    """Return what `ecn` does of the nodes that have sockets here, each with one in its namespace."""
    found: Reading = {}
    for node, ports in by_node(fabric, wanted):
        with_ecn = [port for port in ports if port.settings and port.settings.ecn]
        if not with_ecn or node not in sockets:
            continue
        counts = {
            (interface, own): (backlog, *struct.unpack("=IIII", extra.ljust(16, b"\0")[:16]))
            for interface, own, backlog, extra in qdiscs.listed(sockets[node])
        }
        for port in with_ecn:
            assert port.settings is not None and port.queues is not None
            for priority, curve in sorted(port.settings.ecn.items()):
                places = [counts.get((port.interface, own), (0,) * 5) for own in port.queues.red_handles(priority)]
                waiting, early, at_limit, _, marked = map(sum, zip(*places, strict=True))
                found.setdefault(port.name, {})[str(priority)] = {
                    "kmin": str(curve.kmin),
                    "kmax": str(curve.kmax),
                    "pmax": str(curve.pmax),
                    "waiting_bytes": waiting,
                    "marked": marked,
                    "dropped": early + at_limit,
                }
    return found


def headroom(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each port of a switch the limits of its priorities in cells, and the measured headroom."""
    found: Reading = {}
    for node, ports in by_node(fabric, wanted):
        measured = fabric.snapshot(node)["measured"]
        for port in ports if node in fabric.buffers else ():
            limits = {str(p): asdict(fabric.limits(port.name, p)) for p in PRIORITIES}
            found[port.name] = {
                "cable": str(port.cable),
                "priorities": {p: one | {"alpha": one["alpha"] and str(one["alpha"])} for p, one in limits.items()},
                "measured": measured.get(port.name),
            }
    return found


def deadlocks(fabric: Fabric, wanted: str = "") -> Reading:
    """Return how many deadlocks were found and broken, and each deadlock that `wanted` is part of."""
    by_node(fabric, wanted)
    if fabric.core.options.deadlock_poll is None:
        raise FabricError('this network does not look for deadlocks; a topology does with deadlock_poll="10us"')
    found = [
        one
        for one in fabric.deadlocks()
        if any(wanted in ("", port, fabric.port(port).node.name) for port, _ in one.queues.values())
    ]
    return {
        "deadlock_detected": len(found),
        "deadlock_broken": sum(one.lasted_ns is not None for one in found),
        "deadlocks": {
            str(one.number): {
                "since_ns": real_ns(one.since_lab_ns, fabric.units),
                "lasted_ns": one.lasted_ns,
                "queues": [[port, list(of)] for _, (port, of) in sorted(one.queues.items())],
            }
            for one in found
        },
    }


READINGS: dict[str, Callable[[Fabric, str], Reading]] = {
    "pfc": pfc,
    "buffers": buffers,
    "ecn": ecn,
    "headroom": headroom,
    "deadlocks": deadlocks,
}
COUNTED = ("pfc", "buffers", "ecn")
"""The readings that have counts."""


def since(now: Any, before: Any, name: str = "") -> Any:
    """Return the counts since an earlier reading; states and high-water marks are as they are now."""
    if name in _STATES or before is None:
        return now
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        return {key: since(value, before.get(key), str(key)) for key, value in now.items()}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [since(one, other, name) for one, other in zip(now, before, strict=True)]
    if type(now) is int and type(before) is int:
        return max(0, now - before)  # an agent that died begins anew
    return now


def by_node(fabric: Fabric, wanted: str) -> list[tuple[str, list[PortState]]]:
    """Return the ports by node; `wanted` is a node, a port, or empty for all."""
    found: dict[str, list[PortState]] = {}
    for port in fabric.ports.values():
        if wanted in ("", port.node.name, port.name):
            found.setdefault(port.node.name, []).append(port)
    if not found:
        if not wanted:
            raise FabricError("this network has no lossless ports; incast,4 has some")
        fabric.core.ports.node(wanted.partition("-")[0] if "-" in wanted else wanted)  # for their messages
        fabric.port(wanted)
    return sorted(found.items(), key=lambda item: _natural(item[0]))


def _natural(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
