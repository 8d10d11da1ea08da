"""The rules of a cable in C do what their statement does: each frame, moment and counter of random histories."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.linux.line_qdisc import HEADERS
from testbed.subjects.link.llr.cable import Cable
from testbed.subjects.link.llr.end import EndSettings
from testbed.subjects.link.llr.line import LineSettings
from testbed.switch.link.counters import LLR_COUNTERS
from testbed.switch.link.retry import LlrAction
from tests.unit.subjects.link.llr.test_link_retry import Event, history

SOURCE = Path(testbed.__path__[0]) / "lab/um/linux/xoff_line_library.c"
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="the rules in C are compiled by gcc")


class Outcome(ctypes.Structure):
    _fields_ = (
        ("at_ns", ctypes.c_int64),
        ("frame", ctypes.c_uint64),
        ("number", ctypes.c_uint32),
        ("is_lost", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = tmp_path_factory.mktemp("rules") / "line.so"
    command = ("gcc", "-O1", "-g", "-Wall", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC", "-o", made, SOURCE)
    subprocess.run([str(word) for word in command], check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.xl_new.restype = ctypes.c_void_p
    loaded.xl_try_report.restype = loaded.xl_end_try.restype = ctypes.c_uint64
    return loaded


def _settings(line: LineSettings, end: EndSettings | None) -> Any:
    made = HEADERS.xl_settings(
        bps=line.bps, delay_ns=line.delay_ns, loss=line.loss, seed=line.seed, slot_threshold=line.slot_threshold,
        slot_octets=line.slot_octets, wait=line.wait,
    )  # fmt: skip
    for number, jam in enumerate(line.jams):
        made.jams[number] = HEADERS.xl_jam(what=jam.what, fate=jam.fate, first=jam.first, count=jam.count)
    if end is not None:
        actions = list(LlrAction)
        made.has_llr = end.sends | end.receives << 1 | end.is_unnumbered << 2
        for name in ("frames", "octets", "replay_count", "spacing", "re_init", "first_sequence"):
            setattr(made, name, int(getattr(end, name)))
        made.replay_timer_ns, made.age_ns = end.replay_timer_ns, end.age_ns
        made.init_action, made.flush_action = actions.index(end.init_action), actions.index(end.flush_action)
    return made


def _first(end: EndSettings | None) -> EndSettings | None:
    """Return the settings of an end before LLR was switched at it."""
    return end and replace(end, sends=True, receives=True, is_unnumbered=False)


def _in_c(library: ctypes.CDLL, cable: Cable, events: list[Event], until_ns: int) -> tuple[list[Any], list[Any]]:
    """Return the outcomes, and the reports of both ends, of the same events in C."""
    given = (HEADERS.xl_settings * 2)(*(_settings(end.line.settings, _first(end.settings)) for end in cable.ends))
    outcomes = (Outcome * (2 * len(events) + 10))()
    tried = ctypes.c_void_p(library.xl_new(given, outcomes, len(outcomes)))
    for event in events:
        if event.settings is not None:
            changed = _settings(cable.ends[event.number].line.settings, event.settings)
            library.xl_try_change(tried, event.number, ctypes.byref(changed), ctypes.c_int64(event.at_ns))
            continue
        library.xl_try_offer(
            tried, event.number, ctypes.c_uint64(event.content), event.length, event.is_eligible,
            ctypes.c_int64(event.at_ns),
        )  # fmt: skip
    library.xl_try_advance(tried, ctypes.c_int64(until_ns))
    reports = (HEADERS.xl_report * 2)()
    count = library.xl_try_report(tried, reports)
    found = [(one.number, one.is_lost, one.at_ns, one.frame) for one in outcomes[:count]]
    assert library.xl_end_try(tried) == 0  # nothing is left in memory
    return found, list(reports)


def _compare(library: ctypes.CDLL, make: Callable[[int], tuple[Cable, list[Event]]], seed: int) -> None:
    cable, events = make(seed)
    outcomes, reports = _in_c(library, cable, events, cable.now_ns)
    for number, end in enumerate(cable.ends):
        stated = cable.outcomes[number]
        passed = [(at_ns, frame) for one, is_lost, at_ns, frame in outcomes if one == number and not is_lost]
        assert passed == stated.passed, seed
        assert [frame for one, is_lost, _, frame in outcomes if one == number and is_lost] == stated.lost
        report = reports[number]
        assert dict(zip(LLR_COUNTERS, report.counters, strict=True)) == end.counters
        assert (report.state, report.receiver, report.flushes) == (end.state, end.receiver, end.flushes)
        assert (report.kept, report.held) == (len(end.kept), len(end.held))
        assert (report.replayed, report.replayed_octets) == (len(end.replayed), sum(end.replayed))
        assert (report.next_sequence, report.expected) == (end.next_sequence, end.expected)


@pytest.mark.parametrize("block", range(5))
def test_histories_without_a_limit_of_replays_are_the_same(library: ctypes.CDLL, block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        _compare(library, history, seed)


@pytest.mark.parametrize("block", range(5))
def test_histories_with_flushes_ages_and_all_actions_are_the_same(library: ctypes.CDLL, block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        _compare(library, lambda seed: history(seed, gives_up=True), seed)


@pytest.mark.parametrize("block", range(3))
def test_histories_in_which_llr_is_switched_on_and_off_are_the_same(library: ctypes.CDLL, block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        _compare(library, lambda seed: history(seed, gives_up=True, switches=True), seed)
