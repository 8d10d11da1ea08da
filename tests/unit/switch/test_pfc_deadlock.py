"""Circles of paused queues: found if nothing can resume them, and never otherwise."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from testbed.linux.port_program import GroupLimits
from testbed.net.fabric.deadlocks import remaining, stays_congested
from testbed.net.fabric.switch_buffer import group_limits
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings, Static
from testbed.switch.pfc.deadlock import DeadlockWatch, Place, Waits, deadlocks, stuck


def with_any_cell(group: Place, left: Mapping[Place, int]) -> bool:
    """Return True for a group that holds any cell."""
    return left[group] > 0


def ring(*queues: Place, cells: int = 1) -> Waits:
    """Return queues, each of which is paused by a group that lies in the next one; groups have the numbers of queues
    and 100.
    """
    groups = {queue: (queue[0] + 100, queue[1]) for queue in queues}
    following = dict(zip(queues, queues[1:] + queues[:1], strict=True))
    return Waits(
        {queue: {group} for queue, group in groups.items()},
        {group: {following[queue]: cells} for queue, group in groups.items()},
        with_any_cell,
    )


A, B, C, D = (1, 3), (2, 3), (3, 3), (4, 3)


def test_queues_that_wait_for_each_other_in_a_circle_are_a_deadlock_in_the_order_of_waiting() -> None:
    assert deadlocks(ring(C, A, B)) == [(A, B, C)]
    assert deadlocks(ring(A, C, B)) == [(A, C, B)]


def test_a_chain_that_ends_at_a_free_queue_is_none() -> None:
    waits = ring(A, B, C)
    held = {**waits.held, (103, 3): {D: 1}}
    assert deadlocks(Waits(waits.paused, held, with_any_cell)) == []


def test_a_chain_that_ends_at_a_host_that_pauses_is_none_however_long_it_pauses() -> None:
    waits = ring(A, B, C)
    paused = {**waits.paused, D: set[Place]()}
    held = {**waits.held, (103, 3): {D: 9}}
    assert deadlocks(Waits(paused, held, with_any_cell)) == []


def test_queues_that_wait_for_a_circle_are_stuck_and_not_part_of_it() -> None:
    waits = ring(A, B)
    paused = {**waits.paused, C: {(103, 3)}}
    held = {**waits.held, (103, 3): {A: 1}}
    together = Waits(paused, held, with_any_cell)
    assert deadlocks(together) == [(A, B)]
    assert stuck(together) == {A, B, C}


def test_a_group_that_resumes_when_others_have_left_breaks_the_circle() -> None:
    waits = ring(A, B, cells=5)
    held = {**waits.held, (101, 3): {B: 5, D: 4}}  # 4 more cells, in a queue that sends

    def above(cells: int) -> Waits:
        return Waits(waits.paused, held, lambda group, left: left[group] > cells)

    assert deadlocks(above(4)) == [(A, B)]
    assert deadlocks(above(5)) == []


def test_a_queue_that_two_priorities_pause_resumes_only_if_both_do() -> None:
    waits = ring(A, B)
    free = (109, 4)
    paused = {**waits.paused, A: {(101, 3), free}}
    held = {**waits.held, free: {D: 1}}
    assert deadlocks(Waits(paused, held, with_any_cell)) == [(A, B)]


def test_circles_that_share_a_queue_are_one_deadlock_and_others_are_more() -> None:
    one, other = ring(A, B), ring(C, D)
    both = Waits({**one.paused, **other.paused}, {**one.held, **other.held}, with_any_cell)
    assert deadlocks(both) == [(A, B), (C, D)]
    shared = Waits(both.paused, {**both.held, (102, 3): {A: 1, C: 1}, (104, 3): {C: 1, A: 1}}, with_any_cell)
    assert deadlocks(shared) == [(A, B)]


PLACES = st.tuples(st.integers(0, 5), st.integers(0, 1))
RELATIONS = st.tuples(
    st.dictionaries(PLACES, st.sets(PLACES, max_size=2), max_size=8),
    st.dictionaries(PLACES, st.dictionaries(PLACES, st.integers(1, 9), min_size=1, max_size=3), max_size=8),
    st.dictionaries(PLACES, st.integers(0, 12), max_size=8),
)


@given(RELATIONS, st.randoms(use_true_random=False))
def test_what_is_stuck_is_what_no_order_of_sending_resumes(
    relations: tuple[dict[Place, set[Place]], dict[Place, dict[Place, int]], dict[Place, int]], chance: random.Random
) -> None:
    paused, held, limit = relations
    paused = {queue: {group for group in groups if group in held} for queue, groups in paused.items()}
    waits = Waits(paused, held, lambda group, left: left[group] > limit.get(group, 0))

    # Frames leave in some order, from queues that are not paused, or that a host or a relieved group lets go.
    cells = {(group, queue): count for group, queues in held.items() for queue, count in queues.items()}
    standing = {queue: set(groups) for queue, groups in paused.items()}
    while True:
        total = {group: sum(count for (of, _), count in cells.items() if of == group) for group in held}
        for groups in standing.values():
            groups -= {group for group in groups if total[group] <= limit.get(group, 0)}
        moves = [key for key in cells if not standing.get(key[1])]
        if not moves:
            break
        key = chance.choice(moves)
        cells[key] -= 1
        if not cells[key]:
            del cells[key]
    assert stuck(waits) == {queue for queue, groups in standing.items() if groups}


@given(RELATIONS)
def test_each_deadlock_is_a_circle_and_there_is_one_if_anything_is_stuck(
    relations: tuple[dict[Place, set[Place]], dict[Place, dict[Place, int]], dict[Place, int]],
) -> None:
    paused, held, limit = relations
    paused = {queue: {group for group in groups if group in held} for queue, groups in paused.items()}
    waits = Waits(paused, held, lambda group, left: left[group] > limit.get(group, 0))
    found = deadlocks(waits)
    assert bool(found) == bool(stuck(waits))
    for circle in found:
        assert len(set(circle)) == len(circle)
        assert circle[0] == min(circle)
        for queue, following in zip(circle, circle[1:] + circle[:1], strict=True):
            assert any(held[group].get(following) for group in paused[queue])
    assert len({queue for circle in found for queue in circle}) == sum(map(len, found))


# What buffers do when others leave


GROUPS = st.builds(
    GroupSettings,
    lossless=st.just(True),
    guaranteed=st.integers(0, 6),
    threshold=st.sampled_from([Static(10), Dynamic("1/2")]),
    xon_offset=st.integers(0, 10),
    headroom=st.just(30),
    xon=st.integers(0, 10),
)


@given(GROUPS, st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4)), min_size=1, max_size=60), st.data())
def test_whether_a_group_stays_congested_is_what_the_buffer_does_when_the_others_leave(
    group: GroupSettings, frames: list[tuple[int, int]], data: st.DataObject
) -> None:
    settings = BufferSettings((1, 2), 120, None, {3: group}, cell_bytes=1)
    model = BufferModel(settings)
    inside = {1: list[int](), 2: list[int]()}
    for port, length in frames:
        if model.admit(port, 3, length).dropped is None:
            inside[port].append(length)
    stays = {port: data.draw(st.integers(0, len(lengths))) for port, lengths in inside.items()}
    used = {}
    for port, lengths in inside.items():
        cells = model.used(port, 3)
        used[port] = remaining((cells.guaranteed, cells.shared, cells.headroom), sum(lengths[: stays[port]]))
    limits: GroupLimits = group_limits(group)
    free = max(0, settings.shared_cells - used[1][1] - used[2][1])
    expected = {port: model.is_xoff(port, 3) and stays_congested(limits, used[port], free) for port in (1, 2)}
    for port, lengths in inside.items():
        for length in lengths[stays[port] :]:
            model.release(port, 3, length)
    for port in (1, 2):
        model.recheck(port, 3)
    now = {port: model.used(port, 3) for port in (1, 2)}
    assert used == {port: (cells.guaranteed, cells.shared, cells.headroom) for port, cells in now.items()}
    assert expected == {port: model.is_xoff(port, 3) for port in (1, 2)}


# From one look to the next


def test_a_deadlock_is_found_once_and_broken_when_a_queue_of_it_can_resume() -> None:
    watch, free = DeadlockWatch(), Waits({}, {}, with_any_cell)
    assert watch.look(free, 10) == ([], [])
    ((new,), _) = watch.look(ring(A, B), 20)
    assert (new.number, new.circle, new.since_ns) == (1, (A, B), 20)
    assert watch.look(ring(A, B), 30) == ([], [])
    assert watch.look(free, 40) == ([], [new])
    ((again,), _) = watch.look(ring(A, B), 50)
    assert again.number == 2


def test_a_deadlock_that_grows_is_the_same_and_another_one_is_new() -> None:
    watch = DeadlockWatch()
    one, other = ring(A, B), ring(C, D)
    watch.look(one, 10)
    grown = Waits({**one.paused, C: {(103, 3)}}, {**one.held, (103, 3): {A: 1}, (101, 3): {B: 1, C: 1}}, with_any_cell)
    assert watch.look(grown, 20) == ([], [])
    ((new,), broken) = watch.look(other, 30)
    assert new.circle == (C, D)
    assert [each.circle for each in broken] == [(A, B)]
