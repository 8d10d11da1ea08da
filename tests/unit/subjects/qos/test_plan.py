"""The setup of each port under a policy, the effect of a change, and drift."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

from testbed.strict.problems import Severity
from testbed.subjects.qos.fabric import Fabric, PortKey
from testbed.subjects.qos.model import DROP_VL, SLS, NodeType, Policy, PortGroup, Sl2VlScope, VlArbScope, VlWeight
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.plan import Plan, PortSetup, What, differences, plan
from testbed.subjects.qos.records import NotFound, PathReason, PathRecordRequest, PathRecords
from testbed.subjects.qos.setup import FindingKind, default_sl2vl
from testbed.subjects.qos.shares import Shares
from tests.unit.subjects.qos.policy_samples import random_policy, small_fabric

ALL = PortGroup("all", node_types=(NodeType.ALL,))
SPREAD = tuple(sl % 8 for sl in SLS)
FOUR = tuple(sl % 4 for sl in SLS)


def planned(fabric: Fabric | None = None, **parts: Any) -> Plan:
    return plan(Policy((ALL,), **parts), fabric or small_fabric())


def test_every_port_with_a_cable_has_a_table_for_each_input_and_equal_shares_by_default() -> None:
    found = planned()
    fabric = small_fabric()
    assert set(found.ports) == set(fabric.links)
    for key, setup in found.ports.items():
        node = fabric.nodes[key.node]
        expected = {0, *(n for n in node.ports if n != key.number)} if node.is_switch else {0}
        assert set(setup.sl2vl) == expected
        assert set(setup.sl2vl.values()) == {default_sl2vl(node.ports[key.number].vls)}
        assert setup.shares.weighted == {vl: Fraction(1, 15) for vl in range(15)}
    assert found.tables.sl2vl == {}


def test_an_sl_on_a_vl_that_no_arbitration_table_serves_is_dropped_with_a_warning_and_not_found() -> None:
    arb = VlArbScope(("all",), high=(VlWeight(0, 3),), low=(VlWeight(1, 1),), high_limit=255)
    found = planned(sl2vl=(Sl2VlScope(FOUR, ("all",)),), vlarb=(arb,))
    h1 = found.ports[PortKey("h1", 1)]
    assert h1.sl2vl[0] == tuple(vl if vl < 2 else DROP_VL for vl in FOUR)
    assert h1.shares == Shares((0,), {1: Fraction(1)}, tuple(range(2, 15)))
    by_default = PathRecords(Policy((ALL,), sl2vl=(Sl2VlScope(FOUR, ("all",)),), vlarb=(arb,)), small_fabric())
    assert by_default.tables.sl2vl == found.tables.sl2vl
    unserved = [finding for finding in found.findings if finding.kind is FindingKind.UNSERVED_VL]
    assert {(finding.severity, finding.node) for finding in unserved} == {
        (Severity.WARNING, name) for name in ("h1", "h2", "h3", "r1", "s1", "s2")
    }
    assert unserved[0].message.startswith("VL 2-3 of port 1 of h1 has SLs mapped to it and no weight")


def test_weights_among_strict_vls_give_a_warning() -> None:
    arb = VlArbScope(("all",), high=(VlWeight(0, 3), VlWeight(1, 3)), low=(VlWeight(2, 1),), high_limit=255)
    found = planned(vlarb=(arb,))
    assert FindingKind.WEIGHTS_NOT_KEPT in {finding.kind for finding in found.findings}


def test_the_differences_of_a_plan_with_itself_are_none() -> None:
    rng = random.Random(5)
    for _ in range(20):
        found = plan(random_policy(rng), small_fabric())
        assert differences(found.ports, found.ports) == []


def test_a_changed_table_is_named_by_port_input_and_sl() -> None:
    before = planned(sl2vl=(Sl2VlScope(SPREAD, ("all",)),))
    other = (*SPREAD[:5], 2, *SPREAD[6:])
    one_way = Sl2VlScope(other, ("all",), from_ports=Ranges(((1, 1),)), to_ports=Ranges(((4, 4),)))
    after = planned(sl2vl=(Sl2VlScope(SPREAD, ("all",)), one_way))
    found = differences(before.ports, after.ports)
    assert [(str(one.port.node), one.port.number, one.what, one.input) for one in found] == [
        ("s1", 4, What.SL2VL, 1),
        ("s2", 4, What.SL2VL, 1),
    ]
    assert str(found[0]) == "s1/4, from port 1: SL 5: VL 5, now 2"
    assert found[0].as_json()["port"] == "s1/4"


def test_other_shares_are_a_difference_and_rounding_is_none() -> None:
    setup = PortSetup({0: SPREAD}, Shares((2,), {0: Fraction(3, 4), 1: Fraction(1, 4)}, ()))
    key = PortKey("h1", 1)

    def with_shares(shares: Shares) -> list[What]:
        return [one.what for one in differences({key: setup}, {key: replace(setup, shares=shares)})]

    # A port reports all VLs, those that nothing is mapped to as well, in whole bytes.
    assert with_shares(Shares((2,), {0: Fraction(300), 1: Fraction(101), 5: Fraction(300)}, ())) == []
    assert with_shares(Shares((2,), {0: Fraction(300), 1: Fraction(120)}, ())) == [What.ARBITRATION]
    assert with_shares(Shares((), setup.shares.weighted, ())) == [What.ARBITRATION]
    assert with_shares(Shares((2,), {}, ())) == [What.ARBITRATION]


def test_ports_that_come_and_go_are_differences() -> None:
    fabric = small_fabric()
    before = planned(fabric)
    one, other = PortKey("h3", 1), PortKey("s2", 1)
    del fabric.links[one], fabric.links[other]
    fabric.route()
    found = differences(before.ports, planned(fabric).ports)
    gone = [(key, one.message) for one in found if one.what is What.PORT for key in [one.port]]
    assert gone == [(key, "the port has no cable any more") for key in (one, other)]
    ways = [key for key in found if key.what is What.SL2VL]
    assert ways == [], "inputs without a cable keep their tables"
    back = differences(planned(fabric).ports, before.ports)
    assert [one.message for one in back if one.what is What.PORT] == ["the port is new"] * 2


def test_path_records_go_by_the_tables_of_the_plan() -> None:
    arb = VlArbScope(("all",), low=(VlWeight(1, 1),))
    fabric = small_fabric()
    found = planned(fabric, sl2vl=(Sl2VlScope(FOUR, ("all",)),), vlarb=(arb,))
    records = PathRecords(Policy(), fabric, found.tables)
    ends = {port.key.node: port for port in fabric.end_ports}
    answer = records.query(PathRecordRequest(sgid=ends["h1"].gid, dgid=ends["h3"].gid))
    assert isinstance(answer, NotFound) and answer.reason is PathReason.SL_DROPPED, (
        "SL 0 is on VL 0, which has no weight"
    )


def test_whatever_the_policy_a_port_has_a_vl_that_it_supports_or_vl15_for_each_sl() -> None:
    rng = random.Random(11)
    for _ in range(100):
        fabric = small_fabric()
        for node in fabric.nodes.values():
            for number, port in node.ports.items():
                node.ports[number] = replace(port, vls=rng.choice((1, 2, 4, 8, 15)))
        found = plan(random_policy(rng), fabric)
        for key, setup in found.ports.items():
            served = {*setup.shares.strict, *setup.shares.weighted}
            vls = fabric.nodes[key.node].ports[key.number].vls
            assert all(len(table) == 16 for table in setup.sl2vl.values())
            assert {vl for table in setup.sl2vl.values() for vl in table} <= served | {DROP_VL}
            assert served <= set(range(vls)) and sum(setup.shares.weighted.values()) in (0, 1)
