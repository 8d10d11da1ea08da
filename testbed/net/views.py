"""A running network in tables: pauses, buffers, ECN, and what each port was told. Plain text, for any terminal."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from testbed.dcbx import show
from testbed.linux import qdiscs
from testbed.linux.port_program import DROP_REASONS
from testbed.net.fabric import Fabric, PortState
from testbed.net.queues import PRIORITIES
from testbed.priority.settings import Trust

Row = Sequence[object]


def table(heads: Sequence[str], rows: Iterable[Row]) -> str:
    """Columns under their heads; numbers to the right."""
    lines = [[str(cell) for cell in row] for row in rows]
    if not lines:
        return "nothing yet\n"
    widths = [max(len(line[column]) for line in [list(heads), *lines]) for column in range(len(heads))]
    numeric = [all(_is_number(line[column]) for line in lines) for column in range(len(heads))]
    out = []
    for line in [list(heads), *lines]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out) + "\n"


def pfc(fabric: Fabric, wanted: str = "") -> str:
    """Pauses of each priority that has PFC, or had any."""
    rows: list[Row] = []
    ignored: list[str] = []
    for node, ports in _by_node(fabric, wanted):
        snapshot = fabric.snapshot(node)
        for port in ports:
            seen = snapshot["ports"][port.name]
            for reason, count in seen["ignored_frames"].items():
                if count:
                    ignored.append(f"{port.name} ignored {count} frames: {reason.replace('_', ' ')}")
            for state in seen["priorities"]:
                dropped = sum(state["ignored"].values())
                if not (state["enabled"] or dropped):
                    continue
                until = state["paused_until_ns"]
                rows.append(
                    (
                        port.name,
                        state["priority"],
                        "on" if state["enabled"] else "off",
                        "storm" if state["stormed"] else f"{_ms(until - snapshot['now_ns'])}" if until else "-",
                        _ms(state["paused_ns"]),
                        state["xoff_received"],
                        state["xon_received"],
                        state["pause_expired"],
                        state["xoff_sent"],
                        state["xoff_refreshed"],
                        state["xon_sent"],
                        dropped,
                    )
                )
    heads = ("port", "prio", "PFC", "paused for ms", "paused ms", "XOFF in", "XON in", "expired")
    return table((*heads, "XOFF out", "again", "XON out", "ignored"), rows) + "".join(f"{line}\n" for line in ignored)


def buffers(fabric: Fabric, wanted: str = "") -> str:
    """Each switch's pools, then each group that is lossless or was used."""
    out = []
    for node, ports in _by_node(fabric, wanted):
        settings = fabric.buffers.get(node)
        if settings is None:
            continue
        pools = fabric.buffer(node)
        names = ("guaranteed", "shared", "headroom")
        used = ", ".join(
            f"{name} {pools.used[kind]} (most {pools.high_water[kind]}) of {pools.size[kind]}"
            for kind, name in enumerate(names)
        )
        out.append(f"{node}: cells of {settings.cell_bytes} B: {used}\n")
        rows: list[Row] = []
        free = pools.size[1] - pools.used[1]
        for port in ports:
            number = port.node.ports[port.intf]
            for priority in PRIORITIES:
                group, counted = settings.group(number, priority), fabric.group(port.name, priority)
                drops = zip(counted.dropped_frames, DROP_REASONS, strict=True)
                lost = [f"{frames} {reason}" for frames, reason in drops if frames]
                if not (group.lossless or counted.admitted_frames or lost):
                    continue
                rows.append(
                    (
                        port.name,
                        priority,
                        "lossless" if group.lossless else "lossy",
                        "XOFF" if counted.xoff else "-",
                        *(f"{counted.used[kind]}/{counted.high_water[kind]}" for kind in range(3)),
                        group.threshold.limit(free),
                        group.xon_offset,
                        group.headroom,
                        counted.admitted_frames,
                        ", ".join(lost) or "-",
                    )
                )
        heads = ("port", "prio", "kind", "state", "guaranteed", "shared", "headroom", "XOFF at", "XON below by")
        out.append(table((*heads, "headroom max", "frames", "dropped"), rows))
    return "".join(out) or "no switch with a buffer\n"


def ecn(fabric: Fabric, wanted: str = "") -> str:
    """Each queue with ECN: its curve, what waits in it, and what was marked and dropped."""
    rows: list[Row] = []
    for _, ports in _by_node(fabric, wanted):
        with_ecn = [port for port in ports if port.settings and port.settings.ecn]
        if not with_ecn:
            continue
        found = {
            (interface, own): (backlog, *struct.unpack("=IIII", extra.ljust(16, b"\0")[:16]))
            for interface, own, backlog, extra in qdiscs.listed(fabric.socket(with_ecn[0].node))
        }
        for port in with_ecn:
            assert port.settings is not None and port.queues is not None
            for priority, curve in sorted(port.settings.ecn.items()):
                places = [found.get((port.interface, own), (0,) * 5) for own in port.queues.red_handles(priority)]
                backlog, early, at_limit, _, marked = map(sum, zip(*places, strict=True))
                rows.append(
                    (port.name, priority, curve.kmin, curve.kmax, curve.pmax, backlog, marked, early + at_limit)
                )
    if not rows:
        return "no queue has ECN; give a port Port(ecn={3: EcnCurve(...)})\n"
    return table(("port", "prio", "Kmin", "Kmax", "Pmax", "octets waiting", "marked", "dropped"), rows)


def dcbx(fabric: Fabric, wanted: str = "") -> str:
    """What each port negotiated, TLV by TLV; of ports without DCBX what they were told, beside their neighbour."""
    speaking: dict[str, dict[str, Any]] = {}
    silent: list[PortState] = []
    for node, ports in _by_node(fabric, wanted):
        negotiated = fabric.snapshot(node)["dcbx"]
        speaking |= {port.name: negotiated[port.name] for port in ports if port.name in negotiated}
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
                _listed(port.settings.pfc.enabled),
                "same" if same else f"{_listed(far.settings.pfc.enabled)} there",
                "port" if trust is Trust.NONE else trust.value,
                _shares(port.settings.weights()),
                _listed(port.settings.strict),
            )
        )
    heads = ("port", "neighbour", "rate", "PFC", "PFC there", "trust", "shares", "strict")
    return "as configured, without DCBX:\n" + table(heads, rows)


def headroom(fabric: Fabric, wanted: str = "") -> str:
    """The headroom of each lossless priority, and the round trips that it was measured from, in the lab's time."""
    rows: list[Row] = []
    said = []
    for node, ports in _by_node(fabric, wanted):
        negotiated = fabric.snapshot(node)["dcbx"]
        for port in ports:
            found = negotiated.get(port.name, {}).get("measured")
            trips = [found and found[name] for name in ("shortest_ns", "median_ns", "round_trip_ns")]
            if found:
                said.append(found["text"])
            limits = [(p, fabric.limits(port.name, p)) for p in PRIORITIES] if node in fabric.buffers else []
            rows += [
                (
                    port.name,
                    port.cable,
                    priority,
                    *(_ms(trip) if trip else "-" for trip in trips),
                    limit.headroom,
                    "measured" if found and found["cells"] else "as configured",
                )
                for priority, limit in limits
                if limit.lossless
            ]
    heads = ("port", "cable in the lab", "prio", "shortest ms", "median ms", "counted ms", "headroom cells", "")
    return table(heads, rows) + "".join(f"{line}\n" for line in said)


VIEWS: dict[str, Callable[[Fabric, str], str]] = {
    "pfc": pfc,
    "buffers": buffers,
    "ecn": ecn,
    "dcbx": dcbx,
    "headroom": headroom,
}


def _by_node(fabric: Fabric, wanted: str) -> list[tuple[str, list[PortState]]]:
    """Ports by node; `wanted` is a node, a port, or empty for all."""
    found: dict[str, list[PortState]] = {}
    for port in fabric.ports.values():
        if wanted in ("", port.node.name, port.name):
            found.setdefault(port.node.name, []).append(port)
    if not found:
        fabric.port(wanted)  # says what there is
    return sorted(found.items(), key=lambda item: _natural(item[0]))


def _natural(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _listed(priorities: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(priorities))) or "-"


def _shares(weights: dict[int, int]) -> str:
    if len(set(weights.values())) == 1:
        return "equal"
    return ", ".join(f"{priority}: {weight / 100:g} %" for priority, weight in weights.items())


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3f}"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit() or text == "-"
