"""The user-space side of the port program (`port.bpf.c`): loading it, configuring ports, reading counters.

One program and one set of maps serve all nodes of a network. Forked agents inherit the descriptors and the shared
memory; when the last process that holds them ends, the kernel removes programs, maps and attachments.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
    NODES,
    ONE_OF,
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
    WAYS_ENTRY,
    WHOLE,
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
    WholePort,
)
from testbed.linux.port_program.trimming_tables import EXCEPTION, TRIMMING, Trimmed, TrimmingTables
from testbed.linux.port_program.ways_tables import WayCounters, WaysTables

if TYPE_CHECKING:
    from testbed.linux.port_program.tunnel_ecn import TunnelEcn

__all__ = [
    "DROP_REASONS",
    "EVENT",
    "FIRST_INTERFACE",
    "FRAME_OCTETS",
    "NODES",
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
    "Trimmed",
    "TrimmingTables",
    "Watermark",
    "WayCounters",
    "WholePort",
]

_OBJECT = Path(__file__).with_name("port.bpf.o")
_WITH_WAITS = Path(__file__).with_name("port_waits.bpf.o")
_WITH_TELEMETRY = Path(__file__).with_name("port_telemetry.bpf.o")
_WITH_TRIMMING = Path(__file__).with_name("port_trimming.bpf.o")
_WITH_ALL = Path(__file__).with_name("port_all.bpf.o")
_WITH_DEI = Path(__file__).with_name("port_dei.bpf.o")
_WITH_RULES = Path(__file__).with_name("port_rules.bpf.o")
_NEEDED = ("__rtnl_unlock", "qdisc_reset", "__dev_forward_skb")
"""The functions of the kernel in which frames die. If one is missing, the program `prepare` returns its place here,
counted from 1."""


_STAMPING = struct.Struct("=II2Q")
_RATE = struct.Struct("=I")


class Stamped(NamedTuple):
    """The packets that one port stamped, and those in which it found no room for its stamp."""

    stamped: int
    no_room: int


class Stampings:
    """The entries of all ports of a network, by slot."""

    def __init__(self, memory: mmap.mmap | bytearray) -> None:
        self._memory = memory

    def set_rate(self, slot: int, kbps: int) -> None:
        """Have a port stamp packets, with this rate of its line; 0: it stamps none."""
        _RATE.pack_into(self._memory, slot * _STAMPING.size, kbps)

    def counters(self, slot: int) -> Stamped:
        """Return the counters of a port."""
        _, _, stamped, no_room = _STAMPING.unpack_from(self._memory, slot * _STAMPING.size)
        return Stamped(stamped, no_room)


def _check_size(found: bpf.Map, expected: struct.Struct) -> None:
    if found.value_size != expected.size:
        raise bpf.BpfError(
            f"{_OBJECT.name} was not built from this source: an entry of {found.name} has {found.value_size} "
            f"octets, not {expected.size}; run python3 -m testbed.linux.port_program.build"
        )


@dataclass
class PortProgram:
    """The loaded program; `close` unloads it. With `waits` it also counts the cells of each group in each queue, with
    `telemetry` ports can stamp packets, with `lines` they can keep cells until last bits have left, with `trimming`
    they can cut what finds no room, and with `dei`, which goes with neither of
    these two, they can look at a tag's drop eligible indicator.
    `telemetry` ports can stamp packets, with `lines` they can keep cells until last bits have left, and with `trimming`
    they can cut what finds no room. With `rules` it asks rules of the user's own, which takes the kernel of `um`.
    """

    waits: bool = False
    telemetry: bool = False
    lines: bool = False
    trimming: bool = False
    dei: bool = False
    rules: bool = False
    attached: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._object = bpf.Object(
            self._chosen().read_bytes(), struct.pack("=I", self.lines), () if self.lines else ("lines", "set_up_line")
        )
        self._ports, self._groups = self._object.map("ports"), self._object.map("groups")
        self._buffers, self._rings = self._object.map("buffers"), self._object.map("rings")
        self._stations, self._applications = self._object.map("stations"), self._object.map("applications")
        self._lanes, self._queues = self._object.map("lanes"), self._object.map("queues")
        for found, expected in (
            (self._ports, PORT),
            (self._groups, GROUP),
            (self._buffers, BUFFER),
            (self._queues, QUEUE),
            (self._object.map("wholes"), WHOLE),
            (self._object.map("ways"), WAYS_ENTRY),
        ):
            _check_size(found, expected)
        self.port_memory: mmap.mmap | bytearray = self._ports.shared()
        group_memory, queue_memory = self._groups.shared(), self._queues.shared()
        self._programs = {name: self._object.program(name) for name in ("port_in", "port_out", "cross")}
        requests = ("recheck", "admit_cells", "release_cells", "limit", "resize", "clear_watermark")
        self.buffers = BufferTables(
            group_memory,
            queue_memory,
            self._object.map("wholes").shared(),
            self._buffers,
            {name: self._object.program(name) for name in requests},
        )
        """The buffers of all nodes."""
        self.ways = WaysTables(self._object.map("ways").shared(), self._object.program("choose_way"))
        """The groups of equal ways of all switches."""
        self.stampings = Stampings(self._object.map("stampings").shared()) if self.telemetry else None
        """The stamps of ports, in a network with telemetry."""
        self.tunnel_ecn: TunnelEcn | None = None
        """The program that copies ECN fields between headers of tunnels, if a node asks for it."""
        self.trimming_tables = self._trimming_tables() if self.trimming else None
        """The trimming of each port, in a network with trimming."""
        if missing := bpf.run(self._object.program("prepare"), bytearray(REQUEST.size)):
            function = _NEEDED[missing - 1]
            raise bpf.BpfError(f"this kernel has no function {function}, in which the port program counts lost frames")
        self._links: list[int] = []

    def _chosen(self) -> Path:
        if self.dei:
            return _WITH_DEI
        if self.rules:
            return _WITH_RULES
        if self.trimming:
            return _WITH_ALL if self.telemetry or self.waits else _WITH_TRIMMING
        return _WITH_TELEMETRY if self.telemetry else _WITH_WAITS if self.waits else _OBJECT

    def _trimming_tables(self) -> TrimmingTables:
        found = [self._object.map("trimmings"), self._object.map("exceptions")]
        for one, expected in zip(found, (TRIMMING, EXCEPTION), strict=True):
            _check_size(one, expected)
        return TrimmingTables(*(one.shared() for one in found))

    @property
    def groups(self) -> bpf.Map:
        """The map of all priority groups."""
        return self._groups

    def watch_queues(self) -> None:
        """Attach to the tracepoints by which frames that leave a queue, or die in it, give their cells back."""
        self._links = [self._object.attach(name) for name in ("left", "freed")]

    def waiting(self, group: tuple[int, int], queue: tuple[int, int]) -> int:
        """Return how many cells of a group (slot, priority) wait in a queue (slot, number). It needs `waits`."""
        (slot, priority), (out, number) = group, queue
        key = (slot * PRIORITIES + priority) << 16 | out * PRIORITIES + number
        try:
            return int.from_bytes(self._object.map("waits")[key], "little")
        except bpf.BpfError:  # no frame has taken this way yet
            return 0

    def add_ring(self, node: int) -> bpf.Ring:
        """Create the ring buffer by which the program tells a node's agent of events."""
        ring = bpf.Ring(RING_BYTES)
        self._rings[node] = struct.pack("=I", ring.fd)
        return ring

    def set_port(self, slot: int, tables: PortTables) -> None:
        """Set the tables of a port. Its counters stay."""
        start = slot * PORT.size
        self.port_memory[start : start + PORT_SETTINGS.size] = tables.encode()

    def set_drop_eligible(self, slot: int, table: Sequence[int]) -> None:
        """Set the dot1p value by PCP of frames whose DEI is set. It needs `dei`."""
        self._object.map("drop_eligible")[struct.pack("=I", slot)] = bytes(table)

    def set_station(self, node: int, address: bytes, slot: int) -> None:
        """Make a switch forward frames to this address by the port `slot`."""
        self._stations[STATION.pack(address, node)] = struct.pack("=I", FIRST_INTERFACE + slot)

    def set_station_by_ways(self, node: int, address: bytes, group: int) -> None:
        """Make a switch forward frames to this address by one of the ways of a group."""
        self._stations[STATION.pack(address, node)] = struct.pack("=I", ONE_OF | group)

    def set_blocked(self, slot: int, priorities: int) -> None:
        """Set the mask of priorities whose frames the port `slot` drops instead of queueing them."""
        self.port_memory[slot * PORT.size + BLOCKED] = priorities

    def set_queues(self, slot: int, queues: Sequence[int]) -> None:
        """Set the queue (socket priority) of each local priority, from the next frame on."""
        start = slot * PORT.size + QUEUES_AT
        self.port_memory[start : start + QUEUES.size] = QUEUES.pack(*queues)

    def set_defended(self, slot: int, priorities: int) -> None:
        """Set the mask of priorities whose arriving frames the port `slot` discards, except link-local ones."""
        self.port_memory[slot * PORT.size + DEFENDED] = priorities

    def defended(self, slot: int) -> int:
        """Return the mask that `set_defended` has set."""
        return self.port_memory[slot * PORT.size + DEFENDED]

    def set_applications(self, slot: int, old: Mapping[Entry, int], new: Mapping[Entry, int]) -> None:
        """Set the priorities of protocols in frames that this port's node sends, and remove those in `old` alone."""
        for about, protocol in old.keys() - new.keys():
            with suppress(bpf.BpfError):  # an agent that died may have removed it
                del self._applications[APPLICATION.pack(slot << 32 | about << 16 | protocol)]
        for (about, protocol), priority in new.items():
            self._applications[APPLICATION.pack(slot << 32 | about << 16 | protocol)] = bytes([priority])
        kinds = {about for about, _ in new}
        self.port_memory[slot * PORT.size + APPLICATIONS] = sum(1 << about for about in kinds)

    def set_lanes(self, slot: int, old: Mapping[int, tuple[int, ...]], new: Mapping[int, tuple[int, ...]]) -> None:
        """Set the SL2VL tables of the port `slot`, by the slot of the input port or OWN_FRAMES.

        Each table changes atomically. Tables that are in `old` alone are removed.
        """
        for source, table in new.items():
            self._lanes[CROSSING.pack(slot, source)] = bytes(table)
        self.port_memory[slot * PORT.size + LANES] = bool(new)
        for source in old.keys() - new.keys():
            del self._lanes[CROSSING.pack(slot, source)]

    def set_up_line(self, slot: int) -> bool:
        """Make a port ready to keep cells until last bits have left, before there are any frames.

        Return False if this kernel has no timers for the port program.
        """
        return not bpf.run(self._object.program("set_up_line"), bytearray(struct.pack("=I", slot)))

    def lanes(self, slot: int, source: int) -> tuple[int, ...] | None:
        """Return the SL2VL table between two ports, or None if frames keep the priority that they are marked with."""
        if not self.port_memory[slot * PORT.size + LANES]:
            return None
        try:
            return tuple(self._lanes[CROSSING.pack(slot, source)])
        except bpf.BpfError:
            return None

    def attach(self, slot: int) -> None:
        """Attach the program to a port, which has to be in the network namespace of this process."""
        interface = FIRST_INTERFACE + slot
        for name, hook in (("port_in", bpf.TCX_INGRESS), ("port_out", bpf.TCX_EGRESS)):
            self.attached[slot, hook] = bpf.attach_tcx(self._programs[name], interface, hook)

    def attach_cable_end(self, interface: int) -> None:
        """Make frames that arrive at one end of a cable's middle leave by the other."""
        self.attached[interface, bpf.TCX_INGRESS] = bpf.attach_tcx(self._programs["cross"], interface, bpf.TCX_INGRESS)

    def port(self, slot: int) -> PortCounters:
        """Return the counters of a port."""
        fields = PORT.unpack_from(self.port_memory, slot * PORT.size)[-82:]
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
            Deaths(*fields[58:63]),
            fields[66:74],
            fields[74:82],
        )

    def queued(self, slot: int) -> tuple[int, ...]:
        """Return how many octets wait in each queue of a switch's port."""
        return QUEUED.unpack_from(self.port_memory, slot * PORT.size + QUEUED_AT)

    def close(self) -> None:
        """Detach and unload the program."""
        for fd in (*self.attached.values(), *self._links):
            os.close(fd)
        self.attached.clear()
        self._object.close()
