"""/dev/xoff-pfc: the frequent work of a PFC agent, which the kernel of the engine `um` does while the agent sleeps.

The kernel's side is testbed/lab/um/linux/xoff_pfc_kern.c, and xoff_pfc_device.h has the structures. All times are
nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import ctypes
import enum
import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from testbed.frames import Mac
from testbed.linux import bpf
from testbed.linux.flow_device import FlowDevice, address_of

_DEVICE = Path("/dev/xoff-pfc")
_ATTACH, _ADD, _SERVE, _TAKE = (ord("p") << 8 | n for n in range(0x51, 0x55))
_ATTACHED = struct.Struct("=iiQQIIQQII")
_ADDED = struct.Struct("=IIi6s2x32I4x4qQQ")
_SERVED = struct.Struct("=qqQQQ")
_TAKEN = struct.Struct("=qI4x")
_STATE = struct.Struct("=10B2xI8s4q8q8q8q48I")
_STATE_SIZE = 512
PRIORITIES = 8
PLACES = 4
"""The plugs that one queue has at the most."""
COUNTS = 6
"""The kinds of events that are counted: XOFF and XON received, XOFF and XON sent, congested, relieved."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def is_there() -> bool:
    """Return True if the kernel does the work of agents, which only that of `um` does."""
    return _DEVICE.exists()


class Serves(enum.IntFlag):
    """The work of the kernel at a port."""

    THRESHOLDS = 1
    """It tells the far end of a priority group that became congested, or has room again."""
    FRAMES = 2
    """It obeys PFC frames."""


class News(enum.IntFlag):
    """The reasons for which the kernel wakes an agent."""

    DUE = 1
    """A time of the agent, or a timer of a port, has come."""
    EVENT = 2
    """The next event in the ring is one for the agent."""
    LOG = 4
    """The log has no room."""


@dataclass(frozen=True)
class PfcPlan:
    """A port, as the kernel has it for as long as the agent lives."""

    slot: int
    interface: int
    socket: int
    """A packet socket that is bound to the port."""
    source: Mac
    places: Sequence[Sequence[int]]
    """For each queue, the handles below which its plugs are."""
    xoff_delay_ns: int
    stop_delay_ns: int
    xoff_allowed_ns: int
    stop_allowed_ns: int
    rate_bps: int
    timers: memoryview[int]


class PfcState(NamedTuple):
    """The state of a port, which is the agent's or the kernel's. Sets of priorities and queues are masks."""

    serves: int
    paused: int
    congested: int
    announced: int
    active: int
    """The priorities with PFC that are not in a storm."""
    held: int
    overlaps: bool
    """True if two priorities can stop the same queue."""
    sends_xon: bool
    began: int
    """The priorities whose pauses began while the kernel served; `since_ns` has when, the last time."""
    quanta: int
    queues: bytes
    """The queues of each priority."""
    interval_ns: int
    """The time from one XOFF to the next."""
    detection_ns: int
    """The watchdog's times: the period of its polls, 0 without a watchdog, and the next poll."""
    period_ns: int
    polls_at_ns: int
    since_ns: tuple[int, ...]
    paused_since_ns: tuple[int, ...]
    """The moment at which each pause began that is counted; NEVER without one."""
    paused_ns: tuple[int, ...]
    """The counts of the time while the kernel served: for each priority the time of pauses that have ended."""
    counts: tuple[tuple[int, ...], ...]
    """And events: COUNTS kinds, for each priority."""

    def encode(self) -> bytes:
        """Return the state as octets, which are for the kernel: what is counted begins at 0."""
        return _STATE.pack(
            0, self.serves, self.paused, self.congested, self.announced, self.active, self.held, self.overlaps,
            self.sends_xon, 0, self.quanta, self.queues, self.interval_ns, self.detection_ns, self.period_ns,
            self.polls_at_ns, *self.since_ns, *self.paused_since_ns, *[0] * (PRIORITIES + COUNTS * PRIORITIES),
        )  # fmt: skip

    @classmethod
    def parse(cls, memory: mmap.mmap | bytes, at: int = 0) -> PfcState:
        state = _STATE.unpack_from(memory, at)
        serves, paused, congested, announced, active, held, overlaps, sends_xon, began = state[1:10]
        quanta, queues, interval_ns, detection_ns, period_ns, polls_at_ns = state[10:16]
        since, paused_since, paused_ns, *counts = (
            tuple(state[first : first + PRIORITIES]) for first in range(16, len(state), PRIORITIES)
        )
        return cls(
            serves, paused, congested, announced, active, held, bool(overlaps), bool(sends_xon), began, quanta,
            queues, interval_ns, detection_ns, period_ns, polls_at_ns, since, paused_since, paused_ns, tuple(counts),
        )  # fmt: skip


class PfcDevice(FlowDevice):
    """The kernel's part of one agent, from when it is made until it is closed, or the agent has ended."""

    def __init__(
        self, ring: bpf.Ring, groups: bpf.Map, congested_at: int, lateness: memoryview[int], ports: Sequence[PfcPlan]
    ) -> None:
        """`congested_at` is the place, in an entry of `groups`, of the word that says that a group is congested. The
        kernel notes in `lateness` what came later than it was allowed to.
        """
        super().__init__(_DEVICE)
        self._states = mmap.mmap(-1, -(-len(ports) * _STATE_SIZE // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._taken = bytearray(_TAKEN.size)
        try:
            with (
                _mapped(ring.fd, mmap.PAGESIZE, 0, mmap.PROT_READ | mmap.PROT_WRITE) as consumed,
                _mapped(ring.fd, mmap.PAGESIZE + 2 * ring.size, mmap.PAGESIZE, mmap.PROT_READ) as produced,
            ):
                attached = (ring.fd, groups.fd, consumed, produced, ring.size, congested_at, address_of(self._states))
                self.give(_ATTACH, _ATTACHED.pack(*attached, address_of(lateness), len(ports), 0))
            for port in ports:
                self.give(_ADD, encoded(port))
        except BaseException:
            self.close()
            raise

    def put(self, place: int, state: PfcState) -> None:
        """Give the kernel the state of a port, by its place among the ports, for the next time that it serves."""
        self._states[place * _STATE_SIZE : place * _STATE_SIZE + _STATE.size] = state.encode()

    def changed(self) -> Iterator[tuple[int, PfcState]]:
        """Yield the place and the state of each port that the kernel has changed."""
        touched = self._states[::_STATE_SIZE]
        place = touched.find(1)
        while place >= 0:
            yield place, PfcState.parse(self._states, place * _STATE_SIZE)
            self._states[place * _STATE_SIZE] = 0
            place = touched.find(1, place + 1)

    def serve(self, due_ns: int, started_ns: int, log: tuple[int, int, int]) -> None:
        """Have the kernel serve from now on; the device is readable when it wants this process, or at `due_ns`.

        `log` is the memory of the event log: its address, where the next record goes, and its end.
        """
        self.give(_SERVE, _SERVED.pack(due_ns, started_ns, *log))

    def serving(self, due_ns: int, started_ns: int, log: tuple[int, int, int]) -> Callable[[], object]:
        """Return `serve` as a call of one system call, for a process that has just been forked."""
        return partial(fcntl.ioctl, self.fd, _SERVE, bytearray(_SERVED.pack(due_ns, started_ns, *log)))

    def take(self) -> tuple[int, int]:
        """Have the kernel serve no more, when it has done what it has begun. Return the time, and what is new."""
        fcntl.ioctl(self.fd, _TAKE, self._taken)
        now_ns, news = _TAKEN.unpack(self._taken)
        return now_ns, news


def encoded(port: PfcPlan) -> bytes:
    """Return a port as the kernel's structure has it."""
    places = []
    for queue, each in enumerate(port.places):
        if len(each) > PLACES:
            raise ValueError(f"queue {queue} of slot {port.slot} has {len(each)} plugs; the kernel knows {PLACES}")
        places += [*each, *[0] * (PLACES - len(each))]
    return _ADDED.pack(
        port.slot, port.interface, port.socket, port.source.octets, *places, port.xoff_delay_ns, port.stop_delay_ns,
        port.xoff_allowed_ns, port.stop_allowed_ns, port.rate_bps, address_of(port.timers),
    )  # fmt: skip


@contextmanager
def _mapped(file: int, size: int, at: int, access: int) -> Iterator[int]:
    """Map a file while the block runs, and return the address, which Python does not tell of memory that is read."""
    address = _libc.mmap(None, size, access, mmap.MAP_SHARED, file, at)
    if address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, f"mapping a ring buffer: {os.strerror(code)}")
    try:
        yield address
    finally:
        _libc.munmap(address, size)
