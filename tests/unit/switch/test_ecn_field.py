"""The ECN field, and the fate of packets with each of its values (decision 0134)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.switch.ecn.curve import EcnError
from testbed.switch.ecn.field import Ecn, Fate, Pick, fate

UNCHANGED, MARKED, DROPPED = Fate.UNCHANGED, Fate.MARKED, Fate.DROPPED


def test_the_field_is_the_last_two_bits_of_the_ds_field() -> None:
    """AF41 is DSCP 34, 0b100010."""
    assert [Ecn.of(0b100010_00 | bits) for bits in range(4)] == [Ecn.NOT_ECT, Ecn.ECT_1, Ecn.ECT_0, Ecn.CE]
    assert [ecn.into(0b100010_01) for ecn in (Ecn.NOT_ECT, Ecn.ECT_0, Ecn.CE)] == [0x88, 0x8A, 0x8B]


def test_bit_6_is_ect_and_bit_7_is_ce_counted_from_the_left() -> None:
    """10 is what a sender that can do ECN sets, 11 what congestion makes of it, 00 a sender that cannot."""
    bit_6, bit_7 = 1 << (7 - 6), 1 << (7 - 7)
    assert Ecn.of(bit_6) is Ecn.ECT_0
    assert Ecn.of(bit_6 | bit_7) is Ecn.CE
    assert Ecn.of(0) is Ecn.NOT_ECT
    assert Ecn.of(bit_7) is Ecn.ECT_1  # has no place in the article; decision 0134 takes it as the other ECT


@given(st.integers(0, 255), st.sampled_from(Ecn))
def test_writing_the_field_keeps_the_dscp(ds_field: int, ecn: Ecn) -> None:
    written = ecn.into(ds_field)
    assert Ecn.of(written) is ecn
    assert written >> 2 == ds_field >> 2


@pytest.mark.parametrize("value", [-1, 256, True, "8"])
def test_what_is_not_an_octet_is_refused(value: int) -> None:
    for use in (Ecn.of, Ecn.CE.into):
        with pytest.raises(EcnError) as caught:
            use(value)
        assert str(caught.value) == f"{value!r} is not a DS field: it is one octet, 0 to 255"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("ecn", "passed", "picked", "full"),
    [
        (Ecn.ECT_0, UNCHANGED, MARKED, DROPPED),
        (Ecn.ECT_1, UNCHANGED, MARKED, DROPPED),
        (Ecn.CE, UNCHANGED, UNCHANGED, DROPPED),
    ],
)
def test_what_becomes_of_a_packet_of_an_ecn_sender(
    ecn: Ecn, passed: Fate, picked: Fate, full: Fate, keep: bool
) -> None:
    fates = [fate(ecn, pick, keep) for pick in (Pick.PASSED, Pick.PICKED, Pick.FORCED, Pick.FULL)]
    assert fates == [passed, picked, picked, full]


@pytest.mark.parametrize("ecn", [Ecn.NOT_ECT, None], ids=["without ECN", "not IP"])
def test_what_cannot_be_marked_is_dropped_when_picked_or_by_setting_kept_until_tail_drop(
    ecn: Ecn | None,
) -> None:
    picks = (Pick.PASSED, Pick.PICKED, Pick.FORCED, Pick.FULL)
    assert [fate(ecn, pick) for pick in picks] == [UNCHANGED, DROPPED, DROPPED, DROPPED]
    assert [fate(ecn, pick, keep_not_ect=True) for pick in picks] == [UNCHANGED, UNCHANGED, UNCHANGED, DROPPED]


def test_no_packet_without_ecn_ever_becomes_ce() -> None:
    assert {fate(Ecn.NOT_ECT, pick, keep) for pick in Pick for keep in (False, True)} == {UNCHANGED, DROPPED}
