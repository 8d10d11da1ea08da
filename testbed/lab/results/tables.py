"""The logs of a result as tables: flows, events and counters, with the same columns for every run.

Rows are plain dictionaries; `frame` makes a DataFrame of them where pandas or polars is installed. Rates and times are
those of the modelled hardware, and of the lab in a folder that is read with `lab_time`; `lab_ns` is always the lab's.
docs/plots.md describes the columns.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.flow_lines import Flow
from testbed.lab.results.folder import Event, Folder, Network, read
from testbed.units import hardware_times, real_ns

Row = dict[str, Any]
READERS = ("pandas", "polars")
FLOWS = (
    "t_ns", "lab_ns", "network", "flow", "source", "target", "transport", "priority", "rate_control", "size_bytes",
    "completion_ns", "best_ns", "slowdown", "goodput_bps", "worst_delay_ns", "sent", "received", "lost", "doubled",
    "out_of_order", "reordered", "reordering_extent", "octets", "marked", "retransmitted", "cnps", "failure", "ways",
    "spread",
)  # fmt: skip
"""The columns of `flows`."""
COUNTERS = (
    "network", "node", "port", "priority", "pauses_received", "paused_ns", "pauses_sent", "pauses_refreshed",
    "pauses_expired", "times_congested", "storms", "dropped", "dropped_bytes",
)  # fmt: skip
"""The columns of `counters`."""
SOFT_ROCE = ("network", "node", "port")
"""The first columns of `soft_roce`; a column for each counter of any device follows."""
EVENTS = ("t_ns", "lab_ns", "network", "event", "node", "port", "priorities")
"""The first columns of `events`; a column for each field of any event follows."""
PAUSE_BEGINS = "xoff_received"
PAUSE_ENDS = frozenset({"xon_received", "pause_expired", "pause_cancelled", "storm_detected"})
_COUNTED = {
    "xoff_sent": "pauses_sent",
    "xoff_refreshed": "pauses_refreshed",
    "pause_expired": "pauses_expired",
    "congested": "times_congested",
    "storm_detected": "storms",
}


def flows(folder: Folder) -> list[Row]:
    """Return a row for each flow that has ended, in the order of their ends."""
    return [_flow(folder, flow) for flow in folder.flows()]


def _flow(folder: Folder, flow: Flow) -> Row:
    factor = flow.scale if folder.lab_time else 1
    taken, best = flow.completion_ns, flow.best_ns
    network = network_at(folder, flow.t_ns)
    return {
        "t_ns": real_ns(flow.t_ns, folder.units),
        "lab_ns": flow.t_ns,
        "network": network.title if network else "",
        **flow.texts,
        "flow": flow.number,
        "completion_ns": taken if taken is None else taken * factor,
        "best_ns": best if best is None else best * factor,
        "slowdown": taken / best if taken is not None and best else None,
        **{name: value * factor if name.endswith("_ns") and value is not None else value
           for name, value in flow.numbers.items()},
        "goodput_bps": flow.goodput_bps / factor if factor > 1 else flow.goodput_bps,
    }  # fmt: skip


def event_columns(folder: Folder) -> list[str]:
    """Return the names of the columns of `events`."""
    found: dict[str, None] = {}
    for event in folder.events():
        found.update(dict.fromkeys(event.fields))
    return [*EVENTS, *sorted(name for name in found if name not in EVENTS)]


def events(folder: Folder) -> Iterator[Row]:
    """Yield each event with the network that ran then and the node of its port; lists and objects are JSON."""
    for event in folder.events():
        network = network_at(folder, event.t_ns)
        found = hardware_times(event.fields, folder.units)
        yield {name: _plain(value) for name, value in found.items() if name not in EVENTS} | {
            "t_ns": real_ns(event.t_ns, folder.units),
            "lab_ns": event.t_ns,
            "network": network.title if network else "",
            "event": event.name,
            "node": _node(network, event.port),
            "port": event.port,
            "priorities": " ".join(map(str, event.priorities)),
        }


def counters(folder: Folder) -> list[Row]:
    """Return a row for each port and priority of which the event log of a network has pauses or drops.

    A pause that is open when its network ends lasts until then.
    """
    rows: dict[tuple[int, str, int], Row] = {}
    open_since: dict[tuple[int, str, int], int] = {}
    last = {network.number: network.end_ns for network in folder.networks}
    for event in sorted(folder.events(), key=lambda one: one.t_ns):
        network = network_at(folder, event.t_ns)
        for priority in event.priorities:
            key = (network.number if network else 0, event.port, priority)
            if not (event.name in _COUNTED or event.name in PAUSE_ENDS or event.name in (PAUSE_BEGINS, "drop")):
                continue
            row = rows.setdefault(key, _empty(network, event.port, priority))
            _count(row, event)
            if event.name == PAUSE_BEGINS and key not in open_since:
                open_since[key] = event.t_ns
                row["pauses_received"] += 1
            elif event.name in PAUSE_ENDS and key in open_since:
                row["paused_ns"] += event.t_ns - open_since.pop(key)
    for key, since_ns in open_since.items():
        rows[key]["paused_ns"] += max(0, last.get(key[0], folder.end_ns) - since_ns)
    for row in rows.values():
        row["paused_ns"] = real_ns(row["paused_ns"], folder.units)
    return [rows[key] for key in sorted(rows)]


def soft_roce(folder: Folder) -> list[Row]:
    """Return a row for each Soft-RoCE device, with its counters when its network ended."""
    return [
        {"network": network.title, "node": network.node_of(port), "port": port, **counted}
        for network in folder.networks
        for port, counted in network.soft_roce.items()
    ]


def soft_roce_columns(folder: Folder) -> list[str]:
    """Return the names of the columns of `soft_roce`: the place, and the counters that any device has."""
    found = {name for network in folder.networks for counted in network.soft_roce.values() for name in counted}
    return [*SOFT_ROCE, *sorted(found - set(SOFT_ROCE))]


def _empty(network: Network | None, port: str, priority: int) -> Row:
    start = {"network": network.title if network else "", "node": _node(network, port)}
    return dict.fromkeys(COUNTERS, 0) | start | {"port": port, "priority": priority}


def _count(row: Row, event: Event) -> None:
    if event.name in _COUNTED:
        row[_COUNTED[event.name]] += 1
    if event.name == "drop":
        octets = event.fields.get("octets")
        row["dropped"] += 1
        row["dropped_bytes"] += octets if type(octets) is int else 0


def network_at(folder: Folder, t_ns: int) -> Network | None:
    """Return the network that ran at a time of the logs."""
    return next((one for one in folder.networks if one.start_ns <= t_ns <= one.end_ns), None)


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """Return rows as a DataFrame of pandas, or else of polars; UsageError if there is neither."""
    kept = [[row.get(name) for name in columns] for row in rows]
    for name in READERS:
        try:
            library = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        if name == "polars":
            return library.DataFrame(kept, schema=list(columns), orient="row", infer_schema_length=None)
        missing = [[math.nan if value is None else value for value in row] for row in kept]  # None makes no numbers
        return library.DataFrame(missing, columns=list(columns))
    raise UsageError("neither pandas nor polars is installed; one of them makes data frames: pip install pandas")


def of_folder(path: Path, name: str) -> Any:
    """Return the table `flows`, `events`, `counters` or `soft_roce` of a result folder as a DataFrame."""
    folder = read(path)
    if name == "events":
        return frame(events(folder), event_columns(folder))
    if name == "soft_roce":
        return frame(soft_roce(folder), soft_roce_columns(folder))
    return frame(*{"flows": (flows(folder), FLOWS), "counters": (counters(folder), COUNTERS)}[name])


def _node(network: Network | None, port: str) -> str:
    return network.node_of(port) if network else port.rpartition("-")[0]


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
