"""The priority of a frame, and the frame of a priority: each rule of `classify` and `marking` by its letter.

The frames are written out by hand, and checksums are computed anew by a function of the tests' own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.switch.priority.classify import Classified, Source, classify, read, rewrite
from testbed.switch.priority.marking import mark
from testbed.switch.priority.settings import PriorityMap, Trust

MACS = bytes.fromhex("020000000b01 020000000a01")
TAG_5, TAG_2, TAG_7 = bytes.fromhex("8100 a064"), bytes.fromhex("88a8 4001"), bytes.fromhex("8100 e000")
ARP_TYPE = bytes.fromhex("0806")
PORT_PRIORITY = 1
TRUST_DOT1P = PriorityMap(Trust.DOT1P, PORT_PRIORITY, dot1p_to_local={5: 6})
TRUST_DSCP = PriorityMap(Trust.DSCP, PORT_PRIORITY, dscp_to_dot1p={26: 4})
NO_TRUST = PriorityMap(Trust.NONE, PORT_PRIORITY)


def ipv4(dscp: int, ecn: int = 0, first: int = 0x45) -> bytes:
    """Return an IPv4 packet after its type: a header with a right checksum, and a little inside."""
    header = bytes([first, dscp << 2 | ecn]) + bytes.fromhex("001c 1234 0000 4011 0000 0a000001 0a000002")
    return b"\x08\x00" + header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + b"payload!"


def ipv6(dscp: int, ecn: int = 0, next_header: int = 17) -> bytes:
    word = 6 << 28 | dscp << 22 | ecn << 20 | 0xABCDE
    return b"\x86\xdd" + word.to_bytes(4, "big") + bytes([0, 8, next_header, 64]) + bytes(32) + b"payload!"


def checksum(header: bytes) -> int:
    """Return the checksum of a header whose field is zero, as in RFC 791: all words added, carries too, then
    inverted.
    """
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def is_whole(frame: bytes, ip: int = 14) -> bool:
    """Return True if the IPv4 header's checksum is right."""
    header = frame[ip : ip + 4 * (frame[ip] & 0xF)]
    return checksum(header[:10] + bytes(2) + header[12:]) == int.from_bytes(header[10:12], "big")


# Reading (R) and priority (P)


@pytest.mark.parametrize(
    ("rest", "by_dot1p", "by_dscp"),
    [
        # An untagged frame has no PCP
        (ipv4(46), (1, Source.PORT), (5, Source.DSCP)),
        (ipv4(0), (1, Source.PORT), (0, Source.DSCP)),
        (ipv4(26), (1, Source.PORT), (4, Source.DSCP)),  # by the port's own table
        (ipv6(46), (1, Source.PORT), (5, Source.DSCP)),
        (ipv6(63, ecn=3), (1, Source.PORT), (7, Source.DSCP)),
        (ARP_TYPE + bytes(28), (1, Source.PORT), (1, Source.PORT)),
        # A tag: both trust modes read it, but DSCP comes first
        (TAG_5 + ipv4(16), (5, Source.PCP), (2, Source.DSCP)),
        (TAG_5 + ipv6(16), (5, Source.PCP), (2, Source.DSCP)),
        (TAG_2 + ipv4(46), (2, Source.PCP), (5, Source.DSCP)),
        (TAG_7 + ipv4(0), (7, Source.PCP), (0, Source.DSCP)),  # VID 0: a priority tag
        (TAG_5 + ARP_TYPE + bytes(28), (5, Source.PCP), (5, Source.PCP)),
        # Two tags, any mixture: the outermost counts
        (TAG_2 + TAG_5 + ipv4(56), (2, Source.PCP), (7, Source.DSCP)),
        (TAG_5 + TAG_7 + ipv6(56), (5, Source.PCP), (7, Source.DSCP)),
        (TAG_5 + TAG_2 + ARP_TYPE, (5, Source.PCP), (5, Source.PCP)),
        # A third tag is not looked through
        (TAG_2 + TAG_5 + TAG_7 + ipv4(56), (2, Source.PCP), (2, Source.PCP)),
        # What only looks like IP
        (ipv4(46, first=0x44), (1, Source.PORT), (1, Source.PORT)),  # IHL 4
        (ipv4(46, first=0x65), (1, Source.PORT), (1, Source.PORT)),  # version 6
        (b"\x08\x00" + ipv6(46)[2:], (1, Source.PORT), (1, Source.PORT)),
        (b"\x86\xdd" + ipv4(46)[2:], (1, Source.PORT), (1, Source.PORT)),
        (b"\x88\x47" + ipv4(46)[2:], (1, Source.PORT), (1, Source.PORT)),  # MPLS
        (bytes.fromhex("0026 aaaa03 000000") + ipv4(46), (1, Source.PORT), (1, Source.PORT)),  # LLC and SNAP
        # IHL 15, fragments, extension headers: the DSCP is where it always is
        (ipv4(46, first=0x4F) + bytes(40), (1, Source.PORT), (5, Source.DSCP)),
        (ipv4(46)[:8] + bytes.fromhex("2001") + ipv4(46)[10:], (1, Source.PORT), (5, Source.DSCP)),
        (ipv6(46, next_header=0), (1, Source.PORT), (5, Source.DSCP)),
        (ipv6(46, next_header=44), (1, Source.PORT), (5, Source.DSCP)),
        (ipv6(46, next_header=43), (1, Source.PORT), (5, Source.DSCP)),
    ],
)
def test_what_gives_a_frame_its_priority(
    rest: bytes, by_dot1p: tuple[int, Source], by_dscp: tuple[int, Source]
) -> None:
    found = [classify(MACS + rest, settings) for settings in (TRUST_DOT1P, TRUST_DSCP, NO_TRUST)]
    assert [(one.dot1p, one.source) for one in found] == [by_dot1p, by_dscp, (PORT_PRIORITY, Source.PORT)]


def test_the_queue_is_the_local_priority_of_the_dot1p_value() -> None:
    assert classify(MACS + TAG_5 + ipv4(0), TRUST_DOT1P) == Classified(5, 6, Source.PCP)
    settings = PriorityMap("dscp", dscp_to_dot1p={0: 3, 46: 3}, dot1p_to_local={3: 7})
    assert [classify(MACS + ipv4(dscp), settings).local for dscp in (0, 46, 10)] == [7, 7, 1]


def test_ports_with_different_priorities_put_the_same_frame_into_different_queues() -> None:
    frame = MACS + TAG_5 + ipv4(46)
    assert [classify(frame, PriorityMap("none", port)).local for port in range(8)] == list(range(8))


@pytest.mark.parametrize(
    ("rest", "tag_ends", "dscp_ends"),
    [(TAG_5 + ipv4(46), 16, 20), (TAG_5 + ipv6(46), 16, 20), (TAG_5 + TAG_2 + ipv4(46), 16, 24)],
)
def test_a_frame_that_is_cut_short_has_the_priority_of_what_is_left(rest: bytes, tag_ends: int, dscp_ends: int) -> None:
    whole = MACS + rest
    for length in range(len(whole) + 1):
        frame = whole[:length]
        pcp = (5, Source.PCP) if length >= tag_ends else (1, Source.PORT)
        dscp = (5, Source.DSCP) if length >= dscp_ends else pcp
        found = [classify(frame, settings) for settings in (TRUST_DOT1P, TRUST_DSCP)]
        assert [(one.dot1p, one.source) for one in found] == [pcp, dscp]


# Rewriting (W)

REWRITES = {
    trust: PriorityMap(trust, 3, rewrite_dot1p={5: 2, 3: 6}, rewrite_dscp={5: 40, 3: 24}) for trust in list(Trust)
}


@pytest.mark.parametrize(
    ("rest", "trust", "forwarded"),
    [
        # DEI, VID and the inner tag stay
        ("8100 b064", "dot1p", "8100 5064"),
        ("88a8 bfff 8100 a001", "dot1p", "88a8 5fff 8100 a001"),
        # Trust none and untagged under trust dot1p: priority 3 of the port
        ("8100 b064", "none", "8100 d064"),
        ("0806 a064", "dot1p", "0806 a064"),
        # A dot1p value that the tables do not name
        ("8100 8064 0806", "dot1p", "8100 8064 0806"),
    ],
)
def test_rewriting_the_outermost_pcp(rest: str, trust: Trust, forwarded: str) -> None:
    padding = bytes(20)
    assert rewrite(MACS + bytes.fromhex(rest) + padding, REWRITES[trust]) == (MACS + bytes.fromhex(forwarded) + padding)


@pytest.mark.parametrize("ecn", range(4))
def test_rewriting_the_dscp_keeps_ecn_and_mends_the_checksum(ecn: int) -> None:
    for before, settings, after in (
        (ipv4(46, ecn), REWRITES[Trust.DSCP], ipv4(40, ecn)),
        (ipv6(46, ecn), REWRITES[Trust.DSCP], ipv6(40, ecn)),
        (TAG_5 + ipv4(0, ecn), REWRITES[Trust.DOT1P], bytes.fromhex("8100 4064") + ipv4(40, ecn)),
        (ipv4(46, ecn), REWRITES[Trust.NONE], ipv4(24, ecn)),
        (ipv4(16, ecn), REWRITES[Trust.DSCP], ipv4(16, ecn)),
    ):
        assert rewrite(MACS + before, settings) == MACS + after


def test_classify_returns_what_rewriting_will_set() -> None:
    settings = REWRITES[Trust.DSCP]
    assert classify(MACS + TAG_5 + ipv4(46), settings) == Classified(5, 5, Source.DSCP, pcp=2, dscp=40)
    assert classify(MACS + ipv4(46), settings) == Classified(5, 5, Source.DSCP, dscp=40)
    assert classify(MACS + TAG_5 + ARP_TYPE, settings) == Classified(5, 5, Source.PCP, pcp=2)
    assert classify(MACS + ipv4(16), settings) == Classified(2, 2, Source.DSCP)


def test_without_tables_the_very_same_object_goes_on() -> None:
    frame = MACS + TAG_5 + ipv4(46)
    assert rewrite(frame, TRUST_DSCP) is frame


def test_an_ipv4_frame_that_ends_before_its_checksum_keeps_its_dscp() -> None:
    """A frame that ends within the DS field has none. IPv6 needs only the two octets that hold it."""
    settings = PriorityMap("dscp", rewrite_dscp={5: 40})
    for length in range(14, 40):
        four, six = (MACS + header[: length - 12] for header in (ipv4(46), ipv6(46)))
        assert (rewrite(four, settings) != four) == (length >= 14 + 12)
        assert (rewrite(six, settings) != six) == (length >= 14 + 2)


def test_a_carry_that_makes_a_carry_is_added_too() -> None:
    """DS field 0x00 becomes 0xb8 in a header whose checksum is 00b7: the sum is 1 ffff at first."""
    header = bytes.fromhex("4500 0073 fbc3 0000 4011 0000 c0a80001 c0a8fcad")
    assert checksum(header) == 0x00B7
    frame = MACS + b"\x08\x00" + header[:10] + b"\x00\xb7" + header[12:]
    forwarded = rewrite(frame, PriorityMap("dscp", rewrite_dscp={0: 46}))
    assert forwarded[24:26] == b"\xff\xfe"
    assert is_whole(forwarded)


def test_a_wrong_checksum_stays_wrong_by_as_much() -> None:
    frame = bytearray(MACS + ipv4(46))
    right = int.from_bytes(frame[24:26], "big")
    frame[24:26] = (right ^ 0x0100).to_bytes(2, "big")
    forwarded = rewrite(bytes(frame), PriorityMap("dscp", rewrite_dscp={5: 40}))
    assert not is_whole(forwarded)
    assert forwarded[24:26] != frame[24:26]


@given(st.binary(min_size=20, max_size=20), st.integers(0, 63), st.integers(5, 15), st.integers(0, 2**16 - 1))
def test_any_header_has_a_right_checksum_after_rewriting(octets: bytes, dscp: int, words: int, seed: int) -> None:
    options = random.Random(seed).randbytes(4 * (words - 5))
    header = bytes([0x40 | words]) + octets[1:10] + bytes(2) + octets[12:] + options
    header = header[:10] + checksum(header).to_bytes(2, "big") + header[12:]
    priority = octets[1] >> 5
    settings = PriorityMap("dscp", rewrite_dscp={priority: dscp})
    forwarded = rewrite(MACS + b"\x08\x00" + header, settings)
    assert forwarded[15] == dscp << 2 | octets[1] & 3
    assert is_whole(forwarded)


def test_a_header_whose_checksums_are_known_from_elsewhere() -> None:
    """The header that explanations of the checksum compute by hand, b861; with DS field 0xb8 it is b7a9."""
    head, tail = "0073 0000 4000 4011", "c0a80001 c0a800c7"
    frame = MACS + bytes.fromhex(f"0800 4500 {head} b861 {tail}")
    assert rewrite(frame, PriorityMap("dscp", rewrite_dscp={0: 46})) == (
        MACS + bytes.fromhex(f"0800 45b8 {head} b7a9 {tail}")
    )


# Marking by a host (H)


def test_a_socket_priority_travels_in_a_priority_tag() -> None:
    marked = mark(MACS + ipv4(0), 5, TRUST_DOT1P)
    assert marked.frame == MACS + bytes.fromhex("8100 a000") + ipv4(0)
    assert (marked.wanted, marked.dot1p, marked.local, marked.carried) == (5, 5, 6, True)


def test_a_frame_that_has_a_tag_gets_the_priority_into_it() -> None:
    assert mark(MACS + bytes.fromhex("8100 7064") + ipv4(0), 5, TRUST_DOT1P).frame == (
        MACS + bytes.fromhex("8100 b064") + ipv4(0)
    )
    assert mark(MACS + TAG_2 + TAG_7 + ipv6(0), 0, TRUST_DOT1P).frame == (
        MACS + bytes.fromhex("88a8 0001") + TAG_7 + ipv6(0)
    )


def test_the_frames_own_dscp_goes_before_the_sockets_priority() -> None:
    settings = PriorityMap("dot1p", dscp_to_dot1p={46: 3})
    assert mark(MACS + ipv4(46), 6, settings).dot1p == 3
    assert mark(MACS + ipv4(0), 6, settings).dot1p == 6
    marked = mark(MACS + ipv4(26), 6, TRUST_DSCP)
    assert (marked.frame, marked.dot1p) == (MACS + ipv4(26), 4)


def test_with_trust_dscp_the_priority_travels_as_its_dscp() -> None:
    for ip in (ipv4, ipv6):
        assert mark(MACS + ip(0, 2), 3, TRUST_DSCP).frame == MACS + ip(24, 2)
        assert mark(MACS + TAG_7 + ip(0, 1), 3, TRUST_DSCP).frame == MACS + TAG_7 + ip(24, 1)


def test_a_dscp_of_zero_stays_where_it_means_what_is_wanted() -> None:
    settings = PriorityMap("dscp", dscp_to_dot1p={0: 3})
    frame = MACS + ipv4(0)
    assert mark(frame, 3, settings).frame is frame
    assert mark(frame, 0, settings).frame == MACS + ipv4(1)  # class selector 0 means 3 here, so the next DSCP


def test_a_priority_that_no_dscp_carries_is_not_carried_and_both_ends_agree() -> None:
    settings = PriorityMap("dscp", dscp_to_dot1p=dict.fromkeys(range(24, 32), 2))
    marked = mark(MACS + ipv4(0), 3, settings)
    assert (marked.frame, marked.wanted, marked.dot1p, marked.carried) == (MACS + ipv4(0), 3, 0, False)


@pytest.mark.parametrize(
    ("frame", "settings", "dot1p"),
    [
        (MACS + ARP_TYPE + bytes(28), TRUST_DSCP, PORT_PRIORITY),
        (MACS + TAG_7 + ARP_TYPE + bytes(28), TRUST_DSCP, 7),
        (MACS + ipv4(0)[:12], TRUST_DSCP, 0),  # cut before the checksum
        (MACS + ipv4(0), NO_TRUST, PORT_PRIORITY),
        (MACS + b"\x08", TRUST_DOT1P, PORT_PRIORITY),
        (b"", TRUST_DOT1P, PORT_PRIORITY),
        (bytes.fromhex("0180c2000001") + MACS[6:] + bytes.fromhex("8808 0101") + bytes(44), TRUST_DOT1P, 1),
        (bytes.fromhex("0180c200000e") + MACS[6:] + bytes.fromhex("88cc") + bytes(20), TRUST_DOT1P, 1),
        (bytes.fromhex("0180c200000f") + MACS[6:] + ipv4(0), TRUST_DSCP, 0),
    ],
)
def test_what_cannot_carry_a_priority_is_left_alone_and_has_the_one_that_the_next_port_finds(
    frame: bytes, settings: PriorityMap, dot1p: int
) -> None:
    marked = mark(frame, 5, settings)
    assert marked.frame is frame
    assert (marked.dot1p, marked.wanted, marked.carried) == (dot1p, 5, False)


def test_link_local_addresses_end_at_0f() -> None:
    frame = bytes.fromhex("0180c2000010") + MACS[6:] + ARP_TYPE
    assert mark(frame, 5, TRUST_DOT1P).carried


@pytest.mark.parametrize("socket_priority", [8, 0x10003, 2**32 - 1, -1])
def test_a_socket_priority_above_7_is_none(socket_priority: int) -> None:
    assert mark(MACS + ipv4(0), socket_priority, TRUST_DOT1P).wanted == PORT_PRIORITY


# Anything


def _frames() -> st.SearchStrategy[bytes]:
    tags = st.sampled_from([b"", TAG_5, TAG_2, TAG_2 + TAG_5, TAG_5 + TAG_5 + TAG_7])
    ds = st.integers(0, 63)
    rest = st.builds(ipv4, ds, st.integers(0, 3)) | st.builds(ipv6, ds, st.integers(0, 3)) | st.binary(max_size=60)
    whole = st.builds(lambda tag, body: MACS + tag + body, tags, rest)
    return st.builds(
        lambda frame, end: frame[: max(0, len(frame) - end)], whole, st.sampled_from([0] * 5 + [*range(60)])
    )


def _settings() -> st.SearchStrategy[PriorityMap]:
    priorities, rewriting = st.integers(0, 7), st.none() | st.integers(0, 7)
    return st.builds(
        PriorityMap,
        st.sampled_from(Trust),
        priorities,
        dscp_to_dot1p=st.dictionaries(st.integers(0, 63), priorities),
        dot1p_to_local=st.dictionaries(priorities, priorities),
        rewrite_dot1p=st.dictionaries(priorities, rewriting),
        rewrite_dscp=st.dictionaries(priorities, st.none() | st.integers(0, 63)),
    )


@given(_frames() | st.binary(max_size=100), _settings())
def test_every_string_of_octets_has_a_priority_and_a_form_to_be_forwarded_in(
    frame: bytes, settings: PriorityMap
) -> None:
    found = classify(frame, settings)
    forwarded = rewrite(frame, settings)
    assert found.local == settings.dot1p_to_local[found.dot1p]
    assert len(forwarded) == len(frame)
    changed = [at for at, (old, new) in enumerate(zip(frame, forwarded, strict=True)) if old != new]
    assert set(changed) <= set(_places(frame))
    if found.pcp is None and found.dscp is None:
        assert forwarded is frame
    if found.pcp is not None:
        assert read(forwarded).pcp == found.pcp
    if found.dscp is not None:
        assert read(forwarded).dscp == found.dscp


def _places(frame: bytes) -> Iterator[int]:
    """Return the places where rewriting may write: the first octet of the outermost tag, and in an IP header the DS
    field and checksum.
    """
    ip = 14
    while frame[ip - 2 : ip] in (b"\x81\x00", b"\x88\xa8") and ip < 22:
        yield 14
        ip += 4
    yield from (ip, ip + 1, ip + 10, ip + 11)


@given(_frames() | st.binary(max_size=100), st.integers(0, 9), _settings())
def test_the_next_port_finds_the_priority_that_the_host_counts_on(
    frame: bytes, socket_priority: int, settings: PriorityMap
) -> None:
    marked = mark(frame, socket_priority, settings)
    found = classify(marked.frame, settings)
    assert (found.dot1p, found.local) == (marked.dot1p, marked.local)
    if settings.trust is Trust.DOT1P and len(frame) >= 14:
        assert marked.carried  # no frame of these is link-local
    assert mark(marked.frame, socket_priority, settings).dot1p == marked.dot1p  # and so at a second one
