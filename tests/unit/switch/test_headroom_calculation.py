"""The headroom sums, to the bit: the proposal's, Annex N's and a vendor's, with every figure of the proposal."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.switch.headroom.annex_n import (
    FIBRE,
    HIGHER_LAYER_DELAY,
    MEDIA,
    PORT_TYPES,
    PortType,
    port_type_for,
    worst_case,
)
from testbed.switch.headroom.calculation import (
    PFC_FRAME_BITS,
    Headroom,
    HeadroomError,
    HeadroomPort,
    Model,
    adaptive,
    read_alpha,
    readable,
    round_trip,
)
from testbed.switch.headroom.vendor import ETHERNET_BYTES, MLX5, SHIPPED, VendorTable
from testbed.units import PFC_QUANTUM_BITS, Duration, Length, Rate

ONE = Fraction(1)
TEN_GIG = HeadroomPort(Rate("10Gb/s"), given_alpha=ONE)
CAT6 = MEDIA["cat6"]


def terms(headroom: Headroom) -> dict[str, int]:
    return {term.name: term.bits for term in headroom.terms}


def refused(make: Any) -> str:
    with pytest.raises(HeadroomError) as caught:
        make()
    return str(caught.value)


# The proposal's sum


def test_the_proposals_formula_gives_annex_ns_example_for_the_round_trip_that_it_stands_for() -> None:
    found = adaptive(TEN_GIG, Duration("9303.2ns"))
    assert terms(found) == {"round trip X": 93032, "2 MaxFrame": 32320, "PFC frame": 672}
    assert (found.delay_value, found.bytes, found.cells) == (126024, 15753, 76)


def test_max_frame_counts_preamble_and_gap() -> None:
    assert HeadroomPort(Rate("10Gb/s")).max_frame_bits == 16160 == (2000 + 8 + 12) * 8


def test_the_pfc_frame_is_672_bits() -> None:
    assert PFC_FRAME_BITS == 672 == (64 + 20) * 8


@given(st.integers(1, 400 * 10**9), st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 10**15))
def test_x_is_the_rate_times_the_difference_and_the_far_stations_time_does_not_matter(
    bps: int, trip_ns: int, far_ns: int, offset_ns: int
) -> None:
    """T1 to T4 with any offset between the clocks and any time to answer: the same X, rounded up to a bit."""
    measured = round_trip(1000, 1000 + offset_ns, 1000 + offset_ns + far_ns, 1000 + trip_ns + far_ns)
    assert measured == Duration.from_ns(trip_ns)
    x = terms(adaptive(HeadroomPort(Rate.from_bps(bps)), measured))["round trip X"]
    assert Fraction(bps * trip_ns, 10**9) <= x < Fraction(bps * trip_ns, 10**9) + 1


@pytest.mark.parametrize(
    ("stamps", "text"),
    [
        ((10, 5, 4, 20), "10 ns passed at one station and -1 ns"),
        ((10, 0, 11, 20), "10 ns passed at one station and 11"),
    ],
)
def test_impossible_stamps_are_refused(stamps: tuple[int, int, int, int], text: str) -> None:
    message = refused(lambda: round_trip(*stamps))
    assert text in message
    assert message.endswith("a clock was set meanwhile, measure again")


def test_tenfold_delay_gives_tenfold_x() -> None:
    port = HeadroomPort(Rate("100Gb/s"))
    short, long = (terms(adaptive(port, Duration(text)))["round trip X"] for text in ("50us", "500us"))
    assert (short, long) == (5_000_000, 50_000_000)


def test_the_sum_has_no_higher_layer_term_unless_the_timestamp_points_leave_it_out() -> None:
    """With the points of time synchronisation, Annex N's interfaces and higher layers are added to a cable's trip."""
    assert "stations" not in terms(adaptive(TEN_GIG, Duration("1us")))
    cable = Duration.from_ps(2 * CAT6.delay(Length("100m")).ps)
    stations = Duration.from_ps((2 * 37888 + 6144) * 100)  # 100 ps a bit
    found = adaptive(TEN_GIG, cable, missing=stations)
    assert terms(found)["stations"] == 81920
    assert found.delay_value == 126024


# Alpha, bytes and cells


@pytest.mark.parametrize(
    ("shortest", "longest", "cell", "alpha"),
    [
        (64, 2000, 208, Fraction(208, 84)),  # 2.48
        (64, 2000, 160, Fraction(160, 84)),  # 1.90, the proposal's chunk
        (1500, 2000, 208, Fraction(9 * 208, 1665 + 20)),  # 1.11
        (1500, 1600, 208, Fraction(8 * 208, 1500 + 20)),
        (2000, 2000, 208, Fraction(10 * 208, 2000 + 20)),
        (64, 2000, 1, Fraction(2000, 2020)),  # byte by byte nothing is lost in cells
    ],
)
def test_alpha_is_computed_from_cells_and_frames(shortest: int, longest: int, cell: int, alpha: Fraction) -> None:
    assert HeadroomPort(Rate("1Gb/s"), longest, shortest, cell).alpha == alpha


@given(st.integers(64, 400), st.integers(0, 400), st.integers(1, 40) | st.integers(1, 900))
def test_no_frame_takes_more_buffer_than_alpha_allows(shortest: int, more: int, cell: int) -> None:
    alpha = HeadroomPort(Rate("1Gb/s"), shortest + more, shortest, cell).alpha
    ratios = [Fraction(-(-n // cell) * cell, n + 20) for n in range(shortest, shortest + more + 1)]
    assert alpha == max(ratios)


@pytest.mark.parametrize(("text", "alpha"), [("1", ONE), ("1.1", Fraction(11, 10)), ("11/10", Fraction(11, 10))])
def test_a_given_alpha_is_exact(text: str, alpha: Fraction) -> None:
    assert read_alpha(text) == alpha
    found = adaptive(HeadroomPort(Rate("10Gb/s"), given_alpha=alpha), Duration("9303.2ns"))
    assert found.bytes == -(-15753 * alpha.numerator // alpha.denominator)


@pytest.mark.parametrize(
    ("alpha", "text"),
    [
        ("1", "1"),
        ("1.1", "1.1"),
        ("10.105", "10.105"),
        ("1/8", "0.125"),
        ("52/21", "2.48"),
        ("1/3", "0.34"),
        ("0.000000001", "0.000000001"),
        ("1/999999999", "0.0000000011"),
        ("2000/3", "666.67"),
    ],
)
def test_alpha_is_shown_exactly_or_rounded_up(alpha: str, text: str) -> None:
    assert readable(Fraction(alpha)) == text


@pytest.mark.parametrize("text", ["", "one", "-1", "1.", "1/0", "1e9", "1_0", "\u0661", "9" * 50])
def test_nonsense_is_not_an_alpha(text: str) -> None:
    shown = text if len(text) <= 40 else "9" * 37 + "..."
    assert refused(lambda: read_alpha(text)) == f"{shown!r} is not an alpha; write a number such as '1.1' or '11/10'"


@pytest.mark.parametrize("text", ["0", "0.0", "1001"])
def test_an_alpha_that_must_be_a_slip_is_refused(text: str) -> None:
    message = f"alpha is {Fraction(text)}; it is an exact fraction above 0, up to 1000"
    assert refused(lambda: read_alpha(text)) == message


def test_an_alpha_that_is_too_small_for_the_frames_is_used_and_warned_of() -> None:
    frames = {"max_frame": 2000, "shortest_frame": 1500}
    fits = HeadroomPort(Rate("10Gb/s"), given_alpha=read_alpha("1.12"), **frames)
    short = HeadroomPort(Rate("10Gb/s"), given_alpha=read_alpha("1.11"), **frames)
    assert adaptive(fits, Duration("1us")).warning == ""
    assert adaptive(short, Duration("1us")).warning == "1665 B frames in 208 B cells need an alpha of 1.12"


@given(st.integers(0, 10**10), st.integers(1, 400), st.integers(1, 4000), st.fractions(1, 3, max_denominator=1000))
def test_bytes_and_cells_are_rounded_up_once(trip_ns: int, gbps: int, cell: int, alpha: Fraction) -> None:
    found = adaptive(
        HeadroomPort(Rate.from_bps(gbps * 10**9), cell_bytes=cell, given_alpha=alpha), Duration.from_ns(trip_ns)
    )
    assert found.delay_value == sum(term.bits for term in found.terms)
    exact = found.delay_value * alpha / 8
    assert exact <= found.bytes < exact + 1
    assert found.cells * cell >= exact > (found.cells - 1) * cell


@given(st.lists(st.integers(64, 2000), min_size=1, max_size=200), st.integers(1, 500))
def test_the_cells_hold_any_frames_that_the_delay_value_holds(lengths: list[int], cell: int) -> None:
    port = HeadroomPort(Rate("10Gb/s"), cell_bytes=cell)
    line_bits = sum((length + 20) * 8 for length in lengths)
    fixed = 2 * port.max_frame_bits + PFC_FRAME_BITS
    found = adaptive(port, Duration.from_ps(max(0, line_bits - fixed) * 100))
    assert sum(-(-length // cell) for length in lengths) <= found.cells


# Annex N


def test_annex_n_s_example_term_by_term() -> None:
    found = worst_case(TEN_GIG, Length("100m"), PORT_TYPES["10GBASE-T"], CAT6)
    assert terms(found) == {
        "2 MaxFrame": 2 * 16160,
        "PFC frame": 672,
        "2 cable": 2 * 5556,
        "TX1 + RX2": 25600 + 12288,
        "TX2 + RX1": 25600 + 12288,
        "higher layers": 6144,
    }
    assert (found.delay_value, found.bytes) == (126024, 15753)
    assert (Fraction(found.bytes, 1000), round(Fraction(found.bytes, 1024), 2)) == (
        Fraction("15.753"),
        Fraction("15.38"),
    )


@pytest.mark.parametrize(
    ("name", "quanta"),
    [("10GBASE-T", 74), ("25GBASE-R", 80), ("200GBASE-R", 453), ("400GBASE-R", 905)],
)
def test_the_sublayers_add_up_to_what_802_3_lets_a_station_take_to_obey_pause(name: str, quanta: int) -> None:
    assert PORT_TYPES[name].interface_delay == quanta * PFC_QUANTUM_BITS


@pytest.mark.parametrize(
    ("name", "optional", "quanta"),
    [
        ("10GBASE-R", 28, 60),  # with the WAN interface sublayer, 10GBASE-W
        ("40GBASE-R", 48 + 8 - 2, 118),  # with FEC, and the PMD of 40GBASE-CR4
        ("100GBASE-R", 240 + 19 - 4, 394),  # with FEC, and the PMD of 100GBASE-CR10
    ],
)
def test_so_they_do_with_the_slowest_sublayers_of_the_same_rate(name: str, optional: int, quanta: int) -> None:
    assert PORT_TYPES[name].interface_delay + optional * PFC_QUANTUM_BITS == quanta * PFC_QUANTUM_BITS


def test_the_higher_layers_have_the_same_time_at_any_rate() -> None:
    rates = "10Gb/s", "40Gb/s", "100Gb/s"
    assert [HeadroomPort(Rate(rate)).bits_in(HIGHER_LAYER_DELAY) // 512 for rate in rates] == [
        12, 48, 120,
    ]  # fmt: skip


@pytest.mark.parametrize(("length", "bits", "size"), [("10m", 5000, 625), ("10km", 5_000_000, 625_000)])
def test_the_proposals_cable_delays_of_100gbase_r_0_6_kb_and_625_kb(length: str, bits: int, size: int) -> None:
    assert FIBRE.one_way(Rate("100Gb/s"), Length(length)) == bits
    assert bits // 8 == size


def test_the_proposals_33_percent_interface_and_higher_layers_of_100gbase_r() -> None:
    """The maxima are 132608 bits, a test gave 100000: whoever reserves the maxima has a third too much."""
    maximum = PORT_TYPES["100GBASE-R"].interface_delay + HeadroomPort(Rate("100Gb/s")).bits_in(HIGHER_LAYER_DELAY)
    assert maximum == 132608
    assert round(Fraction(maximum - 100_000, 100_000) * 100) == 33


def test_maxima_are_upper_bounds_that_a_device_of_ones_own_can_replace() -> None:
    port, link = HeadroomPort(Rate("100Gb/s")), Length("500m")
    standard = worst_case(port, link, PORT_TYPES["100GBASE-R"])
    mine = PortType("mine", Rate("100Gb/s"), (("all", 20_000),))
    better = worst_case(port, link, mine, higher_layers=Duration("100ns"))
    changed = {name: bits for name, bits in terms(better).items() if terms(standard)[name] != bits}
    assert changed == {"TX1 + RX2": 20_000, "TX2 + RX1": 20_000, "higher layers": 10_000}
    assert better.cells < standard.cells


@pytest.mark.parametrize(
    ("medium", "rate", "length", "bits"),
    [("cat6", "10Gb/s", "100m", 5556), ("fibre", "10Gb/s", "100m", 5000), ("twinax", "10Gb/s", "7m", 334)],
)
def test_cable_delay_depends_on_rate_medium_and_length(medium: str, rate: str, length: str, bits: int) -> None:
    port = HeadroomPort(Rate(rate))
    type_ = port_type_for(port.rate)
    assert terms(worst_case(port, Length(length), type_, MEDIA[medium]))["2 cable"] == 2 * bits


@given(st.sampled_from(list(MEDIA.values())), st.integers(1, 10**6), st.integers(1, 100))
def test_cable_delay_is_proportional_to_rate_and_length(medium: Any, mm: int, times: int) -> None:
    rate, length = Rate("10Gb/s"), Length.from_mm(mm)
    once = medium.one_way(rate, length)
    assert medium.one_way(rate * times, length) == medium.one_way(rate, length * times) == times * once
    assert 0 <= medium.delay(length).ps - once * 100 < 1


def test_over_long_and_fast_links_the_cable_is_nearly_all() -> None:
    def cable_part(rate: str, length: str) -> Fraction:
        port = HeadroomPort(Rate(rate))
        found = worst_case(port, Length(length), port_type_for(port.rate))
        return Fraction(terms(found)["2 cable"], found.delay_value)

    assert cable_part("10Gb/s", "5m") < Fraction(1, 100)
    assert cable_part("100Gb/s", "50km") > Fraction(99, 100)


@pytest.mark.parametrize(
    ("rate", "medium", "name"),
    [("10Gb/s", "cat6", "10GBASE-T"), ("10Gb/s", "fibre", "10GBASE-R"), ("10Gb/s", "twinax", "10GBASE-R")],
)
def test_the_port_type_follows_from_rate_and_medium(rate: str, medium: str, name: str) -> None:
    assert port_type_for(Rate(rate), MEDIA[medium]).name == name


def test_a_port_type_that_is_not_there_or_does_not_fit_is_refused() -> None:
    assert refused(lambda: port_type_for(Rate("1Gb/s"))) == (
        "there is no port type of 1Gb/s on fibre in the table; it has 10GBASE-T, 10GBASE-R, 25GBASE-R, 40GBASE-R, "
        "100GBASE-R, 200GBASE-R, 400GBASE-R"
    )
    assert refused(lambda: worst_case(HeadroomPort(Rate("25Gb/s")), Length("1m"), PORT_TYPES["10GBASE-T"])) == (
        "a 10GBASE-T port has 10Gb/s, not 25Gb/s; choose another port type"
    )


# A vendor's default


@pytest.mark.parametrize(
    ("rate", "length", "size"),
    [
        ("10Gb/s", "5m", 16384),
        ("100Gb/s", "5m", 37888),
        ("100Gb/s", "5001mm", 43008),
        ("100Gb/s", "300m", 75776),
        ("400Gb/s", "41m", 225280),
    ],
)
def test_a_vendors_default_depends_on_speed_and_class_of_length_only(rate: str, length: str, size: int) -> None:
    for port in (HeadroomPort(Rate(rate)), HeadroomPort(Rate(rate), max_frame=9216, shortest_frame=1500)):
        found = SHIPPED.headroom(port, Length(length))
        assert (found.bytes, found.cells, found.alpha, found.warning) == (size, -(-size // 208), 1, "")


def test_a_cable_longer_than_every_class_gets_the_longest_and_a_warning() -> None:
    port = HeadroomPort(Rate("100Gb/s"))
    found = SHIPPED.headroom(port, Length("50km"))
    assert (found.bytes, found.warning) == (75776, "the longest class is 300m, and the cable has 50km")
    assert found.bytes < adaptive(port, Duration("500us")).bytes // 100


def test_a_table_of_ones_own() -> None:
    table = VendorTable("mine", (Length("10m"),), {Rate("1Gb/s"): (5000,)})
    assert table.headroom(HeadroomPort(Rate("1Gb/s")), Length("3m")).cells == 25
    assert refused(lambda: table.headroom(TEN_GIG, Length("3m"))) == "mine has no default for 10Gb/s; there is 1Gb/s"
    for bad in ((), (Length("2m"), Length("1m"))):
        assert refused(lambda bad=bad: VendorTable("mine", bad, {})) == (
            "table mine: its classes must be lengths, shortest first, none twice"
        )
    assert refused(lambda: VendorTable("mine", (Length("1m"),), {Rate("1Gb/s"): (1, 2)})) == (
        "table mine: 1Gb/s needs 1 whole numbers of bytes"
    )


@pytest.mark.parametrize(
    ("rate", "length", "octets"),
    [("100Gb/s", "100m", 62_841), ("400Gb/s", "100m", 217_941), ("400Gb/s", "5m", 135_861)],
)
def test_the_formula_of_a_driver_gives_its_published_values(rate: str, length: str, octets: int) -> None:
    found = MLX5.headroom(HeadroomPort(Rate(rate), max_frame=4096 + ETHERNET_BYTES), Length(length))
    assert (found.model, found.bytes, found.cells) == (Model.DRIVER, octets, -(-octets // 208))
    assert [term.name for term in found.terms] == ["interfaces", "cable", "frames"]


# What they have in common


def test_all_models_give_the_same_kind_of_sum() -> None:
    port, length = HeadroomPort(Rate("100Gb/s"), given_alpha=read_alpha("1.1")), Length("300m")
    found = [
        adaptive(port, Duration("3us")),
        worst_case(port, length, PORT_TYPES["100GBASE-R"]),
        SHIPPED.headroom(port, length),
        MLX5.headroom(port, length),
    ]
    assert [(f.model, f.cells) for f in found] == [
        (Model.ADAPTIVE, 221),
        (Model.WORST_CASE, 355),
        (Model.VENDOR, 365),
        (Model.DRIVER, 483),
    ]
    for headroom in found:
        plain = json.loads(json.dumps(headroom.as_json()))
        assert plain["cells"] == headroom.cells
        assert sum(term["bits"] for term in plain["terms"]) == plain["delay_value"]["bits"]
        assert all(term["how"] for term in plain["terms"])


def test_a_sum_in_plain_data_has_every_term_in_bits_bytes_and_cells() -> None:
    assert adaptive(TEN_GIG, Duration("9303.2ns")).as_json() == {
        "model": "adaptive",
        "terms": [
            {"name": "round trip X", "bits": 93032, "bytes": 11629, "cells": 56, "how": "10Gb/s x 9.3032us"},
            {"name": "2 MaxFrame", "bits": 32320, "bytes": 4040, "cells": 20, "how": "2 x (2000 + 20) B"},
            {"name": "PFC frame", "bits": 672, "bytes": 84, "cells": 1, "how": "64 + 20 B"},
        ],
        "delay_value": {"name": "delay value", "bits": 126024, "bytes": 15753, "cells": 76},
        "alpha": "1",
        "alpha_how": "given",
        "bytes": 15753,
        "cells": 76,
        "warning": "64 B frames in 208 B cells need an alpha of 2.48",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": Rate("0b/s")}, "a port of 0b/s needs no headroom; give a rate above zero"),
        ({"max_frame": 63}, "max_frame is 63; it is a whole number of bytes, 64 to 65535"),
        ({"max_frame": 1500.5}, "max_frame is 1500.5; it is a whole number of bytes, 64 to 65535"),
        ({"cell_bytes": 0}, "cell_bytes is 0; it is a whole number of bytes, 1 to 65535"),
        (
            {"shortest_frame": 2001},
            "shortest_frame is 2001 bytes, more than max_frame, 2000; lower shortest_frame or raise max_frame",
        ),
        (
            {"given_alpha": 1.1},
            "alpha is 1.1; it is an exact fraction above 0, up to 1000",
        ),
    ],
)
def test_an_invalid_port_is_refused(changes: dict[str, Any], message: str) -> None:
    assert refused(lambda: HeadroomPort(**{"rate": Rate("10Gb/s"), **changes})) == message


@given(
    cell=st.integers(22, 400),
    shortest=st.integers(64, 400),
    more=st.integers(0, 1200),
    not_kept=st.sampled_from([0, 4]),
)
def test_alpha_is_of_what_the_buffer_keeps_of_a_frame(cell: int, shortest: int, more: int, not_kept: int) -> None:
    port = HeadroomPort(Rate("10Gb/s"), shortest + more, shortest, cell, not_kept=not_kept)
    fills = [
        Fraction(-(-(length - not_kept) // cell) * cell, length + 20) for length in range(shortest, shortest + more + 1)
    ]
    assert port.alpha == max(fills)


def test_a_frame_that_only_its_fcs_takes_into_another_cell_has_the_fewer_cells() -> None:
    port = HeadroomPort(Rate("10Gb/s"), 627, 627, 208, not_kept=4)
    assert port.alpha == Fraction(3 * 208, 647)
    assert HeadroomPort(Rate("10Gb/s"), 627, 627, 208).alpha == Fraction(4 * 208, 647)
