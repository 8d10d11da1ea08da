"""LLDP frames (IEEE 802.1AB clauses 8 and 9.2.7.7), which carry DCBX.

    octets  0-5   destination 01-80-C2-00-00-0E, the nearest bridge: DCBX concerns one link and uses no other group
            6-11  source
           12-13  EtherType 0x88CC
           14-    TLVs: type in 7 bits, length in 9, information string of that length

Chassis ID, port ID and TTL come first, once each, in that order. Then optional ones in any order, then End. We send End
and pad the frame to 60 octets; the MAC adds the FCS.

How strict `parse` is as a receiver:

- The three mandatory TLVs have to be right. What is wrong with one of them, or with the frame, refuses the frame: one
  LldpError with one LldpReason, which is the name of a counter.
- An optional TLV that is wrong is left out and listed in `flaws`, each with a reason; the others count. A length that
  leads beyond the frame ends the reading there.
- Of port description, names and capabilities the first counts and a repeated one is a flaw. Management addresses and
  organisational TLVs repeat; whoever decodes an organisational subtype checks that.
- A missing End is no fault, and what follows End (padding, FCS) is not read. Octets after the fields of a TLV are not
  read either: a later edition may have put them there.
- A TLV type that 802.1AB reserves is kept as it is, as `Unknown`. So is an identifier's subtype: an ID only has to be
  the same each time.

Not here: timing and expiry (`testbed.subjects.dcbx`), and what organisational TLVs mean (`frames.dcbx`).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass, field

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac
from testbed.frames.lldp_tlvs import HEAD, Flaw, Tlv, TlvReason, address_text, encode, pack, read

NEAREST_BRIDGE = Mac.parse("01-80-C2-00-00-0E")
ETHERTYPE = 0x88CC
LONGEST_PDU = 1500
"""The most octets of an LLDPDU: by 802.1AB it fits into one basic frame of the medium."""
LONGEST_TTL = 0xFFFF

_END, _CHASSIS_ID, _PORT_ID, _TTL = range(4)
_ETHERNET = struct.Struct("!6s6sH")
_FCS = 4
_SHORTEST_FRAME = 60
_MAC_SUBTYPES = {_CHASSIS_ID: 4, _PORT_ID: 3}
_NETWORK_ADDRESS_SUBTYPES = {_CHASSIS_ID: 5, _PORT_ID: 4}


class LldpReason(enum.StrEnum):
    """The reason why a frame is refused as a whole; the values are names of counters."""

    NOT_LLDP = "not_lldp"
    WRONG_DESTINATION = "wrong_destination"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    BAD_CHASSIS_ID = "bad_chassis_id"
    BAD_PORT_ID = "bad_port_id"
    BAD_TTL = "bad_ttl"
    MANDATORY_REPEATED = "mandatory_repeated"


class LldpError(XoffError):
    """Octets that are not an LLDP frame."""

    def __init__(self, reason: LldpReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ChassisId:
    """The chassis of a neighbour. Together with its PortId it identifies the neighbour."""

    subtype: int
    value: bytes

    def __post_init__(self) -> None:
        _check_identifier("chassis ID", self.subtype, self.value)

    @classmethod
    def of_mac(cls, mac: Mac) -> ChassisId:
        return cls(_MAC_SUBTYPES[_CHASSIS_ID], mac.octets)

    @classmethod
    def local(cls, text: str) -> ChassisId:
        """Return the ID of a name that an administrator gave."""
        return cls(7, text.encode())

    def __str__(self) -> str:
        return _identifier_text(_CHASSIS_ID, self.subtype, self.value)


@dataclass(frozen=True, slots=True)
class PortId:
    """The port of the neighbour."""

    subtype: int
    value: bytes

    def __post_init__(self) -> None:
        _check_identifier("port ID", self.subtype, self.value)

    @classmethod
    def of_mac(cls, mac: Mac) -> PortId:
        return cls(_MAC_SUBTYPES[_PORT_ID], mac.octets)

    @classmethod
    def interface(cls, name: str) -> PortId:
        return cls(5, name.encode())

    def __str__(self) -> str:
        return _identifier_text(_PORT_ID, self.subtype, self.value)


@dataclass(frozen=True, slots=True)
class Lldpdu:
    """An LLDPDU: what one station announces about one of its ports."""

    chassis_id: ChassisId
    port_id: PortId
    ttl: int  # seconds; 0: shutdown
    tlvs: tuple[Tlv, ...] = ()
    flaws: tuple[Flaw, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.ttl <= LONGEST_TTL:
            raise FieldError(f"a TTL of {self.ttl} seconds does not fit: it is 0 to {LONGEST_TTL}")

    def encode(self) -> bytes:
        parts = [
            pack(_CHASSIS_ID, bytes([self.chassis_id.subtype]) + self.chassis_id.value),
            pack(_PORT_ID, bytes([self.port_id.subtype]) + self.port_id.value),
            pack(_TTL, HEAD.pack(self.ttl)),
            *(encode(tlv) for tlv in self.tlvs),
            pack(_END, b""),
        ]
        octets = b"".join(parts)
        if len(octets) > LONGEST_PDU:
            raise FieldError(
                f"an LLDPDU of {len(octets)} octets does not fit into a frame, which holds {LONGEST_PDU}; "
                "send fewer or shorter TLVs"
            )
        return octets


@dataclass(frozen=True, slots=True)
class LldpFrame:
    """An LLDPDU and its source address."""

    source: Mac
    pdu: Lldpdu

    def encode(self) -> bytes:
        header = _ETHERNET.pack(NEAREST_BRIDGE.octets, self.source.octets, ETHERTYPE)
        return (header + self.pdu.encode()).ljust(_SHORTEST_FRAME, b"\0")


def parse(data: bytes) -> LldpFrame:
    """Read a frame as it comes from a port, from the destination on and with or without FCS."""
    if len(data) < _ETHERNET.size:
        raise LldpError(
            LldpReason.TOO_SHORT,
            f"a frame of {len(data)} octets is cut short: an Ethernet header would end at {_ETHERNET.size}",
        )
    destination, source, ethertype = _ETHERNET.unpack_from(data)
    if ethertype != ETHERTYPE:
        raise LldpError(LldpReason.NOT_LLDP, f"EtherType {ethertype:#06x} is not LLDP, {ETHERTYPE:#06x}")
    if destination != NEAREST_BRIDGE.octets:
        raise LldpError(
            LldpReason.WRONG_DESTINATION,
            f"an LLDP frame to {Mac(destination)} is refused: DCBX uses {NEAREST_BRIDGE} alone",
        )
    longest = _ETHERNET.size + LONGEST_PDU + _FCS
    if len(data) > longest:
        raise LldpError(LldpReason.TOO_LONG, f"an LLDP frame of {len(data)} octets is refused: {longest} is the most")
    return LldpFrame(Mac(source), parse_pdu(data[_ETHERNET.size :]))


def parse_pdu(octets: bytes) -> Lldpdu:
    """Read what follows the Ethernet header."""
    chassis, at = _mandatory(octets, 0, _CHASSIS_ID, LldpReason.BAD_CHASSIS_ID)
    port, at = _mandatory(octets, at, _PORT_ID, LldpReason.BAD_PORT_ID)
    ttl, at = _mandatory(octets, at, _TTL, LldpReason.BAD_TTL)
    tlvs: list[Tlv] = []
    flaws: list[Flaw] = []
    seen = 0  # a bit for each type
    end = len(octets)
    while at < end:
        if end - at < 2:
            flaws.append(Flaw("tlv", TlvReason.CUT_SHORT, "one octet is left, and a TLV starts with two"))
            break
        (head,) = HEAD.unpack_from(octets, at)
        kind, start = head >> 9, at + 2
        at = start + (head & 0x1FF)
        if at > end:
            message = f"a TLV of type {kind} has a length of {head & 0x1FF} octets, and {end - start} are left"
            flaws.append(Flaw("tlv", TlvReason.CUT_SHORT, message))
            break
        if kind == _END:
            if at > start:
                flaws.append(Flaw("end", TlvReason.NOT_EMPTY, f"End has {at - start} octets"))
            break
        if kind <= _TTL:
            message = f"a TLV of type {kind} comes again, where chassis ID, port ID and TTL are over"
            raise LldpError(LldpReason.MANDATORY_REPEATED, message)
        tlv = read(kind, octets[start:at], bool(seen >> kind & 1))
        seen |= 1 << kind
        if isinstance(tlv, Flaw):
            flaws.append(tlv)
        else:
            tlvs.append(tlv)
    identity = ChassisId(chassis[0], chassis[1:]), PortId(port[0], port[1:])
    return Lldpdu(*identity, int.from_bytes(ttl[:2], "big"), tuple(tlvs), tuple(flaws))


def _mandatory(octets: bytes, at: int, kind: int, reason: LldpReason) -> tuple[bytes, int]:
    """Return the information string of the TLV that must be here, and where the next one starts."""
    name, longest = _MANDATORY[kind]
    if len(octets) - at < 2:
        raise LldpError(reason, f"the LLDPDU ends where its {name} should be")
    (head,) = HEAD.unpack_from(octets, at)
    length, start = head & 0x1FF, at + 2
    if head >> 9 != kind:
        raise LldpError(reason, f"a TLV of type {head >> 9} stands where {name}, type {kind}, should be")
    if len(octets) - start < length:
        raise LldpError(reason, f"the {name} has a length of {length} octets, and {len(octets) - start} are left")
    if not 2 <= length <= longest:
        raise LldpError(reason, f"the {name} has {length} octets, and has to have 2 to {longest}")
    return octets[start : start + length], start + length


_MANDATORY = {_CHASSIS_ID: ("chassis ID", 256), _PORT_ID: ("port ID", 256), _TTL: ("TTL", 511)}
"""The mandatory TLVs by type: name, and most octets. A longer TTL would be a later edition's; its first two octets
count."""


def _check_identifier(name: str, subtype: int, value: bytes) -> None:
    if subtype >> 8:
        raise FieldError(f"{name} subtype {subtype} does not fit into 8 bits")
    if not 1 <= len(value) <= 255:
        raise FieldError(f"a {name} of {len(value)} octets has an invalid length; must be 1 to 255")


def _identifier_text(kind: int, subtype: int, value: bytes) -> str:
    if subtype == _MAC_SUBTYPES[kind] and len(value) == 6:
        return str(Mac(value))
    if subtype == _NETWORK_ADDRESS_SUBTYPES[kind]:
        return address_text(value[0], value[1:])
    return value.decode() if value.isascii() and value.decode().isprintable() else value.hex()
