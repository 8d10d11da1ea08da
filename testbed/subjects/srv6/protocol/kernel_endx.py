"""The kernel's share in packets to its End.X SIDs, so that an agent beside it does exactly the rest.

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

from collections.abc import Collection
from ipaddress import IPv6Address

from testbed.frames import ipv6, ipv6_options, srh
from testbed.frames.ipv6 import Header, PacketError
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.endx_pfc import Cause, LocalSid
from testbed.subjects.srv6.protocol.sid import Flavours, Sid


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
        ipv6_options.check_known(list(ipv6_options.parse_header(packet, first)), {local.slice_option})
    except PacketError:
        return True
    return False
