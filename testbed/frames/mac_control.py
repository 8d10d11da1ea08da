"""MAC control frames: PFC (IEEE 802.3 annex 31D, used by 802.1Q clause 36) and PAUSE (annex 31B).

All are 60 octets here and 64 on the wire, since the MAC adds the FCS:

    octets  0-5   destination 01-80-C2-00-00-01
            6-11  source
           12-13  EtherType 0x8808
           14-15  opcode: 0x0101 PFC, 0x0001 PAUSE
    PFC:   16     reserved, 0
           17     class enable vector, bit n for priority n
           18-33  eight times of 16 bits in quanta of 512 bit times, priority 0 first
    PAUSE: 16-17  one time
           zeros up to octet 59

Sent frames have every field as in the standard. How strict `parse` is as a receiver:

- What is reserved, octet 16 and the padding, is ignored, whatever is in it and however long it is.
  A frame is long enough if it holds the fields: veth has no minimum length, a capture or a tunnel
  may have cut or added padding, and decision 0144 requires complete fields and no more.
- Nothing may stand before the EtherType: a frame with a VLAN tag is not MAC control.
- The destination is the group address alone. Annex 31B would also let PAUSE come to the station's own
  address; this is refused with a reason of its own. Xoff never obeys a PAUSE but only counts it, PFC
  has no such case, and a unicast frame may have crossed bridges, while these concern one link.
- The source is not judged, because a real MAC does not judge it either.

Not here: the timers, what to do with a frame, and the time that a pause takes, which is
`Rate.time_for_quanta` of the port that obeys.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac

DESTINATION = Mac.parse("01-80-C2-00-00-01")
ETHERTYPE = 0x8808
PFC_OPCODE = 0x0101
PAUSE_OPCODE = 0x0001
PRIORITIES = range(8)
LONGEST_PAUSE = 0xFFFF
"""The largest time that fits into the frame, in quanta."""

_ETHERNET = struct.Struct("!6s6sH")
_OPCODE = struct.Struct("!H")
_PFC = struct.Struct("!xB8H")  # x: the reserved octet, written as 0 and skipped on receipt
_PAUSE = struct.Struct("!H")
_FIELDS = _ETHERNET.size + _OPCODE.size
_LENGTH = 60


class MacControlReason(enum.StrEnum):
    """The reason why a frame is not a valid MAC control frame; the values are names of counters."""

    TOO_SHORT = "too_short"
    NOT_MAC_CONTROL = "not_mac_control"
    WRONG_DESTINATION = "wrong_destination"
    UNKNOWN_OPCODE = "unknown_opcode"


class MacControlError(XoffError):
    """Octets that are neither PFC nor PAUSE."""

    def __init__(self, reason: MacControlReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Meaning(enum.Enum):
    """The meaning of a PFC frame for one priority."""

    UNCHANGED = "unchanged"  # enable bit 0: a pause goes on, the time has no meaning
    XON = "XON"  # enable bit 1, time 0: resume now
    XOFF = "XOFF"  # enable bit 1: stop for the time, counted from now


@dataclass(frozen=True)
class PfcFrame:
    """A PFC frame, with what its fields held, so that parsing and encoding give the same fields."""

    source: Mac
    enabled: int  # the class enable vector, bit n for priority n
    times: tuple[int, ...]  # eight, in quanta; mind `enabled` before reading one, or use `changes`

    def __post_init__(self) -> None:
        if not 0 <= self.enabled <= 0xFF:
            raise FieldError(f"{self.enabled:#x} is not a class enable vector: it has more than 8 bits")
        if len(self.times) != len(PRIORITIES):
            raise FieldError(f"a PFC frame has {len(PRIORITIES)} times, one for each priority, not {len(self.times)}")
        for quanta in self.times:
            _check_quanta(quanta)

    @classmethod
    def of(cls, source: Mac, changes: Mapping[int, int]) -> PfcFrame:
        """Return a frame that sets the pauses of some priorities, {priority: quanta}, and leaves the others."""
        if not changes:
            raise FieldError("a PFC frame for no priority changes nothing; name at least one from 0 to 7")
        enabled = 0
        for priority in changes:
            enabled |= _bit(priority)
        return cls(source, enabled, tuple(changes.get(priority, 0) for priority in PRIORITIES))

    @classmethod
    def xoff(cls, source: Mac, priorities: Iterable[int], quanta: int = LONGEST_PAUSE) -> PfcFrame:
        """Return a frame that stops these priorities for a time."""
        if quanta == 0:
            raise FieldError("XOFF for 0 quanta would be XON; use PfcFrame.xon, or 1 to 65535 quanta")
        return cls.of(source, dict.fromkeys(priorities, quanta))

    @classmethod
    def xon(cls, source: Mac, priorities: Iterable[int]) -> PfcFrame:
        """Return a frame that lets these priorities send again now."""
        return cls.of(source, dict.fromkeys(priorities, 0))

    def meaning(self, priority: int) -> Meaning:
        """Return the meaning of the frame for one priority."""
        if not self.enabled & _bit(priority):
            return Meaning.UNCHANGED
        return Meaning.XOFF if self.times[priority] else Meaning.XON

    def changes(self) -> Iterator[tuple[int, int]]:
        """Yield (priority, quanta) for each enabled priority, lowest first; 0 quanta is XON."""
        return ((priority, self.times[priority]) for priority in PRIORITIES if self.enabled & _bit(priority))

    def encode(self) -> bytes:
        return _frame(self.source, PFC_OPCODE, _PFC.pack(self.enabled, *self.times))


@dataclass(frozen=True)
class PauseFrame:
    """A PAUSE of the whole link. Xoff recognises and counts it, and never obeys it."""

    source: Mac
    quanta: int

    def __post_init__(self) -> None:
        _check_quanta(self.quanta)

    def encode(self) -> bytes:
        return _frame(self.source, PAUSE_OPCODE, _PAUSE.pack(self.quanta))


def parse(data: bytes) -> PfcFrame | PauseFrame:
    """Read a frame as it comes from a port, from the destination on and with or without FCS."""
    _check_length(data, _ETHERNET.size, "an Ethernet header")
    destination, source, ethertype = _ETHERNET.unpack_from(data)
    if ethertype != ETHERTYPE:
        raise MacControlError(
            MacControlReason.NOT_MAC_CONTROL, f"EtherType {ethertype:#06x} is not MAC control, {ETHERTYPE:#06x}"
        )
    if destination != DESTINATION.octets:
        raise MacControlError(
            MacControlReason.WRONG_DESTINATION,
            f"a MAC control frame to {Mac(destination)} is refused: PFC and PAUSE go to {DESTINATION}",
        )
    _check_length(data, _FIELDS, "a MAC control opcode")
    (opcode,) = _OPCODE.unpack_from(data, _ETHERNET.size)
    if opcode == PFC_OPCODE:
        _check_length(data, _FIELDS + _PFC.size, "a PFC frame's fields")
        enabled, *times = _PFC.unpack_from(data, _FIELDS)
        return PfcFrame(Mac(source), enabled, tuple(times))
    if opcode == PAUSE_OPCODE:
        _check_length(data, _FIELDS + _PAUSE.size, "a PAUSE frame's field")
        (quanta,) = _PAUSE.unpack_from(data, _FIELDS)
        return PauseFrame(Mac(source), quanta)
    raise MacControlError(
        MacControlReason.UNKNOWN_OPCODE,
        f"MAC control opcode {opcode:#06x} is neither PFC, {PFC_OPCODE:#06x}, nor PAUSE, {PAUSE_OPCODE:#06x}",
    )


def _frame(source: Mac, opcode: int, fields: bytes) -> bytes:
    header = _ETHERNET.pack(DESTINATION.octets, source.octets, ETHERTYPE)
    return (header + _OPCODE.pack(opcode) + fields).ljust(_LENGTH, b"\0")


def _bit(priority: int) -> int:
    """Return the priority's bit in the class enable vector."""
    if priority not in PRIORITIES:
        raise FieldError(f"{priority} is not a priority: there are 0 to 7")
    return 1 << priority


def _check_quanta(quanta: int) -> None:
    if not 0 <= quanta <= LONGEST_PAUSE:
        raise FieldError(
            f"{quanta} quanta do not fit into a frame, which has room for 0 to {LONGEST_PAUSE}; "
            "refresh a pause that has to last longer"
        )


def _check_length(data: bytes, needed: int, what: str) -> None:
    if len(data) < needed:
        raise MacControlError(
            MacControlReason.TOO_SHORT, f"a frame of {len(data)} octets is cut short: {what} would end at {needed}"
        )
