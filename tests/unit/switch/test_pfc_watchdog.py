"""The PFC watchdog: the moment when a pause becomes a storm, what follows, and the moment when it is over.

Most tests are on a port of 10 Mb/s, where the longest pause takes 3.36 s, so that one XOFF is enough for a storm.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame, parse
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.port import Change, PfcPort
from testbed.switch.pfc.record import Ignored, PfcEvent
from testbed.switch.pfc.settings import Action, PfcSettings, WatchdogSettings
from testbed.units import Duration, Rate

OWN, PEER = Mac.parse("02:00:00:00:00:01"), Mac.parse("02:00:00:00:00:02")
P3, P4 = 1 << 3, 1 << 4
MS = 1_000_000
XOFF = PfcFrame.xoff(PEER, [3]).encode()
XON = PfcFrame.xon(PEER, [3]).encode()
DROP = WatchdogSettings(Duration("200ms"), Duration("300ms"))
FORWARD = replace(DROP, action=Action.FORWARD)


def port(watchdog: WatchdogSettings | None = DROP, rate: Rate = Rate("10Mb/s")) -> PfcPort:
    return PfcPort(PfcSettings(frozenset({3, 4}), watchdog=watchdog), OWN, rate)


def stormed(watchdog: WatchdogSettings = DROP) -> PfcPort:
    """Return a port whose priority 3 has been in a storm since 200 ms."""
    one = port(watchdog)
    one.receive(XOFF, 0)
    one.expire(200 * MS)
    assert one.stormed_mask == P3
    return one


def said(frame: bytes | None) -> dict[int, int] | None:
    if frame is None:
        return None
    parsed = parse(frame)
    assert isinstance(parsed, PfcFrame)
    return dict(parsed.changes())


# Detection


def test_an_alert_counts_a_storm_and_leaves_its_queue_paused() -> None:
    one = port(replace(DROP, action=Action.ALERT))
    one.receive(XOFF, 0)
    assert one.expire(200 * MS) == (0, 0, 0)
    assert (one.paused_mask, one.stormed_mask) == (P3, P3)
    one.expire(500 * MS)
    one.receive(XOFF, 600 * MS)
    assert one.paused_mask == P3, "PAUSE is obeyed all the time"
    one.receive(XON, 700 * MS)
    now = 700 * MS
    while one.stormed_mask:
        now += 100 * MS
        one.expire(now)
    assert now == 800 * MS, "the restoration time after the last poll that saw it paused"
    assert [event[1] for event in one.drain() if event[1] is PfcEvent.STORM_DETECTED] == [PfcEvent.STORM_DETECTED]


@pytest.mark.parametrize(
    ("since", "found"),
    [(0, 200 * MS), (1, 300 * MS), (99 * MS, 300 * MS), (100 * MS, 300 * MS), (100 * MS + 1, 400 * MS)],
)
def test_a_pause_is_a_storm_at_the_first_poll_at_or_after_the_detection_time(since: int, found: int) -> None:
    one = port()
    one.receive(XOFF, since)
    assert one.deadline_ns == found
    for poll in range(100 * MS, found, 100 * MS):
        assert one.expire(poll) == (0, 0, 0)
    assert one.expire(found - 1) == (0, 0, 0)
    assert one.stormed_mask == 0
    assert one.expire(found) == (0, 0, P3)
    assert one.stormed_mask == P3
    assert one.drain()[-1] == (found, PfcEvent.STORM_DETECTED, P3, found - since)


@pytest.mark.parametrize(("short_of", "drop"), [(1, 0), (0, P3)])
def test_a_poll_that_comes_late_still_requires_the_whole_detection_time(short_of: int, drop: int) -> None:
    one = port()
    one.receive(PfcFrame.xoff(PEER, [4]).encode(), 0)
    one.receive(XOFF, 50 * MS + short_of)
    assert one.expire(250 * MS) == (0, 0, P4 | drop)


def test_a_detection_time_that_is_no_whole_nanosecond_is_waited_for_to_its_end() -> None:
    one = port(replace(DROP, detection=Duration("200000000.001ns"), poll=Duration("1ns")))
    one.receive(XOFF, 0)
    assert one.expire(200 * MS) == (0, 0, 0)
    assert one.expire(200 * MS + 1) == (0, 0, P3)


@pytest.mark.parametrize(("end", "drop"), [(199_999_999, 0), (200 * MS, 0), (200_000_001, P3)])
def test_a_pause_that_is_over_by_the_poll_is_not_a_storm(end: int, drop: int) -> None:
    """Quanta of 1 ns; the last XOFF makes the pause end at `end`."""
    one = port(rate=Rate("512Gb/s"))
    now = 0
    while end - now > 65535:
        assert one.receive(XOFF, now) == (0 if now else P3, 0)
        now += 60_000
    one.receive(PfcFrame.xoff(PEER, [3], end - now).encode(), now)
    if end < 200 * MS:
        assert one.expire(end) == (P3, 0, 0)
        assert one.expire(200 * MS) == (0, 0, 0)
    else:
        assert one.expire(200 * MS) == (0 if drop else P3, 0, drop)


def test_a_pause_that_ended_before_a_late_poll_is_not_a_storm() -> None:
    one = port()
    one.receive(PfcFrame.xoff(PEER, [3], 4000).encode(), 0)  # 204.8 ms
    assert one.expire(210 * MS) == (P3, 0, 0)
    assert one.deadline_ns is None


def test_repeated_xoff_is_one_pause_and_xon_for_a_nanosecond_makes_two() -> None:
    one, other = port(), port()
    for each in (one, other):
        each.receive(XOFF, 0)
    one.receive(XOFF, 150 * MS)
    assert one.expire(200 * MS) == (0, 0, P3)
    other.receive(XON, 150 * MS)
    other.receive(XOFF, 150 * MS + 1)
    assert other.expire(200 * MS) == (0, 0, 0)
    assert other.deadline_ns == 400 * MS
    assert other.expire(400 * MS) == (0, 0, P3)


def test_a_paused_and_released_port_is_not_woken_more_than_once_in_vain() -> None:
    one = port()
    assert one.deadline_ns is None
    one.receive(XOFF, 0)
    one.receive(XON, 10)
    assert one.deadline_ns == 200 * MS
    assert one.expire(200 * MS) == (0, 0, 0)
    assert one.deadline_ns is None


def test_without_a_watchdog_a_pause_may_last_for_ever() -> None:
    one = port(None)
    for turn in range(100):
        one.receive(XOFF, turn * 1000 * MS)
        assert one.expire(turn * 1000 * MS) == (0, 0, 0)
    assert one.stormed_mask == 0


def test_a_pause_taken_over_after_a_restart_is_watched_from_then_on() -> None:
    one = port()
    one.restore({3: 10_000 * MS}, 0, 50 * MS)
    assert one.deadline_ns == 300 * MS
    assert one.expire(300 * MS) == (0, 0, P3)


# In a storm


def test_the_queue_drops_or_sends_as_the_settings_say() -> None:
    for watchdog, expected in ((DROP, (0, 0, P3)), (FORWARD, (P3, 0, 0))):
        one = port(watchdog)
        one.receive(XOFF, 0)
        assert one.expire(200 * MS) == expected
        assert (one.paused_mask, one.paused_until_ns) == (0, {})
        assert one.counters.paused_ns(3, 900 * MS) == 200 * MS


def test_pfc_for_the_priority_is_ignored_and_counted_and_other_priorities_are_obeyed() -> None:
    one = stormed()
    both = PfcFrame.xoff(PEER, [3, 4]).encode()
    assert one.receive(both, 210 * MS) == (P4, 0)
    assert one.receive(both, 220 * MS) == (0, 0)
    assert one.receive(XON, 230 * MS) == (0, 0)
    assert one.paused_mask == P4
    assert [one.counters.ignored(Ignored.STORM, priority) for priority in (3, 4)] == [3, 0]


def test_frames_known_from_before_the_storm_are_ignored_too_and_obeyed_again_after_it() -> None:
    one = port()
    for now in (0, 1):
        one.receive(XOFF, now)
    one.expire(200 * MS)
    assert one.receive(XOFF, 200 * MS) == (0, 0)
    assert one.expire(500 * MS) == (P3, 0, 0)
    assert one.receive(XOFF, 500 * MS) == (P3, 0)


def test_no_xoff_and_no_xon_is_sent_for_it_and_others_are_refreshed_without_it() -> None:
    one = port()
    one.congested(P3 | P4, 0)
    one.receive(XOFF, 0)
    half = 65535 * 51200 // 2
    assert one.expire(200 * MS) == (0, 0, P3)
    assert one.congested(P3, 210 * MS) is None
    for now in range(200 * MS, half, 100 * MS):
        one.receive(XOFF, now)
        one.expire(now)
    assert one.expire(half)[1] == P4
    assert said(one.refreshed(P3 | P4, half)) == {4: 65535}
    assert one.relieved(P3, half) is None
    assert said(one.relieved(P4, half)) == {4: 0}


def test_a_storm_of_the_only_congested_priority_stops_the_refresh() -> None:
    one = PfcPort(PfcSettings(frozenset({3, 4}), 10_000, watchdog=DROP), OWN, Rate("10Mb/s"))
    one.congested(P3, 0)
    one.receive(XOFF, 0)
    assert one.expire(200 * MS) == (0, 0, P3)
    assert one.deadline_ns == 500 * MS  # the refresh would have been at 256 ms
    assert one.expire(300 * MS) == (0, 0, 0)
    assert one.expire(500 * MS) == (P3, P3, 0)


# The end of a storm


@pytest.mark.parametrize(
    ("last_xoff", "over"),
    [(None, 500 * MS), (200 * MS, 500 * MS), (200 * MS + 1, 600 * MS), (300 * MS, 600 * MS), (499 * MS, 800 * MS)],
)
def test_it_is_over_at_the_first_poll_after_a_restoration_time_without_xoff(last_xoff: int | None, over: int) -> None:
    one = stormed()
    if last_xoff is not None:
        one.receive(XOFF, last_xoff)
    for poll in range(300 * MS, over, 100 * MS):
        assert one.expire(poll) == (0, 0, 0)
    assert one.expire(over - 1) == (0, 0, 0)
    assert one.stormed_mask == P3
    assert one.expire(over) == (P3, 0, 0)
    assert one.stormed_mask == 0
    assert one.deadline_ns is None
    assert one.drain()[-1] == (over, PfcEvent.STORM_ENDED, P3, over - 200 * MS)


def test_neither_xon_nor_another_priority_s_xoff_prolongs_it() -> None:
    one = stormed()
    one.receive(XON, 450 * MS)
    one.receive(PfcFrame.of(PEER, {3: 0, 4: 1}).encode(), 450 * MS)
    assert one.expire(500 * MS) == (P3 | P4, 0, 0)


def test_a_queue_that_was_sending_all_along_is_not_resumed() -> None:
    one = stormed(FORWARD)
    assert one.expire(500 * MS) == (0, 0, 0)
    assert one.counters.count(PfcEvent.STORM_ENDED, 3) == 1


def test_what_is_still_congested_gets_xoff_after_it() -> None:
    one = stormed()
    assert one.congested(P3, 300 * MS) is None
    assert one.expire(500 * MS) == (P3, P3, 0)
    assert said(one.refreshed(P3, 500 * MS)) == {3: 65535}
    assert one.drain()[-1] == (500 * MS, PfcEvent.XOFF_SENT, P3, 65535)
    assert one.deadline_ns == 500 * MS + 65535 * 51200 // 2
    assert said(one.relieved(P3, 510 * MS)) == {3: 0}


def test_a_priority_that_has_room_again_by_the_end_of_it_gets_no_frame() -> None:
    one = stormed()
    one.congested(P3, 300 * MS)
    assert one.expire(500 * MS) == (P3, P3, 0)
    assert one.relieved(P3, 500 * MS) is None
    assert one.deadline_ns is None


def test_one_frame_refreshes_some_and_announces_another_anew_after_its_storm() -> None:
    one = stormed()
    one.congested(P3 | P4, 300 * MS)
    one.drain()
    assert one.expire(500 * MS) == (P3, P3, 0)
    assert said(one.refreshed(P3 | P4, 500 * MS)) == {3: 65535, 4: 65535}
    assert one.drain()[1:] == [
        (500 * MS, PfcEvent.XOFF_REFRESHED, P4, 65535),
        (500 * MS, PfcEvent.XOFF_SENT, P3, 65535),
    ]


def test_a_storm_can_come_back() -> None:
    one = stormed()
    one.expire(500 * MS)
    one.receive(XOFF, 500 * MS)
    assert one.expire(700 * MS) == (0, 0, P3)
    assert one.counters.count(PfcEvent.STORM_DETECTED, 3) == 2


# New settings


@pytest.mark.parametrize(("watchdog", "resume"), [(DROP, P3), (FORWARD, 0)])
def test_switching_pfc_off_for_the_priority_ends_its_storm(watchdog: WatchdogSettings, resume: int) -> None:
    one = stormed(watchdog)
    one.congested(P3, 210 * MS)
    one.drain()
    assert one.configure(PfcSettings(frozenset({4}), watchdog=watchdog), 220 * MS) == Change(None, 0, resume)
    assert one.drain() == [(220 * MS, PfcEvent.STORM_ENDED, P3, 20 * MS)]
    change = one.configure(PfcSettings(frozenset({3, 4}), watchdog=watchdog), 230 * MS)
    assert said(change.frame) == {3: 65535}


@pytest.mark.parametrize("watchdog", [None, FORWARD, replace(DROP, restoration=Duration("9s"))])
def test_other_watchdog_settings_end_all_storms_and_start_anew(watchdog: WatchdogSettings | None) -> None:
    one = stormed()
    one.congested(P3, 210 * MS)
    one.receive(PfcFrame.xoff(PEER, [4]).encode(), 210 * MS)
    change = one.configure(PfcSettings(frozenset({3, 4}), watchdog=watchdog), 250 * MS)
    assert (said(change.frame), change.stop, change.resume) == ({3: 65535}, 0, P3)
    assert (one.stormed_mask, one.paused_mask) == (0, P4)
    assert one.receive(XOFF, 350 * MS) == (P3, 0)
    assert one.expire(499 * MS) == (0, 0, 0)
    resume, _, drop = one.expire(500 * MS)
    assert one.stormed_mask == resume | drop == (P4 if watchdog else 0)
    assert drop == (0 if watchdog is None or watchdog.action is Action.FORWARD else P4)


def test_other_settings_leave_a_storm_alone() -> None:
    one = stormed()
    assert one.configure(PfcSettings(frozenset({3}), pause_quanta=9, watchdog=DROP), 250 * MS) == Change(None, 0, 0)
    assert one.stormed_mask == P3
    assert one.expire(500 * MS) == (P3, 0, 0)


def test_a_snapshot_shows_the_storm() -> None:
    one = stormed()
    one.receive(XOFF, 210 * MS)
    three = one.snapshot(300 * MS)["priorities"][3]
    assert three["stormed"]
    assert (three["storm_detected"], three["storm_ended"], three["ignored"]["storm"]) == (1, 0, 1)
    assert three["paused_ns"] == 200 * MS


# All at once


class Clockwork:
    """The rules for one priority, looked at in every single nanosecond, polls at every multiple of the period."""

    def __init__(self, settings: WatchdogSettings) -> None:
        self.detection, self.restoration = settings.detection.ns, settings.restoration.ns
        self.period, self.action = settings.poll.ns, settings.action
        self.until = self.since = self.detected = self.last_xoff = 0
        self.queue = "sends"
        self.paused = self.storm = False

    def tick(self, now: int) -> None:
        if self.paused and now >= self.until:
            self.paused, self.queue = False, "sends"
        if now % self.period:
            return
        if self.storm and now - max(self.detected, self.last_xoff) >= self.restoration:
            self.storm, self.queue = False, "sends"
        elif self.paused and now - self.since >= self.detection:
            self.paused, self.storm, self.detected = False, True, now
            self.queue = "drops" if self.action is Action.DROP else "sends"

    def asked(self, quanta: int, now: int) -> None:
        if self.storm:
            self.last_xoff = now if quanta else self.last_xoff
        elif quanta:
            self.since = self.since if self.paused else now
            self.paused, self.until, self.queue = True, now + quanta, "waits"
        else:
            self.paused, self.queue = False, "sends"


watchdogs = st.builds(
    WatchdogSettings,
    detection=st.integers(1, 40).map(Duration.from_ns),
    restoration=st.integers(1, 40).map(Duration.from_ns),
    poll=st.integers(1, 15).map(Duration.from_ns),
    action=st.sampled_from([Action.DROP, Action.FORWARD]),
)
asks = st.dictionaries(st.sampled_from((3, 4)), st.sampled_from((0, 10, 30, 30, 60)), min_size=1)
steps = st.lists(st.tuples(st.integers(0, 25), asks | st.sampled_from(["congested", "relieved", "early"])), max_size=25)


@given(watchdogs, steps)
@hypothesis_settings(max_examples=200, deadline=None)
def test_every_nanosecond_is_as_a_watchdog_that_never_sleeps_would_have_it(
    watchdog: WatchdogSettings, script: list[tuple[int, dict[int, int] | str]]
) -> None:
    """At 512 Gb/s, where a quantum is a nanosecond. The port is woken at its deadlines only."""
    one = PfcPort(PfcSettings(frozenset({3, 4}), 40, watchdog=watchdog), OWN, Rate("512Gb/s"))
    model = {priority: Clockwork(watchdog) for priority in (3, 4)}
    queue = {3: "sends", 4: "sends"}
    far_end = {3: 0, 4: 0}

    def change(now: int, **masks: int) -> None:
        """Check that only changes are reported."""
        for state, mask in masks.items():
            for priority in PRIORITIES_IN[mask]:
                assert queue[priority] != state, (now, priority, state)
                queue[priority] = state

    def hear(frame: bytes | None, now: int) -> None:
        for priority, quanta in (said(frame) or {}).items():
            assert not model[priority].storm
            far_end[priority] = now + quanta

    actions: dict[int, list[dict[int, int] | str]] = {}
    end = 0
    for wait, action in script:
        end += wait
        actions.setdefault(end, []).append(action)
    for now in range(end + 100):
        for clockwork in model.values():
            clockwork.tick(now)
        if one.deadline_ns is not None and one.deadline_ns <= now:
            assert one.deadline_ns == now
            resume, refresh, drop = one.expire(now)
            change(now, sends=resume, drops=drop)
            hear(one.refreshed(refresh, now), now)
            assert one.deadline_ns is None or one.deadline_ns > now
        for action in actions.get(now, ()):
            if action == "congested":
                hear(one.congested(P3, now), now)
            elif action == "relieved":
                hear(one.relieved(P3, now), now)
            elif action == "early":
                assert one.expire(now) == (0, 0, 0)
            elif isinstance(action, dict):
                stop, resume = one.receive(PfcFrame.of(PEER, action).encode(), now)
                change(now, waits=stop, sends=resume)
                for priority, quanta in action.items():
                    model[priority].asked(quanta, now)
        assert queue == {priority: clockwork.queue for priority, clockwork in model.items()}, now
        assert one.stormed_mask == mask_of(priority for priority in model if model[priority].storm)
        if one.congested_mask and not model[3].storm:
            assert far_end[3] > now
