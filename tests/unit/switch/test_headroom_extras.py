"""FEC, MACsec and optical modules in the headroom: each term exact, and what standards allow above what must be."""

from __future__ import annotations

import pytest

from testbed.switch.headroom.calculation import HeadroomError, HeadroomPort, adaptive
from testbed.switch.headroom.extras import Extras, Fec, read_fec
from testbed.units import Duration, Rate


def bits(extras: Extras, rate: str, most: bool = False) -> dict[str, int]:
    return {term.name: term.bits for term in (extras.most if most else extras.least)(Rate(rate), 2000)}


@pytest.mark.parametrize(
    ("fec", "rate", "least", "most"),
    [
        (Fec.RS, "100Gb/s", 2 * 5120, 2 * 80 * 512),
        (Fec.FC, "100Gb/s", 2 * 2048, 2 * 240 * 512),
        (Fec.FC, "40Gb/s", 2 * 2048, 2 * 48 * 512),
        (Fec.FC, "10Gb/s", 2 * 2048, 2 * 12 * 512),
        (Fec.RS, "50Gb/s", 2 * 5120, 4 * 5120),
        (Fec.RS, "800Gb/s", 2 * 20480, 4 * 20480),
    ],
)
def test_fec_takes_a_codeword_and_at_most_what_its_clause_allows(fec: Fec, rate: str, least: int, most: int) -> None:
    assert bits(Extras(fec), rate) == {"FEC": least}
    assert bits(Extras(fec), rate, most=True) == {"FEC": most}


@pytest.mark.parametrize(("rate", "least"), [("25Gb/s", 10240), ("200Gb/s", 20480), ("400Gb/s", 20480)])
def test_where_the_port_type_has_fec_the_most_has_it_once(rate: str, least: int) -> None:
    assert bits(Extras(Fec.RS), rate) == {"FEC": least}
    assert bits(Extras(Fec.RS), rate, most=True) == {}


def test_macsec_makes_frames_longer_and_may_take_what_802_1ae_allows() -> None:
    assert bits(Extras(macsec=True), "100Gb/s") == {"SecTAG and ICV": 3 * 32 * 8}
    one = (2000 + 32 + 20) * 8 + 4 * (64 + 20) * 8
    assert bits(Extras(macsec=True), "100Gb/s", most=True) == {"MACsec": 4 * one, "SecTAG and ICV": 768}


def test_four_modules_are_passed_there_and_back() -> None:
    assert bits(Extras(optics=Duration("5us")), "100Gb/s") == {"optics": 4 * 500_000}


def test_nothing_is_nothing_and_terms_are_a_part_of_the_sum() -> None:
    assert Extras().is_nothing and bits(Extras(), "100Gb/s") == bits(Extras(), "100Gb/s", most=True) == {}
    port, trip = HeadroomPort(Rate("100Gb/s")), Duration("20us")
    more = adaptive(port, trip, further=Extras(Fec.RS).least(port.rate, 2000))
    assert more.delay_value == adaptive(port, trip).delay_value + 10240


def test_a_word_that_is_no_fec_is_refused() -> None:
    assert read_fec("rs") is Fec.RS
    with pytest.raises(HeadroomError, match="there are none, rs, fc"):
        read_fec("kp4")
