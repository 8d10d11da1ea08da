"""Times in conformance cases follow from the switch's settings: no watchdog and no buffer is right by luck."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from experiments.conformance._case import FRAME, fill_time, frames_to_fill, settle_time
from experiments.conformance._tables import default_tables
from experiments.conformance._watchdog import dropping, outlasting, repeats_after, soon_over
from experiments.conformance.l12_pause_below_detection import twice_as_eager
from experiments.conformance.watchdog_timer import STORMS, polls_rarely
from testbed.subjects.sonic.lab.settings import watchdog_settings
from testbed.subjects.sonic.tables import Tables, WatchdogAction, WatchdogRow
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings, Static, Threshold
from testbed.switch.pfc.settings import WatchdogSettings
from testbed.switch.pfc.watchdog import Watchdog
from testbed.units import Duration, Rate, Size

LINE = Rate("100Mb/s")
SETTINGS = list(itertools.product((100, 300, 400, 5000), (100, 300, 400, 60_000), (100, 300, 400, 3000)))
"""Detection and restoration time and polling interval in ms, over what SONiC's pfcwd takes."""
SETTLED = Duration("50ms")
"""As on the lab's line of 100 Mb/s."""
PHASES = 12
"""Beginnings of a storm between two polls."""


def watched(detection: int, restoration: int, poll: int) -> Tables:
    """Xoff's own switch with these times of its watchdogs."""
    tables = default_tables("100G", "dynamic")
    row = WatchdogRow(WatchdogAction.DROP, detection, restoration)
    return dropping(
        Tables(ports=tables.ports, qos=tables.qos, watchdogs=dict.fromkeys(tables.ports, row), watchdog_poll=poll)
    )


def settings(tables: Tables) -> WatchdogSettings:
    row = tables.watchdogs["Ethernet0"]
    return watchdog_settings(row, tables.watchdog_poll or 0)


def storm(used: WatchdogSettings, begin_ns: int, lasts: Duration, every: Duration) -> tuple[list[int], list[int], int]:
    """Return the times in ns at which a watchdog finds a storm and takes it for over, and that of the last XOFF."""
    watchdog, paused = Watchdog(used), 1 << 3
    xoffs = list(range(begin_ns, begin_ns + lasts.ns, every.ns))
    found: list[int] = []
    over: list[int] = []
    watchdog.paused(paused, begin_ns)
    for moment_ns in [*xoffs[1:], begin_ns + lasts.ns + (used.restoration + used.poll * 2).ns]:
        while watchdog.due_ns <= moment_ns:
            now_ns = watchdog.due_ns
            storms, ended = watchdog.poll(paused, now_ns)
            found += [now_ns] * len(storms)
            over += [now_ns] * len(ended)
            paused = 0 if storms else paused
        if moment_ns in xoffs:
            watchdog.xoff(watchdog.stormed, moment_ns)
    return found, over, xoffs[-1]


@pytest.mark.parametrize("times", SETTINGS, ids=str)
def test_a_storm_is_found_once_and_over_a_restoration_time_after_its_last_xoff(times: tuple[int, int, int]) -> None:
    given = settings(watched(*times))
    every, lasts = repeats_after(LINE, given), outlasting(LINE, given, given.poll, SETTLED)
    for phase in range(PHASES):
        begin_ns = given.poll.ns * (10 * PHASES + phase) // PHASES + 210_000
        found, over, last_ns = storm(given, begin_ns, lasts, every)
        assert len(found) == len(over) == 1
        assert given.detection.ns <= found[0] - begin_ns <= (given.detection + given.poll).ns
        assert found[0] < last_ns, "XOFF comes after the storm was found"
        assert given.restoration.ns <= over[0] - last_ns <= (given.restoration + given.poll).ns


@pytest.mark.parametrize("times", SETTINGS, ids=str)
def test_a_watchdog_that_polls_rarely_is_late_with_one_of_the_storms(times: tuple[int, int, int]) -> None:
    """The control of WATCHDOG-TIMER: whatever the moment of the first storm, its claims do not hold."""
    tables = watched(*times)
    given, used = settings(tables), settings(polls_rarely(tables))
    every, lasts = repeats_after(LINE, given), outlasting(LINE, given, used.poll, SETTLED)
    detections, restorations = [], []
    for number in range(STORMS):
        begin_ns = used.poll.ns * (10 * STORMS + number) // STORMS + 210_000
        found, over, last_ns = storm(used, begin_ns, lasts, every)
        detections.append(found[0] - begin_ns)
        restorations.append(over[0] - last_ns)
    late = given.poll + Duration("1ms")
    assert max(detections) > (given.detection + late).ns
    assert max(restorations) > (given.restoration + late).ns


@pytest.mark.parametrize("times", SETTINGS, ids=str)
def test_a_pause_of_nine_tenths_is_a_storm_for_a_watchdog_twice_as_eager_and_none_for_the_given_one(
    times: tuple[int, int, int],
) -> None:
    tables = watched(*times)
    given, eager = settings(tables), settings(twice_as_eager(tables))
    length = given.detection * 9 // 10
    for phase in range(PHASES):
        for used, storms in ((given, 0), (eager, 1)):
            begin_ns = used.poll.ns * (10 * PHASES + phase) // PHASES + 210_000
            watchdog = Watchdog(used)
            assert (watchdog.paused(1 << 3, begin_ns) <= begin_ns + length.ns) == bool(storms)


def test_a_restoration_time_is_shortened_and_never_made_longer() -> None:
    for detection, restoration, expected in ((200, 60_000, 200), (400, 300, 300), (200, 200, 200)):
        assert soon_over(watched(detection, restoration, 100)).watchdogs["Ethernet0"].restoration_time == expected


# Buffers


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [1, 16, 136])
@pytest.mark.parametrize("threshold", [Dynamic.power(-2), Dynamic.power(0), Dynamic.power(3), Static(500_000)], ids=str)
def test_two_senders_are_paused_before_the_time_to_fill_is_over(megabytes: int, threshold: Threshold) -> None:
    group = GroupSettings(lossless=True, threshold=threshold, headroom=600)
    total = megabytes * 1_000_000 // 208
    buffer = BufferSettings((1, 2, 3), total, 1200, groups={(port, 3): group for port in (1, 2)})
    model, admitted = BufferModel(buffer), 0
    while not (model.is_xoff(1, 3) or model.is_xoff(2, 3)):
        result = model.admit(1 + admitted % 2, 3, FRAME.bytes)
        assert result.dropped is None
        admitted += 1
    assert admitted <= frames_to_fill(buffer)
    needed = Fraction((FRAME.bytes + 24) * 8 * admitted, LINE.bps)  # one line's rate more comes in than goes out
    assert Fraction(fill_time(buffer, LINE, [FRAME]).ps, 10**12) >= needed


def test_a_large_buffer_takes_longer_than_five_seconds_and_its_frames_longer_to_settle() -> None:
    buffer = BufferSettings((1,), 136_000_000 // 208, 0)
    fill = fill_time(buffer, LINE, [FRAME])
    assert Duration("5s") < fill < Duration("12s")
    least = Duration("20s")
    assert settle_time(fill, least) == fill * 2 and settle_time(Duration("1s"), least) == least
    assert fill_time(buffer, LINE, [Size("60B"), FRAME]) == fill, (
        "60 octets fill a cell, and those of FRAME take longer"
    )
