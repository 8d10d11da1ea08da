"""End.X.PFC: the treatment of a packet to such a SID, as a pure function on octets.

Section 2 of the draft, S01 to S16 and the upper-layer part, in that order, with the flavours of RFC 8986, section 4.16,
and its section 4.1.1 for other upper layers. `process` has no state and no clock. Counters, and the limit of errors,
are in `local_sids`.

Open questions of the draft are settled by decisions 0141 (J), 0142 (flavours), 0143 (ICMP errors), 0144 (frames that
are not PFC) and 0146 (slices). Beyond them:

- Both filters of the SR domain come first (RFC 8754, section 5.1): a sender that may not send to SIDs learns nothing.
- OAM: the SID answers echo requests, and UDP, which is what traceroute sends, with "port unreachable"; so a trace that
  ends at the SID ends well (RFC 9259). Each can be turned off. Other upper layers can be allowed; they are handed over.
- An ICMP error quotes the packet as it came, also where the flavour USP has taken the header off, and comes from the
  SID, since the packet was sent to it (RFC 4443, section 2.2), unless `answer_from` is set. Where no error may
  be sent (section 2.4) the packet is dropped with the same reason.
- Hop-by-hop and destination options that must be known and are not end the packet as RFC 8200 requires, and so does a
  routing header of another type with segments left. A fragment is not reassembled: at the last segment it is dropped.

Where Linux's End.X differs (6.12; transit may stay with it, since it forwards in the same way):

- Errors: it sends Time Exceeded, quoting a packet that it has advanced already, and no other (`beside_kernel`).
- Upper layer 143 at the last segment: the kernel has no such protocol and does nothing with it.
- The flavours: it refuses to configure End.X with any. J: it takes one next hop, which is `forwards_by` here.
- Pings to a SID: no address of the router's own is behind it, so the kernel does not answer; here the SID does.
- Sources: the kernel's behaviour takes a packet from anybody; filters are to be set up beside it.
- TLVs that do not fit into the routing header: the kernel drops the packet; here they are ignored.

The kernel's share in packets to its End.X SIDs, so that an agent beside it does exactly the rest.

Found on 6.12, by packets of every kind (`tests/lab/wan/test_wan_errors.py`, decision 0143):

- A packet with segments left and a sound routing header is advanced and passed on. With Hop Limit 1 or less it is
  answered with Time Exceeded, after it has been advanced. That is the only error of section 2 of the draft that the
  kernel sends.
- A hop-by-hop option that must be known and is not is answered at any router, before the SID is looked at.
- All else is dropped silently: Segments Left or Last Entry out of bounds, whatever the Hop Limit is; routing
  headers of other types; every packet that ends at the SID.
- End.X takes no flavours. USP needs none of the kernel, since what ends here is the agent's; PSP would.

A packet socket shares the packet's memory with the kernel, which advances it in place. So the agent reads a packet
that was passed on in its changed form: `as_it_came` takes the step back.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.frames import headroom, icmpv6, ipv6, mac_control, srh
from testbed.frames.icmpv6 import Echo, EchoType, Error, ErrorType
from testbed.frames.ipv6 import Header, Option, Packet, PacketError
from testbed.frames.mac_control import MacControlError, PfcFrame
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import SrDomain, Srv6Error
from testbed.subjects.srv6.protocol.sid import Adjacency, Flavours, Sid


class Cause(enum.StrEnum):
    """The cause of an answer to a packet, or of its drop where no answer may be sent."""

    HOP_LIMIT = "hop_limit"  # S05
    SEGMENTS_LEFT = "segments_left"  # S09
    UPPER_LAYER = "upper_layer"  # RFC 8986, 4.1.1
    ROUTING_TYPE = "routing_type"
    HEADER = "header"  # RFC 8200: an option that must be known, hop-by-hop options in a wrong place
    PING = "ping"
    TRACEROUTE = "traceroute"


class DropReason(enum.StrEnum):
    """The reason why a packet ends here without an answer, besides malformed packets (`ipv6.PacketReason`)."""

    NOT_THIS_SID = "not_this_sid"
    OUTSIDE_DOMAIN = "outside_domain"
    FRAGMENT = "fragment"
    INNER_TOO_SHORT = "inner_too_short"
    INNER_OTHER_MAC = "inner_other_mac"
    INNER_NOT_MAC_CONTROL = "inner_not_mac_control"
    INNER_OTHER_OPCODE = "inner_other_opcode"
    INNER_PAUSE = "inner_pause"


_MAC_OCTETS = 6

_INNER = {
    mac_control.MacControlReason.TOO_SHORT: DropReason.INNER_TOO_SHORT,
    mac_control.MacControlReason.WRONG_DESTINATION: DropReason.INNER_OTHER_MAC,
    mac_control.MacControlReason.NOT_MAC_CONTROL: DropReason.INNER_NOT_MAC_CONTROL,
    mac_control.MacControlReason.UNKNOWN_OPCODE: DropReason.INNER_OTHER_OPCODE,
}


@dataclass(frozen=True)
class Forward:
    """Step S15: send the packet out by this adjacency, without looking up a route."""

    packet: bytes
    adjacency: Adjacency


@dataclass(frozen=True)
class PauseJ:
    """Pause every member of J by the frame, each by quanta at its own rate, in the queues of this slice."""

    frame: PfcFrame
    adjacencies: tuple[Adjacency, ...]
    slice_id: int | None  # None: the queues that belong to no slice


@dataclass(frozen=True)
class Measure:
    """Answer a frame that measures how long it takes to pause J from the place of its sender (decision 0147)."""

    frame: bytes
    back: tuple[IPv6Address, ...]
    """The way back, in order of travel: this SID first, the sender's address last."""


@dataclass(frozen=True)
class SendIcmp:
    """Send this packet, an error or an echo reply, by an ordinary route; the packet that came ends here."""

    packet: bytes
    cause: Cause


@dataclass(frozen=True)
class Deliver:
    """Hand the packet to the router's own protocol; its header starts at `start`."""

    packet: bytes
    protocol: int
    start: int


@dataclass(frozen=True)
class Drop:
    """Drop the packet, for a reason that is the name of a counter."""

    reason: DropReason | ipv6.PacketReason | Cause


Result = Forward | PauseJ | Measure | SendIcmp | Deliver | Drop


@dataclass(frozen=True)
class LocalSid:
    """An End.X.PFC SID of this router, and its configuration."""

    sid: Sid
    domain: SrDomain
    ping: bool = True
    traceroute: bool = True
    allowed: frozenset[int] = frozenset()  # further upper-layer types, handed over (RFC 8986, 4.1.1)
    measures: bool = False  # measurement frames of the headroom proposal's are handed over
    answer_from: IPv6Address | None = None  # source of ICMP errors; the SID itself if not given
    slice_option: int = ipv6.SLICE  # the option's type

    def __post_init__(self) -> None:
        if self.sid.behaviour is not behaviours.END_X_PFC:
            raise Srv6Error(f"{self.sid.name} is not an End.X.PFC SID, and its packets are not for this function")
        if not self.domain.is_sid(self.sid.address):
            raise Srv6Error(f"{self.sid.name} is in no prefix of the domain's SIDs, so nothing would guard it")
        if ipv6.ETHERNET in self.allowed or ipv6.FRAGMENT in self.allowed:
            raise Srv6Error(f"{self.sid.name} cannot hand over types 143 (its own) and 44 (fragments); take them out")

    @property
    def forwards_by(self) -> Adjacency:
        return self.sid.adjacencies[0]


def process(data: bytes, local: LocalSid, from_outside: bool = False) -> Result:
    """Return the fate of a packet to this SID; `from_outside` if it came by an interface out of the SR domain."""
    try:
        packet = ipv6.whole(data)
    except PacketError as error:
        return Drop(error.reason)
    source, destination = ipv6.addresses(packet)
    if destination != local.sid.address:
        return Drop(DropReason.NOT_THIS_SID)
    if not local.domain.lets_in(source, destination, from_outside):
        return Drop(DropReason.OUTSIDE_DOMAIN)
    try:
        return _along_the_headers(packet, local)
    except PacketError as error:
        if error.problem is None:
            return Drop(error.reason)
        return _parameter_problem(packet, local, Cause.HEADER, error.problem.code, error.problem.pointer)


def _along_the_headers(packet: bytes, local: LocalSid) -> Result:
    finished: list[Header] = []
    hop_by_hop: list[Option] = []
    for header in ipv6.headers(packet):
        if header.protocol == ipv6.ROUTING:
            fields = srh.Fields.read(packet, header.start)
            if fields.segments_left:  # S02
                return _segment_routing(packet, header, fields, local)
            if fields.routing_type == srh.ROUTING_TYPE:
                finished.append(header)
        elif header.is_extension:
            options = list(ipv6.parse_header(packet, header))
            ipv6.check_known(options, {local.slice_option})
            if header.protocol == ipv6.HOP_BY_HOP:
                hop_by_hop = options
        else:
            return _upper_layer(packet, header, finished, hop_by_hop, local)
    raise AssertionError("the last header of a packet is always the upper layer's")


def _segment_routing(packet: bytes, header: Header, fields: srh.Fields, local: LocalSid) -> Result:
    """Do steps S05 to S16: the segment routing header."""
    if fields.routing_type != srh.ROUTING_TYPE:
        pointer = header.start + srh.ROUTING_TYPE_AT
        return _parameter_problem(packet, local, Cause.ROUTING_TYPE, icmpv6.ERRONEOUS_FIELD, pointer)
    if packet[ipv6.HOP_LIMIT_AT] <= 1:
        error = Error(ErrorType.TIME_EXCEEDED, icmpv6.HOP_LIMIT_EXCEEDED, 0, packet)
        return _answer(local, Cause.HOP_LIMIT, error)
    if fields.last_entry > fields.max_last_entry or fields.segments_left > fields.last_entry + 1:
        pointer = header.start + srh.SEGMENTS_LEFT_AT
        return _parameter_problem(packet, local, Cause.SEGMENTS_LEFT, icmpv6.ERRONEOUS_FIELD, pointer)
    segments_left = fields.segments_left - 1
    out = bytearray(packet)
    out[ipv6.HOP_LIMIT_AT] -= 1
    out[header.start + srh.SEGMENTS_LEFT_AT] = segments_left
    out[ipv6.DESTINATION_AT : ipv6.HEADER_OCTETS] = srh.segment_at(packet, header.start, segments_left)
    if segments_left == 0 and Flavours.PSP in local.sid.flavours:
        ipv6.remove(out, header)
    return Forward(bytes(out), local.forwards_by)


def _upper_layer(
    packet: bytes, header: Header, finished: list[Header], hop_by_hop: list[Option], local: LocalSid
) -> Result:
    """Do the upper-layer part of the draft, and section 4.1.1 of RFC 8986."""
    protocol, content = header.protocol, packet[header.start :]
    if protocol == ipv6.ETHERNET:
        if local.measures and headroom.is_measurement(content):
            return Measure(content, _way_back(packet, finished, local))
        return _ethernet(content, hop_by_hop, local)
    if protocol == ipv6.FRAGMENT:
        return Drop(DropReason.FRAGMENT)
    if protocol == ipv6.ICMPV6 and local.ping and content[:1] == bytes([EchoType.REQUEST]):
        return _ping(packet, content)
    if protocol in local.allowed:
        return _deliver(packet, header, finished, local)
    if protocol == ipv6.UDP and local.traceroute:
        error = Error(ErrorType.DESTINATION_UNREACHABLE, icmpv6.PORT_UNREACHABLE, 0, packet)
        return _answer(local, Cause.TRACEROUTE, error)
    return _parameter_problem(packet, local, Cause.UPPER_LAYER, icmpv6.SR_UPPER_LAYER, header.start)


def _ethernet(inner: bytes, hop_by_hop: list[Option], local: LocalSid) -> PauseJ | Drop:
    """Do steps S01 to S04 for the upper layer. A frame that is not PFC is never put on a link (0144)."""
    if len(inner) >= _MAC_OCTETS and inner[:_MAC_OCTETS] != mac_control.DESTINATION.octets:
        return Drop(DropReason.INNER_OTHER_MAC)
    try:
        frame = mac_control.parse(inner)
    except MacControlError as error:
        return Drop(_INNER[error.reason])
    if not isinstance(frame, PfcFrame):
        return Drop(DropReason.INNER_PAUSE)
    named = ipv6.find_slice(hop_by_hop, local.slice_option)
    return PauseJ(frame, local.sid.adjacencies, named.slice_id if named else local.sid.slice_id)


def _way_back(packet: bytes, finished: list[Header], local: LocalSid) -> tuple[IPv6Address, ...]:
    source, _ = ipv6.addresses(packet)
    visited = srh.Srh.parse(packet, finished[0].start).visited if finished else ()
    return (local.sid.address, *visited[:-1], source)


def _ping(packet: bytes, message: bytes) -> SendIcmp | Drop:
    request = Packet.parse(packet)
    echo = icmpv6.parse(request.source, request.destination, message)
    if not isinstance(echo, Echo) or not icmpv6.may_answer(packet):
        return Drop(Cause.PING)
    reply = echo.reply().encode(request.destination, request.source)
    # The same traffic class back, so that a ping measures the priority that it was sent with.
    answer = Packet(request.destination, request.source, ipv6.ICMPV6, reply, traffic_class=request.traffic_class)
    return SendIcmp(answer.encode(), Cause.PING)


def _deliver(packet: bytes, header: Header, finished: list[Header], local: LocalSid) -> Deliver:
    if Flavours.USP not in local.sid.flavours:
        return Deliver(packet, header.protocol, header.start)
    out = bytearray(packet)
    for done in reversed(finished):  # the last first, so that the places of the others stay right
        ipv6.remove(out, done)
    return Deliver(bytes(out), header.protocol, header.start - (len(packet) - len(out)))


def _parameter_problem(packet: bytes, local: LocalSid, cause: Cause, code: int, pointer: int) -> SendIcmp | Drop:
    return _answer(local, cause, Error(ErrorType.PARAMETER_PROBLEM, code, pointer, packet))


def _answer(local: LocalSid, cause: Cause, error: Error) -> SendIcmp | Drop:
    if not icmpv6.may_answer(error.invoking):
        return Drop(cause)
    return SendIcmp(icmpv6.answer(local.answer_from or local.sid.address, error), cause)


def check(sid: Sid) -> None:
    """Raise an Srv6Error if the kernel has no action for this SID."""
    if Flavours.PSP in sid.flavours:
        raise Srv6Error(
            f"{sid.name} has the flavour PSP, and the End.X of Linux takes no routing header off; leave PSP out"
        )


def answers(cause: Cause, packet: bytes, local: LocalSid) -> bool:
    """Return True if the kernel sends the error for this packet. `packet` is whole and as it came."""
    if cause is Cause.HOP_LIMIT:
        header = _routing(packet)
        return header is not None and _is_sound(packet, header)
    return cause is Cause.HEADER and _ends_at_hop_by_hop(packet, local)


def as_it_came(data: bytes, sids: Collection[IPv6Address]) -> bytes:
    """Return a packet to one of these SIDs as it was before the kernel advanced it, if the kernel did.

    If the step was from one segment beyond the list, as in reduced encapsulation, the packet has the SID no more; the
    SID is known only if the router has no other.
    """
    try:
        packet = ipv6.whole(data)
        _, destination = ipv6.addresses(packet)
        header = None if destination in sids else _routing(packet)
        if header is None:
            return data
        fields = srh.Fields.read(packet, header.start)
        left = fields.segments_left + 1
        if fields.last_entry > fields.max_last_entry or left > fields.last_entry + 1:
            return data
        came_to = [IPv6Address(srh.segment_at(packet, header.start, left))] if left <= fields.last_entry else list(sids)
    except PacketError:
        return data
    if len(came_to) != 1 or came_to[0] not in sids:
        return data
    out = bytearray(packet)
    out[header.start + srh.SEGMENTS_LEFT_AT] = left
    out[ipv6.DESTINATION_AT : ipv6.HEADER_OCTETS] = came_to[0].packed
    return bytes(out)


def _routing(packet: bytes) -> Header | None:
    """Return the segment routing header."""
    for header in ipv6.headers(packet):
        if header.protocol == ipv6.ROUTING:
            return header if srh.Fields.read(packet, header.start).routing_type == srh.ROUTING_TYPE else None
    return None


def _is_sound(packet: bytes, header: Header) -> bool:
    fields = srh.Fields.read(packet, header.start)
    return fields.last_entry <= fields.max_last_entry and 0 < fields.segments_left <= fields.last_entry + 1


def _ends_at_hop_by_hop(packet: bytes, local: LocalSid) -> bool:
    first = next(ipv6.headers(packet))
    if first.protocol != ipv6.HOP_BY_HOP:
        return False
    try:
        ipv6.check_known(list(ipv6.parse_header(packet, first)), {local.slice_option})
    except PacketError:
        return True
    return False
