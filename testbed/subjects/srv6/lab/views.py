"""End.X.PFC of a running network: as data, as tables, and as rows of words beside a live drawing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.net.fabric.fabric import Fabric, FabricError
from testbed.net.shell.views import Row, View, listed, table
from testbed.net.watch.readings import Reading, by_node, since
from testbed.subjects.srv6.lab.running import wan_state


def reading(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each router with End.X.PFC the packets to its SIDs, its tunnels, and the packets filters dropped."""
    by_router = {}
    for node, _ in by_node(fabric, wanted):
        if fabric.snapshot(node).get("wan") is not None:
            by_router[node] = wan_state(fabric, node)
    if wanted and not by_router:
        raise FabricError(f"{wanted} has no End.X.PFC")
    return by_router


def view(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show End.X.PFC at each router: packets to its SIDs, its reverse tunnels, and packets that filters dropped."""
    sids: list[Row] = []
    tunnels: list[Row] = []
    others = []
    for router, seen in since(reading(fabric, wanted), before).items():
        sids += [
            (router, sid, ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in one.items() if count) or "-")
            for sid, one in seen["sids"].items()
        ]
        tunnels += [
            (
                router,
                one["to"],
                "-" if one["slice"] is None else one["slice"],
                listed(one["stopped"]),
                ", ".join(f"{count} {what}" for what, count in one["sent"].items() if count) or "-",
                ", ".join(one["segments"]),
            )
            for one in seen["tunnels"]
        ]
        dropped = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in seen["filtered"].items() if count)
        others.append(
            f"{router}: dropped by filters: {dropped or 'nothing'}; errors of sending: {seen['send_errors']}\n"
        )
    if not others:
        return "no router has End.X.PFC; srv6-wan,2 has two\n"
    parts = [table(("router", "SID", "packets"), sids)] if sids else []
    parts.append(
        table(("router", "pauses", "slice", "stopped", "sent", "segments"), tunnels) if tunnels else "no tunnels\n"
    )
    return "".join([*parts, *others])


VIEWS = {"wan": View(reading, view, counts=True)}


def states(fabric: Fabric) -> dict[str, str]:
    """Return by router the counters of its SIDs, its tunnels, its controller, and the packets that filters dropped."""
    rows = {}
    for router, state in reading(fabric).items():
        for sid, counted in state["sids"].items():
            if counted:
                rows[f"{router} {sid}"] = _words(counted)
        for number, tunnel in enumerate(state["tunnels"], 1):
            rows[f"{router} tunnel {number}"] = _words(tunnel) if isinstance(tunnel, Mapping) else str(tunnel)
        rows[f"{router} tunnels"] = str(len(state["tunnels"]))
        if state["controller"] is not None:
            rows[f"{router} controller"] = _words(state["controller"])
        dropped = {reason: frames for reason, frames in state["filtered"].items() if frames}
        if dropped:
            rows[f"{router} filters dropped"] = _words(dropped)
    return rows


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return str(value)


def _words(content: Any) -> str:
    if not isinstance(content, Mapping):
        return str(content)
    return ", ".join(f"{str(name).replace('_', ' ')} {_inner(value)}" for name, value in content.items())


def _inner(value: Any) -> str:
    return f"({_words(value)})" if isinstance(value, Mapping) else _value(value)
