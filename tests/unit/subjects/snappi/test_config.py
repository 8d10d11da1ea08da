"""Configurations of Open Traffic Generator: their frames and schedules, and refusals with a path."""

from __future__ import annotations

import copy
import json
import struct
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.subjects.snappi.config import TestPlan, read_config, read_ports
from testbed.subjects.snappi.headers import HEADERS
from testbed.subjects.snappi.pacing import PREDEFINED, PS, TestPortLine
from testbed.subjects.snappi.reading import OtgError
from testbed.units import Rate

LINES = {"p1": TestPortLine(100_000_000, 1000, 1500), "p2": TestPortLine(100_000_000, 1000)}
MAC, OTHER = "00:11:22:33:44:55", "00:11:22:33:44:66"
UDP = [
    {"choice": "ethernet", "ethernet": {"src": {"choice": "value", "value": MAC}, "dst": {"value": OTHER}}},
    {"choice": "ipv4", "ipv4": {"src": {"value": "10.0.0.1"}, "dst": {"value": "10.0.0.2"}}},
    {"choice": "udp", "udp": {"src_port": {"value": 5000}, "dst_port": {"value": 6000}}},
]


def config(*changes: Mapping[str, Any], **flow: Any) -> dict[str, Any]:
    """Return a configuration with two ports and a flow from the one to the other."""
    described = {"name": "f", "tx_rx": {"port": {"tx_name": "p1", "rx_names": ["p2"]}}, "packet": UDP} | flow
    made: dict[str, Any] = {"ports": [{"name": "p1"}, {"name": "p2"}], "flows": [described]}
    for change in changes:
        made |= change
    return made


def read(*changes: Mapping[str, Any], **flow: Any) -> TestPlan:
    return read_config(config(*changes, **flow), LINES)


def refused(*changes: Mapping[str, Any], **flow: Any) -> list[str]:
    with pytest.raises(OtgError) as caught:
        read(*changes, **flow)
    return caught.value.errors


def frames(count: int, **flow: Any) -> list[bytes]:
    plan = read(**flow).flows[0]
    sizes = plan.sizes.each(1)
    return [plan.packet.frame(number, next(sizes)) for number in range(count)]


def checksum(octets: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_frame_has_types_lengths_and_checksums_that_fit() -> None:
    (frame,) = frames(1, size={"choice": "fixed", "fixed": 128})
    assert len(frame) == 124
    assert frame[:14] == bytes.fromhex("001122334466 001122334455 0800")
    assert frame[14:24] == bytes.fromhex("4500 006e 0000 0000 4011")
    assert checksum(frame[14:34]) == 0xFFFF
    assert frame[34:40] == struct.pack("!HHH", 5000, 6000, 90)
    assert checksum(frame[26:34] + struct.pack("!HH", 17, 90) + frame[34:]) == 0xFFFF


def test_flow_metrics_put_a_number_into_the_last_octets_and_the_checksum_covers_it() -> None:
    first, second = frames(2, metrics={"enable": True})
    assert first[-6:] != second[-6:] and first[-6:-4] == second[-6:-4]
    assert struct.unpack("!I", second[-4:]) == (1,)
    for frame in (first, second):
        assert checksum(frame[26:34] + struct.pack("!HH", 17, 26) + frame[34:]) == 0xFFFF


def test_values_go_in_turn_and_each_pattern_by_its_own_count() -> None:
    udp = {
        "src_port": {"choice": "increment", "increment": {"start": 5, "step": 2, "count": 3}},
        "dst_port": {"choice": "values", "values": [1, 2]},
    }
    found = [struct.unpack_from("!HH", one, 34) for one in frames(7, packet=[*UDP[:2], {"choice": "udp", "udp": udp}])]
    assert found == [(5, 1), (7, 2), (9, 1), (5, 2), (7, 1), (9, 2), (5, 1)]


def test_a_decrement_wraps_and_random_values_repeat_by_their_seed() -> None:
    ipv4 = {
        "src": {"choice": "decrement", "decrement": {"start": "0.0.0.1", "step": "0.0.0.1", "count": 3}},
        "dst": {"choice": "random", "random": {"min": "10.0.0.1", "max": "10.0.0.9", "seed": 7, "count": 4}},
    }
    packet = [UDP[0], {"choice": "ipv4", "ipv4": ipv4}, UDP[2]]
    found = frames(8, packet=packet)
    assert [one[26:30] for one in found[:3]] == [b"\0\0\0\1", b"\0\0\0\0", b"\xff\xff\xff\xff"]
    assert [one[30:34] for one in found[:4]] == [one[30:34] for one in found[4:]]
    assert all(one[30:33] == b"\x0a\0\0" and 1 <= one[33] <= 9 for one in found)
    assert [one[30:34] for one in frames(4, packet=packet)] == [one[30:34] for one in found[:4]]


@pytest.mark.parametrize(
    ("priority", "octet"),
    [
        ({"choice": "dscp", "dscp": {"phb": {"value": 24}, "ecn": {"value": 1}}}, 0x61),
        ({"choice": "raw", "raw": {"value": 0xB8}}, 0xB8),
        ({"choice": "tos", "tos": {"precedence": {"value": 5}, "monetary": {"value": 1}}}, 0xA2),
    ],
)
def test_the_three_forms_of_a_priority(priority: Mapping[str, Any], octet: int) -> None:
    (frame,) = frames(1, packet=[UDP[0], {"choice": "ipv4", "ipv4": {"priority": priority}}, UDP[2]])
    assert frame[15] == octet


def test_a_tag_an_ipv6_header_and_tcp() -> None:
    packet = [
        UDP[0],
        {"choice": "vlan", "vlan": {"id": {"value": 5}, "priority": {"value": 3}}},
        {"choice": "ipv6", "ipv6": {"src": {"value": "fd00::1"}, "dst": {"value": "fd00::2"}}},
        {"choice": "tcp", "tcp": {"ctl_syn": {"value": 1}}},
    ]
    (frame,) = frames(1, packet=packet, size={"choice": "fixed", "fixed": 100})
    assert frame[12:18] == bytes.fromhex("8100 6005 86dd")
    assert frame[18:26] == bytes.fromhex("60000000 0026 06 40")
    assert frame[70:72] == bytes.fromhex("5002")
    assert checksum(frame[26:58] + struct.pack("!II", 38, 6) + frame[58:]) == 0xFFFF


def test_a_bad_checksum_is_wrong_and_a_given_one_is_kept() -> None:
    bad, given = (
        frames(1, packet=[UDP[0], {"choice": "ipv4", "ipv4": {"header_checksum": one}}, UDP[2]])[0]
        for one in ({"choice": "generated", "generated": "bad"}, {"choice": "custom", "custom": 0x1234})
    )
    assert checksum(bad[14:34]) != 0xFFFF
    assert given[24:26] == b"\x12\x34"


def test_pauses_are_what_802_1q_has() -> None:
    pfc = {"class_enable_vector": {"value": 0x08}, "pause_class_3": {"value": 0xFFFF}, "src": {"value": MAC}}
    (frame,) = frames(1, packet=[{"choice": "pfcpause", "pfcpause": pfc}])
    assert frame == bytes.fromhex("0180c2000001 001122334455 8808 0101 0008 0000 0000 0000 ffff") + bytes(34)
    (frame,) = frames(1, packet=[{"choice": "ethernetpause", "ethernetpause": {"time": {"value": 9}}}])
    assert frame[:18] == bytes.fromhex("0180c2000001 000000000000 8808 0001 0009")[:18]


def test_custom_octets_and_payloads() -> None:
    custom = [*UDP, {"choice": "custom", "custom": {"bytes": "0xAB CD"}}]
    (frame,) = frames(1, packet=custom, payload={"choice": "increment_byte"})
    assert frame[42:] == b"\xab\xcd" + bytes(range(16))
    (frame,) = frames(1, payload={"choice": "fixed", "fixed": {"pattern": "ABC", "repeat": False}})
    assert frame[42:] == b"\x0a\xbc" + bytes(16)
    (frame,) = frames(1, payload={"choice": "decrement_word"})
    assert frame[42:48] == bytes.fromhex("ffff fffe fffd")


def test_a_tunnel_has_two_checksums_that_fit() -> None:
    packet = [*UDP, {"choice": "vxlan", "vxlan": {"vni": {"value": 7}}}, *UDP]
    (frame,) = frames(1, packet=packet, size={"choice": "fixed", "fixed": 200}, metrics={"enable": True})
    inner = frame[50:]
    assert frame[42:50] == bytes.fromhex("08000000 00000700")
    assert inner[12:14] == b"\x08\0"
    for one in (frame, inner):
        assert checksum(one[26:34] + struct.pack("!HH", 17, len(one) - 34) + one[34:]) == 0xFFFF


def test_without_a_size_a_frame_holds_its_headers() -> None:
    headers = [*UDP, {"choice": "custom", "custom": {"bytes": "ab" * 40}}]
    assert read().flows[0].sizes.sizes == (64,)
    assert read(packet=headers, metrics={"enable": True}).flows[0].sizes.sizes == (42 + 40 + 6 + 4,)


def test_sizes_go_in_turn_or_by_chance() -> None:
    step = read(size={"choice": "increment", "increment": {"start": 64, "end": 80, "step": 8}}).flows[0].sizes.each(1)
    assert [next(step) for _ in range(4)] == [64, 72, 80, 64]
    spread = {"choice": "random", "random": {"min": 64, "max": 66}}
    sizes, again = (read(size=spread).flows[0].sizes.each(1) for _ in range(2))
    drawn = [next(sizes) for _ in range(50)]
    assert set(drawn) == {64, 65, 66} and drawn == [next(again) for _ in range(50)]


@pytest.mark.parametrize(
    ("size", "sent"),
    [
        ({"choice": "fixed", "fixed": 44}, {64}),
        ({"choice": "increment", "increment": {"start": 60, "end": 68, "step": 4}}, {64, 68}),
        ({"choice": "random", "random": {"min": 44, "max": 65}}, {64, 65}),
        ({"choice": "weight_pairs", "weight_pairs": {"choice": "custom", "custom": [
            {"size": 44, "weight": 7}, {"size": 60, "weight": 4}, {"size": 1500, "weight": 1}]}}, {64, 1500}),
    ],
    ids=["fixed", "increment", "random", "mix"],
)  # fmt: skip
def test_sizes_of_ip_packets_are_padded_to_the_smallest_frame(size: Mapping[str, Any], sent: set[int]) -> None:
    sizes = read(size=size).flows[0].sizes.each(1)
    assert {next(sizes) for _ in range(500)} == sent


FORGED = {
    "no source": ({}, "f (00:00:00:00:00:00)"),
    "zeros": ({"src": {"value": "00:00:00:00:00:00"}}, "f (00:00:00:00:00:00)"),
    "a group": ({"src": {"choice": "values", "values": [MAC, "01:00:5e:00:00:01"]}}, "f (01:00:5e:00:00:01)"),
    "a station": ({"src": {"value": MAC}}, None),
}


@pytest.mark.parametrize(("ethernet", "named"), FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("is_bridged", [True, False])
def test_frames_that_no_switch_forwards_are_named(
    ethernet: Mapping[str, Any], named: str | None, is_bridged: bool
) -> None:
    described = config(packet=[{"choice": "ethernet", "ethernet": ethernet}, *UDP[1:]])
    plan = read_config(described, {"p1": TestPortLine(100_000_000, 1000, 1500, is_bridged)})
    text = f"flows have frames that no switch forwards, as their source is no station: {named}; "
    assert plan.warnings == ((text + "give packet[0].ethernet.src",) if named and is_bridged else ())


def test_devices_give_the_source() -> None:
    between = {"choice": "device", "device": {"tx_names": ["i1"], "rx_names": ["i2"]}}
    headers = [{"choice": "ethernet", "ethernet": {}}, {"choice": "ipv4", "ipv4": {}}]
    described = config({"devices": DEVICES}, tx_rx=between, packet=headers)
    assert read_config(described, {"p1": TestPortLine(100_000_000, 1000, 1500, True)}).warnings == ()


@pytest.mark.parametrize("name", PREDEFINED)
def test_predefined_weights_are_kept_on_average(name: str) -> None:
    weighted = {"choice": "weight_pairs", "weight_pairs": {"choice": "predefined", "predefined": name}}
    sizes = read(size=weighted).flows[0].sizes.each(1)
    drawn = [next(sizes) for _ in range(4000)]
    total = sum(weight for _, weight in PREDEFINED[name])
    shares: Counter[int] = Counter()
    for size, weight in PREDEFINED[name]:
        shares[max(64, size)] += weight / total  # type: ignore[assignment]
    for size, share in shares.items():
        assert drawn.count(size) / 4000 == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize(
    ("rate", "size", "gap_ps"),
    [
        ({"choice": "pps", "pps": 1000}, 64, PS // 1000),
        ({"choice": "pps", "pps": "3"}, 64, PS // 3),
        ({"choice": "percentage", "percentage": 100}, 64, 84 * 80_000),
        ({"choice": "percentage", "percentage": 30.5}, 1518, int(Fraction(1538 * 80_000 * 1000, 305))),
        ({"choice": "bps", "bps": "1000000000"}, 125, PS // 1000),
        ({"choice": "kbps", "kbps": "1000000"}, 125, PS // 1000),
        ({"choice": "mbps", "mbps": "1000"}, 125, PS // 1000),
        ({"choice": "gbps", "gbps": 1}, 125, PS // 1000),
    ],
)
def test_rates_of_frames_are_the_labs_and_those_of_bits_on_its_scale(
    rate: Mapping[str, Any], size: int, gap_ps: int
) -> None:
    pace = read(rate=rate, size={"choice": "fixed", "fixed": size}).flows[0].pace
    assert pace.after_ps(pace.weight(size)) == gap_ps


def test_durations() -> None:
    packets = {"packets": 5, "gap": 20, "delay": {"choice": "nanoseconds", "nanoseconds": 5}}
    span = read(duration={"choice": "fixed_packets", "fixed_packets": packets}).flows[0].span
    assert (span.frames, span.gap, span.delay_ps) == (5, 20, 5000)
    span = read(duration={"choice": "fixed_seconds", "fixed_seconds": {"seconds": 0.5}}).flows[0].span
    assert (span.frames, span.lasts_ps) == (None, PS // 2)
    burst = {"bursts": 3, "packets": 4, "inter_burst_gap": {"choice": "microseconds", "microseconds": 7.5}}
    span = read(duration={"choice": "burst", "burst": burst}).flows[0].span
    assert (span.frames, span.burst, span.between_ps) == (12, 4, 7_500_000)
    assert read().flows[0].span.frames is None


def test_layer_1_gives_speed_and_flow_control() -> None:
    pfc = {"pfc_delay": 3, "pfc_class_3": 5, "pfc_class_4": 5}
    layer1 = [
        {"name": "l", "port_names": ["p1"], "speed": "speed_400_gbps", "mtu": 9000,
         "flow_control": {"directed_address": "01:80:C2:00:00:01", "ieee_802_1qbb": pfc}},
        {"name": "m", "port_names": ["p2"], "flow_control": {"choice": "ieee_802_3x", "ieee_802_3x": {}}},
    ]  # fmt: skip
    ports = read_ports(config({"layer1": layer1}))
    assert ports["p1"].speed == Rate("400Gb/s") and ports["p2"].speed is None
    one, other = (ports[name].flow_control for name in ("p1", "p2"))
    assert one is not None and one.delay_quanta == 3
    assert one.queues == (0, 1, 2, 5, 5, 5, 6, 7)
    assert other is not None and other.queues == ()


DEVICES = [
    {"name": "d1", "ethernets": [{"name": "e1", "mac": MAC, "connection": {"choice": "port_name", "port_name": "p1"},
      "ipv4_addresses": [{"name": "i1", "address": "10.0.0.1", "gateway": "10.0.0.2"}]}]},
    {"name": "d2", "ethernets": [{"name": "e2", "mac": OTHER, "connection": {"choice": "port_name", "port_name": "p2"},
      "ipv4_addresses": [{"name": "i2", "address": "10.0.0.2", "gateway": "10.0.0.1"}]}]},
]  # fmt: skip


def test_a_flow_between_devices_has_their_addresses() -> None:
    between = {"choice": "device", "device": {"tx_names": ["i1"], "rx_names": ["i2"]}}
    headers = [{"choice": "ethernet", "ethernet": {}}, {"choice": "ipv4", "ipv4": {}}]
    plan = read({"devices": DEVICES}, tx_rx=between, packet=headers)
    flow = plan.flows[0]
    assert (flow.tx_port, flow.rx_ports) == ("p1", ("p2",))
    frame = flow.packet.frame(0, 64)
    assert frame[6:12] == bytes.fromhex(MAC.replace(":", ""))
    assert frame[26:34] == bytes([10, 0, 0, 1, 10, 0, 0, 2])
    assert flow.ends is not None
    assert list(flow.ends.unresolved(4)) == ["gateway 10.0.0.2 of i1"]
    resolved = flow.ends.resolved({("e1", plan.devices[1].interfaces[0].address): plan.devices[1].mac})
    assert list(resolved.unresolved(4)) == []
    assert resolved.values("destination", 4) == (0x001122334466,)


UNSUPPORTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("lags", {"lags": [{"name": "l"}]}, {}),
    ("layer1[0].speed", {"layer1": [{"port_names": ["p1"], "speed": "speed_10_hd_mbps"}]}, {}),
    ("layer1[0].port_names[0]", {"layer1": [{"port_names": ["p3"]}]}, {}),
    ("layer1[0].flow_control.directed_address",
     {"layer1": [{"port_names": ["p1"], "flow_control": {"directed_address": MAC}}]}, {}),
    ("captures[0].filters", {"captures": [{"name": "c", "port_names": ["p1"], "filters": [{}]}]}, {}),
    ("options.port_options.data_integrity", {"options": {"port_options": {"data_integrity": True}}}, {}),
    ("devices[0].bgp", {"devices": [{"name": "d", "bgp": {"router_id": "1.1.1.1"}}]}, {}),
    ("devices[0].ethernets[0].vlans",
     {"devices": [{"name": "d", "ethernets": [{"name": "e", "mac": MAC, "vlans": [{}],
                                               "connection": {"port_name": "p1"}}]}]}, {}),
    ("flows[0].tx_rx.port.tx_name", {}, {"tx_rx": {"port": {"tx_name": "p9"}}}),
    ("flows[0].tx_rx.device.tx_names[0]", {"devices": DEVICES},
     {"tx_rx": {"choice": "device", "device": {"tx_names": ["x"], "rx_names": ["i2"]}}}),
    ("flows[0].egress_packet", {}, {"egress_packet": [{}]}),
    ("flows[0].packet[0].gre", {}, {"packet": [{"choice": "gre", "gre": {}}]}),
    ("flows[0].packet[1].ipv4.options", {},
     {"packet": [UDP[0], {"choice": "ipv4", "ipv4": {"options": [{"choice": "router_alert"}]}}]}),
    ("flows[0].packet[0].ethernet.src.metric_tags", {},
     {"packet": [{"choice": "ethernet", "ethernet": {"src": {"choice": "value", "metric_tags": [{"name": "t"}]}}}]}),
    ("flows[0].packet[0].ethernet.src.value", {},
     {"packet": [{"choice": "ethernet", "ethernet": {"src": {"choice": "value", "value": "no"}}}]}),
    ("flows[0].packet[2].udp.src_port.value", {},
     {"packet": [*UDP[:2], {"choice": "udp", "udp": {"src_port": {"choice": "value", "value": 65536}}}]}),
    ("flows[0].size.fixed", {}, {"size": {"choice": "fixed", "fixed": 9000}}),
    ("flows[0].size", {}, {"size": {"fixed": 64}, "metrics": {"enable": True, "latency": {"enable": True}},
                           "packet": [*UDP, {"choice": "custom", "custom": {"bytes": "00" * 5}}]}),
    ("flows[0].rate.gbps", {}, {"rate": {"choice": "gbps", "gbps": 200}}),
    ("flows[0].rate.percentage", {}, {"rate": {"choice": "percentage", "percentage": 0}}),
    ("flows[0].duration.fixed_packets.packets", {},
     {"duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 0}}}),
    ("flows[0].metrics.predefined_metric_tags.rx_name", {},
     {"metrics": {"enable": True, "predefined_metric_tags": {"rx_name": True}}}),
    ("flows[0].packet[0].ethernet.pfc_queue.values", {},
     {"packet": [{"choice": "ethernet", "ethernet": {"pfc_queue": {"choice": "values", "values": [1, 2]}}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "change", "flow"), UNSUPPORTED, ids=[path for path, _, _ in UNSUPPORTED])
def test_what_is_wrong_or_not_supported_is_named_by_its_path(
    path: str, change: dict[str, Any], flow: dict[str, Any]
) -> None:
    assert [error.partition(":")[0] for error in refused(change, **flow)] == [path]


def test_all_errors_are_reported_together() -> None:
    assert len(refused({"lags": [{}]}, egress_packet=[{}], size={"choice": "fixed", "fixed": 0})) == 3


@given(st.data())
def test_a_configuration_with_any_part_replaced_is_read_or_refused(data: st.DataObject) -> None:
    whole = json.loads(json.dumps(config({"devices": DEVICES}, metrics={"enable": True})))
    changed = copy.deepcopy(whole)
    place: Any = changed
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(st.sampled_from([None, "", "x", -1, 1 << 70, 1.5, [], {}, [{}], True]))
            break
        place = place[key]
    try:
        read_config(changed, LINES)
    except OtgError as error:
        assert all(error.errors)


def test_every_header_has_whole_octets() -> None:
    for header in HEADERS.values():
        assert sum(field.bits for field in header.usual()) % 8 == 0, header.name


def test_the_page_lists_the_headers_and_their_fields() -> None:
    """Compare the table of docs/snappi.md with the headers."""
    page = (Path(__file__).parents[4] / "docs" / "snappi.md").read_text()
    rows = page.partition("<!-- headers -->")[2].partition("<!-- end -->")[0].strip().splitlines()[2:]
    assert rows == [f"| `{header.name}` | {', '.join(header.names())} |" for header in HEADERS.values()]
