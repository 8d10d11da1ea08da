"""The header of ESUN (Ethernet for Scale-Up Networking): four octets in place of IP's.

    octets  0-5   destination
            6-11  source
           12-13  EtherType of ESUN; behind one tag of 802.1Q at the most
           then   ECN 2 bits, CoS 3, F 1, Flow Label 16, TTL 4, user-defined 4, revision 2
           then   payload

Provisional: the fields and their order are those of a public test plan (SONiC's of scale-up ESUN, revision 0.1), whose
source is not public. It gives no widths, and the EtherType is not assigned. The widths here are chosen so that the sum
is 32, with those of ECN and CoS as IP and 802.1Q have them; the EtherType is IEEE's second one for experiments.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac

ETHERTYPE = 0x88B6
REVISION = 0
OCTETS, FCS_OCTETS = 4, 4
WIDTHS = {"ecn": 2, "cos": 3, "flow_bit": 1, "flow_label": 16, "ttl": 4, "user": 4, "revision": 2}
"""The bits of each field, from the first on."""
NOT_ECT, CE = 0, 3
_TAG = 0x8100
_ETHERNET = struct.Struct("!6s6sH")
_FCS = struct.Struct("<I")


class EsunReason(enum.StrEnum):
    """The reason why octets are no frame of ESUN; the values are names of counters."""

    TOO_SHORT = "too_short"
    OTHER_ETHERTYPE = "other_ethertype"


class EsunError(XoffError):
    """Octets that are no frame of ESUN."""

    def __init__(self, reason: EsunReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class EsunHeader:
    """The header; its fields have the values that are on the line."""

    ecn: int = 2
    cos: int = 0
    flow_bit: bool = False
    """F: the flow label has entropy, and is hashed."""
    flow_label: int = 0
    ttl: int = 15
    user: int = 0
    revision: int = REVISION

    def __post_init__(self) -> None:
        for name, bits in WIDTHS.items():
            value = int(getattr(self, name))
            if not 0 <= value < 1 << bits:
                raise FieldError(f"{name} is {value}; it has {bits} bits, 0 to {(1 << bits) - 1}")

    def encode(self) -> bytes:
        whole = 0
        for name, bits in WIDTHS.items():
            whole = whole << bits | int(getattr(self, name))
        return whole.to_bytes(OCTETS)

    @classmethod
    def parse(cls, octets: bytes) -> EsunHeader:
        """Read the first four octets."""
        if len(octets) < OCTETS:
            raise EsunError(EsunReason.TOO_SHORT, f"{len(octets)} octets; the header of ESUN has {OCTETS}")
        whole, left, found = int.from_bytes(octets[:OCTETS]), 8 * OCTETS, dict[str, Any]()
        for name, bits in WIDTHS.items():
            left -= bits
            found[name] = whole >> left & (1 << bits) - 1
        return cls(**found | {"flow_bit": bool(found["flow_bit"])})


class EsunFrame(NamedTuple):
    """A frame of ESUN without FCS; `pcp` is that of its tag, or None without one."""

    destination: Mac
    source: Mac
    header: EsunHeader
    payload: bytes = b""
    pcp: int | None = None
    vlan: int = 0

    def encode(self) -> bytes:
        tag = b"" if self.pcp is None else struct.pack("!HH", _TAG, self.pcp << 13 | self.vlan)
        ends = self.destination.octets + self.source.octets
        return ends + tag + struct.pack("!H", ETHERTYPE) + self.header.encode() + self.payload


def parse(octets: bytes) -> EsunFrame:
    """Read a frame without FCS."""
    if len(octets) < _ETHERNET.size:
        raise EsunError(EsunReason.TOO_SHORT, f"{len(octets)} octets, too few for an Ethernet header")
    destination, source, kind = _ETHERNET.unpack_from(octets)
    at, pcp, vlan = _ETHERNET.size, None, 0
    if kind == _TAG and len(octets) >= at + 4:
        tag, kind = struct.unpack_from("!HH", octets, at)
        at, pcp, vlan = at + 4, tag >> 13, tag & 0xFFF
    if kind != ETHERTYPE:
        raise EsunError(EsunReason.OTHER_ETHERTYPE, f"EtherType {kind:#06x} is not {ETHERTYPE:#06x}, that of ESUN here")
    header = EsunHeader.parse(octets[at:])
    return EsunFrame(Mac(destination), Mac(source), header, octets[at + OCTETS :], pcp, vlan)


def with_fcs(frame: bytes) -> bytes:
    """Return a frame with its FCS, as it is on the line."""
    return frame + _FCS.pack(crc32(frame))


def is_intact(frame: bytes) -> bool:
    """Return True if the FCS at the end of a frame is right."""
    return len(frame) > FCS_OCTETS and frame[-FCS_OCTETS:] == _FCS.pack(crc32(frame[:-FCS_OCTETS]))
