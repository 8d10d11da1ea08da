"""The records that a run keeps of its networks: their descriptions, and whether each loss is accounted for.

A network has a line at its start and one at its end in the result's `networks.jsonl`.

A run may have several networks one after another, whose ports have the same names, so a reader of the event log needs
the time of each. The lines have plain numbers: rates in b/s, times in ns, lengths in m, buffers in cells.
`docs/reports.md` lists the keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from testbed.experiment.run import Run
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings
from testbed.switch.ecn.curve import EcnCurve

if TYPE_CHECKING:
    from testbed.switch.link.counters import LlrReport

NETWORKS_LOG = "networks.jsonl"
"""The name of the file in a result folder."""
NOT_COUNTED = "lost, and in no counter"
"""The name of the claim on frames that flows lost and no counter has."""
_KINDS = (
    ("steered", "leaf"),
    ("bridges", "switch"),
    ("forwards", "router"),
)


def started(net: Any, case: str, topology: str, since_ns: int) -> dict[str, Any]:
    """Return the description of a running network: nodes, cables, ports with their settings, and buffers.

    `since_ns` is the time when its start began, as its agents log events before all of it runs.
    """
    fabric = net.fabric
    ports = {port.name: port for port in fabric.ports.values()}
    names = getattr(net.topo, "names", {})  # of ports where the switch's own system has others
    return {
        "t_ns": since_ns,
        "network": "started",
        "case": case,
        "topology": topology,
        "nodes": {name: kind(node) for name, node in net.nameToNode.items()},
        "cables": [_cable(link, ports) for link in net.links],
        "ports": {
            name: _port(port, fabric.buffers.get(port.node.name)) | ({"name": names[name]} if name in names else {})
            for name, port in ports.items()
        },
        "buffers": {name: _buffer(settings) for name, settings in fabric.buffers.items()},
        **({"in_lab_time": True} if any(port.units != port.scale for port in ports.values()) else {}),
    }


def ended(**counted: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """Return the line for a network that has ended now, with what was counted by port: `soft_roce` and `llr`."""
    found = {name: ports for name, ports in counted.items() if ports}
    return {"t_ns": time.monotonic_ns(), "network": "ended", **found}


def llr_counters(reports: Mapping[str, LlrReport]) -> dict[str, dict[str, int]]:
    """Return what ports with LLR, or with errors on their cables, have counted."""
    return {
        name: {**one.counters, "flushes": one.flushes, "lost": one.lost, "damaged": one.damaged}
        for name, one in reports.items()
    }


def kind(node: Any) -> str:
    """Return the kind of a node: leaf, switch, router or host."""
    for attribute, name in _KINDS:
        if getattr(node, attribute, False):
            return name
    return "switch" if hasattr(node, "dpctl") else "host"


def _cable(link: Any, ports: Mapping[str, Any]) -> dict[str, Any]:
    ends = [intf.name for intf in (link.intf1, link.intf2)]
    nodes = [intf.node.name for intf in (link.intf1, link.intf2)]
    port = ports.get(ends[0])
    if port is None:  # one of Mininet's own links
        return {"ends": ends, "nodes": nodes}
    cable, scale = port.lab_cable, port.scale.k
    return {
        "ends": ends,
        "nodes": nodes,
        "scale": scale,
        "lab_rate_bps": cable.rate.bps,
        "lab_delay_ns": cable.delay.ns,
        "hardware_rate_bps": cable.rate.bps * scale,
        "hardware_delay_ns": cable.delay.ps / scale / 1000,
        "hardware_length_m": cable.delay.length().mm / scale / 1000,
        "loss": str(cable.loss),
        **({"errors": str(cable.errors)} if cable.errors else {}),
        **({"llr": {"frames": retry.frames, "octets": retry.octets}} if (retry := cable.retry) else {}),
    }


def _port(port: Any, buffer: BufferSettings | None) -> dict[str, Any]:
    settings = port.settings
    groups = {} if buffer is None else {key: one for key, one in buffer.groups.items() if key[0] == port.slot}
    forwarding = getattr(port.node, "params", {}).get("forwarding")  # a node of Mininet's own may have none
    return {
        "node": port.node.name,
        "lossless": sorted(settings.pfc.enabled),
        "trust": str(settings.priorities.trust),
        "dcbx": settings.dcbx is not None,
        "strict": sorted(settings.strict),
        "shares": {str(priority): percent for priority, percent in settings.shares.items()},
        "ecn": {str(priority): _ecn(curve) for priority, curve in settings.ecn.items()},
        "groups": {str(priority): _group(group) for (_, priority), group in sorted(groups.items())},
        **({} if forwarding is None else {"forwarding": str(forwarding)}),
    }


def _group(group: GroupSettings) -> dict[str, Any]:
    """Return the thresholds of a group in cells of the shared pool."""
    threshold = group.threshold
    limit: dict[str, Any] = (
        {"alpha": str(threshold.alpha)} if isinstance(threshold, Dynamic) else {"xoff_cells": threshold.cells}
    )
    return limit | {
        "lossless": group.lossless,
        "guaranteed_cells": group.guaranteed,
        "xon_offset_cells": group.xon_offset,
        "headroom_cells": group.headroom,
    }


def _buffer(settings: BufferSettings) -> dict[str, Any]:
    return {
        "total_cells": settings.total,
        "cell_bytes": settings.cell_bytes,
        "shared_cells": settings.shared_cells,
        "guaranteed_cells": settings.guaranteed_cells,
        "headroom_cells": settings.headroom_cells,
    }


def _ecn(curve: EcnCurve) -> dict[str, Any]:
    return {"kmin_bytes": curve.kmin.bytes, "kmax_bytes": curve.kmax.bytes, "pmax": str(curve.pmax)}


def account_for_losses(run: Run, lost: int, losses: Callable[[], dict[str, int] | None]) -> None:
    """Claim that each loss of a flow is in a counter of the network, if flows have lost anything.

    Congestion drops frames in a buffer, which counts them. A frame that is lost without a counter, for example while a
    kernel resolves a neighbour's address, points to another fault and must not pass for a loss by congestion.
    """
    if not lost or (counted := losses()) is None:
        return
    run.figure_of_each("lost by flows", lost)
    run.figure_of_each("dropped or still queued, by reason", counted)
    run.claim(NOT_COUNTED, max(0, lost - sum(counted.values())), equals=0)
