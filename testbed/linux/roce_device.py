"""/dev/xoff-roce: RoCE queue pairs that the kernel of the engine `um` serves by itself.

The kernel's side is testbed/lab/um/linux/xoff_roce_kern.c, and xoff_roce_device.h has the structures. All times are
nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.linux.flow_device import NOWHERE, FlowDevice, address_of
from testbed.linux.process.observing import observing

_DEVICE = Path("/dev/xoff-roce")
FIRST_KEY = 0x1000
IS_SOURCE, IS_TARGET, IS_ASKER = 1, 2, 4
WRITE, READ, SEND = range(3)

_ATTACH, _ADD, _STOP, _PROGRESS, _REPORT, _WINDOWS, _SAMPLES = (ord("r") << 8 | n for n in range(1, 8))
_ATTACHED = struct.Struct("=iI4I2qIIQQII")
_RATE = struct.Struct("=II2d6d6q2d4q")
_RATE_STATE = 9 * 8 + 8 + 16
"""The octets of a rate control's state, which begins as zeros."""
_NIC = struct.Struct("=8I9qQ")
_ADDED = struct.Struct("=4I4s4s2H4BII4IQ3Q3qQQIIII")
_WAIT = struct.Struct("=IIQQ")
_SEEN = struct.Struct("=II")
_REPORTED = struct.Struct("=6Q5Q4Q2q4III4Q4Q")
_SAMPLE = struct.Struct("=qQ3d")
_RATE_FIELDS = (
    "rate_bps", "line_bps", "gain", "alpha", "target_bps", "additive_bps", "hyper_bps", "minimum_bps", "alpha_ns",
    "increase_ns", "decrease_ns", "behind_ns", "bytes", "recovery", "average", "decrease", "low_ns", "high_ns",
    "least_ns", "hyper_after",
)  # fmt: skip


def is_there() -> bool:
    """Return True if the kernel serves RoCE queue pairs, which only that of `um` does."""
    return _DEVICE.exists()


def packed_rate(kind: int, parameters: Mapping[str, float]) -> bytes:
    """Return a rate control in its initial state; parameters that are left out are 0."""
    return _RATE.pack(kind, 0, *(parameters.get(name, 0) for name in _RATE_FIELDS)) + bytes(_RATE_STATE)


def packed_nic(numbers: Sequence[int]) -> bytes:
    """Return a NIC, whose numbers are in the order of struct xr_nic."""
    return _NIC.pack(*numbers)


@dataclass(frozen=True)
class Settings:
    """The settings of an endpoint."""

    mtu: int
    ack_every: int
    window: int
    retries: int
    retransmit_ns: int
    cnp_ns: int
    is_per_priority: bool
    """True if a CNP slows down all queue pairs of its priority."""


@dataclass(frozen=True)
class Wait:
    """A flow that an asker waits for: the region of its target, and its messages."""

    region: int
    message: int
    size: int
    """Octets of the flow; 0: no limit."""


@dataclass(frozen=True)
class Pair:
    """A queue pair of a connection that has been made, and the flow that it is for."""

    number: int
    far_number: int
    first: int
    far_first: int
    address: str
    far_address: str
    port: int
    far_port: int
    priority: int
    ds_field: int
    cnp_priority: int
    cnp_ds_field: int
    buffer: int
    """The buffer of a socket that would give the port as many frames at a time."""
    roles: int
    """`IS_SOURCE`, `IS_TARGET`, `IS_ASKER` and their sums."""
    region: int
    operation: int
    far_key: int
    lag: int
    content: int
    """The place at which the flow's content begins in the block of content."""
    message: int
    size: int
    messages: int
    begin_ns: int
    end_ns: int
    sample_ns: int
    line_bps: int
    nic: bytes
    """The NIC, as from `packed_nic`."""
    rate: bytes
    """The rate control, as from `packed_rate`."""
    sent_at: int | None = None
    """The place in the counters of the packets of data that have been sent, each counted once; None: not shown."""
    received_at: int | None = None
    waits: Sequence[Wait] = field(default=())


@dataclass(frozen=True)
class PairReport:
    """The counters of a queue pair. `failure` is a reason and four numbers."""

    sent_packets: int
    fresh: int
    went_back: int
    timeouts: int
    cnps_received: int
    cnps_sent: int
    received_octets: int
    frame_octets: int
    packets: int
    duplicates: int
    out_of_order: int
    ecn: tuple[int, ...]
    first_ns: int
    last_ns: int
    is_as_expected: bool
    failure: tuple[int, ...]
    windows: tuple[int, ...]
    samples: tuple[tuple[int, int, tuple[float, ...]], ...]
    """Moment, octets sent so far, and the state of the rate control."""
    rnr_naks: int
    messages: int
    reordered: int
    extent: int


class RoceDevice(FlowDevice):
    """The endpoint of one host in the kernel, from when it is made until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        settings: Settings,
        content: bytes,
        counters: mmap.mmap,
        *,
        first: int,
    ) -> None:
        """`listener` is the socket of port 4791, `most` the number of queue pairs and of regions, and `first` the
        number of the first queue pair. In `counters`, memory of whole pages that processes share, the kernel writes how
        far flows are.
        """
        self._most = most
        super().__init__(_DEVICE)
        block = ctypes.create_string_buffer(content, len(content))
        attached = _ATTACHED.pack(
            listener.fileno(), most, settings.mtu, settings.ack_every, settings.window, settings.retries,
            settings.retransmit_ns, settings.cnp_ns, settings.is_per_priority, first, ctypes.addressof(block),
            address_of(counters), len(counters), 0,
        )  # fmt: skip
        try:
            self.give(_ATTACH, attached)
        except BaseException:
            self.close()
            raise
        self._seen = bytearray(_SEEN.size * most)
        self._words, self._first = memoryview(self._seen).cast("I"), first

    def add(self, pair: Pair) -> None:
        """Have a queue pair served from now on. OSError with EMSGSIZE if its packets are too long for the way."""
        waits = ctypes.create_string_buffer(b"".join(_WAIT.pack(w.region, 0, w.message, w.size) for w in pair.waits))
        self.give(_ADD, _ADDED.pack(
            pair.number, pair.far_number, pair.first, pair.far_first,
            socket.inet_aton(pair.address), socket.inet_aton(pair.far_address), pair.port, pair.far_port,
            pair.priority, pair.ds_field, pair.cnp_priority, pair.cnp_ds_field, pair.buffer, pair.roles,
            pair.region, pair.operation, pair.far_key, pair.lag, pair.content,
            pair.message, pair.size, pair.messages, pair.begin_ns, pair.end_ns, pair.sample_ns, pair.line_bps,
            ctypes.addressof(waits), len(pair.waits), 0,
            *(NOWHERE if place is None else place for place in (pair.sent_at, pair.received_at)),
        ) + pair.nic + pair.rate)  # fmt: skip

    def stop(self) -> None:
        """Let no flow post more messages."""
        fcntl.ioctl(self.fd, _STOP, 0)

    def look(self) -> None:
        """Have the kernel tell which flows are at their ends; the device is readable when there is another one since
        the last call.
        """
        self.ask(_PROGRESS, 0, self._seen)

    def has_ended(self, number: int) -> bool:
        """Return True if the flow of the queue pair with this number was at its end at the last look."""
        return bool(self._words[2 * (number - self._first)])

    def report(self, number: int) -> PairReport:
        """Return the counters of the queue pair with this number."""
        room = bytearray(_REPORTED.size)
        self.ask(_REPORT, number, room)
        found = _REPORTED.unpack(room)
        counters, ecn, (first_ns, last_ns, windows, samples, _, as_expected, why, _) = (
            found[:11],
            found[11:15],
            found[15:23],
        )
        taken = bytearray(_SAMPLE.size * samples)
        with observing():
            self.ask(_SAMPLES, number, taken)
        windows_of = self.row(_WINDOWS, number, windows)
        samples_of = tuple((at_ns, sent, tuple(state)) for at_ns, sent, *state in _SAMPLE.iter_unpack(taken))
        failure = (why, *found[23:27])
        rest = (ecn, first_ns, last_ns, bool(as_expected), failure, windows_of, samples_of, *found[27:])
        return PairReport(*(*counters, *rest))
