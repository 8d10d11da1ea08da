"""PFC at one port: each rule of `switch.pfc.port` by itself, its cost, then all at random against a naive model.

The port runs at 512 Mb/s, where a quantum is a microsecond.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from collections.abc import Callable, Set
from contextlib import suppress
from fractions import Fraction
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.frames.mac_control import MacControlError, MacControlReason, PauseFrame, PfcFrame, parse
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.port import Change, PfcPort
from testbed.switch.pfc.record import Ignored, PfcEvent
from testbed.switch.pfc.settings import PfcError, PfcSettings, WatchdogSettings
from testbed.switch.pfc.timers import TIMERS
from testbed.switch.pfc.wire import MOST_READINGS, Readings
from testbed.units import NEVER, Duration, Rate

OWN, PEER = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
RATE = Rate("512Mb/s")
QUANTUM = 1000  # ns
LONGEST = 65535 * QUANTUM
P3, P4, P5 = 1 << 3, 1 << 4, 1 << 5
WATCHDOG = WatchdogSettings(Duration("200ms"), Duration("300ms"))


def port(*enabled: int, rate: Rate = RATE, **more: Any) -> PfcPort:
    return PfcPort(PfcSettings(frozenset(enabled or (3, 4)), **more), OWN, rate)


def pfc(changes: dict[int, int], source: Mac = PEER) -> bytes:
    return PfcFrame.of(source, changes).encode()


def said(frame: bytes | None) -> dict[int, int] | None:
    """Return the request of a frame of ours, {priority: quanta}."""
    if frame is None:
        return None
    parsed = parse(frame)
    assert isinstance(parsed, PfcFrame)
    assert parsed.source == OWN
    assert len(frame) == 60
    return dict(parsed.changes())


# Sets of priorities


def test_a_set_of_priorities_is_a_mask_and_back() -> None:
    assert [mask_of(PRIORITIES_IN[mask]) for mask in range(256)] == list(range(256))
    assert PRIORITIES_IN[0b10001001] == (0, 3, 7)


# Our own transmission


def test_xoff_stops_and_xon_resumes() -> None:
    one = port()
    assert one.receive(pfc({3: 65535}), 100) == (P3, 0)
    assert one.paused_mask == P3
    assert one.paused_until_ns == {3: 100 + LONGEST}
    assert one.deadline_ns == 100 + LONGEST
    assert one.receive(pfc({3: 0}), 200) == (0, P3)
    assert (one.paused_mask, one.paused_until_ns, one.deadline_ns) == (0, {}, None)


@pytest.mark.parametrize("quanta", [1, 2, 100, 65535])
def test_a_pause_without_xon_is_over_when_its_time_is_and_not_a_nanosecond_earlier(quanta: int) -> None:
    one = port()
    one.receive(pfc({3: quanta}), 7)
    end = 7 + quanta * QUANTUM
    assert one.deadline_ns == end
    assert one.expire(end - 1) == (0, 0, 0)
    assert one.paused_mask == P3
    assert one.expire(end) == (P3, 0, 0)
    assert (one.paused_mask, one.deadline_ns) == (0, None)
    assert one.expire(end) == (0, 0, 0)


@given(st.integers(1, 10**15), st.integers(1, 65535), st.integers(0, 2**62))
def test_a_pause_takes_its_quanta_at_the_rate_of_the_port_in_whole_nanoseconds_rounded_up(
    bps: int, quanta: int, now_ns: int
) -> None:
    rate = Rate.from_bps(bps)
    one = PfcPort(PfcSettings(frozenset({3}), refresh=Fraction(1, 2)), OWN, rate)
    one.receive(pfc({3: quanta}), now_ns)
    exact = Fraction(quanta * 512 * 10**9, bps)
    took = one.paused_until_ns[3] - now_ns
    assert exact <= took < exact + 1
    if exact < 10**15:
        assert took == -(-rate.time_for_quanta(quanta).ps // 1000)


@pytest.mark.parametrize("quanta", [1, 500, 999, 1000, 65535])
def test_a_second_xoff_replaces_what_is_left_of_the_first_be_it_longer_or_shorter(quanta: int) -> None:
    one = port()
    one.receive(pfc({3: 1000}), 0)
    assert one.receive(pfc({3: quanta}), 300 * QUANTUM) == (0, 0)
    assert one.deadline_ns == (300 + quanta) * QUANTUM


def test_enable_bit_0_leaves_a_pause_as_it_is_whatever_the_time() -> None:
    one = port()
    one.receive(pfc({3: 1000, 4: 500}), 0)
    one.drain()
    for vector, times in ((0, (7,) * 8), (0, (0,) * 8), (1 << 4, (9, 9, 9, 9, 500, 9, 9, 9))):
        assert one.receive(PfcFrame(PEER, vector, times).encode(), 0) == (0, 0)
    assert one.paused_until_ns == {3: 1000 * QUANTUM, 4: 500 * QUANTUM}
    assert one.drain() == [(0, PfcEvent.XOFF_RECEIVED, P4, 500)]


def test_one_frame_can_stop_some_priorities_each_for_its_time_and_resume_others() -> None:
    one = port(*range(8))
    one.receive(pfc({2: 50, 3: 50}), 0)
    one.drain()
    assert one.receive(pfc({0: 7, 1: 9, 2: 0, 3: 9, 5: 7, 6: 0}), 10) == (mask_of((0, 1, 5)), mask_of((2,)))
    assert one.paused_until_ns == {0: 7010, 1: 9010, 3: 9010, 5: 7010}
    assert one.drain() == [
        (10, PfcEvent.XOFF_RECEIVED, mask_of((0, 5)), 7),
        (10, PfcEvent.XOFF_RECEIVED, mask_of((1, 3)), 9),
        (10, PfcEvent.XON_RECEIVED, mask_of((2, 6)), 0),
    ]
    assert one.expire(7010)[0] == mask_of((0, 5))
    assert one.expire(9010)[0] == mask_of((1, 3))


def test_xon_for_what_is_not_paused_changes_nothing_but_is_counted() -> None:
    one = port()
    assert one.receive(pfc({3: 0}), 0) == (0, 0)
    assert one.counters.count(PfcEvent.XON_RECEIVED, 3) == 1


@pytest.mark.parametrize("quanta", [0, 1000])
def test_a_priority_without_pfc_is_never_touched_but_counted(quanta: int) -> None:
    one = port(3)
    assert one.receive(pfc({0: quanta, 7: quanta, 3: 1000}), 5) == (P3, 0)
    assert one.receive(pfc({0: quanta}), 6) == (0, 0)
    assert one.paused_mask == P3
    assert [one.counters.ignored(Ignored.NOT_ENABLED, priority) for priority in range(8)] == [2, 0, 0, 0, 0, 0, 0, 1]
    assert one.drain()[1:] == [
        (5, PfcEvent.IGNORED, 0b10000001, Ignored.NOT_ENABLED),
        (6, PfcEvent.IGNORED, 1, Ignored.NOT_ENABLED),
    ]


def test_an_xoff_at_the_very_end_of_a_pause_prolongs_it_if_it_comes_before_the_deadline_is_served() -> None:
    end = 100 * QUANTUM
    first, second = port(), port()
    for one in (first, second):
        one.receive(pfc({3: 100}), 0)
    assert first.receive(pfc({3: 100}), end) == (0, 0)
    assert first.expire(end) == (0, 0, 0)
    assert second.expire(end) == (P3, 0, 0)
    assert second.receive(pfc({3: 100}), end) == (P3, 0)
    assert first.paused_until_ns == second.paused_until_ns == {3: 2 * end}
    assert [one.counters.paused_ns(3, end + 5) for one in (first, second)] == [end + 5] * 2


def test_xon_at_the_very_end_of_a_pause_resumes_once() -> None:
    one = port()
    one.receive(pfc({3: 100}), 0)
    assert one.receive(pfc({3: 0}), 100 * QUANTUM) == (0, P3)
    assert one.expire(100 * QUANTUM) == (0, 0, 0)
    assert one.counters.count(PfcEvent.PAUSE_EXPIRED, 3) == 0


def test_a_late_wake_up_ends_the_pause_late_and_logs_by_how_much() -> None:
    one = port()
    one.receive(pfc({3: 100, 4: 130}), 0)
    one.drain()
    assert one.expire(150 * QUANTUM) == (P3 | P4, 0, 0)
    assert one.drain() == [
        (150_000, PfcEvent.PAUSE_EXPIRED, P3, 50_000),
        (150_000, PfcEvent.PAUSE_EXPIRED, P4, 20_000),
    ]
    assert [one.counters.paused_ns(priority, 10**9) for priority in (3, 4)] == [150_000, 150_000]


def test_the_address_of_the_sender_and_the_padding_do_not_matter() -> None:
    one = port()
    frame = pfc({3: 1000}, Mac.parse("aa:bb:cc:dd:ee:ff"))
    assert one.receive(frame[:34], 0) == (P3, 0)
    assert one.receive(pfc({3: 0})[:34] + b"\xff" * 1000, 1) == (0, P3)


# The far end's transmission


def test_congestion_sends_xoff_and_relief_sends_xon_for_that_priority_alone() -> None:
    one = port()
    assert said(one.congested(P3, 10)) == {3: 65535}
    assert said(one.relieved(P3, 20)) == {3: 0}
    assert one.deadline_ns is None


def test_the_frame_is_that_of_the_standard() -> None:
    one = port(pause_quanta=0x1234)
    assert one.congested(P4, 0) == bytes.fromhex(
        "0180c2000001 020000000001 8808 0101 0010 00000000 00000000 12340000 00000000"
    ) + bytes(26)


def test_saying_it_twice_sends_and_counts_nothing_more() -> None:
    one = port()
    assert one.relieved(P3, 0) is None
    one.congested(P3, 10)
    assert one.congested(P3, 20) is None
    one.relieved(P3, 30)
    assert one.relieved(P3, 40) is None
    assert one.drain() == [
        (10, PfcEvent.CONGESTED, P3, 0),
        (10, PfcEvent.XOFF_SENT, P3, 65535),
        (30, PfcEvent.RELIEVED, P3, 0),
        (30, PfcEvent.XON_SENT, P3, 0),
    ]


def test_xoff_and_xon_name_only_the_priorities_that_changed() -> None:
    one = port(3, 4, 5)
    assert said(one.congested(P3, 0)) == {3: 65535}
    assert said(one.congested(P3 | P4 | P5, 10)) == {4: 65535, 5: 65535}
    assert said(one.relieved(P3 | P4, 20)) == {3: 0, 4: 0}
    assert one.congested_mask == P5


def test_congestion_of_a_priority_without_pfc_sends_nothing() -> None:
    one = port(3)
    assert one.congested(P4, 0) is None
    assert said(one.congested(P3 | P5, 1)) == {3: 65535}
    assert said(one.relieved(P3 | P4 | P5, 2)) == {3: 0}
    assert one.counters.count(PfcEvent.CONGESTED, 4) == one.counters.count(PfcEvent.RELIEVED, 4) == 1


def test_without_xon_the_far_end_is_left_to_wait() -> None:
    one = port(send_xon=False)
    assert said(one.congested(P3, 0)) == {3: 65535}
    assert one.relieved(P3, 10) is None
    assert one.deadline_ns is None
    assert said(one.congested(P3, 20)) == {3: 65535}
    assert one.counters.count(PfcEvent.XON_SENT, 3) == 0


@pytest.mark.parametrize("part", [Fraction(1, 2), Fraction(1, 3), Fraction(1, 65535)])
def test_while_congestion_lasts_xoff_is_repeated_after_a_part_of_its_time(part: Fraction) -> None:
    one = port(refresh=part)
    one.congested(P3, 0)
    period = LONGEST * part.numerator // part.denominator
    for turn in range(1, 4):
        assert one.deadline_ns == turn * period
        assert one.expire(turn * period - 1) == (0, 0, 0)
        assert one.expire(turn * period) == (0, P3, 0)
        assert said(one.refreshed(P3, turn * period)) == {3: 65535}
    assert one.counters.count(PfcEvent.XOFF_SENT, 3) == 1
    assert one.counters.count(PfcEvent.XOFF_REFRESHED, 3) == 3


def test_one_frame_refreshes_all_that_are_congested() -> None:
    one = port(3, 4, 5)
    one.congested(P3, 0)
    one.congested(P4, 1_000_000)
    half = LONGEST // 2
    assert one.deadline_ns == half
    assert one.expire(half) == (0, P3 | P4, 0)
    assert said(one.refreshed(P3 | P4, half)) == {3: 65535, 4: 65535}
    assert one.deadline_ns == 2 * half


def test_what_has_room_by_the_time_of_the_refresh_gets_xon_instead() -> None:
    one = port()
    one.congested(P3 | P4, 0)
    half = LONGEST // 2
    assert one.expire(half) == (0, P3 | P4, 0)
    assert said(one.relieved(P3, half)) == {3: 0}
    assert said(one.refreshed(P4, half)) == {4: 65535}
    assert one.refreshed(P3, half) is None
    assert one.refreshed(0, half) is None


def test_a_late_refresh_counts_from_when_it_was_done() -> None:
    one = port()
    one.congested(P3, 0)
    assert one.expire(LONGEST) == (0, P3, 0)
    assert one.deadline_ns == LONGEST + LONGEST // 2


def test_the_refresh_stops_with_the_last_congested_priority() -> None:
    one = port()
    one.congested(P3 | P4, 0)
    one.relieved(P3, 10)
    assert one.deadline_ns == LONGEST // 2
    one.relieved(P4, 20)
    assert one.deadline_ns is None
    one.congested(P3, 30)
    assert one.deadline_ns == 30 + LONGEST // 2


def test_both_directions_of_a_priority_are_independent() -> None:
    one = port()
    one.congested(P3, 0)
    assert one.receive(pfc({3: 100}), 0) == (P3, 0)
    assert one.receive(pfc({3: 0}), 1) == (0, P3)
    assert one.congested_mask == P3
    assert one.deadline_ns == LONGEST // 2


# What is ignored

PAUSE = PauseFrame(PEER, 65535).encode()
XOFF = pfc({3: 65535})
ODD = {
    "nothing": (b"", Ignored.TOO_SHORT),
    "half an address": (XOFF[:3], Ignored.TOO_SHORT),
    "no EtherType": (XOFF[:13], Ignored.TOO_SHORT),
    "cut in the last time": (XOFF[:33], Ignored.TOO_SHORT),
    "tagged": (XOFF[:12] + bytes.fromhex("81006000") + XOFF[12:], Ignored.NOT_MAC_CONTROL),
    "to LLDP's address": (bytes.fromhex("0180c200000e") + XOFF[6:], Ignored.WRONG_DESTINATION),
    "to us": (OWN.octets + XOFF[6:], Ignored.WRONG_DESTINATION),
    "another opcode": (XOFF[:14] + b"\0\2" + XOFF[16:], Ignored.UNKNOWN_OPCODE),
    "global PAUSE": (PAUSE, Ignored.GLOBAL_PAUSE),
    "end of global PAUSE": (PauseFrame(PEER, 0).encode(), Ignored.GLOBAL_PAUSE),
}


def test_each_reason_of_the_codec_has_a_counter() -> None:
    assert {reason.name for reason in MacControlReason} <= {reason.name for reason in Ignored}


@pytest.mark.parametrize(("frame", "reason"), ODD.values(), ids=ODD)
def test_what_is_not_a_pfc_frame_changes_a_counter_and_nothing_else(frame: bytes, reason: Ignored) -> None:
    one = port()
    one.receive(pfc({3: 1000}), 0)
    one.congested(P4, 0)
    one.drain()
    before = state(one)
    for now_ns in (1, 2):
        assert one.receive(frame, now_ns) == (0, 0)
    assert state(one) == before
    assert one.counters.ignored(reason) == 2
    assert sum(one.snapshot(0)["ignored_frames"].values()) == 2
    assert one.drain() == [(1, PfcEvent.IGNORED, 0, reason), (2, PfcEvent.IGNORED, 0, reason)]


def state(one: PfcPort) -> tuple[Any, ...]:
    """Return everything of a port but its counters."""
    return one.paused_mask, one.congested_mask, one.stormed_mask, one.paused_until_ns, one.deadline_ns


def noise(rng: random.Random) -> bytes:
    """Draw octets that are no frame at all, a damaged one, or a global PAUSE."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(100))
    if kind == 1:
        return XOFF[:14] + rng.randbytes(rng.randrange(60))
    if kind == 2:
        damaged = bytearray(rng.choice([XOFF, PAUSE]))
        damaged[rng.choice([0, 1, 2, 3, 4, 5, 12, 13, 14, 15])] ^= rng.randrange(1, 256)
        return bytes(damaged[: rng.randrange(len(damaged) + 1)])
    return PauseFrame(PEER, rng.randrange(65536)).encode()


@pytest.mark.slow
def test_a_hundred_thousand_damaged_frames_change_nothing_but_counters() -> None:
    rng = random.Random(8808)
    one = port(watchdog=WATCHDOG)
    one.receive(pfc({3: 1000}), 0)
    one.congested(P4, 0)
    one.drain()
    before = state(one)
    expected = dict.fromkeys((reason.name.lower() for reason in Ignored if reason < Ignored.NOT_ENABLED), 0)
    frames = 0
    while frames < 100_000:
        data = noise(rng)
        try:
            if isinstance(parse(data), PfcFrame):
                continue
            expected["global_pause"] += 1
        except MacControlError as error:
            expected[error.reason.value] += 1
        frames += 1
        assert one.receive(data, frames) == (0, 0)
        if frames % 1000 == 0:
            assert len(one.drain()) == 1000
    assert state(one) == before
    assert one.snapshot(0)["ignored_frames"] == expected
    assert min(expected.values()) > 1000


@given(st.lists(st.binary(max_size=70) | st.builds(bytes.__add__, st.just(XOFF[:16]), st.binary(max_size=50))))
def test_any_octets_stop_the_priorities_they_name_or_are_counted_as_ignored(frames: list[bytes]) -> None:
    one = port(*range(8))
    for data in frames:
        before = one.paused_mask
        stop, resume = one.receive(data, 0)
        try:
            frame = parse(data)
        except MacControlError:
            frame = None
        changes = dict(frame.changes()) if isinstance(frame, PfcFrame) else {}
        assert stop == mask_of(priority for priority, quanta in changes.items() if quanta) & ~before
        assert resume == mask_of(priority for priority, quanta in changes.items() if not quanta) & before
        ignored = [event for event in one.drain() if event[1] == PfcEvent.IGNORED]
        assert len(ignored) == (not isinstance(frame, PfcFrame))


def test_frames_are_remembered_in_bounded_number_and_read_alike_before_and_after() -> None:
    readings = Readings(RATE)
    readings.obey(0xFF, 0xFF)
    for quanta in range(1, 3 * MOST_READINGS):
        frame = pfc({3: quanta})
        assert readings.of(frame) == readings.of(frame)
        assert readings.of(frame).pauses == ((3, quanta * QUANTUM),)
        assert len(readings) <= MOST_READINGS


# New settings


def test_switching_off_resumes_what_was_paused_and_sends_xon_for_what_was_congested() -> None:
    one = port(3, 4, 5)
    one.receive(pfc({3: 1000, 4: 1000}), 0)
    one.congested(P4 | P5, 0)
    one.drain()
    change = one.configure(PfcSettings(frozenset({3})), 500)
    assert (said(change.frame), change.stop, change.resume) == ({4: 0, 5: 0}, 0, P4)
    assert one.paused_until_ns == {3: 1000 * QUANTUM}
    assert one.deadline_ns == 1000 * QUANTUM
    assert one.drain() == [(500, PfcEvent.PAUSE_CANCELLED, P4, 0), (500, PfcEvent.XON_SENT, P4 | P5, 0)]
    assert one.receive(pfc({4: 9}), 600) == (0, 0)
    assert one.counters.paused_ns(4, 10**6) == 500


def test_switching_on_sends_xoff_for_what_is_congested_and_obeys_from_then_on() -> None:
    one = port(3)
    one.congested(P4, 0)
    assert one.receive(pfc({4: 9}), 0) == (0, 0)
    change = one.configure(PfcSettings(frozenset({3, 4}), pause_quanta=100), 50)
    assert (said(change.frame), change.stop, change.resume) == ({4: 100}, 0, 0)
    assert one.deadline_ns == 50 + 50 * QUANTUM
    assert one.receive(pfc({4: 9}), 60) == (P4, 0)


def test_one_frame_has_what_goes_off_and_what_comes_on() -> None:
    one = port(3)
    one.congested(P3 | P4, 0)
    assert said(one.configure(PfcSettings(frozenset({4})), 1).frame) == {3: 0, 4: 65535}


def test_switching_off_without_xon_leaves_the_far_end_to_wait() -> None:
    one = port(3, send_xon=False)
    one.congested(P3, 0)
    assert one.configure(PfcSettings(send_xon=False), 1) == Change(None, 0, 0)
    assert one.deadline_ns is None


def test_the_same_settings_again_change_nothing() -> None:
    one = port(watchdog=WATCHDOG)
    one.receive(pfc({3: 1000}), 0)
    one.congested(P4, 0)
    before = state(one)
    assert one.configure(PfcSettings(frozenset({3, 4}), watchdog=WATCHDOG), 10) == Change(None, 0, 0)
    assert state(one) == before


def test_a_shorter_pause_is_refreshed_in_its_own_time_and_a_longer_one_does_not_delay_the_next() -> None:
    one = port()
    one.congested(P3, 0)
    one.configure(PfcSettings(frozenset({3, 4}), pause_quanta=100), 10)
    assert one.deadline_ns == 10 + 50 * QUANTUM
    assert said(one.congested(P4, 20)) == {4: 100}
    one.configure(PfcSettings(frozenset({3, 4})), 30)
    assert one.deadline_ns == 10 + 50 * QUANTUM


def test_settings_that_do_not_fit_the_port_change_nothing() -> None:
    one = port(rate=Rate("1Tb/s"))
    one.congested(P3, 0)
    one.receive(pfc({3: 1000}), 0)
    before = state(one), one.settings, one.snapshot(5)
    with pytest.raises(PfcError) as caught:
        one.configure(PfcSettings(pause_quanta=1), 1)
    assert str(caught.value) == (
        "a pause of 1 quanta takes 1ns at 1Tb/s, too short to be repeated after 1/2 of it; raise pause_quanta"
    )
    assert (state(one), one.settings, one.snapshot(5)) == before


# Taking over


def test_a_restarted_agent_keeps_pauses_to_their_end_and_sends_the_far_end_everything_once() -> None:
    old = port(3, 4, 5)
    old.receive(pfc({3: 1000, 4: 10}), 0)
    new = port(3, 4, 5)
    change = new.restore(old.paused_until_ns, P4 | 1, 20 * QUANTUM)
    assert (said(change.frame), change.stop, change.resume) == ({3: 0, 4: 65535, 5: 0}, P3, P4)
    assert new.paused_until_ns == {3: 1000 * QUANTUM}
    assert new.congested_mask == P4 | 1
    assert new.expire(1000 * QUANTUM) == (P3, 0, 0)
    assert new.deadline_ns == 20 * QUANTUM + LONGEST // 2
    assert new.counters.paused_ns(3, 10**9) == 980 * QUANTUM


@pytest.mark.parametrize("dies", ["at once", "after it has taken over", "in the middle of it"])
def test_a_pause_outlives_agents_that_die_one_after_the_other(dies: str) -> None:
    """Each finds in the shared memory what is due, whenever the one before it has died."""
    memory = [NEVER] * TIMERS
    first = PfcPort(PfcSettings(enabled=frozenset({3, 4})), OWN, RATE, memory)
    first.receive(pfc({3: 1000, 4: 10}), 0)
    first.congested(P4, 0)
    second = PfcPort(PfcSettings(enabled=frozenset({3, 4})), OWN, RATE, Dying(memory, 1) if dies[0] == "i" else memory)
    if dies != "at once":
        with suppress(Death):
            second.restore(left_behind(memory), 0, 20 * QUANTUM)
    assert memory[3] == 1000 * QUANTUM
    third = PfcPort(PfcSettings(enabled=frozenset({3, 4})), OWN, RATE, memory)
    assert third.restore(left_behind(memory), 0, 30 * QUANTUM).stop == P3
    assert memory == [NEVER] * 3 + [1000 * QUANTUM] + [NEVER] * 6


def left_behind(memory: list[int]) -> dict[int, int]:
    return {priority: 0 if end == NEVER else end for priority, end in enumerate(memory[:8])}


class Death(Exception):
    """The death of a process in the middle of something."""


class Dying(list[int]):
    """Memory whose writer dies after some writes."""

    def __init__(self, memory: list[int], writes: int) -> None:
        self._memory, self._left = memory, writes
        super().__init__(memory)

    def __setitem__(self, number: int, moment_ns: int) -> None:  # type: ignore[override]
        if not self._left:
            raise Death
        self._left -= 1
        self._memory[number] = moment_ns


def test_a_restarted_agent_resumes_what_is_over_without_pfc_or_due_at_this_moment() -> None:
    one = port(3)
    change = one.restore({3: 50, 4: 10**9}, 0, 50)
    assert (said(change.frame), change.stop, change.resume) == ({3: 0}, 0, P3 | P4)
    assert one.deadline_ns is None


def test_a_restored_pause_is_no_longer_than_any_pause_can_be() -> None:
    one = port(3)
    assert one.restore({3: 2**60}, 0, 50).stop == P3
    assert one.paused_until_ns == {3: 50 + LONGEST}


def test_a_restart_without_xon_or_without_pfc_has_less_to_say() -> None:
    assert port(3, 4, send_xon=False).restore({}, 0, 0) == Change(None, 0, 0)
    assert said(port(3, 4, send_xon=False).restore({}, P4, 0).frame) == {4: 65535}
    assert PfcPort(PfcSettings(), OWN, RATE).restore({}, 0xFF, 0) == Change(None, 0, 0)


@pytest.mark.parametrize("use", [lambda one: one.congested(P3, 0), lambda one: one.receive(XOFF, 0)])
def test_a_port_in_use_is_not_restored(use: Callable[[PfcPort], object]) -> None:
    one = port()
    use(one)
    before = state(one)
    with pytest.raises(PfcError) as caught:
        one.restore({}, 0, 1)
    assert str(caught.value) == (
        "a port that is paused or congested already cannot be restored; restore a new one, first"
    )
    assert state(one) == before


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: port(3, 8), "priority 8 does not exist; there are 0 to 7"),
        (lambda: PfcSettings(frozenset({True})), "priority True does not exist; there are 0 to 7"),
        (lambda: PfcSettings(frozenset({"3"})), "priority '3' does not exist; there are 0 to 7"),  # type: ignore[arg-type]
        (
            lambda: port(pause_quanta=0),
            "pause_quanta is 0; must be 1 to 65535 quanta, and 0 would be XON",
        ),
        (
            lambda: port(pause_quanta=65536),
            "pause_quanta is 65536; must be 1 to 65535 quanta, and 0 would be XON",
        ),
        *(
            (
                lambda value=value: port(refresh=value),
                f"refresh is {value}; it is a part of the pause such as Fraction(1, 2), above 0 and at most 1/2, "
                "so that one lost PAUSE does not let the far end go",
            )
            for value in (Fraction(0), Fraction(-1, 2), Fraction(32768, 65535), 0.5)
        ),
        (
            lambda: port(watchdog="200ms"),
            "watchdog is '200ms'; write WatchdogSettings(...), or None for no watchdog",
        ),
        (
            lambda: WatchdogSettings(Duration("0s"), Duration("1s")),
            "the watchdog's detection is 0s; write a time above zero such as '200ms'",
        ),
        (
            lambda: WatchdogSettings(Duration("1s"), Duration("1s"), poll=100),  # type: ignore[arg-type]
            "the watchdog's poll is 100; write a time above zero such as '200ms'",
        ),
        (
            lambda: WatchdogSettings(Duration("1s"), Duration("1s"), action="drop"),  # type: ignore[arg-type]
            "the watchdog's action is 'drop'; write Action.DROP, Action.FORWARD, Action.ALERT",
        ),
        (
            lambda: port(rate=Rate("0b/s")),
            "the rate of a port with PFC is 0b/s, so a pause would never end; give a rate above zero",
        ),
        (
            lambda: port(rate=Rate("512Gb/s"), pause_quanta=9, refresh=Fraction(1, 10)),
            "a pause of 9 quanta takes 9ns at 512Gb/s, too short to be repeated after 1/10 of it; raise pause_quanta",
        ),
        (lambda: port().restore({8: 5}, 0, 0), "priority 8 does not exist; there are 0 to 7"),
    ],
)
def test_invalid_values_are_refused_with_the_way_out(make: Callable[[], object], message: str) -> None:
    with pytest.raises(PfcError) as caught:
        make()
    assert isinstance(caught.value, UsageError)
    assert str(caught.value) == message


# Events and counters


def test_a_snapshot_is_plain_data_and_has_the_whole_story() -> None:
    one = port()
    one.receive(pfc({3: 100, 0: 1}), 0)
    one.drain()
    one.receive(PAUSE, 10)
    one.congested(P4, 20)
    snapshot = one.snapshot(30)
    assert json.loads(json.dumps(snapshot)) == snapshot == one.snapshot(30)
    assert snapshot["ignored_frames"] == {
        "too_short": 0,
        "not_mac_control": 0,
        "wrong_destination": 0,
        "unknown_opcode": 0,
        "global_pause": 1,
    }
    nothing = {kind.name.lower(): 0 for kind in PfcEvent if kind is not PfcEvent.IGNORED}
    quiet = {"enabled": False, "paused_until_ns": None, "is_congested": False, "stormed": False, "paused_ns": 0}
    not_ignored = {"ignored": {"not_enabled": 0, "storm": 0}}
    assert snapshot["priorities"] == [
        {"priority": 0, **quiet, **nothing, "ignored": {"not_enabled": 1, "storm": 0}},
        *({"priority": priority, **quiet, **nothing, **not_ignored} for priority in (1, 2)),
        {"priority": 3, **quiet, **nothing, **not_ignored, "enabled": True}
        | {"paused_until_ns": 100_000, "paused_ns": 30, "xoff_received": 1},
        {"priority": 4, **quiet, **nothing, **not_ignored, "enabled": True, "is_congested": True}
        | {"xoff_sent": 1, "congested": 1},
        *({"priority": priority, **quiet, **nothing, **not_ignored} for priority in (5, 6, 7)),
    ]


def test_a_snapshot_separates_congestion_now_from_congestion_ever() -> None:
    one = port()
    one.congested(P3, 0)
    one.relieved(P3, 1)
    three = one.snapshot(2)["priorities"][3]
    assert (three["is_congested"], three["congested"]) == (False, 1)


def test_events_are_handed_out_once_and_counted_once() -> None:
    one = port()
    one.congested(P3, 0)
    assert one.counters.count(PfcEvent.CONGESTED, 3) == 1
    one.relieved(P3, 1)
    one.congested(P3, 2)
    assert len(one.drain()) == 6
    one.relieved(P3, 3)
    assert len(one.drain()) == 2
    assert one.drain() == []
    assert one.counters.count(PfcEvent.CONGESTED, 3) == one.counters.count(PfcEvent.RELIEVED, 3) == 2


# What a hot path costs


def byte_codes(call: Callable[[], object]) -> int:
    """Return how many byte codes a call executes in functions of ours; what is written in C counts as one."""
    executed = 0

    def within(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        executed += event == "opcode"
        return within

    def entered(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        return within

    before = sys.gettrace()
    gc.disable()  # a collection calls its callbacks
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return executed


BUDGET = 250  # for the agent and the port together, from an event to the frame or the stopped queue


@pytest.mark.parametrize("watchdog", [None, WATCHDOG], ids=["no watchdog", "watchdog"])
def test_a_hot_path_leaves_the_agent_its_share_of_the_budget(watchdog: WatchdogSettings | None) -> None:
    one = port(watchdog=watchdog)
    xoff, xon = pfc({3: 65535}), pfc({3: 0})  # known in advance, though never received before
    one.receive(PAUSE[:17], 0)  # remembered from here on
    steps: dict[str, Callable[[], object]] = {
        "first XOFF sent": lambda: one.congested(P3, 0),
        "XOFF sent": lambda: one.congested(P4, 0),
        "told again": lambda: one.congested(P3 | P4, 1),
        "refresh due": lambda: one.expire(LONGEST),
        "refresh": lambda: one.refreshed(P3 | P4, LONGEST),
        "XON sent": lambda: one.relieved(P3, LONGEST),
        "last XON sent": lambda: one.relieved(P4, LONGEST),
        "first XOFF received": lambda: one.receive(xoff, LONGEST),
        "XOFF repeated": lambda: one.receive(xoff, LONGEST),
        "XON received": lambda: one.receive(xon, LONGEST),
        "XOFF received": lambda: one.receive(xoff, LONGEST),
        "deadline": lambda: one.deadline_ns,
        "pause over": lambda: one.expire(2 * LONGEST),
        "garbage": lambda: one.receive(PAUSE[:17], 2 * LONGEST),
    }
    cost = {step: byte_codes(call) for step, call in steps.items()}
    limits = dict.fromkeys(cost, 100) | {"told again": 20, "deadline": 25}
    if watchdog:  # it notes each pause that begins
        limits |= {"first XOFF received": 150, "XOFF received": 150}
    assert max(limits.values()) <= BUDGET * 3 // 5
    assert {step: (codes, limits[step]) for step, codes in cost.items() if codes > limits[step]} == {}
    assert min(cost.values()) > 5


def test_all_eight_priorities_at_once_cost_a_port_no_more_than_the_budget() -> None:
    one = port(*range(8))
    xoff, xon = pfc(dict.fromkeys(range(8), 65535)), pfc(dict.fromkeys(range(8), 0))
    assert byte_codes(lambda: one.congested(0xFF, 0)) < 100
    assert byte_codes(lambda: one.relieved(0xFF, 0)) < 100
    assert byte_codes(lambda: one.receive(xoff, 0)) < BUDGET
    assert byte_codes(lambda: one.receive(xon, 0)) < BUDGET


# All rules at once


class Naive:
    """The same port in plain words: dictionaries and sets by priority, no masks, timers looked up by searching.

    It also has the far end, which stops and resumes by what our frames say, and sums up times by itself.
    """

    def __init__(self, settings: PfcSettings) -> None:
        self.settings = settings
        self.now = 0
        self.paused: dict[int, int] = {}
        self.congested: set[int] = set()
        self.told: set[int] = set()
        self.refresh_at: int | None = None
        self.far_end: dict[int, int] = {}
        self.paused_ns = dict.fromkeys(range(8), 0)
        self.tally: dict[tuple[PfcEvent, int], int] = {}

    def later(self, now_ns: int) -> None:
        for priority in self.paused:
            self.paused_ns[priority] += now_ns - self.now
        self.now = now_ns

    def count(self, kind: PfcEvent, priorities: Set[int]) -> None:
        for priority in priorities:
            self.tally[kind, priority] = self.tally.get((kind, priority), 0) + 1

    @property
    def interval(self) -> int:
        return int(self.settings.pause_quanta * QUANTUM * self.settings.refresh)

    @property
    def deadline(self) -> int | None:
        due = [*self.paused.values()] + ([] if self.refresh_at is None else [self.refresh_at])
        return min(due, default=None)

    def send(self, xoff: set[int], xon: set[int], again: Set[int] = frozenset()) -> dict[int, int] | None:
        """Send the next frame to the far end."""
        if not self.settings.send_xon:
            xon = set()
        self.count(PfcEvent.XOFF_SENT, xoff)
        self.count(PfcEvent.XOFF_REFRESHED, again)
        self.count(PfcEvent.XON_SENT, xon)
        frame = dict.fromkeys(xoff | again, self.settings.pause_quanta) | dict.fromkeys(xon, 0)
        for priority, quanta in frame.items():
            self.far_end[priority] = self.now + quanta * QUANTUM
        return frame or None

    def congest(self, priorities: set[int]) -> dict[int, int] | None:
        self.count(PfcEvent.CONGESTED, priorities - self.congested)
        xoff = (priorities - self.congested) & self.settings.enabled
        self.congested |= priorities
        return self.tell(xoff, set())

    def relieve(self, priorities: set[int]) -> dict[int, int] | None:
        self.count(PfcEvent.RELIEVED, priorities & self.congested)
        self.congested -= priorities
        return self.tell(set(), self.told & priorities)

    def tell(self, xoff: set[int], xon: set[int]) -> dict[int, int] | None:
        if xoff and not self.told:
            self.refresh_at = self.now + self.interval
        self.told = (self.told | xoff) - xon
        if not self.told:
            self.refresh_at = None
        return self.send(xoff, xon)

    def receive(self, frame: PfcFrame) -> tuple[set[int], set[int]]:
        stop, resume = set(), set()
        for priority, quanta in frame.changes():
            if priority not in self.settings.enabled:
                continue
            if quanta:
                self.count(PfcEvent.XOFF_RECEIVED, {priority})
                stop |= {priority} - self.paused.keys()
                self.paused[priority] = self.now + quanta * QUANTUM
            else:
                self.count(PfcEvent.XON_RECEIVED, {priority})
                resume |= {priority} & self.paused.keys()
                self.paused.pop(priority, None)
        return stop, resume

    def expire(self) -> tuple[set[int], set[int]]:
        resume = {priority for priority, until in self.paused.items() if until <= self.now}
        self.count(PfcEvent.PAUSE_EXPIRED, resume)
        for priority in resume:
            del self.paused[priority]
        if self.refresh_at is None or self.refresh_at > self.now:
            return resume, set()
        self.refresh_at = self.now + self.interval
        return resume, set(self.told)

    def configure(self, settings: PfcSettings) -> tuple[dict[int, int] | None, set[int]]:
        resume = self.paused.keys() - settings.enabled
        self.count(PfcEvent.PAUSE_CANCELLED, resume)
        for priority in resume:
            del self.paused[priority]
        self.settings = settings
        if self.refresh_at is not None:
            self.refresh_at = min(self.refresh_at, self.now + self.interval)
        before, self.told = self.told, self.told & settings.enabled
        return self.tell((self.congested & settings.enabled) - before, before - settings.enabled), resume


priority_sets = st.sets(st.sampled_from((0, 3, 4, 7)), min_size=1)
# Half of the shortest pause is the most by which a refresh may be late without letting the far end go.
port_settings = st.builds(
    PfcSettings,
    enabled=priority_sets,
    pause_quanta=st.sampled_from((40_000, 65_535)),
    refresh=st.sampled_from((Fraction(1, 2), Fraction(1, 3))),
    send_xon=st.booleans(),
)
quanta = st.sampled_from((0, 1, 2, 1000, 65535)) | st.integers(0, 65535)


class TwoEnds(RuleBasedStateMachine):
    """A port with a far end, in any order of signals, frames, settings and times; beside the naive model."""

    def __init__(self) -> None:
        super().__init__()
        first = PfcSettings(frozenset({3, 4}))
        self.port = PfcPort(first, OWN, RATE)
        self.naive = Naive(first)

    @property
    def now(self) -> int:
        return self.naive.now

    @rule(priorities=priority_sets)
    def buffer_fills(self, priorities: set[int]) -> None:
        assert said(self.port.congested(mask_of(priorities), self.now)) == self.naive.congest(priorities)

    @rule(priorities=priority_sets)
    def buffer_drains(self, priorities: set[int]) -> None:
        assert said(self.port.relieved(mask_of(priorities), self.now)) == self.naive.relieve(priorities)

    @rule(changes=st.dictionaries(st.sampled_from((0, 3, 4, 7)), quanta, min_size=1), padding=st.binary(max_size=30))
    def frame_comes(self, changes: dict[int, int], padding: bytes) -> None:
        frame = PfcFrame.of(PEER, changes)
        stop, resume = self.naive.receive(frame)
        assert self.port.receive(frame.encode()[:34] + padding, self.now) == (mask_of(stop), mask_of(resume))

    @rule(vector=st.integers(0, 255), times=st.tuples(*[quanta] * 8))
    def frame_of_any_form_comes(self, vector: int, times: tuple[int, ...]) -> None:
        frame = PfcFrame(PEER, vector, times)
        stop, resume = self.naive.receive(frame)
        assert self.port.receive(frame.encode(), self.now) == (mask_of(stop), mask_of(resume))

    @rule(seed=st.integers(0, 1000))
    def noise_comes(self, seed: int) -> None:
        data = noise(random.Random(seed))
        try:
            damaged = not isinstance(parse(data), PfcFrame)
        except MacControlError:
            damaged = True
        if damaged:
            assert self.port.receive(data, self.now) == (0, 0)

    @rule(to_the_deadline=st.booleans(), step=st.integers(0, 40_000_000), eased=priority_sets)
    def time_passes(self, to_the_deadline: bool, step: int, eased: set[int]) -> None:
        """Each deadline on the way is served in time; `eased` have room when a refresh asks."""
        end = self.naive.deadline if to_the_deadline else None
        end = self.now + step if end is None else end
        while self.naive.deadline is not None and self.naive.deadline <= end:
            self.serve(self.naive.deadline, eased)
        self.naive.later(end)

    @rule(late=st.integers(1, 15_000_000))
    def a_deadline_is_served_late(self, late: int) -> None:
        if self.naive.deadline is not None:
            self.serve(self.naive.deadline + late, set())

    @rule()
    def a_wake_up_comes_early(self) -> None:
        if self.naive.deadline is None or self.naive.deadline > self.now:
            assert self.port.expire(self.now) == (0, 0, 0)

    def serve(self, at: int, eased: set[int]) -> None:
        self.naive.later(at)
        resume, refresh = self.naive.expire()
        assert self.port.expire(at) == (mask_of(resume), mask_of(refresh), 0)
        if refresh & eased:
            relief = self.naive.relieve(refresh & eased)
            assert said(self.port.relieved(mask_of(refresh & eased), at)) == relief
        rest = refresh - eased
        assert said(self.port.refreshed(mask_of(rest), at)) == self.naive.send(set(), set(), rest)

    @rule(settings=port_settings)
    def settings_change(self, settings: PfcSettings) -> None:
        frame, resume = self.naive.configure(settings)
        change = self.port.configure(settings, self.now)
        assert (said(change.frame), change.stop, change.resume) == (frame, 0, mask_of(resume))

    @rule(drain=st.booleans())
    def the_agent_looks(self, drain: bool) -> None:
        if drain:
            self.port.drain()
        counters = self.port.counters
        for priority in range(8):
            assert counters.paused_ns(priority, self.now) == self.naive.paused_ns[priority]
            for kind in set(PfcEvent) - {PfcEvent.IGNORED}:
                assert counters.count(kind, priority) == self.naive.tally.get((kind, priority), 0)

    @invariant()
    def the_port_is_as_the_model_says(self) -> None:
        assert self.port.paused_until_ns == self.naive.paused
        assert self.port.paused_mask == mask_of(self.naive.paused)
        assert self.port.congested_mask == mask_of(self.naive.congested)
        assert self.port.deadline_ns == self.naive.deadline

    @invariant()
    def the_far_end_never_sends_into_congestion(self) -> None:
        for priority in self.naive.congested & self.naive.settings.enabled:
            assert self.naive.far_end[priority] > self.now

    def teardown(self) -> None:
        self.the_agent_looks(True)


TwoEnds.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=40, deadline=None)
TestEveryHistory = pytest.mark.slow(TwoEnds.TestCase)
