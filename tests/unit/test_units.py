"""The promises of testbed.units: exact values, one way to read text, errors that help."""

import copy
import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.errors import UsageError, XoffError
from testbed.units import (
    FIBRE_PER_METRE,
    PFC_QUANTUM_BITS,
    Duration,
    Length,
    Quantity,
    Rate,
    Scale,
    Size,
    UnitError,
    written,
)

TYPES: list[type[Quantity]] = [Rate, Length, Duration, Size]


def from_inner(kind: type[Quantity], value: int) -> Quantity:
    """The instance of `kind` for `value` of its inner units."""
    if kind is Rate:
        return Rate.from_bps(value)
    if kind is Length:
        return Length.from_mm(value)
    if kind is Duration:
        return Duration.from_ps(value)
    return Size.from_bytes(value)


def amounts(limit: int) -> st.SearchStrategy[int]:
    """Whole numbers up to `limit`, round ones as often as odd ones."""
    powers = st.integers(0, len(str(limit)) - 1).map(lambda n: 10**n)
    rounds = st.builds(lambda n, power: min(n * power, limit), st.integers(0, 9999), powers)
    return st.integers(0, limit) | rounds


rates = amounts(Rate.limit).map(Rate.from_bps)
lengths = amounts(Length.limit).map(Length.from_mm)
durations = amounts(Duration.limit).map(Duration.from_ps)
sizes = amounts(Size.limit).map(Size.from_bytes)
quantities: st.SearchStrategy[Quantity] = st.one_of(rates, lengths, durations, sizes)
pairs: st.SearchStrategy[tuple[Quantity, Quantity]] = st.one_of(
    st.tuples(rates, rates),
    st.tuples(lengths, lengths),
    st.tuples(durations, durations),
    st.tuples(sizes, sizes),
)
scales = st.integers(1, Scale.limit).map(Scale)

MBPS = [10, 100, 1000, 2500, 5000, 10**4, 25000, 40000, 50000, 10**5, 200000, 400000, 800000]
ETHERNET = [Rate.from_bps(mbps * 10**6) for mbps in [*MBPS, 1_600_000]]

# Values as they occur on real or lab links, small enough that no result passes a limit.
link_rates = st.integers(10**3, 2 * 10**12).map(Rate.from_bps)
link_times = st.integers(0, 10**15).map(Duration.from_ps)
link_sizes = st.integers(0, 10**9).map(Size.from_bytes)


def message(kind: type[Quantity] | type[Scale], text: object) -> str:
    """The error for `text`, which may be of a wrong type on purpose."""
    with pytest.raises(UnitError) as caught:
        kind(text)  # type: ignore[arg-type]
    return str(caught.value)


# Reading text


@pytest.mark.parametrize(
    ("kind", "inner", "texts"),
    [
        (Rate, 25 * 10**9, "25Gb/s, 25 Gb/s, 25Gbps, 25Gbit, 25gbit, 25Gbit/s, 25000Mb/s"),
        (Rate, 100 * 10**6, "100Mb/s, 100Mbit/s, 100mbit, 0.1Gb/s, .1Gb/s, 12.5MB/s"),
        (Rate, 200 * 10**9, "25GB/s, 25GBps, 200Gb/s"),
        (Rate, 64_000, "64kb/s, 64Kb/s, 64kbit, 8kB/s"),
        (Rate, 8, "8b/s, 8bps, 8bit, 1B/s, 1Bps"),
        (Length, 500_000, "500m, 0.5km, 500000mm, 500.000 m"),
        (Length, 50_000_000, "50km, 50 km"),
        (Length, 50, "5 cm, 50mm, 0.05m"),
        (Duration, 3_300_000, "3.3us, 3.3 us, 3.3\u00b5s, 3.3 \u03bcs, 3300ns"),
        (Duration, 2_500_000_000, "2.5 ms, 2500us"),
        (Duration, 90 * 10**12, "1.5min, 90s, 0.025h"),
        (Duration, 3600 * 10**12, "1 h, 60min"),
        (Duration, 3_355_392_000_001, "3.355392000001s"),
        (Size, 9216, "9216B, 9.216kB, 9KiB, 9216 bytes"),
        (Size, 9000, "9kB, 9KB"),
        (Size, 65536, "64KiB, 0.0625MiB"),
        (Size, 10**6, "1MB, 1000kB"),
        (Size, 1, "1B, 1 byte"),
        (Size, 0, "0B, 0.0kB"),
    ],
)
def test_a_value_is_read_as_people_write_it(kind: type[Quantity], inner: int, texts: str) -> None:
    for text in texts.split(", "):
        assert kind(text) == from_inner(kind, inner), text
        assert kind(f"\t{text}\n") == from_inner(kind, inner), text


def test_a_value_gives_its_whole_number_under_the_name_of_its_unit() -> None:
    assert Rate("25Gb/s").bps == 25_000_000_000
    assert Length("500m").mm == 500_000
    assert (Duration("3.3us").ps, Duration("3.3us").ns) == (3_300_000, 3300)
    assert (Size("9216B").bytes, Size("9216B").bits) == (9216, 73728)


def test_an_instance_passes_through() -> None:
    assert Rate(Rate("25Gb/s")) == Rate("25Gb/s")
    assert Scale(Scale("x8")) == Scale(8)


@given(quantities, st.sampled_from(["", " ", "\u00a0", "\u2009"]))
def test_every_printed_value_reads_back_with_or_without_a_space(x: Quantity, space: str) -> None:
    number = str(x).rstrip("/bBkMGTPpnumsi")
    assert type(x)(f"{number}{space}{str(x).removeprefix(number)}") == x


@given(st.sampled_from(TYPES), st.data())
def test_every_unit_of_every_table_has_the_factor_of_the_table(kind: type[Quantity], data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(kind.units)))
    thousandths = data.draw(st.integers(0, 9_999_999))
    value = Fraction(thousandths * kind.units[unit], 1000)
    assume(value.denominator == 1 and value <= kind.limit)
    text = f"{thousandths // 1000}.{thousandths % 1000:03d}{unit}"
    assert kind(text) == from_inner(kind, int(value))


# Refusing text


def refusals(block: str) -> pytest.MarkDecorator:
    """One case for each line of `block`, an error message that starts with the text it is about."""
    return pytest.mark.parametrize("expected", block.strip().splitlines())


def check_refusal(expected: str) -> None:
    """The text an error message quotes first must give that very message."""
    _, text, _ = expected.split("'", 2)
    kind = next(kind for kind in TYPES if f" {kind.noun}" in expected.partition(":")[0])
    assert message(kind, text) == expected


@refusals("""
'' is not a rate: it is empty; write for example '25Gb/s'
' ' is not a length: it is empty; write for example '500m'
'25' is not a rate: it has no unit (b/s, kb/s, Mb/s, Gb/s, Tb/s, Pb/s); write for example '25Gb/s'
'-5m' is not a length: it is negative; write for example '500m'
'\u22125m' is not a length: it is negative; write for example '500m'
'nan' is not a duration: it does not start with a number; write for example '3.3us'
'inf B' is not a size: it does not start with a number; write for example '9216B'
'1e9b/s' is not a rate: its number must look like 12 or 12.5; write for example '25Gb/s'
'1,5us' is not a duration: its number must look like 12 or 12.5; write for example '3.3us'
'5 feet' is not a length: unknown unit 'feet'; write for example '500m'
""")
def test_text_that_is_not_a_value_is_refused_with_the_reason(expected: str) -> None:
    check_refusal(expected)


@refusals("""
'5m' is not a duration: m is metres here, and minutes are min; did you mean '5min'?
'5min' is not a length: min is a unit of duration; write for example '500m'
'500m' is not a rate: m is a unit of length; write for example '25Gb/s'
'25gbit' is not a size: gbit is a unit of rate; write for example '9216B'
'25GB' is not a rate: GB is a unit of size; did you mean '25GB/s'?
""")
def test_a_unit_of_another_quantity_is_named_as_such(expected: str) -> None:
    check_refusal(expected)


@refusals("""
'2gb/s' is not a rate: unknown unit 'gb/s' (b is bit, B is byte); did you mean '2Gb/s' or '2GB/s'?
'2gbps' is not a rate: unknown unit 'gbps' (b is bit, B is byte); did you mean '2Gbps' or '2GBps'?
'25gb' is not a rate: unknown unit 'gb'; did you mean '25Gb/s' or '25GB/s'?
'64kb' is not a size: unknown unit 'kb' (b is bit, B is byte); did you mean '64kB'?
'5 KM' is not a length: unknown unit 'KM' (case counts); did you mean '5km'?
'5Ms' is not a duration: unknown unit 'Ms' (case counts); did you mean '5ms'?
""")
def test_case_that_could_change_the_meaning_is_refused_not_guessed(expected: str) -> None:
    check_refusal(expected)


@refusals("""
'25Gbs' is not a rate: unknown unit 'Gbs'; did you mean '25Gb/s'?
'25Gb' is not a rate: unknown unit 'Gb'; did you mean '25Gb/s'?
'5mins' is not a duration: unknown unit 'mins'; did you mean '5min'?
""")
def test_a_slip_of_the_keyboard_gets_a_suggestion(expected: str) -> None:
    check_refusal(expected)


@refusals("""
'0.5b/s' is not a whole number of b/s, the smallest step of a rate; write '0b/s' or '1b/s'
'1.2345m' is not a whole number of mm, the smallest step of a length; write '1.234m' or '1.235m'
'2.5ps' is not a whole number of ps, the smallest step of a duration; write '2ps' or '3ps'
'0.0001KiB' is not a whole number of B, the smallest step of a size; write '0B' or '1B'
""")
def test_text_finer_than_the_smallest_step_is_refused_not_rounded(expected: str) -> None:
    check_refusal(expected)


@refusals("""
'1.1Pb/s' is more than 1Pb/s, the largest rate Xoff accepts
'10000000.1km' is more than 10000000km, the largest length Xoff accepts
'277778h' is more than 1000000000s, the largest duration Xoff accepts
'1PiB' is more than 1PB, the largest size Xoff accepts
""")
def test_more_than_the_limit_is_refused(expected: str) -> None:
    check_refusal(expected)


@pytest.mark.parametrize("kind", TYPES)
def test_the_limit_itself_is_accepted(kind: type[Quantity]) -> None:
    assert kind(str(from_inner(kind, kind.limit))) == from_inner(kind, kind.limit)


def test_long_text_is_cut_in_the_message() -> None:
    assert message(Size, "1" + "x" * 50) == (
        f"'1{'x' * 35}... is not a size: unknown unit '{'x' * 36}...; write for example '9216B'"
    )
    assert message(Size, "9" * 5000 + "B") == (
        "'999999999999999999999999999999999999... is not a size: it is longer than 60 characters; "
        "write for example '9216B'"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (25e9, "25000000000.0"),
        (25, "25"),
        (None, "None"),
        (b"25Gb/s", "b'25Gb/s'"),
        pytest.param(10**5000, "(an integer of 16610 bits)", id="huge"),
    ],
)
def test_only_text_makes_a_value(value: object, shown: str) -> None:
    assert message(Rate, value) == (f"a rate is read from text with a unit, such as '25Gb/s', not from {shown}")


def test_one_quantity_is_not_made_from_another() -> None:
    assert message(Rate, Length("500m")) == (
        "a rate is read from text with a unit, such as '25Gb/s', not from Length('500m')"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.0, "2.0 is not a whole number of b/s; write text such as '25Gb/s'"),
        (-1, "-1b/s is not a rate: it is negative"),
        (10**15 + 1, "1000000000000001b/s is more than 1Pb/s, the largest rate Xoff accepts"),
        pytest.param(
            10**5000,
            "(an integer of 16610 bits)b/s is more than 1Pb/s, the largest rate Xoff accepts",
            id="huge",
        ),
    ],
)
def test_the_integer_constructor_takes_whole_numbers_in_bounds(value: int, expected: str) -> None:
    with pytest.raises(UnitError) as caught:
        Rate.from_bps(value)
    assert str(caught.value) == expected


almost_values = st.text("0123456789.,-+eE_ xkKMGTPinu\u00b5\u03bcpsmhbBty/", max_size=12)


@given(st.sampled_from([*TYPES, Scale]), st.text() | almost_values)
def test_random_text_is_read_or_refused_in_one_short_line(kind: type[Quantity] | type[Scale], text: str) -> None:
    try:
        x = kind(text)
    except UnitError as error:
        line = str(error)
        assert line.isprintable()
        assert len(line) < 250
    else:
        assert kind(str(x)) == x


def test_a_unit_error_is_a_usage_error_and_a_value_error() -> None:
    assert issubclass(UnitError, UsageError)
    assert issubclass(UnitError, ValueError)
    assert issubclass(UsageError, XoffError)
    assert (XoffError.exit_code, UnitError.exit_code) == (1, 2)


# Printing


@pytest.mark.parametrize(
    ("kind", "written", "printed"),
    [
        (
            Rate,
            "25000Mb/s 25GB/s 1500Mb/s 1.6Tb/s 1.5kb/s 0Gb/s",
            "25Gb/s 200Gb/s 1.5Gb/s 1.6Tb/s 1500b/s 0b/s",
        ),
        (Length, "500m 1.5km 5cm 50000m 1234mm 0mm", "500m 1500m 50mm 50km 1.234m 0m"),
        (Duration, "3300ns 1.5min 3355392us 0.3355392s 1h", "3.3us 90s 3.355392s 335.5392ms 3600s"),
        (Duration, "1111112ps 99999ps 100001ps 5000000s", "1.111112us 99999ps 100.001ns 5000000s"),
        (Rate, "94522026b/s", "94.522026Mb/s"),
        (Size, "9216B 1.5kB 9000B 64KiB 1000kB", "9216B 1500B 9kB 65536B 1MB"),
    ],
)
def test_a_value_prints_the_shortest_exact_text(kind: type[Quantity], written: str, printed: str) -> None:
    assert [str(kind(text)) for text in written.split()] == printed.split()


@given(quantities)
def test_a_reported_number_and_its_unit_are_written_as_the_value_is(x: Quantity) -> None:
    assume(isinstance(x.number, int))
    assert written(x.number, x.reported) == str(x)


def test_what_is_reported_is_written_as_people_do() -> None:
    assert written(94522026, "b/s") == "94.522026Mb/s"
    assert written(1111.112, "ns") == "1.111112us"
    assert written([4_000_000, None], "ns") == "[4ms, None]"
    assert written({"h1": 10**6}, "b/s") == "{h1: 1Mb/s}"
    assert (written(3, "frames"), written(True, "ns"), written(-4, "ns")) == ("3 frames", "True ns", "-4 ns")
    assert (written([1, 2], ""), written(3, "")) == ("[1, 2]", "3")


def test_repr_is_the_expression_that_makes_the_value() -> None:
    assert repr(Rate.from_bps(25_000_000_000)) == "Rate('25Gb/s')"
    assert repr(Scale(1000)) == "Scale('x1000')"


@given(quantities)
def test_printed_text_reads_back_as_the_same_value(x: Quantity) -> None:
    again = type(x)(str(x))
    assert again == x
    assert hash(again) == hash(x)


@given(quantities)
def test_a_printed_number_is_at_least_one_unless_the_value_is_zero(x: Quantity) -> None:
    assert not str(x).startswith("0") or x == from_inner(type(x), 0)


# Being a value


@given(quantities)
def test_a_value_survives_copy_and_pickle(x: Quantity) -> None:
    assert copy.deepcopy(x) == x
    assert pickle.loads(pickle.dumps(x)) == x


@pytest.mark.parametrize("x", [Rate("1Gb/s"), Scale(10)])
def test_a_value_is_immutable(x: object) -> None:
    with pytest.raises(AttributeError):
        x.k = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        x._value = 1  # type: ignore[attr-defined]


def test_equal_numbers_of_different_quantities_are_different_values() -> None:
    assert len({Rate("1b/s"), Length("1mm"), Duration("1ps"), Size("1B")}) == len(TYPES)


def test_quantities_do_not_mix() -> None:
    rate, size = Rate("1b/s"), Size("1B")
    for mixed in (
        lambda: rate < size,  # type: ignore[operator]
        lambda: rate >= size,  # type: ignore[operator]
        lambda: rate + size,  # type: ignore[operator]
        lambda: rate - size,  # type: ignore[operator]
        lambda: rate / size,  # type: ignore[operator]
        lambda: rate // size,  # type: ignore[operator]
        lambda: rate * size,  # type: ignore[operator]
        lambda: rate * 0.5,  # type: ignore[operator]
    ):
        with pytest.raises(TypeError):
            mixed()


# Arithmetic


@given(st.sampled_from(TYPES), st.data())
def test_order_is_the_order_of_the_integers_inside(kind: type[Quantity], data: st.DataObject) -> None:
    a = data.draw(amounts(kind.limit))
    b = data.draw(amounts(kind.limit) | st.just(a))
    x, y = from_inner(kind, a), from_inner(kind, b)
    assert (x < y, x <= y, x == y, x >= y, x > y) == (a < b, a <= b, a == b, a >= b, a > b)


@given(pairs)
def test_subtraction_undoes_addition(pair: tuple[Quantity, Quantity]) -> None:
    x, y = pair[0] // 2, pair[1] // 2
    assert x + y == y + x
    assert (x + y) - y == x


@given(pairs)
def test_the_ratio_is_exact_and_the_whole_part_is_its_floor(
    pair: tuple[Quantity, Quantity],
) -> None:
    x, y = pair
    assume(y > y - y)
    assert type(x / y) is Fraction
    assert x // y == math.floor(x / y)
    assert (x == y) == (x / y == 1)


@given(quantities, st.integers(1, 10**6))
def test_an_integer_part_times_the_integer_is_the_value_less_a_remainder(x: Quantity, n: int) -> None:
    part = x // n
    assert part * n == n * part
    assert x - part * n < from_inner(type(x), n)


def test_a_negative_difference_is_refused() -> None:
    with pytest.raises(UnitError) as caught:
        Rate("1Gb/s") - Rate("2Gb/s")
    assert str(caught.value) == "1Gb/s - 2Gb/s is negative, which a rate must not be"


def test_a_negative_product_is_refused() -> None:
    with pytest.raises(UnitError) as caught:
        Size("64B") * -1
    assert str(caught.value) == "-64B is not a size: it is negative"


def test_a_sum_or_product_above_the_limit_is_refused() -> None:
    with pytest.raises(UnitError, match="the largest rate Xoff accepts"):
        Rate("1Pb/s") + Rate("1b/s")
    with pytest.raises(UnitError, match="the largest size Xoff accepts"):
        Size("1MB") * 10**10


@pytest.mark.parametrize(("ps", "ns"), [(0, 0), (499, 0), (500, 1), (1499, 1), (1500, 2), (2_000, 2)])
def test_ns_is_the_nearest_nanosecond_halves_up(ps: int, ns: int) -> None:
    assert Duration.from_ps(ps).ns == ns


@given(st.integers(0, 10**18))
def test_nanoseconds_go_in_and_out_unchanged(ns: int) -> None:
    assert Duration.from_ns(ns).ns == ns
    assert Duration.from_ns(ns).ps == ns * 1000


# Rates, sizes and times


@pytest.mark.parametrize(
    ("rate", "size", "time"),
    [
        ("10Mb/s", "64B", "51.2us"),
        ("10Gb/s", "1250B", "1us"),
        ("100Gb/s", "1B", "80ps"),
        ("400Gb/s", "9216B", "184.32ns"),
        ("1.6Tb/s", "1B", "5ps"),
        ("3b/s", "1B", "2.666666666667s"),
    ],
)
def test_time_for_a_size(rate: str, size: str, time: str) -> None:
    assert Rate(rate).time_for(Size(size)) == Duration(time)


@pytest.mark.parametrize("rate", ETHERNET, ids=str)
def test_the_time_of_one_byte_is_whole_at_every_ethernet_rate(rate: Rate) -> None:
    assert rate.bits_in(rate.time_for(Size("1B"))) == Size("1B").bits


@given(link_rates, link_sizes)
def test_time_for_is_the_shortest_time_in_which_the_size_fits(rate: Rate, size: Size) -> None:
    time = rate.time_for(size)
    assert rate.size_in(time) >= size
    if time > Duration("0s"):
        assert rate.bits_in(time - Duration("1ps")) < size.bits


@given(link_rates, link_times)
def test_size_in_is_the_largest_size_that_fits_in_the_time(rate: Rate, time: Duration) -> None:
    size = rate.size_in(time)
    assert rate.time_for(size) <= time
    assert rate.time_for(size + Size("1B")) > time


def test_bits_in_is_exact_where_bytes_would_round() -> None:
    assert Rate("400Gb/s").bits_in(Duration("1ps")) == Fraction(2, 5)
    assert Rate("400Gb/s").size_in(Duration("19ps")) == Size("0B")
    assert Rate("400Gb/s").size_in(Duration("20ps")) == Size("1B")


def test_nothing_is_ever_sent_at_rate_zero() -> None:
    assert Rate("0b/s").size_in(Duration("1h")) == Size("0B")
    with pytest.raises(UnitError) as caught:
        Rate("0b/s").time_for(Size("64B"))
    assert str(caught.value) == "64B takes forever at 0b/s; give a rate above zero"


# PFC


@pytest.mark.parametrize(
    ("rate", "quantum", "longest"),
    [
        ("10Mb/s", "51.2us", "3.355392s"),
        ("100Mb/s", "5.12us", "335.5392ms"),
        ("1Gb/s", "512ns", "33.55392ms"),
        ("10Gb/s", "51.2ns", "3.355392ms"),
        ("100Gb/s", "5.12ns", "335.5392us"),
        ("400Gb/s", "1280ps", "83.8848us"),
    ],
)
def test_a_quantum_is_512_bit_times_and_the_longest_pause_is_65535_of_them(
    rate: str, quantum: str, longest: str
) -> None:
    assert PFC_QUANTUM_BITS == 512
    assert Rate(rate).quantum == Duration(quantum)
    assert Rate(rate).time_for_quanta(65535) == Duration(longest)
    assert Rate(rate).quanta(Duration(longest)) == 65535


def test_a_pause_is_rounded_once_and_not_per_quantum() -> None:
    rate = Rate("3Mb/s")
    assert rate.quantum == Duration("170666667ps")
    assert rate.time_for_quanta(3) == Duration("512us") < rate.quantum * 3


def test_quanta_round_up_and_are_not_clamped() -> None:
    rate = Rate("1Gb/s")
    assert rate.quanta(Duration("0s")) == 0
    assert rate.quanta(Duration("1ps")) == 1
    assert rate.quanta(Duration("512ns")) == 1
    assert rate.quanta(Duration("512.001ns")) == 2
    assert rate.quanta(Duration("1s")) == 1_953_125


@given(link_rates, link_times)
def test_quanta_are_the_fewest_that_cover_the_duration(rate: Rate, time: Duration) -> None:
    quanta = rate.quanta(time)
    assert rate.time_for_quanta(quanta) >= time
    assert quanta == 0 or (quanta - 1) * PFC_QUANTUM_BITS < rate.bits_in(time)


# Cables


@pytest.mark.parametrize(
    ("length", "delay"),
    [("1mm", "5ps"), ("5m", "25ns"), ("500m", "2.5us"), ("1km", "5us"), ("50km", "250us")],
)
def test_fibre_takes_5_ns_per_metre(length: str, delay: str) -> None:
    assert Length(length).propagation() == Duration(delay)
    assert Duration(delay).length() == Length(length)
    assert Length("1m").propagation() == FIBRE_PER_METRE


def test_annex_n_cable_delay_comes_out_with_a_slower_medium() -> None:
    # 802.1Q Annex N: 100 m of twisted pair at 10 Gb/s is 5556 bit times.
    delay = Length("100m").propagation(per_metre=Duration("5.556ns"))
    assert Rate("10Gb/s").bits_in(delay) == 5556


@given(lengths)
def test_propagation_in_fibre_is_exact_both_ways(length: Length) -> None:
    assert length.propagation().ps == length.mm * 5
    assert length.propagation().length() == length


@given(lengths, st.integers(1000, 10_000).map(Duration.from_ps))
def test_length_undoes_propagation_in_every_real_medium(length: Length, per_metre: Duration) -> None:
    assert length.propagation(per_metre).length(per_metre) == length


@given(link_times, st.integers(1000, 10_000).map(Duration.from_ps))
def test_length_is_the_longest_cable_that_fits_the_delay(time: Duration, per_metre: Duration) -> None:
    assume(time * 1000 // per_metre <= Length.limit)
    length = time.length(per_metre)
    assert length.propagation(per_metre) <= time
    assert (length + Length("1mm")).propagation(per_metre) > time


def test_a_medium_without_delay_has_no_length_for_a_time() -> None:
    with pytest.raises(UnitError) as caught:
        Duration("5us").length(Duration("0s"))
    assert str(caught.value) == "no length takes 5us at 0s per metre; give the delay of one metre"


# Scale


def test_scale_divides_rates_multiplies_times_and_lengths_and_keeps_sizes() -> None:
    scale = Scale("x1000")
    assert scale.lab(Rate("100Gb/s")) == Rate("100Mb/s")
    assert scale.lab(Duration("1us")) == Duration("1ms")
    assert scale.lab(Length("50km")) == Length("50000km")
    assert scale.lab(Size("9216B")) == Size("9216B")


@pytest.mark.parametrize("k", ["1000", "x1000", " x1000 ", 1000, Scale(1000)])
def test_scale_is_read_from_text_or_a_whole_number(k: int | str | Scale) -> None:
    assert Scale(k).k == 1000
    assert str(Scale(k)) == "x1000"
    assert repr(Scale(k)) == "Scale('x1000')"


@pytest.mark.parametrize(
    ("k", "shown"),
    [
        (0, "0"),
        (-1, "-1"),
        (1.5, "1.5"),
        (True, "True"),
        (1_000_001, "1000001"),
        pytest.param(10**5000, "(an integer of 16610 bits)", id="huge"),
        ("", "''"),
        ("x", "'x'"),
        ("x0", "'x0'"),
        ("1e3", "'1e3'"),
        pytest.param("9" * 5000, "'999999999999999999999999999999999999...", id="long"),
        (None, "None"),
    ],
)
def test_a_scale_is_a_whole_number_from_1_to_a_million(k: object, shown: str) -> None:
    assert message(Scale, k) == (
        f"{shown} is not a scale: it must be a whole number from 1 to 1000000; write for example 'x1000'"
    )


@given(scales, quantities)
def test_real_undoes_lab(scale: Scale, x: Quantity) -> None:
    if isinstance(x, Rate):
        x = x // scale.k * scale.k
    elif not isinstance(x, Size):
        x = x // scale.k
    assert scale.real(scale.lab(x)) == x


@given(scales, quantities)
def test_lab_undoes_real(scale: Scale, x: Quantity) -> None:
    if isinstance(x, Rate):
        x = x // scale.k
    elif not isinstance(x, Size):
        x = x // scale.k * scale.k
    assert scale.lab(scale.real(x)) == x


@given(quantities)
def test_scale_one_changes_nothing(x: Quantity) -> None:
    assert Scale(1).lab(x) == Scale(1).real(x) == x
    assert Scale(1).both(x) == str(x)


@given(scales, st.integers(0, 10**7).map(Length.from_mm))
def test_scaling_a_cable_scales_its_delay(scale: Scale, length: Length) -> None:
    assert scale.lab(length).propagation() == scale.lab(length.propagation())


@given(st.sampled_from(ETHERNET), st.integers(0, 65535))
def test_pfc_quanta_scale_by_themselves(real: Rate, quanta: int) -> None:
    scale = Scale(1000)
    assert scale.lab(real).time_for_quanta(quanta) == scale.lab(real.time_for_quanta(quanta))


@pytest.mark.parametrize(
    ("scaled", "expected"),
    [
        (
            lambda: Scale(3).lab(Rate("10b/s")),
            "10b/s cannot be divided by scale x3: the result is not a whole number of b/s; "
            "choose a rate that is a multiple of 3b/s, or another scale",
        ),
        (
            lambda: Scale(1000).real(Duration("10ps")),
            "10ps cannot be divided by scale x1000: the result is not a whole number of ps; "
            "choose a duration that is a multiple of 1000ps, or another scale",
        ),
        (
            lambda: Scale(10**6).real(Rate("1Tb/s")),
            "1000000000000000000b/s is more than 1Pb/s, the largest rate Xoff accepts",
        ),
    ],
)
def test_what_does_not_scale_exactly_is_refused(scaled: object, expected: str) -> None:
    assert callable(scaled)
    with pytest.raises(UnitError) as caught:
        scaled()
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("lab", "text"),
    [
        (Rate("25Mb/s"), "25Mb/s (25Gb/s real)"),
        (Duration("1ms"), "1ms (1us real)"),
        (Length("50000km"), "50000km (50km real)"),
        (Size("9216B"), "9216B"),
        (Duration.from_ps(1_234_567), "1.234567us (about 1235ps real)"),
        (Duration("499ps"), "499ps (about 0s real)"),
        (Duration("0s"), "0s"),
    ],
)
def test_both_shows_a_lab_value_and_what_it_stands_for(lab: Quantity, text: str) -> None:
    assert Scale(1000).both(lab) == text
