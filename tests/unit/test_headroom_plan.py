"""One pool for bridge buffer and headroom: the arithmetic, and that a buffer that is set so loses nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.buffer.model import BufferModel, Signal
from testbed.buffer.settings import BufferBusyError, BufferSettings, GroupSettings, Static
from testbed.headroom.calculation import Headroom, HeadroomError, HeadroomPort, adaptive, read_alpha
from testbed.headroom.plan import Demand, Plan, Share, divide
from testbed.headroom.vendor import SHIPPED
from testbed.units import Duration, Length, Rate

CELL = 208
FRAME = 10  # the cells of a frame of 2000 bytes

keys = st.tuples(st.integers(1, 5), st.integers(0, 7))
demands = st.lists(keys, unique=True, max_size=8).flatmap(
    lambda found: st.tuples(
        *(st.builds(Demand, st.just(p), st.just(q), st.integers(0, 500), st.integers(1, 50)) for p, q in found)
    )
)
pools = st.integers(0, 3000)

SMALL = tuple(Demand(port, priority, 0, 1) for port, priority in ((1, 1), (1, 2), (1, 3), (1, 4), (2, 0), (2, 1)))


def lossless(plan: Plan) -> set[tuple[int, int]]:
    return {(share.port, share.priority) for share in plan.shares if share.lossless}


def as_settings(plan: Plan, ports: tuple[int, ...]) -> BufferSettings:
    """What an agent tells the buffer; the two packages know nothing of each other."""
    groups = {
        (share.port, share.priority): GroupSettings(True, 0, Static(share.xoff), 0, share.headroom)
        for share in plan.shares
        if share.lossless
    }
    return BufferSettings(ports, plan.pool, None, groups=groups, cell_bytes=CELL)


# The division


def test_what_headroom_does_not_need_is_bridge_buffer_in_even_parts() -> None:
    plan = divide(1000, [Demand(1, 3, 100, FRAME), Demand(2, 3, 300, FRAME)])
    assert plan == Plan(1000, (Share(1, 3, True, 110, 290), Share(2, 3, True, 310, 290)), ())
    assert (plan.headroom, plan.bridge) == (420, 580)


def test_a_shorter_cable_on_one_port_is_more_bridge_buffer_for_all() -> None:
    long, short = (divide(1000, [Demand(1, 3, 100, FRAME), Demand(2, 3, cells, FRAME)]) for cells in (300, 50))
    assert short.bridge - long.bridge == 250
    assert [new.xoff - old.xoff for new, old in zip(short.shares, long.shares, strict=True)] == [125, 125]


def test_the_three_ports_of_the_proposal_from_one_pool() -> None:
    """A vendor's default fits no cable; one that is large enough for all leaves less bridge buffer."""
    links = {1: ("10Gb/s", "5m", "50ns"), 2: ("25Gb/s", "500m", "5us"), 3: ("100Gb/s", "50km", "500us")}
    ports = {number: HeadroomPort(Rate(rate)) for number, (rate, _, _) in links.items()}
    fitted = {number: adaptive(ports[number], Duration(trip)).cells for number, (_, _, trip) in links.items()}
    default = {number: SHIPPED.headroom(ports[number], Length(m)).cells for number, (_, m, _) in links.items()}
    pool = 4 * fitted[3]

    def bridge(cells: dict[int, int]) -> tuple[int, int]:
        plan = divide(pool, [Demand(number, 3, needed, FRAME) for number, needed in cells.items()])
        return len(lossless(plan)), plan.bridge

    assert fitted[1] < default[1] < default[3] < fitted[3] // 100
    everywhere = dict.fromkeys(links, fitted[3])
    assert bridge(fitted)[0] == bridge(everywhere)[0] == 3
    assert bridge(fitted)[1] > 2 * bridge(everywhere)[1]


def test_cells_for_lossy_traffic_are_kept_out() -> None:
    plan = divide(1000, [Demand(1, 3, 100, FRAME)], lossy=200)
    assert plan.share(1, 3) == Share(1, 3, True, 110, 690)
    assert plan.bridge - plan.share(1, 3).xoff == 200


@given(pools, demands, st.integers(0, 3000))
def test_the_parts_never_exceed_the_pool_and_no_demand_is_cut(
    pool: int, wanted: tuple[Demand, ...], lossy: int
) -> None:
    lossy = min(lossy, pool)
    plan = divide(pool, wanted, lossy)
    assert sum(share.headroom + share.xoff for share in plan.shares) + lossy <= pool
    assert plan.headroom + plan.bridge == pool
    assert [(share.port, share.priority) for share in plan.shares] == sorted((d.port, d.priority) for d in wanted)
    by_key = {(demand.port, demand.priority): demand for demand in wanted}
    for share in plan.shares:
        demand = by_key[share.port, share.priority]
        if share.lossless:
            assert share.headroom == demand.headroom + demand.frame
            assert share.xoff >= demand.frame
        else:
            assert (share.headroom, share.xoff) == (0, 0)
    assert len(plan.refusals) == len(wanted) - len(lossless(plan))


@given(pools, demands, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_the_demands(
    pool: int, wanted: tuple[Demand, ...], randomness: random.Random
) -> None:
    shuffled = list(wanted)
    randomness.shuffle(shuffled)
    assert divide(pool, shuffled) == divide(pool, wanted)


@given(pools, demands, st.integers(1, 500))
def test_a_larger_pool_keeps_what_was_lossless_and_a_fitting_one_only_raises_thresholds(
    pool: int, wanted: tuple[Demand, ...], more: int
) -> None:
    small, large = divide(pool, wanted), divide(pool + more, wanted)
    assert lossless(small) <= lossless(large)
    if lossless(small) == lossless(large):
        assert all(new.xoff >= old.xoff for new, old in zip(large.shares, small.shares, strict=True))


@given(pools, demands.filter(bool), st.integers(1, 500))
def test_a_larger_need_never_makes_a_port_lossless_nor_gives_any_port_more_buffer(
    pool: int, wanted: tuple[Demand, ...], more: int
) -> None:
    first = wanted[0]
    raised = (Demand(first.port, first.priority, first.headroom + more, first.frame), *wanted[1:])
    before, after = divide(pool, wanted), divide(pool, raised)
    key = (first.port, first.priority)
    assert key in lossless(before) or key not in lossless(after)
    assert len(lossless(after)) <= len(lossless(before))
    if lossless(before) == lossless(after) and key in lossless(after):
        assert all(new.xoff <= old.xoff for new, old in zip(after.shares, before.shares, strict=True))


@given(pools, demands)
def test_no_choice_would_keep_more_groups_lossless(pool: int, wanted: tuple[Demand, ...]) -> None:
    needs = sorted(demand.needed for demand in wanted)
    possible = max(n for n in range(len(needs) + 1) if sum(needs[:n]) <= pool)
    assert len(lossless(divide(pool, wanted))) == possible


# Not enough


def test_too_small_a_pool_keeps_what_it_can_and_names_the_rest_with_the_numbers() -> None:
    wanted = [Demand(1, 3, 90, FRAME), Demand(2, 3, 700, FRAME), Demand(3, 3, 80, FRAME), Demand(3, 4, 900, FRAME)]
    plan = divide(800, wanted)
    assert lossless(plan) == {(1, 3), (3, 3)}
    assert plan.refusals == (
        "port 2 priority 3 is not lossless: it needs 720 cells (700 of headroom and 2 frames of 10), and of the pool's "
        "800 only 590 are left; 130 are missing; enlarge the pool, shorten the cable, or turn PFC off elsewhere",
        "port 3 priority 4 is not lossless: it needs 920 cells (900 of headroom and 2 frames of 10), and of the pool's "
        "800 only 590 are left; 330 are missing; enlarge the pool, shorten the cable, or turn PFC off elsewhere",
    )
    assert divide(800 + 130, wanted[:3]).refusals == ()  # the number is exact
    assert divide(800 + 129, wanted[:3]).refusals != ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: divide(-1, []), "pool is -1; it is a whole number of cells"),
        (lambda: divide(10, [], 2.5), "lossy is 2.5; it is a whole number of cells"),  # type: ignore[arg-type]
        (lambda: divide(10, [], 11), "11 cells are to be kept for lossy traffic, and the pool has 10"),
        (lambda: divide(10, [Demand(1, 8, 1, 1)]), "port 1 priority 8: there are priorities 0 to 7"),
        (lambda: divide(10, [Demand(1, 3, 1, 1)] * 2), "port 1 priority 3 has two demands; give one for each"),
        (
            lambda: divide(10, [Demand(1, 3, -1, 1)]),
            "port 1 priority 3: headroom is -1; it is a whole number of cells",
        ),
        (
            lambda: divide(10, [Demand(1, 3, 1, 0)]),
            "port 1 priority 3: a frame of 0 cells is invalid; it has at least 1",
        ),
        (lambda: divide(10, []).share(1, 3), "port 1 priority 3 is not in this plan; it asked for nothing"),
    ],
)
def test_an_invalid_plan_is_refused(make: Any, message: str) -> None:
    with pytest.raises(HeadroomError) as caught:
        make()
    assert str(caught.value) == message


# With the buffer model


def losses_after_xoff(needed: Headroom, plan: Plan, lengths: Any) -> int:
    """Fill port 1 priority 3 until PAUSE is due, then let come in all that the delay value allows; frames lost."""
    model = BufferModel(as_settings(plan, (1,)))
    while model.admit(1, 3, next(lengths)).signal is not Signal.XOFF:
        pass
    assert sum(model.snapshot()["groups"][0]["dropped"]["headroom"].values()) == 0
    left = needed.delay_value
    while (left := left - 8 * ((length := next(lengths)) + 20)) >= 0:
        model.admit(1, 3, length)
    (group,) = model.snapshot()["groups"]
    return sum(dropped["frames"] for dropped in group["dropped"].values())


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gbps=st.sampled_from([1, 10, 100]),
    trip_ns=st.integers(0, 50_000),
    shortest=st.integers(64, 1500),
    longest=st.integers(1500, 9000),
)
def test_computed_headroom_loses_nothing_of_any_mix_of_frames(
    seed: int, gbps: int, trip_ns: int, shortest: int, longest: int
) -> None:
    randomness = random.Random(seed)
    kinds = [shortest, longest, *(randomness.randint(shortest, longest) for _ in range(3))]
    port = HeadroomPort(Rate.from_bps(gbps * 10**9), longest, shortest)
    needed = adaptive(port, Duration.from_ns(trip_ns))
    frame = -(-longest // CELL)
    plan = divide(needed.cells + 10 * frame, [Demand(1, 3, needed.cells, frame)])
    assert losses_after_xoff(needed, plan, iter(lambda: randomness.choice(kinds), None)) == 0


def test_without_the_frame_that_finds_the_threshold_headroom_would_be_short_by_it() -> None:
    """Decision 0115. Frames of 2000 B, and a delay value that is a whole number of them and of one PFC frame."""
    port = HeadroomPort(Rate("10Gb/s"), 2000, 2000, given_alpha=read_alpha("2080/2020"))
    needed = adaptive(port, Duration.from_ps((20 * 16160 - 672) * 100))
    assert (needed.delay_value, needed.cells) == (22 * 16160, 220)
    plan = divide(1000, [Demand(1, 3, needed.cells, FRAME)])
    assert plan.share(1, 3).headroom == 230
    assert losses_after_xoff(needed, plan, iter(lambda: 2000, None)) == 0
    (share,) = plan.shares
    shorter = Plan(plan.pool, (Share(1, 3, True, needed.cells, share.xoff),), ())
    assert losses_after_xoff(needed, shorter, iter(lambda: 2000, None)) == 1


@pytest.mark.parametrize("short_by", [1, 3, 10])
def test_headroom_that_is_short_by_some_frames_loses_as_many(short_by: int) -> None:
    port = HeadroomPort(Rate("10Gb/s"), 2000, 2000, given_alpha=read_alpha("2080/2020"))
    needed = adaptive(port, Duration.from_ps((20 * 16160 - 672) * 100))
    plan = divide(1000, [Demand(1, 3, needed.cells - short_by * FRAME, FRAME)])
    assert losses_after_xoff(needed, plan, iter(lambda: 2000, None)) == short_by


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), pool=st.integers(400, 1500), first=demands.filter(bool), second=demands)
@example(0, 402, (Demand(3, 2, 0, 40), Demand(1, 0, 0, 14), *SMALL), (Demand(3, 2, 0, 1),)).via("what others gave up")
def test_plans_can_be_changed_while_the_buffer_is_in_use_and_nothing_is_lost(
    seed: int, pool: int, first: tuple[Demand, ...], second: tuple[Demand, ...]
) -> None:
    """Senders obey PAUSE at once here, so that every loss would be the change's own."""
    randomness = random.Random(seed)
    ports = tuple(range(1, 6))
    old = divide(pool, first)
    frames = {(demand.port, demand.priority): demand.frame for demand in first}  # do not change with the cables
    kept = [demand for demand in second if (demand.port, demand.priority) in lossless(old)]
    new = divide(pool, [replace(demand, frame=frames[demand.port, demand.priority]) for demand in kept])
    target = as_settings(new, ports)
    model = BufferModel(as_settings(old, ports))
    inside: list[tuple[int, int, int]] = []
    senders, load = sorted(lossless(old)), 0.8
    for turn in range(1000):
        free = [key for key in senders if not model.is_xoff(*key)]
        if free and randomness.random() < load:
            key = randomness.choice(free)
            length = randomness.randint(1, frames[key] * CELL)
            assert model.admit(*key, length).dropped is None
            inside.append((*key, length))
        elif inside:
            model.release(*inside.pop(randomness.randrange(len(inside))))
        if turn >= 200 and model.settings is not target:
            try:
                model.configure(target)
                senders = sorted(lossless(new))
            except BufferBusyError:
                model.give_up(target)
                senders, load = sorted(lossless(new)), 0.4
        elif turn > 400:
            break
    assert model.settings is target
    assert not any(drop["frames"] for group in model.snapshot()["groups"] for drop in group["dropped"].values())
