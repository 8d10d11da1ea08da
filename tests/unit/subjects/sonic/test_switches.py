"""SONiC's config_db.json: tables of different switches, what is wrong in them, what is risky, and the lab's "
"switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.errors import UsageError
from testbed.lab.engines.load import Load, frame_costs, require
from testbed.strict.problems import json_path as path
from testbed.subjects.sonic.check import check, check_fabric
from testbed.subjects.sonic.classes import classes_of
from testbed.subjects.sonic.headroom import divisions, needed
from testbed.subjects.sonic.lab.run import Workload
from testbed.subjects.sonic.lab.settings import CELL, Switch, node_name
from testbed.subjects.sonic.read import ConfigDbError, ReadConfig, read
from testbed.subjects.sonic.tables import MapKind
from testbed.subjects.sonic.write import write
from testbed.switch.buffer.settings import Dynamic, GroupSettings, Pool, QueueSettings, Static
from testbed.switch.pfc.settings import Action
from testbed.switch.priority.settings import Trust
from testbed.units import Duration, Length, Rate

FILES = Path(__file__).parents[2] / "data" / "sonic"
NAMES = sorted(file.stem for file in FILES.glob("*.json"))
CLASSIC = "leaf_100g_classic"


def config(name: str = CLASSIC) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / f"{name}.json").read_text())
    return found


def checked(content: dict[str, Any]) -> ReadConfig:
    reading = read(json.dumps(content).encode())
    if reading.ok:
        check(reading.tables, reading.problems)
    return reading


def rules(name: str) -> set[str]:
    return {problem.rule for problem in checked(config(name)).problems.warnings}


# Files of different switches


def test_there_are_twenty_files() -> None:
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_and_each_finding_is_one_line(name: str) -> None:
    reading = checked(config(name))
    assert reading.ok is not name.startswith("broken")
    for problem in reading.problems.found:
        assert str(problem).startswith("$") and "\n" not in str(problem)
    assert bool(reading.problems.errors or reading.problems.warnings) >= name.startswith(("risky", "broken"))
    if reading.ok and name != "risky_oversubscribed":
        switch = Switch.from_config_db(FILES / f"{name}.json")
        assert switch.ports.keys() == reading.tables.ports.keys()
        assert switch.buffer_of(list(switch.ports)[:2]).total <= switch.buffer.total


def test_both_styles_of_references_and_keys_give_the_same_tables() -> None:
    one, other = config("leaf_100g_names"), config("leaf_100g_names")
    other["BUFFER_PROFILE"]["egress_lossy_profile"]["pool"] = "[BUFFER_POOL|egress_lossy_pool]"
    row = other["BUFFER_PG"].pop(
        "Ethernet0,Ethernet4,Ethernet8,Ethernet12,Ethernet16,Ethernet20,Ethernet24,Ethernet28|3-4"
    )
    for port in one["PORT"]:
        other["BUFFER_PG"] |= {f"{port}|3": row, f"{port}|4": {"profile": f"[BUFFER_PROFILE|{row['profile']}]"}}
    assert read(json.dumps(other).encode()).tables == read(json.dumps(one).encode()).tables


BROKEN = [
    ("PORT.Ethernet0.speed", "x", "$.PORT.Ethernet0.speed: error: 'x' is not a whole number from 10 to 10000000"),
    ("PORT.Ethernet0.speed", {}, "$.PORT.Ethernet0.speed: error: {} is not a string, as all values are"),
    ("PORT", [], "$.PORT: error: [] is not an object; rows by key are expected"),
    ("BUFFER_PG.Ethernet0|9-1", {"profile": "NULL"}, "$.BUFFER_PG['Ethernet0|9-1']: error: '9-1' is not a number; 3, "
        "3-4 or "
     "3,4 is expected"),
    ("BUFFER_PG.Ethernet0|3", {}, "$.BUFFER_PG['Ethernet0|3']: error: profile is missing; the name of a "
        "BUFFER_PROFILE, or "
     "NULL, is expected"),
    ("BUFFER_PROFILE.p", {"pool": "egress_lossy_pol", "dynamic_th": "1"}, "$.BUFFER_PROFILE.p.pool: error: there "
        "is no "
     "BUFFER_POOL 'egress_lossy_pol': did you mean egress_lossy_pool?"),
    ("BUFFER_PROFILE.p", {"pool": "[QUEUE|x]", "dynamic_th": "1"}, "$.BUFFER_PROFILE.p.pool: error: '[QUEUE|x]' "
        "refers to "
     "the table QUEUE; one of BUFFER_POOL is expected"),
    ("BUFFER_PROFILE.p", {"pool": "NULL", "dynamic_th": "1"}, "$.BUFFER_PROFILE.p.pool: error: there is no"),
    ("BUFFER_PROFILE.p", {"pool": "egress_lossy_pool"}, "$.BUFFER_PROFILE.p: error: it has no threshold; "
        "dynamic_th or "
     "static_th is expected"),
    ("CABLE_LENGTH.AZURE.Ethernet0", "5 miles", "$.CABLE_LENGTH.AZURE.Ethernet0: error: '5 miles' is not a length"),
    ("PFC_WD.Ethernet0", {"action": "drop"}, "$.PFC_WD.Ethernet0: error: detection_time is missing; a number of "
        "ms such as "
     "200 is expected"),
    ("WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold", "9999999", "$.WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold: "
     "error: 9999999 B is more than green_max_threshold, 1048576 B"),
    ("DSCP_TO_TC_MAP.AZURE.3", "16", "$.DSCP_TO_TC_MAP.AZURE['3']: error: 16 is not modelled; 0 to 15 are"),
    ("TC_TO_QUEUE_MAP.AZURE.3", "8", "$.TC_TO_QUEUE_MAP.AZURE['3']: error: 8 is not modelled; 0 to 7 are"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value", "line"), BROKEN)
def test_what_is_wrong_is_named_with_its_json_path(place: str, value: object, line: str) -> None:
    content = config()
    *way, last = place.split(".")
    inner: Any = content
    for step in way:
        inner = inner[step]
    inner[last] = value
    reading = read(json.dumps(content).encode())
    assert [str(problem) for problem in reading.problems.errors if str(problem).startswith(line)], (
        reading.problems.errors
    )
    with pytest.raises(ConfigDbError, match=r"^x\.json: \$"):
        reading.require("x.json")


@pytest.mark.parametrize(
    ("octets", "line"),
    [
        (b"", "$: error: no JSON: Expecting value at line 1, column 1"),
        (b"\xff", "$: error: octet 0 is not UTF-8; a config_db.json is JSON in UTF-8"),
        (b"[" * 100_000, "$: error: nested too deep; a config_db.json has tables, keys and fields"),
        (b"7", "$: error: '7' is not an object; tables by name are expected"),
        (b"{}", "$.PORT: error: there is no port; a config_db.json of a switch has its ports here"),
        (b" " * (17 << 20), "$: error: the file has more than 16 MB; a config_db.json has some hundred kB"),
    ],
    ids=["empty", "no text", "deep", "number", "no tables", "large"],
)
def test_a_file_that_is_none_is_one_line(octets: bytes, line: str) -> None:
    reading = read(octets)
    assert [str(problem) for problem in reading.problems.errors] == [line]


def test_tables_and_fields_that_are_not_modelled_are_listed_and_no_error() -> None:
    ignored = [str(one) for one in checked(config()).problems.found if one.severity.value == "ignored"]
    assert ignored == [
        "$: ignored: tables that are not modelled: LOOPBACK_INTERFACE",
        "$.WRED_PROFILE: ignored: fields that are not modelled: wred_yellow_enable, yellow_max_threshold, "
        "yellow_min_threshold",
    ]


def test_a_path_is_one_line_whatever_a_key_is() -> None:
    assert path("PORT", "a'b\n\\", "speed") == r"$.PORT['a\'b\\n\\'].speed"
    assert len(path("x" * 9999)) < 100


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("broken")])
def test_what_is_written_is_read_as_the_same_tables(name: str) -> None:
    tables = read(json.dumps(config(name)).encode()).tables
    again = read(write(tables).encode())
    assert again.problems.errors == [] and again.tables == tables


# What is risky


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("risky_no_headroom", {"no headroom"}),
        ("risky_long_cable", {"headroom too small"}),
        ("risky_maps_and_ecn", {"queues differ", "ecn above pfc", "egress drops", "watchdog poll"}),
        ("risky_oversubscribed", {"oversubscribed"}),
        ("leaf_dynamic_model", {"size", "no profile"}),
        ("leaf_100g_names", set()),
        ("spine_400g", set()),
    ],
)
def test_each_risk_has_its_rule_and_a_sound_file_has_none(name: str, expected: set[str]) -> None:
    assert rules(name) == expected


def _keep_one_watchdog(db: dict[str, Any]) -> None:
    row = next(row for key, row in db["PFC_WD"].items() if key != "GLOBAL")
    db["PFC_WD"] = {"Ethernet0": row}


def _without_xon(row: dict[str, str]) -> None:
    row.pop("xon", None)
    row.pop("xon_offset", None)


def _give_all(db: dict[str, Any], table: str, numbers: str, profile: str) -> None:
    for key, row in db[table].items():
        if numbers in key:
            row["profile"] = profile


def _lossless_profile(db: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = db["BUFFER_PROFILE"]["pg_lossless_100000_5m_profile"]
    return found


Change = Callable[[dict[str, Any]], object]
CHANGES: list[tuple[str, Change]] = [
    ("no headroom", lambda db: db["BUFFER_PG"].popitem()),
    ("pfc off", lambda db: [row.update(pfc_enable="3") for row in db["PORT_QOS_MAP"].values()]),
    ("watchdog differs", lambda db: [row.update(pfcwd_sw_enable="3") for row in db["PORT_QOS_MAP"].values()]),
    ("no watchdog", _keep_one_watchdog),
    ("no queue", lambda db: db["MAP_PFC_PRIORITY_TO_QUEUE"]["AZURE"].pop("3")),
    ("no queue", lambda db: db["TC_TO_QUEUE_MAP"]["AZURE"].pop("3")),
    ("unused group", lambda db: db["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"].update({"3": "0"})),
    ("unused class", lambda db: db["DSCP_TO_TC_MAP"]["AZURE"].update({"3": "1"})),
    ("no map", lambda db: [row.pop("dscp_to_tc_map") for row in db["PORT_QOS_MAP"].values()]),
    ("wred drops", lambda db: db["WRED_PROFILE"]["AZURE_LOSSLESS"].update(ecn="ecn_none")),
    ("headroom oversubscribed", lambda db: db["BUFFER_POOL"]["ingress_lossless_pool"].update(xoff="100000")),
    ("no hysteresis", lambda db: [_without_xon(row) for row in db["BUFFER_PROFILE"].values()]),
    ("no length", lambda db: db.pop("CABLE_LENGTH")),
    ("no queue profile", lambda db: [db["BUFFER_QUEUE"].pop(key) for key in list(db["BUFFER_QUEUE"]) if "|3" in key]),
    ("mode", lambda db: db["BUFFER_POOL"]["ingress_lossless_pool"].update(mode="static")),
    ("wrong direction", lambda db: _give_all(db, "BUFFER_QUEUE", "|3", "ingress_lossy_profile")),
    ("wrong direction", lambda db: _give_all(db, "BUFFER_PG", "|3", "egress_lossless_profile")),
    ("xon_offset above threshold", lambda db: _lossless_profile(db).update(xon_offset="19000000")),
    ("xon_offset above threshold", lambda db: _lossless_profile(db).update(xon_offset="80000", dynamic_th="-8")),
]


@pytest.mark.parametrize(("rule", "change"), CHANGES, ids=[rule for rule, _ in CHANGES])
def test_a_change_of_a_sound_file_has_its_warning(rule: str, change: Change) -> None:
    content = config("leaf_100g_names")
    assert rule not in {one.rule for one in checked(content).problems.warnings}
    change(content)
    reading = checked(content)
    assert rule in {one.rule for one in reading.problems.warnings}, reading.problems.found


def test_a_profile_of_the_wrong_direction_is_named_with_its_pool_and_its_queues() -> None:
    content = config("leaf_100g_names")
    _give_all(content, "BUFFER_QUEUE", "|3", "ingress_lossy_profile")
    found = [str(one) for one in checked(content).problems.warnings if one.rule == "wrong direction"]
    assert found == [
        "$.BUFFER_QUEUE: warning: Ethernet0, Ethernet4, Ethernet8, Ethernet12, Ethernet16, Ethernet20 and 2 more: 3, 4 "
        "have the profile ingress_lossy_profile of ingress_lossless_pool, an ingress pool: it does not limit these "
        "queues"
    ]


def test_an_xon_offset_that_a_threshold_reaches_has_no_warning() -> None:
    """Check alpha 1, with which a group that is alone may hold nearly all of the 18 980 032 B that are shared."""
    content = config("leaf_100g_names")
    _lossless_profile(content)["xon_offset"] = "18980031"
    assert "xon_offset above threshold" not in {one.rule for one in checked(content).problems.warnings}
    _lossless_profile(content)["xon_offset"] = "18980032"
    found = [one for one in checked(content).problems.warnings if one.rule == "xon_offset above threshold"]
    assert [one.message for one in found] == [
        "xon_offset, 18980032 B, is not below the threshold, which is 18980032 B at the most: it has no effect, and "
        "xon, 18432 B, alone ends PAUSE"
    ]


def test_headroom_is_that_of_our_calculation_and_grows_with_cable_speed_and_mtu() -> None:
    usual = needed(Rate("100Gb/s"), Length("5m"), 9100, CELL)
    assert usual.least < usual.most
    assert usual.least % CELL == usual.most % CELL == 0
    for more in (
        needed(Rate("400Gb/s"), Length("300m"), 9100, CELL),
        needed(Rate("100Gb/s"), Length("300m"), 9100, CELL),
    ):
        assert more.least > usual.least and more.most > usual.most
    assert needed(Rate("100Gb/s"), Length("5m"), 1500, CELL).least < usual.least
    flight = 2 * 295 * 5 * 100 // 8  # bytes on 295 m more, both ways
    longer = needed(Rate("100Gb/s"), Length("300m"), 9100, CELL).least - usual.least
    assert flight - CELL < longer <= flight + CELL + flight // 50


def test_a_fabric_is_compared_link_by_link() -> None:
    one, other = config("fabric_l1"), config("fabric_sp1")

    def findings() -> set[str]:
        tables = {name: read(json.dumps(db).encode()).tables for name, db in (("a", one), ("b", other))}
        return {problem.rule for _, problem in check_fabric(tables)}

    assert findings() == set()
    other["DSCP_TO_TC_MAP"]["AZURE"]["3"] = "2"
    assert findings() == {"maps differ"}
    other["PORT"]["Ethernet0"]["speed"] = "40000"
    other["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "40m"
    next(iter(other["PORT_QOS_MAP"].values()))["pfc_enable"] = "4"
    assert findings() == {"maps differ", "ends differ", "pfc differs"}
    one["DEVICE_NEIGHBOR"]["Ethernet12"]["port"] = "Ethernet99"
    assert "neighbour" in findings()


# The lab's switch


def test_a_switch_has_the_ports_maps_and_schedulers_of_its_file() -> None:
    switch = Switch.from_config_db(FILES / f"{CLASSIC}.json")
    assert (switch.name, switch.scale.k, switch.dscp(3), switch.dscp(4)) == ("leaf1", 1000, 3, 4)
    port = switch.ports["Ethernet8"]
    assert (port.number, port.rate, port.length, port.up) == (3, Rate("100Gb/s"), Length("5m"), True)
    settings = port.settings
    assert settings.pfc.enabled == {3, 4} and settings.priorities.trust is Trust.DSCP
    assert settings.priorities.dot1p_to_group == (0, 0, 0, 3, 4, 0, 0, 0)
    assert dict(settings.dwrr) == {0: 14, 1: 14, 2: 14, 3: 15, 4: 15, 5: 14, 6: 14}
    assert (settings.ecn[3].kmin.bytes, settings.ecn[3].kmax.bytes, settings.ecn[3].pmax) == (
        250_000,
        1_048_576,
        Fraction(1, 20),
    )
    watchdog = settings.pfc.watchdog
    assert watchdog is not None and watchdog.action is Action.DROP
    assert (watchdog.detection, watchdog.poll) == (Duration("400ms"), Duration("200ms"))
    quick = Switch.from_config_db(FILES / f"{CLASSIC}.json", watchdog_scale=1).ports["Ethernet8"].settings.pfc.watchdog
    assert quick is not None and quick.detection == Duration("400us"), "400 ms of the lab"


def test_a_switch_has_the_pools_groups_and_queues_of_its_file_in_cells() -> None:
    buffer = Switch.from_config_db(FILES / f"{CLASSIC}.json").buffer
    assert (buffer.total, buffer.headroom_pool) == (32689152 // CELL, 2058240 // CELL)
    lossless = GroupSettings(True, 1248 // CELL, Dynamic.power(0), 2288 // CELL, 53248 // CELL, 2288 // CELL)
    assert buffer.groups[3, 3] == lossless
    assert buffer.groups[3, 0] == GroupSettings(threshold=Static(32689152 // CELL))
    assert buffer.egress_pools == (32599040 // CELL, 26073232 // CELL)
    assert buffer.queues[3, 3] == QueueSettings(0, Static(32599040 // CELL), 0)
    assert buffer.queues[3, 0] == QueueSettings(1664 // CELL, Dynamic("1/2"), 1)
    exact = Switch.from_config_db(FILES / f"{CLASSIC}.json", cell=1).buffer
    assert (exact.groups[3, 3].headroom, exact.groups[3, 3].xon) == (53248, 2288)


def test_headroom_in_the_reserved_size_and_a_second_pool() -> None:
    buffer = Switch.from_config_db(FILES / "leaf_two_pools.json").buffer
    assert buffer.headroom_pool is None and buffer.more_pools == (Pool(8_000_000 // CELL),)
    assert (buffer.groups[1, 3].guaranteed, buffer.groups[1, 3].headroom) == (20_000 // CELL, 60_000 // CELL)
    assert (buffer.groups[1, 3].pool, buffer.groups[1, 0].pool) == (0, 1)


@pytest.mark.parametrize(("speed", "scale"), [("10000", 100), ("100000", 1000), ("400000", 4000), ("800000", 8000)])
def test_the_scale_makes_100_mbit_of_the_fastest_port(speed: str, scale: int) -> None:
    content = config()
    for row in content["PORT"].values():
        row["speed"] = speed
    assert Switch.of(read(json.dumps(content).encode()).tables).scale.k == scale


def test_maps_of_a_port_can_be_global_or_dot1p() -> None:
    switch = Switch.from_config_db(FILES / "leaf_global_map.json")
    assert switch.tables.map_of("Ethernet0", MapKind.DSCP_TO_TC)
    assert [port.up for port in switch.ports.values()].count(False) == 1
    tagged = Switch.from_config_db(FILES / "tor_dot1p.json").ports["Ethernet0"].settings.priorities
    assert (tagged.trust, tagged.pcp_to_dot1p[:2]) == (Trust.DOT1P, (1, 0))


def test_a_switch_that_cannot_be_built_is_refused_before_the_lab_starts() -> None:
    Switch.from_config_db(FILES / f"{CLASSIC}.json").require()
    with pytest.raises(UsageError, match=r"^bad4: guaranteed cells of all groups are .* cells are missing$"):
        Switch.from_config_db(FILES / "risky_oversubscribed.json").require()


def test_a_port_that_trusts_tags_takes_the_priority_from_the_tag() -> None:
    assert Switch.from_config_db(FILES / "tor_dot1p.json").dscp(3) == -1


def test_a_name_that_interfaces_cannot_have_becomes_a_number() -> None:
    assert [node_name(name, 2) for name in ("leaf1", "str-a7050-acs-1", "", "Leaf", "leaf")] == ["leaf1", *["s2"] * 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("incst,8", "there is no workload 'incst'; did you mean incast?"),
        ("incast,0", "workload incast,0: a number of hosts, 1 to 1000, is expected after the comma"),
        ("all-to-all,x", "workload all-to-all,x: a number of hosts, 2 to 1000, is expected after the comma"),
    ],
)
def test_a_workload_that_is_none_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}$".replace("?", r"\?")):
        Workload.parse(text)


# Overload


def test_a_run_that_would_overload_the_lab_has_the_scale_that_would_do() -> None:
    load = Load(8, Rate("100Gb/s"), 60)
    require(load, 1, cpu_work_takes_no_time=True)
    least = load.least_scale(frame_costs())
    require(load, least, cpu_work_takes_no_time=False)
    with pytest.raises(UsageError, match=f"give --scale {least}, longer frames, or --engine um"):
        require(load, least // 4, cpu_work_takes_no_time=False)
    assert Load(8, Rate("100Gb/s"), 1514).least_scale(frame_costs()) <= least / 10


# The command


def test_check_has_a_line_for_each_finding_and_an_exit_code_for_scripts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sound, broken = (str(FILES / f"{name}.json") for name in ("leaf_100g_names", "broken_values"))
    assert main(["switch", "check", sound, "--strict"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{sound}: leaf2, 8 ports: 0 errors, 0 warnings"
    assert main(["switch", "check", broken]) == 2
    assert main(["switch", "check", str(FILES / "risky_long_cable.json")]) == 0
    assert main(["switch", "check", str(FILES / "risky_long_cable.json"), "--strict"]) == 2
    capsys.readouterr()
    assert main(["switch", "check", sound, broken, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found[sound]["ok"], found[broken]["ok"]) == (True, False)
    assert found[broken]["problems"][0]["path"] == "$.PORT.Ethernet0.speed"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workload", "incast,8"], "9 hosts are wanted, and the switches have 4 free ports that are up"),
        (["--size", "5"], "'5' is not a size: it has no unit"),
        (
            ["--engine", "vm", "--frame", "60B", "--scale", "100"],
            "at scale 100, and 80 % is the most: give --scale 10000",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "run", str(FILES / "fabric_l1.json"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_class_above_seven_is_merged_into_one_with_its_group_and_queue() -> None:
    content = config()
    content["DSCP_TO_TC_MAP"]["AZURE"]["33"] = "8"
    content["TC_TO_QUEUE_MAP"]["AZURE"] |= {"1": "1", "8": "1"}
    content["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] |= {"1": "0", "8": "0"}
    reading = checked(content)
    assert reading.ok
    port = next(iter(reading.tables.ports))
    classes = classes_of(reading.tables, port)
    assert classes.dscp is not None
    assert classes.dscp[33] == 1
    assert not classes.left_over


def test_a_class_above_seven_with_a_way_of_its_own_takes_a_class_that_no_frame_has() -> None:
    content = config()
    content["DSCP_TO_TC_MAP"]["AZURE"] = {"0": "0", "33": "9"}
    content["TC_TO_QUEUE_MAP"]["AZURE"] |= {"9": "6"}
    content["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] |= {"9": "5"}
    tables = checked(content).tables
    classes = classes_of(tables, next(iter(tables.ports)))
    assert classes.dscp is not None
    assert classes.queues is not None
    assert classes.groups is not None
    chosen = classes.dscp[33]
    assert chosen in range(1, 8)
    assert (classes.groups[chosen], classes.queues[chosen]) == (5, 6)


def test_more_ways_than_classes_are_a_warning() -> None:
    content = config()
    content["DSCP_TO_TC_MAP"]["AZURE"] = {str(tc): str(tc) for tc in range(9)}
    content["TC_TO_QUEUE_MAP"]["AZURE"] = {str(tc): str(tc % 8) for tc in range(9)}
    content["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"] = {str(tc): str(min(tc, 7)) for tc in range(9)}
    reading = checked(content)
    assert "too many classes" in {problem.rule for problem in reading.problems.warnings}


def test_on_mellanox_platforms_a_pool_has_its_size_and_what_is_reserved() -> None:
    content = config()
    without = {one.name: one for one in divisions(checked(content).tables)}
    content.setdefault("DEVICE_METADATA", {}).setdefault("localhost", {})["platform"] = "x86_64-mlnx_msn2700-r0"
    tables = checked(content).tables
    for one in divisions(tables):
        assert one.shared == without[one.name].size
        assert one.reserved == without[one.name].reserved
    assert read(write(tables).encode()).tables == tables


@pytest.mark.parametrize(("name", "meant"), [("BUFER_POOL", "BUFFER_POOL"), ("PFCWD", "PFC_WD"), ("queues", "QUEUE")])
def test_a_misspelt_table_has_a_hint(name: str, meant: str) -> None:
    found = [str(one) for one in checked(config() | {name: {}}).problems.warnings if one.rule == "misspelt table"]
    assert found == [f"$.{name}: warning: {name} is no table that is read; did you mean {meant}?"]


def test_tables_of_sonic_that_are_not_read_are_not_misspelt() -> None:
    others = ("DSCP_TO_FC_MAP", "BUFFER_PORT_INGRESS_PROFILE_LIST", "PORT_STORM_CONTROL", "DEVICE_NEIGHBOR_METADATA")
    found = checked(config() | {name: {} for name in others}).problems.warnings
    assert [one for one in found if one.rule == "misspelt table"] == []


@pytest.mark.parametrize(
    ("speed", "fec", "warned"), [("400000", "none", True), ("200000", "none", True), ("400000", "rs", False),
                                 ("400000", None, False), ("100000", "none", False)],
)  # fmt: skip
def test_no_fec_on_pam4_lanes_is_a_warning(speed: str, fec: str | None, warned: bool) -> None:
    content = config()
    content["PORT"]["Ethernet0"] |= {"speed": speed} | ({} if fec is None else {"fec": fec})
    found = [one.message for one in checked(content).problems.warnings if one.rule == "no fec"]
    assert len(found) == warned
    assert all("Ethernet0: fec is none" in text and text.endswith("set fec to rs") for text in found)


def test_diff_shows_rows_fields_and_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before, after = config(), config()
    after["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "300m"
    del after["QUEUE"][next(iter(after["QUEUE"]))]
    after["PORT"]["Ethernet8"]["fec"] = "rs"
    for name, found in (("a.json", before), ("b.json", after)):
        Path(name).write_text(json.dumps(found))
    assert main(["switch", "diff", "a.json", "b.json"]) == 1
    shown = capsys.readouterr().out
    length = before["CABLE_LENGTH"]["AZURE"]["Ethernet0"]
    assert f"  CABLE_LENGTH|AZURE|Ethernet0: {length} -> 300m\n" in shown
    assert "- QUEUE|Ethernet0|" in shown and "+ PORT|Ethernet8|fec: rs\n" in shown
    assert "what follows:\n" in shown and "  Ethernet0, group 3: headroom 53248 B, needed " in shown
    assert "Ethernet12, group" not in shown and "CABLE_LENGTH|AZURE|Ethernet12" not in shown
    assert main(["switch", "diff", "a.json", "a.json"]) == 0
    assert capsys.readouterr().out == "a.json and a.json are alike in all that is read\n"
