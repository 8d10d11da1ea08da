"""Policies for headroom: how much a switch sets aside, and when it pauses what. Numbers are computed by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from testbed.net.fabric.port import Buffer, PortNeeds
from testbed.switch.buffer.headroom import (
    DynamicSharedHeadroom,
    HeadroomPerGroup,
    HeadroomPolicy,
    HeadroomPolicyError,
    SharedHeadroomPool,
    policy_of,
)
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.settings import BufferModelError, BufferSettings, Dynamic, GroupSettings, Pool, Static
from testbed.switch.buffer.use import Cells, DropReason, Signal
from testbed.units import Duration, Rate

CELL = 208
ETA = 10


def group(**changes: Any) -> GroupSettings:
    settings: dict[str, Any] = {"lossless": True, "threshold": Static(30), "headroom": ETA}
    return GroupSettings(**settings | changes)


def switch(policy: HeadroomPolicy, total: int = 400, ports: tuple[int, ...] = (1, 2), **changes: Any) -> BufferModel:
    """Return a switch whose priorities 2, 3 and 4 are lossless, with a headroom of 10 cells each."""
    lossless = dict.fromkeys((2, 3, 4), group(**changes))
    return BufferModel(BufferSettings(ports, total, None, lossless, policy=policy))


def dsh(**changes: Any) -> BufferModel:
    return switch(DynamicSharedHeadroom(), **changes)


def fill(model: BufferModel, cells: int, priority: int = 3, port: int = 1) -> list[Signal | None]:
    """Let frames of one cell arrive, and return what each of them signals."""
    return [model.admit(port, priority, CELL).signal for _ in range(cells)]


@pytest.mark.parametrize(
    ("policy", "cells"),
    [
        (HeadroomPerGroup(), 2 * 3 * ETA),
        (SharedHeadroomPool(), 2 * 3 * ETA // 2),
        (SharedHeadroomPool(over_subscribe=7), 10),  # 60 / 7 is less than one group needs
        (SharedHeadroomPool(over_subscribe="5/2"), 24),
        (DynamicSharedHeadroom(), 2 * ETA),
    ],
)
def test_each_policy_sets_aside_as_much_headroom_as_it_promises(policy: HeadroomPolicy, cells: int) -> None:
    settings = switch(policy).settings
    assert settings.headroom_cells == cells
    assert settings.shared_cells == 400 - cells


def test_a_shared_headroom_pool_that_is_empty_drops_what_its_groups_could_hold() -> None:
    model = switch(SharedHeadroomPool(over_subscribe=6))  # the pool has the 10 cells of one group
    for port in (1, 2):
        fill(model, 30 + 6, port=port)
    assert model.used(1, 3) == Cells(0, 30, 6) and model.used(2, 3) == Cells(0, 30, 4)
    assert model.admit(2, 3, CELL).dropped is DropReason.HEADROOM_POOL


def test_dsh_pauses_a_group_by_its_headroom_earlier_and_what_is_in_flight_finds_shared_cells() -> None:
    model = dsh()
    assert fill(model, 20) == [None] * 20
    assert fill(model, 1) == [Signal.XOFF]  # T - eta is 20
    assert model.used(1, 3) == Cells(0, 21, 0)
    assert fill(model, 9) == [None] * 9
    assert model.used(1, 3) == Cells(0, 30, 0) and not model.snapshot()["ports"][0]["paused"]


def test_dsh_pauses_the_port_when_its_groups_hold_n_thresholds_and_headroom_is_the_ports() -> None:
    model = dsh()
    for priority in (2, 3):
        fill(model, 45, priority)  # N x T = 90, of which each of two groups has a half
    found = model.admit(1, 4, CELL)
    assert (found.cells, found.signal, found.others) == (Cells(headroom=1), Signal.XOFF, ())  # 2 and 3 were paused
    port = model.snapshot()["ports"][0]
    assert (port["paused"], port["used_shared"], port["used_headroom"], port["headroom"]) == (True, 90, 1, ETA)
    for priority in (2, 3, 4):
        assert all(model.admit(1, priority, CELL).dropped is None for _ in range(3))
    assert model.admit(1, 2, CELL).dropped is DropReason.HEADROOM  # 10 cells for all groups of the port
    assert model.snapshot()["headroom"]["used"] == ETA


def test_a_port_that_is_paused_stops_groups_that_hold_nothing_and_they_resume_with_it() -> None:
    model = dsh()
    fill(model, 90, 3)
    found = model.admit(1, 3, CELL)
    assert (found.signal, found.others) == (None, (2, 4))  # group 3 was paused at 21 cells
    assert model.is_xoff(1, 2) and model.is_xoff(1, 4) and not model.is_xoff(2, 3)
    released = model.release(1, 3, CELL)
    assert (released.cells, released.signal, released.others) == (Cells(headroom=1), None, (2, 4))
    assert model.is_xoff(1, 3) and not model.is_xoff(1, 2)  # group 3 holds 90, and resumes at 20
    signals = [model.release(1, 3, CELL).signal for _ in range(70)]
    assert signals == [None] * 69 + [Signal.XON] and model.used(1, 3).shared == 20


def test_dsh_port_resumes_by_the_offset_of_all_its_groups() -> None:
    model = dsh(xon_offset=5)
    fill(model, 91, 3)
    released = [model.release(1, 3, CELL).others for _ in range(16)]  # from 90 down to 90 - 3 x 5
    assert released == [()] * 15 + [(2, 4)]


def test_a_recheck_resumes_a_port_and_only_the_group_that_it_asks_about() -> None:
    model = dsh(threshold=Dynamic(Fraction(1, 3)), total=110)  # 90 shared cells, T is a third of the free ones
    fill(model, 46, 2, port=2)
    fill(model, 25, 3)  # 22 shared cells: one more would be 23, and 3 x T is 21
    assert model.snapshot()["ports"][0]["paused"]
    while model.used(1, 3).headroom:
        model.release(1, 3, CELL)
    assert model.recheck(1, 4) is None  # port 1 holds more than 3 x T
    for _ in range(46):
        model.release(2, 2, CELL)
    assert model.recheck(1, 4) is Signal.XON
    assert model.is_xoff(1, 2)
    assert model.recheck(1, 2) is Signal.XON


def test_a_frame_of_a_lossy_priority_keeps_its_rules_and_does_not_count_for_the_port() -> None:
    model = dsh()
    for _ in range(300):
        model.admit(1, 0, CELL)
    assert model.snapshot()["ports"][0]["used_shared"] == 0
    assert model.used(1, 0).headroom == 0 and not model.is_xoff(1, 0)


def test_settings_that_change_in_use_leave_the_ports_sums_right() -> None:
    model = dsh()
    fill(model, 40, 3)
    fill(model, 40, 4)
    fewer = BufferSettings((1, 2), 400, None, dict.fromkeys((2, 3), group(headroom=20)), policy=DynamicSharedHeadroom())
    model.configure(fewer)
    port = model.snapshot()["ports"][0]
    assert (port["groups"], port["headroom"], port["used_shared"]) == (2, 20, 40)  # group 4 is lossy now
    assert not model.is_xoff(1, 4)
    with pytest.raises(BufferModelError, match="nor whether ports are paused as a whole"):
        model.configure(BufferSettings((1, 2), 400, None, dict.fromkeys((2, 3), group())))


def test_dsh_with_the_published_numbers_has_an_eighth_of_the_headroom() -> None:
    eta, ports, lossless = 56840, tuple(range(32)), range(1, 8)  # 32 ports of 100 Gb/s, 7 lossless queues, 16 MB
    sizes = {
        policy.name: BufferSettings(
            ports, 16_000_000, None, dict.fromkeys(lossless, group(headroom=eta, threshold=Dynamic("1/16"))),
            cell_bytes=1, policy=policy,
        )
        for policy in (HeadroomPerGroup(), DynamicSharedHeadroom())
    }  # fmt: skip
    assert sizes["per group"].headroom_cells == 56840 * 32 * 7 == 12_732_160
    assert sizes["dsh"].headroom_cells == 56840 * 32 == 1_818_880


def test_the_lossless_groups_of_a_port_have_to_be_in_one_pool() -> None:
    groups = {(1, 3): group(), (1, 4): group(pool=1)}
    with pytest.raises(BufferModelError, match=r"port 1 priority 4 is in pool 1, and another .* in pool 0"):
        BufferSettings((1,), 200, None, groups=groups, more_pools=(Pool(200),), policy=DynamicSharedHeadroom())


NEEDS = {number: PortNeeds(frozenset({3, 4}), Rate("10Mb/s"), Duration("0s")) for number in (1, 2)}


@pytest.mark.parametrize(
    ("headroom", "cells", "pool"),
    [
        (20, 20, 80),
        ("shared pool", None, None),
        (SharedHeadroomPool(20, over_subscribe=4), 20, 20),
        (DynamicSharedHeadroom(20), 20, 40),
    ],
)
def test_a_buffer_takes_cells_a_word_or_a_policy(headroom: Any, cells: int | None, pool: int | None) -> None:
    settings = Buffer(headroom=headroom).settings(NEEDS)
    own = settings.group(1, 3).headroom
    assert own == (cells or Buffer().settings(NEEDS).group(1, 3).headroom)
    assert settings.headroom_cells == (pool or 2 * own)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("dhs", "headroom is 'dhs'; write a number of cells, or one of 'per group', 'shared pool', 'dsh'"),
        (1.5, "headroom is 1.5; write a number"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(value: Any, message: str) -> None:
    with pytest.raises(HeadroomPolicyError, match=f"^{message}"):
        Buffer(headroom=value)
    with pytest.raises(HeadroomPolicyError):
        policy_of(value)


@pytest.mark.parametrize("policy", [SharedHeadroomPool, DynamicSharedHeadroom])
def test_nothing_can_be_shared_of_no_headroom(policy: type[HeadroomPolicy]) -> None:
    with pytest.raises(HeadroomPolicyError, match=f"^cells is 0, the headroom of each group, so {policy.__name__} "):
        policy(0)
    assert HeadroomPerGroup(0).cells == 0


@pytest.mark.parametrize("ratio", [0, "1/2", 1.5, "x", None])
def test_a_ratio_below_one_is_refused(ratio: Any) -> None:
    with pytest.raises(HeadroomPolicyError, match="over_subscribe is"):
        SharedHeadroomPool(over_subscribe=ratio)
