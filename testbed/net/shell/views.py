"""Tables of a running network in plain text: pauses, buffers, ECN, headroom, deadlocks. Subjects have more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from testbed import subject
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.queues import PRIORITIES
from testbed.net.watch import readings
from testbed.net.watch.readings import Reading, by_node, since

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
                    "storm" if state["stormed"] else f"{us(until - seen['now_ns'])}" if until else "-",
                    us(state["paused_ns"]),
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
            lost += [f"{group['trimmed_frames']} trimmed"] if "trimmed_frames" in group else []
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


def headroom(fabric: Fabric, wanted: str = "") -> str:
    """Show the headroom of each lossless priority, and the measured round trips."""
    rows: list[Row] = []
    notes = []
    for node, ports in by_node(fabric, wanted):
        measured = fabric.snapshot(node)["measured"]
        for port in ports:
            measurement = measured.get(port.name)
            trips = [measurement and measurement[name] for name in ("shortest_ns", "median_ns", "round_trip_ns")]
            if measurement:
                notes.append(measurement["text"])
            limits = [(p, fabric.limits(port.name, p)) for p in PRIORITIES] if node in fabric.buffers else []
            rows += [
                (
                    port.name,
                    port.cable,
                    priority,
                    *(us(trip) if trip else "-" for trip in trips),
                    limit.headroom,
                    "measured" if measurement and measurement["cells"] else "as configured",
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
            us(one["since_ns"]),
            "lasts" if one["lasted_ns"] is None else us(one["lasted_ns"]),
            " -> ".join(f"{port} {listed(of)}" for port, of in one["queues"]),
        )
        for number, one in seen["deadlocks"].items()
    ]
    head = f"deadlocks: {seen['deadlock_detected']} detected, {seen['deadlock_broken']} broken\n"
    return head + (
        table(("deadlock", "since us", "lasted us", "port and priority, each waits for the next"), rows) if rows else ""
    )


class View(NamedTuple):
    """A command that shows a running network: `read` gives what it shows as data, `show` as tables."""

    read: Callable[[Fabric, str], Reading]
    show: Callable[..., str]
    counts: bool = False
    """True if there are counts in it. Then `show` takes an earlier reading, from which on it counts."""


def every() -> dict[str, View]:
    """Return all views by the names of their commands: the core's, and those of subjects."""
    own = {
        name: View(readings.READINGS[name], show, name in readings.COUNTED)
        for name, show in (
            ("pfc", pfc), ("buffers", buffers), ("ecn", ecn), ("headroom", headroom), ("deadlocks", deadlocks),
        )
    }  # fmt: skip
    return own | {name: view for views in subject.loaded("views") for name, view in views.items()}


def listed(priorities: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(priorities))) or "-"


def us(ns: float) -> str:
    return f"{ns / 1e3:.3f}"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("-", "", 1).isdigit() or text == "-"
