"""VL arbitration tables as shares of the line."""

from __future__ import annotations

from fractions import Fraction

from testbed.subjects.qos.model import VlWeight
from testbed.subjects.qos.setup import Arbitration
from testbed.subjects.qos.shares import shares


def table(**weights: int) -> tuple[VlWeight, ...]:
    return tuple(VlWeight(int(name[2:]), weight) for name, weight in weights.items())


def test_one_table_alone_is_shared_by_its_weights() -> None:
    for arbitration in (Arbitration(low=table(vl0=3, vl1=1)), Arbitration(high=table(vl0=3, vl1=1), low=table(vl1=0))):
        found = shares(arbitration, 2048, 3)
        assert (found.strict, found.weighted) == ((), {0: Fraction(3, 4), 1: Fraction(1, 4)})
        assert found.unserved == (2,)


def test_a_vl_may_have_several_entries() -> None:
    arbitration = Arbitration(low=(VlWeight(0, 10), VlWeight(1, 20), VlWeight(0, 10)))
    assert shares(arbitration, 2048, 2).weighted == {0: Fraction(1, 2), 1: Fraction(1, 2)}


def test_without_a_limit_the_high_table_is_strict() -> None:
    found = shares(Arbitration(table(vl0=1), table(vl1=3, vl2=1, vl0=9), 255), 2048, 3)
    assert (found.strict, found.weighted) == ((0,), {1: Fraction(3, 4), 2: Fraction(1, 4)})
    assert found.warning == ""
    found = shares(Arbitration(table(vl0=1, vl3=2), table(vl1=3), 255), 2048, 4)
    assert found.strict == (0, 3)
    assert found.warning == "VLs 0, 3 are strict, each before the next; their weights are not kept"


def test_a_limit_leaves_one_packet_in_turn_to_the_low_table() -> None:
    found = shares(Arbitration(table(vl0=3, vl1=1), table(vl2=1), 10), 4096, 3)
    assert found.weighted == {0: Fraction(30, 44), 1: Fraction(10, 44), 2: Fraction(1, 11)}
    one_packet = shares(Arbitration(table(vl0=1), table(vl1=1), 0), 2048, 2)
    assert one_packet.weighted == {0: Fraction(1, 2), 1: Fraction(1, 2)}
    assert shares(Arbitration(table(vl0=1), table(vl1=1), None), 2048, 2) == one_packet


def test_a_vl_in_both_tables_gets_both_parts() -> None:
    found = shares(Arbitration(table(vl0=1), table(vl0=1, vl1=1), 1), 4096, 2)
    assert found.weighted == {0: Fraction(3, 4), 1: Fraction(1, 4)}


def test_a_vl_that_the_port_lacks_takes_no_share() -> None:
    found = shares(Arbitration(low=table(vl0=1, vl9=255)), 2048, 2)
    assert (found.weighted, found.unserved) == ({0: Fraction(1)}, (1,))
