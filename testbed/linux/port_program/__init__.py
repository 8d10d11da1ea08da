"""The port program (`port.bpf.c`) from user space: loading, configuration of ports, counters.

One program and one set of maps serve all nodes of a network. Forked agents inherit the descriptors and the shared
memory; when the last process that holds them ends, the kernel removes programs, maps and attachments.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed.linux import bpf
from testbed.linux.port_program.buffer_tables import BufferTables
from testbed.linux.port_program.records import (
    APPLICATION,
    APPLICATIONS,
    BLOCKED,
    BUFFER,
    CROSSING,
    DEFENDED,
    DROP_REASONS,
    EVENT,
    FIRST_INTERFACE,
    FRAME_OCTETS,
    GROUP,
    LANES,
    OWN_FRAMES,
    POOLS,
    PORT,
    PORT_SETTINGS,
    PRIORITIES,
    QUEUE,
    QUEUED,
    QUEUED_AT,
    QUEUES,
    QUEUES_AT,
    REQUEST,
    RING_BYTES,
    SLOTS,
    SLS,
    STATION,
    BufferCounters,
    Deaths,
    Entry,
    EventKind,
    GroupCounters,
    GroupLimits,
    PortCounters,
    PortTables,
    QueueCounters,
    QueueLimits,
    Sizes,
    Watermark,
)

__all__ = [
    "DROP_REASONS",
    "EVENT",
    "FIRST_INTERFACE",
    "FRAME_OCTETS",
    "OWN_FRAMES",
    "POOLS",
    "PRIORITIES",
    "RING_BYTES",
    "SLOTS",
    "SLS",
    "BufferCounters",
    "Deaths",
    "Entry",
    "EventKind",
    "GroupCounters",
    "GroupLimits",
    "PortCounters",
    "PortProgram",
    "PortTables",
    "QueueCounters",
    "QueueLimits",
    "Sizes",
    "Watermark",
]

_OBJECT = Path(__file__).with_name("port.bpf.o")
_WITH_WAITS = Path(__file__).with_name("port_waits.bpf.o")
_NEEDED = ("__rtnl_unlock", "qdisc_reset", "__dev_forward_skb")
"""Functions of the kernel in which frames die; the program's preparation returns the place of one that is missing, from
1 up."""


@dataclass
class PortProgram(BufferTables):
    """The loaded program; `close` unloads it. With `waits` it also keeps in which queues the frames of a group lie."""

    waits: bool = False
    attached: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._object = bpf.Object((_WITH_WAITS if self.waits else _OBJECT).read_bytes())
        self._ports, self._groups = self._object.map("ports"), self._object.map("groups")
        self._buffers, self._rings = self._object.map("buffers"), self._object.map("rings")
        self._stations, self._applications = self._object.map("stations"), self._object.map("applications")
        self._lanes, self._queues = self._object.map("lanes"), self._object.map("queues")
        for found, expected in (
            (self._ports, PORT),
            (self._groups, GROUP),
            (self._buffers, BUFFER),
            (self._queues, QUEUE),
        ):
            if found.value_size != expected.size:
                raise bpf.BpfError(
                    f"{_OBJECT.name} was not built from this source: an entry of {found.name} has {found.value_size} "
                    f"octets, not {expected.size}; run python3 -m testbed.linux.port_program.build"
                )
        self.port_memory = self._ports.shared()
        self.group_memory = self._groups.shared()
        self.queue_memory = self._queues.shared()
        self._programs = {name: self._object.program(name) for name in ("port_in", "port_out", "cross")}
        requests = ("recheck", "admit_cells", "release_cells", "limit", "resize", "clear_watermark")
        self._requests = {name: self._object.program(name) for name in requests}
        if missing := bpf.run(self._object.program("prepare"), bytearray(REQUEST.size)):
            function = _NEEDED[missing - 1]
            raise bpf.BpfError(f"this kernel has no {function}: frames that die in it could not be noticed")
        self._links: list[int] = []

    def watch_queues(self) -> None:
        """Have frames that leave a queue, or die in it, give their cells back."""
        self._links = [self._object.attach(name) for name in ("left", "freed")]

    def waiting(self, group: tuple[int, int], queue: tuple[int, int]) -> int:
        """The cells of a group, (slot, priority), that lie in a queue, (slot, number). Only with `waits`."""
        (slot, priority), (out, number) = group, queue
        key = (slot * PRIORITIES + priority) << 16 | out * PRIORITIES + number
        try:
            return int.from_bytes(self._object.map("waits")[key], "little")
        except bpf.BpfError:  # none has come this way so far
            return 0

    def add_ring(self, node: int) -> bpf.Ring:
        """The channel to the agent of a node."""
        ring = bpf.Ring(RING_BYTES)
        self._rings[node] = struct.pack("=I", ring.fd)
        return ring

    def set_port(self, slot: int, tables: PortTables) -> None:
        start = slot * PORT.size
        self.port_memory[start : start + PORT_SETTINGS.size] = tables.encode()

    def set_station(self, node: int, address: bytes, slot: int) -> None:
        """Frames to this address leave a switch by the port `slot`."""
        self._stations[STATION.pack(address, node)] = struct.pack("=I", FIRST_INTERFACE + slot)

    def set_blocked(self, slot: int, priorities: int) -> None:
        """The priorities, as a mask, whose frames the port `slot` drops instead of queueing them."""
        self.port_memory[slot * PORT.size + BLOCKED] = priorities

    def set_queues(self, slot: int, queues: Sequence[int]) -> None:
        """The queue (socket priority) of each local priority, from the next frame on."""
        start = slot * PORT.size + QUEUES_AT
        self.port_memory[start : start + QUEUES.size] = QUEUES.pack(*queues)

    def set_defended(self, slot: int, priorities: int) -> None:
        """The priorities, as a mask, of which the port `slot` discards what comes in, but for link-local frames."""
        self.port_memory[slot * PORT.size + DEFENDED] = priorities

    def defended(self, slot: int) -> int:
        return self.port_memory[slot * PORT.size + DEFENDED]

    def set_applications(self, slot: int, old: Mapping[Entry, int], new: Mapping[Entry, int]) -> None:
        """The priorities of protocols for frames that the node of this port sends; `old` are those to take away."""
        for about, protocol in old.keys() - new.keys():
            with suppress(bpf.BpfError):  # a predecessor may have done it
                del self._applications[APPLICATION.pack(slot << 32 | about << 16 | protocol)]
        for (about, protocol), priority in new.items():
            self._applications[APPLICATION.pack(slot << 32 | about << 16 | protocol)] = bytes([priority])
        kinds = {about for about, _ in new}
        self.port_memory[slot * PORT.size + APPLICATIONS] = sum(1 << about for about in kinds)

    def set_lanes(self, slot: int, old: Mapping[int, tuple[int, ...]], new: Mapping[int, tuple[int, ...]]) -> None:
        """The VL of each SL for frames that leave by the port `slot`, by the slot of the port that they came in by, or
        OWN_FRAMES. Each table changes at once; `old` are those to take away.
        """
        for source, table in new.items():
            self._lanes[CROSSING.pack(slot, source)] = bytes(table)
        self.port_memory[slot * PORT.size + LANES] = bool(new)
        for source in old.keys() - new.keys():
            del self._lanes[CROSSING.pack(slot, source)]

    def lanes(self, slot: int, source: int) -> tuple[int, ...] | None:
        """The table in force; None: frames of this way have the priority that their own marks give."""
        if not self.port_memory[slot * PORT.size + LANES]:
            return None
        try:
            return tuple(self._lanes[CROSSING.pack(slot, source)])
        except bpf.BpfError:
            return None

    def attach(self, slot: int) -> None:
        """Put the program on a port in this process's network namespace."""
        interface = FIRST_INTERFACE + slot
        for name, hook in (("port_in", bpf.TCX_INGRESS), ("port_out", bpf.TCX_EGRESS)):
            self.attached[slot, hook] = bpf.attach_tcx(self._programs[name], interface, hook)

    def attach_cable_end(self, interface: int) -> None:
        """Let what enters here leave by the other end of the cable."""
        self.attached[interface, bpf.TCX_INGRESS] = bpf.attach_tcx(self._programs["cross"], interface, bpf.TCX_INGRESS)

    def port(self, slot: int) -> PortCounters:
        fields = PORT.unpack_from(self.port_memory, slot * PORT.size)[-78:]
        sent, octets, blocked, defended, steered = (fields[start : start + 8] for start in range(0, 40, 8))
        return PortCounters(
            sent,
            octets,
            blocked,
            defended,
            steered,
            fields[40:56],
            fields[56],
            fields[57],
            Deaths(*fields[58:62]),
            fields[62:70],
            fields[70:78],
        )

    def groups_of(self, slot: int) -> bytes:
        """All groups of a port as they are in memory: equal octets, equal counters."""
        start = slot * PRIORITIES * GROUP.size
        return bytes(self.group_memory[start : start + PRIORITIES * GROUP.size])

    def queued(self, slot: int) -> tuple[int, ...]:
        """Octets that wait in each queue of a port of a switch."""
        return QUEUED.unpack_from(self.port_memory, slot * PORT.size + QUEUED_AT)

    def close(self) -> None:
        for fd in (*self.attached.values(), *self._links):
            os.close(fd)
        self.attached.clear()
        self._object.close()
