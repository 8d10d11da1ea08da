"""Two ports on a bad cable: whatever was lost, late, doubled, reordered or restarted, they agree and then keep still.

What they have to agree on is what two new ports with the same settings agree on over a perfect cable; for the symmetric
features it is also worked out here, from the settings alone. So the past leaves no trace.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.frames import Mac
from testbed.frames.dcbx.values import DcbxVersion, Ets, EtsRecommendation, Selector
from testbed.subjects.dcbx.events import PfcChanged
from testbed.subjects.dcbx.settings import (
    ApplicationAdmin,
    CnAdmin,
    DcbxSettings,
    EtsAdmin,
    PfcAdmin,
    Recommend,
    Shares,
    TieBreak,
)
from tests.unit.subjects.dcbx.dcbx_link import HIGH, LOW, Link, S, make_port
from tests.unit.subjects.dcbx.dcbx_strategies import algorithms, classes, draft_groups, entries, masks, percents

DRAFT, PUBLISHED = DcbxVersion.DRAFT, DcbxVersion.PUBLISHED
LONGEST_DELAY = 5 * S
LONGEST_DOUBT = 10 * S
BOUND = LONGEST_DELAY + 30 * S + 2 * S + 3 * S + LONGEST_DOUBT
"""The time until two ports agree: the last late frame, an interval, reinit_delay, a second of credit for each of three
transfers, and a hold."""

T = TypeVar("T")

booleans = st.booleans()


def ets(version: DcbxVersion) -> st.SearchStrategy[Ets]:
    if version is DRAFT:
        return st.builds(Ets, draft_groups, percents())
    return st.builds(Ets, classes, percents(), algorithms)


def recommends(version: DcbxVersion) -> st.SearchStrategy[Recommend | Shares | None]:
    if version is DRAFT:
        table = st.builds(EtsRecommendation, percents())
        return st.none() | st.builds(Recommend, table, booleans) | st.builds(Shares, percents())
    table = ets(version).map(lambda made: EtsRecommendation(made.bandwidth, made.assignment, made.tsa))
    return st.none() | st.builds(Recommend, table, booleans)


def mostly(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return strategy | strategy | strategy | st.none()


def any_settings(
    version: DcbxVersion, tie_break: TieBreak | None, willing: st.SearchStrategy[bool] = booleans
) -> st.SearchStrategy[DcbxSettings]:
    table = entries(Selector.DSCP if version is DRAFT else Selector.OTHER_PORT, 3)
    cn = st.builds(CnAdmin, masks, willing if version is DRAFT else st.just(False))
    return st.builds(
        DcbxSettings,
        st.just(version),
        st.just(tie_break),
        st.just(8),
        mostly(st.builds(EtsAdmin, ets(version), willing, recommends(version))),
        mostly(st.builds(PfcAdmin, masks, willing, st.integers(1, 8), booleans, headroom=booleans)),
        mostly(st.builds(ApplicationAdmin, table, willing)),
        mostly(cn),
    )


@dataclass(frozen=True)
class Story:
    """The events on a cable."""

    before: tuple[DcbxSettings, DcbxSettings]
    steps: list[tuple[int, str, str]]  # after how long, what, to which port
    fates: list[list[int]]  # of one frame after the other, over and over
    after: tuple[DcbxSettings, DcbxSettings]


@st.composite
def stories(draw: st.DrawFn, contradiction: bool = False) -> Story:
    """Draw stories. With a contradiction, each of two willing ports follows the other."""
    version, tie_break = draw(st.sampled_from(DcbxVersion)), draw(st.sampled_from([None, *TieBreak]))
    # Two willing ports are what could chase each other.
    willing = st.just(True) if contradiction else draw(st.sampled_from([booleans, st.just(True)]))
    of_a, of_b = (TieBreak.HIGHER, TieBreak.LOWER) if contradiction else (tie_break, tie_break)
    pair = st.tuples(any_settings(version, of_a, willing), any_settings(version, of_b, willing))
    other = draw(st.sampled_from(DcbxVersion))
    before = st.tuples(any_settings(other, None), any_settings(version, of_b))
    whats = ["settings", "settings before", "stop", "start", "down", "crash"]
    waits = st.integers(0, 40 * S) | st.integers(0, 2 * S)
    steps = st.tuples(waits, st.sampled_from(whats), st.sampled_from("ab"))
    delays = st.lists(st.integers(0, LONGEST_DELAY), max_size=3)
    return Story(
        draw(pair | before),
        draw(st.lists(steps, max_size=12)),
        draw(st.lists(delays, min_size=1, max_size=12)),
        draw(pair),
    )


def after(story: Story) -> Link:
    """Return the ports when the story is over, the cable is repaired and BOUND has passed; nothing is left to be
    sent.
    """
    link = Link(make_port(LOW, story.before[0]), make_port(HIGH, story.before[1]))
    fates = (story.fates[number % len(story.fates)] for number in range(10**9))
    link.fate = lambda name: next(fates)
    link.a.start(0)
    link.b.start(0)
    for wait, what, name in story.steps:
        link.run_until(link.now + wait)
        port, number = link.port(name), "ab".index(name)
        match what:
            case "settings":
                port.configure(story.after[number], link.now)
            case "settings before":
                port.configure(story.before[number], link.now)
            case "stop":
                port.stop(link.now)
            case "start":
                port.start(link.now)
            case "down":
                port.link_down(link.now)
            case "crash":  # all state is lost, without a frame
                new = make_port((LOW, HIGH)[number], port.settings)
                new.start(link.now)
                setattr(link, name, new)
    link.collect()
    link.fate = lambda name: [S // 1000]
    for port, chosen in ((link.a, story.after[0]), (link.b, story.after[1])):
        port.configure(chosen, link.now)
        port.start(link.now)
    link.run_until(link.now + BOUND)
    link.take_events("a")
    link.take_events("b")
    return link


def undisturbed(first: DcbxSettings, second: DcbxSettings) -> Link:
    return after(Story((first, second), [], [[0]], (first, second)))


def passed(own: tuple[object, bool], far: tuple[object, bool], wins: bool | None) -> object:
    """Apply the draft's rule for a symmetric parameter to both ports' settings (value, willing) alone."""
    adopts = own[1] and (not far[1] or wins is False)
    return far[0] if adopts else own[0]


def old_values_that_come_twice() -> Story:
    """Run a link with every second frame a little late while both settings change; the follower gets its own value
    meanwhile.
    """

    def port(pfc: int | None, cn: int) -> DcbxSettings:
        enabled = None if pfc is None else PfcAdmin(pfc, willing=True)
        return DcbxSettings(DRAFT, TieBreak.HIGHER, pfc=enabled, cn=CnAdmin(cn, willing=True))

    return Story((port(None, 0), port(0, 0)), [], [[0, S // 1000 + 1]], (port(1, 0), port(1, 1)))


@pytest.mark.slow
@settings(max_examples=50)
@example(old_values_that_come_twice())
@given(stories())
def test_after_any_disturbance_two_ports_come_to_the_same_state_as_two_new_ones(story: Story) -> None:
    link = after(story)
    ideal = undisturbed(*story.after)
    assert link.a.state == ideal.a.state
    assert link.b.state == ideal.b.state


@pytest.mark.slow
@settings(max_examples=40)
@given(stories())
def test_what_they_agree_on_follows_from_the_settings_alone(story: Story) -> None:
    link = after(story)
    for own, far, mac in ((link.a, link.b, LOW), (link.b, link.a, HIGH)):
        mine, theirs = own.settings, far.settings
        higher_wins = {TieBreak.NONE: None, TieBreak.LOWER: mac == LOW, TieBreak.HIGHER: mac == HIGH}
        wins = higher_wins[mine.breaks_tie_by]
        if mine.pfc and theirs.pfc:
            enabled = passed((mine.pfc.enabled, mine.pfc.willing), (theirs.pfc.enabled, theirs.pfc.willing), wins)
            assert own.state.pfc.oper == enabled
        if mine.version is DRAFT and mine.cn and theirs.cn:
            enabled = passed((mine.cn.enabled, mine.cn.willing), (theirs.cn.enabled, theirs.cn.willing), wins)
            assert own.state.cn.oper == enabled
        if mine.version is DRAFT and mine.applications and theirs.applications:
            pair = [(table.entries, table.willing) for table in (mine.applications, theirs.applications)]
            assert own.state.applications.oper == passed(pair[0], pair[1], wins)
        if mine.ets and theirs.ets and mine.ets.willing and isinstance(theirs.ets.recommend, Recommend):
            assert own.state.ets.oper == theirs.ets.recommend.table.applied_to(mine.ets.table)
        for feature, there in ((own.state.pfc, far.state.pfc), (own.state.cn, far.state.cn)):
            assert feature.remote == there.oper
            on = mine.pfc is not None and mine.pfc.defense if feature is own.state.pfc else True
            if feature.oper is not None:
                assert feature.defended == (feature.oper & ~(there.oper or 0) if on else 0)


@pytest.mark.slow
@settings(max_examples=40)
@given(stories())
def test_without_changes_there_are_no_events_and_only_the_interval_sends(story: Story) -> None:
    link = after(story)
    begin, sent = link.now, len(link.sent)
    link.run_until(begin + 600 * S)
    assert link.events == {"a": [], "b": []}
    assert len(link.sent) - sent == 2 * 20


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_ports_of_different_formats_keep_to_their_own_settings(data: st.DataObject) -> None:
    first, second = data.draw(any_settings(DRAFT, None)), data.draw(any_settings(PUBLISHED, None))
    link = undisturbed(first, second)
    for port, telling in ((link.a, second.ets or second.cn), (link.b, first)):
        if telling:  # what it receives has a TLV that only the other format has
            features = port.state.states.values()
            assert all(feature.remote is None for feature in features)
            assert port.state.pfc.oper == (port.settings.pfc.enabled if port.settings.pfc else None)


@pytest.mark.slow
@settings(max_examples=25)
@given(stories(), st.lists(st.tuples(st.integers(0, 3), masks), min_size=1, max_size=30))
def test_other_stations_on_the_link_turn_dcbx_off_while_they_last_and_leave_no_trace(
    story: Story, strangers: list[tuple[int, int]]
) -> None:
    link = after(story)
    kept = link.a.state, link.b.state
    for wait, number in strangers:
        link.run_until(link.now + wait * S)
        visitor = make_port(Mac(bytes([2, 0, 0, 2, 0, number])), story.after[1])
        visitor.start(link.now)
        (frame,) = visitor.take_frames()
        link.a.receive(frame, link.now)
        assert link.a.state.pfc.oper == (link.a.settings.pfc.enabled if link.a.settings.pfc else None)
        assert link.a.state.ets.oper == (link.a.settings.ets.table if link.a.settings.ets else None)
    assert len(link.a.neighbours) <= 8
    link.run_until(link.now + 121 * S + BOUND)
    assert (link.a.state, link.b.state) == kept


# Opposite tie-breaks: each port follows the other (decision 0102)


def followers(version: DcbxVersion = PUBLISHED) -> Link:
    """Return ports for each of which the other's configuration wins, on a cable that is plugged in at once."""
    low = DcbxSettings(version, tie_break=TieBreak.HIGHER, pfc=PfcAdmin(0b1000, willing=True))
    high = DcbxSettings(version, tie_break=TieBreak.LOWER, pfc=PfcAdmin(0b10000, willing=True))
    link = Link(make_port(LOW, low), make_port(HIGH, high))
    link.a.start(0)
    link.b.start(0)
    return link


@pytest.mark.parametrize("version", DcbxVersion)
def test_opposite_tie_breaks_swap_once_and_converge_on_one_value(version: DcbxVersion) -> None:
    link = followers(version)
    link.run_until(60 * S)
    changes = {name: [(e.at_ns, e.enabled) for e in link.events[name] if isinstance(e, PfcChanged)] for name in "ab"}
    enabled = {name: [now for now, _ in itertools.groupby(now for _, now in told)] for name, told in changes.items()}
    assert enabled == {"a": [0b1000, 0b10000, 0b1000, 0b10000, 0b1000], "b": [0b10000, 0b1000, 0b10000, 0b1000]}
    assert changes["a"][-1] == (5 * S, 0b1000), "the lower address follows first, when its doubt is over"
    why = "the peer's: both ports are willing, and the peer wins the tie-break"
    assert [(one.state.pfc.oper, one.state.pfc.why) for one in (link.a, link.b)] == [(0b1000, why)] * 2
    sent = len(link.sent)
    link.run_until(600 * S)
    assert len(link.sent) - sent == 2 * 540 // 30, "nothing but the regular frames"
    assert [one.counters["swapped.pfc"] for one in (link.a, link.b)] == [1, 1]


@pytest.mark.slow
def test_opposite_tie_breaks_converge_whatever_becomes_of_the_first_frames() -> None:
    """Lost, in time, late, or twice: in every combination, for the first frames of both."""
    for fates in itertools.product([[], [0], [3 * S], [0, 3 * S]], repeat=4):
        link, left = followers(), list(fates)
        link.fate = lambda _, left=left: left.pop() if left else [0]  # type: ignore[misc]
        link.run_until(BOUND)
        assert link.a.state.pfc.oper == link.b.state.pfc.oper == link.a.state.pfc.remote == link.b.state.pfc.remote
        sent = len(link.sent)
        link.run_until(BOUND + 600 * S)
        assert len(link.sent) - sent == 2 * 20


def values_that_nobody_has_set() -> Story:
    """Run ports that were not willing and become followers; the values that go round are two of the past."""

    def port(tie_break: TieBreak, cn: int, willing: bool) -> DcbxSettings:
        return DcbxSettings(DRAFT, tie_break, cn=CnAdmin(cn, willing))

    rules = TieBreak.HIGHER, TieBreak.LOWER
    before = port(rules[0], 5, False), port(rules[1], 37, False)
    return Story(before, [], [[0]], (port(rules[0], 0, True), port(rules[1], 0, True)))


@pytest.mark.slow
@settings(max_examples=60)
@example(values_that_nobody_has_set())
@given(stories(contradiction=True))
def test_opposite_tie_breaks_converge_on_one_value_after_any_disturbance(story: Story) -> None:
    link = after(story)
    link.run_until(link.now + 2 * LONGEST_DOUBT)
    begin, sent = link.now, len(link.sent)
    for name in ("pfc", "applications", "cn"):
        here, there = getattr(link.a.state, name), getattr(link.b.state, name)
        if here.remote_willing and there.remote_willing:
            assert here.oper == there.oper
    link.events = {"a": [], "b": []}
    link.run_until(begin + 600 * S)
    assert link.events == {"a": [], "b": []}
    assert len(link.sent) - sent == 2 * 20
