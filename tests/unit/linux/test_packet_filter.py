"""Filters as the kernel runs them: a pair of local sockets carries the packets that a packet socket would receive."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, IPv6Network

from hypothesis import given
from hypothesis import strategies as st

from testbed.linux.sockets import packet_filter
from tests.unit.subjects.srv6.srv6_world import changed

ONE, OTHER = IPv6Address("fd00:5:1:10::"), IPv6Address("fd00:5:3:10::")


def packet(destination: str | IPv6Address, next_header: int = 43) -> bytes:
    """Return the part of an IPv6 packet that a filter reads."""
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


def test_frames_are_taken_by_their_type() -> None:
    arp, pause, ping = (bytes(12) + kind + bytes(40) for kind in (b"\x08\x06", b"\x88\x08", b"\x86\xdd"))
    resolving = ping[:20] + bytes([58]) + ping[21:]
    found = [arp, pause, ping, resolving, b"short"]
    assert taken(packet_filter.of_type(0x8808), found) == [pause]
    assert taken(packet_filter.resolving_addresses(), found) == [arp, resolving]


def test_datagrams_to_a_port_are_taken_over_either_version_of_ip() -> None:
    def datagram(head: bytes, port: int) -> bytes:
        return bytes(12) + head + bytes(2) + port.to_bytes(2) + bytes(60)

    over_4 = b"\x08\x00\x45" + bytes(8) + b"\x11" + bytes(10)
    over_6 = b"\x86\xdd\x60" + bytes(5) + b"\x11" + bytes(33)
    right = [datagram(over_4, 4791), datagram(over_6, 4791)]
    wrong = [datagram(over_4, 4790), datagram(over_6, 4790), datagram(over_4.replace(b"\x11", b"\x06"), 4791)]
    wrong += [datagram(over_6.replace(b"\x11", b"\x2b"), 4791), datagram(over_4.replace(b"\x45", b"\x46"), 4791), b""]
    assert taken(packet_filter.of_udp_port(4791), [*wrong, *right]) == right


def test_only_the_addresses_that_are_named_are_taken() -> None:
    right = [packet(ONE), packet(OTHER, 143)]
    wrong = [packet("fd00:5:1:10::1"), packet("fd00:5:2:10::"), packet("fd00:5:1:1::"), packet("::"), b"short"]
    assert taken(packet_filter.ending_at([ONE, OTHER]), [*wrong, *right, *wrong]) == right


@given(
    st.tuples(st.sampled_from([0, 3, 4]), st.integers(0, 5), st.integers(0, 5), st.integers(3, 9)),
    st.integers(0, 3),
    st.integers(38, 60),
)
def test_what_the_kernel_passes_on_is_not_taken(
    routing: tuple[int, int, int, int], hop_limit: int, length: int
) -> None:
    """The kernel forwards if a sound routing header comes first and has segments left, and the Hop Limit is above 1."""
    routing_type, left, last, extra = routing
    header = bytes([17, extra, routing_type, left, last, 0, 0, 0])
    data = (changed(packet(OTHER), 7, hop_limit) + header + bytes(16 * 5))[:length]
    sound = length > 44 and last <= extra // 2 - 1 and 0 < left <= last + 1
    passed_on = routing_type == 4 and hop_limit > 1 and sound
    right = [] if passed_on or length < 40 else [data]
    assert taken(packet_filter.ending_at([ONE, OTHER]), [data]) == right


def test_a_routing_header_behind_another_header_is_taken_whatever_its_content() -> None:
    sound = bytes([17, 6, 4, 1, 2, 0, 0, 0]) + bytes(48)
    right = [packet(ONE, 0) + sound, packet(ONE, 60) + sound]
    assert taken(packet_filter.ending_at([ONE]), [packet(ONE) + sound, *right]) == right


def test_only_what_has_a_routing_header_and_is_for_a_prefix_is_taken() -> None:
    prefixes = [IPv6Network("fd00:5:1::/48"), IPv6Network("fd00:6::/32")]
    right = [packet(ONE), packet("fd00:5:1:ffff::9"), packet("fd00:6:7::8")]
    wrong = [packet(ONE, 143), packet(OTHER), packet("fd00:7::"), b""]
    assert taken(packet_filter.routed_to(prefixes), [*wrong, *right]) == right


def test_only_frames_of_a_type_to_one_of_the_addresses_are_taken() -> None:
    groups = [bytes.fromhex(f"0180c20000{last}") for last in ("0e", "03", "00")]
    others = [bytes.fromhex(text) for text in ("ffffffffffff", "02000000000a", "0180c200000f", "0180c300000e")]

    def frame(to: bytes, ethertype: int = 0x88CC) -> bytes:
        return to + bytes(6) + ethertype.to_bytes(2, "big") + bytes(46)

    right = [frame(group) for group in groups]
    wrong = [*map(frame, others), *(frame(group, 0x8808) for group in groups), b"\x88\xcc", groups[0]]
    assert taken(packet_filter.of_type_to(0x88CC, groups), [*wrong, *right]) == right


def test_a_filter_for_nothing_takes_nothing() -> None:
    for code in (packet_filter.nothing(), packet_filter.ending_at([]), packet_filter.routed_to([])):
        assert taken(code, [packet(ONE), bytes(60)]) == []
