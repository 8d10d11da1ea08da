"""Scenario 2: the tunnels that R3 learns from data packets, and those that it refuses to learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import ipv6
from testbed.frames.ipv6 import Packet
from testbed.frames.srh import Srh
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import Flavours, Sid
from testbed.subjects.srv6.protocol.tunnel_learning import Learned, Learner, LearnerSettings, Refusal, Refused
from tests.unit.subjects.srv6.srv6_world import (
    ALL,
    AT_R1,
    DATA_AT_R3,
    DOMAIN,
    INNER,
    R1,
    R1_END,
    R1_PFC,
    R2_END,
    R3_END,
    R3_END_X,
    R3_PFC,
    R3_VPN,
    TO_R2,
    address,
    changed,
    with_flavours,
)

SETTINGS = LearnerSettings(R3_END, DOMAIN, size=3, age_ns=1000)
TUNNEL = ReverseTunnel("R3", "R1", (R3_END.address, R2_END.address, R1_PFC.address))


def learner(sids: Sequence[Sid] = ALL, settings: LearnerSettings = SETTINGS) -> Learner:
    made = Learner(settings)
    made.advertised(sids)
    return made


def data(path: Sequence[Sid], left: int = 0, slice_id: int | None = None) -> bytes:
    """Return a tenant's packet from R1 that has all but `left` segments of its path behind it."""
    routing = Srh(4, tuple(sid.address for sid in reversed(path)), left).encode()
    first = ipv6.ROUTING
    if slice_id is not None:
        option = ipv6.SliceOption(slice_id).option()
        routing, first = ipv6.encode_header(first, [option]) + routing, ipv6.HOP_BY_HOP
    active = path[len(path) - 1 - left].address
    return Packet(R1, active, first, routing + INNER).encode()


def pfc_sid(number: int, slice_id: int | None = None) -> Sid:
    """Return one of many upstream SIDs, each on a router of its own."""
    return Sid(
        f"U{number}", address(f"fd00:a:{number + 100:x}:f::"), behaviours.END_X_PFC, Flavours.NONE, (TO_R2,), slice_id
    )


# What is learned


def test_the_first_data_packet_creates_the_reverse_tunnel() -> None:
    """Check that {R1.End.X.PFC, R2.End, VPN SID of R3} gives {R3.End, R2.End, R1.End.X.PFC}."""
    router = learner()
    assert router.data_packet(DATA_AT_R3, 5) == Learned(TUNNEL, new=True)
    assert router.data_packet(DATA_AT_R3, 6) == Learned(TUNNEL, new=False)
    assert router.tunnels() == (TUNNEL,)
    assert router.counters == {"withdrawn": 0, "learned": 1, "known": 1}


def test_the_tunnel_may_start_with_the_routers_end_x() -> None:
    """Check the draft's list for scenario 2: {R3.End.X, R2.End, R1.End.X.PFC}."""
    router = learner(settings=replace(SETTINGS, own=R3_END_X))
    router.data_packet(DATA_AT_R3, 0)
    assert [tunnel.segments for tunnel in router.tunnels()] == [(R3_END_X.address, R2_END.address, R1_PFC.address)]


@pytest.mark.parametrize("own", [R3_END_X, R3_PFC])
def test_the_drafts_literal_forward_lists_teach_the_same(own: Sid) -> None:
    """Check {R1.End.X.PFC, R2.End, R3.End.X}, and the list with R3.End.X.PFC, as R3 receives them."""
    assert learner().data_packet(data([R1_PFC, R2_END, own]), 0) == Learned(TUNNEL, new=True)


def test_the_nearest_router_upstream_that_can_pause_is_chosen() -> None:
    middle = Sid("R2", address("fd00:a:2:f::"), behaviours.END_X_PFC, adjacencies=(TO_R2,))
    found = learner([*ALL, middle]).data_packet(data([R1_PFC, middle, R3_VPN]), 0)
    assert found == Learned(ReverseTunnel("R3", "R2", (R3_END.address, middle.address)), new=True)


def test_a_router_in_the_middle_of_a_path_learns_what_lies_behind_it() -> None:
    found = learner().data_packet(data([R1_PFC, R2_END, R3_PFC, R1_END], left=1), 0)
    assert found == Learned(TUNNEL, new=True)


def test_own_sids_that_were_passed_before_are_no_part_of_the_way() -> None:
    assert learner().data_packet(data([R1_PFC, R2_END, R3_END, R3_VPN]), 0) == Learned(TUNNEL, new=True)


def test_a_router_passed_by_end_x_is_named_by_its_end_on_the_way_back() -> None:
    onwards = Sid("R2", address("fd00:a:2:e::"), behaviours.END_X, adjacencies=(TO_R2,))
    assert learner([*ALL, onwards]).data_packet(data([R1_PFC, onwards, R3_VPN]), 0) == Learned(TUNNEL, new=True)
    both = data([R1_PFC, R2_END, onwards, R3_VPN])
    assert learner([*ALL, onwards]).data_packet(both, 0) == Learned(TUNNEL, new=True)
    without = [sid for sid in ALL if sid is not R2_END]
    assert learner([*without, onwards]).data_packet(data([R1_PFC, onwards, R3_VPN]), 0) == Refused(Refusal.NO_WAY_BACK)


def test_a_router_that_was_passed_twice_is_on_the_way_back_twice_and_two_of_its_sids_in_a_row_are_one_stop() -> None:
    other = Sid("R4", address("fd00:a:4:1::"), behaviours.END)
    onwards = Sid("R2", address("fd00:a:2:e::"), behaviours.END_X, adjacencies=(TO_R2,))
    sids = [*ALL, other, onwards]

    def way(*path: Sid) -> tuple[object, ...]:
        found = learner(sids).data_packet(data([R1_PFC, *path, R3_VPN]), 0)
        assert isinstance(found, Learned)
        return found.tunnel.segments[1:-1]

    assert way(R2_END, other, R2_END) == (R2_END.address, other.address, R2_END.address)
    assert way(R2_END, onwards, other) == (other.address, R2_END.address)
    assert way(R2_END, R2_END, onwards) == (R2_END.address,)


def test_the_slice_is_the_packets_else_the_sids() -> None:
    of_slice = [replace(sid, slice_id=5) if sid is R1_PFC else sid for sid in ALL]
    router = learner(of_slice)
    router.data_packet(data([R1_PFC, R2_END, R3_VPN]), 0)
    router.data_packet(data([R1_PFC, R2_END, R3_VPN], slice_id=7), 1)
    assert router.tunnels(5) == (replace(TUNNEL, slice_id=5),)
    assert router.tunnels(7) == (replace(TUNNEL, slice_id=7),)
    assert router.tunnels() == ()


def test_a_new_path_is_a_new_tunnel_and_the_newest_is_used() -> None:
    detour = Sid("R9", address("fd00:a:9:1::"), behaviours.END)
    router = learner([*ALL, detour])
    router.data_packet(DATA_AT_R3, 0)
    router.data_packet(data([R1_PFC, detour, R3_VPN]), 10)
    new = replace(TUNNEL, segments=(R3_END.address, detour.address, R1_PFC.address))
    assert router.tunnels() == (new,)
    router.data_packet(DATA_AT_R3, 20)
    assert router.tunnels() == (TUNNEL,)
    assert len(router) == 2


# What is forgotten


def test_a_tunnel_ages_out_when_no_packet_uses_it() -> None:
    router = learner()
    assert router.deadline_ns is None
    router.data_packet(DATA_AT_R3, 0)
    router.data_packet(DATA_AT_R3, 400)
    assert router.deadline_ns == 1400
    assert router.expire(1399) == ()
    assert router.expire(1400) == (TUNNEL,)
    assert (router.deadline_ns, router.tunnels(), router.counters["expired"]) == (None, (), 1)


def test_a_full_table_drops_the_tunnel_used_longest_ago() -> None:
    many = [pfc_sid(number) for number in range(4)]
    router = learner([*ALL, *many])
    for now, number in enumerate((0, 1, 2, 0)):
        router.data_packet(data([many[number], R3_VPN]), now)
    found = router.data_packet(data([many[3], R3_VPN]), 4)
    assert isinstance(found, Learned)
    assert found.evicted == ReverseTunnel("R3", "U1", (R3_END.address, many[1].address))
    assert [tunnel.pauses for tunnel in router.tunnels()] == ["U3", "U0", "U2"]
    assert (len(router), router.counters["evicted"]) == (3, 1)


def test_withdrawn_sids_take_their_tunnels_with_them() -> None:
    router = learner()
    router.data_packet(DATA_AT_R3, 0)
    assert router.advertised(ALL) == ()
    assert router.advertised([sid for sid in ALL if sid is not R2_END]) == (TUNNEL,)
    router = learner()
    router.data_packet(DATA_AT_R3, 0)
    plain = Sid("R1", R1_PFC.address, behaviours.END_X, adjacencies=(TO_R2,))
    assert router.advertised([plain, *(sid for sid in ALL if sid is not R1_PFC)]) == (TUNNEL,)
    assert (len(router), router.counters["withdrawn"]) == (0, 1)


# What is refused


STRANGER = address("2001:db8::1").packed


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (DATA_AT_R3[:8] + STRANGER + DATA_AT_R3[24:], Refusal.SOURCE_OUTSIDE),
        (data([R1_PFC, R2_END, R3_VPN], left=1), Refusal.NOT_OUR_SID),
        (DATA_AT_R3[:24] + STRANGER + DATA_AT_R3[40:], Refusal.NOT_OUR_SID),
        (Packet(R1, R3_VPN.address, 4, INNER).encode(), Refusal.NO_SRH),  # R2's End had PSP
        (DATA_AT_R3[:24] + R3_END.address.packed + DATA_AT_R3[40:], Refusal.LIST_DISAGREES),
        (data([R2_END, R3_VPN]), Refusal.NO_PFC_UPSTREAM),
        (data([R3_VPN]), Refusal.NO_PFC_UPSTREAM),
        (data([R3_PFC, R3_VPN]), Refusal.NO_PFC_UPSTREAM),
        (data([R1_PFC, pfc_sid(7), R3_VPN]), Refusal.NOT_ADVERTISED),
        (changed(DATA_AT_R3, 43, 3), Refusal.NO_PFC_UPSTREAM),  # reduced and at its start: nothing is passed
        (changed(DATA_AT_R3, 43, 4), ipv6.PacketReason.BAD_SEGMENTS_LEFT),
        (changed(DATA_AT_R3, 44, 3), ipv6.PacketReason.BAD_LAST_ENTRY),
        (changed(DATA_AT_R3, 42, 3), ipv6.PacketReason.NOT_SRH),
        (changed(DATA_AT_R3, 41, 60), ipv6.PacketReason.HEADER_TOO_LONG),
        (DATA_AT_R3[:80], ipv6.PacketReason.TRUNCATED),
        (changed(DATA_AT_R3, 0, 0x45), ipv6.PacketReason.NOT_IPV6),
        (b"", ipv6.PacketReason.TOO_SHORT),
        (changed(DATA_AT_R3, 40, ipv6.ETHERNET), Refusal.NOT_DATA),
    ],
)
def test_no_tunnel_is_learned_from_an_untrusted_packet(packet: bytes, reason: object) -> None:
    router = learner()
    assert router.data_packet(packet, 0) == Refused(reason)  # type: ignore[arg-type]
    assert (len(router), router.tunnels()) == (0, ())
    assert router.counters == {"withdrawn": 0, f"refused {reason}": 1}


def test_no_tunnel_is_learned_from_outside_the_domain_whatever_the_source_address_is() -> None:
    router = learner()
    assert router.data_packet(DATA_AT_R3, 0, from_outside=True) == Refused(Refusal.FROM_OUTSIDE)
    assert len(router) == 0


def test_forged_packets_push_nothing_out_of_the_table() -> None:
    router = learner()
    router.data_packet(DATA_AT_R3, 0)
    for number in range(50):
        router.data_packet(data([pfc_sid(number), R3_VPN]), 1)
        router.data_packet(DATA_AT_R3[:8] + STRANGER[:-1] + bytes([number]) + DATA_AT_R3[24:], 1)
    assert router.tunnels() == (TUNNEL,)
    assert router.counters == {
        "withdrawn": 0,
        "learned": 1,
        "refused not_advertised": 50,
        "refused source_outside": 50,
    }


def test_the_reduced_encapsulation_hides_the_sid_and_psp_hides_the_list() -> None:
    """Show why decision 0140 requires full encapsulation at R1, and no PSP at R2."""
    routing = Srh(4, (R3_VPN.address, R2_END.address), 0).encode()  # R1.End.X.PFC was never in it
    packet = Packet(R1, R3_VPN.address, ipv6.ROUTING, routing + INNER).encode()
    assert learner().data_packet(packet, 0) == Refused(Refusal.NO_PFC_UPSTREAM)


def test_end_x_pfc_differs_from_end_x_by_what_is_advertised() -> None:
    """Check the same packet while R1's SID is announced as a plain End.X."""
    plain = Sid("R1", R1_PFC.address, behaviours.END_X, adjacencies=(TO_R2,))
    router = learner([plain, *(sid for sid in ALL if sid is not R1_PFC)])
    assert router.data_packet(DATA_AT_R3, 0) == Refused(Refusal.NO_PFC_UPSTREAM)
    router.advertised([with_flavours(R1_PFC, Flavours.USP), *(sid for sid in ALL if sid is not R1_PFC)])
    assert router.data_packet(DATA_AT_R3, 1) == Learned(TUNNEL, new=True)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(Srv6Error, match=r"^R3's End.DT46 fd00:a:3:d:: cannot start a reverse tunnel"):
        LearnerSettings(R3_VPN, DOMAIN)
    with pytest.raises(Srv6Error, match=r"^size is 0; it is a whole number above 0$"):
        LearnerSettings(R3_END, DOMAIN, size=0)


@given(
    st.binary(max_size=150),
    st.lists(st.tuples(st.integers(0, 115), st.integers(0, 255)), max_size=4),
    st.booleans(),
)
def test_any_octets_teach_or_are_refused_and_the_table_stays_bounded(
    octets: bytes, damage: list[tuple[int, int]], from_outside: bool
) -> None:
    router = learner()
    damaged = bytearray(DATA_AT_R3)
    for place, value in damage:
        damaged[place] = value
    for packet in (octets, bytes(damaged), AT_R1, bytes(damaged[: len(octets)])):
        found = router.data_packet(packet, 0, from_outside)
        if isinstance(found, Learned):
            assert not from_outside
            assert found.tunnel.segments[0] == R3_END.address
            assert found.tunnel.pauses == "R1"
    assert len(router) <= 3
    assert sum(router.counters.values()) == 4


@given(st.lists(st.integers(0, 8), max_size=30))
def test_the_table_holds_the_last_used_and_never_more_than_its_size(numbers: list[int]) -> None:
    uses = [pfc_sid(number, number % 2 or None) for number in numbers]
    router = learner([*ALL, *{sid.address: sid for sid in uses}.values()])
    for now, sid in enumerate(uses):
        router.data_packet(data([sid, R3_VPN]), now)
    last = list(dict.fromkeys(sid.node for sid in reversed(uses)))[:3]
    held = sorted(tunnel.pauses for slice_id in (None, 1) for tunnel in router.tunnels(slice_id))
    assert held == sorted(last)
