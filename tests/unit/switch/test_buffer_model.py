"""The ingress buffer of a switch, to the cell: each rule of `switch.buffer.model` by itself, then all at random."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from testbed.switch.buffer.model import Admission, BufferModel, Release, Resumed
from testbed.switch.buffer.settings import (
    BufferBusyError,
    BufferModelError,
    BufferSettings,
    Dynamic,
    GroupSettings,
    Pool,
    QueueSettings,
    Static,
    Threshold,
    split_evenly,
)
from testbed.switch.buffer.use import Cells, DropReason, Signal

CELL = 208  # the length of a frame of one cell
LOSSLESS, LOSSY = 3, 0


def switch(group: GroupSettings, total: int = 1000, pool: int | None = None, **more: Any) -> BufferModel:
    """Return a buffer of ports 1 and 2; priority 3 of both is `group`, the others are lossy."""
    return BufferModel(BufferSettings((1, 2), total, pool, {LOSSLESS: group}, **more))


def lossless(threshold: Threshold, headroom: int = 0, xon_offset: int = 0, guaranteed: int = 0) -> GroupSettings:
    return GroupSettings(True, guaranteed, threshold, xon_offset, headroom)


def fill(model: BufferModel, cells: int, port: int = 1, priority: int = LOSSLESS) -> None:
    for _ in range(cells):
        assert model.admit(port, priority, CELL).dropped is None


@pytest.mark.parametrize("part", [Fraction(1, 2), Fraction(3, 4)])
def test_the_first_cell_above_half_or_three_quarters_of_a_ports_buffer_is_congestion(part: Fraction) -> None:
    """The draft's examples of a threshold. The port's buffer for the priority is 120 cells."""
    limit = int(120 * part)
    model = switch(lossless(Static(limit), headroom=120 - limit))
    for _ in range(limit):
        admitted = model.admit(1, LOSSLESS, CELL)
        assert (admitted.signal, admitted.dropped) == (None, None)
    admitted = model.admit(1, LOSSLESS, CELL)
    assert (admitted.signal, admitted.dropped) == (Signal.XOFF, None)


# Cells


@pytest.mark.parametrize(
    ("length", "cells"),
    [(1, 1), (64, 1), (128, 1), (207, 1), (208, 1), (209, 2), (300, 2), (416, 2), (417, 3), (1500, 8), (9216, 45)],
)
def test_a_frame_takes_cells_by_its_length_rounded_up(length: int, cells: int) -> None:
    model = switch(lossless(Static(500)))
    assert model.admit(1, LOSSLESS, length) == Admission(Cells(shared=cells))
    assert model.release(1, LOSSLESS, length) == Release(Cells(shared=cells))


def test_the_cell_size_can_be_set() -> None:
    assert [BufferSettings((1,), 10, 0, cell_bytes=160).cells(length) for length in (160, 161, 1500)] == [1, 2, 10]


def test_cells_are_counted_by_ingress_port_and_priority() -> None:
    model = switch(lossless(Static(500)))
    for port, priority, length in ((1, 3, 300), (1, 5, 128), (2, 3, 1500), (1, 3, 128)):
        model.admit(port, priority, length)
    assert [model.used(*key).total for key in ((1, 3), (1, 5), (2, 3), (2, 5))] == [3, 1, 8, 0]


# Guaranteed, then shared


def test_guaranteed_cells_are_used_before_shared_ones_and_a_frame_may_lie_in_both() -> None:
    model = switch(lossless(Static(500), guaranteed=10))
    assert [model.admit(1, LOSSLESS, 1500).cells for _ in range(3)] == [Cells(8, 0), Cells(2, 6), Cells(0, 8)]


def test_an_idle_reserve_is_taken_neither_by_other_priorities_nor_by_other_ports() -> None:
    """100 cells, of which 2 x 20 are guaranteed to priority 3: the rest of the switch never gets more than 60."""
    greedy = {priority: GroupSettings(threshold=Static(1000)) for priority in range(8)}
    model = BufferModel(BufferSettings((1, 2), 100, 0, greedy | {LOSSLESS: lossless(Static(1000), guaranteed=20)}))
    for port in (1, 2):
        for priority in (0, 1, 7):
            for _ in range(50):
                model.admit(port, priority, CELL)
    assert model.admit(1, LOSSY, CELL).dropped is DropReason.SHARED_POOL
    assert model.free_shared == 0
    fill(model, 20, port=1)  # all shared cells are gone, and both reserves are whole, one port's after the other's
    fill(model, 20, port=2)
    assert model.used(1, LOSSLESS) == model.used(2, LOSSLESS) == Cells(guaranteed=20)
    assert model.snapshot()["buffer"] == {"size": 100, "used": 100, "high_water": 100}


@pytest.mark.parametrize(("reserve", "ports", "each"), [(100, 4, 25), (101, 4, 25), (3, 4, 0)])
def test_a_queues_reserve_is_split_evenly_over_the_ports(reserve: int, ports: int, each: int) -> None:
    every = tuple(range(ports))
    share = split_evenly(reserve, every)
    assert share == each
    settings = BufferSettings(every, 200, 0, {LOSSLESS: GroupSettings(guaranteed=share)})
    assert (settings.guaranteed_cells, settings.shared_cells) == (each * ports, 200 - each * ports)


def test_the_shared_pool_is_first_come_first_served_and_reused_when_released() -> None:
    model = BufferModel(BufferSettings((1, 2), 100, 0, dict.fromkeys((0, 1), GroupSettings(threshold=Static(100)))))
    fill(model, 70, 1, 0)
    fill(model, 30, 2, 1)
    assert model.admit(2, 1, CELL).dropped is DropReason.SHARED_POOL
    assert model.admit(1, 0, CELL).dropped is DropReason.SHARED_POOL
    model.release(1, 0, CELL)
    fill(model, 1, 2, 1)
    assert (model.used(1, 0).shared, model.used(2, 1).shared) == (69, 31)


# Thresholds and XOFF


def test_static_threshold_is_filled_to_the_cell_and_the_next_frame_triggers() -> None:
    model = switch(lossless(Static(20), headroom=50))
    fill(model, 20)
    assert not model.is_xoff(1, LOSSLESS)
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(headroom=1), None, Signal.XOFF)
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(headroom=1))


def test_a_frame_that_does_not_fit_whole_triggers_and_lies_in_headroom_whole() -> None:
    """Static 20: two frames of 8 cells fit, the third does not, though 4 cells are left under the threshold."""
    model = switch(lossless(Static(20), headroom=50, guaranteed=0))
    assert [model.admit(1, LOSSLESS, 1500) for _ in range(4)] == [
        Admission(Cells(shared=8)),
        Admission(Cells(shared=8)),
        Admission(Cells(headroom=8), None, Signal.XOFF),
        Admission(Cells(headroom=8)),
    ]
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(headroom=1))  # would fit, but XOFF is XOFF


def test_the_triggering_frame_leaves_guaranteed_cells_alone() -> None:
    model = switch(lossless(Static(0), headroom=50, guaranteed=10))
    assert [model.admit(1, LOSSLESS, 1500) for _ in range(2)] == [
        Admission(Cells(guaranteed=8)),
        Admission(Cells(headroom=8), None, Signal.XOFF),
    ]


@pytest.mark.parametrize(
    ("threshold", "free", "cells"),
    [
        (Dynamic("1/8"), 1000, 125),
        (Dynamic("1/8"), 1007, 125),  # rounded down
        (Dynamic(8), 1000, 8000),
        (Dynamic.percent(50), 999, 499),
        (Dynamic.percent("12.5"), 1000, 125),
        (Dynamic.percent(200), 10, 20),
        (Dynamic(1), 0, 0),
        (Static(30), 1, 30),
        (Static(30), 0, 0),  # exhausted counts as passed
        (Static.part("3/4", 1000), 1, 750),
        (Static.part(Fraction(1, 2), 999), 1, 499),
    ],
)
def test_threshold_in_each_notation(threshold: Threshold, free: int, cells: int) -> None:
    assert threshold.limit(free) == cells


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("alpha", [Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(8)])
def test_congested_groups_settle_at_alpha_of_one_plus_n_alpha(groups: int, alpha: Fraction) -> None:
    """The pool is chosen so that the share is whole; then it comes out exact, for every group."""
    pool = 20 * (alpha.denominator + groups * alpha.numerator)
    share = alpha / (1 + groups * alpha) * pool
    ports = tuple(range(groups))
    settings = BufferSettings(ports, pool + groups, None, {LOSSLESS: lossless(Dynamic(alpha), headroom=1)})
    model = BufferModel(settings)
    while not all(model.is_xoff(port, LOSSLESS) for port in ports):
        for port in ports:
            if not model.is_xoff(port, LOSSLESS):
                model.admit(port, LOSSLESS, CELL)
    assert [model.used(port, LOSSLESS).shared for port in ports] == [share] * groups
    assert all(model.threshold(port, LOSSLESS) == share for port in ports)


def test_a_dynamic_threshold_falls_with_the_pool_and_pause_comes_with_the_groups_next_frame() -> None:
    model = switch(lossless(Dynamic(1), headroom=10), total=1020)
    fill(model, 400)
    greedy = GroupSettings(threshold=Static(1000))
    model.configure(BufferSettings((1, 2), 1020, None, {LOSSLESS: lossless(Dynamic(1), headroom=10), 5: greedy}))
    for _ in range(300):
        assert model.admit(2, 5, CELL).signal is None
    assert model.threshold(1, LOSSLESS) == 300
    assert not model.is_xoff(1, LOSSLESS)
    assert model.admit(1, LOSSLESS, CELL).signal is Signal.XOFF


def test_an_exhausted_pool_counts_as_threshold_passed_for_lossless_and_drops_lossy() -> None:
    priorities = {LOSSLESS: lossless(Static(100), headroom=4), 0: GroupSettings(threshold=Static(100))}
    model = BufferModel(BufferSettings((1, 2), 108, None, priorities))
    fill(model, 97, 2, 0)
    assert model.admit(1, LOSSLESS, 800) == Admission(Cells(headroom=4), None, Signal.XOFF)  # 4 cells, 3 are free
    assert model.admit(1, 0, 800).dropped is DropReason.SHARED_POOL
    assert model.admit(2, 0, 800).dropped is DropReason.SHARED_POOL
    fill(model, 3, 2, 0)
    assert model.admit(2, LOSSLESS, CELL) == Admission(Cells(headroom=1), None, Signal.XOFF)


# Drops


def test_full_headroom_drops_and_counts_and_the_frame_before_fits_to_the_cell() -> None:
    model = switch(lossless(Static(8), headroom=17))
    results = [model.admit(1, LOSSLESS, 1500) for _ in range(4)]
    assert [result.dropped for result in results] == [None, None, None, DropReason.HEADROOM]
    assert model.admit(1, LOSSLESS, 209).dropped is DropReason.HEADROOM
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(headroom=1))
    (group,) = model.snapshot()["groups"]
    assert group["dropped"]["headroom"] == {"frames": 2, "cells": 10}
    assert group["admitted"] == {"frames": 4, "cells": 25}


def test_a_lossless_priority_without_headroom_still_pauses_with_the_frame_it_drops() -> None:
    model = switch(lossless(Static(0)))
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(), DropReason.HEADROOM, Signal.XOFF)
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(), DropReason.HEADROOM)
    assert model.recheck(1, LOSSLESS) is Signal.XON  # it holds nothing, so no departure could do this


def test_overbooked_headroom_has_a_drop_reason_of_its_own() -> None:
    model = switch(lossless(Static(0), headroom=10), pool=15, overbook_headroom=True)
    fill(model, 10, port=1)
    fill(model, 5, port=2)
    assert model.admit(2, LOSSLESS, CELL).dropped is DropReason.HEADROOM_POOL
    assert model.admit(1, LOSSLESS, CELL).dropped is DropReason.HEADROOM
    assert model.settings.missing_headroom == model.snapshot()["missing_headroom"] == 5


def test_a_lossy_priority_over_its_threshold_drops_and_never_pauses() -> None:
    model = switch(GroupSettings(threshold=Static(20), guaranteed=2))
    fill(model, 22)
    assert model.admit(1, LOSSLESS, CELL) == Admission(Cells(), DropReason.THRESHOLD)
    assert model.used(1, LOSSLESS) == Cells(2, 20)


def test_a_lossy_frame_that_the_pool_could_just_hold_is_dropped_by_its_threshold_and_a_larger_one_by_the_pool() -> None:
    model = BufferModel(BufferSettings((1,), 10, 0, {0: GroupSettings(threshold=Static(7))}))
    assert model.admit(1, LOSSY, 10 * CELL).dropped is DropReason.THRESHOLD
    assert model.admit(1, LOSSY, 11 * CELL).dropped is DropReason.SHARED_POOL


def test_congestion_of_one_priority_leaves_the_others_alone() -> None:
    model = switch(lossless(Static(5), headroom=5))
    fill(model, 10)
    assert model.admit(1, LOSSLESS, CELL).dropped is DropReason.HEADROOM
    assert model.admit(1, LOSSY, 1500) == Admission(Cells(shared=8))
    assert model.admit(2, LOSSLESS, CELL) == Admission(Cells(shared=1))


# Release and XON


def test_cells_go_back_from_headroom_then_shared_then_guaranteed() -> None:
    model = switch(lossless(Static(6), headroom=20, guaranteed=4))
    for length in (800, 1200, 1500):
        model.admit(1, LOSSLESS, length)
    assert model.used(1, LOSSLESS) == Cells(4, 6, 8)
    back = [model.release(1, LOSSLESS, length).cells for length in (800, 1200, 1500)]
    assert back == [Cells(headroom=4), Cells(shared=2, headroom=4), Cells(guaranteed=4, shared=4)]


@pytest.mark.parametrize("offset", [0, 1, 5, 20])
def test_xon_comes_when_headroom_is_empty_and_use_is_the_offset_below_a_static_threshold(offset: int) -> None:
    model = switch(lossless(Static(20), headroom=10, xon_offset=offset))
    fill(model, 23)
    signals = [model.release(1, LOSSLESS, CELL).signal for _ in range(23)]
    assert signals.index(Signal.XON) == 2 + offset  # the third departure empties headroom
    assert signals.count(Signal.XON) == 1


def test_xon_uses_the_dynamic_threshold_after_the_departure() -> None:
    """100 shared cells, alpha 1, XOFF at 50. With s left T is 100 - s, so s + 10 <= 100 - s first holds at 45."""
    model = switch(lossless(Dynamic(1), headroom=10, xon_offset=10), total=120)
    fill(model, 51)
    signals = [model.release(1, LOSSLESS, CELL).signal for _ in range(6)]
    assert signals == [None] * 5 + [Signal.XON]
    assert model.used(1, LOSSLESS) == Cells(shared=45)


def test_a_group_may_pause_again_after_it_resumed() -> None:
    model = switch(lossless(Static(2), headroom=5, xon_offset=1))
    for _ in range(3):
        fill(model, 2)
        assert model.admit(1, LOSSLESS, CELL).signal is Signal.XOFF
        assert [model.release(1, LOSSLESS, CELL).signal for _ in range(3)] == [None, Signal.XON, None]
    (group,) = model.snapshot()["groups"]
    assert (group["xoffs"], group["xons"]) == (3, 3)


def test_room_made_by_others_resumes_a_group_at_the_recheck() -> None:
    priorities = {LOSSLESS: lossless(Dynamic(1), headroom=10, xon_offset=10), 5: GroupSettings(threshold=Static(99))}
    model = BufferModel(BufferSettings((1, 2), 120, None, priorities))
    fill(model, 60, 2, 5)
    fill(model, 20)
    assert model.admit(1, LOSSLESS, CELL).signal is Signal.XOFF
    assert model.release(1, LOSSLESS, CELL).signal is None
    for _ in range(9):
        assert model.release(2, 5, CELL).signal is None
    assert model.recheck(1, LOSSLESS) is None
    model.release(2, 5, CELL)
    assert model.recheck(1, LOSSLESS) is Signal.XON
    assert model.recheck(1, LOSSLESS) is None


def test_a_group_with_nothing_but_guaranteed_cells_resumes_even_while_others_hold_the_whole_pool() -> None:
    priorities = {LOSSLESS: lossless(Static(9), 9, 9, guaranteed=4), 5: GroupSettings(threshold=Static(99))}
    model = BufferModel(BufferSettings((1, 2), 76, None, priorities))
    fill(model, 50, 2, 5)
    fill(model, 4)
    assert model.admit(1, LOSSLESS, CELL).signal is Signal.XOFF
    assert model.release(1, LOSSLESS, CELL) == Release(Cells(headroom=1), Signal.XON)
    assert model.used(1, LOSSLESS) == Cells(guaranteed=4)


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_headroom_for_what_is_in_flight_loses_nothing_and_short_headroom_loses_the_difference(extra: int) -> None:
    """After XOFF 100 more cells arrive, as the far end stops late; headroom is `extra` cells short of that."""
    model = switch(lossless(Static(50), headroom=100 - extra))
    results = [model.admit(1, LOSSLESS, CELL) for _ in range(150)]
    assert sum(result.dropped is DropReason.HEADROOM for result in results) == extra
    assert sum(result.dropped is None for result in results) == 150 - extra


# Settings in use


def test_thresholds_can_change_in_use_and_pause_comes_with_the_next_frame() -> None:
    model = switch(lossless(Static(50), headroom=10))
    fill(model, 40)
    assert model.configure(BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(30), 10)})) == ()
    assert not model.is_xoff(1, LOSSLESS)
    assert model.admit(1, LOSSLESS, CELL).signal is Signal.XOFF
    assert model.used(1, LOSSLESS) == Cells(shared=40, headroom=1)


def test_new_guaranteed_cells_take_over_what_the_group_holds_and_give_it_up_again() -> None:
    model = switch(lossless(Static(50), headroom=10))
    fill(model, 40)
    before = model.snapshot()["groups"][0]["admitted"]
    model.configure(BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(50), 10, guaranteed=15)}))
    assert model.used(1, LOSSLESS) == Cells(15, 25)
    assert [model.snapshot()[pool]["used"] for pool in ("guaranteed", "shared")] == [15, 25]
    model.configure(BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(50), 10)}))
    assert model.used(1, LOSSLESS) == Cells(0, 40)
    assert model.snapshot()["groups"][0]["admitted"] == before


def test_a_raised_threshold_resumes_at_once_and_so_does_a_priority_that_turns_lossy() -> None:
    model = switch(lossless(Static(5), headroom=5))
    fill(model, 7)
    fill(model, 7, port=2)
    assert model.configure(BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(99), 5)})) == ()
    model.release(2, LOSSLESS, 209)
    lossy = BufferSettings((1, 2), 1000, 10, {LOSSLESS: GroupSettings(threshold=Static(5))})
    assert model.is_xoff(1, LOSSLESS)
    assert model.configure(lossy) == (Resumed(1, LOSSLESS),)
    assert model.used(1, LOSSLESS) == Cells(shared=5, headroom=2)
    assert model.release(1, LOSSLESS, 209) == Release(Cells(headroom=2))

    model = switch(lossless(Static(20), headroom=5, xon_offset=10))
    fill(model, 21)
    assert model.release(1, LOSSLESS, CELL).signal is None
    raised = BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(40), 5, 10)})
    assert model.configure(raised) == (Resumed(1, LOSSLESS),)


def test_a_headroom_pool_that_follows_gives_the_difference_to_the_shared_pool() -> None:
    short, long = lossless(Static(5), headroom=10), lossless(Static(5), headroom=100)
    follows = [BufferSettings((1, 2), 1000, None, {LOSSLESS: short}, groups) for groups in ({}, {(2, LOSSLESS): long})]
    assert [(settings.headroom_cells, settings.shared_cells) for settings in follows] == [(20, 980), (110, 890)]
    fixed = BufferSettings((1, 2), 1000, 300, {LOSSLESS: short})
    assert (fixed.headroom_cells, fixed.shared_cells, fixed.missing_headroom) == (300, 700, 0)
    model = BufferModel(follows[0])
    model.configure(follows[1])
    assert model.snapshot()["shared"]["size"] == 890


def test_settings_that_do_not_fit_what_is_inside_are_refused_and_change_nothing() -> None:
    model = switch(lossless(Static(900), headroom=10))
    fill(model, 900)
    before = model.snapshot()
    with pytest.raises(BufferBusyError) as refused:
        model.configure(BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(900), headroom=60)}))
    assert str(refused.value) == (
        "the shared pool would have 880 cells and needs 900: 20 have to drain before these settings can be used"
    )
    assert model.snapshot() == before
    with pytest.raises(
        BufferModelError, match=r"^cell size, ports, pools of groups and egress queues cannot be changed in use"
    ):
        model.configure(BufferSettings((1, 2, 3), 1000, None))


def test_headroom_is_not_granted_twice_and_a_group_that_released_it_takes_no_more() -> None:
    def share(first: int, second: int) -> BufferSettings:
        groups = {(port, 3): lossless(Static(5), cells) for port, cells in ((1, first), (2, second)) if cells}
        return BufferSettings((1, 2), 1000, 30, groups=groups)

    model = BufferModel(share(10, 20))
    fill(model, 12)
    before = model.snapshot()
    with pytest.raises(BufferBusyError) as refused:
        model.configure(share(0, 30))
    assert str(refused.value) == (
        "the headroom pool would have 30 cells and needs 37: 7 have to drain before these settings can be used"
    )
    assert model.snapshot() == before
    assert model.give_up(share(0, 30)) == (Resumed(1, LOSSLESS),)
    assert model.used(1, LOSSLESS) == Cells(shared=5, headroom=7)
    assert [model.settings.group(port, LOSSLESS).headroom for port in (1, 2)] == [0, 20]
    assert model.settings.headroom_cells == 30
    model.release(1, LOSSLESS, 6 * CELL)
    with pytest.raises(BufferBusyError):
        model.configure(share(0, 30))
    model.release(1, LOSSLESS, CELL)
    assert model.configure(share(0, 30)) == ()


def test_overbooked_headroom_guarantees_nothing_so_no_group_waits_for_it() -> None:
    model = switch(lossless(Static(5), headroom=10))
    fill(model, 12)
    groups = {(1, LOSSLESS): lossless(Static(5), 5), (2, LOSSLESS): lossless(Static(5), 20)}
    assert model.configure(BufferSettings((1, 2), 1000, 20, groups=groups, overbook_headroom=True)) == ()
    assert model.used(1, LOSSLESS) == Cells(shared=5, headroom=7)


# What is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: BufferSettings((1, 2), 100, 30, {3: GroupSettings(guaranteed=40)}),
            "guaranteed cells of all groups are 80, the headroom pool is 30, and the buffer has 100: "
            "10 cells are missing",
        ),
        (
            lambda: BufferSettings((1,), 100, 30, {3: GroupSettings(True, headroom=31)}),
            "port 1 priority 3: headroom is 31 cells and the headroom pool has 30: 1 cells are missing",
        ),
        (
            lambda: BufferSettings((1, 2), 100, 30, {3: GroupSettings(True, headroom=20)}),
            "headroom of all groups is 40 cells and the headroom pool has 30: 10 cells are missing; "
            "enlarge the pool, or set overbook_headroom, without a guarantee of no loss",
        ),
        (lambda: GroupSettings(guaranteed=-1), "guaranteed is -1; it is a whole number of cells, 0 to 2147483647"),
        (lambda: Static(-1), "static threshold is -1; it is a whole number of cells, 0 to 2147483647"),
        (
            lambda: BufferSettings((1,), 2**31, 0),
            "total is 2147483648; it is a whole number of cells, 0 to 2147483647",
        ),
        (lambda: Dynamic(0), "alpha is 0; it is a fraction above 0 such as '1/8', with terms up to 65535"),
        (lambda: Dynamic("-1/2"), "alpha is '-1/2'; it is a fraction above 0 such as '1/8', with terms up to 65535"),
        (lambda: Dynamic(0.5), "alpha is 0.5; it is a fraction above 0 such as '1/8', with terms up to 65535"),  # type: ignore[arg-type]
        (lambda: Dynamic("1/0"), "alpha is '1/0'; it is a fraction above 0 such as '1/8', with terms up to 65535"),
        (
            lambda: Dynamic.percent(0),
            "percentage is 0; it is a fraction above 0 such as '1/8', with terms up to 65535",
        ),
        (
            lambda: BufferSettings((1,), 100, 0, {8: GroupSettings()}),
            "priority 8 does not exist; there are 0 to 7",
        ),
        (
            lambda: BufferSettings((1, 2), 100, 0, groups={(3, 3): GroupSettings()}),
            "port 3 is not one of this buffer's: 1, 2",
        ),
        (
            lambda: BufferSettings((1, 1), 100, 0),
            "ports are (1, 1); name at least one, each by a number of its own",
        ),
        (lambda: BufferSettings((1,), 100, 0, cell_bytes=0), "cell_bytes is 0; a cell has 1 to 65535 bytes"),
        (
            lambda: GroupSettings(headroom=5),
            "headroom is 5 cells, but the priority is lossy and never uses any; "
            "make it lossless, or leave headroom at 0",
        ),
        (
            lambda: GroupSettings(True, threshold=Static(10), xon_offset=11),
            "xon_offset is 11 cells, more than the static threshold of 10; use can never fall that far below it",
        ),
        (lambda: GroupSettings(threshold=7), "7 is not a threshold; write Static(cells) or Dynamic(alpha)"),  # type: ignore[arg-type]
        (lambda: split_evenly(10, ()), "a reserve cannot be split over no ports; name at least one"),
        (lambda: switch(GroupSettings()).admit(1, 8, 64), "priority 8 does not exist; there are 0 to 7"),
        (lambda: switch(GroupSettings()).admit(3, 1, 64), "port 3 is not one of this buffer's: 1, 2"),
        (lambda: switch(GroupSettings()).admit(1, 1, 0), "a frame of 0 bytes is invalid; it has at least 1"),
        (
            lambda: switch(GroupSettings()).release(1, 1, 300),
            "port 1 priority 1: 2 cells were to be released, but its 0 frames hold 0; "
            "each admitted frame is released once, with the length it was admitted with",
        ),
    ],
)
def test_invalid_values_are_refused_with_the_numbers(make: Any, message: str) -> None:
    with pytest.raises(BufferModelError) as refused:
        make()
    assert str(refused.value) == message


def test_a_frame_is_not_released_twice_even_if_cells_of_it_are_left() -> None:
    model = switch(lossless(Static(50)))
    model.admit(1, LOSSLESS, 1500)
    model.release(1, LOSSLESS, CELL)
    with pytest.raises(BufferModelError) as refused:
        model.release(1, LOSSLESS, CELL)
    assert str(refused.value) == (
        "port 1 priority 3: 1 cells were to be released, but its 0 frames hold 7; "
        "each admitted frame is released once, with the length it was admitted with"
    )


def test_a_snapshot_is_plain_data_and_has_the_whole_story() -> None:
    model = switch(lossless(Static(8), headroom=10, guaranteed=1), total=100)
    for _ in range(3):
        model.admit(1, LOSSLESS, 1500)
    model.release(1, LOSSLESS, 1500)
    nothing = {"frames": 0, "cells": 0}
    snapshot = model.snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert snapshot == {
        "cell_bytes": 208,
        "buffer": {"size": 100, "used": 8, "high_water": 16},
        "guaranteed": {"size": 2, "used": 1, "high_water": 1},
        "shared": {"size": 78, "used": 7, "high_water": 7},
        "headroom": {"size": 20, "used": 0, "high_water": 8},
        "missing_headroom": 0,
        "groups": [
            {
                "port": 1,
                "priority": 3,
                "lossless": True,
                "xoff": False,
                "threshold": 8,
                "used": {"guaranteed": 1, "shared": 7, "headroom": 0},
                "high_water": {"guaranteed": 1, "shared": 7, "headroom": 8, "total": 16},
                "admitted": {"frames": 2, "cells": 16},
                "released": {"frames": 1, "cells": 8},
                "dropped": {
                    "headroom": {"frames": 1, "cells": 8},
                    "headroom pool": nothing,
                    "threshold": nothing,
                    "shared pool": nothing,
                    "queue threshold": nothing,
                    "egress pool": nothing,
                },
                "xoffs": 1,
                "xons": 1,
            }
        ],
    }


# XON at a number of cells, pools, and queues of egress ports


def test_xon_resumes_a_group_whatever_its_threshold_is() -> None:
    """With an offset larger than the threshold only an empty group would resume, and with xon one of 5 cells does."""
    group = GroupSettings(True, 2, Dynamic("1/10"), xon_offset=500, headroom=50, xon=5)
    model = switch(group)
    fill(model, 100)
    while model.used(1, LOSSLESS).total > 6:
        assert model.release(1, LOSSLESS, CELL).signal is None
    assert model.release(1, LOSSLESS, CELL).signal is Signal.XON
    assert model.used(1, LOSSLESS) == Cells(guaranteed=2, shared=3)


def test_groups_of_one_ingress_pool_take_nothing_of_another() -> None:
    lossy = GroupSettings(threshold=Static(1000), pool=1)
    settings = BufferSettings((1, 2), 100, None, dict.fromkeys(range(8), lossy), more_pools=(Pool(30),))
    settings = replace(settings, groups={(1, LOSSLESS): lossless(Static(100))})
    model = BufferModel(settings)
    for _ in range(30):
        model.admit(1, LOSSY, CELL)
    assert model.admit(2, 5, CELL).dropped is DropReason.SHARED_POOL
    fill(model, 100)
    found = model.snapshot()
    assert (found["shared"]["used"], found["more_pools"][0]["shared"]["used"]) == (100, 30)


def egress(queue: QueueSettings, size: int = 40) -> BufferModel:
    both = {(2, LOSSY): queue, (2, LOSSLESS): queue}
    return BufferModel(
        BufferSettings((1, 2), 1000, None, {LOSSLESS: lossless(Static(500), 100)}, egress_pools=(size,), queues=both)
    )


def test_a_queue_drops_beyond_its_threshold_and_the_ingress_group_is_as_it_was() -> None:
    model = egress(QueueSettings(reserved=3, threshold=Static(10)))
    for _ in range(13):
        assert model.admit(1, LOSSLESS, CELL, (2, LOSSLESS)).dropped is None
    before = model.used(1, LOSSLESS)
    refused = model.admit(1, LOSSLESS, CELL, (2, LOSSLESS))
    assert (refused.dropped, refused.signal) == (DropReason.QUEUE_THRESHOLD, None)
    assert model.used(1, LOSSLESS) == before
    assert model.admit(1, LOSSLESS, CELL, (1, LOSSLESS)).dropped is None, "this queue has no limit"
    model.release(1, LOSSLESS, CELL, (2, LOSSLESS))
    assert model.admit(1, LOSSLESS, CELL, (2, LOSSLESS)).dropped is None


def test_queues_share_an_egress_pool_by_alpha() -> None:
    """alpha 1 and one queue: half of the pool; two queues: a third each."""
    model = egress(QueueSettings(threshold=Dynamic.power(0)), size=60)
    dropped = [model.admit(1, LOSSY, CELL, (2, LOSSY)).dropped for _ in range(31)]
    assert dropped == [None] * 30 + [DropReason.QUEUE_THRESHOLD]
    big = egress(QueueSettings(threshold=Dynamic.power(8)), size=60)
    dropped = [big.admit(1, LOSSY, CELL, (2, LOSSY)).dropped for _ in range(61)]
    assert dropped == [None] * 60 + [DropReason.EGRESS_POOL]


def test_a_watermark_that_is_read_and_cleared_begins_with_what_is_in_use() -> None:
    model = egress(QueueSettings(threshold=Static(100)), size=200)
    for _ in range(20):
        model.admit(1, LOSSLESS, CELL, (2, LOSSLESS))
    for _ in range(15):
        model.release(1, LOSSLESS, CELL, (2, LOSSLESS))
    for clear, total in ((False, 20), (True, 20), (True, 5)):
        found = (
            model.group_watermark(1, LOSSLESS, clear),
            model.queue_watermark(2, LOSSLESS, clear),
            model.pool_watermark(0, False, clear),
            model.pool_watermark(0, True, clear),
        )
        assert [one.total for one in found] == [total] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"more_pools": (Pool(9),) * 4}, "there are 5 ingress pools; at most 4 are possible"),
        ({"groups": {(1, 3): GroupSettings(pool=1)}}, "port 1 priority 3: there is no ingress pool 1; the last is 0"),
        ({"queues": {(1, 3): QueueSettings()}}, "port 1 queue 3: there is no egress pool 0"),
        (
            {"egress_pools": (4,), "queues": {(1, 3): QueueSettings(reserved=5)}},
            "reserved cells of all queues of egress pool 0 are 5, and it has 4: 1 cells are missing",
        ),
    ],
)  # fmt: skip
def test_pools_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BufferModelError, match=f"^{message}$"):
        BufferSettings((1, 2), 1000, None, **change)


def test_alpha_is_a_power_of_two_on_chips_and_a_threshold_in_bytes_rounds_down() -> None:
    assert [Dynamic.power(n).alpha for n in (-8, 0, 8)] == [Fraction(1, 256), 1, 256]
    assert (Dynamic("1/4").exponent, Dynamic("1/3").exponent) == (-2, None)
    assert Static.of_bytes(1000, 208) == Static(4) and Static.of_bytes(1000, 1) == Static(1000)
    with pytest.raises(BufferModelError, match=r"2\^9 is not an alpha of a chip; the power is -8 to 8"):
        Dynamic.power(9)


# All rules at once


thresholds = st.one_of(
    st.integers(0, 60).map(Static), st.fractions(Fraction(1, 16), 8, max_denominator=16).map(Dynamic)
)


@st.composite
def group_settings(draw: st.DrawFn) -> GroupSettings:
    pfc = draw(st.booleans())
    threshold = draw(thresholds)
    most = threshold.cells if isinstance(threshold, Static) else 20
    return GroupSettings(
        pfc,
        draw(st.integers(0, 12)),
        threshold,
        draw(st.integers(0, most)),
        draw(st.integers(0, 40)) if pfc else 0,
    )


buffer_settings = st.builds(
    BufferSettings,
    ports=st.just((1, 2)),
    total=st.integers(300, 340),
    headroom_pool=st.one_of(st.none(), st.integers(40, 200)),
    priorities=st.fixed_dictionaries({0: group_settings(), 3: group_settings()}),
    groups=st.dictionaries(st.just((2, 3)), group_settings()),
    overbook_headroom=st.just(True),
)


class Switch(RuleBasedStateMachine):
    """A switch whose frames come and go in any order and whose settings change; the content is counted from outside
    too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.model = BufferModel(BufferSettings((1, 2), 100, 20, {3: GroupSettings(True, 2, Static(10), 4, 10)}))
        self.inside: list[tuple[int, int, int]] = []
        self.dropped = 0
        self.xoff: set[tuple[int, int]] = set()

    def note(self, key: tuple[int, int], signal: Signal | None) -> None:
        """Check that XOFF and XON take turns, and that the model's state is that of its last signal."""
        if signal is not None:
            assert (signal is Signal.XON) == (key in self.xoff)
            self.xoff ^= {key}
        assert self.model.is_xoff(*key) == (key in self.xoff)

    @rule(port=st.sampled_from((1, 2)), priority=st.sampled_from((0, 3)), length=st.integers(1, 9216))
    def frame_arrives(self, port: int, priority: int, length: int) -> None:
        group = self.model.settings.group(port, priority)
        cells = self.model.settings.cells(length)
        pool = self.model.snapshot()["headroom"]
        before = self.model.used(port, priority)
        spare = min(group.headroom - before.headroom, pool["size"] - pool["used"])
        was_xoff = self.model.is_xoff(port, priority)
        result = self.model.admit(port, priority, length)
        self.note((port, priority), result.signal)
        if result.dropped is None:
            assert result.cells.total == cells
            self.inside.append((port, priority, length))
        else:
            assert result.cells == Cells()
            self.dropped += 1
            assert not (group.lossless and spare >= cells)  # lossless never drops while headroom suffices
            lossless_reasons = (DropReason.HEADROOM, DropReason.HEADROOM_POOL)
            assert (result.dropped in lossless_reasons) == group.lossless
        if was_xoff or result.signal:
            assert group.lossless
            assert result.cells.guaranteed == result.cells.shared == 0

    @rule(port=st.sampled_from((1, 2)), priority=st.sampled_from((0, 3)), count=st.integers(1, 60))
    def small_frames_arrive(self, port: int, priority: int, count: int) -> None:
        for _ in range(count):
            self.frame_arrives(port, priority, CELL)

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def frame_leaves(self, data: st.DataObject) -> None:
        port, priority, length = self.inside.pop(data.draw(st.integers(0, len(self.inside) - 1)))
        result = self.model.release(port, priority, length)
        assert result.cells.total == self.model.settings.cells(length)
        self.note((port, priority), result.signal)

    @rule()
    def all_leave(self) -> None:
        while self.inside:
            port, priority, length = self.inside.pop()
            self.note((port, priority), self.model.release(port, priority, length).signal)
        for key in sorted(self.xoff):
            self.note(key, self.model.recheck(*key))
        assert not self.xoff

    @rule(port=st.sampled_from((1, 2)))
    def pause_is_repeated(self, port: int) -> None:
        self.note((port, 3), self.model.recheck(port, 3))

    @rule(settings=buffer_settings)
    def settings_change(self, settings: BufferSettings) -> None:
        before = self.model.snapshot()
        try:
            resumed = self.model.configure(settings)
        except BufferBusyError:
            assert self.model.snapshot() == before
            return
        for group in resumed:
            self.note((group.port, group.priority), Signal.XON)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        snapshot = self.model.snapshot()
        pools = [snapshot[name] for name in ("guaranteed", "shared", "headroom")]
        assert all(0 <= pool["used"] <= pool["size"] for pool in [*pools, snapshot["buffer"]])
        assert sum(pool["size"] for pool in pools) == snapshot["buffer"]["size"]
        assert snapshot["buffer"]["used"] == sum(self.model.settings.cells(length) for _, _, length in self.inside)
        for name in ("guaranteed", "shared", "headroom"):
            assert snapshot[name]["used"] == sum(group["used"][name] for group in snapshot["groups"])
        for group in snapshot["groups"]:
            key = group["port"], group["priority"]
            assert min(group["used"].values()) >= 0
            assert group["used"]["guaranteed"] <= self.model.settings.group(*key).guaranteed
            assert sum(group["used"].values()) == group["admitted"]["cells"] - group["released"]["cells"]
            assert group["xoffs"] - group["xons"] == (key in self.xoff)
            assert all(group["high_water"][name] >= cells for name, cells in group["used"].items())
        assert self.dropped == sum(
            reason["frames"] for group in snapshot["groups"] for reason in group["dropped"].values()
        )


Switch.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
TestEveryHistory = pytest.mark.slow(Switch.TestCase)


def test_checking_a_large_switch_looks_at_its_groups_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    all_groups = BufferSettings.all_groups
    monkeypatch.setattr(BufferSettings, "all_groups", lambda self: looks.append(1) or all_groups(self))
    group = GroupSettings(lossless=True, threshold=Static(10), headroom=10)
    BufferSettings(tuple(range(64)), 10_000, None, groups={(port, 3): group for port in range(64)})
    assert len(looks) <= 10
