"""Rules of one's own as the kernel of `um` takes them, and what it tells of them: that of a port by an attribute of
qdisc red, those of switches by a file that /dev/xoff-pfc gives.

The kernel's side is testbed/lab/um/linux/xoff_rule_kern.c, and xoff_rule.h has the structures.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from testbed.linux.c_structures import Headers
from testbed.linux.flow_device import FlowDevice, address_of

_DEVICE = Path("/dev/xoff-pfc")
_OPEN, _ADD, _READ = (ord("s") << 8 | n for n in range(0x50, 0x53))
_RULE = 7
"""TCA_RED_RULE, behind the attributes that every kernel has."""
_OF_RED = struct.Struct("=IIII")
"""struct tc_red_xstats: early, pdrop, other, marked."""


@dataclass(frozen=True)
class RuleReading:
    """The kernel's counters of a rule."""

    asked: int
    """The frames that it was asked of."""
    fault: int
    """The number of its fault, or 0."""
    fault_at: int
    """The instruction that had the fault."""
    fault_ns: int
    shown: tuple[float, ...]
    """The numbers of its state; none after a fault in them."""


@cache
def _headers() -> Headers:
    return Headers("xoff_rule.h")


@dataclass(frozen=True)
class RuleProgram:
    """A rule as the kernel takes it."""

    octets: bytes
    """Instructions, each a `struct xc_op`."""
    count: int
    cells: int
    entries: tuple[int, ...]
    frame: bytes
    """The cells as they are at first."""
    more: int = 0
    """The first of the cells for what has none that is fixed."""

    def given(self, queue: int = 0) -> bytes:
        """Return the rule as octets."""
        head = _headers().xs_given(queue=queue, count=self.count, cells=self.cells, more=self.more)
        head.entries[:] = self.entries
        return bytes(head) + self.octets + self.frame


def own(queue: int, program: RuleProgram) -> tuple[int, bytes]:
    """Return the attribute with a rule."""
    return _RULE, program.given(queue)


def shared(queue: int, handle: int) -> tuple[int, bytes]:
    """Return the attribute that names the qdisc whose rule this one has, too."""
    return _RULE, bytes(_headers().xs_given(queue=queue, shared=handle))


def reading(statistics: bytes) -> RuleReading | None:
    """Return what red's own statistics tell of its rule, or None if it has none."""
    if len(statistics) < _OF_RED.size + ctypes.sizeof(_headers().xs_stats):
        return None
    return _read(statistics, _OF_RED.size)


class RuleDevice(FlowDevice):
    """The rules of a network's switches, from when it is made until it is closed."""

    def __init__(self) -> None:
        super().__init__(_DEVICE)
        given = self.give(_OPEN, b"")
        self.close()
        self.fd = given

    def add(self, program: RuleProgram) -> int:
        """Add the rule of a switch, and return its number."""
        octets = bytearray(program.given())
        return self.give(_ADD, bytes(_headers().xs_add(given=address_of(octets), size=len(octets))))

    def reading(self, number: int) -> RuleReading:
        """Return what the kernel tells of a rule."""
        room = bytearray(ctypes.sizeof(_headers().xs_stats))
        self.give(_READ, bytes(_headers().xs_read(stats=address_of(room), number=number)))
        return _read(room, 0)


def _read(octets: bytes | bytearray, at: int) -> RuleReading:
    of = _headers().xs_stats.from_buffer_copy(octets, at)
    return RuleReading(of.asked, of.fault, of.fault_at, of.fault_ns, tuple(of.state) if of.shown else ())
