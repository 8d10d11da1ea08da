"""Credits between ports, which the kernel of the engine `um` counts: a file that /dev/xoff-pfc gives.

The kernel's side is testbed/lab/um/linux/xoff_credit_kern.c, and xoff_credit_device.h has the structures. One network
at a time has credits; closing the file takes all gates away.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.frames import Mac
from testbed.linux import bpf
from testbed.linux.flow_device import FlowDevice, address_of

_DEVICE = Path("/dev/xoff-pfc")
_OPEN, _ATTACH, _ADD, _READ = (ord("c") << 8 | n for n in range(0x50, 0x54))
_ATTACHED = struct.Struct("=iIII")
_ADDED = struct.Struct("=IIi6sBB32I8IIIIIIQQ")
_ASKED = struct.Struct("=IIQ")
VCS, PLACES = 8, 4
_ROWS = 9
_COUNTERS = struct.Struct(f"={_ROWS * VCS + 5}Q")


def is_there() -> bool:
    """Return True if the kernel has credits, which only that of `um` has."""
    return _DEVICE.exists()


@dataclass(frozen=True)
class CreditPlan:
    """A port of a node that has a port with credits. Without `sends` and `receives` it is one by which frames leave."""

    slot: int
    interface: int
    pid: int
    """A process in the port's network namespace."""
    source: Mac
    octet_ps: int
    held_ps: int
    """The time of an octet until whose last bit a frame keeps its cells; 0 if they come free with its first."""
    sends: dict[int, int] = field(default_factory=dict)
    """The credits of each virtual channel in which the port sends by credits."""
    receives: frozenset[int] = frozenset()
    places: Sequence[Sequence[int]] = ()
    """For each queue, the handles below which its plugs are."""
    cell: int = 1
    """The octets of a cell of the receiver at the other end."""
    cf_min: int = 0
    cf_max: int = 0
    cc_interval: int = 0
    total: int = 0
    """The credits that all virtual channels share, per port; 0: each has those of `sends`."""


class CreditDevice(FlowDevice):
    """The kernel's credits of one network."""

    def __init__(self, groups: bpf.Map, admitted_at: int, released_at: int) -> None:
        """`admitted_at` and `released_at` are the places, in an entry of `groups`, of the cells charged so far and of
        those given back.
        """
        super().__init__(_DEVICE)
        given = self.give(_OPEN, b"")
        self.close()
        self.fd = given
        self.give(_ATTACH, _ATTACHED.pack(groups.fd, admitted_at, released_at, 0))

    def add(self, plan: CreditPlan) -> None:
        """Add a port, whose queues have been made."""
        places = []
        for handles in plan.places or [()] * VCS:
            places += [*handles, *[0] * (PLACES - len(handles))]
        network = os.open(f"/proc/{plan.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.give(
                _ADD,
                _ADDED.pack(
                    plan.slot, plan.interface, network, plan.source.octets, _mask(plan.sends), _mask(plan.receives),
                    *places, *(plan.sends.get(vc, 0) for vc in range(VCS)), plan.cell, plan.cf_min, plan.cf_max,
                    plan.cc_interval, plan.total, plan.octet_ps, plan.held_ps,
                ),
            )  # fmt: skip
        finally:
            os.close(network)

    def read(self, slot: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
        """Return the counters of each virtual channel of a port, and those of its messages."""
        room = bytearray(_COUNTERS.size)
        self.give(_READ, _ASKED.pack(slot, 0, address_of(room)))
        found = _COUNTERS.unpack(room)
        return [found[vc : _ROWS * VCS : VCS] for vc in range(VCS)], found[_ROWS * VCS :]


def _mask(vcs: dict[int, int] | frozenset[int]) -> int:
    return sum(1 << vc for vc in vcs)
