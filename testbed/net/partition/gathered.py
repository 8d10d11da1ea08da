"""What a part knows of the others: the counters of their ports, the agents of their nodes, and their logs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from testbed.agent.agents import Agents
from testbed.agent.event_log import Record
from testbed.agent.orders import Order
from testbed.linux.port_program import PortProgram, copied_counters
from testbed.linux.vswitch import Vswitch
from testbed.net.partition.cut import PartitionError
from testbed.net.partition.deadlock_notes import DeadlockNotes
from testbed.net.partition.divided import Divided


def bring_counters(parts: Divided, program: PortProgram, slots: dict[int, str], buffers: dict[str, int]) -> PortProgram:
    """Give the counters of this part's ports and buffers to all, and put those of the others into the program's tables.

    Returns a program that has the counters of all as they were given, for here they go on meanwhile. `slots` has the
    node of each slot, `buffers` the number of each node with a buffer.
    """
    own = (
        copied_counters.of_ports(program, [slot for slot, node in slots.items() if parts.has(node)]),
        {number: program.buffers.octets(number) for node, number in buffers.items() if parts.has(node)},
    )
    of_all = parts.exchange("counters", own)
    for part, (rows, entries) in enumerate(of_all):
        if part == parts.number:
            continue
        copied_counters.put_ports(program, rows)
        for number, octets in entries.items():
            program.buffers.put_octets(number, octets)
    every_row, every_entry = (dict(ChainMap(*maps)) for maps in zip(*of_all, strict=True))
    return copied_counters.at_one_moment(program, every_row, every_entry)


def crossed(parts: Divided) -> list[dict[str, Any]]:
    """Return what has crossed each cable between parts so far, of both directions."""
    own = {
        number: asdict(parts.device.count(number))
        for number, cable in enumerate(parts.cut.cables)
        if parts.number in cable.parts
    }
    of_all = parts.exchange("what crossed the cut cables", own)
    return [
        {
            "nodes": list(cable.nodes),
            "lab_delay_ns": cable.delay_ns,
            "from": {node: of_all[part][number] for node, part in zip(cable.nodes, cable.parts, strict=True)},
        }
        for number, cable in enumerate(parts.cut.cables)
    ]


class AgentsOfAll(Agents):
    """The agents of all parts: each question goes to the part that has the node."""

    def __init__(self, own: Agents, parts: Divided, notes: DeadlockNotes | None) -> None:
        """It has no processes of its own, so it is not made as others are."""
        self._own, self._parts, self._notes = own, parts, notes

    def snapshot(self, node: str) -> dict[str, Any]:
        return self._parts.of(node, "state", lambda: self._own.snapshot(node))

    def spoken(self, node: str) -> dict[str, Any]:
        return self._parts.of(node, "state of a speaker", lambda: self._own.spoken(node))

    def ask_part(self, node: str, part: str, verb: str, argument: Any) -> dict[str, Any]:
        return self._parts.of(node, "command", lambda: self._own.ask_part(node, part, verb, argument))

    def order(self, node: str, order: Order) -> None:
        self._parts.of(node, "order", lambda: self._own.order(node, order))

    def records(self) -> list[Record]:
        return event_log(self._parts, self._own.records(), self._notes)

    def lines(self) -> list[dict[str, Any]]:
        return merged_lines(self._parts.exchange("lines of speakers", self._own.lines()))

    def __getattr__(self, name: str) -> Any:
        raise PartitionError(
            "of the agents of a network with partitions this can be asked of one part alone; run it without partitions"
        )


class VswitchOfAll(Vswitch):
    """The Open vSwitch of a leaf of any part: each question goes to the part that has the leaf."""

    def __init__(self, leaf: str, own: Vswitch | None, parts: Divided) -> None:
        """It has no daemons of its own, so it is not made as others are."""
        self._leaf, self._own, self._parts = leaf, own, parts

    def vsctl(self, *arguments: str) -> str:
        return self._ask("vsctl", *arguments)

    def ofctl(self, *arguments: str) -> str:
        return self._ask("ofctl", *arguments)

    def appctl(self, *arguments: str) -> str:
        return self._ask("appctl", *arguments)

    def _ask(self, what: str, *arguments: str) -> str:
        return self._parts.of(self._leaf, what, lambda: str(getattr(self._own, what)(*arguments)))

    def __getattr__(self, name: str) -> Any:
        raise PartitionError(
            f"the Open vSwitch of {self._leaf} answers vsctl, ofctl and appctl in a network with partitions, no more; "
            "run it without partitions"
        )


def event_log(parts: Divided, own: list[Record], notes: DeadlockNotes | None) -> list[Record]:
    """Return the records of all parts and those of deadlocks, if `notes` has what this part has seen of them, in the
    order of time; those of one moment by slot.
    """
    found = parts.exchange("event log", (own, notes.noted() if notes else (0, b"")))
    logs = [records for records, _ in found]
    if notes:
        logs.append(notes.found([noted for _, noted in found]))
    return sorted((record for log in logs for record in log), key=lambda record: (record[0], record[2]))


def merged_lines(logs: Iterable[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the lines of all parts, in the order of time."""
    return sorted((line for log in logs for line in log), key=lambda line: (line["t_ns"], str(line.get("port", ""))))
