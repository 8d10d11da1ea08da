"""The VL of a frame by its SL and its way, and the marks of both in the frame."""

from __future__ import annotations

import pytest

from testbed.frames.path_record import SLS, dscp_of, sl_of
from testbed.switch.priority.classify import read
from testbed.switch.priority.lanes import LANES, Lane, lane

ADDRESSES = bytes(12)
TABLE = tuple(15 - sl for sl in SLS)


def ipv4(dscp: int, tag: bytes = b"") -> bytes:
    return ADDRESSES + tag + b"\x08\x00\x45" + bytes([dscp << 2 | 1]) + bytes(18)


def test_each_sl_has_a_dscp_and_the_first_eight_the_class_selectors() -> None:
    assert [sl_of(dscp_of(sl)) for sl in SLS] == list(SLS)
    assert [dscp_of(sl) for sl in range(8)] == [8 * sl for sl in range(8)]
    assert {sl_of(dscp) for dscp in range(64)} == set(SLS)
    assert sl_of(46) == 13


@pytest.mark.parametrize("sl", SLS)
def test_the_table_of_its_way_gives_a_frame_its_vl_and_a_tag_that_has_it(sl: int) -> None:
    frame = ipv4(dscp_of(sl))
    chosen = lane(frame, TABLE)
    assert chosen.vl == 15 - sl
    if chosen.vl >= LANES:
        assert chosen.frame is None
        return
    assert chosen.frame is not None
    found = read(chosen.frame)
    assert (found.pcp, found.dscp) == (chosen.vl, dscp_of(sl)), "the SL stays what it is"
    assert len(chosen.frame) == len(frame) + 4


def test_a_tag_keeps_its_vlan_and_gets_the_vl() -> None:
    tagged = ipv4(dscp_of(12), bytes.fromhex("8100b123"))
    chosen = lane(tagged, TABLE)
    assert chosen.frame == ipv4(dscp_of(12), bytes.fromhex("81007123")) and chosen.vl == 3


def test_what_is_not_ip_has_no_sl_and_keeps_its_priority() -> None:
    frame = ADDRESSES + bytes.fromhex("8100a0000806") + bytes(28)
    assert lane(frame, TABLE) == Lane(frame, None)
    assert lane(frame, [15] * 16) == Lane(frame, None)


def test_without_a_table_for_its_way_a_frame_keeps_its_priority() -> None:
    assert lane(ipv4(46), None) == Lane(ipv4(46), None)
