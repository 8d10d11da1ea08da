"""The port program (`port.bpf.c`) from user space: loading, configuration of ports, counters.

One program and one set of maps serve all nodes of a network. Forked agents inherit the descriptors and the shared
memory; when the last process that holds them ends, the kernel removes programs, maps and attachments.
"""

from __future__ import annotations

import enum
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from testbed.linux import bpf

SLOTS = 1024
FIRST_INTERFACE = 4096
"""Ports have interface indices from here on, one for each slot and unique in the whole network."""
PRIORITIES = 8
RING_BYTES = 1 << 16

_OBJECT = Path(__file__).with_name("port.bpf.o")
_TABLES = 98
_PORT = struct.Struct(f"=III8IBBBBBB{_TABLES}s4x8Q8Q8Q8Q8Q16QQQ8Q8Q")
_PORT_SETTINGS = struct.Struct(f"=III8IBBBBBB{_TABLES}s")
_QUEUES = struct.Struct("=8I")
_QUEUES_AT = struct.Struct("=III").size
_QUEUED = struct.Struct("=8Q")
_QUEUED_AT = _PORT.size - 2 * _QUEUED.size
_BLOCKED, _DEFENDED, _APPLICATIONS, _LANES = (struct.Struct("=III8IBB").size + number for number in range(4))
"""Where things are in a port's entry."""
_GROUP = struct.Struct("=6I3I3III2Q2Q2Q4Q4QQ")
_GROUP_SETTINGS = struct.Struct("=6I")
_XOFF_AT = struct.Struct("=6I3I3II").size
_BUFFER = struct.Struct("=II3I3I3II")
EVENT = struct.Struct("=QHHBBHII")
"""time_ns, kind, slot, priority, reason, length, shared, headroom; a frame's octets follow, 64 of them."""
FRAME_OCTETS = 64
_REQUEST = struct.Struct("=5I")
_SIZES = struct.Struct("=4I")
_APPLICATION = struct.Struct("=Q")
_STATION = struct.Struct("=6sH")
_CROSSING = struct.Struct("=HH")
SLS = 16
OWN_FRAMES = 0xFFFF
"""In place of an input port's slot: frames of the node itself."""


class EventKind(enum.IntEnum):
    FRAME = 1
    XOFF = 2
    XON = 3
    DROP = 4


Entry = tuple[int, int]
"""Of the application table: what it is about, as testbed.priority.applications.About, and the protocol's ID."""

DROP_REASONS = ("headroom", "headroom pool", "threshold", "shared pool")
"""As in `testbed.buffer.model.DropReason`, in the program's order."""


@dataclass(frozen=True)
class PortTables:
    """What the program has to know of a port; `priorities` are PriorityMap.tables()."""

    node: int
    buffer: int | None
    control: int
    queues: tuple[int, ...]
    priorities: bytes
    switched: bool = False
    """Does the forwarding table hold for what comes in here?"""
    routed: bool = False
    """Is it a router's port?"""
    steered: bool = False
    """Is it a leaf's, whose frames Open vSwitch forwards, and whose controller may choose their priorities?"""

    def encode(self) -> bytes:
        has_buffer = self.buffer is not None
        return _PORT_SETTINGS.pack(
            self.node,
            self.buffer or 0,
            self.control,
            *self.queues,
            has_buffer,
            3 if self.steered else 2 if self.routed else self.switched,
            0,
            0,
            0,
            0,
            self.priorities,
        )


@dataclass(frozen=True)
class GroupLimits:
    """One priority of one ingress port, in cells; `alpha` is None for a static threshold."""

    lossless: bool
    guaranteed: int
    static: int
    alpha: Fraction | None
    xon_offset: int
    headroom: int

    def encode(self) -> bytes:
        terms = (self.alpha.numerator, self.alpha.denominator) if self.alpha else (self.static, 0)
        return _GROUP_SETTINGS.pack(self.lossless, self.guaranteed, *terms, self.xon_offset, self.headroom)


@dataclass(frozen=True)
class GroupCounters:
    """What the program counted of a group."""

    used: tuple[int, int, int]
    high_water: tuple[int, int, int]
    most_cells: int
    xoff: bool
    xoffs: int
    xons: int
    admitted_frames: int
    admitted_cells: int
    released_frames: int
    released_cells: int
    dropped_frames: tuple[int, ...]
    dropped_cells: tuple[int, ...]
    impossible_releases: int


@dataclass(frozen=True)
class BufferCounters:
    size: tuple[int, int, int]
    used: tuple[int, int, int]
    high_water: tuple[int, int, int]
    most_cells: int


@dataclass(frozen=True)
class PortCounters:
    """By local priority, of frames put into this port's queues, and of frames that the watchdog kept out; by priority,
    of frames that came in and were discarded by defense, and of those sent whose priority a controller chose. By SL, of
    frames that were to leave by this port and have no VL there. By queue, octets without FCS that wait in a port of a
    switch, and the most that did."""

    sent_frames: tuple[int, ...]
    sent_bytes: tuple[int, ...]
    blocked_frames: tuple[int, ...]
    defended_frames: tuple[int, ...]
    steered_frames: tuple[int, ...]
    vl15_frames: tuple[int, ...]
    lost_events: int
    seen_frames: int
    queued_bytes: tuple[int, ...]
    most_queued_bytes: tuple[int, ...]


@dataclass
class PortProgram:
    """The loaded program; `close` unloads it."""

    attached: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._object = bpf.Object(_OBJECT.read_bytes())
        self._ports, self._groups = self._object.map("ports"), self._object.map("groups")
        self._buffers, self._rings = self._object.map("buffers"), self._object.map("rings")
        self._stations, self._applications = self._object.map("stations"), self._object.map("applications")
        self._lanes = self._object.map("lanes")
        for found, expected in (
            (self._ports, _PORT),
            (self._groups, _GROUP),
            (self._buffers, _BUFFER),
        ):
            if found.value_size != expected.size:
                raise bpf.BpfError(
                    f"{_OBJECT.name} was not built from this source: an entry of {found.name} has {found.value_size} "
                    f"octets, not {expected.size}; run python3 -m testbed.linux.port_program.build"
                )
        self.port_memory = self._ports.shared()
        self.group_memory = self._groups.shared()
        self._programs = {name: self._object.program(name) for name in ("port_in", "port_out", "cross")}
        requests = ("recheck", "admit_cells", "release_cells", "limit", "resize")
        self._requests = {name: self._object.program(name) for name in requests}
        if bpf.run(self._object.program("prepare"), bytearray(_REQUEST.size)):
            raise bpf.BpfError(
                "this kernel has no __rtnl_unlock: frames that die with their queue could not be noticed"
            )
        self._links: list[int] = []

    def watch_queues(self) -> None:
        """Have frames that leave a queue, or die in it, give their cells back."""
        self._links = [self._object.attach(name) for name in ("left", "freed")]

    def add_ring(self, node: int) -> bpf.Ring:
        """The channel to the agent of a node."""
        ring = bpf.Ring(RING_BYTES)
        self._rings[node] = struct.pack("=I", ring.fd)
        return ring

    def set_port(self, slot: int, tables: PortTables) -> None:
        start = slot * _PORT.size
        self.port_memory[start : start + _PORT_SETTINGS.size] = tables.encode()

    def set_group(self, slot: int, priority: int, limits: GroupLimits) -> None:
        start = (slot * PRIORITIES + priority) * _GROUP.size
        self.group_memory[start : start + _GROUP_SETTINGS.size] = limits.encode()

    def limits(self, slot: int, priority: int) -> GroupLimits:
        """Is the group congested at this moment?"""
        start = (slot * PRIORITIES + priority) * _GROUP.size
        lossless, guaranteed, above, below, offset, headroom = _GROUP_SETTINGS.unpack_from(self.group_memory, start)
        alpha = Fraction(above, below) if below else None
        return GroupLimits(bool(lossless), guaranteed, 0 if below else above, alpha, offset, headroom)

    def set_buffer(self, buffer: int, cell_bytes: int, guaranteed: int, shared: int, headroom: int) -> None:
        self._buffers[buffer] = _BUFFER.pack(0, cell_bytes, guaranteed, shared, headroom, *[0] * 7)

    def set_station(self, node: int, address: bytes, slot: int) -> None:
        """Frames to this address leave a switch by the port `slot`."""
        self._stations[_STATION.pack(address, node)] = struct.pack("=I", FIRST_INTERFACE + slot)

    def set_blocked(self, slot: int, priorities: int) -> None:
        """The priorities, as a mask, whose frames the port `slot` drops instead of queueing them."""
        self.port_memory[slot * _PORT.size + _BLOCKED] = priorities

    def set_queues(self, slot: int, queues: Sequence[int]) -> None:
        """The queue (socket priority) of each local priority, from the next frame on."""
        start = slot * _PORT.size + _QUEUES_AT
        self.port_memory[start : start + _QUEUES.size] = _QUEUES.pack(*queues)

    def set_defended(self, slot: int, priorities: int) -> None:
        """The priorities, as a mask, of which the port `slot` discards what comes in, but for link-local frames."""
        self.port_memory[slot * _PORT.size + _DEFENDED] = priorities

    def defended(self, slot: int) -> int:
        return self.port_memory[slot * _PORT.size + _DEFENDED]

    def set_applications(self, slot: int, old: Mapping[Entry, int], new: Mapping[Entry, int]) -> None:
        """The priorities of protocols for frames that the node of this port sends; `old` are those to take away."""
        for about, protocol in old.keys() - new.keys():
            with suppress(bpf.BpfError):  # a predecessor may have done it
                del self._applications[_APPLICATION.pack(slot << 32 | about << 16 | protocol)]
        for (about, protocol), priority in new.items():
            self._applications[_APPLICATION.pack(slot << 32 | about << 16 | protocol)] = bytes([priority])
        kinds = {about for about, _ in new}
        self.port_memory[slot * _PORT.size + _APPLICATIONS] = sum(1 << about for about in kinds)

    def set_lanes(self, slot: int, old: Mapping[int, tuple[int, ...]], new: Mapping[int, tuple[int, ...]]) -> None:
        """The VL of each SL for frames that leave by the port `slot`, by the slot of the port that they came in by, or
        OWN_FRAMES. Each table changes at once; `old` are those to take away.
        """
        for source, table in new.items():
            self._lanes[_CROSSING.pack(slot, source)] = bytes(table)
        self.port_memory[slot * _PORT.size + _LANES] = bool(new)
        for source in old.keys() - new.keys():
            del self._lanes[_CROSSING.pack(slot, source)]

    def lanes(self, slot: int, source: int) -> tuple[int, ...] | None:
        """The table in force; None: frames of this way have the priority that their own marks give."""
        if not self.port_memory[slot * _PORT.size + _LANES]:
            return None
        try:
            return tuple(self._lanes[_CROSSING.pack(slot, source)])
        except bpf.BpfError:
            return None

    def configure(
        self, buffer: int, sizes: tuple[int, int, int], limits: Mapping[tuple[int, int], GroupLimits]
    ) -> list[tuple[int, int]]:
        """Other pools (guaranteed, shared, headroom) and limits of all groups, by (slot, priority), while frames are
        inside. Returns the groups that resume. Whether a pool holds more than its new size is for the caller to ask
        (`busy`): here it would take nothing before it has drained.
        """
        old = self.buffer(buffer).size
        self._run("resize", _SIZES.pack(buffer, *map(max, old, sizes)))
        for (slot, priority), group in limits.items():
            if group != self.limits(slot, priority):
                self._run("limit", struct.pack("=2I", slot, priority) + group.encode())
        self._run("resize", _SIZES.pack(buffer, *sizes))
        return [key for key in limits if self.is_congested(*key) and self.recheck(*key)]

    def give_up(self, buffer: int, limits: Mapping[tuple[int, int], GroupLimits]) -> list[tuple[int, int]]:
        """Of new limits those of groups that lose headroom, while the pools stay as they are. For when the buffer is
        `busy`: such a group takes no more, so what it holds beyond its new limit drains. Returns the groups that
        resume.
        """
        losers = {
            key: replace(group, guaranteed=old.guaranteed)
            for key, group in limits.items()
            if group.headroom < (old := self.limits(*key)).headroom
        }
        return self.configure(buffer, self.buffer(buffer).size, losers)

    def busy(self, buffer: int, sizes: tuple[int, int, int], limits: Mapping[tuple[int, int], GroupLimits]) -> int:
        """How many cells have to drain before these settings can be used (BufferModel.configure)."""
        shared = headroom = owed = promised = 0
        for (slot, priority), group in limits.items():
            used = self.group(slot, priority).used
            shared += max(0, used[0] + used[1] - group.guaranteed)
            headroom += used[2]
            owed += max(used[2], group.headroom)
            promised += group.headroom
        overbooked = promised > sizes[2]
        return max(0, shared - sizes[1], (headroom if overbooked else owed) - sizes[2])

    def attach(self, slot: int) -> None:
        """Put the program on a port in this process's network namespace."""
        interface = FIRST_INTERFACE + slot
        for name, hook in (("port_in", bpf.TCX_INGRESS), ("port_out", bpf.TCX_EGRESS)):
            self.attached[slot, hook] = bpf.attach_tcx(self._programs[name], interface, hook)

    def attach_cable_end(self, interface: int) -> None:
        """Let what enters here leave by the other end of the cable."""
        self.attached[interface, bpf.TCX_INGRESS] = bpf.attach_tcx(self._programs["cross"], interface, bpf.TCX_INGRESS)

    def recheck(self, slot: int, priority: int) -> bool:
        """True if the group was congested and is not any longer, because others made room."""
        return self._request("recheck", slot, priority)[0] == EventKind.XON

    def has_room(self, slot: int, priority: int) -> bool:
        """After a recheck: False if the group is congested still. One that was not congested before has room, too."""
        return self.recheck(slot, priority) or not self.is_congested(slot, priority)

    def admit(self, slot: int, priority: int, cells: int) -> tuple[int, int]:
        """Charge cells as a frame would; the event and the reason of a drop (4: none). For tests."""
        return self._request("admit_cells", slot, priority, cells)

    def release(self, slot: int, priority: int, cells: int) -> tuple[int, int]:
        """Give cells back as a leaving frame would. For tests."""
        return self._request("release_cells", slot, priority, cells)

    def _run(self, name: str, context: bytes) -> None:
        if bpf.run(self._requests[name], bytearray(context)):
            raise bpf.BpfError(f"{name}: no such port or buffer in this network")

    def _request(self, name: str, slot: int, priority: int, cells: int = 0) -> tuple[int, int]:
        context = bytearray(_REQUEST.pack(slot, priority, cells, 0, 0))
        if bpf.run(self._requests[name], context):
            raise bpf.BpfError(f"slot {slot} priority {priority} is not a group of this network")
        *_, signal, result = _REQUEST.unpack(context)
        return signal, result

    def is_congested(self, slot: int, priority: int) -> bool:
        """One octet is read: agents ask this at every event."""
        return bool(self.group_memory[(slot * PRIORITIES + priority) * _GROUP.size + _XOFF_AT])

    def group(self, slot: int, priority: int) -> GroupCounters:
        fields = _GROUP.unpack_from(self.group_memory, (slot * PRIORITIES + priority) * _GROUP.size)[6:]
        return GroupCounters(
            used=fields[0:3],
            high_water=fields[3:6],
            most_cells=fields[6],
            xoff=bool(fields[7]),
            xoffs=fields[8],
            xons=fields[9],
            admitted_frames=fields[10],
            admitted_cells=fields[11],
            released_frames=fields[12],
            released_cells=fields[13],
            dropped_frames=fields[14:18],
            dropped_cells=fields[18:22],
            impossible_releases=fields[22],
        )

    def buffer(self, buffer: int) -> BufferCounters:
        fields = _BUFFER.unpack(self._buffers[buffer])
        return BufferCounters(fields[2:5], fields[5:8], fields[8:11], fields[11])

    def port(self, slot: int) -> PortCounters:
        fields = _PORT.unpack_from(self.port_memory, slot * _PORT.size)[-74:]
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
            fields[58:66],
            fields[66:74],
        )

    def groups_of(self, slot: int) -> bytes:
        """All groups of a port as they are in memory: equal octets, equal counters."""
        start = slot * PRIORITIES * _GROUP.size
        return bytes(self.group_memory[start : start + PRIORITIES * _GROUP.size])

    def queued(self, slot: int) -> tuple[int, ...]:
        """Octets that wait in each queue of a port of a switch."""
        return _QUEUED.unpack_from(self.port_memory, slot * _PORT.size + _QUEUED_AT)

    def close(self) -> None:
        for fd in (*self.attached.values(), *self._links):
            os.close(fd)
        self.attached.clear()
        self._object.close()
