"""The ports of a switch under test: the one of `check`'s warning and one of each class; and the setting to change."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from testbed.subjects.sonic.headroom import needed_at, tightest
from testbed.subjects.sonic.lab.places import cables_between, hosts_at
from testbed.subjects.sonic.lab.run import Workload, hosts_at_ports, settles_at, size_to_test, untested
from testbed.subjects.sonic.lab.settings import CELL, Switch, SwitchError
from testbed.subjects.sonic.ports_to_test import (
    PortsError,
    classes,
    in_order,
    patience,
    ports_under_test,
    split,
    with_only,
)
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import Tables
from testbed.switch.buffer.settings import Dynamic, Static
from testbed.units import Size
from tests.unit.subjects.sonic.test_switches import FILES, checked, config

NAMES = [f"Ethernet{4 * number}" for number in range(8)]
Change = Callable[[dict[str, Any]], object]


def tables(change: Change = lambda _: None) -> Tables:
    """Return the tables of the leaf with eight ports of 100 Gb/s, changed."""
    content = config("leaf_100g_names")
    change(content)
    return read(json.dumps(content).encode()).require("it")


def far(content: dict[str, Any]) -> None:
    """Make the last port's cable 50 km long, with the headroom for 5 m."""
    content["CABLE_LENGTH"]["AZURE"]["Ethernet28"] = "50km"


def fast(content: dict[str, Any]) -> None:
    """Give two ports 400 Gb/s."""
    for port in ("Ethernet8", "Ethernet12"):
        content["PORT"][port]["speed"] = "400000"


def down(content: dict[str, Any]) -> None:
    content["PORT"]["Ethernet4"]["admin_status"] = "down"


def without_pfc(content: dict[str, Any]) -> None:
    """Take PFC from one port."""
    row = next(iter(content["PORT_QOS_MAP"].values()))
    content["PORT_QOS_MAP"] = {",".join(NAMES[1:]): row, NAMES[0]: {**row, "pfc_enable": "", "pfcwd_sw_enable": ""}}


# Classes


def test_ports_that_are_alike_are_one_class_in_the_order_of_the_file() -> None:
    (one,) = classes(tables(), CELL)
    assert (list(one.ports), one.beside, one.places()) == (NAMES, (), tuple(NAMES[:4]))
    assert one.headroom.remedy == ""


def test_the_port_that_check_warns_of_is_the_first_class() -> None:
    found = classes(tables(far), CELL)
    assert [one.ports[0] for one in found] == ["Ethernet28", "Ethernet0"]
    assert found[0].places() == ("Ethernet28", "Ethernet0", "Ethernet4", "Ethernet8")
    assert found[1].beside == (), "a port that loses frames itself lends no host"
    warning = next(one for one in checked(_content(far)).problems.warnings if one.rule == "headroom too small")
    assert f"{-found[0].headroom.slack} B are missing" in warning.message
    assert found[0].headroom.slack < 0 < found[1].headroom.slack


def _content(change: Change) -> dict[str, Any]:
    content = config("leaf_100g_names")
    change(content)
    return content


@pytest.mark.parametrize(
    "change",
    [
        lambda db: db["PORT"]["Ethernet28"].update(speed="400000"),
        lambda db: db["PORT"]["Ethernet28"].update(mtu="1500"),
        lambda db: db["CABLE_LENGTH"]["AZURE"].update(Ethernet28="40m"),
        lambda db: db["BUFFER_PG"].update(_own_profile(db, "Ethernet28")),
        lambda db: db["PFC_WD"].pop("Ethernet28", None) or db["PFC_WD"].update(_watchdogs("Ethernet28")),
    ],
    ids=["speed", "MTU", "cable", "profile", "watchdog"],
)
def test_what_makes_a_port_another_class(change: Change) -> None:
    assert {one.ports[0] for one in classes(tables(change), CELL)} == {"Ethernet0", "Ethernet28"}


def _own_profile(content: dict[str, Any], port: str) -> dict[str, Any]:
    """Add a row for a port's lossless groups, with a profile that has another name and the same values."""
    content["BUFFER_PROFILE"]["other"] = content["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]
    return {f"{port}|3-4": {"profile": "other"}}


def _watchdogs(port: str) -> dict[str, Any]:
    return {port: {"action": "drop", "detection_time": "777", "restoration_time": "777"}}


def test_the_same_cable_in_another_unit_is_no_other_class() -> None:
    assert len(classes(tables(lambda db: db["CABLE_LENGTH"]["AZURE"].update(Ethernet28="500cm")), CELL)) == 1


def test_ports_of_another_speed_are_not_tested_beside_each_other() -> None:
    found = {one.ports[0]: one for one in classes(tables(fast), CELL)}
    assert found["Ethernet8"].places() == ("Ethernet8", "Ethernet12")
    assert found["Ethernet0"].places() == ("Ethernet0", "Ethernet4", "Ethernet16", "Ethernet20")


def test_ports_that_are_named_are_tested_first_and_only_their_classes() -> None:
    (one,) = classes(tables(far), CELL, ["Ethernet24", "Ethernet4"])
    assert one.places() == ("Ethernet24", "Ethernet4", "Ethernet0", "Ethernet8")
    both = classes(tables(far), CELL, ["Ethernet24", "Ethernet28"])
    assert [one.places()[:2] for one in both] == [("Ethernet28", "Ethernet24"), ("Ethernet24", "Ethernet0")]
    assert [one.beside[:1] for one in both] == [("Ethernet24",), ("Ethernet28",)]


@pytest.mark.parametrize(
    ("change", "named", "message"),
    [
        (far, "Ethernet29", "there is no port 'Ethernet29'; did you mean Ethernet2"),
        (down, "Ethernet4", r"Ethernet4 is down \(admin_status\), so nothing can be tested at it"),
        (without_pfc, "Ethernet0", "Ethernet0 has no pfc_enable in PORT_QOS_MAP, so there is nothing to test at it"),
    ],
)
def test_a_port_that_cannot_be_tested_is_named(change: Change, named: str, message: str) -> None:
    with pytest.raises(PortsError, match=message):
        classes(tables(change), CELL, [named])


def test_a_list_of_ports_has_one_at_least() -> None:
    assert split(" Ethernet4,Ethernet0,Ethernet4") == ["Ethernet4", "Ethernet0"]
    with pytest.raises(PortsError, match="--ports ',' names none; Ethernet0,Ethernet4 is a list of ports"):
        split(",")


def test_ports_under_test_are_up_and_in_their_order() -> None:
    chosen = with_only(tables(), ["Ethernet28", "Ethernet4"])
    assert list(ports_under_test(chosen)) == ["Ethernet28", "Ethernet4"]
    assert [port.number for port in Switch.of(chosen).ports.values() if port.up] == [1, 2]
    assert chosen.ports.keys() == tables().ports.keys()


# What to set


def test_the_remedy_has_the_profile_and_a_number_that_is_enough() -> None:
    found = tightest(tables(far), "Ethernet28", CELL)
    need = needed_at(tables(far), "Ethernet28", CELL)
    assert found is not None and found.remedy == (
        f"set xoff of profile pg_lossless_100000_5m_profile to {need.most} ({need.least} is the least, with full "
        "frames and stations that react at once), and xoff of pool ingress_lossless_pool, 1000000, to no less"
    )

    def mended(content: dict[str, Any]) -> None:
        far(content)
        content["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]["xoff"] = str(need.most)

    again = tightest(tables(mended), "Ethernet28", CELL)
    assert again is not None and (again.remedy, again.slack) == ("", need.most - need.least)


def test_a_group_without_a_lossless_profile_needs_one() -> None:
    without = tightest(tables(lambda db: db["BUFFER_PG"].clear()), "Ethernet0", CELL)
    assert without is not None and without.remedy.startswith(
        "give BUFFER_PG Ethernet0|3 a lossless profile with an xoff"
    )


def test_headroom_that_the_switch_computes_is_enough() -> None:
    computed = tightest(tables(lambda db: db["BUFFER_PG"].update({"Ethernet28|3-4": {"profile": "NULL"}}) or
                               db["CABLE_LENGTH"]["AZURE"].update(Ethernet28="50km")), "Ethernet28", CELL)  # fmt: skip
    assert computed is not None and computed.has is None and computed.slack > 0 and computed.remedy == ""


# Hosts


def test_a_sender_is_at_the_port_with_the_least_slack_and_the_receiver_at_the_one_with_the_most() -> None:
    switch = Switch.of(tables(far))
    found = [port for _, port in hosts_at([switch], 8, last_receives=True)]
    assert (found[0], found[-1]) == ("Ethernet28", "Ethernet24")
    assert sorted(found) == sorted(NAMES)
    for wanted in range(2, 8):
        few = [port for _, port in hosts_at([switch], wanted, last_receives=True)]
        assert few[0] == "Ethernet28" and few[-1] != "Ethernet28"


def test_hosts_of_ports_that_are_alike_are_in_the_order_of_the_file() -> None:
    assert [port for _, port in hosts_at([Switch.of(tables())], 3, last_receives=True)] == NAMES[:3]


def test_each_class_has_a_host_before_one_has_two() -> None:
    def change(content: dict[str, Any]) -> None:
        far(content)
        fast(content)

    assert [port for _, port in hosts_at([Switch.of(tables(change))], 3)] == ["Ethernet28", "Ethernet8", "Ethernet0"]
    assert in_order(tables(without_pfc), CELL, NAMES)[-1] == "Ethernet0"


def test_ports_that_are_named_have_the_first_hosts() -> None:
    switch = Switch.of(tables(far))
    found = hosts_at_ports([switch], Workload.parse("incast,3"), "Ethernet16,leaf2:Ethernet8")
    assert [port for _, port in found] == ["Ethernet16", "Ethernet8", "Ethernet28", "Ethernet0"]
    only = hosts_at_ports([switch], Workload.parse("incast,1"), "Ethernet0,Ethernet28")
    assert [port for _, port in only] == ["Ethernet0", "Ethernet28"]


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ("Ethernet0,Ethernet4,Ethernet8,Ethernet12", "--ports names 4 ports, and the workload has 3 hosts"),
        ("spine:Ethernet0", "there is no switch 'spine'; there is leaf2"),
        ("Ethernet99", "there is no port 'Ethernet99'"),
    ],
)
def test_ports_that_have_no_host_are_refused(ports: str, message: str) -> None:
    with pytest.raises(PortsError, match=message):
        hosts_at_ports([Switch.of(tables())], Workload.parse("incast,2"), ports)


def test_hosts_are_spread_over_the_free_ports_of_all_switches() -> None:
    switches = [Switch.from_config_db(FILES / f"fabric_{name}.json") for name in ("l1", "sp1")]
    spread = {wanted: [name for name, _ in hosts_at(switches, wanted)] for wanted in (2, 3, 6)}
    one, other = (switch.name for switch in switches)
    assert spread == {2: [one, other], 3: [one, one, other], 6: [one, one, one, other, other, other]}
    with pytest.raises(SwitchError, match="7 hosts are wanted, and the switches have 6 free ports that are up"):
        hosts_at(switches, 7)
    ((_, port), _), *_ = cables_between(switches)
    with pytest.raises(PortsError, match=f"{port.name} of {one} has a cable to another of these switches"):
        hosts_at(switches, 2, [f"{one}:{port.name}"])
    with pytest.raises(PortsError, match=f"Ethernet0 is a port of {one}, {other}; write {one}:Ethernet0"):
        hosts_at(switches, 2, ["Ethernet0"])
    with pytest.raises(SwitchError, match=f"two files have the hostname {one}"):
        hosts_at([switches[0], switches[0]], 2)


def test_a_class_without_a_sender_is_named() -> None:
    switch, incast = Switch.of(tables(far)), Workload.parse("incast,2")
    assert untested([switch], hosts_at_ports([switch], incast, ""), incast) == []
    named = hosts_at_ports([switch], incast, "Ethernet0,Ethernet4,Ethernet28")
    (line,) = untested([switch], named, incast)
    assert line.startswith("leaf2 Ethernet28: 100Gb/s, 50km, MTU 9100, profile pg_lossless_100000_5m_profile, headroom")


# How much is sent, and how long it may take


@pytest.mark.parametrize("pattern", ["incast,7", "incast,2", "all-to-all,4"])
def test_flows_are_long_enough_for_pauses_and_for_what_is_in_the_cable(pattern: str) -> None:
    switch, workload = Switch.of(tables(far)), Workload.parse(pattern)
    size = size_to_test([switch], hosts_at_ports([switch], workload, ""), workload, 3)
    senders = workload.count - (pattern == "all-to-all,4")
    held = settles_at(Dynamic(1), 18_980_032, senders)
    round_trip = 500 * 10**-6 * 100 * 10**9 / 8
    assert size.bytes >= held * senders / (senders - 1) + round_trip
    assert size.bytes % 1_000_000 == 0


def test_where_nothing_converges_flows_are_short() -> None:
    switch = Switch.of(tables(far))
    for pattern in ("incast,1", "permutation,4", "all-to-all,2"):
        workload = Workload.parse(pattern)
        assert size_to_test([switch], hosts_at_ports([switch], workload, ""), workload, 3) == Size("1MB")


def test_a_static_threshold_is_what_a_group_holds() -> None:
    assert (settles_at(Static(100), 5000, 7), settles_at(Static(9000), 5000, 7)) == (100, 5000)
    assert settles_at(Dynamic("1/2"), 9000, 4) == 1500


def test_a_large_buffer_a_slow_watchdog_and_a_long_cable_may_take_longer() -> None:
    usual = patience(tables())
    for change in (
        far,
        lambda db: db["BUFFER_POOL"]["ingress_lossless_pool"].update(size="136000000"),
        lambda db: db["PFC_WD"].update(_watchdogs("Ethernet0") | {"GLOBAL": {"POLL_INTERVAL": "3000"}}),
    ):
        assert patience(tables(change)) > usual
