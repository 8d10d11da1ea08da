"""Netlink messages for SRv6: VRFs, actions of SIDs, and routes that encapsulate packets with a segment list.

The action of a SID and a route with a segment list each name an interface that they do not use. The kernel skips such
an IPv6 route while that interface has no carrier; so there can be one route by each of several interfaces, with
different metrics.

All messages can be sent again, since they replace what is there; only that of a VRF cannot.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

from testbed.linux.netlink.messages import Message, attribute, text, u32

_NEW_LINK, _NEW_ROUTE, _DELETE_ROUTE, _NEW_RULE, _DELETE_RULE = 16, 24, 25, 32, 33
_AF_INET, _AF_INET6 = 2, 10
_STATIC, _UNIVERSE, _LINK, _UNICAST, _LOCAL, _UNREACHABLE = 4, 0, 253, 1, 2, 7
_DESTINATION, _OUT, _METRIC, _TABLE, _ENCAP_TYPE, _ENCAP = 1, 4, 6, 15, 21, 22
_NAME, _MASTER, _LINK_INFO = 3, 10, 18
_NESTED = 0x8000
_SEG6, _SEG6_LOCAL = 5, 7
_MODE_ENCAP, _ROUTING_TYPE = 1, 4
_ACTION, _SEGMENTS, _NEXT_HOP, _VRF_TABLE = 1, 2, 5, 9
_ACTIONS = {
    name: number
    for number, name in enumerate(
        ("End", "End.X", "End.T", "End.DX2", "End.DX6", "End.DX4", "End.DT6", "End.DT4", "End.B6", "End.B6.Encaps",
         "End.BM", "End.S", "End.AS", "End.AM", "End.BPF", "End.DT46"),
        1,
    )
}  # fmt: skip
"""The actions of seg6local (include/uapi/linux/seg6_local.h)."""
ORDINARY = 1024
"""The metric of most other routes, which the kernel gives IPv6 routes by default."""
MAIN = 254
_FIRST_VRF_INDEX = 10_000
_LAST_RESORT = 4278198272
"""The metric that the kernel's documentation of VRFs recommends for a table's last route."""

_EVERYTHING = (ip_network("0.0.0.0/0"), ip_network("::/0"))

Prefix = IPv4Network | IPv6Network

OWN_MARK = 0x50E0_0143
"""The mark of packets to a SID that go to the router's own protocols instead of the SID's behaviour."""
_OWN_TABLE, _OWN_PRIORITY, _LOOPBACK = 98, 98, 1
_TO_TABLE, _RULE_PRIORITY, _RULE_MARK, _RULE_TABLE = 1, 6, 10, 15


def vrf_index(table: int) -> int:
    """Return the interface index of a VRF, which is known before it is created."""
    return _FIRST_VRF_INDEX + table


def vrf_table(index: int) -> int:
    """Return the routing table of the VRF whose interface has this index."""
    return index - _FIRST_VRF_INDEX


def vrf(name: str, table: int) -> Message:
    """Create a VRF, set up."""
    info = text(1, "vrf") + attribute(2 | _NESTED, u32(1, table))
    body = (
        struct.pack("=BxHiII", 0, 0, vrf_index(table), 1, 1) + text(_NAME, name) + attribute(_LINK_INFO | _NESTED, info)
    )
    return Message(_NEW_LINK, body, f"making the VRF {name}", create=True)


def last_resort(table: int) -> list[Message]:
    """Add the last routes of a VRF, which refuse packets without a route; else the main table would be looked up."""
    return [unreachable(prefix, table, metric=_LAST_RESORT) for prefix in _EVERYTHING]


def remove_last_resort(table: int) -> list[Message]:
    """Remove the last routes of a VRF. They outlive it, and the next VRF with that table would have them."""
    return [remove_route(prefix, table, metric=_LAST_RESORT) for prefix in _EVERYTHING]


def join(index: int, vrf_index: int) -> Message:
    """Enslave an interface to a VRF, or with 0 free it from its VRF."""
    body = struct.pack("=BxHiII", 0, 0, index, 0, 0) + u32(_MASTER, vrf_index)
    return Message(_NEW_LINK, body, f"moving interface {index} to VRF {vrf_index}", may_be_gone=not vrf_index)


def local(
    sid: IPv6Address,
    action: str,
    out: int,
    metric: int = ORDINARY,
    *,
    next_hop: IPv6Address | None = None,
    table: int | None = None,
    segments: Sequence[IPv6Address] = (),
) -> Message:
    """Set the kernel's action for packets to this SID, by its name in `ip route add ... encap seg6local action NAME`.

    End.B6.Encaps is for packets with segments left (RFC 8986, section 4.13); the kernel drops all others.
    """
    what = u32(_ACTION, _ACTIONS[action])
    if segments:
        what += attribute(_SEGMENTS, _routing_header(segments))
    if next_hop is not None:
        what += attribute(_NEXT_HOP, next_hop.packed)
    if table is not None:
        what += u32(_VRF_TABLE, table)
    more = u32(_OUT, out) + attribute(_ENCAP_TYPE, struct.pack("=H", _SEG6_LOCAL)) + attribute(_ENCAP | _NESTED, what)
    by = f" by {len(segments)} segments" if segments else ""
    return _route(IPv6Network(sid), MAIN, _UNICAST, more, f"{action} at {sid}{by}", metric=metric)


def encapsulates(
    prefix: Prefix, table: int, segments: Sequence[IPv6Address], out: int, metric: int = ORDINARY
) -> Message:
    """Add a route to a VRF's table that encapsulates packets in IPv6 with these segments, in order of travel."""
    way = attribute(1, struct.pack("=i", _MODE_ENCAP) + _routing_header(segments))
    more = attribute(_ENCAP_TYPE, struct.pack("=H", _SEG6)) + attribute(_ENCAP | _NESTED, way)
    what = f"the route to {prefix} by {len(segments)} segments"
    return _route(prefix, table, _UNICAST, u32(_OUT, out) + more, what, metric=metric)


def own_protocols(sids: Sequence[IPv6Address]) -> list[Message]:
    """Deliver packets with `OWN_MARK` to these SIDs to the router's own protocols.

    The messages are a rule for the mark, and a table in which the SIDs are local addresses.
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
    """Add a route by which packets are answered with Destination Unreachable."""
    return _route(prefix, table, _UNREACHABLE, b"", f"the unreachable route to {prefix}", metric=metric)


def remove_route(prefix: Prefix, table: int = MAIN, metric: int = ORDINARY) -> Message:
    """Remove a route. Without its metric the kernel might remove the VRF's last route."""
    family = _AF_INET if prefix.version == 4 else _AF_INET6
    body = struct.pack("=BBBBBBBBI", family, prefix.prefixlen, 0, 0, 0, 0, 255, 0, 0)
    body += attribute(_DESTINATION, prefix.network_address.packed) + u32(_TABLE, table)
    body += u32(_METRIC, metric)
    return Message(_DELETE_ROUTE, body, f"removing the route to {prefix}", may_be_gone=True)


def _routing_header(segments: Sequence[IPv6Address]) -> bytes:
    count = len(segments)
    listed = b"".join(segment.packed for segment in reversed(segments))
    return struct.pack("=BBBBBBH", 0, 2 * count, _ROUTING_TYPE, count - 1, count - 1, 0, 0) + listed


def _route(prefix: Prefix, table: int, kind: int, more: bytes, what: str, *, metric: int = ORDINARY) -> Message:
    family = _AF_INET if prefix.version == 4 else _AF_INET6
    scope = _LINK if family == _AF_INET and kind == _UNICAST else _UNIVERSE
    body = struct.pack("=BBBBBBBBI", family, prefix.prefixlen, 0, 0, 0, _STATIC, scope, kind, 0)
    body += attribute(_DESTINATION, prefix.network_address.packed) + u32(_TABLE, table) + u32(_METRIC, metric) + more
    return Message(_NEW_ROUTE, body, what, create=True, replace=True)
