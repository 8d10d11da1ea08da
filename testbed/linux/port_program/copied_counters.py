"""The tables of ports and nodes as octets, to be copied to the port program of another kernel.

A kernel that has a part of a network gets the counters of the others so: it has their ports in its tables, too, and no
frame of its own touches them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING

from testbed.linux.port_program.buffer_tables import BufferTables
from testbed.linux.port_program.records import GROUP, PORT, PRIORITIES, QUEUE, WHOLE
from testbed.linux.port_program.trimming_tables import TRIMMING, TrimmingTables

if TYPE_CHECKING:
    from testbed.linux.port_program import PortProgram

Rows = tuple[bytes, ...]


def of_ports(program: PortProgram, slots: Iterable[int]) -> dict[int, Rows]:
    """Return the rows of ports."""
    return {
        slot: tuple(bytes(memory[slot * size : (slot + 1) * size]) for memory, size in _tables(program))
        for slot in slots
    }


def put_ports(program: PortProgram, rows: Mapping[int, Rows]) -> None:
    """Set the rows of ports that are in another kernel."""
    for slot, of_tables in rows.items():
        for (memory, size), row in zip(_tables(program), of_tables, strict=True):
            memory[slot * size : (slot + 1) * size] = row


def at_one_moment(program: PortProgram, rows: Mapping[int, Rows], entries: Mapping[int, bytes]) -> PortProgram:
    """Return a program to read from, whose ports and nodes have these rows and entries, whatever happens now."""
    many, copied = 1 + max(rows, default=-1), copy(program)
    copied.port_memory = bytearray(many * PORT.size)
    groups, queues = (bytearray(many * PRIORITIES * size) for size in (GROUP.size, QUEUE.size))
    copied.buffers = BufferTables(groups, queues, bytearray(many * WHOLE.size), dict(entries), {})
    if program.trimming_tables is not None:
        copied.trimming_tables = TrimmingTables(bytearray(many * TRIMMING.size), program.trimming_tables.exceptions)
    put_ports(copied, rows)
    return copied


def _tables(program: PortProgram) -> list[tuple[memoryview | bytearray, int]]:
    tables, trimming = program.buffers, program.trimming_tables
    return [
        (memoryview(program.port_memory), PORT.size),
        (memoryview(tables.group_memory), PRIORITIES * GROUP.size),
        (memoryview(tables.queue_memory), PRIORITIES * QUEUE.size),
        (memoryview(tables.whole_memory), WHOLE.size),
        *([(memoryview(trimming.memory), TRIMMING.size)] if trimming is not None else []),
    ]
