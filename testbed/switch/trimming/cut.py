"""A frame that is cut: the reference of what trimming does to its octets.

     T1 A frame that the buffer has no room for is trimmed if its queue is one of those of the egress port, its priority
     group is lossy, it goes to one station (no group address), and no exception of the port by which it came in fits
     it. T2 It holds an IPv4 or IPv6 packet that is whole and no fragment, and so is one directly inside. T3 If it has
     more than `size` octets, with header and tag, the octets beyond them go; it is not trimmed if a header of IP would
     go, or nothing of the packet but what is behind it. T4 IP's length and IPv4's header checksum are put right, those
     of a packet directly inside too (SRv6, IP in IP). T5 If the header of UDP is left, its length is put right, and its
     checksum by what has gone (RFC 1624), unless it is zero; TCP's checksum likewise, and FIN is taken off, for it was
     behind the last octet. T6 The outer DSCP is the new one. T7 The rest is charged to the group of its traffic class,
     and waits in the queue of the settings; where it has no room it is dropped.

A checksum that is put right by what has gone is right if and only if the one of the whole frame was: a switch does not
vouch for octets that came damaged. The ICRC of RoCE is not put right. It was over what has gone, so that a rest can
never pass for a packet.

Runs in C: `testbed/linux/port_program/port_trimming.bpf.h`.
"""

from __future__ import annotations

from dataclasses import dataclass

_IPV4, _IPV6, _TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
_UDP, _TCP, _IN_IPV4, _IN_IPV6, _ROUTING, _FRAGMENT = 17, 6, 4, 41, 43, 44
_LAYERS = 2


@dataclass
class _Layer:
    """An IP packet inside a frame: where it begins and ends, and where and what its payload is."""

    at: int
    end: int
    version: int
    payload: int
    next: int


def rest(frame: bytes, size: int, dscp: int) -> bytes | None:
    """Return what is left of a frame, or None if it is none that is trimmed (T1 to T6)."""
    at = _packet(frame)
    if at is None or frame[0] & 1:
        return None
    octets = bytearray(frame)
    layer = _read(octets, at, len(octets))
    if layer is None:
        return None
    if len(octets) > size:
        if not _shorten(octets, layer, size):
            return None
        del octets[size:]
    _write_dscp(octets, at, dscp)
    return bytes(octets)


def _packet(frame: bytes) -> int | None:
    """Return where the IP header starts, behind two tags at the most."""
    at = 12
    for _ in range(2):
        if int.from_bytes(frame[at : at + 2]) in _TAGS:
            at += 4
    return at + 2 if int.from_bytes(frame[at : at + 2]) in (_IPV4, _IPV6) else None


def _read(octets: bytearray, at: int, end: int) -> _Layer | None:
    """Return the packet at a place, or None if it is not whole, or a fragment (T2)."""
    head = octets[at : at + 20]
    if len(head) < 20:
        return None
    version = head[0] >> 4
    if version == 4:
        length, payload, following = int.from_bytes(head[2:4]), at + (head[0] & 15) * 4, head[9]
        if head[0] & 15 < 5 or head[6] & 0x3F or head[7]:
            return None
    elif version == 6:
        length, payload, following = 40 + int.from_bytes(head[4:6]), at + 40, head[6]
        if following == _ROUTING:
            routing = octets[payload : payload + 2]
            if len(routing) < 2:
                return None
            payload, following = payload + (routing[1] + 1) * 8, routing[0]
        if following == _FRAGMENT:
            return None
    else:
        return None
    if payload > at + length or at + length > end:
        return None
    return _Layer(at, at + length, version, payload, following)


def _shorten(octets: bytearray, layer: _Layer, size: int) -> bool:
    """Make lengths and checksums those of the first `size` octets (T4 and T5), or return False (T3)."""
    for _ in range(_LAYERS):
        if layer.payload > size or layer.end <= size:
            return False
        _write_length(octets, layer, size)
        if layer.next not in (_IN_IPV4, _IN_IPV6):
            _shorten_transport(octets, layer, size)
            break
        inner = _read(octets, layer.payload, layer.end)
        if inner is None:
            return False
        layer = inner
    return True


def _write_length(octets: bytearray, layer: _Layer, size: int) -> None:
    if layer.version == 6:
        octets[layer.at + 4 : layer.at + 6] = (size - layer.at - 40).to_bytes(2)
        return
    old, new = layer.end - layer.at, size - layer.at
    octets[layer.at + 2 : layer.at + 4] = new.to_bytes(2)
    _change(octets, layer.at + 10, new - old)


def _shorten_transport(octets: bytearray, layer: _Layer, size: int) -> None:
    at, old, new = layer.payload, layer.end - layer.payload, size - layer.payload
    gone = -checksum_sum(bytes(octets[size : layer.end]), odd=bool(new & 1))
    if layer.next == _UDP:
        if new < 8 or int.from_bytes(octets[at + 4 : at + 6]) != old & 0xFFFF:
            return
        octets[at + 4 : at + 6] = new.to_bytes(2)
        if any(octets[at + 6 : at + 8]):
            _change(octets, at + 6, gone + 2 * (new - old))  # the length is in the pseudo header, too
            octets[at + 6 : at + 8] = octets[at + 6 : at + 8] if any(octets[at + 6 : at + 8]) else b"\xff\xff"
    elif layer.next == _TCP:
        header = octets[at : min(at + 20, layer.end)]
        if len(header) < 20 or header[12] >> 4 < 5 or new < (header[12] >> 4) * 4:
            return
        fin = header[13] & 1
        octets[at + 13] &= ~1
        _change(octets, at + 16, gone + new - old - fin)


def _write_dscp(octets: bytearray, at: int, dscp: int) -> None:
    old = int.from_bytes(octets[at : at + 2])
    new = (old & 0xFF03 | dscp << 2) if octets[at] >> 4 == 4 else (old & 0xF03F | dscp << 6)
    octets[at : at + 2] = new.to_bytes(2)
    if octets[at] >> 4 == 4:
        _change(octets, at + 10, new - old)


def _change(octets: bytearray, place: int, change: int) -> None:
    """Change a checksum by how much the sum of what it covers has changed (RFC 1624)."""
    old = int.from_bytes(octets[place : place + 2])
    octets[place : place + 2] = (0xFFFF - _folded(0xFFFF - old + change % 0xFFFF)).to_bytes(2)


def checksum_sum(octets: bytes, odd: bool = False) -> int:
    """Return the sum of 16-bit words; with `odd` the octets begin in the middle of one."""
    padded = b"\0" * odd + bytes(octets)
    padded += b"\0" * (len(padded) % 2)
    return _folded(sum(int.from_bytes(padded[at : at + 2]) for at in range(0, len(padded), 2)))


def _folded(value: int) -> int:
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value
