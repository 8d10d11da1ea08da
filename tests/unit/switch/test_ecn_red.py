"""The configured marking curve comes out on the wire: Linux RED's parameters, and what its algorithm makes of them.

The model is fed numbers that are spread evenly instead of random ones: after n of them the mean is that of the even
distribution to 1/n, so the tests are exact to within what they count and never fail by chance.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.switch.ecn.curve import EcnCurve, EcnError
from testbed.switch.ecn.field import Pick
from testbed.switch.ecn.red import FORGET, RedParameters, red_parameters
from testbed.units import Size
from tests.reference.red import RedModel

PACKET = 1500
PMAXES = ["0.01", "0.1", "0.2", "0.5", "1"]
BOUNDS = {"0.01": "0.0001", "0.1": "0.001", "0.2": "0.004", "0.5": "0.025", "1": "0.118"}
"""The most by which the share of picked packets may differ from the curve, at any length of the queue."""

ONE = 2**32


def spread(count: int) -> Callable[[], int]:
    """Return `count` numbers of 32 bits at even distances, in an order without pattern; then again."""
    numbers = [(2 * number + 1) * ONE // (2 * count) for number in range(count)]
    random.Random(1).shuffle(numbers)
    state = {"next": 0}

    def draw() -> int:
        state["next"] += 1
        return numbers[(state["next"] - 1) % count]

    return draw


def busy(parameters: RedParameters, draw: Callable[[], int] = spread(1)) -> RedModel:
    """Return a model that has just seen a packet, so it measures the queue and does not age an average."""
    model = RedModel(parameters, draw)
    model.arrive(0, 0, PACKET)
    return model


def share_picked(parameters: RedParameters, queue: int, draws: int = 2000) -> Fraction:
    """Return the share of packets picked over so many draws, hence distances between picks, at a constant queue."""
    model = busy(parameters, spread(draws))
    packets = picks = 0
    while picks < draws:
        packets += 1
        picks += model.arrive(0, queue, PACKET) is not Pick.PASSED
    return Fraction(picks, packets)


# The curve


def test_the_curve_is_nothing_then_a_line_then_everything() -> None:
    curve = EcnCurve("100kB", "400kB", "0.2")
    lengths = [0, 99_999, 100_000, 250_000, 399_999, 400_000, 10**9]
    line = Fraction(1, 5) * Fraction(299_999, 300_000)
    assert [curve.fraction(queue) for queue in lengths] == [0, 0, 0, Fraction(1, 10), line, 1, 1]


def test_a_step_marks_from_its_first_byte() -> None:
    curve = EcnCurve.step("84kB")
    assert [curve.fraction(queue) for queue in (0, 83_999, 84_000, 84_001)] == [0, 0, 1, 1]


@pytest.mark.parametrize("pmax", ["1/5", "0.2", "20%", "20 %", Fraction(1, 5)])
def test_pmax_is_read_as_people_write_it(pmax: Fraction | str) -> None:
    assert EcnCurve(Size("100kB"), "400kB", pmax) == EcnCurve("100kB", Size("400kB"), Fraction(1, 5))


# The share of packets that are picked


@pytest.mark.parametrize("pmax", PMAXES)
@pytest.mark.parametrize(("kmin", "kmax"), [(100_000, 400_000), (0, 30_000), (5_000, 200_000)])
def test_the_curve_is_followed_within_its_bound_at_every_length(pmax: str, kmin: int, kmax: int) -> None:
    curve = EcnCurve(Size.from_bytes(kmin), Size.from_bytes(kmax), pmax)
    parameters = red_parameters(curve)
    lengths = [*range(kmin, kmax, (kmax - kmin) // 997), kmin + 1, kmax - 1]
    worst = max(abs(parameters.expected_fraction(queue) - curve.fraction(queue)) for queue in lengths)
    assert worst <= Fraction(BOUNDS[pmax])
    for queue in (0, kmin - 1, kmax, kmax + 1, 10**8):
        assert parameters.expected_fraction(queue) == curve.fraction(queue)


@pytest.mark.slow
@pytest.mark.parametrize("pmax", PMAXES)
def test_what_is_expected_is_what_the_kernels_algorithm_does(pmax: str) -> None:
    parameters = red_parameters(EcnCurve("100kB", "400kB", pmax))
    for queue in (150_000, 250_000, 333_333, 399_999):
        expected = parameters.expected_fraction(queue)
        assert share_picked(parameters, queue) == pytest.approx(expected, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("pmax", PMAXES)
def test_packets_really_are_marked_by_the_curve(pmax: str) -> None:
    """The whole way: settings, the kernel's numbers, its algorithm; against the user's line."""
    curve = EcnCurve("100kB", "400kB", pmax)
    parameters = red_parameters(curve)
    slack = Fraction(BOUNDS[pmax]) + Fraction(pmax) / 100
    for queue in range(120_000, 400_000, 40_000):
        assert abs(share_picked(parameters, queue, draws=500) - curve.fraction(queue)) <= slack


def test_a_max_p_that_is_the_curves_own_would_pick_near_to_twice_as_often() -> None:
    """Why there is any of this: it is what `tc qdisc ... red probability 0.1` gives."""
    naive = RedParameters(10**6, 100_000, 400_000, ONE // 10)
    assert float(share_picked(naive, 399_999)) == pytest.approx(0.1818, abs=1e-3)
    assert float(naive.expected_fraction(250_000)) == pytest.approx(0.0952, abs=1e-3)


@settings(max_examples=60)
@given(st.integers(1, 2**32 - 1), st.integers(1, 10**6))
def test_the_expected_share_is_the_mean_over_every_number_that_can_be_drawn(slope: int, above: int) -> None:
    """By counting, for each distance, the numbers that lead to it; small steps are left to the test below."""
    if slope * above * 500 < ONE:
        slope = ONE // (500 * above) + 1
    width = above + 1
    if slope * width >= ONE:
        slope = max(1, (ONE - 1) // width)
    parameters = RedParameters(0, 0, width, slope * width)
    mean, distance = Fraction(0), 1
    lowest = 0  # the least drawn number whose distance is `distance`
    while lowest < ONE:
        beyond = min(ONE, slope * (above * distance + 1))  # the first that needs one packet more
        mean += distance * Fraction(beyond - lowest, ONE)
        lowest, distance = beyond, distance + 1
    assert parameters.slope == slope
    assert parameters.expected_fraction(above) == 1 / mean


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4 * 10**6),
    st.fractions(Fraction(1, 100), 1, max_denominator=1000),
    st.integers(0, 1000),
)
def test_any_curve_is_followed_within_an_eighth_of_pmax_squared_and_the_rounding(
    kmin: int, width: int, pmax: Fraction, place: int
) -> None:
    curve = EcnCurve(Size.from_bytes(kmin), Size.from_bytes(kmin + width), pmax)
    parameters = red_parameters(curve)
    queue = kmin + width * place // 1001
    bound = pmax**2 / 8 + pmax / (2 * parameters.slope - 1)
    assert abs(parameters.expected_fraction(queue) - curve.fraction(queue)) <= bound


@pytest.mark.parametrize("pmax", ["0.05", "0.2", "0.8"])
def test_no_other_slope_is_nearer_to_the_curve(pmax: str) -> None:
    curve = EcnCurve("10kB", "60kB", pmax)
    chosen = red_parameters(curve)

    def worst(slope: int) -> Fraction:
        parameters = RedParameters(0, 10_000, 60_000, slope * 50_000)
        lengths = range(10_000, 60_000, 50)
        return max(abs(parameters.expected_fraction(queue) - curve.fraction(queue)) for queue in lengths)

    best = worst(chosen.slope)
    assert worst(chosen.slope * 98 // 100) > best < worst(chosen.slope * 102 // 100)


def test_a_queue_that_rises_and_falls_is_marked_by_the_curve_too() -> None:
    """100 times up and down between the limits and beyond, a packet at a time."""
    curve = EcnCurve("100kB", "400kB", "0.2")
    model = busy(red_parameters(curve), spread(997))
    rise = range(0, 450_000, PACKET)
    lengths = [*rise, *reversed(rise)] * 100
    picked = [model.arrive(0, queue, PACKET) for queue in lengths]
    wanted = sum(curve.fraction(queue) for queue in lengths if queue < 400_000)
    assert picked.count(Pick.PICKED) == pytest.approx(wanted, rel=0.03)
    assert picked.count(Pick.FORCED) == sum(queue >= 400_000 for queue in lengths)


# The step, and what the queue is


@pytest.mark.parametrize("k", ["0B", "1B", "84kB", "2GB"])
def test_kmin_equal_kmax_is_an_exact_step(k: str) -> None:
    size = Size(k).bytes
    model = busy(red_parameters(EcnCurve.step(k)))
    for queue in (0, 1, size - 1, size, size + 1, size - 1, size + 10**6):
        if queue >= 0:
            assert model.arrive(0, queue, PACKET) is (Pick.FORCED if queue >= size else Pick.PASSED)


def test_the_queue_is_measured_before_the_packet_is_added() -> None:
    """Packets fill a queue of its own accord: the first that finds 6000 bytes is the fifth of 1500."""
    model = busy(red_parameters(EcnCurve.step("6000B")))
    picks = [model.arrive(0, waiting, PACKET) for waiting in range(0, 9000, PACKET)]
    assert picks == [Pick.PASSED] * 4 + [Pick.FORCED] * 2


def test_a_curve_for_the_queue_with_the_packet_takes_its_size_off_both_thresholds() -> None:
    model = busy(red_parameters(EcnCurve.step("6000B"), arriving=Size("1500B")))
    picks = [model.arrive(0, waiting, PACKET) for waiting in range(0, 9000, PACKET)]
    assert picks == [Pick.PASSED] * 3 + [Pick.FORCED] * 3
    ramp = EcnCurve("100kB", "400kB", "0.2")
    before, after = red_parameters(ramp), red_parameters(ramp, arriving=Size("1500B"))
    assert [after.expected_fraction(queue) for queue in (98_499, 200_000, 398_500)] == [
        before.expected_fraction(queue + PACKET) for queue in (98_499, 200_000, 398_500)
    ]


def test_the_limit_counts_the_packet_and_drops_what_does_not_fit() -> None:
    model = busy(red_parameters(EcnCurve("2kB", "4kB", 1, limit="6kB")))
    assert [model.arrive(0, waiting, PACKET) for waiting in (4000, 4500, 4501, 6000)] == [
        Pick.FORCED,
        Pick.FORCED,
        Pick.FULL,
        Pick.FULL,
    ]


# Idle time


def test_the_first_packet_after_an_empty_queue_meets_an_empty_queue() -> None:
    model = busy(red_parameters(EcnCurve.step("84kB")))
    assert model.arrive(0, 10**9, PACKET) is Pick.FORCED
    model.found_nothing(1000)
    assert model.arrive(1001, 0, PACKET) is Pick.PASSED


def test_a_table_with_state_would_mark_it() -> None:
    """tc makes such a table for every average packet and bandwidth that it is given: it starts with 0."""
    parameters = RedParameters(0, 84_000, 84_000, 1, scell_log=10, stab=bytes(16) + bytes([1]) * 240)
    model = busy(parameters)
    model.arrive(0, 10**6, PACKET)
    model.found_nothing(1000)
    assert model.arrive(1_001_000, 0, PACKET) is Pick.FORCED  # 1 ms later the average is still half


def test_ageing_is_a_line_where_the_table_has_zeros_and_a_shift_elsewhere() -> None:
    parameters = RedParameters(0, 1, 10**6, ONE - 1, scell_log=10, stab=bytes(2) + bytes([3]) * 254)

    def average_after(idle_us: int) -> int:
        """Find the average by lowering qth_max until the packet is forced."""
        low, high = 0, 10**6
        while low < high:
            middle = (low + high + 1) // 2
            model = busy(RedParameters(0, 0, middle, 1, scell_log=10, stab=parameters.stab))
            model.arrive(0, 800_000, PACKET)
            model.found_nothing(0)
            low, high = (middle, high) if model.arrive(idle_us * 1000, 0, PACKET) is Pick.FORCED else (low, middle - 1)
        return low

    assert [average_after(us) for us in (0, 256, 500, 1024, 2048, 10**9)] == [
        800_000,
        600_000,
        409_375,  # 800000 - 800000 * 500 / 1024
        400_000,  # never less than half by the line
        100_000,  # 800000 >> 3
        100_000,  # idle time counts up to 255 cells
    ]


def in_a_pause(parameters: RedParameters, before: int) -> list[Pick]:
    """Pass 30 packets while the queue grows to 1 MB, each followed by an attempt to send that finds the plug."""
    model = busy(parameters)
    assert model.arrive(0, before, PACKET) is (Pick.FORCED if before >= 84_000 else Pick.PASSED)
    picks = []
    for number in range(30):
        model.found_nothing(number * 10**7)
        picks.append(model.arrive(number * 10**7 + 9_000_000, 10**6, PACKET))
    assert model.arrive(400_000_000, 10**6, PACKET) is Pick.FORCED  # no try since then found nothing: measured again
    return picks


def test_in_a_pause_packets_are_picked_by_the_queue_at_its_beginning() -> None:
    """The kernel does not look at the queue while a plug holds it back: an admitted limit of `red`."""
    held = red_parameters(EcnCurve.step("84kB"), plug_below=True)
    assert in_a_pause(held, before=90_000) == [Pick.FORCED] * 30
    assert in_a_pause(held, before=80_000) == [Pick.PASSED] * 30


def test_what_is_right_for_an_empty_queue_would_pick_nothing_in_a_pause() -> None:
    assert in_a_pause(red_parameters(EcnCurve.step("84kB")), before=90_000) == [Pick.PASSED] * 30


def test_a_pause_of_335_ms_wears_off_four_percent_of_what_is_held_and_9_s_all_of_it() -> None:
    for k, idle_ms, pick in (("96kB", 335, Pick.FORCED), ("96.1kB", 335, Pick.PASSED), ("1B", 9000, Pick.PASSED)):
        model = busy(red_parameters(EcnCurve.step(k), plug_below=True))
        model.arrive(0, 100_000, PACKET)
        model.found_nothing(0)
        assert model.arrive(idle_ms * 10**6, 0, PACKET) is pick


def test_with_a_weight_the_average_follows_slowly_as_red_was_meant() -> None:
    """Wlog 2, thresholds of 1000 and 2000: the average gains a quarter of the distance with each packet."""
    model = busy(RedParameters(0, 1000, 2000, 1, wlog=2))
    picks = [model.arrive(0, 3200, 100) for _ in range(5)]
    assert picks == [Pick.PASSED] * 3 + [Pick.FORCED] * 2  # 800, 1400, 1850, 2187, 2440


# What the kernel is given


def test_the_message_to_the_kernel_field_by_field() -> None:
    parameters = red_parameters(EcnCurve("100kB", "400kB", "0.2", limit="2MB"))
    (parms, options), (stab, table), (max_p, probability), (flags, bits) = parameters.attributes()
    assert (parms, stab, max_p, flags) == (1, 2, 3, 4)
    assert options == struct.pack("=3I4B", 2_000_000, 100_000, 400_000, 0, parameters.plog, 0, 0)
    assert len(options) == 16
    assert table == FORGET == b"\x1f" * 256
    assert struct.unpack("=I", probability) == (parameters.slope * 300_000,)
    assert struct.unpack("=II", bits) == (0b0001, 0b1111)


def test_a_compensated_probability_is_near_to_half_the_curves() -> None:
    told = red_parameters(EcnCurve("100kB", "400kB", "0.2")).max_p / ONE
    assert told == pytest.approx(0.1091, abs=1e-4)


def test_plog_is_the_slope_as_a_power_of_two() -> None:
    for max_p in (1, 10**4, 10**6, ONE - 1):
        parameters = RedParameters(0, 0, 1, max_p)
        assert 2**parameters.plog <= ONE / max_p <= 2 * 2**parameters.plog


def test_packets_without_ecn_that_shall_be_kept_need_nodrop() -> None:
    parameters = red_parameters(EcnCurve("100kB", "400kB", "0.2", keep_not_ect=True))
    assert struct.unpack("=II", parameters.attributes()[3][1]) == (0b1001, 0b1111)


def test_a_plug_below_red_enforces_the_limit_and_red_has_none() -> None:
    curve = EcnCurve("100kB", "400kB", "0.2", limit="2MB")
    assert [red_parameters(curve, plug_below=below).limit for below in (False, True)] == [2_000_000, 0]
    below = red_parameters(curve, plug_below=True)
    assert (below.stab, below.scell_log, below.qopt()[14]) == (bytes(1) + b"\x1f" * 255, 23, 23)
    assert red_parameters(EcnCurve("100kB", "400kB", "0.2")).limit == 2**31 - 1


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.fractions(Fraction(1, 100), 1, max_denominator=100))
def test_whatever_is_made_passes_the_kernels_checks_or_is_refused_in_words(
    one: int, other: int, pmax: Fraction
) -> None:
    curve = EcnCurve(Size.from_bytes(min(one, other)), Size.from_bytes(max(one, other)), pmax)
    try:
        parameters = red_parameters(curve)
    except EcnError as error:
        assert "Linux RED cannot rise so slowly" in str(error)
        assert abs(one - other) * 10 > pmax * ONE * 9 / 10
        return
    assert parameters.qth_min <= parameters.qth_max < 2**31  # red_check_params, with Wlog 0
    assert 0 < parameters.max_p < ONE
    assert parameters.max_p // max(1, parameters.qth_max - parameters.qth_min) == parameters.slope


# What cannot be


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("400kB", "100kB", "0.2"), "kmin is 400kB and kmax 100kB; kmin cannot be the larger"),
        (("1kB", "3GB", "0.2"), "kmax is 3GB; Linux counts queues up to 2147483647B"),
        (("1kB", "2kB", "0.2", "3GB"), "limit is 3GB; Linux counts queues up to 2147483647B"),
        (
            ("100kB", "400kB", "0.2", "400kB"),
            "limit is 400kB and kmax 400kB: packets would be dropped before the queue is long enough to mark each; "
            "leave room for at least one packet above kmax",
        ),
        *(
            (
                ("100kB", "400kB", pmax),
                f"pmax is {pmax!r}; it is above 0 and at most 1, written such as '1/5', '0.2' or '20%'",
            )
            for pmax in (0, 2, -1, 0.2, True, None, "", "%", "-1/5", "1.2", "120%", "1/0", "1e-999999999", "9" * 31)
        ),
        (
            ("100kB", "400kB", Fraction(6, 5)),
            "pmax is 6/5; it is above 0 and at most 1, written such as '1/5', '0.2' or '20%'",
        ),
    ],
)
def test_an_invalid_curve_is_refused_with_its_values(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(EcnError) as caught:
        EcnCurve(*arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert isinstance(caught.value, UsageError)


def test_a_rise_that_is_too_slow_for_the_kernel_is_refused_and_the_advice_helps() -> None:
    with pytest.raises(EcnError) as caught:
        red_parameters(EcnCurve("1MB", "101MB", "1/100"))
    assert str(caught.value) == (
        "pmax is 1/100 from kmin 1MB to kmax 101MB: Linux RED cannot rise so slowly with the queue; raise pmax, "
        "or bring kmax to at most 4294967B above kmin"
    )
    assert red_parameters(EcnCurve("0B", "4294967B", "1/100")).slope == 5


def test_a_kmin_below_the_arriving_packet_is_refused() -> None:
    with pytest.raises(EcnError) as caught:
        red_parameters(EcnCurve("1kB", "9kB", "0.2"), arriving=Size("1500B"))
    assert str(caught.value) == (
        "kmin is 1kB with the arriving packet counted, and that packet has 1500B: Linux does not count it and has no "
        "threshold below 0; set kmin to 1500B or more"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qth_min": 9}, "qth_min is 9 and qth_max 8; qth_min cannot be the larger"),
        ({"qth_max": 2**31}, "qth_max is 2147483648 with Wlog 0; Linux takes up to 2147483647 >> Wlog"),
        ({"qth_max": 2**30, "wlog": 1}, "qth_max is 1073741824 with Wlog 1; Linux takes up to 2147483647 >> Wlog"),
        ({"qth_min": -1}, "qth_min is -1 with Wlog 0; Linux takes up to 2147483647 >> Wlog"),
        ({"limit": -1}, "limit is -1; it is 0 (the plug below has one) to 2147483647"),
        ({"max_p": 0}, "max_P is 0; it is 1 to 4294967295, and 0 would mean that Plog is used"),
        ({"max_p": ONE}, "max_P is 4294967296; it is 1 to 4294967295, and 0 would mean that Plog is used"),
        ({"flags": 8}, "flags are 8; they are sums of 1, 2, 4 and 8, and NODROP (8) needs ECN (1)"),
        ({"flags": 16}, "flags are 16; they are sums of 1, 2, 4 and 8, and NODROP (8) needs ECN (1)"),
        ({"stab": bytes(255)}, "Scell_log and the 256 numbers of stab are 0 to 31"),
        ({"stab": bytes([32]) * 256}, "Scell_log and the 256 numbers of stab are 0 to 31"),
        ({"scell_log": 32}, "Scell_log and the 256 numbers of stab are 0 to 31"),
    ],
)
def test_parameters_that_the_kernel_would_refuse_or_misread_are_refused(
    change: dict[str, int | bytes], message: str
) -> None:
    good: dict[str, object] = {"limit": 100, "qth_min": 1, "qth_max": 8, "max_p": 70}
    RedParameters(**good)  # type: ignore[arg-type]
    with pytest.raises(EcnError) as caught:
        RedParameters(**good | change)  # type: ignore[arg-type]
    assert str(caught.value) == message
