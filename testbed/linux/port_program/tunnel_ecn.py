"""ECN in tunnels by RFC 6040: the user-space side of `tunnel_ecn.bpf.c`, which some nodes have beside the port program.

It is an object of its own, so that networks without it are as they were.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from testbed.linux import bpf
from testbed.linux.port_program.records import FIRST_INTERFACE

_OBJECT = Path(__file__).with_name("tunnel_ecn.bpf.o")
_ENTRY = struct.Struct("=3Q")


class TunnelMarks(NamedTuple):
    """Counters of a port of a node with `tunnel_ecn`: packets in tunnels whose ECN field was copied, or that died."""

    copied_out: int = 0
    """Leaving here, the outer header got the inner one's ECN field: those of IPv4, for Linux copies that of IPv6."""
    copied_in: int = 0
    """Coming in here, the inner header got the outer one's ECN field."""
    dropped: int = 0
    """Coming in here, dropped: marked outside, and not ECN-capable inside."""


class TunnelEcn:
    """The loaded program; `close` unloads it."""

    def __init__(self) -> None:
        self._object = bpf.Object(_OBJECT.read_bytes())
        found = self._object.map("tunnel_ecns")
        if found.value_size != _ENTRY.size:
            raise bpf.BpfError(
                f"{_OBJECT.name} was not built from this source; run python3 -m testbed.linux.port_program.build"
            )
        self._memory: mmap.mmap = found.shared()
        self._programs = [(self._object.program(f"ecn_{way}"), hook) for way, hook in _HOOKS]
        self._attached: list[int] = []

    def attach(self, slots: Iterable[int]) -> None:
        """Attach the program to ports, which have to be in this process's network namespace, after the port program."""
        for slot in slots:
            for program, hook in self._programs:
                self._attached.append(bpf.attach_tcx(program, FIRST_INTERFACE + slot, hook))

    def marks(self, slot: int) -> TunnelMarks:
        """Return the counters of a port; those of a port without the program are 0."""
        return TunnelMarks(*_ENTRY.unpack_from(self._memory, slot * _ENTRY.size))

    def close(self) -> None:
        for fd in self._attached:
            os.close(fd)
        self._attached.clear()
        self._memory.close()
        self._object.close()


_HOOKS = (("in", bpf.TCX_INGRESS), ("out", bpf.TCX_EGRESS))
