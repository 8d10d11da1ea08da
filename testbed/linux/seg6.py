"""Requests for SRv6 in the kernel: VRFs, behaviours behind SIDs, and routes that put packets into a list of segments.

What is behind a SID, and what goes into a list, is a route by an interface that plays no part in it. But while that has
no carrier the kernel passes a route of IPv6 over; by other interfaces there can be more of them, with other metrics.

All of them can be repeated, for what is there already is replaced; but a VRF is made once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

from testbed.linux.netlink import Message, attribute, text, u32

_NEW_LINK, _NEW_ROUTE, _DELETE_ROUTE, _NEW_RULE, _DELETE_RULE = 16, 24, 25, 32, 33
_AF_INET, _AF_INET6 = 2, 10
_STATIC, _UNIVERSE, _LINK, _UNICAST, _LOCAL, _UNREACHABLE = 4, 0, 253, 1, 2, 7
_DESTINATION, _OUT, _METRIC, _TABLE, _ENCAP_TYPE, _ENCAP = 1, 4, 6, 15, 21, 22
_NAME, _MASTER, _LINK_INFO = 3, 10, 18
_NESTED = 0x8000
_SEG6, _SEG6_LOCAL = 5, 7
_MODE_ENCAP, _ROUTING_TYPE = 1, 4
_ACTION, _SEGMENTS, _VRF_TABLE = 1, 2, 9
_B6_ENCAPS = 10
_DT = {"End.DT4": 8, "End.DT6": 7, "End.DT46": 16}
ORDINARY = 1024
"""The metric of most other routes: what the kernel gives IPv6's by itself."""
MAIN = 254
_LAST_RESORT = 4278198272
"""The metric that the kernel's documentation of VRFs has for a table's last route."""

_EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))

Prefix = IPv4Network | IPv6Network

OWN_MARK = 0x50E0_0143
"""Of packets to a SID that the router's own protocols get, and not the behaviour behind the SID."""
_OWN_TABLE, _OWN_PRIORITY, _LOOPBACK = 98, 98, 1
_TO_TABLE, _RULE_PRIORITY, _RULE_MARK, _RULE_TABLE = 1, 6, 10, 15


def vrf(name: str, index: int, table: int) -> Message:
    info = text(1, "vrf") + attribute(2 | _NESTED, u32(1, table))
    body = struct.pack("=BxHiII", 0, 0, index, 1, 1) + text(_NAME, name) + attribute(_LINK_INFO | _NESTED, info)
    return Message(_NEW_LINK, body, f"making the VRF {name}", create=True)


def last_resort(table: int) -> list[Message]:
    """What a VRF has no route for goes nowhere: not into the main table."""
    return [unreachable(prefix, table, metric=_LAST_RESORT) for prefix in _EVERYTHING]


def remove_last_resort(table: int) -> list[Message]:
    """The table of a VRF outlives it, with its routes: they are removed, or who has the table next has them too."""
    return [remove_route(prefix, table, metric=_LAST_RESORT) for prefix in _EVERYTHING]


def join(index: int, vrf_index: int) -> Message:
    """Have an interface belong to a VRF; 0: to none."""
    body = struct.pack("=BxHiII", 0, 0, index, 0, 0) + u32(_MASTER, vrf_index)
    return Message(_NEW_LINK, body, f"moving interface {index} to VRF {vrf_index}", may_be_gone=not vrf_index)


def decapsulates(sid: IPv6Address, behaviour: str, table: int, vrf_index: int) -> Message:
    """End.DT4, End.DT6 or End.DT46: what comes to this SID is unpacked and routed by a VRF's table."""
    number = _DT[behaviour]
    what = u32(_ACTION, number) + u32(_VRF_TABLE, table)
    return _local(sid, what, vrf_index, f"{behaviour} at {sid}")


def binds(sid: IPv6Address, segments: Sequence[IPv6Address], out: int, metric: int = ORDINARY) -> Message:
    """End.B6.Encaps (RFC 8986, section 4.13): a packet that comes to this SID and has segments left goes on to its
    next one inside another IPv6 header, with these segments, in order of travel. The kernel drops all others.
    """
    what = u32(_ACTION, _B6_ENCAPS) + attribute(_SEGMENTS, _routing_header(segments))
    return _local(sid, what, out, f"End.B6.Encaps at {sid} by {len(segments)} segments", metric)


def encapsulates(
    prefix: Prefix, table: int, segments: Sequence[IPv6Address], out: int, metric: int = ORDINARY
) -> Message:
    """A route of a VRF's table: into IPv6 with these segments, in order of travel."""
    way = attribute(1, struct.pack("=i", _MODE_ENCAP) + _routing_header(segments))
    more = attribute(_ENCAP_TYPE, struct.pack("=H", _SEG6)) + attribute(_ENCAP | _NESTED, way)
    what = f"the route to {prefix} by {len(segments)} segments"
    return _route(prefix, table, _UNICAST, u32(_OUT, out) + more, what, metric=metric)


def own_protocols(sids: Sequence[IPv6Address]) -> list[Message]:
    """Have packets to these SIDs that bear `OWN_MARK` reach the router's own protocols: a rule, and a table of its own
    in which they are local addresses.
    """
    if not sids:
        return []
    head = struct.pack("=BBBBBBBBI", _AF_INET6, 0, 0, 0, 0, 0, 0, _TO_TABLE, 0)
    body = head + u32(_RULE_PRIORITY, _OWN_PRIORITY) + u32(_RULE_MARK, OWN_MARK) + u32(_RULE_TABLE, _OWN_TABLE)
    rule = "the rule for packets to SIDs that are for the router itself"
    found = [Message(_DELETE_RULE, body, rule, may_be_gone=True), Message(_NEW_RULE, body, rule, create=True)]
    for sid in sids:
        found.append(_route(IPv6Network(sid), _OWN_TABLE, _LOCAL, u32(_OUT, _LOOPBACK), f"{sid} for the router itself"))
    return found


def unreachable(prefix: Prefix, table: int = MAIN, metric: int = ORDINARY) -> Message:
    """A route that tells whoever sends there that there is no way."""
    return _route(prefix, table, _UNREACHABLE, b"", f"the route to {prefix}, which leads nowhere", metric=metric)


def remove_route(prefix: Prefix, table: int = MAIN, metric: int = ORDINARY) -> Message:
    """Without its metric it might be the last resort that goes."""
    family = _AF_INET if prefix.version == 4 else _AF_INET6
    body = struct.pack("=BBBBBBBBI", family, prefix.prefixlen, 0, 0, 0, 0, 255, 0, 0)
    body += attribute(_DESTINATION, prefix.network_address.packed) + u32(_TABLE, table)
    body += u32(_METRIC, metric)
    return Message(_DELETE_ROUTE, body, f"removing the route to {prefix}", may_be_gone=True)


def _routing_header(segments: Sequence[IPv6Address]) -> bytes:
    count = len(segments)
    listed = b"".join(segment.packed for segment in reversed(segments))
    return struct.pack("=BBBBBBH", 0, 2 * count, _ROUTING_TYPE, count - 1, count - 1, 0, 0) + listed


def _local(sid: IPv6Address, action: bytes, out: int, what: str, metric: int = ORDINARY) -> Message:
    more = u32(_OUT, out) + attribute(_ENCAP_TYPE, struct.pack("=H", _SEG6_LOCAL)) + attribute(_ENCAP | _NESTED, action)
    return _route(IPv6Network(sid), MAIN, _UNICAST, more, what, metric=metric)


def _route(prefix: Prefix, table: int, kind: int, more: bytes, what: str, *, metric: int = ORDINARY) -> Message:
    family = _AF_INET if prefix.version == 4 else _AF_INET6
    scope = _LINK if family == _AF_INET and kind == _UNICAST else _UNIVERSE
    body = struct.pack("=BBBBBBBBI", family, prefix.prefixlen, 0, 0, 0, _STATIC, scope, kind, 0)
    body += attribute(_DESTINATION, prefix.network_address.packed) + u32(_TABLE, table) + u32(_METRIC, metric) + more
    return Message(_NEW_ROUTE, body, what, create=True, replace=True)
