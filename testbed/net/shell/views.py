"""Tables of a running network in plain text: pauses, buffers, ECN, DCBX, headroom, WAN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState
from testbed.net.fabric.queues import PRIORITIES
from testbed.net.watch import readings
from testbed.net.watch.readings import Reading, by_node, since
from testbed.subjects.dcbx import show
from testbed.switch.priority.settings import Trust

Row = Sequence[object]


def table(heads: Sequence[str], rows: Iterable[Row]) -> str:
    """Return a table of columns under their heads, with numbers aligned to the right."""
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


def pfc(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show the pauses of each priority that has PFC, or had any."""
    rows: list[Row] = []
    ignored: list[str] = []
    for port, seen in since(readings.pfc(fabric, wanted), before).items():
        for reason, count in seen["ignored_frames"].items():
            if count:
                ignored.append(f"{port} ignored {count} frames: {reason.replace('_', ' ')}")
        for state in seen["priorities"]:
            dropped = sum(state["ignored"].values())
            if not (state["enabled"] or dropped):
                continue
            until = state["paused_until_ns"]
            rows.append(
                (
                    port,
                    state["priority"],
                    "on" if state["enabled"] else "off",
                    "storm" if state["stormed"] else f"{_us(until - seen['now_ns'])}" if until else "-",
                    _us(state["paused_ns"]),
                    state["xoff_received"],
                    state["xon_received"],
                    state["pause_expired"],
                    state["xoff_sent"],
                    state["xoff_refreshed"],
                    state["xon_sent"],
                    dropped,
                )
            )
    heads = ("port", "prio", "PFC", "paused for us", "paused us", "XOFF in", "XON in", "expired")
    return table((*heads, "XOFF out", "again", "XON out", "ignored"), rows) + "".join(f"{line}\n" for line in ignored)


def buffers(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show each switch's pools, then each group that is lossless or was used."""
    out = []
    for node, switch in since(readings.buffers(fabric, wanted), before).items():
        pools = ", ".join(f"{name} {used} (most {switch['most'][name]}) of {switch['size'][name]}"
                          for name, used in switch["used"].items())  # fmt: skip
        out.append(f"{node}: cells of {switch['cell_bytes']} B: {pools}\n")
        rows: list[Row] = []
        for name, group in switch["groups"].items():
            lost = [f"{frames} {reason}" for reason, frames in group["dropped_frames"].items() if frames]
            rows.append(
                (
                    *name.split(),
                    "lossless" if group["lossless"] else "lossy",
                    "XOFF" if group["xoff"] else "-",
                    *(f"{used}/{group['most'][kind]}" for kind, used in group["used"].items()),
                    group["limit"],
                    group["xon_offset"],
                    group["headroom"],
                    group["admitted_frames"],
                    ", ".join(lost) or "-",
                )
            )
        heads = ("port", "prio", "kind", "state", "guaranteed", "shared", "headroom", "XOFF at", "XON below by")
        out.append(table((*heads, "headroom max", "frames", "dropped"), rows))
    return "".join(out) or "no switch with a buffer\n"


def ecn(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show each queue with ECN: its curve, and the waiting, marked and dropped packets."""
    columns = ("kmin", "kmax", "pmax", "waiting_bytes", "marked", "dropped")
    rows = [
        (port, priority, *(queue[column] for column in columns))
        for port, queues in since(readings.ecn(fabric, wanted), before).items()
        for priority, queue in queues.items()
    ]
    if not rows:
        return "no queue has ECN; give a port Port(ecn={3: EcnCurve(...)})\n"
    return table(("port", "prio", "Kmin", "Kmax", "Pmax", "octets waiting", "marked", "dropped"), rows)


def wan(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show End.X.PFC at each router: packets to its SIDs, its reverse tunnels, and packets that filters dropped."""
    sids: list[Row] = []
    tunnels: list[Row] = []
    others = []
    for router, seen in since(readings.wan(fabric, wanted), before).items():
        sids += [
            (router, sid, ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in one.items() if count) or "-")
            for sid, one in seen["sids"].items()
        ]
        tunnels += [
            (
                router,
                one["to"],
                "-" if one["slice"] is None else one["slice"],
                _listed(one["stopped"]),
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


def dcbx(fabric: Fabric, wanted: str = "") -> str:
    """Show what each port negotiated, TLV by TLV, and for ports without DCBX their settings and the neighbour's."""
    speaking: dict[str, dict[str, Any]] = {}
    silent: list[PortState] = []
    for node, ports in by_node(fabric, wanted):
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
    """Show the headroom of each lossless priority, and the measured round trips."""
    rows: list[Row] = []
    notes = []
    for node, ports in by_node(fabric, wanted):
        negotiated = fabric.snapshot(node)["dcbx"]
        for port in ports:
            found = negotiated.get(port.name, {}).get("measured")
            trips = [found and found[name] for name in ("shortest_ns", "median_ns", "round_trip_ns")]
            if found:
                notes.append(found["text"])
            limits = [(p, fabric.limits(port.name, p)) for p in PRIORITIES] if node in fabric.buffers else []
            rows += [
                (
                    port.name,
                    port.cable,
                    priority,
                    *(_us(trip) if trip else "-" for trip in trips),
                    limit.headroom,
                    "measured" if found and found["cells"] else "as configured",
                )
                for priority, limit in limits
                if limit.lossless
            ]
    heads = ("port", "cable", "prio", "shortest us", "median us", "counted us", "headroom cells", "")
    return table(heads, rows) + "".join(f"{line}\n" for line in notes)


def deadlocks(fabric: Fabric, wanted: str = "") -> str:
    """Show deadlocks of PFC: circles of paused queues, each of which waits for the next one."""
    seen = readings.deadlocks(fabric, wanted)
    rows = [
        (
            number,
            _us(one["since_ns"]),
            "lasts" if one["lasted_ns"] is None else _us(one["lasted_ns"]),
            " -> ".join(f"{port} {_listed(of)}" for port, of in one["queues"]),
        )
        for number, one in seen["deadlocks"].items()
    ]
    head = f"deadlocks: {seen['deadlock_detected']} detected, {seen['deadlock_broken']} broken\n"
    return head + (
        table(("deadlock", "since us", "lasted us", "port and priority, each waits for the next"), rows) if rows else ""
    )


VIEWS: dict[str, Callable[..., str]] = {
    "pfc": pfc,
    "buffers": buffers,
    "ecn": ecn,
    "dcbx": dcbx,
    "headroom": headroom,
    "wan": wan,
    "deadlocks": deadlocks,
}


def _listed(priorities: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(priorities))) or "-"


def _shares(weights: dict[int, int]) -> str:
    if len(set(weights.values())) == 1:
        return "equal"
    return ", ".join(f"{priority}: {weight / 100:g} %" for priority, weight in weights.items())


def _us(ns: float) -> str:
    return f"{ns / 1e3:.3f}"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit() or text == "-"
