"""/dev/xoff-roce: RoCE queue pairs that the kernel of the engine `um` serves by itself.

The kernel's side is testbed/lab/um/linux/xoff_roce_kern.c, and xoff_roce_device.h has the structures. All times are
nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.linux.c_structures import Headers
from testbed.linux.flow_device import FlowDevice, address_of
from testbed.linux.process.observing import observing

_DEVICE = Path("/dev/xoff-roce")
C = Headers("xoff_roce_counters.h", "xoff_roce.h", "xoff_control_vm.h", "xoff_roce_device.h")
_Address = ctypes.c_uint8 * 16
FIRST_KEY = 0x1000
IS_SOURCE, IS_TARGET, IS_ASKER = 1, 2, 4
WRITE, SEND, READ, COMPARE_SWAP, FETCH_ADD = range(5)

_ATTACH, _ADD, _STOP, _PROGRESS, _REPORT, _WINDOWS, _SAMPLES = (ord("r") << 8 | n for n in range(1, 8))
_PROGRAM = ord("r") << 8 | 9


def is_there() -> bool:
    """Return True if the kernel serves RoCE queue pairs, which only that of `um` does."""
    return _DEVICE.exists()


def rate(kind: int, parameters: Mapping[str, float]) -> Any:
    """Return a rate control in its initial state, a `struct xr_rate`; parameters that are left out are 0."""
    whole = {name: ctypes.c_double for name, kind, *_ in C.xr_rate._fields_ if kind is ctypes.c_double}
    return C.xr_rate(kind=kind, **{name: value if name in whole else int(value) for name, value in parameters.items()})


def ends(address: str, far_address: str) -> dict[str, Any]:
    """Return the fields of a `struct xr_add` that say between which addresses, both of one IP version, packets go."""
    is_ipv6 = ":" in far_address
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    return {
        "address": _Address(*socket.inet_pton(family, address)),
        "far_address": _Address(*socket.inet_pton(family, far_address)),
        "is_ipv6": is_ipv6,
    }


@dataclass(frozen=True)
class Wait:
    """A flow that an asker waits for: the region of its target, and its messages."""

    region: int
    message: int
    size: int
    """Octets of the flow; 0: no limit."""


@dataclass(frozen=True)
class ControlCode:
    """A rate control as code: a program, which queue pairs share, and the cells of one of them as they are at first."""

    octets: bytes
    """Instructions, each a `struct xc_op`."""
    cells: int
    entries: tuple[int, ...]
    stamps: int
    frame: bytes


@dataclass(frozen=True)
class PairReport:
    """The report of a queue pair, whose counters are a `struct xr_counters`."""

    counters: Any
    failure: tuple[int, ...]
    """A reason and four numbers."""
    octets: int
    """The octets that were received in their order."""
    is_as_expected: bool
    packets: int
    frame_octets: int
    ecn: tuple[int, ...]
    first_ns: int
    last_ns: int
    windows: tuple[int, ...]
    samples: tuple[tuple[int, int, tuple[float, ...]], ...]
    """Moment, octets sent so far, and the state of the rate control."""


class RoceDevice(FlowDevice):
    """The endpoint of one host in the kernel, from when it is made until it is closed."""

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        settings: Any,
        content: bytes,
        counters: mmap.mmap,
        *,
        first: int,
        is_per_priority: bool,
        moderation: int,
    ) -> None:
        """`listener` is the socket of port 4791, `most` the number of queue pairs and of regions, `settings` a
        `struct xr_settings`, and `first` the number of the first queue pair. In `counters`, memory of whole pages that
        processes share, the kernel writes how far flows are. A CNP can slow down all queue pairs of its priority.
        `moderation` is one of `enum xr_moderation`.
        """
        self._most = most
        self._programs: dict[tuple[Any, ...], int] = {}
        super().__init__(_DEVICE)
        block = ctypes.create_string_buffer(content, len(content))
        attached = C.xr_attach(
            socket=listener.fileno(), queue_pairs=most, settings=settings, is_per_priority=is_per_priority, first=first,
            content=ctypes.addressof(block), counters=address_of(counters), counters_size=len(counters),
            moderation=moderation,
        )  # fmt: skip
        try:
            self.give(_ATTACH, bytes(attached))
        except BaseException:
            self.close()
            raise
        self._seen = bytearray(ctypes.sizeof(C.xr_progress) * most)
        self._words, self._first = memoryview(self._seen).cast("I"), first

    def add(self, pair: Any, waits: Sequence[Wait] = (), control: ControlCode | None = None) -> None:
        """Have a queue pair, a `struct xr_add`, served from now on. OSError with EMSGSIZE if its packets are too long
        for the way.
        """
        frame = bytearray(control.frame if control is not None else b"")
        if control is not None:
            pair.program, pair.control_frame = 1 + self._program(control), address_of(frame)
        row = (C.xr_wait * len(waits))(*(C.xr_wait(region=w.region, message=w.message, size=w.size) for w in waits))
        pair.waits, pair.waits_count = ctypes.addressof(row), len(waits)
        self.give(_ADD, bytes(pair))

    def _program(self, control: ControlCode) -> int:
        """Return the number of a program, which the kernel has from the first time on."""
        key = control.octets, control.cells, control.entries, control.stamps
        number = self._programs.get(key)
        if number is None:
            code = bytearray(control.octets)
            given = C.xr_program(
                code=address_of(code), count=len(code) // ctypes.sizeof(C.xc_op), cells=control.cells,
                stamps=control.stamps,
            )  # fmt: skip
            given.entries[:] = control.entries
            number = self._programs[key] = self.give(_PROGRAM, bytes(given))
        return number

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
        room = bytearray(ctypes.sizeof(C.xr_report))
        self.ask(_REPORT, number, room)
        shown = C.xr_report.from_buffer(room)
        taken = bytearray(ctypes.sizeof(C.xr_sample) * shown.samples)
        with observing():
            self.ask(_SAMPLES, number, taken)
        samples = (C.xr_sample * shown.samples).from_buffer(taken)
        return PairReport(
            shown.counters, (shown.failure.why, *getattr(shown.failure, "with")), shown.received,
            bool(shown.as_expected), shown.packets, shown.frame_octets, tuple(shown.ecn), shown.first_ns, shown.last_ns,
            self.row(_WINDOWS, number, shown.windows),
            tuple((one.at_ns, one.sent_octets, tuple(one.state)) for one in samples),
        )  # fmt: skip
