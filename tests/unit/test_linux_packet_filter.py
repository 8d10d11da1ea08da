"""Filters, as the kernel runs them: a pair of local sockets carries what a packet socket would see."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, IPv6Network

from testbed.linux import packet_filter

ONE, OTHER = IPv6Address("fd00:5:1:10::"), IPv6Address("fd00:5:3:10::")


def packet(destination: str | IPv6Address, next_header: int = 43) -> bytes:
    """As much of an IPv6 packet as a filter looks at."""
    return bytes([0x60, 0, 0, 0, 0, 0, next_header, 64]) + bytes(16) + IPv6Address(destination).packed


def taken(code: bytes, packets: list[bytes]) -> list[bytes]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        packet_filter.attach(there, code)
        there.setblocking(False)
        for one in packets:
            here.send(one)
        found = []
        while True:
            try:
                found.append(there.recv(2048))
            except BlockingIOError:
                return found


def test_only_the_addresses_that_are_named_are_taken() -> None:
    right = [packet(ONE), packet(OTHER, 143)]
    wrong = [packet("fd00:5:1:10::1"), packet("fd00:5:2:10::"), packet("fd00:5:1:1::"), packet("::"), b"short"]
    assert taken(packet_filter.to_addresses([ONE, OTHER]), [*wrong, *right, *wrong]) == right


def test_only_what_has_a_routing_header_and_is_for_a_prefix_is_taken() -> None:
    prefixes = [IPv6Network("fd00:5:1::/48"), IPv6Network("fd00:6::/32")]
    right = [packet(ONE), packet("fd00:5:1:ffff::9"), packet("fd00:6:7::8")]
    wrong = [packet(ONE, 143), packet(OTHER), packet("fd00:7::"), b""]
    assert taken(packet_filter.routed_to(prefixes), [*wrong, *right]) == right


def test_only_frames_of_a_type_are_taken() -> None:
    right, wrong = bytes(12) + b"\x88\xcc" + bytes(46), bytes(12) + b"\x88\x08" + bytes(46)
    assert taken(packet_filter.of_type(0x88CC), [wrong, right, b"\x88\xcc"]) == [right]


def test_a_filter_for_nothing_takes_nothing() -> None:
    for code in (packet_filter.nothing(), packet_filter.to_addresses([]), packet_filter.routed_to([])):
        assert taken(code, [packet(ONE), bytes(60)]) == []
