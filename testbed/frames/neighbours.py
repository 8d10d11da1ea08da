"""Address resolution: ARP for IPv4 (RFC 826), and Neighbor Solicitation and Advertisement for IPv6 (RFC 4861).

Whole frames, from the destination on. Of an IPv6 message the option with the link-layer address is read and written;
others are passed over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from testbed.frames import Mac
from testbed.frames.icmpv6 import with_checksum
from testbed.frames.ipv6 import ICMPV6, Packet

ARP_TYPE, IPV6_TYPE = 0x0806, 0x86DD
_ARP = struct.Struct("!6s6sHHHBBH6s4s6s4s")
_ETHERNET = struct.Struct("!6s6sH")
_MESSAGE = struct.Struct("!BBHI16s")
_OPTION = struct.Struct("!BB6s")
_REQUEST, _REPLY = 1, 2
_SOLICITATION, _ADVERTISEMENT = 135, 136
_SOURCE_OPTION, _TARGET_OPTION = 1, 2
_SOLICITED_AND_OVERRIDE = 0x6000_0000
_SOLICITED_NODE = int(IPv6Address("ff02::1:ff00:0"))
_NEIGHBOUR_HOPS = 255
_PAYLOAD = 54
"""The offset of the ICMPv6 message."""
_BROADCAST = b"\xff" * 6

Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class NeighbourQuestion:
    """The question of a station which one has `target`."""

    mac: Mac
    address: Address
    target: Address

    def encode(self) -> bytes:
        if isinstance(self.target, IPv4Address):
            return _arp(_BROADCAST, _REQUEST, (self.mac.octets, self.address), (bytes(6), self.target))
        assert isinstance(self.address, IPv6Address)
        group = IPv6Address(_SOLICITED_NODE | int(self.target) & 0xFFFFFF)
        station = b"\x33\x33" + group.packed[12:]
        message = _MESSAGE.pack(_SOLICITATION, 0, 0, 0, self.target.packed)
        return _icmpv6(station, self.mac, self.address, group, message + _option(_SOURCE_OPTION, self.mac))


@dataclass(frozen=True)
class Reply:
    """The answer that the station with `mac` has `address`, to the station that asked."""

    mac: Mac
    address: Address
    to_mac: Mac
    to_address: Address

    def encode(self) -> bytes:
        if isinstance(self.address, IPv4Address):
            own, other = (self.mac.octets, self.address), (self.to_mac.octets, self.to_address)
            return _arp(self.to_mac.octets, _REPLY, own, other)
        assert isinstance(self.to_address, IPv6Address)
        message = _MESSAGE.pack(_ADVERTISEMENT, 0, 0, _SOLICITED_AND_OVERRIDE, self.address.packed)
        message += _option(_TARGET_OPTION, self.mac)
        return _icmpv6(self.to_mac.octets, self.mac, self.address, self.to_address, message)


def parse(frame: bytes) -> NeighbourQuestion | Reply | None:
    """Return the message in a frame, or None if it has none that can be used."""
    if len(frame) < _ETHERNET.size:
        return None
    destination, source, kind = _ETHERNET.unpack_from(frame)
    if kind == ARP_TYPE and len(frame) >= _ARP.size:
        *_, hardware, protocol, sizes, lengths, operation, mac, address, to_mac, target = _ARP.unpack_from(frame)
        if (hardware, protocol, sizes, lengths) != (1, 0x0800, 6, 4):
            return None
        if operation == _REQUEST:
            return NeighbourQuestion(Mac(mac), IPv4Address(address), IPv4Address(target))
        if operation == _REPLY:
            return Reply(Mac(mac), IPv4Address(address), Mac(to_mac), IPv4Address(target))
    if kind == IPV6_TYPE and len(frame) >= _PAYLOAD + _MESSAGE.size and frame[20] == ICMPV6:
        return _ipv6(frame, Mac(source), Mac(destination))
    return None


def _ipv6(frame: bytes, source: Mac, destination: Mac) -> NeighbourQuestion | Reply | None:
    kind, code, _, _, target = _MESSAGE.unpack_from(frame, _PAYLOAD)
    if code or frame[21] != _NEIGHBOUR_HOPS:
        return None
    sender, receiver = IPv6Address(frame[22:38]), IPv6Address(frame[38:54])
    option = {_SOLICITATION: _SOURCE_OPTION, _ADVERTISEMENT: _TARGET_OPTION}.get(kind)
    if option is None:
        return None
    mac = source
    if len(frame) >= _PAYLOAD + _MESSAGE.size + _OPTION.size:
        found, units, octets = _OPTION.unpack_from(frame, _PAYLOAD + _MESSAGE.size)
        mac = Mac(octets) if (found, units) == (option, 1) else source
    if kind == _SOLICITATION:
        return NeighbourQuestion(mac, sender, IPv6Address(target))
    return Reply(mac, IPv6Address(target), destination, receiver)


def _arp(station: bytes, operation: int, own: tuple[bytes, Address], other: tuple[bytes, Address]) -> bytes:
    (mac, address), (to_mac, target) = own, other
    return _ARP.pack(station, mac, ARP_TYPE, 1, 0x0800, 6, 4, operation, mac, address.packed, to_mac, target.packed)


def _option(kind: int, mac: Mac) -> bytes:
    return _OPTION.pack(kind, 1, mac.octets)


def _icmpv6(station: bytes, mac: Mac, source: IPv6Address, destination: IPv6Address, message: bytes) -> bytes:
    packet = Packet(source, destination, ICMPV6, with_checksum(source, destination, message), _NEIGHBOUR_HOPS)
    return _ETHERNET.pack(station, mac.octets, IPV6_TYPE) + packet.encode()
