"""SL2VL and VL arbitration tables of a fabric, and every warning and error of the RFC's section 9."""

from __future__ import annotations

from dataclasses import replace

from testbed.strict.problems import Position, Severity
from testbed.subjects.qos.fabric import Fabric, PortCapabilities, PortKey
from testbed.subjects.qos.model import NodeType, Policy, PortGroup, Sl2VlScope, VlArbScope, VlWeight
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.setup import Crossing, FindingKind, Tables, default_sl2vl, setup
from tests.unit.subjects.qos.policy_samples import small_fabric

EVERYTHING = PortGroup("all", node_types=(NodeType.ALL,))
SWITCHES = PortGroup("switches", node_types=(NodeType.SWITCH,))
H3 = PortGroup("h3", port_names=("h3/HCA-1/P1",))
ABSENT = PortGroup("absent")  # without ports
OWN = (*range(15), 14)
OTHER = (0, *[1] * 15)


def tables(fabric: Fabric | None = None, **parts: object) -> Tables:
    policy = Policy((EVERYTHING, SWITCHES, H3, ABSENT), **parts)  # type: ignore[arg-type]
    return setup(policy, fabric or small_fabric())


def findings(found: Tables) -> list[tuple[FindingKind, Severity, str]]:
    return [(finding.kind, finding.severity, finding.message) for finding in found.findings]


def with_few_vls(fabric: Fabric, node: str, **settings: int) -> Fabric:
    ports = fabric.nodes[node].ports
    for number, port in ports.items():
        ports[number] = replace(port, **settings)
    return fabric


# SL2VL


def test_a_scope_sets_the_table_of_every_input_and_output_port_of_its_group() -> None:
    found = tables(sl2vl=(Sl2VlScope(OWN, groups=("switches",)),))
    assert set(found.sl2vl) == {
        Crossing(f"s{n}", source, output)
        for n in (1, 2)
        for source in range(5)
        for output in range(1, 5)
        if source != output
    }
    assert set(found.sl2vl.values()) == {OWN}


def test_an_adapter_has_one_table_for_each_port() -> None:
    assert set(tables(sl2vl=(Sl2VlScope(OWN, groups=("h3",)),)).sl2vl) == {Crossing("h3", 0, 1)}


def test_from_and_to_choose_ports_of_the_device() -> None:
    scope = Sl2VlScope(OWN, groups=("switches",), from_ports=Ranges(((1, 1),)), to_ports=Ranges(((3, 4),)))
    assert set(tables(sl2vl=(scope,)).sl2vl) == {Crossing(f"s{n}", 1, output) for n in (1, 2) for output in (3, 4)}


def test_across_means_the_ports_at_the_other_end_of_the_links() -> None:
    towards = tables(sl2vl=(Sl2VlScope(OWN, across_to=("h3",)),))
    assert set(towards.sl2vl) == {Crossing("s2", source, 1) for source in (0, 2, 3, 4)}
    away = tables(sl2vl=(Sl2VlScope(OWN, across_from=("h3",)),))
    assert set(away.sl2vl) == {Crossing("s2", 1, output) for output in (2, 3, 4)}


def test_the_last_scope_that_applies_to_a_port_counts() -> None:
    scopes = (Sl2VlScope(OWN, groups=("switches",)), Sl2VlScope(OTHER, across_to=("h3",)))
    assert tables(sl2vl=scopes).sl2vl[Crossing("s2", 4, 1)] == OTHER
    assert tables(sl2vl=scopes).sl2vl[Crossing("s2", 4, 2)] == OWN
    assert tables(sl2vl=scopes[::-1]).sl2vl[Crossing("s2", 4, 1)] == OWN


def test_a_scope_without_targets_is_a_warning() -> None:
    assert findings(tables(sl2vl=(Sl2VlScope(OWN, groups=("absent",)),))) == [
        (FindingKind.NO_TARGET, Severity.WARNING, "sl2vl-scope of 'absent' matches no port")
    ]


def test_ports_that_a_target_does_not_have_are_an_error() -> None:
    scope = Sl2VlScope(OWN, groups=("h3",), to_ports=Ranges(((1, 3),)))
    found = tables(sl2vl=(scope,))
    assert findings(found) == [(FindingKind.NO_SUCH_PORT, Severity.ERROR, "to names port 2-3, which h3 does not have")]
    assert set(found.sl2vl) == {Crossing("h3", 0, 1)}  # what exists is set
    scope = Sl2VlScope(OWN, groups=("switches",), from_ports=Ranges(((9, 9),)))
    assert [text for *_, text in findings(tables(sl2vl=(scope,)))] == [
        "from names port 9, which s1 does not have",
        "from names port 9, which s2 does not have",
    ]


def test_an_unsupported_vl_is_an_error_and_becomes_vl15() -> None:
    found = tables(with_few_vls(small_fabric(), "h3", vls=4), sl2vl=(Sl2VlScope(OWN, groups=("h3",)),))
    ((kind, severity, text),) = findings(found)
    assert (kind, severity) == (FindingKind.UNSUPPORTED_VL, Severity.ERROR)
    assert text.startswith("sl2vl-table uses VL 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, and ports of h3 have 4; VL 15 is")
    assert found.sl2vl[Crossing("h3", 0, 1)] == (0, 1, 2, 3, *[15] * 12)


def test_names_that_nothing_in_the_fabric_has_are_a_warning_at_their_group() -> None:
    group = PortGroup(
        "some",
        port_guids=Ranges(((0x1, 0x1), (0x50, 0x50), (0x101, 0x1FF))),
        port_names=("h9/HCA-1/P1", "h3/HCA-1/P7", "h3/HCA-1/P1"),
        partitions=("Part1", "Part9"),
        pkeys=Ranges(((0x7FFF, 0x7FFF), (0x1234, 0x1240))),
        node_types=(NodeType.SELF,),
        position=Position(4, 5),
    )
    fabric = small_fabric()
    found = setup(Policy((group, EVERYTHING)), fabric).findings
    assert [(one.kind, one.severity, one.position) for one in found] == [
        (FindingKind.NOTHING_NAMED, Severity.WARNING, Position(4, 5))
    ]
    assert found[0].message == (
        "port group 'some' names port name 'h9/HCA-1/P1', port name 'h3/HCA-1/P7', GUID 0x0000000000000050, "
        "GUID 0x0000000000000101-0x00000000000001ff, partition 'Part9', P_Key 0x1234-0x1240; the fabric has no such "
        "port"
    )
    many = PortGroup("many", port_names=tuple(f"x{number}/P1" for number in range(12)))
    assert (
        setup(Policy((many, EVERYTHING)), fabric)
        .findings[0]
        .message.endswith("'x7/P1' and 4 more; the fabric has no such port")
    )
    assert setup(Policy((group,)), Fabric()).findings == []  # nothing is known of it yet


def test_vl15_itself_is_no_mistake() -> None:
    scope = Sl2VlScope((0, *[15] * 15), groups=("h3",))
    assert findings(tables(sl2vl=(scope,))) == []


def test_a_port_without_a_setting_drops_nothing() -> None:
    assert default_sl2vl(15) == (*range(15), 0)
    assert default_sl2vl(2) == (0, 1) * 8
    fabric = with_few_vls(small_fabric(), "h3", vls=1)
    assert tables(fabric).vls(Crossing("h3", 0, 1), fabric) == (0,) * 16


# VL arbitration


HIGH, LOW = (VlWeight(0, 255), VlWeight(1, 127)), (VlWeight(8, 255),)


def test_a_scope_sets_both_tables_and_the_limit_of_output_ports() -> None:
    found = tables(vlarb=(VlArbScope(("switches",), high=HIGH, low=LOW, high_limit=10),))
    assert set(found.vlarb) == {PortKey(f"s{n}", port) for n in (1, 2) for port in range(1, 5)}
    arbitration = found.vlarb[PortKey("s1", 1)]
    assert (arbitration.high, arbitration.low, arbitration.high_limit) == (HIGH, LOW, 10)


def test_across_and_to_choose_ports_and_a_later_scope_changes_what_it_names() -> None:
    scopes = (
        VlArbScope(across=("h3",), high=HIGH, high_limit=10),
        VlArbScope(("switches",), to_ports=Ranges(((1, 1),)), low=LOW, high_limit=0),
    )
    found = tables(vlarb=scopes)
    assert set(found.vlarb) == {PortKey("s1", 1), PortKey("s2", 1)}
    both = found.vlarb[PortKey("s2", 1)]
    assert (both.high, both.low, both.high_limit) == (HIGH, LOW, 0)
    assert found.vlarb[PortKey("s1", 1)].high is None


def test_an_arbitration_scope_without_targets_is_a_warning() -> None:
    assert findings(tables(vlarb=(VlArbScope(("absent",), high=HIGH),))) == [
        (FindingKind.NO_TARGET, Severity.WARNING, "vlarb-scope of 'absent' matches no port")
    ]


def test_a_port_number_beyond_the_targets_ports_is_an_error() -> None:
    found = tables(vlarb=(VlArbScope(("h3",), to_ports=Ranges(((2, 2),)), high=HIGH),))
    assert findings(found) == [(FindingKind.NO_SUCH_PORT, Severity.ERROR, "to names port 2, which h3 does not have")]
    assert found.vlarb == {}


def test_a_table_that_is_too_long_for_the_device_is_an_error() -> None:
    fabric = with_few_vls(small_fabric(), "h3", arb_high=1)
    found = tables(fabric, vlarb=(VlArbScope(("h3",), high=HIGH, low=LOW),))
    assert findings(found) == [
        (FindingKind.TABLE_TOO_LONG, Severity.ERROR,
         "vlarb-high has 2 entries, and port 1 of h3 has room for 1; the table is not set there")
    ]  # fmt: skip
    assert (found.vlarb[PortKey("h3", 1)].high, found.vlarb[PortKey("h3", 1)].low) == (None, LOW)


def test_an_unsupported_vl_is_a_warning_and_the_table_is_set_as_given() -> None:
    fabric = with_few_vls(small_fabric(), "h3", vls=4)
    found = tables(fabric, vlarb=(VlArbScope(("h3",), high=HIGH, low=LOW),))
    assert findings(found) == [
        (FindingKind.UNSUPPORTED_VL, Severity.WARNING,
         "VL arbitration names VL 8, and ports of h3 have 4; the entry is never served")
    ]  # fmt: skip
    assert found.vlarb[PortKey("h3", 1)].low == LOW


# Nodes


def test_each_node_that_is_in_no_group_gives_a_warning() -> None:
    fabric = small_fabric()
    fabric.add("extra", NodeType.CA, 0x900, [PortCapabilities(1)])
    found = setup(Policy((H3, SWITCHES)), fabric)
    assert [(finding.kind, finding.severity, finding.node) for finding in found.findings] == [
        (FindingKind.UNNAMED_NODE, Severity.WARNING, name) for name in ("extra", "h1", "h2", "r1")
    ]
