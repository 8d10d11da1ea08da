"""The structures that the port program (`port.bpf.c`) and user space share: settings, counters, events."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

SLOTS, NODES = 2048, 1024
"""The most ports, and the most nodes with ports, of one network."""
FIRST_INTERFACE = 4096
"""The interface index of the port in slot 0; each slot has the next one, unique in the whole network."""
PRIORITIES = 8
RING_BYTES = 1 << 16

TABLES = 114
PORT = struct.Struct(f"=6I8IBBBBBBB{TABLES}s7x8Q8Q8Q8Q8Q16QQQ8Q8Q8Q")
PORT_SETTINGS = struct.Struct(f"=6I8IBBBBBBB{TABLES}s")
QUEUES = struct.Struct("=8I")
QUEUES_AT = struct.Struct("=6I").size
QUEUED = struct.Struct("=8Q")
QUEUED_AT = PORT.size - 2 * QUEUED.size
BLOCKED, DEFENDED, APPLICATIONS, LANES = (struct.Struct("=6I8IBB").size + number for number in range(4))
"""Positions of fields in a port's entry."""
GROUP = struct.Struct("=8I3I3III2Q2Q2Q8Q8QQ")
GROUP_SETTINGS = struct.Struct("=8I")
XOFF_AT = struct.Struct("=8I3I3II").size
ADMITTED_CELLS_AT, RELEASED_CELLS_AT = (struct.Struct(f"=8I3I3III2Q{before}Q").size for before in (1, 3))
LOSSY, LOSSLESS, WITH_PORT = range(3)
"""The kinds of a group; WITH_PORT: lossless, and its port is paused as a whole when it has no room."""
WHOLE = struct.Struct("=8I2Q")
WHOLE_SETTINGS = struct.Struct("=2I")
QUEUE = struct.Struct("=5I2I2II4Q")
QUEUE_SETTINGS = struct.Struct("=5I")
POOLS = 4
"""The number of pools that a node can have in each direction."""
POOL = struct.Struct("=3I3I3II")
BUFFER = struct.Struct(f"=II{2 * POOLS * POOL.size}s")
EVENT = struct.Struct("=QHHBBHII")
"""time_ns, kind, slot, priority, reason, length, shared, headroom; the first 64 octets of a frame follow."""
FRAME_OCTETS = 64
REQUEST = struct.Struct("=6I")
NO_QUEUE = 0xFFFFFFFF
SIZES = struct.Struct("=5I")
WATERMARK = struct.Struct("=3I3II")
OF_GROUP, OF_QUEUE, OF_POOL = range(3)
WAYS, MEMBERS, TABLE = 1024, 64, 256
"""The most groups of equal ways in one network, the most ways in one of them, and the most entries of its table."""
MEMBER = struct.Struct("=II4Q")
WAYS_SETTINGS = struct.Struct("=3I")
WAYS_HEAD = struct.Struct("=8I3Q")
WAYS_ENTRY = struct.Struct(f"={WAYS_HEAD.size}s{TABLE}s{MEMBERS * MEMBER.size}s")
WAYS_SIZE_AT = WAYS_SETTINGS.size
ONE_OF = 0x80000000
"""This bit in a station's entry means that the rest is the number of a group."""
CHOICE = struct.Struct("=IIQ15II")
"""A choice by itself: group, length of the frame, time, the words that are hashed, and their hash."""
APPLICATION = struct.Struct("=Q")
STATION = struct.Struct("=6sH")
CROSSING = struct.Struct("=HH")
SLS = 16
OWN_FRAMES = 0xFFFF
"""The input slot of frames that the node itself sends."""


class EventKind(enum.IntEnum):
    """The kinds of events that the port program reports to an agent."""

    FRAME = 1
    XOFF = 2
    XON = 3
    DROP = 4


Entry = tuple[int, int]
"""A key of the application table: the kind of protocol (testbed.switch.priority.applications.About) and its ID."""

DROP_REASONS = ("headroom", "headroom pool", "threshold", "shared pool", "queue threshold", "egress pool")
"""The names in `testbed.switch.buffer.model.DropReason`, in the program's order."""
REASONS = len(DROP_REASONS)
RULED = 6
"""The place, beside the reasons, of frames that a rule of one's own refused."""
TRIMMED = 7
"""The place, beside the reasons, of frames that were trimmed instead of dropped."""
TRIMMED_QUEUE = 4
"""In the reason of an event with TRIMMED in it, the bits from which on the queue is that was full."""


class Deaths(NamedTuple):
    """Counters of frames to be sent by a port that were lost outside the buffer; MAC control and LLDP do not count."""

    by_queue: int
    """The frames that a qdisc of the port dropped, because it was full, marks early, or has no carrier."""
    with_queue: int
    """The frames that waited in a queue which a lost carrier or a watchdog emptied."""
    at_link: int
    """The frames that were sent while the other end was down."""
    in_cable: int
    """The frames that were lost in the middle of the cable."""
    too_long: int
    """The frames that were longer than the cable's MTU."""


Sizes = tuple[int, int, int]
"""The guaranteed, shared and headroom cells of an ingress pool, or the reserved and shared cells of an egress pool."""


@dataclass(frozen=True)
class PortTables:
    """The settings of a port in the program; `priorities` are PriorityMap.tables()."""

    node: int
    buffer: int | None
    control: int
    queues: tuple[int, ...]
    priorities: bytes
    switched: bool = False
    """True if frames that arrive here are forwarded by the switch's forwarding table."""
    routed: bool = False
    """True for a router's port."""
    counted: bool = False
    """True if frames that leave here are charged to queues of egress pools."""
    steered: bool = False
    """True for a leaf's port: Open vSwitch forwards its frames, and the controller may choose their priorities."""
    pause: int | None = None
    """The socket priority of PFC frames; None if it is `control`."""
    octet_ps: int = 0
    """The time of an octet on the line, which keeps a frame's cells until its last bit has left; 0: it leaves at once.
    """
    pause_ns: int = 0
    """The time from the first bit of a PFC frame that comes in to its last one."""

    def encode(self) -> bytes:
        """Return the settings as octets of the port's entry."""
        has_buffer = self.buffer is not None
        return PORT_SETTINGS.pack(
            self.node,
            self.buffer or 0,
            self.control,
            self.control if self.pause is None else self.pause,
            min(self.octet_ps, 0xFFFF_FFFF),
            self.pause_ns,
            *self.queues,
            has_buffer,
            3 if self.steered else 2 if self.routed else self.switched,
            0,
            0,
            0,
            0,
            self.counted,
            self.priorities,
        )


@dataclass(frozen=True)
class GroupLimits:
    """The limits of a group, which is one priority of one ingress port, in cells; `alpha` is None if it is static."""

    lossless: bool
    guaranteed: int
    static: int
    alpha: Fraction | None
    xon_offset: int
    headroom: int
    xon: int = 0
    pool: int = 0
    with_port: bool = False
    """True if the headroom is the port's, and the port is paused as a whole when it has no room."""

    def encode(self) -> bytes:
        terms = _terms(self.static, self.alpha)
        return GROUP_SETTINGS.pack(
            WITH_PORT if self.lossless and self.with_port else self.lossless,
            self.guaranteed,
            *terms,
            self.xon_offset,
            self.headroom,
            self.xon,
            self.pool,
        )


@dataclass(frozen=True)
class QueueLimits:
    """The limits of one queue of an egress port, in cells; `alpha` is None for a static threshold."""

    pool: int
    reserved: int
    static: int
    alpha: Fraction | None

    def encode(self) -> bytes:
        return QUEUE_SETTINGS.pack(True, self.pool, self.reserved, *_terms(self.static, self.alpha))


def _terms(static: int, alpha: Fraction | None) -> tuple[int, int]:
    return (alpha.numerator, alpha.denominator) if alpha else (static, 0)


@dataclass(frozen=True)
class GroupCounters:
    """The program's counters of one group: cells in use, their maxima, and frames."""

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
    trimmed_frames: int = 0
    """The frames that found no room and were trimmed; what is left of them is a frame of another group."""
    trimmed_cells: int = 0
    ruled_frames: int = 0
    """The frames that a rule of the port by which they were to leave dropped."""
    ruled_cells: int = 0


class WholePort(NamedTuple):
    """The lossless groups of one port together, where ports are paused as a whole: settings, cells and pauses."""

    groups: int
    headroom: int
    """The most cells that the groups may have in headroom together."""
    used_shared: int
    used_headroom: int
    most_shared: int
    most_headroom: int
    paused: bool
    pauses: int
    resumes: int


@dataclass(frozen=True)
class BufferCounters:
    """The size of a pool, and the program's counters of it."""

    size: tuple[int, int, int]
    used: tuple[int, int, int]
    high_water: tuple[int, int, int]
    most_cells: int


@dataclass(frozen=True)
class QueueCounters:
    """The program's counters of one queue with limits; cells are reserved and shared ones."""

    used: tuple[int, int]
    high_water: tuple[int, int]
    most_cells: int
    admitted_frames: int
    admitted_cells: int
    dropped_frames: int
    dropped_cells: int


@dataclass(frozen=True)
class PortCounters:
    """The program's counters of one port."""

    sent_frames: tuple[int, ...]
    """The frames that were put into the port's queues, by local priority."""
    sent_bytes: tuple[int, ...]
    """The octets of these frames without FCS."""
    blocked_frames: tuple[int, ...]
    """The frames that were dropped because a watchdog blocks their priority, by local priority."""
    defended_frames: tuple[int, ...]
    """The arriving frames that were discarded by defense, by priority."""
    steered_frames: tuple[int, ...]
    """The sent frames whose priority a controller chose, by priority."""
    vl15_frames: tuple[int, ...]
    """The frames that were to leave by this port and have no VL there, by SL."""
    lost_events: int
    """The events that found no room in the agent's ring buffer."""
    seen_frames: int
    """The MAC control frames that were handed to the agent."""
    died_frames: Deaths
    queued_bytes: tuple[int, ...]
    """The octets without FCS that wait now in each queue of a switch's port."""
    most_queued_bytes: tuple[int, ...]
    """The most octets that ever waited in each of these queues."""


@dataclass(frozen=True)
class Watermark:
    """The most cells that were in use at once, by kind and in total."""

    high_water: tuple[int, int, int]
    most_cells: int
