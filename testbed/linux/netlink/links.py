"""Netlink messages that create and change interfaces, addresses and neighbours."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass

from testbed.frames import Mac
from testbed.linux.netlink.messages import Message, attribute, text, u8, u32

_NEW_LINK, _DELETE_LINK, _SET_LINK, _NEW_ADDRESS, _DELETE_ADDRESS, _NEW_ROUTE, _NEW_NEIGHBOUR = (
    16,
    17,
    19,
    20,
    21,
    24,
    28,
)
_AF_BRIDGE, _AF_INET, _AF_INET6 = 7, 2, 10
_UP = 1
_ADDRESS, _NAME, _MTU, _MASTER, _PROTOCOL_INFO, _LINK_INFO = 1, 3, 4, 10, 12, 18
_SPECIFIC, _NAMESPACE, _TX_QUEUES, _RX_QUEUES, _GSO_SEGMENTS = 26, 28, 31, 32, 40
_NESTED = 0x8000
_NO_ADDRESS_BY_ITSELF = attribute(_SPECIFIC, attribute(_AF_INET6, u8(8, 1)))  # no IPv6 chatter on a port
_PERMANENT, _STATIC = 0x80, 0x40
_SET_NEIGHBOUR_TABLE = 67
_TABLE, _LIMITS, _OF_INTERFACE, _WAITING_OCTETS = 1, 6, 1, 16
_OF_THE_BRIDGE, _STICKY = 0x04, 0x40


@dataclass(frozen=True)
class End:
    """One end of a veth pair: an interface in the network namespace of the file descriptor `namespace`."""

    name: str
    index: int
    namespace: int
    mac: Mac | None = None
    mtu: int = 1500


def pair(one: End, other: End) -> Message:
    """Create a veth pair, each end in its own namespace.

    Segmentation offload is off: a frame on a wire is at most one MTU, or the buffer model would miscount.
    """
    peer = attribute(1, _interface(other.index) + _end(other))
    info = text(1, "veth") + attribute(2 | _NESTED, peer)
    body = _interface(one.index) + _end(one) + attribute(_LINK_INFO | _NESTED, info)
    return Message(_NEW_LINK, body, f"making {one.name} and {other.name}", create=True)


def end_of_cable(one: End, number: int) -> Message:
    """Create the end of a cable that leads to another kernel (`linux/parts_device.py`)."""
    info = text(1, "xoffcable") + attribute(2 | _NESTED, u32(1, number))
    body = _interface(one.index) + _end(one) + attribute(_LINK_INFO | _NESTED, info)
    return Message(_NEW_LINK, body, f"making {one.name}", create=True)


def bridge(name: str, index: int, mac: Mac | None = None) -> Message:
    """Create a learning bridge, without spanning tree and without multicast snooping."""
    info = text(1, "bridge") + attribute(2 | _NESTED, u32(5, 0) + u8(23, 0))
    address = attribute(_ADDRESS, mac.octets) if mac else b""
    body = _interface(index) + text(_NAME, name) + address + attribute(_LINK_INFO | _NESTED, info)
    return Message(_NEW_LINK, body, f"making the bridge {name}", create=True)


def up(index: int, is_up: bool = True) -> Message:
    """Set an interface up or down."""
    body = struct.pack("=BxHiII", 0, 0, index, _UP if is_up else 0, _UP)
    return Message(_NEW_LINK, body, f"setting interface {index} {'up' if is_up else 'down'}")


def quiet(index: int) -> Message:
    """Turn off automatic IPv6 addresses, so that a port sends no unsolicited frames. Send it before `up`."""
    return Message(_NEW_LINK, _interface(index) + _NO_ADDRESS_BY_ITSELF, f"quieting interface {index}")


def address_of(index: int, mac: Mac) -> Message:
    """Set the MAC address of an interface."""
    return Message(_NEW_LINK, _interface(index) + attribute(_ADDRESS, mac.octets), f"giving interface {index} {mac}")


def join(index: int, bridge_index: int) -> Message:
    """Make an interface a port of a bridge."""
    return Message(_NEW_LINK, _interface(index) + u32(_MASTER, bridge_index), f"adding interface {index} to its bridge")


def flooding(index: int, floods: bool) -> Message:
    """Set whether a bridge's port sends broadcasts and frames to unknown addresses; it must not where that loops."""
    value = int(floods)
    info = u8(9, value) + u8(27, value) + u8(30, value)
    body = _interface(index, _AF_BRIDGE) + attribute(_PROTOCOL_INFO | _NESTED, info)
    return Message(_SET_LINK, body, f"flooding of interface {index}")


def forward(index: int, mac: Mac) -> Message:
    """Make a bridge forward frames to `mac` by the port `index`.

    The entry stays when frames from `mac` come in by another port, as broadcasts need not take the way that leads back.
    """
    flags = _OF_THE_BRIDGE | _STICKY
    body = struct.pack("=BxxxiHBB", _AF_BRIDGE, index, _STATIC, flags, 0) + attribute(2, mac.octets)
    return Message(_NEW_NEIGHBOUR, body, f"forwarding {mac} to interface {index}", create=True, replace=True)


def neighbour(index: int, address: str, mac: Mac) -> Message:
    """Add a permanent neighbour entry, so that the address is never resolved."""
    ip = ipaddress.ip_address(address)
    family = _AF_INET if ip.version == 4 else _AF_INET6
    body = (
        struct.pack("=BxxxiHBB", family, index, _PERMANENT, 0, 0) + attribute(1, ip.packed) + attribute(2, mac.octets)
    )
    return Message(_NEW_NEIGHBOUR, body, f"neighbour {address}", create=True, replace=True)


def patient(index: int) -> list[Message]:
    """Have any number of packets wait for address resolution, so that none is lost on a long cable."""
    limits = u32(_OF_INTERFACE, index) + u32(_WAITING_OCTETS, 2**31 - 1)
    made = []
    for family, table in ((_AF_INET, "arp_cache"), (_AF_INET6, "ndisc_cache")):
        body = struct.pack("=Bxxx", family) + text(_TABLE, table) + attribute(_LIMITS | _NESTED, limits)
        made.append(Message(_SET_NEIGHBOUR_TABLE, body, f"neighbours of interface {index}"))
    return made


def address(index: int, given: str, remove: bool = False) -> Message:
    """Add or remove an IP address with its prefix, as in 10.0.0.1/8."""
    ip = ipaddress.ip_interface(given)
    family = _AF_INET if ip.version == 4 else _AF_INET6
    body = struct.pack("=BBBBI", family, ip.network.prefixlen, 0, 0, index)
    body += attribute(2, ip.packed) + attribute(1, ip.packed)
    if ip.version == 4 and ip.network.prefixlen < 31:
        body += attribute(4, ip.network.broadcast_address.packed)
    if ip.version == 6:
        body += u32(8, 0x02)  # no duplicate address detection
    if remove:
        return Message(_DELETE_ADDRESS, body, f"removing {given}", may_be_gone=True)
    return Message(_NEW_ADDRESS, body, f"giving interface {index} {given}", create=True, replace=True)


def delete(index: int) -> Message:
    """Remove an interface; for one end of a veth pair, both."""
    return Message(_DELETE_LINK, _interface(index), f"removing interface {index}", may_be_gone=True)


def _interface(index: int, family: int = 0) -> bytes:
    return struct.pack("=BxHiII", family, 0, index, 0, 0)


def _end(end: End) -> bytes:
    parts = [
        text(_NAME, end.name),
        u32(_NAMESPACE, end.namespace),
        u32(_MTU, end.mtu),
        u32(_TX_QUEUES, 1),
        u32(_RX_QUEUES, 1),
        u32(_GSO_SEGMENTS, 1),
    ]
    if end.mac:
        parts.append(attribute(_ADDRESS, end.mac.octets))
    return b"".join(parts)
