"""Rate controls by hand-computed steps: DCQCN in both variants, TIMELY, and the registry."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.roce import rates
from testbed.roce.rates import (
    Acknowledgement,
    Dcqcn,
    Fixed,
    Line,
    RateControl,
    RateControlError,
    Timely,
    TimelyParameters,
)
from testbed.roce.rates.dcqcn import CONNECTX, MLX, PAPER
from testbed.units import NEVER, Duration, Rate, Scale, Size
from tests import pages

LINE = Line(Rate("40Gb/s"), Scale(1))
GAIN = 1 / 256
US = 1000


def reach(control: RateControl, now_lab_ns: int) -> None:
    """Let every deadline come until a moment."""
    while control.deadline_lab_ns <= now_lab_ns:
        control.on_deadline(control.deadline_lab_ns)


def test_dcqcn_sends_at_line_rate_until_the_first_notification() -> None:
    control = Dcqcn(LINE)
    assert control.deadline_lab_ns == NEVER
    control.on_sent(1, 10**9)
    assert (control.rate_lab_bps, control.byte_events) == (40e9, 0)


def test_dcqcn_halves_on_the_first_cnp_and_cuts_by_half_of_alpha_later() -> None:
    control = Dcqcn(LINE)
    control.on_cnp(0)
    assert (control.rate_lab_bps, control.target_lab_bps, control.alpha) == (20e9, 40e9, 1.0)
    reach(control, 55 * US * 4 - 1)
    control.alpha, before = 0.5, control.rate_lab_bps
    control.on_cnp(55 * US * 4 - 1)
    assert (control.target_lab_bps, control.rate_lab_bps) == (before, before * (1 - 0.5 / 2))
    assert control.alpha == pytest.approx((1 - GAIN) * 0.5 + GAIN, rel=1e-12)


def test_dcqcn_alpha_decays_each_55_us_without_a_cnp_and_no_sooner() -> None:
    control = Dcqcn(LINE)
    control.on_cnp(0)
    for count in range(1, 5):
        control.on_deadline(count * 55 * US - 1)
        assert control.alpha == pytest.approx((1 - GAIN) ** (count - 1), rel=1e-12)
        control.on_deadline(count * 55 * US)
        assert control.alpha == pytest.approx((1 - GAIN) ** count, rel=1e-12)


def test_dcqcn_recovers_by_halves_four_times_and_then_adds_40_mbps() -> None:
    control = Dcqcn(LINE)
    control.on_cnp(0)
    control.target_lab_bps = 30e9
    expected = 20e9
    for event in range(1, 5):
        reach(control, event * 55 * US)
        expected = (30e9 + expected) / 2
        assert control.rate_lab_bps == expected
        assert control.target_lab_bps == 30e9
    for event in range(5, 8):
        reach(control, event * 55 * US)
        expected = (30e9 + (event - 4) * 40e6 + expected) / 2
        assert control.target_lab_bps == 30e9 + (event - 4) * 40e6
        assert control.rate_lab_bps == pytest.approx(expected)


def test_dcqcn_counts_bytes_beside_time_and_hyper_increases_when_both_are_past_recovery() -> None:
    control = Dcqcn(LINE)
    control.on_cnp(0)
    control.target_lab_bps = 20e9
    for _ in range(5):
        control.on_sent(1, 10_000_000)
    assert (control.byte_events, control.target_lab_bps) == (5, 20e9 + 40e6)
    reach(control, 6 * 55 * US)
    assert (control.timer_events, control.target_lab_bps) == (6, 20e9 + 7 * 40e6)
    control.on_sent(1, 9_999_999)
    assert control.byte_events == 5
    control.on_sent(1, 1)
    assert (control.byte_events, control.target_lab_bps) == (6, 20e9 + 7 * 40e6 + 200e6)
    control.on_cnp(6 * 55 * US + 1)
    assert (control.timer_events, control.byte_events) == (0, 0)
    control.on_sent(1, 9_999_999)
    assert control.byte_events == 0, "the counter began anew with the decrease"


def test_dcqcn_comes_back_to_line_rate_and_stays_there() -> None:
    control = Dcqcn(LINE)
    for moment in range(20):
        control.on_cnp(moment * 50 * US)
    assert control.rate_lab_bps < 1e9
    reach(control, 10**9)
    assert control.rate_lab_bps == pytest.approx(40e9, rel=1e-6)
    reach(control, 2 * 10**9)
    assert control.rate_lab_bps <= 40e9


def test_dcqcn_never_falls_below_its_minimum() -> None:
    control = Dcqcn(LINE)
    for moment in range(10_000):
        control.on_cnp(moment)
    assert control.rate_lab_bps == 40e6


def test_times_are_multiplied_by_the_scale_rates_divided_and_bytes_kept() -> None:
    real, lab = Dcqcn(LINE), Dcqcn(Line(Rate("40Mb/s"), Scale(1000)))
    for control, k in ((real, 1), (lab, 1000)):
        control.on_cnp(0)
        reach(control, 55 * US * 7 * k)
        control.on_sent(55 * US * 7 * k, 10_000_000)
    assert lab.rate_lab_bps * 1000 == pytest.approx(real.rate_lab_bps, rel=1e-12)
    assert lab.alpha == real.alpha
    assert lab.byte_events == real.byte_events == 1


def test_the_variant_cuts_4_us_and_1_ns_after_the_first_cnp_when_alpha_has_decayed_four_times() -> None:
    control = Dcqcn(LINE, MLX)
    control.on_cnp(10 * US)
    assert control.deadline_lab_ns == 14 * US + 1
    control.on_deadline(14 * US)
    assert (control.rate_lab_bps, control.alpha) == (40e9, pytest.approx((1 - GAIN) ** 4, rel=1e-12))
    control.on_deadline(14 * US + 1)
    assert control.rate_lab_bps == pytest.approx(40e9 * (1 - (1 - GAIN) ** 4 / 2), rel=1e-12)
    assert control.target_lab_bps == 40e9


def test_the_variants_times_are_multiplied_by_the_scale() -> None:
    control = Dcqcn(Line(Rate("40Mb/s"), Scale(1000)), MLX)
    control.on_cnp(0)
    assert control.deadline_lab_ns == 1000 * (4 * US + 1)


def test_the_variant_cuts_once_in_4_us_and_updates_alpha_each_us() -> None:
    control = Dcqcn(LINE, MLX)
    control.on_cnp(10 * US)
    reach(control, 14 * US + 1)
    first = control.rate_lab_bps
    control.on_cnp(14 * US + 100)
    control.on_cnp(17 * US + 500)
    assert control.rate_lab_bps == first, "4 us have not passed"
    reach(control, 18 * US + 1)
    # Alpha at 11 to 14 us without a CNP, at 15 with one, at 16 and 17 without, at 18 with one again.
    alpha = ((1 - GAIN) ** 5 + GAIN) * (1 - GAIN) ** 2
    alpha = alpha * (1 - GAIN) + GAIN
    assert control.alpha == pytest.approx(alpha, rel=1e-12)
    assert control.rate_lab_bps == pytest.approx(first * (1 - alpha / 2), rel=1e-12)
    assert control.target_lab_bps == 40e9, "the rate has not been increased since the decrease before"


def test_the_variant_waits_with_a_decrease_for_its_timer() -> None:
    control = Dcqcn(LINE, MLX)
    control.on_cnp(0)
    reach(control, 4 * US + 1)
    first = control.rate_lab_bps
    control.on_cnp(101 * US)
    assert control.rate_lab_bps == first
    assert control.deadline_lab_ns == 104 * US + 1
    reach(control, 104 * US + 1)
    assert control.rate_lab_bps < first


def test_the_variant_recovers_once_adds_once_and_then_adds_twice_as_much() -> None:
    control, first_ns = Dcqcn(LINE, MLX), 4 * US + 1
    control.on_cnp(0)
    reach(control, first_ns)
    control.target_lab_bps = 30e9
    targets = []
    for event in range(1, 5):
        reach(control, first_ns + event * 900 * US)
        targets.append(control.target_lab_bps)
    assert targets == [30e9, 30e9 + 50e6, 30e9 + 150e6, 30e9 + 250e6]
    control.on_cnp(first_ns + 4 * 900 * US + 1)
    reach(control, first_ns + 4 * 900 * US + 4 * US)
    assert control.target_lab_bps > control.rate_lab_bps
    assert control.target_lab_bps < 30e9, "the rate was increased, so the target follows"


@given(st.lists(st.tuples(st.integers(0, 200_000), st.sampled_from(["cnp", "sent", "time"])), max_size=60))
def test_rates_stay_within_their_bounds_and_alpha_between_0_and_1(steps: list[tuple[int, str]]) -> None:
    for parameters in (PAPER, MLX):
        control, now_lab_ns = Dcqcn(LINE, parameters), 0
        for gap_ns, kind in steps:
            now_lab_ns += gap_ns
            reach(control, now_lab_ns)
            if kind == "cnp":
                control.on_cnp(now_lab_ns)
            elif kind == "sent":
                control.on_sent(now_lab_ns, 4_000_000)
            assert parameters.minimum.bps <= control.rate_lab_bps <= control.target_lab_bps <= 40e9
            assert 0 < control.alpha <= 1 + 1e-12


@pytest.mark.parametrize("change", [{"gain": 0}, {"fast_recovery": 0}, {"byte_counter": Size("0B")}])
def test_parameters_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(RateControlError, match=f"DCQCN's {next(iter(change))} is"):
        replace(PAPER, **change)  # type: ignore[arg-type]


OF_PAPER = replace(TimelyParameters(), additive_increase=Rate("10Mb/s"))


def test_timely_adds_below_its_low_threshold_and_cuts_above_its_high_one() -> None:
    control = Timely(LINE, OF_PAPER)
    control.rate_lab_bps = 10e9
    control.on_round_trip(0, 49_999)
    assert control.rate_lab_bps == 10e9 + 10e6
    control.on_round_trip(0, 1_000_000)
    assert control.rate_lab_bps == pytest.approx((10e9 + 10e6) * (1 - 0.8 * 0.5))


def test_timely_divides_by_the_time_between_two_round_trips_if_that_is_longer_than_the_least() -> None:
    control = Timely(LINE)
    control.on_round_trip(0, 100_000)
    control.rate_lab_bps = 10e9
    control.on_round_trip(200_000, 200_000)
    assert control.gradient == pytest.approx(0.875 * 0.5)
    assert control.rate_lab_bps == pytest.approx(10e9 * (1 - 0.8 * 0.875 * 0.5))
    control.on_round_trip(200_001, 210_000)
    assert control.gradient == pytest.approx(0.125 * 0.875 * 0.5 + 0.875 * 0.5)


@pytest.mark.parametrize(("line", "scale"), [("40Gb/s", 1), ("40Mb/s", 1000), ("100Mb/s", 100)])
def test_timelys_step_is_a_part_of_the_line(line: str, scale: int) -> None:
    control = Timely(Line(Rate(line), Scale(scale)))
    control.rate_lab_bps = 0.5 * Rate(line).bps
    control.on_round_trip(0, 1)
    assert control.rate_lab_bps == pytest.approx(0.504 * Rate(line).bps)


def test_timely_follows_the_gradient_between_its_thresholds_and_hurries_after_five_times() -> None:
    control = Timely(LINE, OF_PAPER)
    control.rate_lab_bps = 10e9
    control.on_round_trip(0, 100_000)
    assert control.rate_lab_bps == 10e9 + 10e6
    control.on_round_trip(0, 104_000)
    gradient = 0.875 * 4_000 / 20_000
    assert control.gradient == pytest.approx(gradient)
    assert control.rate_lab_bps == pytest.approx((10e9 + 10e6) * (1 - 0.8 * gradient))
    rates_seen = [control.rate_lab_bps]
    for _ in range(6):
        control.on_round_trip(0, 100_000)
        control.gradient = -1.0
        rates_seen.append(control.rate_lab_bps)
    steps = [round(after - before) for before, after in itertools.pairwise(rates_seen)]
    assert steps == [10_000_000] * 4 + [50_000_000] * 2


def test_timely_leaves_no_rate_below_its_minimum_or_above_the_line() -> None:
    control = Timely(LINE)
    control.on_round_trip(0, 10)
    assert control.rate_lab_bps == 40e9
    for count in range(2000):
        control.on_round_trip(0, 10_000_000 + count)
    assert control.rate_lab_bps == 10e6


def test_a_fixed_rate_is_at_most_the_line() -> None:
    assert Fixed(LINE).rate_lab_bps == 40e9
    assert Fixed(LINE, Rate("1Gb/s")).rate_lab_bps == 1e9
    assert Fixed(LINE, Rate("100Gb/s")).rate_lab_bps == 40e9


def test_a_decrease_is_by_alpha_over_its_divisor_and_keeps_the_least_factor() -> None:
    control = Dcqcn(LINE, replace(PAPER, decrease_divisor=4.0))
    control.on_cnp(0)
    assert control.rate_lab_bps == 30e9
    control = Dcqcn(LINE, replace(PAPER, least_decrease_factor=0.8))
    control.on_cnp(0)
    assert (control.rate_lab_bps, control.target_lab_bps) == (32e9, 40e9)


def test_the_first_cnp_sets_the_rate_that_is_given_and_later_ones_do_not() -> None:
    control = Dcqcn(LINE, replace(PAPER, first_rate=Rate("8Gb/s")))
    control.on_cnp(0)
    assert (control.rate_lab_bps, control.target_lab_bps) == (8e9, 40e9)
    control.on_cnp(1)
    assert control.rate_lab_bps == pytest.approx(8e9 * (1 - control.alpha / 2), rel=1e-2)
    assert control.rate_lab_bps < 8e9


def test_the_target_follows_each_decrease_only_where_it_is_clamped() -> None:
    found = []
    for clamp in (False, True):
        control = Dcqcn(LINE, replace(MLX, clamp_target=clamp))
        control.on_cnp(0)
        reach(control, 5 * US)
        control.on_cnp(6 * US)
        reach(control, 9 * US)
        found.append(control.target_lab_bps)
    assert found[0] == 40e9  # nothing has increased the rate since the first decrease
    assert found[1] == pytest.approx(20e9, rel=0.03)


def test_increases_by_the_timer_alone_let_the_target_follow_only_where_they_are_to() -> None:
    found = []
    for after_time in (True, False):
        control = Dcqcn(LINE, replace(MLX, clamp_after_time=after_time))
        control.on_cnp(0)
        reach(control, 910 * US)
        assert control.timer_events == 1
        before = control.rate_lab_bps
        control.on_cnp(911 * US)
        reach(control, 920 * US)
        found.append(control.target_lab_bps == before)
    assert found == [True, False]


def test_a_connectx_counts_bytes_and_time_for_its_stages() -> None:
    control = Dcqcn(LINE, CONNECTX)
    control.on_cnp(0)
    reach(control, 10 * US)
    rate, target = control.rate_lab_bps, control.target_lab_bps
    assert rate == pytest.approx(20e9, rel=0.03)
    control.on_sent(11 * US, 32_767 * 64)
    assert (control.byte_events, control.timer_events) == (1, 0)
    assert control.rate_lab_bps == pytest.approx((min(target + 5e6, 40e9) + rate) / 2)  # additive from the first one on
    control.target_lab_bps = 30e9
    reach(control, 310 * US)
    assert control.target_lab_bps == pytest.approx(30e9 + 5e6)
    control.on_sent(311 * US, 32_767 * 64)
    control.target_lab_bps = 30e9
    reach(control, 610 * US)  # both counters are above F: hyper increase
    assert control.target_lab_bps == pytest.approx(30e9 + 50e6)


def test_settings_that_the_kernel_does_not_know_are_left_to_python() -> None:
    assert Dcqcn(LINE).in_kernel() and Dcqcn(LINE, MLX).in_kernel()
    for parameters in (
        CONNECTX,
        replace(MLX, byte_counter=Size("10MB")),
        replace(MLX, clamp_target=True),
        replace(MLX, clamp_after_time=False),
        replace(PAPER, first_rate=Rate("1Gb/s")),
        replace(PAPER, decrease_divisor=4.0),
        replace(PAPER, least_decrease_factor=0.5),
    ):
        assert Dcqcn(LINE, parameters).in_kernel() is None


def test_rate_controls_have_names_and_a_class_of_the_user_needs_none() -> None:
    class Half(RateControl):
        def __init__(self, line: Line) -> None:
            super().__init__(line)
            self.rate_lab_bps = line.rate.bps / 2

    assert rates.names() == ["dcqcn", "dcqcn-connectx", "dcqcn-e810", "dcqcn-mlx", "fixed", "hpcc", "swift", "timely"]
    assert rates.control(Half, LINE).rate_lab_bps == 20e9
    assert isinstance(rates.control("dcqcn", LINE), Dcqcn)
    assert isinstance(rates.control(lambda line: Fixed(line, Rate("1Gb/s")), LINE), Fixed)
    with pytest.raises(RateControlError, match=r"no rate control 'dcqnc'; did you mean dcqcn\?"):
        rates.control("dcqnc", LINE)
    with pytest.raises(RateControlError, match="is a subclass of RateControl"):
        rates.control(lambda line: 5, LINE)  # type: ignore[arg-type, return-value]
    with pytest.raises(RateControlError, match="a rate control fixed already"):
        rates.register("fixed", Fixed)


def test_the_parameters_are_those_of_their_sources() -> None:
    assert (PAPER.alpha_interval, PAPER.increase_interval) == (Duration("55us"), Duration("55us"))
    assert (MLX.alpha_interval, MLX.decrease_interval) == (Duration("1us"), Duration("4us"))
    assert math.isclose(PAPER.gain, GAIN)


def test_the_page_has_the_signature_of_every_method() -> None:
    page = (Path(__file__).parents[3] / "docs" / "congestion.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)(\(.*?\))[^`]*` \|", page, re.MULTILINE))
    own = {name for name, one in vars(RateControl).items() if callable(one) and name[0] != "_"} - {"in_kernel"}
    assert {*rows} == own
    for name, arguments in rows.items():
        given = inspect.signature(getattr(RateControl, name)).parameters.values()
        shown = ", ".join(f"{one.name}: {one.annotation}" for one in given if one.name != "self")
        assert arguments == f"({shown})", name
    for name in (
        "rate_lab_bps",
        "window",
        "deadline_lab_ns",
        "needs_marks",
        "counts_acknowledgements",
        "needs_telemetry",
    ):
        assert name in page
    for name in (one.name for one in fields(Acknowledgement)):
        assert f"`{name}`" in page


def test_the_example_of_the_page_waits_as_long_as_it_says() -> None:
    (text,) = (one.text for one in pages.blocks() if one.page == "docs/congestion.md" and "class Halving" in one.text)
    known: dict[str, Any] = {}
    exec(text.partition("@experiment")[0], known)
    control = known["Halving"](Line(Rate("10Mb/s"), Scale(1000)))
    assert "100 us later" in (known["Halving"].__doc__ or "")
    control.on_cnp(5)
    assert (control.rate_lab_bps, control.deadline_lab_ns) == (5_000_000, 5 + 100_000 * 1000)
    control.on_deadline(control.deadline_lab_ns)
    assert control.rate_lab_bps == control.line.lab_bps("10Gb/s")
