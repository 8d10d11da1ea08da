"""RoCEv2 in a configuration, and its counters by the frames on the wire."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from testbed.frames import roce, roce_cm
from testbed.frames.roce import Aeth, Nak, Opcode, Packet
from testbed.subjects.snappi.config import TestPlan, read_config
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.requests import read_metrics
from testbed.subjects.snappi.roce_counting import RoceCounts, WireFrame

FIRST = 1000
RATE = "stateful_flows.rocev2[0].tx_ports[0].transmit_type.target_line_rate"
PAIR = "devices[0].rocev2.ipv4_interfaces[0].peers[0].qps[0].connection_type.reliable_connection"


def config(**changes: Any) -> dict[str, Any]:
    """A configuration with a queue pair from port a to port b; `changes` are made by path, as in `flow__name`."""
    pair: dict[str, Any] = {"dscp": 26, "ecn": "ect_0"}
    flow: dict[str, Any] = {"name": "f", "tx_endpoint": "q", "message_size": 128, "message_size_unit": "kb"}
    interface: dict[str, Any] = {"ipv4_name": "i1", "ib_mtu": 4096}
    rate: dict[str, Any] = {"value": "80"}
    port: dict[str, Any] = {}
    places = {"pair": pair, "flow": flow, "interface": interface, "rate": rate, "port": port}
    for name, value in changes.items():
        place, _, word = name.partition("__")
        places[place][word] = value
    qps = [{"qp_name": "q", "connection_type": {"choice": "reliable_connection", "reliable_connection": pair}}]
    interface["peers"] = [{"name": "p", "destination_ip_address": "10.0.0.2", "qps": qps}]
    devices: list[dict[str, Any]] = [
        {
            "name": f"d{number}",
            "ethernets": [
                {
                    "name": f"e{number}",
                    "mac": f"02:00:00:00:00:0{number}",
                    "connection": {"choice": "port_name", "port_name": name},
                    "ipv4_addresses": [{"name": f"i{number}", "address": f"10.0.0.{number}", "gateway": "10.0.0.9"}],
                }
            ],
        }
        for number, name in ((1, "a"), (2, "b"))
    ]
    devices[0] |= {"rocev2": {"ipv4_interfaces": [interface]}}
    tx = {
        "port_name": "a",
        "transmit_type": {"choice": "target_line_rate", "target_line_rate": rate | {"flows": [flow]}},
    }
    return {
        "ports": [{"name": "a"}, {"name": "b"}],
        "devices": devices,
        "stateful_flows": {"choice": "rocev2", "rocev2": [{"tx_ports": [tx]}]},
        "options": {"per_port_options": [{"port_name": "a", "protocols": [{"choice": "rocev2", "rocev2": port}]}]},
    }


def read(**changes: Any) -> TestPlan:
    return read_config(config(**changes), {})


def refused(**changes: Any) -> list[str]:
    with pytest.raises(OtgError) as caught:
        read(**changes)
    return caught.value.errors


def test_a_flow_has_the_settings_of_its_queue_pair() -> None:
    plan = read(flow__rocev2_verb={"choice": "write_with_immediate", "write_with_immediate": {"immediate_data": "bb"}})
    (flow,) = plan.roce.flows
    assert (flow.verb, flow.immediate, flow.message, flow.share) == ("write", 0xBB, 128 << 10, (80, 1))
    assert (flow.tx_port, flow.rx_port) == ("a", "b")
    assert (flow.pair.dscp, flow.pair.ecn, flow.pair.mtu, flow.pair.source_port) == (26, 2, 4096, 49152)
    assert plan.largest == 4096 + 82
    assert (plan.flow_names, plan.roce.test_ports, plan.warnings) == (("f",), ("a", "b"), ())


def test_options_of_a_port_have_the_defaults_of_the_model() -> None:
    acks = {"ack": {"choice": "ip_dscp", "ip_dscp": {"value": 40}, "ecn_value": "non_ect"}}
    given = {"reliable_connection": acks | {"enable_retransmission_timeout": False, "retransmission_retry_count": 254}}
    plan = read(port__connection_type=given, port__cnp={"ip_dscp": {"value": 44}, "cnp_delay_timer": 111})
    port, other = plan.roce.options("a"), plan.roce.options("b")
    assert (port.cnp_dscp, port.cnp_us, port.ack_dscp, port.ack_ecn) == (44, 111, 40, 0)
    assert (port.retransmit_ms, port.retries) == (None, 254)
    assert (other.cnp_dscp, other.cnp_us, other.ack_dscp, other.retransmit_ms, other.retries) == (48, 55, 48, 1, 3)
    assert port.dcqcn is not None and port.dcqcn.gain == 5 / 1024 and port.dcqcn.byte_counter == 32767 * 64
    assert read(port__dcqcn_settings={"enable_dcqcn": False}).roce.options("a").dcqcn is None


def test_what_endpoints_choose_themselves_is_a_warning() -> None:
    plan = read(pair__source_qp_number=33, pair__remote_key="00", interface__ib_mtu=9100)
    assert plan.roce.flows[0].pair.mtu == 4096
    assert [warning.split(" ")[0] for warning in plan.warnings] == [
        "devices[0].rocev2.ipv4_interfaces[0].ib_mtu", f"{PAIR}.source_qp_number",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"flow__tx_endpoint": "x"}, f"{RATE}.flows[0].tx_endpoint: there is no queue pair 'x'"),
        ({"flow__message_size_unit": "gb", "flow__message_size": 3}, f"{RATE}.flows[0].message_size: it is"),
        ({"flow__rx_endpoint": "a"}, f"{RATE}.flows[0].rx_endpoint: 'a' is neither port b"),
        ({"flow__rocev2_verb": {"choice": "atomic"}}, f"{RATE}.flows[0].rocev2_verb.atomic: Xoff does not"),
        ({"rate__value": 0}, f"{RATE}.value: a target rate of 0"),
        ({"pair__ecn": "ect"}, f"{PAIR}.ecn: 'ect' is not supported"),
        ({"interface__ipv4_name": "i7"}, "devices[0].rocev2.ipv4_interfaces[0].ipv4_name: there is no IPv4"),
        ({"port__rate": 1}, "options.per_port_options[0].protocols[0].rocev2.rate: Xoff does not support it"),
    ],
    ids=str,
)
def test_what_is_wrong_or_not_supported_is_named_with_its_path(changes: dict[str, Any], error: str) -> None:
    assert any(one.startswith(error) for one in refused(**changes)), refused(**changes)


def test_naks_go_where_acks_go() -> None:
    both = {"ack": {"ip_dscp": {"value": 40}}, "nak": {"ip_dscp": {"value": 41}}}
    assert "nak: NAKs go with the DSCP" in refused(port__connection_type={"reliable_connection": both})[0]


def test_metrics_of_peers_are_asked_for_by_peer_or_by_device() -> None:
    plan = read()
    for name in ("p", "d1"):
        wanted = read_metrics({"choice": "rocev2_ipv4", "rocev2_ipv4": {"per_peer": {"peer_names": [name]}}}, plan)
        assert wanted.names == ("p",)
    with pytest.raises(OtgError, match=r"rocev2_ipv4\.per_peer\.peer_names"):
        read_metrics({"choice": "rocev2_ipv4", "rocev2_ipv4": {"per_peer": {"peer_names": ["x"]}}}, plan)


# IPv6


def over_ipv6(**changes: Any) -> dict[str, Any]:
    """The same configuration over IPv6."""
    made = config(**changes)
    for number, device in enumerate(made["devices"], 1):
        (ethernet,) = device["ethernets"]
        del ethernet["ipv4_addresses"]
        ethernet["ipv6_addresses"] = [{"name": f"i{number}", "address": f"fd00::{number}", "gateway": "fd00::9"}]
    (interface,) = made["devices"][0]["rocev2"].pop("ipv4_interfaces")
    interface["ipv6_name"] = interface.pop("ipv4_name")
    interface["peers"][0]["destination_ip_address"] = "fd00::2"
    made["devices"][0]["rocev2"]["ipv6_interfaces"] = [interface]
    return made


def test_a_queue_pair_over_ipv6_is_like_others_with_a_longer_header() -> None:
    plan = read_config(over_ipv6(), {})
    (flow,) = plan.roce.flows
    assert (str(flow.pair.address), str(flow.pair.destination), flow.rx_port) == ("fd00::1", "fd00::2", "b")
    assert (flow.pair.ip_version, plan.largest) == (6, 4096 + 102)
    wanted = read_metrics({"choice": "rocev2_ipv6", "rocev2_ipv6": {"per_peer": {"peer_names": ["d1"]}}}, plan)
    assert wanted.names == ("p",)
    with pytest.raises(OtgError, match=r"rocev2_ipv4\.per_peer\.peer_names"):
        read_metrics({"choice": "rocev2_ipv4", "rocev2_ipv4": {"per_peer": {"peer_names": ["p"]}}}, plan)


@pytest.mark.parametrize(
    ("destination", "name", "error"),
    [
        ("10.0.0.2", "i1", "peers[0].destination_ip_address: '10.0.0.2' is no IPv6 address"),
        ("fd00::2", "i7", "ipv6_name: there is no IPv6 interface 'i7'"),
    ],
)
def test_an_interface_over_ipv6_takes_addresses_of_ipv6(destination: str, name: str, error: str) -> None:
    made = over_ipv6(interface__ipv4_name=name)
    made["devices"][0]["rocev2"]["ipv6_interfaces"][0]["peers"][0]["destination_ip_address"] = destination
    with pytest.raises(OtgError) as caught:
        read_config(made, {})
    assert any(one.startswith(f"devices[0].rocev2.ipv6_interfaces[0].{error}") for one in caught.value.errors)


def test_a_peer_over_ipv6_without_a_destination_sends_nothing() -> None:
    made = over_ipv6()
    made["devices"][0]["rocev2"]["ipv6_interfaces"][0]["peers"][0]["destination_ip_address"] = "::"
    plan = read_config(made, {})
    assert not plan.roce.flows and "has no destination, so nothing is sent" in plan.warnings[-1]


# Counters


class Wire:
    """Frames between the two devices, seen where they are sent and where they arrive."""

    def __init__(self, ip_version: int = 4) -> None:
        self.addresses = ADDRESSES if ip_version == 4 else ADDRESSES_6
        self.counts = RoceCounts((read() if ip_version == 4 else read_config(over_ipv6(), {})).roce, FIRST)
        self.now_ns = 0
        self.say("a", roce_cm.Request(0x100, roce_cm.service_id(FIRST), 0x100, 50, 1024, *self.addresses))
        self.say("b", roce_cm.Reply(0x200, 0x100, 0x200, 7))
        self.say("a", roce_cm.Ready(0x100, 0x200))

    def say(self, port: str, message: roce_cm.Message) -> None:
        self.pass_by(port, roce_cm.packet(message, 1, 1))

    def pass_by(self, port: str, packet: Packet, ecn: int = 2, lost: bool = False, takes_ns: int = 1000) -> None:
        source, target = self.addresses if port == "a" else self.addresses[::-1]
        octets = roce.encode(packet) + bytes(4)
        ip = bytes([0x45, ecn, 0, 28 + len(octets)] if len(octets) < 200 else [0x45, ecn, 0, 0]) + bytes(5) + b"\x11"
        ip, kind = ip + bytes(2), b"\x08\x00"
        if source.version == 6:
            ip, kind = bytes([0x60, ecn << 4, 0, 0]) + (8 + len(octets)).to_bytes(2) + b"\x11\x40", b"\x86\xdd"
        frame = (
            bytes(12)
            + kind
            + ip
            + source.packed
            + target.packed
            + (0xC000).to_bytes(2)
            + (4791).to_bytes(2)
            + bytes(4)
            + octets
        )
        ends = [port] if lost else [port, "b" if port == "a" else "a"]
        for place, end in enumerate(ends):
            seen = WireFrame(self.now_ns + place * takes_ns, end, len(frame), frame)
            self.counts.count(seen, [self.addresses[end == "b"].packed])
        self.now_ns += 10_000

    def data(self, psn: int, opcode: Opcode = Opcode.SEND_MIDDLE, **how: Any) -> None:
        self.pass_by("a", Packet(opcode, 0x200, psn, bytes(64)), **how)

    def answer(self, psn: int, nak: Nak | None = None) -> None:
        self.pass_by("b", Packet(Opcode.ACKNOWLEDGE, 0x100, psn, aeth=Aeth(0, nak)))


ADDRESSES = IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")
ADDRESSES_6 = IPv6Address("fd00::1"), IPv6Address("fd00::2")


@pytest.mark.parametrize("ip_version", [4, 6])
def test_frames_are_counted_at_both_ends_of_their_queue_pair(ip_version: int) -> None:
    wire = Wire(ip_version)
    wire.data(50, Opcode.SEND_FIRST)
    wire.data(51, lost=True)
    wire.data(52, Opcode.SEND_LAST, ecn=3, takes_ns=3000)
    wire.answer(51, Nak.SEQUENCE_ERROR)
    wire.data(51)
    wire.data(52, Opcode.SEND_LAST)
    wire.answer(52)
    wire.pass_by("b", Packet.cnp(0x100))
    found = wire.counts.shown(wire.now_ns)[0]
    assert (found.source_pair, found.target_pair) == (0x100, 0x200)
    assert (found.data_sent, found.data_received, found.retransmitted) == (5, 4, 2)
    assert (found.messages_sent, found.messages_received, found.sequence_errors, found.marked) == (1, 1, 1, 1)
    assert (found.acks_sent, found.acks_received, found.naks_sent, found.naks_received) == (1, 1, 1, 1)
    assert (found.cnps_sent, found.cnps_received) == (1, 1)
    assert found.latency_ns == (4, 1000, 3000, 6000)
    assert wire.counts.up == {0}
    assert dict(wire.counts.messages["p"]) == {"connect_request_tx": 1, "connect_reply_rx": 1, "ready_tx": 1}


def test_flows_that_begin_anew_count_from_zero() -> None:
    wire = Wire()
    wire.data(50, Opcode.SEND_ONLY)
    wire.counts.begin([0])
    assert wire.counts.shown(0)[0].data_sent == 0 and wire.counts.up == set()
    wire.data(51)
    assert wire.counts.unknown == 2  # frames of a connection that was not asked for
