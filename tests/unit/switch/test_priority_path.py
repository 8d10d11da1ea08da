"""Ports of a path that do not agree are found, each once, in a sentence that names the port and the value."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from testbed.switch.priority import path as module
from testbed.switch.priority.classify import classify
from testbed.switch.priority.path import Disagreement, DisagreementKind, PathPort, check_path, check_paths
from testbed.switch.priority.settings import PriorityError, PriorityMap, Trust

NAMES = ("h1-eth0", "s1-eth1", "s1-eth2", "s2-eth2", "s2-eth1", "h2-eth0")


def path(odd: dict[str, PathPort] | None = None, trust: str = "dscp", **settings: Any) -> list[PathPort]:
    """Return the path h1 - s1 - s2 - h2, all ports alike but for those in `odd`."""
    return [(odd or {}).get(name, PathPort(name, PriorityMap(trust, **settings), {3})) for name in NAMES]


def told(ports: list[PathPort]) -> list[str]:
    return [str(disagreement) for disagreement in check_path(ports)]


@pytest.mark.parametrize("trust", ["dot1p", "dscp"])
def test_a_path_of_equal_ports_is_right(trust: str) -> None:
    assert check_path(path(trust=trust, dscp_to_dot1p={26: 3}, dot1p_to_local={3: 5})) == []


def test_short_paths_are_right() -> None:
    assert check_path([]) == check_path(path()[:1]) == check_paths([]) == []


def test_without_pfc_ports_may_differ_as_they_like() -> None:
    ports = [
        PathPort(name, PriorityMap(trust, number, dscp_to_dot1p={0: number}, rewrite_dot1p={0: number + 1}))
        for number, (name, trust) in enumerate(zip(NAMES, ["none", "dot1p", "dscp"] * 2, strict=True))
    ]
    assert check_path(ports) == []


# One difference at a time


def one_odd(name: str, trust: str = "dscp", enabled: set[int] | None = None, **settings: Any) -> list[str]:
    odd = PathPort(name, PriorityMap(trust, **settings), {3} if enabled is None else enabled)
    return told(path({name: odd}, trust if trust != "none" else "dscp"))


def test_a_dscp_that_maps_differently_names_the_first_port_that_differs() -> None:
    assert one_odd("s1-eth1", dscp_to_dot1p={26: 4}) == [
        "s1-eth1 maps dscp 26 to dot1p 4, h1-eth0 to 3; PFC of priority 3 would silently fail: "
        "give both the same table (and so at 1 more place)"  # s1-eth2, which is not as s1-eth1 before it
    ]
    assert one_odd("h2-eth0", dscp_to_dot1p={46: 3}) == [
        "h2-eth0 maps dscp 46 to dot1p 3, s2-eth1 to 5; PFC of priority 3 would silently fail: give both the same table"
    ]


def test_many_dscps_with_the_same_difference_are_one_sentence() -> None:
    table = dict.fromkeys([24, 25, 26, 28, 31], 4) | {27: 5}
    rest = "; PFC of priority 3 would silently fail: give both the same table"
    assert one_odd("h1-eth0", dscp_to_dot1p=table) == [
        f"s1-eth1 maps dscp 24-26, 28 and 31 to dot1p 3, h1-eth0 to 4{rest}",
        f"s1-eth1 maps dscp 27 to dot1p 3, h1-eth0 to 5{rest}",
    ]


def test_a_dscp_that_touches_no_priority_with_pfc_may_map_differently() -> None:
    assert one_odd("s1-eth1", dscp_to_dot1p={46: 6, 0: 1}) == []


def test_dscp_tables_do_not_matter_where_dot1p_is_trusted() -> None:
    assert one_odd("s1-eth1", trust="dot1p", dscp_to_dot1p={26: 4}) == []


def test_a_difference_that_touches_two_priorities_names_both() -> None:
    first = PathPort("h1-eth0", PriorityMap("dscp"), {3, 4})
    second = PathPort("s1-eth1", PriorityMap("dscp", dscp_to_dot1p={26: 4}), {3, 4})
    (found,) = check_path([first, second])
    assert found == Disagreement(
        DisagreementKind.DSCP_TO_DOT1P,
        "s1-eth1",
        "h1-eth0",
        (3, 4),
        "s1-eth1 maps dscp 26 to dot1p 4, h1-eth0 to 3; PFC of priorities 3 and 4 would silently fail: "
        "give both the same table",
    )


def test_a_dot1p_value_in_another_queue_is_reported() -> None:
    assert one_odd("s2-eth1", dot1p_to_local={3: 5}) == [
        "s2-eth1 puts dot1p 3 into queue 5, s2-eth2 into 3; PFC of priority 3 would silently fail: "
        "give both the same table (and so at 1 more place)"
    ]


def test_a_value_without_pfc_that_gets_into_the_queue_of_one_with_it_is_reported() -> None:
    assert one_odd("h2-eth0", dot1p_to_local={5: 3}) == [
        "h2-eth0 puts dot1p 5 into queue 3, s2-eth1 into 5; PFC of priority 3 would silently fail: "
        "give both the same table"
    ]
    assert one_odd("h2-eth0", dot1p_to_local={5: 6}) == []


def test_different_trust_of_neighbours_is_reported_with_its_effect_on_untagged_frames() -> None:
    assert one_odd("h2-eth0") == []
    odd = PathPort("s1-eth1", PriorityMap("dot1p", 2), {3})
    assert told(path({"s1-eth1": odd})) == [
        "s1-eth1 trusts dot1p and takes untagged frames for priority 2, h1-eth0 trusts dscp; "
        "PFC of priority 3 would silently fail: give both the same trust (and so at 1 more place)"
    ]


def test_a_port_without_trust_on_the_way_is_reported_with_its_missing_pfc() -> None:
    assert one_odd("h2-eth0", trust="none", enabled=set()) == [
        "PFC of priority 3 is on at s2-eth1 and off at h2-eth0, so nothing is lossless between them: "
        "switch it on at both, or off at both",
        "h2-eth0 trusts nothing, s2-eth1 trusts dscp; PFC of priority 3 would silently fail: give both the same trust",
    ]


def test_pfc_at_one_end_of_a_link_only_is_reported_for_either_end() -> None:
    assert one_odd("h1-eth0", enabled={3, 5, 4}) == [
        "PFC of priorities 4 and 5 is on at h1-eth0 and off at s1-eth1, so nothing is lossless between them: "
        "switch it on at both, or off at both"
    ]
    assert one_odd("h2-eth0", enabled={4}) == [
        "PFC of priority 4 is on at h2-eth0 and off at s2-eth1, so nothing is lossless between them: "
        "switch it on at both, or off at both",
        "PFC of priority 3 is on at s2-eth1 and off at h2-eth0, so nothing is lossless between them: "
        "switch it on at both, or off at both",
    ]


@pytest.mark.parametrize(
    ("trust", "frames"), [("dot1p", "untagged frames"), ("dscp", "untagged frames that are not IP")]
)
def test_untagged_frames_that_get_another_priority_are_reported(trust: str, frames: str) -> None:
    assert one_odd("h2-eth0", trust=trust, port_priority=3) == [
        f"h2-eth0 takes {frames} for priority 3, s2-eth1 for 0; PFC of priority 3 would silently fail: "
        "give both the same port priority"
    ]
    assert one_odd("h2-eth0", trust=trust, port_priority=2) == []


def test_rewriting_on_the_way_is_reported_at_the_port_that_does_it() -> None:
    rest = "; PFC of priority 3 would silently fail: let such frames keep their priority on the way"
    alike = ("s1-eth1", "s1-eth2", "s2-eth2", "s2-eth1")
    cases: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({"rewrite_dot1p": {3: 5}}, "dot1p", "dot1p 3 to 5"),
        ({"rewrite_dot1p": {2: 3}}, "dot1p", "dot1p 2 to 3"),
        ({"rewrite_dot1p": {3: 5}}, "dscp", "dot1p 3 to 5 in tagged frames that are not IP"),
        ({"rewrite_dscp": {3: 46}}, "dscp", "dot1p 3 to dscp 46, which is dot1p 5"),
    )
    for settings, trust, what in cases:
        odd = {name: PathPort(name, PriorityMap(trust, **settings), {3}) for name in alike}
        assert told(path(odd, trust)) == [f"s1-eth1 rewrites {what}{rest} (and so at 3 more places)"]


def test_rewriting_that_changes_no_priority_with_pfc_is_right() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"rewrite_dot1p": {3: 3, 1: 2}, "rewrite_dscp": {3: 46}}, "dot1p"),
        ({"rewrite_dscp": {3: 26, 5: 50}}, "dscp"),
    )
    for settings, trust in cases:
        odd = {name: PathPort(name, PriorityMap(trust, **settings), {3}) for name in NAMES}
        assert told(path(odd, trust)) == []


def test_the_ends_of_a_path_forward_nothing_so_their_rewriting_does_not_matter() -> None:
    ends = {name: PathPort(name, PriorityMap("dscp", rewrite_dscp={3: 46}), {3}) for name in ("h1-eth0", "h2-eth0")}
    assert told(path(ends)) == []


def test_pfc_on_a_port_without_trust_cannot_be_built() -> None:
    with pytest.raises(PriorityError, match=r"^s1-eth1 has PFC on for priority 3 and no trust mode, so "):
        PathPort("s1-eth1", PriorityMap("none"), {3})
    with pytest.raises(PriorityError, match=r"^s1-eth1 has PFC on for priority 9; there are 0 to 7$"):
        PathPort("s1-eth1", PriorityMap("dscp"), {9})


# Many paths


def leaf_spine(odd: PriorityMap | None = None) -> list[list[PathPort]]:
    """Return the paths of all pairs of 64 hosts on 8 leaves and 4 spines; `odd` are the settings of one leaf's port to
    a host.
    """
    usual = PriorityMap("dscp", dscp_to_dot1p={26: 3})
    ports: dict[str, PathPort] = {}

    def port(name: str) -> PathPort:
        if name not in ports:
            ports[name] = PathPort(name, odd if odd and name == "l3-h29" else usual, {3})
        return ports[name]

    paths = []
    for one in range(64):
        for other in range(64):
            here, there, spine = one // 8, other // 8, (one + other) % 4
            middle = [f"l{here}-s{spine}", f"s{spine}-l{here}", f"s{spine}-l{there}", f"l{there}-s{spine}"]
            names = [
                f"h{one}",
                f"l{here}-h{one}",
                *(middle if here != there else []),
                f"l{there}-h{other}",
                f"h{other}",
            ]
            if one != other:
                paths.append([port(name) for name in names])
    return paths


def test_all_paths_of_a_right_leaf_spine_are_right() -> None:
    assert check_paths(leaf_spine()) == []


def test_one_deviating_port_of_a_leaf_spine_is_one_message_with_all_places() -> None:
    (found,) = check_paths(leaf_spine(PriorityMap("dscp", dscp_to_dot1p={26: 4})))
    assert found.text == (
        "l3-h29 maps dscp 26 to dot1p 4, l3-s1 to 3; PFC of priority 3 would silently fail: give both the same table"
    )
    assert "l3-h29" in (found.port, found.before)
    assert len(found.elsewhere) == 11  # its host, 4 uplinks and 7 other hosts of the leaf, less the first
    assert all("l3-h29" in place for place in found.elsewhere)


def test_each_pair_of_neighbours_is_looked_at_once_however_many_paths_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[frozenset[str]] = []
    between = module._between
    monkeypatch.setattr(
        module, "_between", lambda one, other: looked.append(frozenset([one.name, other.name])) or between(one, other)
    )
    paths = leaf_spine()
    check_paths(paths)
    pairs = {frozenset([one.name, other.name]) for ports in paths for one, other in pairwise(ports)}
    assert len(looked) == len(set(looked)) == len(pairs) == 688
    assert sum(len(ports) - 1 for ports in paths) == 26432


# Against the meaning


def _ports() -> st.SearchStrategy[list[PathPort]]:
    """Draw a few ports whose settings differ little, so that agreement and disagreement are both likely."""
    small = st.integers(2, 4)
    maps = st.builds(
        PriorityMap,
        st.sampled_from([Trust.DOT1P, Trust.DSCP]),
        st.integers(2, 3),
        dscp_to_dot1p=st.dictionaries(st.sampled_from([0, 26]), small, max_size=1),
        dot1p_to_local=st.dictionaries(small, small, max_size=1),
    )
    enabled = st.sampled_from([set(), {3}, {3, 4}])
    one = st.builds(lambda settings, on: PathPort("p", settings, on), maps, enabled)
    pair = st.lists(one, min_size=2, max_size=2)
    few = pair.flatmap(lambda ports: st.lists(st.sampled_from(ports), min_size=2, max_size=5))
    return few.map(lambda ports: [dataclasses.replace(port, name=f"p{at}") for at, port in enumerate(ports)])


@pytest.mark.slow
@hypothesis_settings(max_examples=200)
@given(_ports())
def test_a_path_is_right_exactly_if_all_its_ports_treat_what_is_lossless_alike(ports: list[PathPort]) -> None:
    """All ports at once instead of neighbours, and frames instead of tables."""
    enabled = frozenset().union(*(port.enabled for port in ports))
    right = all(port.enabled == enabled for port in ports)
    right &= not enabled or len({port.settings.trust for port in ports}) == 1
    for tag in (b"", b"\x81\x00\xa0\x00"):
        for ds_field in range(0, 256, 4):
            for body in (b"\x08\x00\x45" + bytes([ds_field]), b"\x08\x06" + bytes(28)):
                found = {classify(bytes(12) + tag + body, port.settings).dot1p for port in ports}
                right &= len(found) == 1 or not found & enabled
    for dot1p in range(8):
        queues = {port.settings.dot1p_to_local[dot1p] for port in ports}
        right &= len(queues) == 1 or not any(
            port.settings.dot1p_to_local[dot1p] == port.settings.dot1p_to_local[priority]
            for port in ports
            for priority in enabled
        )
    assert (check_path(ports) == []) == right
