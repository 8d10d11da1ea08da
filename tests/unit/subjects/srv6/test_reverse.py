"""Reverse tunnels: the packet that carries a PFC frame, to the octet, and the time of its repetition."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames import mac_control
from testbed.frames.ipv6 import Packet
from testbed.frames.mac_control import PfcFrame
from testbed.frames.srh import Srh
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.endx_pfc import LocalSid, PauseJ, process
from testbed.subjects.srv6.protocol.pause_refresh import PauseSender, Refresh
from testbed.subjects.srv6.protocol.reverse_tunnel import Encapsulator, ReverseTunnel
from testbed.units import Duration, Rate
from tests.unit.subjects.srv6.srv6_world import (
    AT_R1,
    AT_R1_FOR_SLICE_7,
    DOMAIN,
    MAC,
    PFC,
    R1_PFC,
    R2_END,
    R3,
    R3_END,
    R3_END_X,
    SENT_BY_R3,
    SENT_BY_R3_FOR_SLICE_7,
    address,
)

TUNNEL = ReverseTunnel("R3", "R1", (R3_END.address, R2_END.address, R1_PFC.address))
XOFF_3 = PfcFrame.xoff(MAC, [3])


# The packet


def test_the_packet_that_carries_a_pfc_frame_has_the_octets_of_the_formats() -> None:
    assert Encapsulator(TUNNEL, R3).packet(XOFF_3).hex() == SENT_BY_R3.hex()


def test_a_slice_is_named_in_a_hop_by_hop_option() -> None:
    tunnel = replace(TUNNEL, slice_id=7)
    assert Encapsulator(tunnel, R3).packet(XOFF_3).hex() == SENT_BY_R3_FOR_SLICE_7.hex()
    other = Encapsulator(tunnel, R3, slice_option=0x3E).packet(XOFF_3)
    assert other[42] == 0x3E


def test_the_list_of_scenario_2_may_start_with_end_x() -> None:
    tunnel = replace(TUNNEL, segments=(R3_END_X.address, *TUNNEL.segments[1:]))
    packet = Packet.parse(Encapsulator(tunnel, R3).packet(XOFF_3))
    routing = Srh.parse(packet.payload)
    assert routing.path == (R3_END_X.address, R2_END.address, R1_PFC.address)
    assert (packet.destination, routing.active, routing.visited) == (
        R2_END.address,
        R2_END.address,
        (R3_END_X.address,),
    )


def test_neighbours_need_no_router_between() -> None:
    tunnel = ReverseTunnel("R2", "R1", (R2_END.address, R1_PFC.address))
    packet = Encapsulator(tunnel, address("fd00:b::2")).packet(XOFF_3)
    assert process(packet, LocalSid(R1_PFC, DOMAIN)) == PauseJ(XOFF_3, R1_PFC.adjacencies, None)


def test_traffic_class_and_flow_label_can_be_chosen() -> None:
    packet = Packet.parse(Encapsulator(TUNNEL, R3, traffic_class=0xB8, flow_label=0xABCDE).packet(XOFF_3))
    assert (packet.traffic_class, packet.flow_label) == (0xB8, 0xABCDE)


frames = st.builds(PfcFrame, st.just(MAC), st.integers(0, 0xFF), st.tuples(*[st.integers(0, 0xFFFF)] * 8))


@given(frames, st.none() | st.integers(0, 0xFFFFFFFF))
def test_what_goes_into_the_tunnel_comes_out_at_the_other_end(frame: PfcFrame, slice_id: int | None) -> None:
    packet = bytearray(Encapsulator(replace(TUNNEL, slice_id=slice_id), R3).packet(frame))
    at = 40 + (16 if slice_id is not None else 0)
    # R2's End, by hand: hop limit, segments left, and the destination from the first element of the list.
    packet[7] -= 1
    packet[at + 3] -= 1
    packet[24:40] = packet[at + 8 : at + 24]
    assert process(bytes(packet), LocalSid(R1_PFC, DOMAIN)) == PauseJ(frame, R1_PFC.adjacencies, slice_id)


def test_the_written_packets_follow_from_each_other() -> None:
    for sent, arrived, at in ((SENT_BY_R3, AT_R1, 40), (SENT_BY_R3_FOR_SLICE_7, AT_R1_FOR_SLICE_7, 56)):
        packet = bytearray(sent)
        packet[7], packet[at + 3], packet[24:40] = 63, 0, packet[at + 8 : at + 24]
        assert bytes(packet).hex() == arrived.hex()
    assert mac_control.parse(PFC) == XOFF_3


def test_a_tunnel_needs_two_segments() -> None:
    message = (
        "a reverse tunnel of R3 has 1 segments; it needs an own SID and the End.X.PFC SID that it leads to, "
        "and a header has room for 127"
    )
    with pytest.raises(Srv6Error, match=f"^{re.escape(message)}$"):
        ReverseTunnel("R3", "R1", (R1_PFC.address,))


# When it is sent again

MS = 10**6


@pytest.mark.parametrize(
    ("refresh", "interval"),
    [
        (Refresh(pause_ns=300, delay_ns=5 * MS), 150),
        (Refresh(pause_ns=300, delay_ns=0), 150),  # the delay itself does not count
        (Refresh(pause_ns=300, delay_ns=5 * MS, variation_ns=100), 100),
        (Refresh(pause_ns=300, delay_ns=0, losses=2), 100),
        (Refresh(pause_ns=300, delay_ns=0, losses=0), 150),  # half the pause all the same (0132)
        (Refresh(pause_ns=300, delay_ns=0, variation_ns=200, losses=0), 100),
        (Refresh(pause_ns=301, delay_ns=0, variation_ns=0, losses=1), 150),
    ],
)
def test_the_interval_leaves_room_for_losses_and_variation(refresh: Refresh, interval: int) -> None:
    assert refresh.interval_ns == interval


@given(st.integers(2, 10**7), st.integers(0, 10**8), st.integers(0, 10**6), st.integers(0, 4), st.data())
def test_a_pause_never_lapses_within_what_was_promised(
    pause: int, delay: int, variation: int, losses: int, data: st.DataObject
) -> None:
    """Check frames of one interval, each with its own delay, and the most that may be lost in a row."""
    try:
        refresh = Refresh(pause, delay, variation, losses)
    except Srv6Error:
        assert (pause - variation) // (losses + 1) < 1
        return
    arrivals = []
    lost = 0
    for number in range(12):
        if number and lost < losses and data.draw(st.booleans()):
            lost += 1
            continue
        lost = 0
        arrivals.append(number * refresh.interval_ns + delay + data.draw(st.integers(0, variation)))
    paused_until = arrivals[0] + pause
    for arrival in sorted(arrivals):
        assert arrival <= paused_until
        paused_until = max(paused_until, arrival + pause)


def test_times_follow_from_rate_delay_and_quanta() -> None:
    refresh = Refresh.of(Rate("100Gb/s"), Duration("5ms"), Duration("1.5ns"), quanta=3)
    assert refresh == Refresh(pause_ns=15, delay_ns=5 * MS, variation_ns=2)  # 15.36 ns are rounded down, 1.5 ns up
    assert Refresh.of(Rate("100Gb/s"), Duration("5ms"), Duration("0s")).pause_ns == 335_539


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Refresh(pause_ns=1000, delay_ns=0, variation_ns=1000),
            "a pause of 1us cannot be kept up through a tunnel whose delay varies by 1us and that may lose 1 frames "
            "in a row; send more quanta, or keep the tunnel to one path",
        ),
        (lambda: Refresh(-1, 0), "pause_ns is -1; it is a whole number, 0 or more"),
        (lambda: Refresh(100, 0, losses=1.5), "losses is 1.5; it is a whole number, 0 or more"),  # type: ignore[arg-type]
        (lambda: sender().xoff(8, 0), "8 is not a priority: there are 0 to 7"),
        (lambda: sender().xon(-1), "-1 is not a priority: there are 0 to 7"),
    ],
)
def test_what_cannot_be_kept_up_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(Srv6Error, match=f"^{re.escape(message)}$"):
        build()


# The sender


def sender() -> PauseSender:
    return PauseSender(MAC, Refresh(pause_ns=300, delay_ns=5 * MS))


def test_xoff_is_sent_at_once_and_again_at_every_deadline_until_xon() -> None:
    pause = sender()
    assert (pause.deadline_ns, pause.due(0)) == (None, None)
    assert pause.xoff(3, now_ns=1000) == XOFF_3
    assert pause.deadline_ns == 1150
    assert pause.due(1149) is None
    assert pause.due(1150) == XOFF_3
    assert pause.due(1320) == XOFF_3  # late: one frame, and the next one counted from now
    assert pause.deadline_ns == 1470
    assert pause.xon(3) == PfcFrame.xon(MAC, [3])
    assert (pause.deadline_ns, pause.due(9999)) == (None, None)
    assert pause.sent == {"xoff": 1, "refresh": 2, "xon": 1}


def test_priorities_share_their_repetitions() -> None:
    pause = sender()
    pause.xoff(3, 1000)
    assert pause.xoff(5, 1100) == PfcFrame.xoff(MAC, [3, 5])
    assert pause.deadline_ns == 1250
    assert pause.xon(3) == PfcFrame.xon(MAC, [3])
    assert pause.due(1250) == PfcFrame.xoff(MAC, [5])
    assert pause.stopped == {5}


def test_nothing_is_sent_for_what_is_so_already() -> None:
    pause = sender()
    assert pause.xon(3) is None
    pause.xoff(3, 0)
    assert pause.xoff(3, 100) is None
    assert pause.deadline_ns == 150
    assert pause.sent == {"xoff": 1, "refresh": 0, "xon": 0}


@given(
    st.lists(st.tuples(st.sampled_from(["xoff", "xon", "wait"]), st.integers(0, 7), st.integers(0, 400)), max_size=40)
)
def test_the_other_end_holds_what_is_stopped_as_long_as_deadlines_are_kept(
    steps: list[tuple[str, int, int]],
) -> None:
    """Check the other end, which counts each pause from the arrival, without loss and with one delay."""
    pause, now = sender(), 0
    until: dict[int, int] = {}

    def arrive(frame: PfcFrame | None) -> None:
        for priority, quanta in frame.changes() if frame else ():
            until[priority] = now + 300 if quanta else now

    for action, priority, wait in steps:
        if action == "wait":
            end = now + wait
            while pause.deadline_ns is not None and pause.deadline_ns <= end:
                now = pause.deadline_ns
                arrive(pause.due(now))
            now = end
        else:
            arrive(pause.xoff(priority, now) if action == "xoff" else pause.xon(priority))
        for stopped in range(8):
            assert (until.get(stopped, 0) > now) == (stopped in pause.stopped)
