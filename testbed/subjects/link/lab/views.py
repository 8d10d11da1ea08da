"""Link Layer Retry of a running network, for its command line."""

from __future__ import annotations

from typing import Any

from testbed.net.fabric.fabric import Fabric, FabricError
from testbed.net.shell.views import Row, View, table
from testbed.net.watch import description
from testbed.net.watch.readings import Reading, by_node, since

_COLUMNS = (
    ("sent", "LLR_TX_OK"), ("replays", "LLR_TX_REPLAY"), ("given up", "LLR_TX_DISCARD"), ("received", "LLR_RX_OK"),
    ("damaged", "LLR_RX_BAD"), ("doubled", "LLR_RX_DUPLICATE_SEQ"), ("ACK out", "LLR_TX_ACK_CTL_OS"),
    ("NACK out", "LLR_TX_NACK_CTL_OS"), ("ACK in", "LLR_RX_ACK_CTL_OS"), ("NACK in", "LLR_RX_NACK_CTL_OS"),
)  # fmt: skip


def reading(fabric: Fabric, wanted: str = "") -> Reading:
    """Return for each port with LLR, or with errors on its cable, its states and its counters."""
    reports = fabric.core.cabling.reports()
    names = {port.name for _, ports in by_node(fabric, wanted) for port in ports}
    counted = description.llr_counters({name: one for name, one in reports.items() if name in names})
    if wanted and not counted:
        raise FabricError(f"{wanted} has no cable with llr or errors")
    return {
        name: {"sender": reports[name].state, "receiver": reports[name].receiver, "counters": counters}
        for name, counters in counted.items()
    }


def view(fabric: Fabric, wanted: str = "", before: Reading | None = None) -> str:
    """Show Link Layer Retry at each port: states, frames, replays, ordered sets, and what the cable lost."""
    rows: list[Row] = []
    seen: dict[str, Any]
    for port, seen in since(reading(fabric, wanted), before).items():
        counters = seen["counters"]
        lost = counters["lost"] + counters["damaged"]
        rows.append((port, seen["sender"], seen["receiver"], *(counters[name] for _, name in _COLUMNS), lost))
    if not rows:
        return "no cable has LLR; write Cable('200Gb/s', '5m', llr=True)\n"
    return table(("port", "sender", "receiver", *(head for head, _ in _COLUMNS), "cable lost"), rows)


VIEWS = {"llr": View(reading, view, counts=True)}
