"""OTG's `ultra_ethernet`: each field of the model with its range and default, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from testbed.subjects.snappi.config import TestPlan
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.requests import read_control, read_metrics
from testbed.subjects.snappi.ultra_ethernet.columns import COLUMNS, COUNTED
from testbed.subjects.snappi.ultra_ethernet.model import (
    ADDITIONS,
    CONFIGURATION,
    METRICS,
    SCHEMAS,
    Number,
    Part,
    Word,
    Words,
)
from testbed.switch.link.counters import LLR_COUNTERS
from testbed.switch.link.retry import LlrAction
from testbed.switch.priority.settings import Trust
from testbed.units import Duration
from tests.unit.subjects.snappi.test_config import read, refused

LOSSLESS = {"choice": "lossless", "lossless": {"credit_limit": 24}}


def _with(**parts: Any) -> dict[str, Any]:
    return {"ultra_ethernet": [{"name": "u", "port_names": ["p1"], **parts}]}


def _nested(path: str, value: object) -> dict[str, Any]:
    head, _, rest = path.partition(".")
    return {head: _nested(rest, value) if rest else value}


def _fields(schema: str = "UltraEthernet", path: str = "") -> Iterator[tuple[str, object]]:
    """Yield each field of a configuration that is in no list, by its path."""
    for name, field in CONFIGURATION[schema].items():
        if isinstance(field, Part):
            if not field.is_list:
                yield from _fields(field.schema, f"{path}{name}.")
        else:
            yield path + name, field


NUMBERS = [(path, field) for path, field in _fields() if isinstance(field, Number)]


def _layer(plan: TestPlan) -> Any:
    return plan.link_layers["p1"]


@pytest.mark.parametrize(("path", "field"), NUMBERS, ids=[path for path, _ in NUMBERS])
def test_a_number_has_a_default_within_its_range_and_is_refused_outside(path: str, field: Number) -> None:
    assert field.default is not None and field.high is not None
    assert field.low <= field.default <= field.high
    read(_with(**_nested(path, field.default)))
    for value in (field.low - 1, field.high + 1):
        said = f"ultra_ethernet[0].{path}: it is {value}; {field.low} to {field.high} is possible"
        assert said in refused(_with(**_nested(path, value)))


@pytest.mark.parametrize(
    ("path", "words"),
    [(path, field) for path, field in _fields() if isinstance(field, Word)],
    ids=lambda one: str(one)[:40],
)
def test_a_word_is_of_the_model(path: str, words: Word) -> None:
    assert words.default in words.words
    assert f"ultra_ethernet[0].{path}: 'none' is not supported" in refused(_with(**_nested(path, "none")))[0]


def test_llr_has_the_models_defaults_and_is_off() -> None:
    layer = _layer(read(_with(llr={})))
    llr = layer.llr
    assert (llr.frames, llr.octets, llr.replay_timer, llr.replay_count) == (2047, 64_000_000, Duration("65535ns"), 255)
    assert (llr.spacing, llr.init_action, llr.re_init, llr.data_age) == (
        2048,
        LlrAction.BEST_EFFORT,
        False,
        Duration("4.2s"),
    )
    assert (layer.sends, layer.receives, layer.credits) == (False, False, None)


def test_a_port_without_llr_has_none() -> None:
    assert _layer(read(_with(phy={"o_code": 6}))).llr is None
    assert read().link_layers == {}


def test_llr_is_what_is_given() -> None:
    llr = {"remote_enable": True, "outstanding_seq_max": 4, "replay_count_max": 3, "flush_behavior": "block"}
    layer = _layer(read(_with(llr=llr, phy={"tx_control_ordered_set": {"llr_target_spacing": 400}})))
    assert (layer.sends, layer.receives, layer.llr.frames, layer.llr.replay_count) == (True, False, 4, 3)
    assert (layer.llr.flush_action, layer.llr.spacing) == (LlrAction.BLOCK, 400)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (_nested("llr.outstanding_seq_max", 0), "llr.outstanding_seq_max: it is 0; Xoff needs 1 or more"),
        (_nested("llr.replay_timer_max", 0), "llr.replay_timer_max: it is 0; Xoff needs 1 or more"),
        (_nested("phy.o_code", 5), "phy.o_code: it is 5; Xoff has 6 only"),
        (_nested("phy.rx_control_ordered_set.validate_min_spacing", True), "it is true; Xoff has false only"),
        (_nested("cbfc.receiver.enable", True), "a test port takes frames as they come"),
        (_nested("cbfc.sender.packet_overhead", 0), "cbfc.sender.packet_overhead: it is 0; Xoff has -4 only"),
        (_nested("cbfc.sender.enable", True), "0 of them are lossless; 1 to 4 can be"),
        (_nested("cbfc.sender.virtual_channels", [LOSSLESS] * 5), "5 of them are lossless; 1 to 4 can be"),
        (_nested("cbfc.sender.virtual_channels", [{}] * 8 + [LOSSLESS]), "[8]: Xoff's lossless channels"),
        (_nested("llr.unheard", 1), "llr.unheard: Xoff does not support it"),
        ({"port_names": ["p1", "p3"]}, "port_names[1]: there is no 'p3'"),
        ({"port_names": []}, "port_names: it is empty"),
        ({"name": ""}, "name: it is missing"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_lab_has_not_is_named_in_one_line(parts: Mapping[str, Any], why: str) -> None:
    (line,) = refused(_with(**parts))
    assert line.startswith("ultra_ethernet[0].") and why in line


def test_a_port_is_in_one_instance() -> None:
    twice = {"ultra_ethernet": [{"name": name, "port_names": ["p1"]} for name in ("u", "v")]}
    assert refused(twice) == ["ultra_ethernet[1].port_names[0]: p1 is in u too"]


def test_a_lost_lock_that_frames_outlive_has_no_effect_which_is_said() -> None:
    assert read(_with(llr={"pcs_lost_status_timer_max": "0"})).warnings == read(_with(llr={})).warnings
    (said,) = [one for one in read(_with(llr={"pcs_lost_status_timer_max": 7})).warnings if "pcs" in one]
    assert said.startswith("ultra_ethernet[0].llr.pcs_lost_status_timer_max has no effect")


def test_flows_of_a_port_are_all_eligible_or_none() -> None:
    plan = read(_with(llr={}), ultra_ethernet={"llr_eligible": True})
    assert _layer(plan).is_eligible and not plan.warnings
    plain = read(_with(llr={}))
    assert not _layer(plain).is_eligible
    assert plain.warnings[0].startswith(
        "flows[0].ultra_ethernet.llr_eligible is not set, so LLR repairs no frames of p1"
    )
    flow = {"name": "g", "tx_rx": {"port": {"tx_name": "p1"}}, "ultra_ethernet": {"llr_eligible": True}}
    other = {"name": "f", "tx_rx": {"port": {"tx_name": "p1"}}}
    (line,) = refused({"flows": [flow, other]}, _with(llr={}))
    assert line == "flows[1].ultra_ethernet.llr_eligible: flows of one port are all eligible in Xoff, or none"


def _channels(**sender: Any) -> dict[str, Any]:
    return _with(cbfc={"sender": {"credit_mode": "per_vc", **sender}})


def test_credits_are_those_of_the_lossless_channels_and_a_flow_is_in_the_channel_of_its_frames() -> None:
    by_dscp = [{"mapping": {"ipv4_dscp": {"values": [0, 1]}}}, LOSSLESS | {"mapping": {"ipv4_dscp": {"values": [26]}}}]
    packet = [
        {"choice": "ethernet", "ethernet": {"src": {"value": "00:11:22:33:44:55"}, "pfc_queue": {"value": 6}}},
        {"choice": "ipv4", "ipv4": {"priority": {"dscp": {"phb": {"value": 26}}}}},
    ]
    sender = {
        "virtual_channels": by_dscp,
        "mapping": "ipv4_dscp",
        "cell_size": 256,
        "cc_message": {"enable_type1_message": True},
    }
    plan = read(_channels(enable=True, **sender), packet=packet)
    credits = _layer(plan).credits
    assert (credits.vcs, credits.cells, credits.cell, credits.lossless) == ({1}, 24, 256, (False, True))
    assert (credits.cf_min, credits.cf_max, credits.cc_timer) == (800, 65_536, Duration("10us"))
    assert (_layer(plan).has_credits_on, plan.flows[0].queue) == (True, 1)
    assert read(_channels(**sender)).flows[0].queue == 0


def test_a_frames_channel_is_that_of_its_own_pcp_where_none_is_named() -> None:
    plan = read(_channels(virtual_channels=[{}, {}, {}, LOSSLESS]))
    assert _layer(plan).credits.priorities.pcp_to_dot1p == tuple(range(8))


def test_channels_by_both_fields_with_dei_that_share_their_credits() -> None:
    pcp = {"vlan_pcp_dei": {"pcp_dei0": [3], "pcp_dei1": [3, 4]}, "ipv4_dscp": {"values": [26]}}
    sender = {"mapping": "vlan_pcp_dei_and_ipv4_dscp", "priority": "ipv4_dscp", "credit_mode": "per_port"}
    plan = read(_channels(virtual_channels=[{}, LOSSLESS | {"mapping": pcp}, LOSSLESS], total_credits=99, **sender))
    credits = _layer(plan).credits
    assert (credits.mode, credits.cells, credits.vcs) == ("per_port", 99, {1, 2})
    found = credits.priorities
    assert (found.trust, found.dscp_to_dot1p[26], found.dscp_to_dot1p[27]) == (Trust.DSCP, 1, 0)
    assert (found.pcp_to_dot1p, found.dei_to_dot1p) == ((0, 0, 0, 1, 0, 0, 0, 0), (0, 0, 0, 1, 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("sender", "why"),
    [
        (
            {"mapping": "vlan_pcp_dei_and_ipv4_dscp"},
            "cbfc.sender.priority: it is vlan_pcp_dei; where Xoff looks at two fields, the DSCP goes first",
        ),
        (
            {"virtual_channels": [LOSSLESS | {"mapping": {"vlan_pcp_dei": {"pcp_dei0": [3]}}}] * 2},
            "3 is named by channel 0 too",
        ),
        ({"virtual_channels": [LOSSLESS, {"choice": "lossless", "lossless": {}}]}, "have the same credit_limit"),
        (
            {"virtual_channels": [LOSSLESS | {"mapping": {"vlan_pcp_dei": {"pcp_dei0": [8]}}}]},
            "pcp_dei0[0]: it is 8; 0 to 7",
        ),
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_classification_that_the_lab_has_not_is_refused(sender: dict[str, Any], why: str) -> None:
    (line,) = refused(_channels(**{"virtual_channels": [LOSSLESS]} | sender))
    assert why in line


def test_states_and_requests_name_instances_ports_and_columns() -> None:
    plan = read(_with(llr={}))
    control = read_control(
        {"choice": "ultra_ethernet", "ultra_ethernet": {"llr": {"state": "enable_all", "ultra_ethernet_names": ["u"]}}},
        plan,
    )
    assert (control.what, control.state, control.names) == ("llr", "enable_all", ("u",))
    with pytest.raises(OtgError, match="there is no 'v'"):
        read_control({"ultra_ethernet": {"llr": {"state": "enable_all", "ultra_ethernet_names": ["v"]}}}, plan)
    with pytest.raises(OtgError, match="the configuration has no ultra_ethernet"):
        read_control({"ultra_ethernet": {"llr": {"state": "enable_all"}}}, read())
    with pytest.raises(OtgError, match="'start' is not supported"):
        read_control({"ultra_ethernet": {"llr": {"state": "start"}}}, plan)
    wanted = read_metrics({"choice": "ultra_ethernet", "ultra_ethernet": {"port_names": ["p1"]}}, plan)
    assert (wanted.what, wanted.names) == ("llr_cbfc_stat", ("p1",))
    with pytest.raises(OtgError, match=r"port_names\[0\]: there is no 'p2'"):
        read_metrics({"ultra_ethernet": {"port_names": ["p2"]}}, plan)


def test_columns_are_those_of_the_model_and_counters_those_of_the_kernel() -> None:
    parts = METRICS["UltraEthernet.Metrics.Request"]
    for kind, columns in COLUMNS.items():
        part = parts[kind]
        assert isinstance(part, Part)
        names = METRICS[part.schema]["column_names"]
        assert isinstance(names, Words) and columns <= set(names.words)
    assert {f"LLR_{name}" for name in COUNTED.values()} == set(LLR_COUNTERS)


def test_each_part_of_the_model_is_there() -> None:
    parts = [
        field
        for schema in (*SCHEMAS.values(), *ADDITIONS.values())
        for field in schema.values()
        if isinstance(field, Part)
    ]
    assert {part.schema for part in parts} == set(SCHEMAS)
