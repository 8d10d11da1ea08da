"""A captured frame's kind, priority and flow, and the octets by which it is known again at the next cable.

A frame keeps its octets from the transport's header on while switches and routers change addresses of layer 2, tags,
hop limits and marks of ECN, and while it is in a tunnel of segment routing. Any octets will do: what is not understood
is a frame of control, known by all that was captured of it.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from testbed.frames import ipv6, mac_control, roce

_TAGS = (0x8100, 0x88A8)
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP, _TCP, _IPV4_IN_IP, _IPV6_IN_IP = 17, 6, 4, 41
_TUNNELS = (_IPV6_IN_IP, _IPV4_IN_IP, ipv6.ETHERNET)
_KEPT = 32
"""The octets from the transport's header on that tell packets of a flow apart. Telemetry, which ports change, is behind
them.
"""
_WHOLE = 20 + _KEPT
"""The octets of an IPv4 packet in a tunnel by which it is known again."""
_DEEPEST = 4


class Kind(enum.IntEnum):
    """The kinds of frames that a reader has to tell apart. `assets/frames.js` has the same numbers."""

    DATA = 0
    ANSWER = 1
    """An acknowledgement or a CNP of RoCE, or a TCP segment without data."""
    CONTROL = 2
    XOFF = 3
    XON = 4
    TUNNEL_XOFF = 5
    """A PFC frame on its way to a far port, in a tunnel of segment routing."""
    TUNNEL_XON = 6


PAUSES = frozenset({Kind.XOFF, Kind.XON, Kind.TUNNEL_XOFF, Kind.TUNNEL_XON})


@dataclass(frozen=True)
class Identity:
    """A frame as it is known at each cable that it crosses."""

    kind: Kind
    key: bytes
    """Octets that are the same at each cable; empty if nothing passes the frame on."""
    priority: int | None = None
    source: str = ""
    target: str = ""
    """The addresses between which the frame goes, of the innermost packet; empty if it has none."""
    words: str = ""
    """The request of a PFC frame, in words."""
    is_to_many: bool = False
    """True if switches send it to several ports."""
    is_cut: bool = False
    """True if the capture has too little of what a tunnel carries to know the frame again."""


def identify(octets: bytes, depth: int = 0) -> Identity:
    """Return the identity of a frame, of which `octets` may be the beginning only."""
    if len(octets) < 14:
        return Identity(Kind.CONTROL, octets)
    at, ethertype = 12, int.from_bytes(octets[12:14], "big")
    priority: int | None = None
    while ethertype in _TAGS and len(octets) >= at + 6:
        priority = octets[at + 2] >> 5 if priority is None else priority
        at += 4
        ethertype = int.from_bytes(octets[at : at + 2], "big")
    if ethertype == mac_control.ETHERTYPE:
        return _mac_control(octets)
    packet = octets[at + 2 :]
    carried: Identity | None = None
    if ethertype == _IPV4:
        carried = _ipv4(packet)
    elif ethertype == _IPV6:
        carried = _ipv6(packet, depth)
    if carried is None:
        return Identity(Kind.CONTROL, octets, priority, is_to_many=bool(octets[0] & 1))
    many = bool(octets[0] & 1)
    if priority is None and not many:
        return carried
    return Identity(
        carried.kind, carried.key, carried.priority if priority is None else priority, carried.source, carried.target,
        carried.words, many, carried.is_cut,
    )  # fmt: skip


def _mac_control(octets: bytes) -> Identity:
    try:
        frame = mac_control.parse(octets)
    except mac_control.MacControlError:
        return Identity(Kind.CONTROL, b"")
    if isinstance(frame, mac_control.PauseFrame):
        kind = Kind.XOFF if frame.quanta else Kind.XON
        return Identity(kind, b"", words=f"PAUSE of the whole link, {frame.quanta} quanta")
    changes = list(frame.changes())
    stopped = [(priority, quanta) for priority, quanta in changes if quanta]
    resumed = [priority for priority, quanta in changes if not quanta]
    words = [f"XOFF for priority {priority}, {quanta} quanta" for priority, quanta in stopped]
    words += [f"XON for priority {', '.join(map(str, resumed))}"] if resumed else []
    first = stopped[0][0] if stopped else resumed[0] if resumed else None
    return Identity(Kind.XOFF if stopped else Kind.XON, b"", first, words="; ".join(words) or "PFC for no priority")


def _ipv4(packet: bytes) -> Identity | None:
    length = (packet[0] & 15) * 4 if packet else 0
    if len(packet) < 20 or packet[0] >> 4 != 4 or not 20 <= length <= len(packet):
        return None
    source, target, protocol = packet[12:16], packet[16:20], packet[9]
    content = packet[length:]
    # The identification, in octets 4 and 5, is of the sender; length, marks, TTL and sum are not part of the key.
    key = source + target + packet[4:6] + packet[9:10] + content[:_KEPT]
    total = struct.unpack_from("!H", packet, 2)[0] - length
    kind = _kind(protocol, content, total)
    return Identity(kind, key, packet[1] >> 5, str(IPv4Address(source)), str(IPv4Address(target)))


def _ipv6(packet: bytes, depth: int) -> Identity | None:
    if len(packet) < ipv6.HEADER_OCTETS or packet[0] >> 4 != 6:
        return None
    source, target = packet[8:24], packet[24:40]
    priority = (packet[0] << 4 | packet[1] >> 4) >> 5 & 7
    protocol, at = packet[ipv6.NEXT_HEADER_AT], ipv6.HEADER_OCTETS
    while protocol in ipv6.EXTENSIONS and at + 8 <= len(packet):
        protocol, at = packet[at], at + 8 * (packet[at + 1] + 1)
    content = packet[at:]
    if depth < _DEEPEST and (inner := _inner(protocol, content, source, depth)) is not None:
        return inner if inner.priority is not None else Identity(inner.kind, inner.key, priority, words=inner.words)
    total = struct.unpack_from("!H", packet, 4)[0] - (at - ipv6.HEADER_OCTETS)
    if protocol in _TUNNELS and len(content) < total:
        return Identity(Kind.CONTROL, b"", priority, is_cut=True)
    key = source + target + bytes([protocol]) + content[:_KEPT]
    return Identity(_kind(protocol, content, total), key, priority, str(IPv6Address(source)), str(IPv6Address(target)))


def _inner(protocol: int, content: bytes, source: bytes, depth: int) -> Identity | None:
    """Return what a tunnel carries, or None if there is none that can be read."""
    if protocol == _IPV6_IN_IP and len(content) >= ipv6.HEADER_OCTETS + _KEPT:
        return _ipv6(content, depth + 1)
    if protocol == _IPV4_IN_IP:
        return _ipv4(content) if len(content) >= min(_WHOLE, int.from_bytes(content[2:4], "big")) else None
    if protocol != ipv6.ETHERNET or len(content) < 14:
        return None
    carried = identify(content, depth + 1)
    if carried.kind in (Kind.XOFF, Kind.XON):
        # PFC frames of one priority are all alike: the router that sent it tells them apart, and their order.
        kind = Kind.TUNNEL_XOFF if carried.kind is Kind.XOFF else Kind.TUNNEL_XON
        return Identity(kind, source + content[:34], carried.priority, words=carried.words)
    return carried


def _kind(protocol: int, content: bytes, total: int) -> Kind:
    """Return the kind of a packet by its transport, whose header and data have `total` octets."""
    if protocol == _TCP:
        return Kind.ANSWER if len(content) > 12 and total == (content[12] >> 4) * 4 else Kind.DATA
    if protocol != _UDP:
        return Kind.CONTROL
    if len(content) >= 8 + roce.BTH_OCTETS and content[2:4] == roce.PORT.to_bytes(2, "big"):
        opcode = content[8]
        if opcode in (roce.Opcode.ACKNOWLEDGE, roce.Opcode.ATOMIC_ACKNOWLEDGE, roce.Opcode.CNP):
            return Kind.ANSWER
    return Kind.DATA
