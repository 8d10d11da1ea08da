"""Warnings about legal but odd settings of a port, whether they were configured or taken over."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion, Ets, EtsRecommendation
from testbed.subjects.dcbx.config import WILLING
from testbed.subjects.dcbx.negotiation import Peer, negotiate, warnings
from testbed.subjects.dcbx.settings import DcbxSettings, EtsAdmin, PfcAdmin, Recommend, Shares
from testbed.subjects.dcbx.tlvs import DcbxTlvs, Pfc

OWN, PEER = Mac.parse("02:00:00:00:00:0a"), Mac.parse("02:00:00:00:00:0b")
ONE_CLASS = (0,) * 8
ALL_ETS = (2,) * 8


def about(settings: DcbxSettings, peer: DcbxTlvs | None = None) -> list[str]:
    return warnings(settings, negotiate(settings, OWN, None if peer is None else Peer(PEER, peer)))


def ets(assignment: tuple[int, ...], bandwidth: tuple[int, ...], tsa: tuple[int, ...] | None, **more: Any) -> EtsAdmin:
    return EtsAdmin(Ets(assignment, bandwidth, tsa), **more)


def test_a_port_as_it_should_be_has_none() -> None:
    table = ets((0, 0, 0, 1, 0, 0, 0, 2), (60, 40, 0, 0, 0, 0, 0, 0), (2, 2, 0, 2, 2, 2, 2, 2))
    assert about(DcbxSettings(ets=table, pfc=PfcAdmin(0x18, cap=2))) == []
    assert about(WILLING.settings) == []
    assert about(DcbxSettings()) == []


@pytest.mark.parametrize("willing", [False, True], ids=["configured", "taken over"])
def test_more_priorities_with_pfc_than_the_port_can_have(willing: bool) -> None:
    pfc = PfcAdmin(0 if willing else 0xFF, willing, cap=2)
    text = "PFC is on for 8 priorities, and this port can have it in 2 (cap)"
    assert about(DcbxSettings(pfc=pfc), DcbxTlvs(pfc=Pfc(0xFF))) == [text]


def test_the_capability_counts_traffic_classes_where_they_are_known() -> None:
    table = ets((0, 0, 0, 1, 1, 1, 2, 3), (25, 25, 25, 25, 0, 0, 0, 0), ALL_ETS)
    assert about(DcbxSettings(ets=table, pfc=PfcAdmin(0b0011_1000, cap=1))) == []
    (text,) = about(DcbxSettings(ets=table, pfc=PfcAdmin(0b0111_1000, cap=1)))
    assert text == "PFC is on for 4 priorities in 2 traffic classes, and this port can have it in 1 (cap)"


SHARES = (90, 10, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("tsa", "text"),
    [
        ((2, 0, *[2] * 6), "traffic class 1 is strict and has 10 %: a strict class has no share"),
        ((2, 2, 1, *[2] * 5), "traffic class 2 has the credit-based shaper, and this port has none (cbs = false)"),
        ((2, 2, 255, *[2] * 5), "traffic class 2 has a vendor's own transmission selection (255), unknown here"),
        (ALL_ETS, "traffic class 2 has priorities and 0 %: ETS leaves it what the others do not use"),
    ],
)
@pytest.mark.parametrize("taken_over", [False, True])
def test_transmission_selection_that_does_not_fit(tsa: tuple[int, ...], text: str, taken_over: bool) -> None:
    assignment = (0, 0, 0, 0, 0, 0, 0, 2 if "class 2" in text else 1)
    peer = None
    admin = ets(assignment, SHARES, tsa)
    if taken_over:
        admin = ets(ONE_CLASS, (100, 0, 0, 0, 0, 0, 0, 0), ALL_ETS, willing=True)
        peer = DcbxTlvs(recommendation=EtsRecommendation(SHARES, assignment, tsa))
    assert about(DcbxSettings(ets=admin), peer) == [text]


def test_a_port_with_the_shaper_may_use_it() -> None:
    admin = ets((0, 0, 0, 0, 0, 0, 0, 1), (100, 0, 0, 0, 0, 0, 0, 0), (2, 1, *[2] * 6), cbs=True)
    assert about(DcbxSettings(ets=admin)) == []


def test_what_is_recommended_counts_too() -> None:
    advice = Recommend(EtsRecommendation(SHARES, ONE_CLASS, (2, 0, *[2] * 6)))
    admin = EtsAdmin(Ets(ONE_CLASS, (100, 0, 0, 0, 0, 0, 0, 0), ALL_ETS), recommend=advice)
    assert about(DcbxSettings(ets=admin)) == [
        "recommended: traffic class 1 is strict and has 10 %: a strict class has no share"
    ]


def test_the_drafts_groups() -> None:
    groups = EtsAdmin(Ets((0, 0, 0, 3, 15, 13, 0, 0), (100, 0, 0, 0, 0, 0, 0, 0)), recommend=Shares((100, *[0] * 7)))
    assert about(DcbxSettings(DcbxVersion.DRAFT, ets=groups)) == [
        "priority group 3 has priorities and 0 %: ETS leaves it what the others do not use"
    ]
