"""The segment routing header: the octets of RFC 8754, and no surprise from any others."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import FieldError, srh
from testbed.frames.ipv6 import PacketError, PacketReason
from testbed.frames.srh import Fields, Srh, Tlv

R1, R2, R3 = (IPv6Address(f"fd00:a:{n}:1::") for n in (1, 2, 3))
HEX = {n: f"fd00000a000{n}0001" + 16 * "0" for n in (1, 2, 3)}
#                     next len type left last flags tag  the list, the last segment first
KNOWN = bytes.fromhex(f"8f 06 04 01 02 00 0000 {HEX[1]} {HEX[2]} {HEX[3]}")
#                                                                            HMAC-like TLV, PadN
WITH_TLVS = bytes.fromhex(f"29 06 04 02 01 a5 beef {HEX[1]} {HEX[2]} 85 04 01020304 00 00 04 06 000000000000")

segments = st.lists(st.ip_addresses(v=6), min_size=1, max_size=20)
headers = st.builds(
    lambda path, left, fields, tlvs: Srh(fields[0], tuple(path), left % (len(path) + 1), fields[1], fields[2], tlvs),
    segments,
    st.integers(0, 255),
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 0xFFFF)),
    st.builds(lambda octets: octets[: len(octets) // 8 * 8], st.binary(max_size=64)),
)


def refusal(data: bytes) -> tuple[PacketReason, str]:
    with pytest.raises(PacketError) as caught:
        Srh.parse(data)
    return caught.value.reason, str(caught.value)


def changed(place: int, value: int) -> bytes:
    return KNOWN[:place] + bytes([value]) + KNOWN[place + 1 :]


def test_a_known_header_has_the_octets_of_the_standard() -> None:
    header = Srh.along([R3, R2, R1], next_header=143, done=1)
    assert header.encode().hex() == KNOWN.hex()
    assert Srh.parse(KNOWN) == header
    assert header.segments == (R1, R2, R3)
    assert header.path == (R3, R2, R1)
    assert (header.active, header.visited) == (R2, (R3,))


def test_a_reduced_list_has_no_active_segment_at_its_start() -> None:
    header = Srh.parse(WITH_TLVS)
    assert header == Srh(41, (R1, R2), 2, 0xA5, 0xBEEF, WITH_TLVS[40:])
    assert (header.active, header.visited) == (None, ())


def test_tlvs_are_carried_as_they_are_and_taken_apart_on_request() -> None:
    assert list(srh.parse_tlvs(Srh.parse(WITH_TLVS).tlvs)) == [Tlv(0x85, bytes((1, 2, 3, 4)))]
    assert Srh.parse(WITH_TLVS).encode().hex() == WITH_TLVS.hex()


def test_broken_tlvs_do_not_break_the_header() -> None:
    header = Srh.parse(WITH_TLVS[:-8] + bytes.fromhex("05ff000000000000"))
    with pytest.raises(PacketError) as caught:
        list(srh.parse_tlvs(header.tlvs))
    assert (caught.value.reason, str(caught.value)) == (
        PacketReason.TLV_TOO_LONG,
        "the TLV of type 5 at octet 8 goes beyond the header, which has 16 for TLVs",
    )


def test_a_tlv_ends_with_the_header_or_before_and_its_length_is_there() -> None:
    assert list(srh.parse_tlvs(bytes.fromhex("85 06 010203040506"))) == [Tlv(0x85, bytes(range(1, 7)))]
    assert list(srh.parse_tlvs(bytes.fromhex("00 00 00 00 00 00 85 00"))) == [Tlv(0x85, b"")]
    for octets, place in ((bytes.fromhex("85 07 010203040506"), 0), (bytes(7) + b"\x85", 7)):
        with pytest.raises(
            PacketError, match=f"^the TLV of type 133 at octet {place} goes beyond the header"
        ) as caught:
            list(srh.parse_tlvs(octets))
        assert caught.value.reason is PacketReason.TLV_TOO_LONG


def test_the_longest_list_has_as_many_segments_as_the_length_has_room_for() -> None:
    header = Srh.along([R1] * srh.MOST_SEGMENTS, 59)
    assert len(header.encode()) == 8 + 16 * 127 and header.encode()[1] == 254
    assert Srh.parse(header.encode()) == header
    with pytest.raises(FieldError):
        Srh.along([R1] * (srh.MOST_SEGMENTS + 1), 59)


@given(headers, st.binary(max_size=30), st.integers(0, 30))
def test_a_header_is_read_as_it_was_built_wherever_it_stands(header: Srh, behind: bytes, before: int) -> None:
    assert Srh.parse(bytes(before) + header.encode() + behind, before) == header


@given(st.lists(st.builds(Tlv, st.integers(5, 255), st.binary(max_size=255)), max_size=4))
def test_tlvs_are_read_as_they_were_built_and_end_on_8_octets(tlvs: list[Tlv]) -> None:
    octets = srh.encode_tlvs(tlvs)
    assert len(octets) % 8 == 0
    assert list(srh.parse_tlvs(octets)) == tlvs


@pytest.mark.parametrize("length", range(len(KNOWN)))
def test_a_cut_header_is_refused(length: int) -> None:
    reason, message = refusal(KNOWN[:length])
    if length < 8:
        assert (reason, message) == (PacketReason.TOO_SHORT, f"{length} octets are too few for a routing header")
    else:
        assert (reason, message) == (
            PacketReason.HEADER_TOO_LONG,
            f"the segment routing header would end at 56, and the data at {length}",
        )


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        (changed(2, 0), PacketReason.NOT_SRH, "routing type 0 is not segment routing, 4"),
        (
            changed(4, 3),
            PacketReason.BAD_LAST_ENTRY,
            "last entry is 3, and the header has room for 3 segments",
        ),
        (changed(3, 4), PacketReason.BAD_SEGMENTS_LEFT, "segments left is 4, and the last entry is 2"),
        (
            bytes.fromhex("8f 00 04 00 00 00 0000"),
            PacketReason.BAD_LAST_ENTRY,
            "last entry is 0, and the header has room for 0 segments",
        ),
        (
            bytes.fromhex("8f 01 04 00 00 00 0000 0000000000000000"),
            PacketReason.BAD_LAST_ENTRY,
            "last entry is 0, and the header has room for 0 segments",
        ),
    ],
    ids=["another type", "last entry", "segments left", "empty", "half a segment"],
)
def test_a_header_that_does_not_hold_together_is_refused(data: bytes, reason: PacketReason, message: str) -> None:
    assert refusal(data) == (reason, message)


def test_one_more_segment_left_than_the_last_entry_is_legal() -> None:
    assert Srh.parse(changed(3, 3)).segments_left == 3


@pytest.mark.parametrize(("extra_length", "last_entry"), [(0, -1), (1, -1), (2, 0), (3, 0), (4, 1), (6, 2), (255, 126)])
def test_the_highest_last_entry_is_half_the_length_less_one(extra_length: int, last_entry: int) -> None:
    assert Fields.read(bytes([0, extra_length]) + bytes(6)).max_last_entry == last_entry


@given(st.binary(max_size=120) | st.builds(lambda rest: b"\x8f\x06\x04" + rest, st.binary(max_size=120)))
def test_any_octets_are_a_header_or_refused(data: bytes) -> None:
    try:
        header = Srh.parse(data)
    except PacketError as error:
        assert error.reason in PacketReason
    else:
        assert data.startswith(header.encode())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Srh(59, (), 0), "a segment routing header has at least one segment; name one"),
        (lambda: Srh(59, (R1,), 2), "2 segments left of 1; there are 0 to 1"),
        (
            lambda: Srh(59, (R1,), 0, tlvs=bytes(3)),
            "TLVs of 3 octets do not end on 8 octets; pad them with encode_tlvs",
        ),
        (lambda: Srh(59, (R1,) * 128, 0), "a segment routing header of 2056 octets is too long; it has at most 2048"),
        (lambda: Srh.along([R1, R2], 59, done=2), "2 of 2 segments are done; one at least has to be left"),
        (lambda: Srh.along([], 59), "a segment routing header has at least one segment; name one"),
        (lambda: Srh(59, (R1,), 0, tag=1 << 16), "tag is 65536; it is a whole number from 0 to 65535"),
        (lambda: Tlv(4, b"").encode(), "TLV type 4 is padding, which is added where it is needed"),
        (lambda: Tlv(5, bytes(256)).encode(), "256 octets do not fit into a TLV, which has room for 255"),
    ],
)
def test_an_invalid_header_is_not_built(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(FieldError, match=f"^{re.escape(message)}$"):
        build()
