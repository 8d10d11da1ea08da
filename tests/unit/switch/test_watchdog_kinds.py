"""Watchdogs as switches ship them: SONiC's, which sees only what counters say at its polls, and the chip's timers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.frames import Mac
from testbed.frames.mac_control import PfcFrame
from testbed.switch.pfc.port import PfcPort
from testbed.switch.pfc.record import PfcEvent
from testbed.switch.pfc.settings import Action, Kind, PfcError, PfcSettings, WatchdogSettings
from testbed.switch.pfc.watchdog import watchdog_of
from testbed.units import Duration, Rate

MS = 1_000_000
PEER = Mac.parse("02:00:00:00:00:01")
POLL = Duration("200ms")
SETTINGS = WatchdogSettings(POLL, POLL, POLL, kind=Kind.SONIC)


class Stormed:
    """A port that gets XOFF again and again, and what its watchdog does about it, in ms."""

    def __init__(
        self, watchdog: WatchdogSettings = SETTINGS, enabled: tuple[int, ...] = (3, 4), late_ns: int = 0
    ) -> None:
        self.late_ns = late_ns
        settings = PfcSettings(frozenset(enabled), watchdog=watchdog)
        self.port = PfcPort(settings, PEER, Rate("100Mb/s"))
        self.seen: list[tuple[str, int, int]] = []

    def storm(self, priorities: tuple[int, ...], first_ms: int, last_ms: int, every_ms: int = 10) -> None:
        """Let XOFF come in regularly, and call the port whenever something is due."""
        frame = PfcFrame.xoff(PEER, list(priorities)).encode()
        for at_ms in range(first_ms, last_ms + 1, every_ms):
            self.run_to(at_ms)
            self.port.receive(frame, at_ms * MS)

    def run_to(self, end_ms: int) -> None:
        while (due := self.port.deadline_ns) is not None and due <= end_ms * MS:
            self.port.expire(due + self.late_ns)
        for now_ns, kind, mask, _ in self.port.drain():
            if kind in (PfcEvent.STORM_DETECTED, PfcEvent.STORM_ENDED):
                self.seen.append((str(PfcEvent(kind).name), mask, now_ns // MS))

    def times(self, name: str, mask: int) -> list[int]:
        return [at_ms for kind, of, at_ms in self.seen if (kind, of) == (name, mask)]


@pytest.mark.parametrize("late_ns", [0, 1, 900_000])
def test_a_storm_on_every_lossless_priority_flaps_in_cycles_of_three_polls(late_ns: int) -> None:
    stormed = Stormed(late_ns=late_ns)
    stormed.storm((3, 4), 50, 3000)
    for mask in (1 << 3, 1 << 4):
        assert stormed.times("STORM_DETECTED", mask) == [400, 1000, 1600, 2200, 2800]
        assert stormed.times("STORM_ENDED", mask) == [600, 1200, 1800, 2400, 3000]


def test_a_storm_on_one_of_two_lossless_priorities_is_found_once_and_ends_when_it_is_over() -> None:
    stormed = Stormed()
    stormed.storm((3,), 50, 3000)
    stormed.run_to(4000)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [400]
    assert stormed.times("STORM_ENDED", 1 << 3) == [3200]  # the last XOFF came at 3000, with the poll


def test_a_storm_on_the_only_lossless_priority_flaps() -> None:
    stormed = Stormed(enabled=(3,))
    stormed.storm((3,), 50, 1300)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [400, 1000]


@pytest.mark.parametrize(("begins_ms", "found_ms"), [(0, 600), (199, 600), (200, 800), (201, 800)])
def test_a_poll_counts_if_the_pause_was_there_before_the_last_one(begins_ms: int, found_ms: int) -> None:
    stormed = Stormed(replace(SETTINGS, detection=Duration("400ms")))
    stormed.storm((3,), begins_ms, 900, every_ms=7)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [found_ms]


def test_a_detection_time_between_polls_is_rounded_up_to_polls() -> None:
    stormed = Stormed(replace(SETTINGS, detection=Duration("250ms")))
    stormed.storm((3,), 50, 900)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [600]


def test_a_break_of_any_length_begins_the_detection_anew() -> None:
    stormed = Stormed()
    stormed.storm((3,), 50, 390)
    stormed.port.receive(PfcFrame.xon(PEER, [3]).encode(), 395 * MS)
    stormed.storm((3,), 396, 900)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [600]


def test_one_lossless_priority_that_pfc_still_obeys_keeps_the_counters_going() -> None:
    stormed = Stormed(enabled=(3, 4))
    stormed.storm((3, 4), 50, 700)
    assert stormed.times("STORM_ENDED", 1 << 3) == [600]
    enabled = Stormed(enabled=(3, 4))
    enabled.port.configure(replace(enabled.port.settings, enabled=frozenset({3, 4, 5})), 0)
    enabled.storm((3, 4), 50, 700)
    assert enabled.times("STORM_ENDED", 1 << 3) == []


def test_an_alert_leaves_pfc_on_and_ends_at_the_first_poll_without_a_pause() -> None:
    stormed = Stormed(replace(SETTINGS, action=Action.ALERT), enabled=(3,))
    stormed.storm((3,), 50, 900)
    stormed.port.receive(PfcFrame.xon(PEER, [3]).encode(), 910 * MS)
    stormed.run_to(2000)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [400]
    assert stormed.times("STORM_ENDED", 1 << 3) == [1000]


def test_timers_of_the_hardware_find_and_end_a_storm_to_the_moment_whatever_comes() -> None:
    hardware = WatchdogSettings(Duration("250ms"), Duration("130ms"), POLL, kind=Kind.HARDWARE)
    stormed = Stormed(hardware)
    stormed.storm((3,), 50, 1000)
    assert stormed.times("STORM_DETECTED", 1 << 3) == [300, 680]  # 430 and the next XOFF, at 430: with it
    assert stormed.times("STORM_ENDED", 1 << 3) == [430, 810]


@pytest.mark.parametrize("kind", list(Kind))
def test_no_kind_finds_a_storm_without_a_pause(kind: Kind) -> None:
    watchdog = watchdog_of(PfcSettings(frozenset({3}), watchdog=replace(SETTINGS, kind=kind)))
    assert watchdog is not None and type(watchdog).__name__.lower().startswith(kind if kind is not Kind.IDEAL else "wa")
    assert watchdog.poll(0, 10_000 * MS) == ([], [])
    assert watchdog_of(PfcSettings(frozenset({3}))) is None


def test_a_kind_is_a_word_too_and_one_that_does_not_exist_is_refused() -> None:
    word: Any = "sonic"
    assert WatchdogSettings(POLL, POLL, kind=word).kind is Kind.SONIC
    with pytest.raises(PfcError, match=r"^the watchdog's kind is 'sonci'; write one of 'ideal', 'sonic', 'hardware'"):
        WatchdogSettings(POLL, POLL, kind="sonci")  # type: ignore[arg-type]
