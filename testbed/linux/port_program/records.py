"""What the port program (`port.bpf.c`) and user space share: structures, settings, counters."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

SLOTS = 1024
FIRST_INTERFACE = 4096
"""Ports have interface indices from here on, one for each slot and unique in the whole network."""
PRIORITIES = 8
RING_BYTES = 1 << 16

TABLES = 114
PORT = struct.Struct(f"=III8IBBBBBBB{TABLES}s3x8Q8Q8Q8Q8Q16QQQ4Q8Q8Q")
PORT_SETTINGS = struct.Struct(f"=III8IBBBBBBB{TABLES}s")
QUEUES = struct.Struct("=8I")
QUEUES_AT = struct.Struct("=III").size
QUEUED = struct.Struct("=8Q")
QUEUED_AT = PORT.size - 2 * QUEUED.size
BLOCKED, DEFENDED, APPLICATIONS, LANES = (struct.Struct("=III8IBB").size + number for number in range(4))
"""Where things are in a port's entry."""
GROUP = struct.Struct("=8I3I3III2Q2Q2Q8Q8QQ")
GROUP_SETTINGS = struct.Struct("=8I")
XOFF_AT = struct.Struct("=8I3I3II").size
QUEUE = struct.Struct("=5I2I2II4Q")
QUEUE_SETTINGS = struct.Struct("=5I")
POOLS = 4
"""In each direction, of a node."""
POOL = struct.Struct("=3I3I3II")
BUFFER = struct.Struct(f"=II{2 * POOLS * POOL.size}s")
EVENT = struct.Struct("=QHHBBHII")
"""time_ns, kind, slot, priority, reason, length, shared, headroom; a frame's octets follow, 64 of them."""
FRAME_OCTETS = 64
REQUEST = struct.Struct("=6I")
NO_QUEUE = 0xFFFFFFFF
SIZES = struct.Struct("=5I")
WATERMARK = struct.Struct("=3I3II")
OF_GROUP, OF_QUEUE, OF_POOL = range(3)
APPLICATION = struct.Struct("=Q")
STATION = struct.Struct("=6sH")
CROSSING = struct.Struct("=HH")
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

DROP_REASONS = ("headroom", "headroom pool", "threshold", "shared pool", "queue threshold", "egress pool")
"""As in `testbed.buffer.model.DropReason`, in the program's order."""
REASONS = len(DROP_REASONS)


class Deaths(NamedTuple):
    """The frames that a port was to send and that died where no buffer dropped them; without MAC control and LLDP."""

    by_queue: int
    """By the qdiscs of the port: they are full, mark early, or have no carrier."""
    with_queue: int
    """As the queue was emptied, by a lost carrier or a watchdog."""
    at_link: int
    """They left, and the other end was down."""
    in_cable: int
    """In the cable's middle."""


Sizes = tuple[int, int, int]
"""Guaranteed, shared and headroom cells of a pool. An egress pool has reserved and shared ones."""


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
    counted: bool = False
    """Are frames that leave here charged to queues of egress pools?"""
    steered: bool = False
    """Is it a leaf's, whose frames Open vSwitch forwards, and whose controller may choose their priorities?"""

    def encode(self) -> bytes:
        has_buffer = self.buffer is not None
        return PORT_SETTINGS.pack(
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
            self.counted,
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
    xon: int = 0
    pool: int = 0

    def encode(self) -> bytes:
        terms = _terms(self.static, self.alpha)
        return GROUP_SETTINGS.pack(
            self.lossless, self.guaranteed, *terms, self.xon_offset, self.headroom, self.xon, self.pool
        )


@dataclass(frozen=True)
class QueueLimits:
    """One queue of an egress port, in cells; `alpha` is None for a static threshold."""

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
    """A pool."""

    size: tuple[int, int, int]
    used: tuple[int, int, int]
    high_water: tuple[int, int, int]
    most_cells: int


@dataclass(frozen=True)
class QueueCounters:
    """What the program counted of a queue with limits: reserved and shared cells."""

    used: tuple[int, int]
    high_water: tuple[int, int]
    most_cells: int
    admitted_frames: int
    admitted_cells: int
    dropped_frames: int
    dropped_cells: int


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
    died_frames: Deaths
    queued_bytes: tuple[int, ...]
    most_queued_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Watermark:
    """The most cells that were in use, by kind and together."""

    high_water: tuple[int, int, int]
    most_cells: int
