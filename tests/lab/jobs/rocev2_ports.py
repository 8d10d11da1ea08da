"""RoCEv2 at test ports, driven by snappi, beside the counters of the switch and of the endpoints."""

from __future__ import annotations

import time
from typing import Any

from generator import MACS, Client, fabric

from testbed.lab import Run, experiment


class RoceClient(Client):
    """A client whose ports have devices with queue pairs, over one version of IP."""

    def __init__(self, ports: int, ip_version: int = 4) -> None:
        super().__init__(ports)
        self.ip_version, self.network = ip_version, "10.1.1." if ip_version == 4 else "fd00:1::"
        self.peers: dict[tuple[int, int], Any] = {}
        for number in range(1, ports + 1):
            device = self.config.devices.device(name=f"d{number}")[-1]
            ethernet = device.ethernets.ethernet(name=f"e{number}")[-1]
            ethernet.connection.port_name, ethernet.mac = f"p{number}", MACS[f"p{number}"]
            if ip_version == 4:
                address = ethernet.ipv4_addresses.ipv4(name=f"i{number}")[-1]
                device.rocev2.ipv4_interfaces.add().ipv4_name = f"i{number}"
            else:
                address = ethernet.ipv6_addresses.ipv6(name=f"i{number}")[-1]
                device.rocev2.ipv6_interfaces.add().ipv6_name = f"i{number}"
            address.address, address.gateway = f"{self.network}{number}", f"{self.network}254"

    def pair(self, name: str, tx: int, rx: int, dscp: int = 24, **settings: Any) -> None:
        """Add a queue pair from one port to another."""
        rocev2 = self.config.devices[tx - 1].rocev2
        interface = (rocev2.ipv4_interfaces if self.ip_version == 4 else rocev2.ipv6_interfaces)[0]
        peer = self.peers.get((tx, rx))
        if peer is None:
            peer = self.peers[tx, rx] = interface.peers.add()
            peer.name, peer.destination_ip_address = f"{tx} to {rx}", f"{self.network}{rx}"
        pair = peer.qps.add()
        pair.qp_name = name
        given = pair.connection_type.reliable_connection
        given.dscp = dscp
        for word, value in settings.items():
            setattr(given, word, value)

    def roce_flow(self, tx: int, pair: str, verb: str = "write", kb: int = 64) -> Any:
        """Add a flow over a queue pair, and return it."""
        if not len(self.config.stateful_flows.rocev2):
            self.config.stateful_flows.rocev2.add()
        ports = self.config.stateful_flows.rocev2[0].tx_ports
        port = next((one for one in ports if one.port_name == f"p{tx}"), None)
        if port is None:
            port = ports.add()
            port.port_name = f"p{tx}"
        flow = port.transmit_type.target_line_rate.flows.add()
        flow.name, flow.tx_endpoint, flow.message_size, flow.message_size_unit = f"flow {pair}", pair, kb, "kb"
        flow.rocev2_verb.choice = verb
        return flow

    def port_options(self, number: int, **dcqcn: Any) -> Any:
        options = self.config.options.per_port_options.add()
        options.port_name = f"p{number}"
        protocol = options.protocols.add()
        protocol.choice = "rocev2"
        for word, value in dcqcn.items():
            setattr(protocol.rocev2.dcqcn_settings, word, value)
        return protocol.rocev2

    def pairs(self, *columns: str) -> dict[str, Any]:
        request = self.api.metrics_request()
        request.rocev2_flow.per_qp.column_names = list(columns)
        return {one.flow_name: one for one in self.api.get_metrics(request).rocev2_flow_per_qp_metrics}

    def peers_of(self, *names: str) -> dict[str, Any]:
        request = self.api.metrics_request()
        if self.ip_version == 6:
            request.rocev2_ipv6.per_peer.peer_names = list(names)
            return {one.name: one for one in self.api.get_metrics(request).rocev2_ipv6_per_peer_metrics}
        request.rocev2_ipv4.per_peer.peer_names = list(names)
        return {one.name: one for one in self.api.get_metrics(request).rocev2_ipv4_per_peer_metrics}

    def protocols(self, state: str) -> None:
        control = self.api.control_state()
        control.protocol.all.state = state
        self.api.set_control_state(control)


@experiment(_in_lab_time=True, packages=["snappi"], files=("generator.py",))
def counts(run: Run, ip_version: int = 4) -> None:
    """Queue pairs of three verbs beside a raw flow, and what the switch and the endpoints counted of each."""
    client = RoceClient(3, ip_version)
    client.pair("a", 1, 3, dscp=24)
    client.pair("b", 1, 3, dscp=32, ecn="non_ect")
    client.pair("c", 2, 3, dscp=8, ecn="ect_0")
    client.roce_flow(1, "a")
    client.roce_flow(1, "b", "send")
    client.roce_flow(2, "c", "send_with_immediate", kb=10)
    client.port_options(1, enable_dcqcn=False)
    client.port_options(2, enable_dcqcn=False)
    for port in client.config.stateful_flows.rocev2[0].tx_ports:
        port.transmit_type.target_line_rate.value = 40
    raw = client.flow("raw", "p1", "p2", dscp=0)
    raw.size.fixed, raw.rate.percentage, raw.duration.fixed_seconds.seconds = 1000, 20, 0.1
    client.api.set_config(client.config)
    idle = client.peers_of("d1")["1 to 3"]
    client.protocols("start")
    peers = client.peers_of()
    run.claim("before protocols", (idle.qp_configured, idle.qp_up, idle.connect_request_tx), equals=(2, 0, 0))
    found = {
        name: (one.qp_up, one.qp_down, one.connect_request_tx, one.connect_reply_rx, one.ready_tx)
        for name, one in peers.items()
    }
    run.claim("peers", found, equals={"1 to 3": (2, 0, 2, 2, 2), "2 to 3": (1, 0, 1, 1, 1)})
    before = {port: fabric().sent(f"s1-eth{port}") for port in (1, 2, 3)}
    client.transmit("start")
    time.sleep(0.25)
    during = client.pairs()
    client.transmit("stop")
    after, ports, flow = client.pairs(), client.ports(), client.flows()["raw"]
    reports = client.api._session.generator.roce.reports
    frames: dict[int, list[int]] = {}
    octets: dict[int, list[int]] = {}
    for port, counted in before.items():
        now = fabric().sent(f"s1-eth{port}")
        frames[port] = [b - a for a, b in zip(counted.sent_frames, now.sent_frames, strict=True)]
        octets[port] = [b - a for a, b in zip(counted.sent_bytes, now.sent_bytes, strict=True)]
    for name, priority in (("flow a", 3), ("flow b", 4), ("flow c", 1)):
        pair, report = after[name], reports[name]
        run.claim(f"{name}: frames at the switch", frames[3][priority], equals=pair.data_frames_rx)
        run.claim(f"{name}: octets at the switch", octets[3][priority] + 4 * pair.data_frames_rx, equals=pair.rx_bytes)
        run.claim(f"{name}: frames of the endpoints", (report.sent, report.received, report.retransmitted),
                  equals=(pair.data_frames_tx, pair.data_frames_rx, pair.data_frames_retransmitted))  # fmt: skip
        run.claim(f"{name}: messages", (pair.message_tx, pair.message_complete_rx), equals=(report.messages,) * 2)
        run.claim(f"{name}: all arrived", (pair.frame_delta, pair.message_fail, pair.nak_rx, report.intact),
                  equals=(0, 0, 0, True))  # fmt: skip
        run.claim(
            f"{name}: rates", (during[name].data_tx_rate > 0, pair.ack_rx == pair.ack_tx > 0), equals=(True, True)
        )
    acks = [after["flow a"].ack_rx + after["flow b"].ack_rx, after["flow c"].ack_rx]
    run.claim("acknowledgements at the switch", [frames[1][6], frames[2][6]], equals=[acks[0] + 2, acks[1] + 1])
    run.claim("the raw flow beside them", (flow.frames_tx, flow.frames_rx), equals=(246, 246))
    data = sum(pair.data_frames_rx for pair in after.values())
    run.claim("frames at the receiving port", ports["p3"].frames_rx - data < 20, equals=True)
    pair = after["flow a"]
    headers = 14 + (20 if ip_version == 4 else 40) + 8 + 12 + 4 + 4
    run.claim("octets of a frame of 1024, and 16 more where it is the first", pair.rx_bytes - 16 * pair.message_tx,
              equals=(1024 + headers) * pair.data_frames_rx)  # fmt: skip
    shown = [] if ip_version == 6 else ["10.1.1.1", "10.1.1.3"]
    run.claim("addresses, which the model has for IPv4 alone", [one for one in (pair.src_ipv4, pair.dest_ipv4) if one],
              equals=shown)  # fmt: skip
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"], files=("generator.py",))
def slows_down(run: Run, dcqcn: bool = True) -> None:
    """Two senders at line rate and marked packets: DCQCN as the options have it, and refusals of what is not there."""
    client = RoceClient(3)
    for number in (1, 2):
        client.pair(f"q{number}", number, 3, ecn="ce")
        client.roce_flow(number, f"q{number}")
        options = client.port_options(number, enable_dcqcn=dcqcn)
        options.connection_type.reliable_connection.retransmission_timeout_value = 100
    options = client.port_options(3)
    options.cnp.ip_dscp.value, options.cnp.cnp_delay_timer = 40, 20
    client.api.set_config(client.config)
    client.transmit("start")
    time.sleep(0.4)
    busy = client.refusal(lambda: client.transmit("start", "flow q1"))
    paused = client.refusal(lambda: client.transmit("pause"))
    client.transmit("stop")
    pairs, ports = client.pairs(), client.ports()
    sent = [pairs[f"flow q{number}"].data_frames_tx for number in (1, 2)]
    counted = [ports[f"p{number}"].frames_tx >= many for number, many in zip((1, 2), sent, strict=True)]
    run.claim("ports count them too", counted, equals=[True, True])
    run.figure("sent", sum(pair.data_frames_tx for pair in pairs.values()))
    run.claim("CNPs", all(pair.cnp_rx == pair.cnp_tx > 0 for pair in pairs.values()), equals=True)
    run.claim("marked", all(pair.ecn_ce_rx == pair.data_frames_rx for pair in pairs.values()), equals=True)
    run.claim("a pause is refused", paused, equals=[
        "validation", "traffic.flow_transmit.state: Xoff does not support pause of RoCEv2 flows; name others",
    ])  # fmt: skip
    run.claim("a start of flows that run changes nothing", busy, equals=[])
    wrong = client.config.devices[0].rocev2.ipv4_interfaces[0]
    wrong.peers[0].destination_ip_address = "10.9.9.9"
    client.config.devices[1].rocev2.ipv6_interfaces.add().ipv6_name = "i2"
    refused = client.refusal(lambda: client.api.set_config(client.config))
    place = "stateful_flows.rocev2[0].tx_ports[0].transmit_type.target_line_rate.flows[0]"
    run.claim("a refused configuration", refused, equals=[
        "validation", "devices[1].rocev2.ipv6_interfaces[0].ipv6_name: there is no IPv6 interface 'i2'; there are none",
        f"{place}.tx_endpoint: no device has 10.9.9.9, the destination of peer 1 to 3",
    ])  # fmt: skip
    client.api.close()
