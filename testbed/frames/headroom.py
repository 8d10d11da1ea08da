"""The measurement frames of adaptive PFC headroom: a request and its response (headroom proposal, phase 2).

The proposal asks for a new MAC control frame and leaves its format open; this one is private (decision 0113).
It has the length of a PFC frame, 60 octets here and 64 on the wire, so that it takes as long to send:

    octets  0-5   destination 01-80-C2-00-00-01, that of PFC: no bridge passes it on
            6-11  source
           12-13  EtherType 0x8808
           14-15  opcode 0xFFFE, which IEEE 802.3 annex 31C has for extensions; another one can be configured
           16-18  whose extension: 02-58-4F, from addresses that are not assigned
           19     version, 1
           20     kind: 1 request, 2 response
           21     reserved, 0
           22-23  sequence, the number of the request in its session
           24-27  session, a number that the asking station draws anew for each series
           28-35  T1 in ns of the asking station's clock
           36-43  T2 in ns of the answering station's clock; 0 in a request
           44-51  T3, likewise
           52-59  tag: BLAKE2s of octets 0 to 51 with the key, 8 octets

A response repeats sequence, session and T1. T4 is taken where the response arrives and never travels. Only differences
of stamps of one clock mean anything.

The tag proves a response to a station that shares a key with the answering one, and ties it to one request of one
session, so that a recorded one is of no use later. Without a key (the default) anybody can compute it: it then only
keeps out damaged and foreign frames, and session and T1, which have to be repeated, keep out stations that do not
receive the requests. Keys come from the configuration of both ends; a frame with another key counts as forged.

Octet 21 is ignored on receipt but covered by the tag; T2 and T3 of a request, and whatever follows octet 59, are
ignored. Not here: when to send and what an answer is worth, which is `testbed.switch.headroom`.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import struct
from dataclasses import dataclass

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac
from testbed.frames.mac_control import DESTINATION, ETHERTYPE

EXTENSION_OPCODE = 0xFFFE
EXTENSION = bytes.fromhex("02584f")
VERSION = 1
LENGTH = 60
LONGEST_KEY = 32

REQUEST, RESPONSE = 1, 2
_ETHERNET = struct.Struct("!6s6sHH")
FIELDS = struct.Struct("!3sBBxHIQQQ")  # x: the reserved octet
FIELD_NAMES = ("extension", "version", "kind", "reserved", "sequence", "session", "t1", "t2", "t3")
_BEGINS = struct.pack("!HH", ETHERTYPE, EXTENSION_OPCODE) + EXTENSION
_TAG_OCTETS = 8
TAGGED = _ETHERNET.size + FIELDS.size
_PURPOSE = b"xoffhdrm"  # the same key in another protocol makes other tags


class MeasurementReason(enum.StrEnum):
    """The reason why a frame is not a measurement frame; the values are names of counters."""

    TOO_SHORT = "too_short"
    NOT_MAC_CONTROL = "not_mac_control"
    WRONG_DESTINATION = "wrong_destination"
    OTHER_OPCODE = "other_opcode"
    OTHER_EXTENSION = "other_extension"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_KIND = "unknown_kind"
    WRONG_TAG = "wrong_tag"  # forged, damaged, or the two ends have different keys


class MeasurementFrameError(XoffError):
    """Octets that are not a measurement frame."""

    def __init__(self, reason: MeasurementReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class MeasurementRequest:
    """A request to the far station to answer at once."""

    source: Mac
    session: int
    sequence: int
    t1_ns: int

    def __post_init__(self) -> None:
        _check(session=(self.session, 32), sequence=(self.sequence, 16), t1_ns=(self.t1_ns, 64))

    def encode(self, key: bytes = b"", opcode: int = EXTENSION_OPCODE) -> bytes:
        return _frame(self, REQUEST, (0, 0), key, opcode)


@dataclass(frozen=True)
class Response:
    """The response to one request."""

    source: Mac
    session: int
    sequence: int
    t1_ns: int
    t2_ns: int
    t3_ns: int

    def __post_init__(self) -> None:
        _check(session=(self.session, 32), sequence=(self.sequence, 16), t1_ns=(self.t1_ns, 64))
        _check(t2_ns=(self.t2_ns, 64), t3_ns=(self.t3_ns, 64))

    @classmethod
    def to(cls, request: MeasurementRequest, source: Mac, t2_ns: int, t3_ns: int) -> Response:
        return cls(source, request.session, request.sequence, request.t1_ns, t2_ns, t3_ns)

    def encode(self, key: bytes = b"", opcode: int = EXTENSION_OPCODE) -> bytes:
        return _frame(self, RESPONSE, (self.t2_ns, self.t3_ns), key, opcode)


def parse(data: bytes, key: bytes = b"", opcode: int = EXTENSION_OPCODE) -> MeasurementRequest | Response:
    """Read a frame as it comes from a port, from the destination on and with or without FCS."""
    if len(data) < LENGTH:
        raise MeasurementFrameError(
            MeasurementReason.TOO_SHORT, f"a frame of {len(data)} octets is not a measurement frame, which has {LENGTH}"
        )
    destination, source, ethertype, found_opcode = _ETHERNET.unpack_from(data)
    if ethertype != ETHERTYPE:
        raise MeasurementFrameError(
            MeasurementReason.NOT_MAC_CONTROL, f"EtherType {ethertype:#06x} is not MAC control, {ETHERTYPE:#06x}"
        )
    if destination != DESTINATION.octets:
        raise MeasurementFrameError(
            MeasurementReason.WRONG_DESTINATION,
            f"a MAC control frame to {Mac(destination)} is refused: measurement frames go to {DESTINATION}",
        )
    if found_opcode != opcode:
        raise MeasurementFrameError(
            MeasurementReason.OTHER_OPCODE,
            f"MAC control opcode {found_opcode:#06x} is not that of measurement, {opcode:#06x}",
        )
    extension, version, kind, sequence, session, *stamps = FIELDS.unpack_from(data, _ETHERNET.size)
    if extension != EXTENSION:
        raise MeasurementFrameError(
            MeasurementReason.OTHER_EXTENSION,
            f"MAC control extension {extension.hex('-')} is not that of Xoff, {EXTENSION.hex('-')}",
        )
    if version != VERSION:
        raise MeasurementFrameError(
            MeasurementReason.UNKNOWN_VERSION,
            f"version {version} of the measurement frame is not known; it is {VERSION} here",
        )
    if kind not in (REQUEST, RESPONSE):
        raise MeasurementFrameError(MeasurementReason.UNKNOWN_KIND, f"kind {kind} is neither request nor response")
    if not hmac.compare_digest(data[TAGGED:LENGTH], _tag(data[:TAGGED], key)):
        raise MeasurementFrameError(
            MeasurementReason.WRONG_TAG,
            f"a measurement frame from {Mac(source)} has the wrong tag: it is forged or damaged, "
            "or the other end has another key",
        )
    if kind == REQUEST:
        return MeasurementRequest(Mac(source), session, sequence, stamps[0])
    return Response(Mac(source), session, sequence, *stamps)


def is_measurement(frame: bytes) -> bool:
    """Return True if a frame may be a measurement frame by its first octets; `parse` decides."""
    return len(frame) >= LENGTH and frame[:6] == DESTINATION.octets and frame[12:19] == _BEGINS


def check_key(key: bytes) -> None:
    """Raise an error for an invalid key."""
    if not isinstance(key, bytes) or len(key) > LONGEST_KEY:
        raise FieldError(f"a measurement key is at most {LONGEST_KEY} octets; this one has {len(key)}")


def _frame(
    message: MeasurementRequest | Response, kind: int, far_stamps: tuple[int, int], key: bytes, opcode: int
) -> bytes:
    if not 0 <= opcode <= 0xFFFF:
        raise FieldError(f"{opcode:#x} is not a MAC control opcode: it has more than 16 bits")
    header = _ETHERNET.pack(DESTINATION.octets, message.source.octets, ETHERTYPE, opcode)
    tagged = header + FIELDS.pack(
        EXTENSION, VERSION, kind, message.sequence, message.session, message.t1_ns, *far_stamps
    )
    return tagged + _tag(tagged, key)


def _tag(tagged: bytes, key: bytes) -> bytes:
    check_key(key)
    return hashlib.blake2s(tagged, digest_size=_TAG_OCTETS, key=key, person=_PURPOSE).digest()


def _check(**fields: tuple[int, int]) -> None:
    for name, (value, bits) in fields.items():
        if not 0 <= value < 1 << bits:
            raise FieldError(f"{name} is {value}, which does not fit into the {bits} bits of its field")
