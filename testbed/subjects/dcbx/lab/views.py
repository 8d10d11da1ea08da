"""DCBX of a running network: as data, as tables, and as rows of words beside a live drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.net.shell.views import Row, View, listed, table
from testbed.net.watch.readings import Reading, by_node
from testbed.subjects.dcbx import features, show
from testbed.subjects.dcbx.lab.running import of_port
from testbed.switch.priority.settings import Trust


def reading(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each port with DCBX every feature, in the form of `dcbx_state`."""
    found: Reading = {}
    for node, ports in by_node(fabric, wanted):
        seen = fabric.snapshot(node)
        found |= {port.name: of_port(seen, port.name) for port in ports if port.name in seen.get("dcbx", {})}
    return found


def view(fabric: Fabric, wanted: str = "") -> str:
    """Show what each port negotiated, TLV by TLV, and for ports without DCBX their settings and the neighbour's."""
    speaking: dict[str, dict[str, Any]] = {}
    silent: list[PortState] = []
    for node, ports in by_node(fabric, wanted):
        seen = fabric.snapshot(node)
        negotiated = seen.get("dcbx", {})
        speaking |= {port.name: of_port(seen, port.name) for port in ports if port.name in negotiated}
        silent += [port for port in ports if port.name not in negotiated]
    parts = []
    if speaking:
        parts.append(show.table(speaking))
        parts += [f"{name} is not all lossless: {one['refused']}\n" for name, one in speaking.items() if one["refused"]]
    if silent:
        parts.append(_as_configured(fabric, silent))
    return "\n".join(parts)


def _as_configured(fabric: Fabric, ports: Iterable[PortState]) -> str:
    rows: list[Row] = []
    for port in ports:
        far = fabric.far_end(port)
        if not (port.settings and far.settings):
            continue
        same = port.settings.pfc.enabled == far.settings.pfc.enabled
        trust = port.settings.priorities.trust
        rows.append(
            (
                port.name,
                far.name,
                port.cable.rate,
                listed(port.settings.pfc.enabled),
                "same" if same else f"{listed(far.settings.pfc.enabled)} there",
                "port" if trust is Trust.NONE else trust.value,
                _shares(port.settings.weights()),
                listed(port.settings.strict),
            )
        )
    heads = ("port", "neighbour", "rate", "PFC", "PFC there", "trust", "shares", "strict")
    return "as configured, without DCBX:\n" + table(heads, rows)


def _shares(weights: dict[int, int]) -> str:
    if len(set(weights.values())) == 1:
        return "equal"
    return ", ".join(f"{priority}: {weight / 100:g} %" for priority, weight in weights.items())


VIEWS = {"dcbx": View(reading, view)}


def states(fabric: Fabric) -> dict[str, str]:
    """Return by port and TLV what the port does, what it and its peer announce, and why."""
    return rows_of(reading(fabric))


def rows_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return by port and TLV what the port does, what it and its peer announce, and why."""
    rows = {}
    for port, state in found.items():
        if not state["running"]:
            rows[port] = "off"
            continue
        for name, seen in state["features"].items():
            told = [seen[one] for one in ("oper", "admin", "remote")]
            if all(value is None or value is False for value in told):
                continue
            feature = features.named(name)
            oper, admin, remote = map(feature.text, told)
            willing = "" if seen["willing"] is None else ", willing" if seen["willing"] else ", not willing"
            rows[f"{port} {feature.head}"] = f"oper {oper}; local {admin}{willing}; peer {remote}. {seen['why']}"
        if state["refused"]:
            rows[f"{port} refused"] = str(state["refused"])
    return rows
