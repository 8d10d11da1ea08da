"""The computed headroom in a switch's buffer: what it leaves to share, and that nothing is lost with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.net.fabric.port import Buffer, PortNeeds
from testbed.switch.buffer.model import BufferModel
from testbed.switch.buffer.settings import BufferSettings, Dynamic, GroupSettings, Static, Threshold
from testbed.switch.buffer.use import Signal
from testbed.switch.headroom.calculation import Headroom, HeadroomPort, adaptive, read_alpha
from testbed.switch.headroom.vendor import SHIPPED
from testbed.units import Duration, Length, Rate

FRAME = 10
"""The cells of a frame of 2000 bytes."""
FCS = 4


def divided(total: int, *headroom: int) -> BufferSettings:
    """Return a buffer of which each of the ports 1, 2, ... has priority 3 lossless, with this headroom."""
    ports = {
        number: PortNeeds(frozenset({3}), Rate("10Gb/s"), Duration("0s"), measured=cells)
        for number, cells in enumerate(headroom, start=1)
    }
    return Buffer(total=total, xoff=None).settings(ports)


def thresholds(buffer: BufferSettings) -> list[int]:
    found = [buffer.group(port, 3).threshold for port in buffer.ports]
    return [threshold.cells for threshold in found if isinstance(threshold, Static)]


def test_headroom_and_shared_cells_are_of_one_pool_and_the_thresholds_are_even_parts() -> None:
    buffer = divided(1000, 110, 310)
    assert (buffer.headroom_cells, buffer.shared_cells) == (420, 580)
    assert thresholds(buffer) == [(900 - 420) // 2] * 2, "a tenth stays for lossy traffic"


def by_classes(classes: int | None, **buffer: Any) -> BufferSettings:
    """Return the buffer of two ports with four lossless priorities each, one of whose peers has so many traffic
    classes.
    """
    needs = PortNeeds(frozenset({1, 2, 3, 4}), Rate("10Gb/s"), Duration("0s"), measured=50)
    return Buffer(**{"total": 1000} | buffer).settings({1: needs, 2: replace(needs, classes=classes)})


@pytest.mark.parametrize(("classes", "headroom"), [(None, 400), (8, 400), (4, 400), (3, 350), (2, 300), (1, 250)])
def test_a_peer_with_few_traffic_classes_needs_one_headroom_for_each_of_them(
    classes: int | None, headroom: int
) -> None:
    buffer = by_classes(classes)
    assert (buffer.headroom_cells, buffer.shared_cells) == (headroom, 1000 - headroom)
    assert all(buffer.group(port, priority).headroom == 50 for port in (1, 2) for priority in (1, 2, 3, 4))
    even = by_classes(classes, xoff=None)
    assert even.group(1, 1).threshold == Static((900 - headroom) // 8)


def test_classes_of_a_peer_spare_nothing_of_what_is_configured() -> None:
    named = GroupSettings(lossless=True, threshold=Static(10), headroom=70)
    groups = {(2, priority): named for priority in (1, 2, 3)}
    assert by_classes(1, groups=groups).headroom_cells == 5 * 50 + 3 * 50  # of a lossless group it is what was measured
    pool = by_classes(1, headroom_pool=390, overbook_headroom=True)
    assert pool.headroom_cells == 390
    assert by_classes(1, total=300 + 40 + 8).shared_cells == 98


def test_a_shorter_cable_on_one_port_raises_the_thresholds_of_all() -> None:
    long, short = divided(1000, 110, 310), divided(1000, 110, 60)
    assert short.shared_cells - long.shared_cells == 250
    assert [new - old for new, old in zip(thresholds(short), thresholds(long), strict=True)] == [125, 125]


def test_the_three_ports_of_the_proposal_from_one_pool() -> None:
    """A vendor's default fits no cable; headroom that is large enough for all leaves less to share."""
    links = [("10Gb/s", "5m", "50ns"), ("25Gb/s", "500m", "5us"), ("100Gb/s", "50km", "500us")]
    ports = [HeadroomPort(Rate(rate)) for rate, _, _ in links]
    fitted = [adaptive(port, Duration(trip)).cells for port, (_, _, trip) in zip(ports, links, strict=True)]
    default = [SHIPPED.headroom(port, Length(m)).cells for port, (_, m, _) in zip(ports, links, strict=True)]
    assert fitted[0] < default[0] < default[2] < fitted[2] // 100
    pool = 4 * fitted[2]
    assert divided(pool, *fitted).shared_cells > 2 * divided(pool, *[fitted[2]] * 3).shared_cells


def losses_after_xoff(buffer: BufferSettings, delay_value: int, lengths: Iterator[int], not_kept: int = 0) -> int:
    """Fill port 1 priority 3 until PAUSE is due, then admit all that the delay value allows, and return the frames
    lost.
    """
    model = BufferModel(buffer)
    while model.admit(1, 3, next(lengths) - not_kept).signal is not Signal.XOFF:
        pass
    (group,) = (group for group in model.snapshot()["groups"] if (group["port"], group["priority"]) == (1, 3))
    assert not any(dropped["frames"] for dropped in group["dropped"].values())
    left = delay_value
    while (left := left - 8 * ((length := next(lengths)) + 20)) >= 0:
        model.admit(1, 3, length - not_kept)
    (group,) = (group for group in model.snapshot()["groups"] if (group["port"], group["priority"]) == (1, 3))
    return sum(dropped["frames"] for dropped in group["dropped"].values())


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gbps=st.sampled_from([1, 10, 100]),
    trip_ns=st.integers(0, 50_000),
    shortest=st.integers(64, 1500),
    longest=st.integers(1518, 9000),
)
def test_measured_headroom_loses_nothing_of_any_mix_of_frames(
    seed: int, gbps: int, trip_ns: int, shortest: int, longest: int
) -> None:
    """Lengths are with FCS, which the line carries and the buffer does not keep."""
    randomness = random.Random(seed)
    kinds = [shortest, longest, *(randomness.randint(shortest, longest) for _ in range(3))]
    rate, trip = Rate.from_bps(gbps * 10**9), Duration.from_ns(trip_ns)
    buffer = Buffer(total=10**6, xoff=Static(1000), shortest=shortest)
    cells = buffer.measured_headroom(rate, longest - 18, trip)
    delay_value = adaptive(HeadroomPort(rate, longest, shortest), trip).delay_value
    needs = PortNeeds(frozenset({3}), rate, Duration("0s"), measured=cells)
    lengths = iter(lambda: randomness.choice(kinds), None)
    assert losses_after_xoff(buffer.settings({1: needs}), delay_value, lengths, FCS) == 0


def twenty_frames() -> Headroom:
    """Return a port with frames of 2000 B, and a delay value that is a whole number of them and of one PFC frame."""
    port = HeadroomPort(Rate("10Gb/s"), 2000, 2000, given_alpha=read_alpha("2080/2020"))
    needed = adaptive(port, Duration.from_ps((20 * 16160 - 672) * 100))
    assert (needed.delay_value, needed.cells) == (22 * 16160, 220)
    return needed


@pytest.mark.parametrize("short_by", [0, 1, 3, 10])
def test_headroom_that_is_short_by_some_frames_loses_as_many(short_by: int) -> None:
    """Decision 0115: a frame more than computed, for the one that triggers PAUSE; without it one is lost."""
    needed = twenty_frames()
    buffer = divided(2000, needed.cells + FRAME - short_by * FRAME)
    assert losses_after_xoff(buffer, needed.delay_value, iter(lambda: 2000, None)) == short_by


@pytest.mark.parametrize(
    ("threshold", "lossless", "warned"),
    [(Static(601), True, True), (Static(600), True, False), (Static(601), False, False), (Dynamic(9), True, False)],
)
def test_a_static_threshold_of_a_lossless_group_that_its_pool_cannot_reach_is_warned_of(
    threshold: Threshold, lossless: bool, warned: bool
) -> None:
    group = GroupSettings(lossless=lossless, threshold=threshold, headroom=100 if lossless else 0)
    found = BufferSettings((1, 2, 3, 4), 1000 if lossless else 600, None, {3: group}).without_effect()
    assert [text.partition(":")[0] for text in found] == (
        ["Static(601) is never passed, since the groups share 600 cells"] if warned else []
    )
