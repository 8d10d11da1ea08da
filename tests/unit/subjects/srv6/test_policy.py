"""Paths, policies and the pairs of routers with back-pressure: the draft's figures, failures, and random networks."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv6Address
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import XoffError
from testbed.subjects.srv6.controller.paths import Constraints, Path, Paths
from testbed.subjects.srv6.controller.policy import Outcome, check, compute, trace
from testbed.subjects.srv6.controller.topology import Hop, Link, Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Adjacency, Flavours, Sid
from testbed.subjects.srv6.session.intents import Dynamic, Explicit, Key, Policy
from testbed.subjects.srv6.session.messages import RouterPort
from tests.unit.subjects.srv6.srv6_world import address

MS = 10**6


def sid(
    router: str, function: int | str, behaviour: Behaviour = behaviours.END, interface: str = "", **more: object
) -> Sid:
    """Return a SID of a router: R7's SIDs are fd00:a:7:FUNCTION::."""
    adjacencies = (Adjacency(interface, address("fd00:b::ff")),) if interface else ()
    text = function if isinstance(function, str) else f"{function:x}"
    return Sid(router, address(f"fd00:a:{router[1:]}:{text}::"), behaviour, adjacencies=adjacencies, **more)  # type: ignore[arg-type]


def segment(router: str, function: int | str) -> IPv6Address:
    return sid(router, function).address


def wan(links: Sequence[tuple[str, str, int]], pfc: Sequence[str], slices: frozenset[int] = frozenset()) -> Topology:
    """Return a WAN of routers, links with their delay in ms, and PFC-capable routers.

    R1's interface to R2 is called "to2", its SIDs are 1 (End), d (DT46), 0e02 (End.X to R2), 0f02 (End.X.PFC to R2).
    """
    topology = Topology()
    names = sorted({name for a, b, _ in links for name in (a, b)})
    for name in names:
        topology.add_router(name)
    for a, b, delay in links:
        ends = (RouterPort(a, f"to{b[1:]}"), RouterPort(b, f"to{a[1:]}"))
        topology.put_link(Link(ends, (delay * MS, delay * MS), slices))
    for name in names:
        neighbours = sorted({b if a == name else a for a, b, _ in links if name in (a, b)})
        of_links = [
            sid(name, f"{letter}{int(other[1:]):02x}", kind, f"to{other[1:]}")
            for other in neighbours
            for letter, kind in (("e", behaviours.END_X), ("f", behaviours.END_X_PFC))
            if kind is behaviours.END_X or name in pfc
        ]
        topology.put_sids(name, [sid(name, 1), sid(name, 0xD, behaviours.END_DT46), *of_links])
    return topology


def figure_2() -> Topology:
    """Return DC1-R1-R2-R5-DC2, with the way round R2-R3-R4-R5. R1 and R5 are PFC-capable."""
    links = [("R1", "R2", 5), ("R2", "R5", 5), ("R2", "R3", 3), ("R3", "R4", 3), ("R4", "R5", 3)]
    return wan(links, ["R1", "R5"])


def figure_3() -> Topology:
    return wan([("R1", "R2", 5), ("R2", "R3", 5)], ["R1", "R3"])


def policy(start: str, end: str, *candidates: object, colour: int = 100, **more: object) -> Policy:
    service = sid(end, 0xD, behaviours.END_DT46).address
    chosen = candidates or (Dynamic(pfc_ends=True),)
    return Policy(Key(start, colour, end), chosen, **({"service": service} | more))  # type: ignore[arg-type]


def only(topology: Topology, wanted: Policy, **more: object) -> Outcome:
    (outcome,) = compute(topology, [wanted], **more)  # type: ignore[arg-type]
    return outcome


def routers(outcome: Outcome) -> str:
    assert outcome.active is not None, outcome.refused
    return " ".join(outcome.active.path.routers)


# The draft's figures


def test_figure_3_gives_the_lists_of_decision_0140() -> None:
    outcome = only(figure_3(), policy("R1", "R3"))
    assert outcome.active is not None
    assert outcome.active.segments == (segment("R1", "f02"), segment("R2", 1), segment("R3", 0xD))
    (pair,) = outcome.pairs
    assert (pair.upstream, pair.downstream, pair.missing) == ("R1", "R3", ())
    back = (segment("R3", 1), segment("R2", 1), segment("R1", "f02"))
    forth = (segment("R1", 1), segment("R2", 1), segment("R3", "f02"))
    assert pair.back == ReverseTunnel("R3", "R1", back, None, "to2", 10 * MS)
    assert pair.forth == ReverseTunnel("R1", "R3", forth, None, "to2", 10 * MS)
    assert outcome.tunnels == (pair.back, pair.forth)


def test_reverse_lists_may_start_with_end_x() -> None:
    """Check the lists that the draft writes for scenario 2."""
    (pair,) = only(figure_3(), policy("R1", "R3"), own=behaviours.END_X).pairs
    assert pair.back is not None
    assert pair.back.segments == (segment("R3", "e02"), segment("R2", 1), segment("R1", "f02"))


def test_a_reverse_list_starts_with_an_end_x_that_sends_by_the_first_link_and_not_just_has_it_in_its_set() -> None:
    topology = figure_3()
    members = tuple(Adjacency(name, address("fd00:b::ff")) for name in ("dc2", "to2"))
    of_set = Sid("R3", address("fd00:a:3:0e00::"), behaviours.END_X, adjacencies=members)  # it sends to the data centre
    single = sid("R3", "e02", behaviours.END_X, "to2")
    rest = [sid("R3", 1), sid("R3", 0xD, behaviours.END_DT46), sid("R3", "f02", behaviours.END_X_PFC, "to2")]
    topology.put_sids("R3", [*rest, of_set, single])
    (pair,) = only(topology, policy("R1", "R3"), own=behaviours.END_X).pairs
    assert pair.back is not None and pair.back.segments[0] == single.address
    topology.put_sids("R3", [*rest, of_set])
    (pair,) = only(topology, policy("R1", "R3"), own=behaviours.END_X).pairs
    assert pair.back is None
    assert pair.missing == ("R3 advertises no End.X SID for the link at to2, which the path needs",)


def test_both_directions_have_their_policies_and_share_their_tunnels() -> None:
    there, back = compute(figure_3(), [policy("R1", "R3"), policy("R3", "R1")])
    assert set(there.tunnels) == set(back.tunnels)
    assert back.active is not None
    assert back.active.segments == (segment("R3", "f02"), segment("R2", 1), segment("R1", 0xD))


def test_figure_2_finds_the_nearest_able_router_and_interface_across_those_that_are_not() -> None:
    topology = figure_2()
    outcome = only(topology, policy("R1", "R5"))
    assert routers(outcome) == "R1 R2 R5"
    long = Explicit(tuple(segment(f"R{n}", 1) for n in (2, 3, 4)))
    round_about = only(topology, policy("R1", "R5", long))
    assert routers(round_about) == "R1 R2 R3 R4 R5"
    (pair,) = round_about.pairs
    assert pair.back is not None
    assert pair.back.segments == (*(segment(f"R{n}", 1) for n in (5, 4, 3, 2)), segment("R1", "f02"))
    assert (pair.back.delay_ns, pair.back.interface) == (14 * MS, "to4")


def test_every_able_router_on_a_path_has_its_nearest_able_one_upstream() -> None:
    chain = [(f"R{n}", f"R{n + 1}", 1) for n in range(1, 7)]
    outcome = only(wan(chain, ["R2", "R3", "R5"]), policy("R1", "R7", Dynamic()))
    assert [(pair.upstream, pair.downstream) for pair in outcome.pairs] == [("R2", "R3"), ("R3", "R5")]
    assert outcome.active is not None
    assert [str(part) for part in outcome.active.segments] == [
        "fd00:a:2:f03::",
        "fd00:a:3:f04::",
        "fd00:a:4:1::",
        "fd00:a:5:f06::",
        "fd00:a:6:1::",
        "fd00:a:7:d::",
    ]


def test_a_path_without_an_able_router_upstream_has_no_pair() -> None:
    chain = [("R1", "R2", 1), ("R2", "R3", 1)]
    assert only(wan(chain, ["R3"]), policy("R1", "R3", Dynamic())).pairs == ()
    assert only(wan(chain, ["R1"]), policy("R1", "R3", Dynamic())).pairs == ()


def test_the_drafts_literal_list_turns_back_or_loses_the_traffic_and_is_taken_only_if_told_to() -> None:
    """Check {R1.End.X.PFC, R2.End, R3.End.X.PFC}, where R3's J is the link to R2 (0140)."""
    topology = figure_3()
    lists = (segment("R1", "f02"), segment("R2", 1), segment("R3", "f02"))
    literal = Explicit(lists, name="draft")
    without_service = only(topology, policy("R1", "R3", literal, service=None))
    assert without_service.active is None
    assert without_service.refused == (
        (
            "draft",
            "the list ends with R3's End.X.PFC fd00:a:3:f02::, which does not take a VPN's packets out at R3: they "
            "would be lost; end it with a DT4, DT6 or DT46 SID, or mark it literal",
        ),
    )
    assert only(topology, policy("R1", "R3", literal)).refused == (
        (
            "draft",
            "the list leads through R1, R2, R3, R2, R3 and so turns back to a router that the packet has passed; "
            "leave out the segment that sends it back, or mark the list literal",
        ),
    )
    taken = only(topology, policy("R1", "R3", replace(literal, literal=True), service=None))
    assert taken.active is not None
    assert taken.active.segments == lists
    assert routers(taken) == "R1 R2 R3 R2"
    (pair,) = taken.pairs
    assert (pair.upstream, pair.downstream) == ("R1", "R3")


# Failures


def test_after_a_failure_the_path_and_its_tunnels_go_the_other_way() -> None:
    topology = figure_2()
    before = compute(topology, [policy("R1", "R5")])
    topology.set_link(RouterPort("R2", "to5"), up=False)
    after = compute(topology, [policy("R1", "R5")])
    assert routers(after[0]) == "R1 R2 R3 R4 R5"
    assert after[0].tunnels != before[0].tunnels
    topology.set_link(RouterPort("R5", "to2"), up=True)
    assert compute(topology, [policy("R1", "R5")]) == before


def test_a_router_that_is_down_takes_its_links_with_it() -> None:
    topology = figure_2()
    topology.set_router("R3", up=False)
    assert routers(only(topology, policy("R1", "R5"))) == "R1 R2 R5"
    topology.set_router("R2", up=False)
    outcome = only(topology, policy("R1", "R5"))
    assert (outcome.active, outcome.tunnels) == (None, ())
    assert outcome.refused == (("dynamic", "no path from R1 to R5 meets the constraints"),)
    topology.set_router("R1", up=False)
    assert only(topology, policy("R1", "R5")).refused == (("dynamic", "R1 is down"),)


def test_a_new_delay_updates_a_tunnel_and_leaves_its_identity() -> None:
    topology = figure_3()
    before = compute(topology, [policy("R1", "R3")])
    link = topology.link_at(RouterPort("R1", "to2"))
    topology.put_link(replace(link, delays_ns=(7 * MS, 6 * MS)))
    after = compute(topology, [policy("R1", "R3")])
    (old,), (new,) = before, after
    assert [tunnel.identity for tunnel in new.tunnels] == [tunnel.identity for tunnel in old.tunnels]
    assert [tunnel.delay_ns for tunnel in new.tunnels] == [11 * MS, 12 * MS]
    assert new.active is not None and old.active is not None and new.active.segments == old.active.segments


# Candidates


def test_the_valid_candidate_with_the_highest_preference_wins_and_others_have_their_reasons() -> None:
    topology = figure_2()
    candidates = (
        Dynamic(preference=50, name="any"),
        Explicit((segment("R2", 1), segment("R3", 1)), preference=200, name="north"),
        Dynamic(preference=100, max_delay_ns=1, name="fast"),
    )
    wanted = policy("R1", "R5", *candidates)
    outcome = only(topology, wanted)
    assert outcome.active is not None
    assert outcome.active.candidate.name == "north"
    topology.set_link(RouterPort("R3", "to4"), up=False)
    topology.set_link(RouterPort("R2", "to3"), up=False)
    outcome = only(topology, wanted)
    assert outcome.active is not None
    assert outcome.active.candidate.name == "any"
    assert outcome.refused == (
        ("north", "there is no way from R2 to R3, which fd00:a:3:1:: belongs to"),
        ("fast", "the best path takes 10000000 ns, and 1 ns are allowed"),
    )


def test_of_equal_preferences_the_higher_discriminator_wins() -> None:
    lower, higher = Dynamic(discriminator=1, name="one"), Dynamic(discriminator=2, name="two")
    for candidates in ((lower, higher), (higher, lower)):
        outcome = only(figure_3(), policy("R1", "R3", *candidates))
        assert outcome.active is not None
        assert outcome.active.candidate.name == "two"


@pytest.mark.parametrize(
    ("segments", "why"),
    [
        ([("R9", 1)], "fd00:a:9:1:: is a SID of no router"),
        (
            [("R3", "e02")],
            "the list leads through R1, R2, R3, R2, R5 and so turns back to a router that the packet has passed; "
            "leave out the segment that sends it back, or mark the list literal",
        ),
        (
            [("R5", 0xD), ("R2", 1)],
            "the list ends with R2's End fd00:a:2:1::, which does not take a VPN's packets out at R5: they would be "
            "lost; end it with a DT4, DT6 or DT46 SID, or mark it literal",
        ),
        (
            [("R2", 0xD), ("R5", 0xD)],
            "R2's End.DT46 fd00:a:2:d:: takes the packets out before the list ends; leave out what follows it",
        ),
        (
            [("R1", "e99")],
            "R1's End.X fd00:a:1:e99:: sends into R1:dc1, where no link to another router is up",
        ),
    ],
)
def test_an_explicit_list_that_does_not_lead_there_is_refused(segments: list[tuple[str, object]], why: str) -> None:
    topology = figure_2()
    topology.put_sids("R1", [*topology.sids("R1"), sid("R1", "e99", behaviours.END_X, "dc1")])
    listed = tuple(segment(router, function) for router, function in segments)  # type: ignore[arg-type]
    assert only(topology, policy("R1", "R5", Explicit(listed))).refused == (("explicit", why),)


def test_an_explicit_list_over_a_router_that_is_down_is_refused() -> None:
    topology = figure_2()
    topology.set_router("R3", up=False)
    wanted = policy("R1", "R5", Explicit((segment("R3", 1),)))
    assert only(topology, wanted).refused == (("explicit", "R3 is down, which fd00:a:3:1:: belongs to"),)


def test_a_path_needs_a_service_so_that_packets_come_out_of_the_tunnel() -> None:
    outcome = only(figure_3(), policy("R1", "R3", service=None))
    assert outcome.refused == (
        ("dynamic", "the policy has no service, so R3 would not take its packets out; name a VPN SID"),
    )


def test_a_service_that_is_withdrawn_stops_its_policy_and_no_other() -> None:
    topology = figure_2()
    wanted = [policy("R1", "R5"), policy("R1", "R2", Dynamic())]
    check(topology, wanted)
    topology.put_sids("R5", [])
    gone, other = compute(topology, wanted)
    assert gone.refused == (
        ("dynamic", "the service is fd00:a:5:d::, a SID of no router; it must be a DT4, DT6 or DT46 SID of R5"),
    )
    assert other.active is not None


def test_a_list_that_no_header_has_room_for_is_refused() -> None:
    chain = wan([(f"R{n}", f"R{n + 1}", 1) for n in range(1, 130)], ["R1", "R130"])
    assert only(chain, policy("R1", "R130")).refused == (
        ("dynamic", "the list has 130 segments; a header has room for 127"),
    )
    (pair,) = only(chain, policy("R1", "R130", Explicit(()))).pairs
    assert pair.missing == ("a list for 129 hops is too long; a header has room for 127",) * 2


@pytest.mark.parametrize(("hops", "fits"), [(126, True), (127, False)])
def test_the_longest_tunnel_has_127_segments_one_more_than_hops(hops: int, fits: bool) -> None:
    chain = wan([(f"R{n}", f"R{n + 1}", 1) for n in range(1, hops + 1)], ["R1", f"R{hops + 1}"])
    (pair,) = only(chain, policy("R1", f"R{hops + 1}", Explicit(()))).pairs
    assert [tunnel and len(tunnel.segments) for tunnel in (pair.back, pair.forth)] == [127 if fits else None] * 2
    assert bool(pair.missing) is not fits


# Constraints


def test_pfc_at_both_ends_chooses_the_first_link_and_asks_the_endpoint() -> None:
    """Check a router R1 that can pause only its slower link."""
    topology = wan([("R1", "R2", 1), ("R1", "R3", 5), ("R2", "R4", 1), ("R3", "R4", 5)], ["R4"])
    topology.put_sids("R1", [*topology.sids("R1"), sid("R1", "f03", behaviours.END_X_PFC, "to3")])
    assert routers(only(topology, policy("R1", "R4", Dynamic()))) == "R1 R2 R4"
    assert routers(only(topology, policy("R1", "R4"))) == "R1 R3 R4"
    topology.put_sids("R4", [sid("R4", 1), sid("R4", 0xD, behaviours.END_DT46)])
    assert only(topology, policy("R1", "R4")).refused == (
        ("dynamic", "R4 is not PFC-capable: it advertises no End.X.PFC SID"),
    )


def test_a_first_link_from_which_the_best_way_leads_back_is_not_a_loop() -> None:
    topology = wan([("R1", "R2", 1), ("R1", "R3", 1), ("R2", "R4", 1), ("R3", "R4", 50)], ["R4"])
    topology.put_sids("R1", [*topology.sids("R1"), sid("R1", "f03", behaviours.END_X_PFC, "to3")])
    assert routers(only(topology, policy("R1", "R4"))) == "R1 R3 R4"
    topology.set_link(RouterPort("R3", "to4"), up=False)
    assert only(topology, policy("R1", "R4")).active is None


def test_pfc_on_every_hop_avoids_routers_that_know_nothing_of_it() -> None:
    links = [("R1", "R2", 1), ("R2", "R5", 1), ("R1", "R3", 9), ("R3", "R5", 9)]
    topology = wan(links, ["R1", "R3", "R5"])
    outcome = only(topology, policy("R1", "R5", Dynamic(pfc_every_hop=True)))
    assert routers(outcome) == "R1 R3 R5"
    assert [(pair.upstream, pair.downstream) for pair in outcome.pairs] == [("R1", "R3"), ("R3", "R5")]


def test_affinities_keep_a_path_to_links_or_away_from_them() -> None:
    topology = figure_2()
    for port, names in ((RouterPort("R2", "to5"), {"leased", "south"}), (RouterPort("R3", "to4"), {"leased", "north"})):
        topology.put_link(replace(topology.link_at(port), affinity=frozenset(names)))
    paths = Paths(topology)

    def best(**constraints: frozenset[str]) -> str:
        path = paths.shortest("R2", "R5", Constraints(**constraints))  # type: ignore[arg-type]
        return " ".join(path.routers) if path else "none"

    assert best() == "R2 R5"
    assert best(exclude_any=frozenset({"south", "other"})) == "R2 R3 R4 R5"
    assert best(exclude_any=frozenset({"leased"})) == "none"
    assert best(include_any=frozenset({"south", "other"})) == "R2 R5"
    assert best(include_all=frozenset({"south", "other"})) == "none"
    assert best(include_all=frozenset({"south", "leased"})) == "R2 R5"


# Slices


def test_a_slice_keeps_to_its_links_and_its_sids() -> None:
    """Check slice 7, which is not on the short link that R2 would take by itself: its list names R2's End.X."""
    topology = figure_2()
    for link in topology.links:
        if link.ends != (RouterPort("R2", "to5"), RouterPort("R5", "to2")):
            topology.put_link(replace(link, slices=frozenset({7})))
    topology.put_link(replace(topology.link_at(RouterPort("R2", "to3")), delays_ns=(30 * MS, 30 * MS)))
    topology.put_sids("R1", [*topology.sids("R1"), sid("R1", "7f02", behaviours.END_X_PFC, "to2", slice_id=7)])
    outcome = only(topology, policy("R1", "R5", slice_id=7))
    assert routers(outcome) == "R1 R2 R3 R4 R5"
    assert outcome.active is not None
    assert outcome.active.segments == (
        segment("R1", "7f02"),
        segment("R2", "e03"),
        segment("R3", 1),
        segment("R4", 1),
        segment("R5", 0xD),
    )
    (pair,) = outcome.pairs
    assert pair.back is not None
    assert (pair.back.slice_id, pair.back.target) == (7, segment("R1", "7f02"))
    # R3 would send to R2 by R5, so its list names its own link; R5 uses its interface.
    assert pair.back.segments[1:3] == (segment("R4", 1), segment("R3", "e02"))
    assert pair.back.interface == "to4"


def test_another_slices_sid_is_never_used() -> None:
    topology = figure_3()
    topology.put_sids("R1", [sid("R1", 1), sid("R1", "7f02", behaviours.END_X_PFC, "to2", slice_id=7)])
    outcome = only(topology, policy("R1", "R3", Dynamic()))
    assert outcome.pairs == ()
    for link in topology.links:
        topology.put_link(replace(link, slices=frozenset({7, 8})))
    assert len(only(topology, policy("R1", "R3", Dynamic(), slice_id=7)).pairs) == 1
    assert only(topology, policy("R1", "R3", Dynamic(), slice_id=8)).pairs == ()


def test_tunnels_of_two_slices_are_two_tunnels() -> None:
    links = [("R1", "R2", 5), ("R2", "R3", 5)]
    topology = wan(links, ["R1", "R3"], frozenset({7, 8}))
    seven, eight = compute(topology, [policy("R1", "R3", colour=slice_id, slice_id=slice_id) for slice_id in (7, 8)])
    assert {tunnel.slice_id for tunnel in seven.tunnels} == {7}
    assert not set(seven.tunnels) & set(eight.tunnels)


# A set of adjacencies


def test_a_set_is_paused_as_a_whole_but_names_only_its_first_member_on_the_way() -> None:
    links = [("R1", "R2", 1), ("R1", "R3", 9), ("R2", "R4", 1), ("R3", "R4", 9)]
    topology = wan(links, ["R4"])
    members = tuple(Adjacency(name, address("fd00:b::ff")) for name in ("to3", "to2"))
    of_set = Sid("R1", address("fd00:a:1:f::"), behaviours.END_X_PFC, adjacencies=members)
    topology.put_sids("R1", [sid("R1", 1), sid("R1", "e02", behaviours.END_X, "to2"), of_set])
    outcome = only(topology, policy("R1", "R4"))
    assert outcome.active is not None
    assert routers(outcome) == "R1 R2 R4"
    assert outcome.active.segments == (segment("R2", 1), segment("R4", 0xD))  # R1's set would send to R3
    (pair,) = outcome.pairs
    assert pair.back is not None
    assert pair.back.target == of_set.address
    topology.set_link(RouterPort("R2", "to4"), up=False)
    outcome = only(topology, policy("R1", "R4"))
    assert outcome.active is not None
    assert outcome.active.segments == (of_set.address, segment("R3", 1), segment("R4", 0xD))


# What is missing


def test_an_impossible_tunnel_is_missing_with_a_reason() -> None:
    topology = figure_3()
    topology.put_sids("R2", [])
    topology.put_sids(
        "R3", [sid("R3", 1), sid("R3", 0xD, behaviours.END_DT46), sid("R3", "f99", behaviours.END_X_PFC, "dc2")]
    )
    outcome = only(topology, policy("R1", "R3", Explicit((segment("R1", "f02"),))))
    (pair,) = outcome.pairs
    assert (pair.back, pair.forth) == (None, None)
    assert pair.missing == (
        "R2 advertises no End SID",
        "R3 advertises no End.X.PFC SID for R3:to2, so it cannot be paused",
    )
    assert only(topology, policy("R1", "R3")).refused == (("dynamic", "R2 advertises no End SID"),)


def test_end_sids_without_psp_are_preferred() -> None:
    """Check that SIDs without PSP go first: PSP would hide the list from R3 (0140)."""
    topology = figure_3()
    psp, plain = sid("R2", 1, flavours=Flavours.PSP), sid("R2", 2)
    topology.put_sids("R2", [psp])
    (alone,) = compute(topology, [policy("R1", "R3")])
    assert alone.active is not None
    assert psp.address in alone.active.segments
    topology.put_sids("R2", [psp, plain])
    (chosen,) = compute(topology, [policy("R1", "R3")])
    assert chosen.active is not None
    assert plain.address in chosen.active.segments


# What cannot be


def twice(**more: object) -> Callable[[], object]:
    return lambda: check(figure_3(), [policy("R1", "R3"), policy("R1", "R3", **more)])  # type: ignore[arg-type]


BINDING = address("fd00:a:1:b::")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (twice(), "policy R1 to R3, colour 100 is there twice; headend, colour and endpoint together are unique"),
        (
            lambda: check(figure_3(), [policy("R1", "R9")]),
            "there is no router 'R9'; there are R1, R2, R3",
        ),
        (
            lambda: check(
                figure_3(),
                [policy("R1", "R3", colour=n, binding_sid=BINDING) for n in (1, 2)],
            ),
            "binding SID fd00:a:1:b:: of policy R1 to R3, colour 2 is taken by policy R1 to R3, colour 1; "
            "choose another",
        ),
        (
            lambda: check(figure_3(), [policy("R1", "R3", binding_sid=segment("R1", 1))]),
            "binding SID fd00:a:1:1:: of policy R1 to R3, colour 100 is taken by R1's End fd00:a:1:1::; choose another",
        ),
        (
            lambda: check(figure_3(), [policy("R1", "R3", service=segment("R1", 0xD))]),
            "policy R1 to R3, colour 100: the service is R1's End.DT46 fd00:a:1:d::; "
            "it must be a DT4, DT6 or DT46 SID of R3",
        ),
        (lambda: policy("R1", "R1"), "policy R1 to R1, colour 100 ends where it starts; name two routers"),
        (
            lambda: Policy(Key("R1", 1, "R3"), ()),
            "policy R1 to R3, colour 1 has no candidate path; give it at least one",
        ),
        (
            lambda: policy("R1", "R3", Dynamic(), Dynamic()),
            "policy R1 to R3, colour 100 has candidates with the same preference and discriminator; "
            "one of the two has to differ, so that it is clear which one wins",
        ),
        (lambda: figure_3().add_router("R1"), "router R1 is there already; names are unique"),
        (lambda: figure_3().set_link(RouterPort("R1", "to9"), True), "there is no link at port R1:to9"),
        (
            lambda: figure_3().put_link(Link((RouterPort("R1", "to2"), RouterPort("R3", "x")), (1, 1))),
            "port R1:to2 is an end of R1:to2-R2:to1 already; a port has one link",
        ),
        (
            lambda: Link((RouterPort("R1", "a"), RouterPort("R1", "b")), (1, 1)),
            "link R1:a-R1:b leads from R1 to itself; it needs two routers",
        ),
        (
            lambda: Link((RouterPort("R1", "a"), RouterPort("R2", "b")), (1, -1)),
            "link R1:a-R2:b has delay -1; it is a whole number of nanoseconds, 0 or more",
        ),
        (
            lambda: figure_3().put_sids("R1", [sid("R2", 9)]),
            "R2's End fd00:a:2:9:: cannot be advertised by R1",
        ),
        (
            lambda: figure_3().put_sids("R1", [sid("R1", 9), sid("R1", 9, behaviours.END_DT4)]),
            "R1's End.DT4 fd00:a:1:9:: is also R1's End fd00:a:1:9::; a SID belongs to one router and one behaviour",
        ),
    ],
)
def test_what_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Srv6Error, match=f"^{re.escape(message)}$"):
        build()


def test_a_sid_of_two_routers_is_refused_and_nothing_changes() -> None:
    topology = figure_3()
    stolen = Sid("R1", sid("R2", 1).address, behaviours.END)
    before, revision = topology.sids(), topology.revision
    with pytest.raises(Srv6Error, match=r"^R1's End fd00:a:2:1:: is also R2's End fd00:a:2:1::"):
        topology.put_sids("R1", [stolen])
    assert (topology.sids(), topology.revision) == (before, revision)


def test_paths_of_a_topology_that_has_changed_are_refused() -> None:
    topology = figure_3()
    paths = Paths(topology)
    topology.set_link(RouterPort("R1", "to2"), up=False)
    with pytest.raises(XoffError, match=r"^the topology has changed since these paths were computed"):
        paths.shortest("R1", "R3")


def test_a_path_to_itself_is_empty() -> None:
    path = Paths(figure_3()).shortest("R1", "R1")
    assert path == Path(())
    assert (path.routers, path.delay_ns) == ((), 0)


# Ties


def best(topology: Topology, start: str, end: str) -> list[str]:
    path = Paths(topology).shortest(start, end)
    assert path is not None
    return [str(hop.out_of) for hop in path.hops]


@pytest.mark.parametrize("turned", [False, True])
def test_of_ways_with_the_same_delay_the_one_with_fewer_hops_and_then_the_first_by_name_is_taken(turned: bool) -> None:
    links = [("R1", "R3", 2), ("R3", "R5", 2), ("R1", "R2", 2), ("R2", "R5", 2)]
    three_hops = [("R1", "R4", 0), ("R4", "R6", 0), ("R6", "R5", 4)]
    topology = wan([*links, *three_hops][:: -1 if turned else 1], [])
    assert best(topology, "R1", "R5") == ["R1:to2", "R2:to5"]
    assert best(topology, "R5", "R1") == ["R5:to2", "R2:to1"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_parallel_links_the_first_port_is_taken_and_the_other_has_to_be_named(turned: bool) -> None:
    topology = Topology()
    for name in ("R1", "R2"):
        topology.add_router(name)
    for cable in ("a", "b") if turned else ("b", "a"):
        topology.put_link(Link((RouterPort("R1", cable), RouterPort("R2", cable)), (MS, MS)))
    assert best(topology, "R1", "R2") == ["R1:a"]
    paths = Paths(topology)
    ports = [RouterPort(router, cable) for router in ("R1", "R2") for cable in ("a", "b")]
    assert [paths.natural(hop) for port in ports if (hop := topology.hop(port))] == [True, False, True, False]


def test_a_link_is_natural_unless_there_is_a_quicker_way() -> None:
    topology = wan([("R1", "R2", 4), ("R1", "R3", 2), ("R3", "R2", 2)], [])
    direct = topology.hop(RouterPort("R1", "to2"))
    assert direct is not None
    assert Paths(topology).natural(direct)
    topology.put_link(replace(topology.link_at(RouterPort("R1", "to3")), delays_ns=(2 * MS - 1, 2 * MS)))
    assert not Paths(topology).natural(direct)


# Random networks

numbers = st.integers(0, 3)
networks = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.tuples(numbers, numbers), st.booleans(), st.booleans()),
    min_size=1,
    max_size=14,
).filter(lambda edges: any(a != b for a, b, *_ in edges))


Edge = tuple[int, int, tuple[int, int], bool, bool]


def build(edges: Sequence[Edge], pfc: set[int], order: random.Random) -> Topology:
    """Return a network with parallel links, a delay in each direction, and links that are down."""
    topology = Topology()
    names = [f"R{n}" for n in range(1, 7)]
    order.shuffle(names)
    for name in names:
        topology.add_router(name)
    links = [
        Link(
            (RouterPort(f"R{a}", f"p{at}"), RouterPort(f"R{b}", f"p{at}")),
            delays,
            frozenset({7}) if in_slice else frozenset(),
            up=up,
        )
        for at, (a, b, delays, in_slice, up) in enumerate(edges)
        if a != b
    ]
    order.shuffle(links)
    for link in links:
        topology.put_link(link)
    for name in names:
        ports = [port for link in links for port in link.ends if port.router == name]
        sids = [sid(name, 1), sid(name, 0xD, behaviours.END_DT46)]
        for port in ports:
            sids.append(sid(name, f"e{int(port.interface[1:]):02x}", behaviours.END_X, port.interface))
            if int(name[1:]) in pfc:
                sids.append(sid(name, f"f{int(port.interface[1:]):02x}", behaviours.END_X_PFC, port.interface))
        order.shuffle(sids)
        topology.put_sids(name, sids)
    return topology


def simple_paths(topology: Topology, source: str, target: str) -> Iterator[list[Hop]]:
    """Return all ways without a loop, by trying everything."""
    hops = list(topology.hops())

    def extend(way: list[Hop], at: str, passed: set[str]) -> Iterator[list[Hop]]:
        if at == target:
            yield way
            return
        for hop in hops:
            if hop.out_of.router == at and hop.into.router not in passed:
                yield from extend([*way, hop], hop.into.router, passed | {hop.into.router})

    return extend([], source, {source})


def quality(way: Sequence[Hop]) -> tuple[object, ...]:
    """Return the key by which paths are compared, as in `paths`."""
    routers = [hop.into.router for hop in way]
    return sum(hop.delay_ns for hop in way), len(way), routers, [hop.out_of.interface for hop in way]


@settings(max_examples=60)
@given(networks, st.sets(st.integers(1, 6)), st.sampled_from([None, 7]), st.booleans(), st.integers(0, 99))
def test_the_best_path_is_found_whatever_the_order_of_things(
    edges: list[Edge],
    pfc: set[int],
    slice_id: int | None,
    pfc_first: bool,
    seed: int,
) -> None:
    topology = build(edges, pfc, random.Random(seed))
    paths = Paths(topology)
    for target in ("R2", "R6"):
        ways = [
            way
            for way in simple_paths(topology, "R1", target)
            if (slice_id is None or all(slice_id in hop.link.slices for hop in way)) and (not pfc_first or 1 in pfc)
        ]
        found = paths.shortest("R1", target, Constraints(slice_id), pfc_first=pfc_first)
        if not ways:
            assert found is None
            continue
        assert found is not None
        best = min(ways, key=quality)
        assert quality(found.hops)[:2] == quality(best)[:2]
        if not pfc_first:
            assert [hop.out_of for hop in found.hops] == [hop.out_of for hop in best]


@settings(max_examples=60)
@given(networks, st.sets(st.integers(1, 6)), st.sampled_from([None, 7]), st.integers(0, 99))
def test_lists_lead_where_they_should_and_pairs_fit_the_path(
    edges: list[Edge], pfc: set[int], slice_id: int | None, seed: int
) -> None:
    topology = build(edges, pfc, random.Random(seed))
    wanted = [
        policy(start, end, Dynamic(), colour=n, slice_id=slice_id)
        for n, (start, end) in enumerate([("R1", "R2"), ("R6", "R1"), ("R3", "R5")])
    ]
    outcomes = compute(topology, wanted)
    assert outcomes == compute(build(edges, pfc, random.Random(seed + 1)), wanted)
    paths = Paths(topology)
    for outcome in outcomes:
        if outcome.active is None:
            continue
        path = outcome.active.path
        assert trace(topology, paths, outcome.policy.key.headend, outcome.active.segments) == path
        able = [at for at, name in enumerate(path.routers) if int(name[1:]) in pfc]
        expected = [(path.routers[one], path.routers[two]) for one, two in pairwise(able)]
        assert [(pair.upstream, pair.downstream) for pair in outcome.pairs] == expected
        for pair in outcome.pairs:
            assert pair.missing == ()
            between = Path(path.hops[path.routers.index(pair.upstream) : path.routers.index(pair.downstream)])
            for tunnel, way in ((pair.back, between.reverse), (pair.forth, between)):
                assert tunnel is not None
                target = topology.sid(tunnel.target)
                assert target is not None
                assert target.adjacencies[0].interface == way.hops[-1].into.interface
                # The first hop is by the tunnel's interface; from there on the list has to lead along the way.
                rest = trace(topology, paths, way.hops[0].into.router, tunnel.segments[1:])
                assert (tunnel.interface, rest.hops[: len(way.hops) - 1]) == (
                    way.hops[0].out_of.interface,
                    way.hops[1:],
                )
                assert tunnel.delay_ns == way.delay_ns


def test_50_routers_with_200_policies_are_computed_again_well_within_half_a_second() -> None:
    """Check the promised time after a failure. It takes some 20 ms on a machine of 2023."""
    order = random.Random(1)
    names = [f"R{n}" for n in range(1, 51)]
    links = {(names[at - 1], names[at]): order.randint(1, 20) for at in range(50)}  # a ring, and chords
    while len(links) < 100:
        one, two = sorted(order.sample(names, 2), key=names.index)
        links.setdefault((one, two), order.randint(1, 20))
    topology = wan([(one, two, delay) for (one, two), delay in links.items()], names[::3])
    able = names[::3]
    wanted = [policy(*order.sample(able, 2), Dynamic(), colour=n) for n in range(200)]
    before = compute(topology, wanted)
    used = [hop.out_of for outcome in before if outcome.active for hop in outcome.active.path.hops]
    topology.set_link(max(used, key=used.count), up=False)
    start = time.process_time()
    after = compute(topology, wanted)
    assert time.process_time() - start < 0.5
    assert all(outcome.active for outcome in after)
    assert {tunnel for outcome in after for tunnel in outcome.tunnels} - {
        tunnel for outcome in before for tunnel in outcome.tunnels
    }
    assert [outcome.active for outcome in after] != [outcome.active for outcome in before]
