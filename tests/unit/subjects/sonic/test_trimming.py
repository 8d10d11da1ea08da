"""SONiC's tables and commands of packet trimming."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance._tables import default_json, default_tables
from experiments.conformance._trimming import PROFILE, asymmetric, trims
from testbed.subjects.sonic.check import check
from testbed.subjects.sonic.lab.configuration import Configuration, ConfigurationError
from testbed.subjects.sonic.lab.export import _own_port, _trimming_from
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.lab.trimming_views import grid
from testbed.subjects.sonic.read import ReadConfig, read
from testbed.subjects.sonic.tables import AclRuleRow, DiscardAction, Tables, TrimmingRow
from testbed.subjects.sonic.write import as_json, write
from testbed.switch.trimming.settings import TrimException, Trimming

ACL: dict[str, Any] = {
    "ACL_TABLE_TYPE": {"TRIMMING_L3": {"MATCHES": ["SRC_IP", "SRC_IPV6"], "ACTIONS": ["DISABLE_TRIM_ACTION"],
                                       "BIND_POINTS": ["PORT"]}},
    "ACL_TABLE": {"TRIM_TABLE": {"POLICY_DESC": "Packet trimming", "TYPE": "TRIMMING_L3", "STAGE": "INGRESS",
                                 "PORTS": ["Ethernet0"]}},
    "ACL_RULE": {
        "TRIM_TABLE|TRIM_RULE": {"PRIORITY": "999", "SRC_IP": "1.1.1.1/32", "PACKET_ACTION": "DISABLE_TRIM"},
        "TRIM_TABLE|TRIM_RULE_ipv6": {"PRIORITY": "1000", "SRC_IPV6": "8000::2/128", "PACKET_ACTION": "DISABLE_TRIM"},
    },
}  # fmt: skip


def reading(**changes: Any) -> ReadConfig:
    return read(json.dumps(default_json("100G", "dynamic") | changes).encode())


def symmetric() -> Tables:
    return trims(default_tables("100G", "dynamic"))


def errors(found: ReadConfig) -> str:
    return "; ".join(str(one) for one in found.problems.errors)


def warnings(tables: Tables) -> str:
    found = ReadConfig(tables)
    check(tables, found.problems)
    return "; ".join(str(one) for one in found.problems.found)


def test_the_plans_tables_make_ports_that_trim_their_lossy_queues() -> None:
    switch = Switch.of(symmetric())
    assert {port.settings.trimming for port in switch.ports.values()} == {
        Trimming(frozenset({0, 1, 2, 5, 6, 7}), 256, 48, 6, None)
    }
    tables = asymmetric(symmetric(), ["Ethernet0", "Ethernet8"])
    found = Switch.of(tables).ports
    assert [one.settings.trimming and one.settings.trimming.dscp for one in found.values()] == [10, 20, None, None]
    assert found["Ethernet0"].settings.trimming == Trimming(frozenset({0, 1, 2, 5, 6, 7}), 256, 10, 6, 5)
    assert "Ethernet16, Ethernet24: dscp_value is from-tc, and no tc_to_dscp_map has class 5" in warnings(tables)


def test_acl_rules_in_the_plans_form_are_exceptions_the_highest_priority_first() -> None:
    tables = reading(**ACL).require("it")
    assert Switch.of(tables).ports["Ethernet0"].settings.trim_exceptions == (
        TrimException(source="8000::2/128"), TrimException(source="1.1.1.1/32"),
    )  # fmt: skip
    assert Switch.of(tables).ports["Ethernet8"].settings.trim_exceptions == ()


def test_what_is_read_is_written_and_read_again() -> None:
    tables = replace(
        asymmetric(symmetric(), ["Ethernet0", "Ethernet8"]),
        **{name: getattr(reading(**ACL).tables, name) for name in ("acl_types", "acl_tables", "acl_rules")},
    )
    assert read(write(tables).encode()).require("it") == tables
    dynamic = replace(tables, trimming=TrimmingRow(128, 10, None, "dynamic"))
    assert as_json(dynamic)["SWITCH_TRIMMING"] == {
        "GLOBAL": {"size": "128", "dscp_value": "10", "queue_index": "dynamic"}
    }
    assert read(write(dynamic).encode()).require("it") == dynamic


@pytest.mark.parametrize(("changes", "text"), [
    ({"SWITCH_TRIMMING": {"GLOBAL": {"size": "63", "dscp_value": "48", "queue_index": "6"}}}, "from 64 to 9216"),
    ({"SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "from", "queue_index": "6"}}}, "from-tc"),
    ({"SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "64", "queue_index": "6"}}}, "from 0 to 63"),
    ({"SWITCH_TRIMMING": {"local": {}}}, "GLOBAL is the only row"),
    ({"ACL_RULE": ACL["ACL_RULE"]}, "none of a type with DISABLE_TRIM_ACTION"),
    (ACL | {"ACL_RULE": {"TRIM_TABLE|A": {"SRC_IP": "1.1.1.300", "PACKET_ACTION": "DISABLE_TRIM"}}}, "a network"),
    (ACL | {"ACL_RULE": {"TRIM_TABLE|A": {"PACKET_ACTION": "DISABLE_TRIM"}}}, "fits every frame"),
])  # fmt: skip
def test_wrong_rows_are_refused_by_place_and_reason(changes: dict[str, Any], text: str) -> None:
    assert text in errors(reading(**changes))


def test_a_priority_group_cannot_trim_and_a_lossless_queue_does_not() -> None:
    content = default_json("100G", "dynamic")
    content["BUFFER_PROFILE"]["ingress_lossy"]["packet_discard_action"] = "trim"
    assert "packet_discard_action trim, which is for queues alone" in errors(read(json.dumps(content).encode()))
    tables = symmetric()
    profiles = {
        name: replace(row, packet_discard_action=DiscardAction.TRIM) if name == "egress_lossless" else row
        for name, row in tables.profiles.items()
    }
    assert "queue 3 is lossless and its profile has the action trim" in warnings(replace(tables, profiles=profiles))
    assert "there is no SWITCH_TRIMMING: it is as drop" in warnings(replace(tables, trimming=None))


def test_an_incomplete_row_is_warned_of_and_trims_nothing() -> None:
    found = reading(SWITCH_TRIMMING={"GLOBAL": {"size": "256"}})
    assert "without dscp_value, queue_index the switch trims nothing" in "; ".join(
        str(one) for one in found.problems.found
    )
    assert not any(port.settings.trimming for port in Switch.of(found.tables).ports.values())


def test_show_prints_a_grid_as_sonic_does() -> None:
    rows = [("Packet trimming size", "128"), ("Packet trimming TC value", "N/A")]
    assert grid(("Configuration", "Value"), rows).splitlines() == [
        "+--------------------------+---------+",
        "| Configuration            | Value   |",
        "+==========================+=========+",
        "| Packet trimming size     | 128     |",
        "+--------------------------+---------+",
        "| Packet trimming TC value | N/A     |",
        "+--------------------------+---------+",
    ]
    numbers = grid(("Configuration", "Value"), rows[:1]).splitlines()
    assert numbers[1::2][:2] == ["| Configuration        |   Value |", "| Packet trimming size |     128 |"]


def test_commands_change_single_fields_and_refuse_what_is_out_of_range() -> None:
    configuration = Configuration(symmetric())
    configuration.set_trimming(size="128", queue_index="dynamic")
    assert configuration.tables.trimming == TrimmingRow(128, 48, None, "dynamic")
    configuration.set_trimming(dscp_value="from-tc", tc_value="5")
    configuration.set_trimming(dscp_value="10")
    assert configuration.tables.trimming == TrimmingRow(128, 10, None, "dynamic")
    for given, text in (
        ({"size": "63"}, "from 64 to 9216"), ({"dscp_value": "from-tc"}, "give --tc too"),
        ({"tc_value": "8"}, "0 to 7"),
        ({"queue_index": "auto"}, "not dynamic"), ({}, "none of --size"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=text):
            configuration.set_trimming(**given)
    assert configuration.tables.trimming == TrimmingRow(128, 10, None, "dynamic")


def test_patches_are_applied_whole_or_not_at_all_and_only_to_what_trimming_is_made_of() -> None:
    configuration = Configuration(symmetric())
    before = configuration.tables
    for operations, text in (
        ([{"op": "replace", "path": "/SWITCH_TRIMMING/GLOBAL/size", "value": "1"}], "64 to 9216"),
        ([{"op": "remove", "path": "/SWITCH_TRIMMING/LOCAL"}], "there is no /SWITCH_TRIMMING/LOCAL"),
        ([{"op": "remove", "path": "/SWITCH_TRIMMING"}, {"op": "copy"}], "add, replace or remove"),
        ([{"op": "replace", "path": "/BUFFER_POOL/ingress_pool/size", "value": "1"}], "BUFFER_POOL of a running"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=text):
            configuration.patch(operations)
        assert configuration.tables == before
    configuration.set_action(f"{PROFILE}_egress_lossy", DiscardAction.DROP)
    assert not any(port.settings.trimming for port in Switch.of(configuration.tables).ports.values())
    with pytest.raises(ConfigurationError, match="there is no profile 'none'"):
        configuration.set_action("none", DiscardAction.DROP)
    configuration.patch([{"op": "remove", "path": "/SWITCH_TRIMMING"}])
    assert configuration.tables.trimming is None


def test_a_port_of_the_lab_is_exported_with_its_trimming(tmp_path: Path) -> None:
    tables = replace(symmetric(), acl_rules={}, acl_tables={}, acl_types={})
    port = Switch.of(tables).ports["Ethernet0"].settings
    port = replace(port, trim_exceptions=(TrimException(source="10.0.0.0/8", protocol="udp", dscp=3),))
    found = _trimming_from(_own_port(port))
    assert found == {"trimming": port.trimming, "trim_exceptions": port.trim_exceptions}
    assert AclRuleRow(1).matches == {}
