"""Address resolution: what is written is read again, and devices answer and learn by it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import Mac
from testbed.frames.neighbours import Address, NeighbourQuestion, Reply, parse
from testbed.subjects.snappi.devices import Device, Interface, Resolver

ONE, OTHER = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
PAIRS: list[tuple[Address, Address]] = [
    (IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")),
    (IPv6Address("fd00::1"), IPv6Address("fd00::1:2345:6789")),
]


@pytest.mark.parametrize(("own", "other"), PAIRS)
def test_what_is_written_is_read_again(own: Address, other: Address) -> None:
    for message in (NeighbourQuestion(ONE, own, other), Reply(ONE, own, OTHER, other)):
        assert parse(message.encode()) == message


def test_frames_are_those_of_the_standards() -> None:
    assert NeighbourQuestion(ONE, *PAIRS[0]).encode() == bytes.fromhex(
        "ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002"
    )
    solicitation = NeighbourQuestion(ONE, *PAIRS[1]).encode()
    assert solicitation[:6] == bytes.fromhex("3333ff456789")
    assert solicitation[38:54] == IPv6Address("ff02::1:ff45:6789").packed
    assert solicitation[21] == 255 and solicitation[54] == 135


@given(st.binary(max_size=100))
def test_octets_of_others_are_no_messages(octets: bytes) -> None:
    assert parse(octets) is None or len(octets) >= 42


def test_a_neighbour_message_from_another_network_is_not_read() -> None:
    frame = bytearray(NeighbourQuestion(ONE, *PAIRS[1]).encode())
    frame[21] = 254
    assert parse(bytes(frame)) is None


@pytest.mark.parametrize(("own", "other"), PAIRS)
def test_two_devices_find_each_other(own: Address, other: Address) -> None:
    here = Resolver([Device("d", "e1", "p1", ONE, (Interface("i1", own, other),))])
    there = Resolver([Device("d", "e2", "p2", OTHER, (Interface("i2", other, own),))])
    (request,) = here.requests()
    (reply,) = there.receive(request)
    assert here.receive(reply) == []
    assert here.neighbours == {("e1", other): OTHER}
    assert there.neighbours == {("e2", own): ONE}
    assert here.requests() == []
    here.switch(False)
    assert here.neighbours == {} and here.receive(request) == [] and here.requests() == []
