"""Filters in the kernel for packet sockets, so that they take nothing but what is wanted of them.

`of_type` is for sockets that see frames from the destination on, the others for those that see IPv6 packets.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network

_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_WORD, _LOAD_HALF, _LOAD_OCTET, _AND, _IF_EQUAL, _RETURN = 0x20, 0x28, 0x30, 0x54, 0x15, 0x06
_TYPE_AT = 12
_NEXT_HEADER_AT, _DESTINATION_AT = 6, 24
_ROUTING = 43
_ALL, _NONE = 0xFFFF, 0

Instruction = tuple[int, int, int, int]


def nothing() -> bytes:
    """Takes no packet."""
    return _code([(_RETURN, 0, 0, _NONE)])


def of_type(ethertype: int) -> bytes:
    """Takes frames of one EtherType."""
    return _code([(_LOAD_HALF, 0, 0, _TYPE_AT), (_IF_EQUAL, 0, 1, ethertype), (_RETURN, 0, 0, _ALL),
                  (_RETURN, 0, 0, _NONE)])  # fmt: skip


def to_addresses(addresses: Iterable[IPv6Address]) -> bytes:
    """Takes what is for one of these addresses."""
    return _code([*_to(IPv6Network(address) for address in addresses), (_RETURN, 0, 0, _NONE)])


def routed_to(prefixes: Iterable[IPv6Network]) -> bytes:
    """Takes what is for an address in one of these prefixes and begins with a routing header."""
    checks = [*_to(prefixes), (_RETURN, 0, 0, _NONE)]
    return _code([(_LOAD_OCTET, 0, 0, _NEXT_HEADER_AT), (_IF_EQUAL, 1, 0, _ROUTING), (_RETURN, 0, 0, _NONE), *checks])


def attach(packets: socket.socket, code: bytes) -> None:
    """Have the socket take what `code` takes, from the next packet on."""
    memory = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // _INSTRUCTION.size, ctypes.addressof(memory))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _to(prefixes: Iterable[IPv6Network]) -> list[Instruction]:
    code: list[Instruction] = []
    for prefix in prefixes:
        masks = struct.unpack("!4I", prefix.netmask.packed)
        words = struct.unpack("!4I", prefix.network_address.packed)
        used = [number for number in range(4) if masks[number]]
        for position, number in enumerate(used):
            to_the_next_prefix = 3 * (len(used) - position) - 2
            code.append((_LOAD_WORD, 0, 0, _DESTINATION_AT + 4 * number))
            code.append((_AND, 0, 0, masks[number]))
            code.append((_IF_EQUAL, 0, to_the_next_prefix, words[number]))
        code.append((_RETURN, 0, 0, _ALL))
    return code


def _code(instructions: Iterable[Instruction]) -> bytes:
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)
