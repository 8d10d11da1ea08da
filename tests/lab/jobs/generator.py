"""Test ports, driven by snappi, beside the counters of the switch."""

from __future__ import annotations

import time
from io import BytesIO
from itertools import pairwise
from typing import Any

from testbed.frames.capture_file import frames
from testbed.lab import Run, experiment
from testbed.net.fabric.fabric import Fabric

MACS = {f"p{number}": f"02:00:00:00:01:{number:02x}" for number in range(1, 9)}


class Client:
    """A client with some ports on one switch."""

    def __init__(self, ports: int) -> None:
        import snappi

        self.api = snappi.api(ext="xoff")
        self.config = self.api.config()
        for number in range(1, ports + 1):
            self.config.ports.port(name=f"p{number}")

    def flow(self, name: str, tx: str, rx: str, dscp: int = 0, queue: int = 0) -> Any:
        flow = self.config.flows.flow(name=name)[-1]
        flow.tx_rx.port.tx_name, flow.tx_rx.port.rx_names = tx, [rx]
        ethernet, ipv4, _ = flow.packet.ethernet().ipv4().udp()
        ethernet.src.value, ethernet.dst.value = MACS[tx], MACS[rx]
        ethernet.pfc_queue.value = queue
        ipv4.src.value, ipv4.dst.value = "10.9.0.1", "10.9.0.2"
        ipv4.priority.dscp.phb.value = dscp
        flow.metrics.enable = flow.metrics.loss = True
        return flow

    def pause(self, name: str, tx: str, priority: int, quanta: int) -> Any:
        flow = self.config.flows.flow(name=name)[-1]
        flow.tx_rx.port.tx_name = tx
        pause = flow.packet.pfcpause()[-1]
        pause.class_enable_vector.value = 1 << priority
        getattr(pause, f"pause_class_{priority}").value = quanta
        return flow

    def obey(self, port: str, delay: int = 0) -> None:
        layer1 = self.config.layer1.layer1(name=f"l {port}")[-1]
        layer1.port_names = [port]
        pfc = layer1.flow_control.ieee_802_1qbb
        pfc.pfc_delay, pfc.pfc_class_3 = delay, 3

    def learn(self) -> None:
        """Let the switch learn the stations, so that it floods nothing that is counted."""
        config = self.api.config()
        for port in self.config.ports:
            config.ports.port(name=port.name)
            flow = config.flows.flow(name=f"from {port.name}")[-1]
            flow.tx_rx.port.tx_name = port.name
            flow.packet.ethernet()[-1].src.value = MACS[port.name]
            flow.duration.fixed_packets.packets = 1
        for layer1 in self.config.layer1:
            config.layer1.append(layer1)
        self.api.set_config(config)
        self.transmit("start")
        time.sleep(0.1)

    def set(self) -> None:
        self.learn()
        self.api.set_config(self.config)

    def transmit(self, state: str, *names: str) -> None:
        control = self.api.control_state()
        control.traffic.flow_transmit.state = state
        if names:
            control.traffic.flow_transmit.flow_names = list(names)
        self.api.set_control_state(control)

    def port_state(self, what: str, state: str, *names: str) -> None:
        control = self.api.control_state()
        chosen = getattr(control.port, what)
        chosen.state, chosen.port_names = state, list(names)
        self.api.set_control_state(control)

    def flows(self) -> dict[str, Any]:
        request = self.api.metrics_request()
        request.flow.flow_names = []
        return {one.name: one for one in self.api.get_metrics(request).flow_metrics}

    def ports(self) -> dict[str, Any]:
        request = self.api.metrics_request()
        request.port.port_names = []
        return {one.name: one for one in self.api.get_metrics(request).port_metrics}

    def refusal(self, call: Any) -> list[str]:
        try:
            call()
        except Exception as refused:
            error = self.api.from_exception(refused)
            assert error is not None, refused
            return [error.kind, *error.errors]
        return []


def fabric() -> Fabric:
    found = Fabric.running()
    assert found is not None
    return found


@experiment(_in_lab_time=True, packages=["snappi"])
def counts(run: Run) -> None:
    """Two flows of different sizes and rates, and what the switch counted of each."""
    client = Client(3)
    one, other = client.flow("one", "p1", "p3", dscp=24), client.flow("other", "p2", "p3", dscp=32)
    one.size.fixed, other.size.fixed = 128, 1518
    one.rate.pps, other.rate.percentage = 1000, 20
    one.duration.fixed_packets.packets = 500
    other.duration.fixed_seconds.seconds = 0.25
    one.metrics.latency.enable = one.metrics.timestamps = True
    one.metrics.latency.mode = "cut_through"
    client.set()
    before = fabric().sent("s1-eth3")
    client.transmit("start")
    time.sleep(0.2)
    during = client.flows()
    time.sleep(0.8)
    flows, ports = client.flows(), client.ports()
    sent = fabric().sent("s1-eth3")
    expected = -(-250_000_000_000 // (1538 * 80_000 * 5))
    sent_frames = [after - earlier for after, earlier in zip(sent.sent_frames, before.sent_frames, strict=True)]
    octets = [after - earlier for after, earlier in zip(sent.sent_bytes, before.sent_bytes, strict=True)]
    run.claim("rate on the way", (during["one"].frames_tx_rate, during["one"].transmit), equals=(1000.0, "started"))
    run.claim("frames of one", (flows["one"].frames_tx, flows["one"].frames_rx), equals=(500, 500))
    run.claim("frames of the other", (flows["other"].frames_tx, flows["other"].frames_rx), equals=(expected,) * 2)
    run.claim("frames at the switch", (sent_frames[3], sent_frames[4]), equals=(500, expected))
    run.claim("octets at the switch", (octets[3] + 4 * 500, octets[4] + 4 * expected),
              equals=(flows["one"].bytes_rx, flows["other"].bytes_rx))  # fmt: skip
    run.claim("frames at ports", (ports["p1"].frames_tx, ports["p2"].frames_tx, ports["p3"].frames_rx),
              equals=(500, expected, 500 + expected))  # fmt: skip
    run.claim("states", {flow.transmit for flow in flows.values()} == {"stopped"}, equals=True)
    run.claim("loss", (flows["one"].loss, flows["other"].loss), equals=(0.0, 0.0))
    stamps = flows["one"].timestamps
    run.claim("from the first to the last", stamps.last_timestamp_ns - stamps.first_timestamp_ns, equals=499e6)
    run.figure("latency", flows["one"].latency.average_ns, "ns")
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"])
def pauses(run: Run, obeys: bool = True, delay: int = 0, paused: bool = True) -> None:
    """A port that is paused for a known time by a known number of quanta, sent to it by the switch under load.

    Two ports at full rate go to a third, so that the switch pauses them; nothing is lost if they obey.
    """
    client = Client(3)
    for port in ("p1", "p2"):
        flow = client.flow(f"of {port}", port, "p3", dscp=24 if paused else 0, queue=3)
        flow.size.fixed, flow.rate.percentage = 1000, 100
        flow.duration.fixed_packets.packets = 3000
        if obeys:
            client.obey(port, delay)
    client.set()
    client.transmit("start")
    time.sleep(2)
    flows = client.flows()
    counted = {port: fabric().snapshot("s1")["ports"][port] for port in ("s1-eth1", "s1-eth2")}
    run.figure("sent", sum(flow.frames_tx for flow in flows.values()))
    run.figure("lost", sum(flow.frames_tx - flow.frames_rx for flow in flows.values()))
    dropped = [fabric().group(port, 3 if paused else 0).dropped_frames for port in counted]
    run.figure("dropped by the switch", sum(map(sum, dropped)))
    run.figure("pauses", sum(one["priorities"][3]["xoff_sent"] for one in counted.values()))
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"])
def one_pause(run: Run, quanta: int = 10_000, delay: int = 0) -> None:
    """A flow at half the line; the far test port pauses the switch, and the switch's queue stands still."""
    client = Client(2)
    flow = client.flow("data", "p1", "p2", dscp=24, queue=3)
    flow.size.fixed, flow.rate.percentage, flow.duration.fixed_packets.packets = 1000, 50, 1000
    pause = client.pause("pause", "p2", 3, quanta)
    pause.duration.fixed_packets.packets = 1
    client.config.captures.capture(name="c")[-1].port_names = ["p2"]
    client.set()
    client.port_state("capture", "start", "p2")
    client.transmit("start", "data")
    time.sleep(0.05)
    client.transmit("start", "pause")
    time.sleep(1)
    request = client.api.capture_request()
    request.port_name = "p2"
    captured = client.api.get_capture(request).read()
    (run.directory / "p2.pcap").write_bytes(captured)
    times = [frame.t_ns or 0 for frame in frames(BytesIO(captured))]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    run.claim("frames", (client.flows()["data"].frames_rx, len(times)), equals=(1000, 1000))
    run.figure("longest gap", max(gaps), "ns")
    run.figure("shortest gap", min(gaps), "ns")
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"])
def states(run: Run) -> None:
    """Pause and resume, stop, links, appended and deleted flows, other rates, and what is refused."""
    client = Client(2)
    flow = client.flow("data", "p1", "p2")
    flow.rate.pps = 100
    client.set()
    client.transmit("start")
    time.sleep(0.1)
    client.transmit("pause")
    held = client.flows()["data"]
    time.sleep(0.5)
    still = client.flows()["data"]
    client.transmit("resume")
    time.sleep(0.1)
    client.transmit("stop")
    after = client.flows()["data"]
    run.claim("while it was held", (held.frames_tx, still.frames_tx, still.transmit), equals=(10, 10, "paused"))
    run.claim("after it went on", (after.frames_tx, after.frames_rx, after.transmit), equals=(20, 20, "stopped"))

    client.port_state("link", "down", "p2")
    client.transmit("start")
    time.sleep(0.105)
    down = client.flows()["data"]
    run.claim("while the link is down", (client.ports()["p2"].link, down.frames_tx, down.frames_rx),
              equals=("down", 11, 0))  # fmt: skip
    client.port_state("link", "up", "p2")
    time.sleep(0.1)
    up = client.flows()["data"]
    run.claim("after it is up", (client.ports()["p2"].link, up.frames_rx > 5), equals=("up", True))
    client.transmit("stop")

    append = client.api.config_append()
    resource = append.config_append_list.add()
    more = resource.flows.flow(name="more")[-1]
    more.tx_rx.port.tx_name = "p2"
    more.duration.fixed_packets.packets = 7
    client.api.append_config(append)
    client.transmit("start", "more")
    time.sleep(0.1)
    run.claim("an appended flow", client.ports()["p2"].frames_tx, equals=7)
    delete = client.api.config_delete()
    delete.config_delete_list.add().flows = ["more"]
    client.api.delete_config(delete)
    run.claim("flows after deletion", [one.name for one in client.api.get_config().flows] == ["data"], equals=True)

    update = client.api.config_update()
    update.flows.property_names = ["rate"]
    faster = update.flows.flows.flow(name="data")[-1]
    faster.tx_rx.port.tx_name = "p1"
    faster.rate.pps = 1000
    client.api.update_config(update)
    client.transmit("start")
    time.sleep(0.1)
    client.transmit("stop")
    run.claim("at another rate", client.flows()["data"].frames_tx, equals=100)

    wrong = client.api.config()
    wrong.ports.port(name="p1")
    wrong.flows.flow(name="f")[-1].tx_rx.port.tx_name = "p1"
    wrong.flows[-1].packet.ethernet().gre()
    wrong.lags.lag(name="l")
    refused = client.refusal(lambda: client.api.set_config(wrong))
    run.claim("a refused configuration", refused, equals=[
        "validation", "flows[0].packet[1].gre: Xoff does not support it", "lags: Xoff does not support it",
    ])  # fmt: skip
    run.claim("the one before holds", [one.name for one in client.api.get_config().flows] == ["data"], equals=True)
    request = client.api.metrics_request()
    request.bgpv4.peer_names = []
    run.claim("refused metrics", client.refusal(lambda: client.api.get_metrics(request)), equals=[
        "validation", "bgpv4: Xoff does not support it",
    ])  # fmt: skip
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"])
def devices(run: Run) -> None:
    """Two devices resolve each other by ARP and by ND, and a flow goes between them."""
    client = Client(2)
    for number, (own, other) in enumerate((("10.1.1.1", "10.1.1.2"), ("10.1.1.2", "10.1.1.1")), 1):
        device = client.config.devices.device(name=f"d{number}")[-1]
        ethernet = device.ethernets.ethernet(name=f"e{number}")[-1]
        ethernet.connection.port_name, ethernet.mac = f"p{number}", MACS[f"p{number}"]
        address = ethernet.ipv4_addresses.ipv4(name=f"i{number}")[-1]
        address.address, address.gateway = own, other
        sixth = ethernet.ipv6_addresses.ipv6(name=f"s{number}")[-1]
        sixth.address, sixth.gateway = f"fd00::{number}", f"fd00::{3 - number}"
    flow = client.config.flows.flow(name="f")[-1]
    flow.tx_rx.device.tx_names, flow.tx_rx.device.rx_names = ["i1"], ["i2"]
    flow.packet.ethernet().ipv4()
    flow.duration.fixed_packets.packets = 50
    flow.metrics.enable = True
    client.api.set_config(client.config)
    time.sleep(0.1)
    request = client.api.states_request()
    request.ipv4_neighbors.ethernet_names = []
    found = {one.ipv4_address: one.link_layer_address for one in client.api.get_states(request).ipv4_neighbors}
    run.claim("ARP", found, equals={"10.1.1.1": MACS["p1"], "10.1.1.2": MACS["p2"]})
    request = client.api.states_request()
    request.ipv6_neighbors.ethernet_names = ["e1"]
    (sixth,) = client.api.get_states(request).ipv6_neighbors
    run.claim("ND", (sixth.ipv6_address, sixth.link_layer_address), equals=("fd00::2", MACS["p2"]))
    client.transmit("start")
    time.sleep(0.2)
    counted = client.flows()["f"]
    run.claim("frames", (counted.frames_tx, counted.frames_rx), equals=(50, 50))
    control = client.api.control_state()
    control.protocol.all.state = "stop"
    client.api.set_control_state(control)
    refused = client.refusal(lambda: client.transmit("start"))
    run.claim("without protocols", refused, equals=[
        "validation", "flows[0].tx_rx.device: gateway 10.1.1.2 of i1 is not resolved",
    ])  # fmt: skip
    client.api.close()


@experiment(_in_lab_time=True, packages=["snappi"])
def line_rate(run: Run, size: int = 64, seconds: float = 0.1) -> None:
    """A port that is full of the smallest or of the largest frames, each at its time."""
    client = Client(2)
    flow = client.flow("data", "p1", "p2")
    flow.size.fixed, flow.rate.percentage = size, 100
    flow.duration.fixed_seconds.seconds = seconds
    flow.metrics.timestamps = True
    client.set()
    client.transmit("start")
    time.sleep(seconds + 0.1)
    counted = client.flows()["data"]
    expected = -(-int(seconds * 10**12) // ((size + 20) * 80_000))
    run.claim("frames", (counted.frames_tx, counted.frames_rx), equals=(expected, expected))
    stamps = counted.timestamps
    took = stamps.last_timestamp_ns - stamps.first_timestamp_ns
    run.figure("more than the line takes", took - (expected - 1) * (size + 20) * 80, "ns")
    client.api.close()
