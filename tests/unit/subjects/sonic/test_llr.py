"""SONiC's tables of Link Layer Retry: reading, writing, checking, and the cable that they make."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed.net.fabric.cable import Cable
from testbed.subjects.sonic.check import check, check_fabric
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.lab.topo import SonicTopo
from testbed.subjects.sonic.read import ReadConfig, read
from testbed.subjects.sonic.tables import LlrMode, LlrPortRow, Tables
from testbed.subjects.sonic.write import as_json, write
from testbed.switch.link.retry import Llr, LlrAction
from testbed.units import Duration

ON = {"llr_local": "enabled", "llr_remote": "enabled"}
PROFILE = {
    "max_outstanding_frames": "264", "max_outstanding_bytes": "135000", "max_replay_count": "3",
    "max_replay_timer": "5000", "data_age_timeout": "20000", "ctlos_spacing_bytes": "4096",
    "init_action": "block", "flush_action": "discard",
}  # fmt: skip
"""The design's sample profile for 800G and 40 m, with actions of its own."""


def content(speed: str = "200000", length: str = "40m", **tables: Any) -> dict[str, Any]:
    ports = ("Ethernet0", "Ethernet8")
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}},
        "PORT": {port: {"speed": speed, "lanes": "1", "fec": "rs"} for port in ports},
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, length)},
        **tables,
    }


def reading(**options: Any) -> ReadConfig:
    return read(json.dumps(content(**options)).encode())


def cable(port: str = "Ethernet0", **options: Any) -> Cable:
    """Return the cable between the switch's port and a host."""
    topo = SonicTopo(Switch.of(reading(**options).require("it")), hosts=2)
    found: Cable = topo.linkInfo(*next(ends for ends in topo.links() if topo.at[ends[0]][1] == port))["cable"]
    return found


def findings(tables: Tables) -> str:
    found = ReadConfig(tables)
    check(tables, found.problems)
    return "; ".join(f"[{one.rule}] {one}" for one in found.problems.found)


def test_a_port_with_llr_both_ways_has_a_cable_with_the_profile_that_it_names() -> None:
    tables: dict[str, Any] = {"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}}, "LLR_PROFILE": {"own": PROFILE}}
    assert cable(**tables).llr == Llr(
        264, 135_000, Duration("5us"), 3, 4096, LlrAction.BLOCK, LlrAction.DISCARD, True, Duration("20us")
    )
    assert cable("Ethernet8", **tables).llr is None
    assert "llr" not in findings(reading(**tables).tables)


def test_without_a_profile_a_port_has_that_of_speed_and_length() -> None:
    sample = cable(LLR_PORT={"Ethernet0": ON}).llr
    assert sample is not None
    assert (sample.frames, sample.octets, sample.replay_timer) == (71, 35_952, Duration("5500ns"))
    assert (sample.replay_count, sample.flush_action, sample.data_age) == (3, LlrAction.BLOCK, Duration("24us"))
    of_file = cable(LLR_PORT={"Ethernet0": ON}, LLR_PROFILE={"llr_200000_40m_profile": PROFILE}).llr
    assert of_file is not None and of_file.frames == 264
    computed = cable(speed="100000", length="100m", LLR_PORT={"Ethernet0": ON})
    assert computed.llr is not None and computed.retry is not None
    assert computed.llr.octets == Cable("100Gb/s", "100m", llr=True).retry.octets  # type: ignore[union-attr]
    found = findings(reading(speed="100000", length="100m", LLR_PORT={"Ethernet0": ON}).tables)
    assert "there is no llr_100000_100m_profile, neither here nor in SONiC's sample" in found


def test_the_designs_first_form_is_read_too() -> None:
    tables = reading(
        LLR_CONFIG={"GLOBAL": {"mode": "static"}}, LLR_PORT={"Ethernet0": ON | {"profile": "[LLR_PROFILE|own]"}},
        LLR_PROFILE={"own": PROFILE},
    ).require("it")  # fmt: skip
    assert tables.llr_mode is LlrMode.STATIC
    assert tables.llr_ports == {"Ethernet0": LlrPortRow(None, True, True, "own")}


def test_what_is_read_is_written_and_read_again() -> None:
    tables = reading(
        LLR_CONFIG={"GLOBAL": {"mode": "dynamic"}},
        LLR_PORT={"Ethernet0": ON | {"llr_mode": "static", "llr_profile": "own"}, "Ethernet8": {}},
        LLR_PROFILE={"own": PROFILE},
    ).require("it")
    assert read(write(tables).encode()).require("it") == tables
    assert as_json(tables)["LLR_PORT"]["Ethernet8"] == {"llr_local": "disabled", "llr_remote": "disabled"}
    assert not any(name.startswith("LLR") for name in as_json(reading().tables))


@pytest.mark.parametrize(("tables", "text"), [
    ({"LLR_PORT": {"Ethernet4": ON}}, "there is no port Ethernet4"),
    ({"LLR_PORT": {"Ethernet0": {"llr_local": "on"}}}, "'on' is unknown: enabled or disabled is expected"),
    ({"LLR_PORT": {"Ethernet0": {"llr_mode": "auto"}}}, "'auto' is unknown"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}}}, "there is no LLR_PROFILE 'own'"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "a", "profile": "a"}}}, "llr_profile and profile; one of them"),
    ({"LLR_CONFIG": {"ALL": {"mode": "static"}}}, "GLOBAL is the only row"),
    ({"LLR_PROFILE": {"own": {"max_outstanding_frames": "61"}}}, "max_outstanding_bytes is missing"),
    ({"LLR_PROFILE": {"own": PROFILE | {"max_outstanding_frames": "524289"}}}, "whole number from 0 to 524288"),
    ({"LLR_PROFILE": {"own": PROFILE | {"max_replay_timer": "70000"}}}, "whole number from 0 to 65535"),
    ({"LLR_PROFILE": {"own": PROFILE | {"max_replay_count": "0"}}}, "whole number from 1 to 255"),
    ({"LLR_PROFILE": {"own": PROFILE | {"ctlos_spacing_bytes": "320"}}}, "whole number from 400 to 16384"),
    ({"LLR_PROFILE": {"own": PROFILE | {"flush_action": "drop"}}}, "'drop' is unknown"),
])  # fmt: skip
def test_wrong_values_are_refused_by_place_and_reason(tables: dict[str, Any], text: str) -> None:
    found = reading(**tables)
    assert text in "; ".join(str(one) for one in found.problems.errors)


@pytest.mark.parametrize(("tables", "text"), [
    ({"LLR_PORT": {"Ethernet0": {"llr_local": "enabled"}}}, "has none; enable llr_remote too"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_mode": "dynamic"}}}, "not modelled: there is no LLR here; set it to static"),
    ({"LLR_PORT": {"Ethernet0": {"llr_profile": "own"}}, "LLR_PROFILE": {"own": PROFILE}}, "profile own has no effect"),
    ({"LLR_PROFILE": {"own": PROFILE}}, "no row of LLR_PORT has this profile"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}},
      "LLR_PROFILE": {"own": PROFILE | {"max_outstanding_frames": "0"}}}, "61 frames and 31184 B for 200G and 5m"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}},
      "LLR_PROFILE": {"own": PROFILE | {"max_outstanding_bytes": "9000"}}}, "set 15140 or more"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}},
      "LLR_PROFILE": {"own": PROFILE | {"max_replay_timer": "100"}}}, "max_replay_timer is 100 ns"),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}},
      "LLR_PROFILE": {"own": PROFILE | {"pcs_lost_timeout": "50000"}}}, "pcs_lost_timeout has no effect in the lab"),
    ({"length": "10000m", "LLR_PORT": {"Ethernet0": ON}}, "so disable LLR here"),
])  # fmt: skip
def test_what_contradicts_itself_is_warned_of_with_the_way_out(tables: dict[str, Any], text: str) -> None:
    found = reading(**tables)
    assert found.ok
    assert text in findings(found.tables)


def test_profiles_without_a_buffer_and_modes_that_are_negotiated_make_no_llr() -> None:
    assert cable(LLR_PORT={"Ethernet0": ON | {"llr_mode": "dynamic"}}).llr is None
    assert cable(LLR_PORT={"Ethernet0": {"llr_remote": "enabled"}}).llr is None
    none = {"own": PROFILE | {"max_outstanding_bytes": "0"}}
    assert cable(LLR_PORT={"Ethernet0": ON | {"llr_profile": "own"}}, LLR_PROFILE=none).llr is None


@pytest.mark.parametrize(("there", "text", "has_llr"), [
    ({}, "LLR is on and off: the cable has none", False),
    ({"LLR_PORT": {"Ethernet0": ON}}, "", True),
    ({"LLR_PORT": {"Ethernet0": ON | {"llr_profile": "own"}}, "LLR_PROFILE": {"own": PROFILE}}, "profiles llr_", True),
])  # fmt: skip
def test_both_ends_of_a_cable_need_llr(there: dict[str, Any], text: str, has_llr: bool) -> None:
    near = {"DEVICE_NEIGHBOR": {"Ethernet0": {"name": "leaf2", "port": "Ethernet0"}}}
    one = reading(**near, LLR_PORT={"Ethernet0": ON}).require("one")
    other = read(json.dumps(
        content(DEVICE_NEIGHBOR={"Ethernet0": {"name": "leaf1", "port": "Ethernet0"}}, **there)
        | {"DEVICE_METADATA": {"localhost": {"hostname": "leaf2"}}}
    ).encode()).require("other")  # fmt: skip
    found = [str(problem) for _, problem in check_fabric({"a": one, "b": other}) if problem.rule == "llr differs"]
    assert bool(found) == bool(text) and text in "; ".join(found)
    topo = SonicTopo(Switch.of(one), Switch.of(other), hosts=0)
    (ends,) = topo.links()
    assert bool(topo.linkInfo(*ends)["cable"].llr) is has_llr
