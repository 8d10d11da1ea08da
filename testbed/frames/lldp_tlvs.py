"""The optional TLVs of LLDP (IEEE 802.1AB clause 8.5 and 8.6), one by one: values, octets, and what is wrong with them.

`lldp` has the frame around them, and defines how strict the reading is.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
from dataclasses import dataclass

from testbed.frames import FieldError, Mac

HEAD = struct.Struct("!H")
"""The head of a TLV: type in 7 bits, length in 9."""
CAPABILITIES, MANAGEMENT_ADDRESS, ORGANISATIONAL = 7, 8, 127

_PAIR = struct.Struct("!HH")
_INTERFACE = struct.Struct("!BI")


class TlvReason(enum.StrEnum):
    """The reason why an optional TLV is left out."""

    CUT_SHORT = "cut_short"  # the frame ends before the TLV does
    TOO_SHORT = "too_short"  # for the fields it must have
    TOO_LONG = "too_long"  # for the text it is
    BAD_LENGTH = "bad_length"  # a length inside it does not fit
    REPEATED = "repeated"
    NOT_EMPTY = "not_empty"  # End has a length


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong in a TLV of a frame that was otherwise read."""

    tlv: str
    reason: enum.StrEnum
    message: str

    @property
    def counter(self) -> str:
        return f"{self.tlv}.{self.reason}"


class TextKind(enum.IntEnum):
    """The optional TLVs that are one text; the values are their types."""

    PORT_DESCRIPTION = 4
    SYSTEM_NAME = 5
    SYSTEM_DESCRIPTION = 6


_TEXT_KINDS = {kind.value: kind for kind in TextKind}
_COUNTERS = {kind.value: kind.name.lower() for kind in TextKind} | {CAPABILITIES: "system_capabilities"}


@dataclass(frozen=True, slots=True)
class Text:
    """A description or a name, as octets: a peer need not send UTF-8."""

    kind: TextKind
    value: bytes

    def __post_init__(self) -> None:
        if len(self.value) > 255:
            raise FieldError(f"a {self.name} of {len(self.value)} octets is too long: it has 255 at most")

    @property
    def name(self) -> str:
        return self.kind.name.lower().replace("_", " ")

    def __str__(self) -> str:
        return self.value.decode("utf-8", "replace")


class Capability(enum.IntFlag):
    """The capabilities of a system, as in table 8-4 of 802.1AB."""

    OTHER = 1
    REPEATER = 2
    BRIDGE = 4
    WLAN = 8
    ROUTER = 16
    TELEPHONE = 32
    DOCSIS = 64
    STATION = 128


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The system's capabilities, as bits of Capability; others may be set too."""

    present: int
    enabled: int

    def __post_init__(self) -> None:
        if not (0 <= self.present <= 0xFFFF and 0 <= self.enabled <= 0xFFFF):
            raise FieldError(f"capabilities {self.present:#x} and {self.enabled:#x} do not fit into 16 bits each")


@dataclass(frozen=True, slots=True)
class ManagementAddress:
    """An address at which the neighbour is managed; there may be several."""

    family: int  # an IANA address family: 1 IPv4, 2 IPv6, 6 MAC
    address: bytes
    interface: int = 0
    numbering: int = 1  # 1 unknown, 2 ifIndex, 3 system port number
    oid: bytes = b""

    def __post_init__(self) -> None:
        if not 1 <= len(self.address) <= 31:
            raise FieldError(
                f"a management address of {len(self.address)} octets has an invalid length; must be 1 to 31"
            )
        if len(self.oid) > 128:
            raise FieldError(f"an object identifier of {len(self.oid)} octets is too long: it has 128 at most")
        if self.family >> 8 or self.numbering >> 8 or self.interface >> 32:
            raise FieldError(
                f"address family {self.family}, interface numbering {self.numbering} or interface {self.interface} "
                "does not fit into its 8, 8 and 32 bits"
            )

    @classmethod
    def ip(cls, text: str, interface: int = 0) -> ManagementAddress:
        """Return the TLV of an IPv4 or IPv6 address, with the interface's index if there is one."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise FieldError(f"{text!r} is not an IP address: write for example '192.0.2.1'") from None
        return cls(1 if address.version == 4 else 2, address.packed, interface, 2 if interface else 1)

    def __str__(self) -> str:
        return address_text(self.family, self.address)


@dataclass(frozen=True, slots=True)
class Organisational:
    """A TLV of some organisation, with what follows OUI and subtype."""

    oui: bytes
    subtype: int
    info: bytes

    def __post_init__(self) -> None:
        if len(self.oui) != 3:
            raise FieldError(f"an OUI of {len(self.oui)} octets has an invalid length; must be 3")
        if self.subtype >> 8:
            raise FieldError(f"organisational subtype {self.subtype} does not fit into 8 bits")
        if len(self.info) > 507:
            raise FieldError(f"an organisational TLV of {len(self.info)} octets is too long: it has 507 at most")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A TLV of a type that 802.1AB reserves."""

    type: int
    info: bytes

    def __post_init__(self) -> None:
        if not 9 <= self.type <= 126:
            raise FieldError(f"TLV type {self.type} is not reserved: 9 to 126 are")
        if len(self.info) > 511:
            raise FieldError(f"a TLV of {len(self.info)} octets is too long: it has 511 at most")


Tlv = Text | Capabilities | ManagementAddress | Organisational | Unknown


def read(kind: int, info: bytes, repeated: bool) -> Tlv | Flaw:
    """Read a TLV of type 4 or higher; `repeated` is True if there was one of this type before."""
    if kind == ORGANISATIONAL:
        if len(info) < 4:
            return _too_short("organisational", len(info), 4)
        return Organisational(info[:3], info[3], info[4:])
    if kind > MANAGEMENT_ADDRESS:
        return Unknown(kind, info)
    return _management_address(info) if kind == MANAGEMENT_ADDRESS else _once(kind, info, repeated)


def encode(tlv: Tlv) -> bytes:
    match tlv:
        case Organisational():
            return pack(ORGANISATIONAL, tlv.oui + bytes([tlv.subtype]) + tlv.info)
        case Text():
            return pack(tlv.kind, tlv.value)
        case Capabilities():
            return pack(CAPABILITIES, _PAIR.pack(tlv.present, tlv.enabled))
        case ManagementAddress():
            interface = _INTERFACE.pack(tlv.numbering, tlv.interface)
            oid = bytes([len(tlv.oid)]) + tlv.oid
            return pack(MANAGEMENT_ADDRESS, bytes([len(tlv.address) + 1, tlv.family]) + tlv.address + interface + oid)
        case Unknown():
            return pack(tlv.type, tlv.info)


def pack(kind: int, info: bytes) -> bytes:
    return HEAD.pack(kind << 9 | len(info)) + info


def _once(kind: int, info: bytes, repeated: bool) -> Text | Capabilities | Flaw:
    """Read one of the TLVs of which a frame has one at most."""
    if repeated:
        name = _COUNTERS[kind]
        return Flaw(name, TlvReason.REPEATED, f"{name.replace('_', ' ')} comes again; the first counts")
    if kind == CAPABILITIES:
        return Capabilities(*_PAIR.unpack_from(info)) if len(info) >= 4 else _too_short(_COUNTERS[kind], len(info), 4)
    if len(info) > 255:
        name = _COUNTERS[kind]
        message = f"{name.replace('_', ' ')} has {len(info)} octets, and 255 at most are allowed"
        return Flaw(name, TlvReason.TOO_LONG, message)
    return Text(_TEXT_KINDS[kind], info)


def _management_address(info: bytes) -> ManagementAddress | Flaw:
    if len(info) < 9:
        return _too_short("management_address", len(info), 9)
    number_at = 1 + info[0]  # the length counts the family's octet
    oid_at = number_at + 6
    if not 2 <= info[0] <= 32 or oid_at > len(info):
        message = f"an address of {info[0]} octets with its family does not fit into a TLV of {len(info)}"
        return Flaw("management_address", TlvReason.BAD_LENGTH, message)
    numbering, number = _INTERFACE.unpack_from(info, number_at)
    oid_length = info[oid_at - 1]
    if oid_length > 128 or oid_at + oid_length > len(info):
        message = (
            f"an object identifier of {oid_length} octets does not fit; {len(info) - oid_at} are left of 128 at most"
        )
        return Flaw("management_address", TlvReason.BAD_LENGTH, message)
    oid = info[oid_at : oid_at + oid_length]
    return ManagementAddress(info[1], info[2:number_at], number, numbering, oid)


def _too_short(tlv: str, length: int, needed: int) -> Flaw:
    name = tlv.replace("_", " ")
    return Flaw(tlv, TlvReason.TOO_SHORT, f"a TLV for {name} has {length} octets, and {needed} are the least")


def address_text(family: int, address: bytes) -> str:
    if (family, len(address)) in {(1, 4), (2, 16)}:
        return str(ipaddress.ip_address(address))
    return str(Mac(address)) if (family, len(address)) == (6, 6) else address.hex()
