"""Classic BPF filters, by which the kernel hands a packet socket only the packets that it is meant to receive.

`of_type_to`, `of_type`, `of_udp_port` and `resolving_addresses` are for sockets that receive whole frames, the others
for sockets that receive IPv6 packets.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address, IPv6Network

_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_WORD, _LOAD_HALF, _LOAD_OCTET, _AND, _IF_EQUAL, _RETURN = 0x20, 0x28, 0x30, 0x54, 0x15, 0x06
_LOAD_LENGTH, _ADD, _HALVE, _KEEP, _IF_MORE, _IF_MORE_THAN_KEPT = 0x80, 0x04, 0x74, 0x07, 0x25, 0x2D
_TYPE_AT, _ETHERNET_OCTETS = 12, 14
_ARP, _IPV4, _IPV6, _ICMPV6, _UDP = 0x0806, 0x0800, 0x86DD, 58, 17
_NEXT_HEADER_AT, _HOP_LIMIT_AT, _DESTINATION_AT = 6, 7, 24
_ROUTING, _SEGMENT_ROUTING = 43, 4
_LENGTH_AT, _ROUTING_TYPE_AT, _SEGMENTS_LEFT_AT, _LAST_ENTRY_AT = 41, 42, 43, 44
"""Positions of fields of a routing header that directly follows the IPv6 header."""
_ALL, _NONE = 0xFFFF, 0
_TO_END = -1

Instruction = tuple[int, int, int, int]


def nothing() -> bytes:
    """Return a filter that accepts no packet."""
    return _code([(_RETURN, 0, 0, _NONE)])


def of_type(ethertype: int) -> bytes:
    """Return a filter that accepts frames of one EtherType."""
    return _code([(_LOAD_HALF, 0, 0, _TYPE_AT), (_IF_EQUAL, 0, 1, ethertype), (_RETURN, 0, 0, _ALL),
                  (_RETURN, 0, 0, _NONE)])  # fmt: skip


def resolving_addresses() -> bytes:
    """Return a filter that accepts frames with ARP or ICMPv6."""
    return _code([
        (_LOAD_HALF, 0, 0, _TYPE_AT), (_IF_EQUAL, 3, 0, _ARP), (_IF_EQUAL, 0, 3, _IPV6),
        (_LOAD_OCTET, 0, 0, _ETHERNET_OCTETS + _NEXT_HEADER_AT), (_IF_EQUAL, 0, 1, _ICMPV6),
        (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, _NONE),
    ])  # fmt: skip


def of_udp_port(port: int) -> bytes:
    """Return a filter that accepts frames with IP without options or extensions, and UDP to a port."""
    return _code([
        (_LOAD_WORD, 0, 0, _TYPE_AT), (_AND, 0, 0, 0xFFFFFF00), (_IF_EQUAL, 0, 4, _IPV4 << 16 | 0x4500),
        (_LOAD_OCTET, 0, 0, _ETHERNET_OCTETS + 9), (_IF_EQUAL, 0, 9, _UDP),
        (_LOAD_HALF, 0, 0, _ETHERNET_OCTETS + 22), (_IF_EQUAL, 6, 7, port),
        (_LOAD_HALF, 0, 0, _TYPE_AT), (_IF_EQUAL, 0, 5, _IPV6),
        (_LOAD_OCTET, 0, 0, _ETHERNET_OCTETS + _NEXT_HEADER_AT), (_IF_EQUAL, 0, 3, _UDP),
        (_LOAD_HALF, 0, 0, _ETHERNET_OCTETS + 42), (_IF_EQUAL, 0, 1, port),
        (_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, _NONE),
    ])  # fmt: skip


def of_type_to(ethertype: int, addresses: Iterable[bytes]) -> bytes:
    """Return a filter that accepts frames of one EtherType to one of these MAC addresses."""
    code: list[Instruction] = [(_LOAD_HALF, 0, 0, _TYPE_AT), (_IF_EQUAL, 1, 0, ethertype), (_RETURN, 0, 0, _NONE)]
    for address in addresses:
        word, half = struct.unpack("!IH", address)
        code += [(_LOAD_WORD, 0, 0, 0), (_IF_EQUAL, 0, 3, word), (_LOAD_HALF, 0, 0, 4), (_IF_EQUAL, 0, 1, half),
                 (_RETURN, 0, 0, _ALL)]  # fmt: skip
    return _code([*code, (_RETURN, 0, 0, _NONE)])


def ending_at(sids: Iterable[IPv6Address]) -> bytes:
    """Return a filter that accepts packets to one of these SIDs, except those that the kernel forwards by itself.

    It forwards a packet that begins with a sound segment routing header with segments left, and whose Hop Limit is
    above 1.
    """
    checks = [
        (_LOAD_OCTET, 0, 0, _NEXT_HEADER_AT), (_IF_EQUAL, 0, _TO_END, _ROUTING),
        (_LOAD_LENGTH, 0, 0, 0), (_IF_MORE, 0, _TO_END, _LAST_ENTRY_AT),
        (_LOAD_OCTET, 0, 0, _ROUTING_TYPE_AT), (_IF_EQUAL, 0, _TO_END, _SEGMENT_ROUTING),
        (_LOAD_OCTET, 0, 0, _HOP_LIMIT_AT), (_IF_MORE, 0, _TO_END, 1),
        (_LOAD_OCTET, 0, 0, _LENGTH_AT), (_HALVE, 0, 0, 1), (_KEEP, 0, 0, 0),
        (_LOAD_OCTET, 0, 0, _LAST_ENTRY_AT), (_ADD, 0, 0, 1), (_IF_MORE_THAN_KEPT, _TO_END, 0, 0), (_KEEP, 0, 0, 0),
        (_LOAD_OCTET, 0, 0, _SEGMENTS_LEFT_AT), (_IF_EQUAL, _TO_END, 0, 0), (_IF_MORE_THAN_KEPT, _TO_END, 0, 0),
        (_RETURN, 0, 0, _NONE), (_RETURN, 0, 0, _ALL),
    ]  # fmt: skip
    return _code([*_to((IPv6Network(sid) for sid in sids), _to_end(checks)), (_RETURN, 0, 0, _NONE)])


def routed_to(prefixes: Iterable[IPv6Network]) -> bytes:
    """Return a filter that accepts packets to an address in one of these prefixes that begin with a routing header."""
    checks = [*_to(prefixes), (_RETURN, 0, 0, _NONE)]
    return _code([(_LOAD_OCTET, 0, 0, _NEXT_HEADER_AT), (_IF_EQUAL, 1, 0, _ROUTING), (_RETURN, 0, 0, _NONE), *checks])


def attach(packets: socket.socket, code: bytes) -> None:
    """Attach a filter to a socket; it holds from the next packet on."""
    memory = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // _INSTRUCTION.size, ctypes.addressof(memory))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _to(prefixes: Iterable[IPv6Network], then: Sequence[Instruction] = ((_RETURN, 0, 0, _ALL),)) -> list[Instruction]:
    """Return code that goes on with `then`, which ends with a decision, if the packet is to one of the prefixes."""
    code: list[Instruction] = []
    for prefix in prefixes:
        masks = struct.unpack("!4I", prefix.netmask.packed)
        words = struct.unpack("!4I", prefix.network_address.packed)
        used = [number for number in range(4) if masks[number]]
        for position, number in enumerate(used):
            to_the_next_prefix = 3 * (len(used) - position) - 3 + len(then)
            code.append((_LOAD_WORD, 0, 0, _DESTINATION_AT + 4 * number))
            code.append((_AND, 0, 0, masks[number]))
            code.append((_IF_EQUAL, 0, to_the_next_prefix, words[number]))
        code += then
    return code


def _to_end(code: Sequence[Instruction]) -> list[Instruction]:
    """Return the code with the real distance in each jump that is marked as one to the last instruction."""
    found = []
    for number, (what, if_true, if_false, value) in enumerate(code):
        far = len(code) - number - 2
        jumps = [far if jump == _TO_END else jump for jump in (if_true, if_false)]
        found.append((what, jumps[0], jumps[1], value))
    return found


def _code(instructions: Iterable[Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)
