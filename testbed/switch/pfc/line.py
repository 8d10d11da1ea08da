"""The line of a port: the reference of what the port program and the port's queues do (decision 0620).

A frame leaves with its first bit when the last bit of the one before it has left, preamble and gap included. A PFC
frame goes before all frames that wait, and waits itself for the one that is leaving. The cells of a frame come free
with its last bit.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.units import Rate, Size

OVERHEAD = 20
"""The octets of preamble, start delimiter and gap, which a frame takes on the line beside its own."""
PFC_FRAME = Size.from_bytes(64 + OVERHEAD)
"""A PFC frame on the line."""


def octet_ps(rate: Rate) -> int:
    """Return the time of an octet on a line, in picoseconds."""
    return 8 * 10**12 // rate.bps


@dataclass
class TakenLine:
    """A line, and until when it is taken."""

    rate: Rate
    free_ns: int = 0

    def send(self, now_ns: int, size: Size) -> tuple[int, int]:
        """Send the next frame, of this size with FCS; return when its first bit leaves, and when its last one has."""
        first_ns = max(now_ns, self.free_ns)
        self.free_ns = first_ns + (size.bytes + OVERHEAD) * octet_ps(self.rate) // 1000
        return first_ns, self.free_ns
