"""The line of a port, against times computed by hand."""

from __future__ import annotations

import pytest

from testbed.errors import UsageError
from testbed.net.fabric.cable import Forwarding, Line, pause_ns
from testbed.switch.pfc import line
from testbed.units import Rate, Size


def test_a_frame_leaves_when_the_last_bit_of_the_one_before_has() -> None:
    port = line.TakenLine(Rate("10Gb/s"))  # 0.8 ns for each octet
    assert port.send(100, Size.from_bytes(1518)) == (100, 1330)  # 1538 octets: 1230.4 ns
    assert port.send(500, Size.from_bytes(64)) == (1330, 1397)  # PAUSE waits 830 ns; 84 octets: 67.2 ns
    assert port.send(500, Size.from_bytes(1518)) == (1397, 2627)  # what waited longer is behind it
    assert port.send(9000, Size.from_bytes(64)) == (9000, 9067)


@pytest.mark.parametrize(
    ("rate", "ns"), [("10Mb/s", 67_200), ("25Mb/s", 26_880), ("100Mb/s", 6_720), ("400Mb/s", 1_680)]
)
def test_a_pfc_frame_is_obeyed_after_its_last_bit(rate: str, ns: int) -> None:
    assert pause_ns(Rate(rate), Line.REAL, None) == ns
    assert pause_ns(Rate(rate), Line.REAL, Forwarding.CUT_THROUGH) == ns // 7  # 72 of 84 octets have come
    assert pause_ns(Rate(rate), Line.REAL, Forwarding.STORE_AND_FORWARD) == 0
    assert pause_ns(Rate(rate), Line.IDEAL, None) == 0


def test_a_line_that_does_not_exist_is_refused_with_those_that_do() -> None:
    assert Line.of("s1", None) is Line.REAL
    assert Line.of("s1", "ideal") is Line.IDEAL
    with pytest.raises(UsageError, match="s1: line is 'true'; write 'real' or 'ideal'"):
        Line.of("s1", "true")
