"""The law of lossless buffers, term by term, and the exact model of a line: enough, and one cell less."""

from __future__ import annotations

import pytest

from testbed.switch.credits import law
from testbed.switch.credits.law import Link, Need
from testbed.switch.credits.settings import CreditError, Credits
from testbed.units import Duration, Rate
from tests.reference.credit_line import VC, Line, blocks, stats

METRES = (5, 100, 2000, pytest.param(50_000, marks=pytest.mark.slow))
RATES = ("100Gb/s", "400Gb/s", "800Gb/s")
CELL = 208
SILENT = (1 << 32) - 1
"""No CC_Update while a test runs: they take line time, in which credits come back."""


def link(rate: str, metres: int, frame: int = 1518, whole: bool = False) -> Link:
    return Link(Rate(rate), Duration.from_ns(5 * metres), frame, CELL, whole=whole)


def with_credits(on: Link, buffer: int, limit: int) -> Line:
    return Line(on, buffer, Credits({VC: limit}, cell=CELL, cc_interval=SILENT))


def test_the_terms_of_400_gigabit_over_100_metres_are_these() -> None:
    need = law.credits(link("400Gb/s", 100))
    assert [(term.name, term.ps) for term in need.terms] == [
        ("cable, there and back", 1_000_000),
        ("the frame leaves the receiver", 1538 * 20),
        ("ordered set", 8 * 20),
    ]
    assert (need.frames, need.cells_of_frame, need.cells) == (34, 8, 272)
    paused = law.headroom(link("400Gb/s", 100))
    assert paused.ps == 1_000_000 + 1538 * 20 + 84 * 20
    assert paused.frames == law.threshold(link("400Gb/s", 100)).frames == 34


def test_short_frames_wait_for_the_next_update_and_whole_frames_come_in_first() -> None:
    assert law.credits(link("100Gb/s", 5, 64)).terms[-1].ps == 800 * 80
    assert law.credits(link("100Gb/s", 5, whole=True)).terms[1].ps == 1538 * 80


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("metres", METRES)
class TestOneCellLess:
    def test_the_credits_keep_the_line_busy_and_one_credit_less_does_not(self, rate: str, metres: int) -> None:
        on = link(rate, metres)
        need = law.credits(on)
        enough = with_credits(on, need.cells, need.cells).run(3 * need.ps)
        assert enough.idle_ps == enough.dropped == 0, stats(enough)
        less = with_credits(on, need.cells, need.cells - 1).run(3 * need.ps)
        assert less.dropped == 0
        assert less.idle_ps == 2 * (need.ps - (need.frames - 1) * on.frame_ps), stats(less)

    def test_a_buffer_of_the_credits_loses_nothing_and_one_cell_less_loses_a_frame(
        self, rate: str, metres: int
    ) -> None:
        on = link(rate, metres)
        need = law.credits(on)
        stop = blocks(need.ps, 3 * need.ps)
        enough, less = (with_credits(on, need.cells - fewer, need.cells) for fewer in (0, 1))
        for line in (enough, less):
            line.blocked = stop
            line.run(4 * need.ps)
        assert enough.dropped == 0
        assert enough.most == need.cells
        assert enough.out_idle_ps == 0
        assert less.dropped == 1, stats(less)

    def test_pfc_needs_headroom_on_top_and_one_cell_less_loses_a_frame(self, rate: str, metres: int) -> None:
        on = link(rate, metres)
        headroom, threshold = law.headroom(on), law.threshold(on)
        stop = blocks(headroom.ps, 4 * headroom.ps)
        enough = Line(on, headroom.cells + threshold.cells, None, threshold.cells, stop).run(7 * headroom.ps)
        assert enough.dropped == enough.out_idle_ps == 0, stats(enough)
        assert enough.most == headroom.cells + threshold.cells
        less = Line(on, headroom.cells + threshold.cells - 1, None, threshold.cells, stop).run(6 * headroom.ps)
        assert less.dropped == 1, stats(less)

    def test_a_threshold_of_one_cell_less_leaves_the_way_out_without_a_frame(self, rate: str, metres: int) -> None:
        on = link(rate, metres)
        headroom, threshold = law.headroom(on), law.threshold(on)
        stop = blocks(headroom.ps, 4 * headroom.ps)
        low = threshold.cells - 1
        less = Line(on, headroom.cells + low, None, low, stop).run(7 * headroom.ps)
        assert less.out_idle_ps == headroom.ps - (threshold.frames - 1) * on.frame_ps, stats(less)
        assert less.dropped == 0

    def test_pfc_needs_about_twice_the_buffer(self, rate: str, metres: int) -> None:
        on = link(rate, metres)
        both = law.headroom(on).cells + law.threshold(on).cells
        assert both >= 2 * law.credits(on).cells - on.cells


@pytest.mark.parametrize("frame", [64, 65, 127, 512, 776, 9215])
@pytest.mark.parametrize("whole", [False, True])
def test_the_credits_are_enough_for_any_length(frame: int, whole: bool) -> None:
    on = link("100Gb/s", 500, frame, whole=whole)
    need = law.credits(on)
    line = with_credits(on, need.cells, need.cells).run(5 * need.ps)
    assert line.idle_ps == line.dropped == 0, stats(line)


def test_messages_take_a_thousandth_of_the_way_there_and_a_hundredth_of_the_way_back() -> None:
    back, there = law.overheads(Credits({0: 1}))
    assert back == 0.01
    assert there == 84 / 65536


def test_what_is_left_with_one_cell_less_is_told() -> None:
    need: Need = law.credits(link("100Gb/s", 5))
    assert need.share_with_one_less == 1538 * 80 / need.ps


def test_a_frame_that_no_line_has_is_refused() -> None:
    with pytest.raises(CreditError, match="the frame is 63; it is 64 to 65535"):
        link("100Gb/s", 5, 63)
    with pytest.raises(CreditError, match="cell is 16; it is 32 to 2048"):
        Link(Rate("100Gb/s"), Duration("1us"), 1518, 16)
