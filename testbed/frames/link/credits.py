"""The two messages of credit-based flow control (CBFC) of Ultra Ethernet's link layer: CF_Update and CC_Update.

CF_Update is a control ordered set, 8 octets between or inside frames, by which a receiver says how many credits it has
freed so far, for two virtual channels:

    octet  0    0x5C, the control character (a block of 64B/66B has its block type 0x4B here)
           1    0x10, the type CF_Update
           2-4  VC (5 bits), credits freed (15 bits), O-code 6 (4 bits)
           5-7  VC (5 bits), credits freed (15 bits), reserved (4 bits)

CC_Update is a MAC control frame, 60 octets here and 64 on the wire, by which a sender says how many credits it has used
so far, for sixteen virtual channels:

    octets  0-5   destination 01-80-C2-00-00-01
            6-11  source
           12-13  EtherType 0x8808
           14-15  opcode 0xFFFE, extensions (IEEE 802.3 annex 31C)
           16-18  whose extension: FA-7A-CB, the consortium's
           19     type: 1 for VCs 0 to 15, 2 for 16 to 31
           20-59  sixteen counters of 20 bits, the lowest VC first

Provisional, as the specification's text is not public: which bits of the 20-bit counter the 15 of a CF_Update are (the
lowest, here), and the order of a CC_Update's counters (most significant bit first, without gaps, here).

Ethernet interfaces of Linux carry frames only. So an ordered set travels through the lab, and lies in captures, in a
frame of 27 octets: `carried` wraps it and `parse_carried` unwraps it. That frame is private. On a line of the lab it
takes the 8 octets of the ordered set.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac
from testbed.frames.headroom import EXTENSION_OPCODE
from testbed.frames.mac_control import DESTINATION, ETHERTYPE

CONTROL, CF_UPDATE, O_CODE = 0x5C, 0x10, 0x6
COMPANY = bytes.fromhex("fa7acb")
CARRIER = bytes.fromhex("025843")
"""The extension of the frame that carries an ordered set through the lab, from addresses that are not assigned."""
VCS = range(32)
SET_OCTETS = 8
FREED_BITS, USED_BITS = 15, 20
COUNTERS = 16
"""The counters in a CC_Update."""

_HEADER = struct.Struct("!6s6sHH3s")
_LENGTH = 60
_COUNTS_AT = _HEADER.size + 1
_COUNTS_OCTETS = COUNTERS * USED_BITS // 8


class CreditReason(enum.StrEnum):
    """The reason why octets are no message about credits; the values are names of counters."""

    TOO_SHORT = "too_short"
    NOT_MAC_CONTROL = "not_mac_control"
    WRONG_DESTINATION = "wrong_destination"
    OTHER_OPCODE = "other_opcode"
    OTHER_EXTENSION = "other_extension"
    UNKNOWN_TYPE = "unknown_type"
    OTHER_CONTROL = "other_control"
    OTHER_O_CODE = "other_o_code"


class CreditMessageError(XoffError):
    """Octets that are neither CF_Update nor CC_Update."""

    def __init__(self, reason: CreditReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Freed:
    """The credits of one virtual channel that a receiver has freed so far, modulo 2**15."""

    vc: int
    credits: int

    def __post_init__(self) -> None:
        if self.vc not in VCS:
            raise FieldError(f"{self.vc} is not a virtual channel: there are 0 to 31")
        if not 0 <= self.credits < 1 << FREED_BITS:
            raise FieldError(f"{self.credits} freed credits do not fit into {FREED_BITS} bits; count modulo 2**15")

    @property
    def bits(self) -> int:
        """The two fields as 20 bits."""
        return self.vc << FREED_BITS | self.credits


@dataclass(frozen=True)
class CfUpdate:
    """A CF_Update. One that is about a single virtual channel names it twice."""

    first: Freed
    second: Freed

    def encode(self) -> bytes:
        """Return the ordered set, 8 octets."""
        both = (self.first.bits << 4 | O_CODE).to_bytes(3) + (self.second.bits << 4).to_bytes(3)
        return bytes((CONTROL, CF_UPDATE)) + both


@dataclass(frozen=True)
class CcUpdate:
    """A CC_Update: the credits used so far of VCs 0 to 15, or of 16 to 31, modulo 2**20."""

    source: Mac
    first_vc: int
    used: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.first_vc not in (0, COUNTERS):
            raise FieldError(f"a CC_Update is about VCs from 0 or from {COUNTERS} on, not from {self.first_vc}")
        if len(self.used) != COUNTERS:
            raise FieldError(f"a CC_Update has {COUNTERS} counters, not {len(self.used)}")
        for count in self.used:
            if not 0 <= count < 1 << USED_BITS:
                raise FieldError(f"{count} used credits do not fit into {USED_BITS} bits; count modulo 2**20")

    def encode(self) -> bytes:
        """Return the frame, 60 octets."""
        counts = 0
        for count in self.used:
            counts = counts << USED_BITS | count
        head = _HEADER.pack(DESTINATION.octets, self.source.octets, ETHERTYPE, EXTENSION_OPCODE, COMPANY)
        return head + bytes((1 + self.first_vc // COUNTERS,)) + counts.to_bytes(_COUNTS_OCTETS)


def parse_set(octets: bytes) -> CfUpdate:
    """Read an ordered set; what is reserved is ignored."""
    if len(octets) < SET_OCTETS:
        raise CreditMessageError(
            CreditReason.TOO_SHORT, f"an ordered set has {SET_OCTETS} octets, and {len(octets)} are here"
        )
    if octets[0] != CONTROL:
        raise CreditMessageError(
            CreditReason.OTHER_CONTROL, f"{octets[0]:#04x} is not the control character {CONTROL:#04x}"
        )
    if octets[1] != CF_UPDATE:
        raise CreditMessageError(
            CreditReason.UNKNOWN_TYPE, f"ordered set type {octets[1]:#04x} is not CF_Update, {CF_UPDATE:#04x}"
        )
    if octets[4] & 0xF != O_CODE:
        raise CreditMessageError(
            CreditReason.OTHER_O_CODE, f"O-code {octets[4] & 0xF:#x} is not that of Ultra Ethernet, {O_CODE:#x}"
        )
    return CfUpdate(_freed(octets[2:5]), _freed(octets[5:8]))


def parse(data: bytes) -> CcUpdate:
    """Read a CC_Update as it comes from a port, from the destination on and with or without FCS."""
    source = _extension(data, COMPANY, "the consortium's")
    if len(data) < _COUNTS_AT + _COUNTS_OCTETS:
        raise _cut_short(data, "a CC_Update's counters", _COUNTS_AT + _COUNTS_OCTETS)
    kind = data[_HEADER.size]
    if kind not in (1, 2):
        raise CreditMessageError(CreditReason.UNKNOWN_TYPE, f"type {kind} is not that of a CC_Update, 1 or 2")
    counts = int.from_bytes(data[_COUNTS_AT : _COUNTS_AT + _COUNTS_OCTETS])
    used = tuple(counts >> USED_BITS * place & (1 << USED_BITS) - 1 for place in reversed(range(COUNTERS)))
    return CcUpdate(source, COUNTERS * (kind - 1), used)


def carried(source: Mac, ordered_set: bytes) -> bytes:
    """Return the frame in which an ordered set travels through the lab."""
    head = _HEADER.pack(DESTINATION.octets, source.octets, ETHERTYPE, EXTENSION_OPCODE, CARRIER)
    return head + ordered_set


def parse_carried(data: bytes) -> tuple[Mac, CfUpdate]:
    """Read the frame that carries an ordered set: whose it is, and the ordered set."""
    source = _extension(data, CARRIER, "that of carried ordered sets")
    return source, parse_set(data[_HEADER.size : _HEADER.size + SET_OCTETS])


def extension_of(data: bytes) -> bytes:
    """Return whose extension of MAC control a frame is, or nothing if it is none."""
    if len(data) < _HEADER.size:
        return b""
    _, _, ethertype, opcode, extension = _HEADER.unpack_from(data)
    return bytes(extension) if (ethertype, opcode) == (ETHERTYPE, EXTENSION_OPCODE) else b""


def both(freed: Sequence[Freed]) -> CfUpdate:
    """Return the CF_Update about one or two virtual channels."""
    return CfUpdate(freed[0], freed[-1])


def _freed(octets: bytes) -> Freed:
    bits = int.from_bytes(octets) >> 4
    return Freed(bits >> FREED_BITS, bits & (1 << FREED_BITS) - 1)


def _extension(data: bytes, wanted: bytes, whose: str) -> Mac:
    """Check the head of an extension of MAC control, and return the source."""
    if len(data) < _HEADER.size:
        raise _cut_short(data, "the head of an extension of MAC control", _HEADER.size)
    destination, source, ethertype, opcode, extension = _HEADER.unpack_from(data)
    if ethertype != ETHERTYPE:
        raise CreditMessageError(
            CreditReason.NOT_MAC_CONTROL, f"EtherType {ethertype:#06x} is not MAC control, {ETHERTYPE:#06x}"
        )
    if destination != DESTINATION.octets:
        raise CreditMessageError(
            CreditReason.WRONG_DESTINATION, f"a message about credits to {Mac(destination)} is refused: it goes to "
            f"{DESTINATION}",
        )  # fmt: skip
    if opcode != EXTENSION_OPCODE:
        raise CreditMessageError(
            CreditReason.OTHER_OPCODE, f"opcode {opcode:#06x} is not that of extensions, {EXTENSION_OPCODE:#06x}"
        )
    if extension != wanted:
        raise CreditMessageError(
            CreditReason.OTHER_EXTENSION, f"the extension of {extension.hex('-')} is not {whose}, {wanted.hex('-')}"
        )
    return Mac(source)


def _cut_short(data: bytes, what: str, needed: int) -> CreditMessageError:
    return CreditMessageError(
        CreditReason.TOO_SHORT, f"a frame of {len(data)} octets is cut short: {what} would end at {needed}"
    )
