"""The attribute by which qdisc red of the kernel of `um` takes a rule of one's own, and what it tells of it.

The kernel's side is testbed/lab/um/linux/xoff_rule_kern.c, and xoff_rule.h has the structures.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import cache

from testbed.linux.c_structures import Headers

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


def own(queue: int, program: RuleProgram) -> tuple[int, bytes]:
    """Return the attribute with a rule."""
    given = _headers().xs_given(queue=queue, count=program.count, cells=program.cells)
    given.entries[:] = program.entries
    return _RULE, bytes(given) + program.octets + program.frame


def shared(queue: int, handle: int) -> tuple[int, bytes]:
    """Return the attribute that names the qdisc whose rule this one has, too."""
    return _RULE, bytes(_headers().xs_given(queue=queue, shared=handle))


def reading(statistics: bytes) -> RuleReading | None:
    """Return what red's own statistics tell of its rule, or None if it has none."""
    stats = _headers().xs_stats
    if len(statistics) < _OF_RED.size + ctypes.sizeof(stats):
        return None
    of = stats.from_buffer_copy(statistics, _OF_RED.size)
    return RuleReading(of.asked, of.fault, of.fault_at, of.fault_ns, tuple(of.state) if of.shown else ())
