"""SIDs as BGP-LS would announce them (RFC 9514), in octets and in JSON (decision 0145).

    SRv6 SID NLRI      type 6, length; protocol id, identifier (64 bits), then TLVs:
      256              local node: 512 AS number, 515 router id
      518              the SID
    its attribute      1250: behaviour (16 bits), flags, algorithm
                       1252: bits of block, node, function, argument
    a link's attribute 1106: behaviour, flags, algorithm, weight, reserved, SID, and 1252 inside

A SID of an adjacency (End.X, End.X.PFC) belongs to a link and goes out as TLV 1106 of that link; the behaviour's code
point distinguishes End.X.PFC from End.X. All other SIDs go out as NLRI with an attribute. Both can be built for any
SID that fits, since controllers like to have everything in one list. TLVs that are not known are skipped, as BGP-LS
demands.

RFC 9514 has no place for a slice, nor for the interfaces of J, which the link itself describes. JSON has both, so only
JSON gives back the whole `Sid`; from octets comes an `Announcement`. No BGP is spoken here.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, Any, NoReturn

from testbed.errors import XoffError
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import RouterName, SidAddress, SliceId, Srv6Error
from testbed.subjects.srv6.protocol.sid import Adjacency, CodePoints, Flavours, Sid, Structure
from testbed.typed_json.codec import Adapter, Codec
from testbed.typed_json.meta import Meta, message

SID_NLRI = 6
STATIC_CONFIGURATION = 5
"""The protocol id: agents report these SIDs, no IGP does."""

_LOCAL_NODE, _AS_NUMBER, _ROUTER_ID = 256, 512, 515
_SID_INFORMATION, _END_X_SID, _BEHAVIOUR, _STRUCTURE = 518, 1106, 1250, 1252
_SET_FLAG = 0x40  # J has several members

_HEAD = struct.Struct("!HH")
_NLRI = struct.Struct("!BQ")
_BEHAVIOUR_FIELDS = struct.Struct("!HBB")
_END_X_FIELDS = struct.Struct("!HBBBx16s")


class Refusal(enum.StrEnum):
    """The reason why an announcement is refused. The values are names of counters."""

    TOO_SHORT = "too_short"
    WRONG_LENGTH = "wrong_length"
    NOT_SID_NLRI = "not_sid_nlri"
    MISSING = "missing"
    REPEATED = "repeated"
    BEHAVIOUR_NOT_KNOWN = "behaviour_not_known"
    CANNOT_BE = "cannot_be"  # well formed, but no SID can be so


class AnnouncementError(XoffError):
    """The error of octets that announce no SID."""

    def __init__(self, reason: Refusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class NodeId:
    """A router, as BGP-LS names it."""

    as_number: int
    router_id: IPv4Address

    def __post_init__(self) -> None:
        if type(self.as_number) is not int or not 0 <= self.as_number < 1 << 32:
            raise Srv6Error(f"AS number {self.as_number!r} does not fit into 32 bits")


@dataclass(frozen=True)
class Announcement:
    """The part of a SID that RFC 9514 has a place for, as read from octets."""

    address: IPv6Address
    behaviour: Behaviour
    flavours: Flavours
    algorithm: int
    structure: Structure
    weight: int = 0  # of TLV 1106 only
    is_set: bool = False  # of TLV 1106 only: J has several members


# To octets


def nlri(sid: Sid, node: NodeId, identifier: int = 0) -> bytes:
    """Return the SRv6 SID NLRI."""
    descriptors = _tlv(_AS_NUMBER, node.as_number.to_bytes(4)) + _tlv(_ROUTER_ID, node.router_id.packed)
    body = _NLRI.pack(STATIC_CONFIGURATION, identifier)
    body += _tlv(_LOCAL_NODE, descriptors) + _tlv(_SID_INFORMATION, sid.address.packed)
    return _tlv(SID_NLRI, body)


def attribute(sid: Sid, code_points: CodePoints) -> bytes:
    """Return the attribute's TLVs, which go with the NLRI."""
    behaviour = _BEHAVIOUR_FIELDS.pack(code_points.number(sid.behaviour, sid.flavours), 0, sid.algorithm)
    return _tlv(_BEHAVIOUR, behaviour) + _structure_tlv(sid.structure)


def end_x_tlv(sid: Sid, code_points: CodePoints) -> bytes:
    """Return the TLV for the attribute of the link that an End.X or End.X.PFC SID belongs to."""
    if not sid.behaviour.has_adjacencies:
        raise Srv6Error(f"{sid.name} belongs to no link; only End.X and End.X.PFC have a TLV 1106")
    flags = _SET_FLAG if len(sid.adjacencies) > 1 else 0
    number = code_points.number(sid.behaviour, sid.flavours)
    fields = _END_X_FIELDS.pack(number, flags, sid.algorithm, sid.weight, sid.address.packed)
    return _tlv(_END_X_SID, fields + _structure_tlv(sid.structure))


# From octets


def parse(nlri_octets: bytes, attribute_octets: bytes, code_points: CodePoints) -> tuple[NodeId, Announcement]:
    """Read an NLRI and its attribute."""
    node, address = _parse_nlri(nlri_octets)
    tlvs = _tlvs(attribute_octets, "the attribute", (_BEHAVIOUR, _STRUCTURE))
    number, _, algorithm = _unpack(_BEHAVIOUR_FIELDS, _needed(tlvs, _BEHAVIOUR, "the attribute"), _BEHAVIOUR)
    behaviour, flavours = _behaviour(number, code_points)
    return node, Announcement(address, behaviour, flavours, algorithm, _parse_structure(tlvs, "the attribute"))


def parse_end_x(octets: bytes, code_points: CodePoints) -> Announcement:
    """Read a TLV 1106, alone or among others."""
    value = _needed(_tlvs(octets, "the link's attribute", (_END_X_SID,)), _END_X_SID, "the link's attribute")
    if len(value) < _END_X_FIELDS.size:
        _refuse(
            Refusal.WRONG_LENGTH,
            f"TLV {_END_X_SID} has {len(value)} octets; it has {_END_X_FIELDS.size} at least",
        )
    number, flags, algorithm, weight, address = _END_X_FIELDS.unpack_from(value)
    inner = f"TLV {_END_X_SID}"
    tlvs = _tlvs(value[_END_X_FIELDS.size :], inner, (_STRUCTURE,))
    behaviour, flavours = _behaviour(number, code_points)
    structure = _parse_structure(tlvs, inner)
    return Announcement(
        IPv6Address(address), behaviour, flavours, algorithm, structure, weight, bool(flags & _SET_FLAG)
    )


def _parse_nlri(octets: bytes) -> tuple[NodeId, IPv6Address]:
    ((kind, body), *more) = list(_split(octets, "the NLRI")) or [(0, b"")]
    if kind != SID_NLRI or more:
        _refuse(Refusal.NOT_SID_NLRI, f"one NLRI of type {SID_NLRI}, SRv6 SID, was to come, not type {kind}")
    if len(body) < _NLRI.size:
        _refuse(Refusal.TOO_SHORT, f"the NLRI has {len(body)} octets; protocol and identifier alone are {_NLRI.size}")
    tlvs = _tlvs(body[_NLRI.size :], "the NLRI", (_LOCAL_NODE, _SID_INFORMATION))
    node = _tlvs(_needed(tlvs, _LOCAL_NODE, "the NLRI"), "the local node", (_AS_NUMBER, _ROUTER_ID))
    as_number = _sized(_needed(node, _AS_NUMBER, "the local node"), _AS_NUMBER, 4)
    router_id = _sized(_needed(node, _ROUTER_ID, "the local node"), _ROUTER_ID, 4)
    address = _sized(_needed(tlvs, _SID_INFORMATION, "the NLRI"), _SID_INFORMATION, 16)
    return NodeId(int.from_bytes(as_number), IPv4Address(router_id)), IPv6Address(address)


def _behaviour(number: int, code_points: CodePoints) -> tuple[Behaviour, Flavours]:
    meaning = code_points.meaning(number)
    if meaning is None:
        _refuse(Refusal.BEHAVIOUR_NOT_KNOWN, f"behaviour {number} ({number:#06x}) is none that is known here")
    return meaning


def _parse_structure(tlvs: Mapping[int, bytes], where: str) -> Structure:
    value = _sized(_needed(tlvs, _STRUCTURE, where), _STRUCTURE, 4)
    try:
        return Structure(*value)
    except Srv6Error as error:
        _refuse(Refusal.CANNOT_BE, str(error))


def _structure_tlv(structure: Structure) -> bytes:
    return _tlv(_STRUCTURE, bytes((structure.block, structure.node, structure.function, structure.argument)))


def _tlv(kind: int, value: bytes) -> bytes:
    return _HEAD.pack(kind, len(value)) + value


def _split(octets: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(octets):
        if len(octets) - at < _HEAD.size:
            _refuse(Refusal.TOO_SHORT, f"{len(octets) - at} octets are left at the end of {where}, too few for a TLV")
        kind, length = _HEAD.unpack_from(octets, at)
        at += _HEAD.size
        if len(octets) - at < length:
            _refuse(Refusal.TOO_SHORT, f"TLV {kind} in {where} has {length} octets, and {len(octets) - at} are left")
        yield kind, octets[at : at + length]
        at += length


def _tlvs(octets: bytes, where: str, wanted: tuple[int, ...]) -> dict[int, bytes]:
    """Return the wanted TLVs by type."""
    by_type: dict[int, bytes] = {}
    for kind, value in _split(octets, where):
        if kind in by_type:
            _refuse(Refusal.REPEATED, f"TLV {kind} comes twice in {where}; it may come once")
        if kind in wanted:
            by_type[kind] = value
    return by_type


def _needed(tlvs: Mapping[int, bytes], kind: int, where: str) -> bytes:
    if kind not in tlvs:
        _refuse(Refusal.MISSING, f"TLV {kind} is missing in {where}")
    return tlvs[kind]


def _sized(value: bytes, kind: int, size: int) -> bytes:
    if len(value) != size:
        _refuse(Refusal.WRONG_LENGTH, f"TLV {kind} has {len(value)} octets; it has {size}")
    return value


def _unpack(fields: struct.Struct, value: bytes, kind: int) -> tuple[Any, ...]:
    return fields.unpack(_sized(value, kind, fields.size))


def _refuse(reason: Refusal, message: str) -> NoReturn:
    raise AnnouncementError(reason, message)


# JSON


@dataclass(frozen=True)
@message(sparse=True)
class LocalNode:
    """The router of a SID."""

    name: RouterName
    as_number: Annotated[int | None, Meta(ge=0, le=(1 << 32) - 1)] = None
    router_id: IPv4Address | None = None


@dataclass(frozen=True)
class SidNlri:
    """The NLRI of a SID."""

    local_node: LocalNode
    sid: SidAddress
    type: Annotated[int, Meta(ge=SID_NLRI, le=SID_NLRI)] = SID_NLRI
    protocol_id: Annotated[int, Meta(ge=0, le=255)] = STATIC_CONFIGURATION


@dataclass(frozen=True)
class EndpointBehavior:
    """TLV 1250. The code point decides; name and flavours are for people."""

    code_point: Annotated[int, Meta(ge=0, le=65535)]
    algorithm: Annotated[int, Meta(ge=0, le=255)]
    name: str = ""
    flavours: str = ""


@dataclass(frozen=True)
class EndX:
    """TLV 1106, with the interfaces of J."""

    adjacencies: Annotated[tuple[Adjacency, ...], Meta(min_length=1, max_length=256)]
    weight: Annotated[int, Meta(ge=0, le=255)] = 0
    set: Annotated[bool, Meta(description="J has several members")] = False


@dataclass(frozen=True)
@message(sparse=True)
class AdvertisedSid:
    """A SID in the shape of RFC 9514, with the parts that octets have no place for."""

    nlri: SidNlri
    endpoint_behavior: EndpointBehavior
    sid_structure: Structure
    end_x: EndX | None = None
    slice_id: SliceId | None = None


def advertised(sid: Sid, code_points: CodePoints, node: NodeId | None = None) -> AdvertisedSid:
    """Return a SID as it is described in JSON."""
    return AdvertisedSid(
        SidNlri(LocalNode(sid.node, node.as_number, node.router_id) if node else LocalNode(sid.node), sid.address),
        EndpointBehavior(
            code_points.number(sid.behaviour, sid.flavours), sid.algorithm, str(sid.behaviour), str(sid.flavours)
        ),
        sid.structure,
        EndX(sid.adjacencies, sid.weight, len(sid.adjacencies) > 1) if sid.adjacencies else None,
        sid.slice_id,
    )


def described(data: AdvertisedSid, code_points: CodePoints) -> Sid:
    """Return the SID that `advertised` described."""
    behaviour, end_x = data.endpoint_behavior, data.end_x
    meaning = code_points.meaning(behaviour.code_point)
    if meaning is None:
        raise Srv6Error(f"endpoint_behavior.code_point is {behaviour.code_point}, which is not a known behaviour")
    return Sid(
        node=data.nlri.local_node.name,
        address=data.nlri.sid,
        behaviour=meaning[0],
        flavours=meaning[1],
        adjacencies=end_x.adjacencies if end_x else (),
        slice_id=data.slice_id,
        structure=data.sid_structure,
        algorithm=behaviour.algorithm,
        weight=end_x.weight if end_x else 0,
    )


@cache
def codec(code_points: CodePoints) -> Codec:
    """Return the codec for messages with SIDs, whose JSON is that of `AdvertisedSid`."""
    return Codec(
        {
            Sid: Adapter(
                AdvertisedSid, lambda sid: advertised(sid, code_points), lambda data: described(data, code_points)
            )
        }
    )
