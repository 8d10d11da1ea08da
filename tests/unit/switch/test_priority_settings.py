"""A port's settings: what may be written, what is refused and how, and the octets that the data plane reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.switch.priority.settings import PriorityError, PriorityMap, Trust, require_trust


def test_by_default_nothing_is_trusted_and_class_selectors_and_numbers_are_kept() -> None:
    settings = PriorityMap()
    assert (settings.trust, settings.port_priority) == (Trust.NONE, 0)
    assert settings.dscp_to_dot1p == tuple(dscp // 8 for dscp in range(64))
    assert settings.dot1p_to_local == tuple(range(8))
    assert settings.rewrite_dot1p == settings.rewrite_dscp == (None,) * 8


def test_a_table_is_given_as_what_differs_or_whole() -> None:
    partly = PriorityMap("dscp", dscp_to_dot1p={46: 3}, rewrite_dscp={3: 46, 4: None})
    whole = PriorityMap(
        Trust.DSCP,
        dscp_to_dot1p=[*(dscp // 8 for dscp in range(46)), 3, *(dscp // 8 for dscp in range(47, 64))],
        rewrite_dscp=[None, None, None, 46, None, None, None, None],
    )
    assert partly == whole
    assert hash(partly) == hash(whole)


def test_changing_what_was_given_changes_nothing() -> None:
    table = {46: 3}
    settings = PriorityMap("dscp", dscp_to_dot1p=table)
    table[46] = 4
    assert settings.dscp_to_dot1p[46] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trust": "cos"}, "trust is 'cos'; it is 'dot1p', 'dscp' or 'none'"),
        ({"trust": None}, "trust is None; it is 'dot1p', 'dscp' or 'none'"),
        ({"port_priority": 8}, "port_priority is 8; there are 0 to 7"),
        ({"port_priority": True}, "port_priority is True; there are 0 to 7"),
        ({"dscp_to_dot1p": {64: 3}}, "dscp_to_dot1p names 64; there are 0 to 63"),
        ({"dscp_to_dot1p": {"ef": 5}}, "dscp_to_dot1p names 'ef'; there are 0 to 63"),
        ({"dscp_to_dot1p": {46: 8}}, "dscp_to_dot1p of 46 is 8; there are 0 to 7"),
        ({"dscp_to_dot1p": {46: None}}, "dscp_to_dot1p of 46 is None; there are 0 to 7"),
        ({"dscp_to_dot1p": [0] * 63}, None),
        ({"dot1p_to_local": {3: -1}}, "dot1p_to_local of 3 is -1; there are 0 to 7"),
        ({"dot1p_to_local": "01234567"}, "dot1p_to_local is '01234567'; give {from: to}, or all 8 numbers in order"),
        ({"dot1p_to_local": 3}, "dot1p_to_local is 3; give {from: to}, or all 8 numbers in order"),
        ({"rewrite_dot1p": {8: 0}}, "rewrite_dot1p names 8; there are 0 to 7"),
        ({"rewrite_dot1p": {3: 9}}, "rewrite_dot1p of 3 is 9; there are 0 to 7"),
        ({"rewrite_dscp": {3: 64}}, "rewrite_dscp of 3 is 64; there are 0 to 63"),
        ({"rewrite_dscp": {3: 24.0}}, "rewrite_dscp of 3 is 24.0; there are 0 to 63"),
    ],
)
def test_invalid_settings_are_refused_with_table_and_value(arguments: dict[str, Any], message: str | None) -> None:
    with pytest.raises(PriorityError) as caught:
        PriorityMap(**arguments)
    assert isinstance(caught.value, UsageError)
    if message is None:
        zeros = ("[" + "0, " * 63)[:37]
        message = f"dscp_to_dot1p is {zeros}...; give {{from: to}}, or all 64 numbers in order"
    assert str(caught.value) == message


# PFC needs trust


@pytest.mark.parametrize("trust", [Trust.DOT1P, Trust.DSCP])
def test_pfc_may_be_on_where_something_is_trusted(trust: Trust) -> None:
    require_trust(PriorityMap(trust), range(8))


def test_pfc_is_refused_on_a_port_without_trust() -> None:
    require_trust(PriorityMap("none"), [])
    for enabled, which in (([3], "priority 3"), ({4, 3}, "priorities 3 and 4"), ((0, 6, 2), "priorities 0, 2 and 6")):
        with pytest.raises(PriorityError) as caught:
            require_trust(PriorityMap("none", 3), enabled, "s1-eth2")
        assert str(caught.value) == (
            f"s1-eth2 has PFC on for {which} and no trust mode, so the priority in a PFC frame would mean nothing to "
            "it; set its trust to dot1p or dscp, or switch PFC off there"
        )


@pytest.mark.parametrize("priority", [8, -1, "3", True])
def test_pfc_for_a_priority_that_does_not_exist_is_refused(priority: Any) -> None:
    with pytest.raises(PriorityError) as caught:
        require_trust(PriorityMap("dscp"), [priority], "s1-eth2")
    assert str(caught.value) == f"s1-eth2 has PFC on for priority {priority!r}; there are 0 to 7"


# What a host sets


def test_a_priority_is_carried_by_its_class_selector_or_the_lowest_dscp_that_means_it() -> None:
    assert [PriorityMap().carrier(priority) for priority in range(8)] == [0, 8, 16, 24, 32, 40, 48, 56]
    moved = PriorityMap(dscp_to_dot1p={24: 4, 46: 3, 10: 3} | dict.fromkeys(range(56, 64), 0))
    assert [moved.carrier(priority) for priority in (0, 3, 4, 7)] == [0, 10, 32, None]


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 7)))
def test_a_carrier_means_its_priority_and_there_is_one_if_there_can_be(table: dict[int, int]) -> None:
    settings = PriorityMap("dscp", dscp_to_dot1p=table)
    for priority in range(8):
        carrier = settings.carrier(priority)
        if carrier is None:
            assert priority not in settings.dscp_to_dot1p
        else:
            assert settings.dscp_to_dot1p[carrier] == priority


# Octets for the data plane


def test_the_data_planes_octets_field_by_field() -> None:
    settings = PriorityMap(
        "dscp",
        6,
        dscp_to_dot1p={46: 3, 24: 0},
        dot1p_to_local={3: 4},
        rewrite_dot1p={0: 1, 3: 7},
        rewrite_dscp={0: 0, 7: 63},
        pcp_to_dot1p={1: 2},
        dot1p_to_group={6: 0},
    )
    octets = settings.tables()
    assert octets[:2] == bytes([2, 6])
    assert octets[2:66] == bytes(settings.dscp_to_dot1p)
    assert (octets[2 + 46], octets[2 + 24], octets[2 + 63]) == (3, 0, 7)
    assert octets[66:74] == bytes([0, 1, 2, 4, 4, 5, 6, 7])
    assert octets[74:82] == bytes([1, 255, 255, 7, 255, 255, 255, 255])
    assert octets[82:90] == bytes([0, 255, 255, 255, 255, 255, 255, 63])
    assert octets[90:98] == bytes([0, 8, 16, 25, 32, 40, 48, 56])
    assert octets[98:106] == bytes([0, 2, 2, 3, 4, 5, 6, 7])
    assert octets[106:] == bytes([0, 1, 2, 3, 4, 5, 0, 7])
    assert len(octets) == 114


def test_the_priority_of_a_pause_stops_the_queue_of_its_frames_unless_it_has_a_table() -> None:
    assert PriorityMap("dscp", dot1p_to_local={3: 4}).pause_to_local == (0, 1, 2, 4, 4, 5, 6, 7)
    assert PriorityMap("dscp", dot1p_to_local={3: 4}, pause_to_local={3: 3}).pause_to_local[3] == 3


def test_trust_modes_and_missing_carriers_in_octets() -> None:
    assert [PriorityMap(trust).tables()[0] for trust in ("none", "dot1p", "dscp")] == [0, 1, 2]
    assert PriorityMap(dscp_to_dot1p=[0] * 64).tables()[90:98] == bytes([0]) + b"\xff" * 7
