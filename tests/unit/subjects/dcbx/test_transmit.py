"""The times at which LLDP sends, to the nanosecond: interval, fast start, credit, reinitialisation, and the scale of
time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.frames.lldp_timers import LldpTimers
from testbed.subjects.dcbx.transmit import Transmitter
from testbed.units import Duration, Scale

S = 10**9
BEGIN = 10_000 * S + 5  # no round number


def sent_until(transmitter: Transmitter, end_ns: int) -> list[int]:
    """Return the times of frames, in seconds after BEGIN, of a transmitter that is called at its deadlines and at no
    other time.
    """
    times = []
    while (now := transmitter.deadline_ns()) is not None and now < end_ns:
        if transmitter.frame_due(now):
            times.append(now - BEGIN)
        assert transmitter.deadline_ns() != now, "a deadline that is met has to be over"
    return times


def quiet(timers: LldpTimers = LldpTimers(), scale: Scale = Scale(1)) -> Transmitter:
    """Return a transmitter that has run for a while: at BEGIN it has sent the last frame of its first fast series."""
    transmitter = Transmitter(timers, scale)
    gap = scale.lab(timers.fast_interval).ns
    transmitter.start(BEGIN - (timers.fast_count - 1) * gap)
    assert sent_until(transmitter, BEGIN + 1) == [-number * gap for number in range(timers.fast_count)][::-1]
    return transmitter


def test_before_the_start_nothing_is_waited_for() -> None:
    transmitter = Transmitter(LldpTimers(), Scale(1))
    assert transmitter.deadline_ns() is None
    assert not transmitter.frame_due(BEGIN)
    assert not transmitter.is_running


def test_a_port_sends_at_once_three_times_more_a_second_apart_and_then_every_interval() -> None:
    transmitter = Transmitter(LldpTimers(), Scale(1))
    transmitter.start(BEGIN)
    assert transmitter.deadline_ns() == BEGIN
    assert not transmitter.frame_due(BEGIN - 1)
    assert sent_until(transmitter, BEGIN + 100 * S) == [0, S, 2 * S, 3 * S, 33 * S, 63 * S, 93 * S]


def test_one_nanosecond_before_the_interval_nothing_is_sent() -> None:
    transmitter = quiet()
    assert not transmitter.frame_due(BEGIN + 30 * S - 1)
    assert transmitter.frame_due(BEGIN + 30 * S)


def test_a_new_neighbour_is_sent_four_frames_a_second_apart_and_then_one_every_interval() -> None:
    transmitter = quiet()
    now = BEGIN + 7 * S + 3
    transmitter.new_neighbour(now)
    assert transmitter.frame_due(now)
    assert sent_until(transmitter, now + 70 * S) == [7 * S + 3 + after * S for after in (1, 2, 3, 33, 63)]


def test_a_second_new_neighbour_in_a_fast_series_is_answered_and_does_not_make_it_longer() -> None:
    transmitter = quiet()
    transmitter.new_neighbour(BEGIN + 10 * S)
    assert transmitter.frame_due(BEGIN + 10 * S)
    transmitter.new_neighbour(BEGIN + 10 * S + 1)
    assert transmitter.frame_due(BEGIN + 10 * S + 1)
    assert sent_until(transmitter, BEGIN + 60 * S) == [11 * S + 1, 12 * S + 1, 42 * S + 1]


def test_a_change_is_sent_at_once_and_the_interval_counts_from_it() -> None:
    transmitter = quiet()
    transmitter.local_change(BEGIN + 5 * S)
    assert transmitter.frame_due(BEGIN + 5 * S)
    assert sent_until(transmitter, BEGIN + 70 * S) == [35 * S, 65 * S]


def test_five_frames_may_follow_each_other_and_then_one_each_second() -> None:
    """The ticks that give credit are counted from the start, 3 s before BEGIN; the next comes 1 s after BEGIN."""
    transmitter = quiet()
    now = BEGIN + S // 2
    for _ in range(4):  # the first of five went at BEGIN
        transmitter.local_change(now)
        assert transmitter.frame_due(now)
    transmitter.local_change(now)
    assert not transmitter.frame_due(now)
    assert transmitter.deadline_ns() == BEGIN + S
    assert not transmitter.frame_due(BEGIN + S - 1)
    assert transmitter.frame_due(BEGIN + S)
    transmitter.local_change(BEGIN + S)
    assert transmitter.deadline_ns() == BEGIN + 2 * S


def test_credit_comes_back_and_is_never_more_than_five() -> None:
    transmitter = quiet()
    now = BEGIN + 29 * S
    sent = 0
    for _ in range(9):
        transmitter.local_change(now)
        sent += transmitter.frame_due(now)
    assert sent == 5
    assert sent_until(transmitter, BEGIN + 40 * S) == [30 * S]  # one frame for four changes


def test_changes_while_there_is_no_credit_become_one_frame() -> None:
    transmitter = quiet(LldpTimers(most_credit=1))
    for after in (1, 2, 3):
        transmitter.local_change(BEGIN + after)
    assert sent_until(transmitter, BEGIN + 30 * S) == [S]


def test_after_a_shutdown_the_port_begins_again_when_reinit_delay_is_over() -> None:
    transmitter = quiet()
    assert transmitter.shut_down(BEGIN + 3 * S)
    assert transmitter.deadline_ns() is None
    transmitter.start(BEGIN + 4 * S)
    assert transmitter.is_running
    transmitter.local_change(BEGIN + 4 * S)
    transmitter.new_neighbour(BEGIN + 4 * S)
    assert not transmitter.frame_due(BEGIN + 5 * S - 1)
    assert transmitter.deadline_ns() == BEGIN + 5 * S
    assert sent_until(transmitter, BEGIN + 40 * S) == [5 * S, 6 * S, 7 * S, 8 * S, 38 * S]


def test_a_port_that_has_not_begun_needs_no_shutdown_frame() -> None:
    transmitter = quiet()
    assert transmitter.shut_down(BEGIN)
    transmitter.start(BEGIN + 1)
    assert not transmitter.shut_down(BEGIN + 2)
    transmitter.start(BEGIN + 3)
    assert transmitter.deadline_ns() == BEGIN + 2 * S


def test_a_link_that_comes_back_begins_at_once_and_with_all_credit() -> None:
    transmitter = quiet(LldpTimers(most_credit=2))
    transmitter.local_change(BEGIN)
    assert transmitter.frame_due(BEGIN)
    transmitter.stop()
    assert transmitter.deadline_ns() is None
    transmitter.start(BEGIN + 7)
    assert transmitter.frame_due(BEGIN + 7)
    transmitter.local_change(BEGIN + 8)
    assert transmitter.frame_due(BEGIN + 8)


def test_a_frame_that_goes_late_moves_the_later_ones() -> None:
    transmitter = quiet()
    assert transmitter.frame_due(BEGIN + 100 * S)
    assert not transmitter.frame_due(BEGIN + 100 * S)
    assert transmitter.deadline_ns() == BEGIN + 130 * S


def test_all_times_are_those_of_the_settings() -> None:
    timers = LldpTimers(Duration("5s"), 2, Duration("2s"), 3, Duration("4s"), 1)
    transmitter = quiet(timers)
    transmitter.new_neighbour(BEGIN + 4 * S)
    assert transmitter.frame_due(BEGIN + 4 * S)
    assert sent_until(transmitter, BEGIN + 20 * S) == [6 * S, 8 * S, 13 * S, 18 * S]
    assert transmitter.shut_down(BEGIN + 20 * S)
    transmitter.start(BEGIN + 20 * S)
    assert transmitter.deadline_ns() == BEGIN + 24 * S


@pytest.mark.parametrize("k", [1, 10, 1000])
def test_every_time_is_multiplied_by_the_scale(k: int) -> None:
    transmitter = quiet(scale=Scale(k))
    transmitter.new_neighbour(BEGIN + 10 * k * S)
    assert transmitter.frame_due(BEGIN + 10 * k * S)
    times = sent_until(transmitter, BEGIN + 50 * k * S)
    assert times == [after * k * S for after in (11, 12, 13, 43)]
    for _ in range(6):
        transmitter.local_change(BEGIN + 50 * k * S)
        transmitter.frame_due(BEGIN + 50 * k * S)
    assert transmitter.deadline_ns() == BEGIN + 51 * k * S
    assert transmitter.shut_down(BEGIN + 51 * k * S)
    transmitter.start(BEGIN + 51 * k * S)
    assert transmitter.deadline_ns() == BEGIN + 53 * k * S


calls = st.lists(
    st.tuples(st.integers(0, 4 * S), st.sampled_from(["change", "neighbour", "late", "deadline"])), max_size=60
)


@given(calls, st.integers(1, 10), st.integers(1, 8))
def test_whatever_happens_credit_bounds_the_frames_and_no_interval_is_missed(
    steps: list[tuple[int, str]], most_credit: int, fast_count: int
) -> None:
    transmitter = Transmitter(LldpTimers(most_credit=most_credit, fast_count=fast_count), Scale(1))
    transmitter.start(BEGIN)
    now, sent = BEGIN, []
    for after, what in steps:
        due = transmitter.deadline_ns()
        assert due is not None
        now = max(now, due) if what == "deadline" else now + after
        if what == "change":
            transmitter.local_change(now)
        elif what == "neighbour":
            transmitter.new_neighbour(now)
        while transmitter.frame_due(now):
            sent.append(now)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            ticks = (sent[last] - BEGIN) // S - (sent[first] - BEGIN) // S
            assert last - first + 1 <= most_credit + ticks
    deadline = transmitter.deadline_ns()
    assert deadline is not None
    assert deadline <= now + 30 * S
