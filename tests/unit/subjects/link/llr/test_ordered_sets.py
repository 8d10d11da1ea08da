"""Ordered sets of Link Layer Retry, preambles, and records of what a cable carried."""

from __future__ import annotations

import pytest

from testbed.errors import XoffError
from testbed.frames import FieldError, Mac
from testbed.report.exports import frame_text
from testbed.subjects.link.llr import ordered_set, record
from testbed.subjects.link.llr.ordered_set import Kind, OrderedSet
from testbed.subjects.link.llr.record import Fate, Record

A, B = Mac.parse("02:00:00:00:00:0a"), Mac.parse("02:00:00:00:00:0b")


@pytest.mark.parametrize(
    ("given", "octets"),
    [
        (OrderedSet(Kind.ACK, 0x12345), "4b01123456000000"),
        (OrderedSet(Kind.NACK, 0xFFFFF), "4b02fffff6000000"),
        (OrderedSet(Kind.INIT, 0, 0xBEEF), "4b03000006efbe00"),
        (OrderedSet(Kind.ECHO, 1, 1), "4b04000016010000"),
    ],
)
def test_an_ordered_set_has_the_octets_of_the_published_layout(given: OrderedSet, octets: str) -> None:
    assert given.encode().hex() == octets
    assert ordered_set.parse(bytes.fromhex(octets)) == given


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("4b0112345600000000", "9 octets"),
        ("5c01123456000000", "block type 0x5c"),
        ("4b05123456000000", "type 0x05"),
        ("4b01123457000000", "O-code 0x7"),
    ],
)
def test_octets_that_are_no_ordered_set_are_refused_with_a_reason(octets: str, why: str) -> None:
    with pytest.raises(ordered_set.OrderedSetError, match=why):
        ordered_set.parse(bytes.fromhex(octets))


def test_reserved_octets_are_not_looked_at() -> None:
    assert ordered_set.parse(bytes.fromhex("4b01123456ffffff")) == OrderedSet(Kind.ACK, 0x12345)


@pytest.mark.parametrize("given", [(Kind.ACK, 1 << 20), (Kind.INIT, 0, 1 << 16), (Kind.NACK, 0, 1)])
def test_values_without_room_in_an_ordered_set_are_refused(given: tuple[Kind, int]) -> None:
    with pytest.raises(FieldError):
        OrderedSet(*given)


def test_a_preamble_has_the_start_delimiter_of_llr_and_the_sequence_number() -> None:
    assert ordered_set.preamble(0xABCDE).hex() == "555555dd0abcde00"
    assert ordered_set.sequence_of(ordered_set.preamble(0xABCDE)) == 0xABCDE
    with pytest.raises(ordered_set.OrderedSetError, match="20 bits"):
        ordered_set.sequence_of(b"\x55\x55\x55\xdd\xff\xff\xff\x00")
    with pytest.raises(ordered_set.OrderedSetError, match="not the preamble"):
        ordered_set.sequence_of(b"\x55" * 7 + b"\xd5")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Record(B, A, OrderedSet(Kind.NACK, 50), Fate.LOST), "LLR_NACK 50, lost"),
        (Record(B, A, OrderedSet(Kind.INIT, 0, 5)), "LLR_INIT 0 data 0x0005"),
        (Record(B, A, 50, Fate.DAMAGED, True), "LLR frame 50, replay, damaged"),
        (Record(B, A, None), "frame without LLR"),
    ],
)
def test_a_record_says_what_the_cable_carried(given: Record, words: str) -> None:
    assert record.parse(given.encode()) == given
    assert [layer.text for layer in frame_text.layers(given.encode())][1:] == [words]


def test_the_frame_of_a_record_is_decoded_and_a_record_in_it_is_not() -> None:
    frame = b"".join((B.octets, A.octets, b"\x08\x06", bytes(46)))
    texts = [layer.text for layer in frame_text.layers(Record(B, A, 1, frame=frame).encode())]
    assert texts[1:] == ["LLR frame 1", f"{A} > {B}", "ARP"]
    nested = Record(B, A, 1)
    for _ in range(400):
        nested = Record(B, A, 1, frame=nested.encode())
    assert [layer.kind for layer in frame_text.layers(nested.encode())] == ["ethernet", "llr", "refused"]


def test_octets_that_are_no_record_are_refused() -> None:
    good = Record(B, A, 1).encode()
    for place, value in ((14, 2), (15, 3), (16, 4), (17, 8), (17, 2)):
        with pytest.raises(XoffError):
            record.parse(good[:place] + bytes((value,)) + good[place + 1 :])
    with pytest.raises(XoffError, match="25 octets"):
        record.parse(good[:25])
