"""The control ordered sets of Link Layer Retry, as blocks of eight octets, and the preamble of its frames.

    octet 0    0x4B, the block type field of an ordered set
    octet 1    1 LLR_ACK, 2 LLR_NACK, 3 LLR_INIT, 4 LLR_INIT_ECHO
    octet 2    the sequence number's bits 19 to 12
    octet 3    bits 11 to 4
    octet 4    bits 3 to 0 in the upper half; the O-code, 0x6, in the lower one
    octet 5    LLR_INIT and LLR_INIT_ECHO: the lower octet of the data; otherwise reserved
    octet 6    their upper octet; otherwise reserved
    octet 7    reserved

    preamble   0x55 three times, 0xDD as start of frame delimiter, the sequence number in 24 bits, control flags

Provisional: UE-Specification 1.0 section 5.1 is not public, and this is what public descriptions of it say (tables 5-1,
5-7 and 5-8). An LLR_ACK names the last frame that came in order, and an LLR_NACK the frame that is wanted. Reserved
octets are sent as zeros and not looked at.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.frames import FieldError

BLOCK_TYPE, O_CODE = 0x4B, 0x6
OCTETS = 8
"""The octets of a set, and of a preamble."""
SEQUENCES = 1 << 20
MOST_DATA = 0xFFFF
_PREAMBLE = b"\x55\x55\x55\xdd"


class OrderedSetError(XoffError):
    """Octets that are no ordered set of Link Layer Retry."""


class Kind(enum.IntEnum):
    """The kind of an ordered set; the values are those on the line."""

    ACK = 1
    NACK = 2
    INIT = 3
    ECHO = 4

    @property
    def label(self) -> str:
        """The name of the kind in the specification."""
        return "LLR_INIT_ECHO" if self is Kind.ECHO else f"LLR_{self.name}"


@dataclass(frozen=True)
class OrderedSet:
    """An ordered set; `data` is that of LLR_INIT and its echo, and 0 in the others."""

    kind: Kind
    sequence: int
    data: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.sequence < SEQUENCES:
            raise FieldError(f"sequence is {self.sequence}; it has 20 bits")
        if not 0 <= self.data <= MOST_DATA:
            raise FieldError(f"data is {self.data}; it has 16 bits")
        if self.data and self.kind not in (Kind.INIT, Kind.ECHO):
            raise FieldError(f"{self.kind.label} carries no data")

    def encode(self) -> bytes:
        low, high = self.data & 0xFF, self.data >> 8
        upper, middle, lower = self.sequence >> 12, self.sequence >> 4 & 0xFF, (self.sequence & 0xF) << 4 | O_CODE
        return bytes((BLOCK_TYPE, self.kind, upper, middle, lower, low, high, 0))


def parse(octets: bytes) -> OrderedSet:
    """Read a block of eight octets."""
    if len(octets) != OCTETS:
        raise OrderedSetError(f"{len(octets)} octets; an ordered set is a block of {OCTETS}")
    if octets[0] != BLOCK_TYPE:
        raise OrderedSetError(f"block type {octets[0]:#04x} is not {BLOCK_TYPE:#04x}, that of an ordered set of LLR")
    try:
        kind = Kind(octets[1])
    except ValueError:
        raise OrderedSetError(f"type {octets[1]:#04x} is none of the ordered sets of LLR, 1 to {len(Kind)}") from None
    if octets[4] & 0xF != O_CODE:
        raise OrderedSetError(f"O-code {octets[4] & 0xF:#x} is not {O_CODE:#x}")
    sequence = octets[2] << 12 | octets[3] << 4 | octets[4] >> 4
    return OrderedSet(kind, sequence, octets[6] << 8 | octets[5] if kind in (Kind.INIT, Kind.ECHO) else 0)


def preamble(sequence: int, flags: int = 0) -> bytes:
    """Return the preamble of a frame with a sequence number."""
    if not 0 <= sequence < SEQUENCES:
        raise FieldError(f"sequence is {sequence}; it has 20 bits")
    return _PREAMBLE + sequence.to_bytes(3, "big") + bytes((flags,))


def sequence_of(octets: bytes) -> int:
    """Return the sequence number in a preamble."""
    if len(octets) != OCTETS or octets[:4] != _PREAMBLE:
        raise OrderedSetError("this is not the preamble of a frame of LLR")
    sequence = int.from_bytes(octets[4:7], "big")
    if sequence >= SEQUENCES:
        raise OrderedSetError(f"sequence {sequence} has more than 20 bits")
    return sequence
