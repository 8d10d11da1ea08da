"""A whole configuration: ports, their layer 1, captures, devices and flows, checked and in the generator's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from testbed.errors import listed, nearest
from testbed.frames import Mac
from testbed.subjects.snappi.devices import Device, FlowEnds, read_devices
from testbed.subjects.snappi.headers import ETHERNET_PAUSE, PFC_PAUSE
from testbed.subjects.snappi.pacing import SMALLEST, Pace, Sizes, Span, TestPortLine, read_pace, read_sizes, read_span
from testbed.subjects.snappi.packet import Packet, read_parts, read_payload
from testbed.subjects.snappi.reading import Item, Reader
from testbed.subjects.snappi.rocev2 import RocePlan, RocePort, RoceReader
from testbed.units import Rate

if TYPE_CHECKING:  # few configurations have one, and in the lab each module that is imported takes time
    from testbed.subjects.snappi.ultra_ethernet.settings import LinkLayer

SPEEDS = {
    "speed_10_fd_mbps": "10Mb/s",
    "speed_100_fd_mbps": "100Mb/s",
    "speed_1_gbps": "1Gb/s",
    "speed_10_gbps": "10Gb/s",
    "speed_25_gbps": "25Gb/s",
    "speed_40_gbps": "40Gb/s",
    "speed_50_gbps": "50Gb/s",
    "speed_100_gbps": "100Gb/s",
    "speed_200_gbps": "200Gb/s",
    "speed_400_gbps": "400Gb/s",
    "speed_800_gbps": "800Gb/s",
}
DEFAULT_SPEED = Rate("100Gb/s")
_FIRST_TAG = 0x5801
_ALL_STATIONS_OF_THE_LINK = "01:80:C2:00:00:01"


@dataclass(frozen=True)
class FlowControl:
    """The flow control of a port: PFC, from class to queue, or PAUSE."""

    queues: tuple[int, ...]
    """The queue that each priority of a PFC frame stops. Empty for PAUSE, which stops all queues."""
    delay_quanta: int = 0
    """The time for which the port goes on sending after a frame that pauses it."""


@dataclass(frozen=True)
class TestPort:
    """A port of the configuration."""

    __test__ = False  # no class of tests

    name: str
    location: str = ""
    speed: Rate | None = None
    """The speed, or None for that of the port where it is."""
    flow_control: FlowControl | None = None
    """The flow control, or None if received frames do not pause the port."""


@dataclass(frozen=True)
class Capture:
    """The capture of a port: the frames that it keeps."""

    octets: int | None = None
    is_pcapng: bool = False
    overwrite: bool = True


@dataclass(frozen=True)
class Counting:
    """The counters of a flow besides frames and octets."""

    loss: bool = False
    timestamps: bool = False
    latency: str = ""
    """The kind of latency: `store_forward` or `cut_through`; empty for none."""
    ratio: float = 1.0
    """The number of frames that are to be received for each sent one."""


@dataclass(frozen=True)
class FlowPlan:
    """A flow, ready to be sent."""

    name: str
    number: int
    tx_port: str
    rx_ports: tuple[str, ...]
    packet: Packet = field(compare=False)
    sizes: Sizes
    pace: Pace
    span: Span
    queue: int | None
    """The flow's queue at its port, for flow control, or None for pauses, which nothing stops."""
    counting: Counting | None
    """The way of counting its frames, or None if they are not counted as this flow's."""
    ends: FlowEnds | None = field(default=None, compare=False)
    is_llr_eligible: bool = False
    """True if Link Layer Retry repairs its frames where its port has it."""

    def within(self, sizes: Sizes, pace: Pace) -> FlowPlan:
        return replace(self, sizes=sizes, pace=pace)


@dataclass(frozen=True)
class TestPlan:
    """The whole plan of a configuration."""

    __test__ = False

    ports: Mapping[str, TestPort] = field(default_factory=dict)
    captures: Mapping[str, Capture] = field(default_factory=dict)
    """The captures by port."""
    devices: tuple[Device, ...] = ()
    flows: tuple[FlowPlan, ...] = ()
    roce: RocePlan = field(default_factory=RocePlan)
    link_layers: Mapping[str, LinkLayer] = field(default_factory=dict)
    """The Ultra Ethernet link layer of each port that has one."""
    warnings: tuple[str, ...] = ()

    @property
    def largest(self) -> int:
        """The octets of the largest frame that is sent."""
        return max((self.roce.largest, *(max(flow.sizes.sizes) for flow in self.flows)))

    @property
    def flow_names(self) -> tuple[str, ...]:
        """The names of all flows, those of RoCEv2 behind the others."""
        return (*(flow.name for flow in self.flows), *(flow.name for flow in self.roce.flows))

    def flow(self, name: str) -> FlowPlan | None:
        return next((flow for flow in self.flows if flow.name == name), None)


def read_ports(config: Mapping[str, Any]) -> dict[str, TestPort]:
    """Return the ports alone, which decide about the network that a configuration takes."""
    reader = Reader()
    ports = _ports(Item(reader, config, ""))
    reader.finish()
    return ports


def _link_layers(config: Item, ports: Mapping[str, TestPort]) -> dict[str, LinkLayer]:
    if not config.has("ultra_ethernet"):
        return {}
    from testbed.subjects.snappi.ultra_ethernet.settings import read_link_layers

    return read_link_layers(config, ports)


def read_config(config: Mapping[str, Any], lines: Mapping[str, TestPortLine]) -> TestPlan:
    """Read a whole configuration; `lines` has the lines of its ports. OtgError names each wrong field."""
    reader = Reader()
    with reader.item(config) as item:
        ports = _ports(item)
        captures = _captures(item, ports)
        layers = _link_layers(item, ports)
        roce = RoceReader()
        with item.item("options") as options:
            settings = _options(options, ports, roce)
        devices = read_devices(item, ports, roce)
        flows = _flows(item, ports, devices, lines)
        if layers:
            from testbed.subjects.snappi.ultra_ethernet.settings import apply_to_flows

            flows, layers = apply_to_flows(item, flows, layers)
        addresses = {one.address: device.port for device in devices for one in device.interfaces}
        with item.item("stateful_flows") as stateful:
            roce_flows = roce.flows(stateful, ports, addresses)
        for name in {flow.name for flow in flows} & {flow.name for flow in roce_flows}:
            item.error("stateful_flows", f"there is another flow {name}")
        plan = roce.plan(roce_flows, settings, addresses)
    reader.finish()
    return TestPlan(ports, captures, devices, flows, plan, layers, tuple(reader.warnings))


def _ports(config: Item) -> dict[str, TestPort]:
    ports: dict[str, TestPort] = {}
    for item in config.items("ports"):
        name = item.text("name")
        if name in ports:
            item.error("name", f"there are two ports {name}")
        ports[name] = TestPort(name, item.text("location"))
    for item in config.items("layer1"):
        speed, control = _layer1(item)
        for name in known(item, "port_names", ports):
            ports[name] = replace(ports[name], speed=speed or ports[name].speed, flow_control=control)
    return ports


def _layer1(item: Item) -> tuple[Rate | None, FlowControl | None]:
    # Media and negotiation are of hardware; every port sees all frames; the MTU is a bound of devices.
    item.ignore("name", "media", "promiscuous", "mtu", "ieee_media_defaults", "auto_negotiate", "auto_negotiation")
    speed = Rate(SPEEDS[item.one_of("speed", SPEEDS, "speed_100_gbps")]) if item.has("speed") else None
    if not item.has("flow_control"):
        return speed, None
    with item.item("flow_control") as control:
        address = control.text("directed_address", _ALL_STATIONS_OF_THE_LINK)
        chosen = control.choice("ieee_802_1qbb", "ieee_802_1qbb", "ieee_802_3x")
        if address.upper().replace("-", ":") != _ALL_STATIONS_OF_THE_LINK:
            control.error("directed_address", f"it is {address}; Xoff has pauses to {_ALL_STATIONS_OF_THE_LINK} only")
        if chosen != "ieee_802_1qbb":
            control.ignore("ieee_802_3x")
            return speed, FlowControl(())
        with control.item("ieee_802_1qbb") as pfc:
            delay = pfc.integer("pfc_delay", 0, 0, 65535)
            queues = tuple(pfc.integer(f"pfc_class_{number}", number, 0, 7) for number in range(8))
    return speed, FlowControl(queues, delay)


def _captures(config: Item, ports: Mapping[str, TestPort]) -> dict[str, Capture]:
    captures: dict[str, Capture] = {}
    for item in config.items("captures"):
        item.ignore("name")
        octets = item.integer("packet_size", 0, 0, 65535) or None
        kind = item.one_of("format", ("pcap", "pcapng"), "pcap")
        capture = Capture(octets, kind == "pcapng", item.flag("overwrite", True))
        for name in known(item, "port_names", ports):
            if name in captures:
                item.error("port_names", f"{name} is in another capture too")
            captures[name] = capture
    return captures


def _options(options: Item, ports: Mapping[str, TestPort], roce: RoceReader) -> dict[str, RocePort]:
    with options.item("port_options") as item:
        item.ignore("location_preemption")  # a run has the lab for itself
        if not item.flag("data_integrity"):
            item.ignore("data_integrity")
        else:
            item.error("data_integrity", "Xoff does not support it")
        with item.item("frame_ordering_mode") as ordering:
            ordering.choice("no_ordering", "no_ordering")
    with options.item("protocol_options") as item:
        item.ignore("auto_start_all")
    with options.item("flow_options") as item:
        if item.flag("packet_loss_duration"):
            item.error("packet_loss_duration", "Xoff does not support it")
    return roce.options(options.items("per_port_options"), ports)


def _flows(
    config: Item, ports: Mapping[str, TestPort], devices: tuple[Device, ...], lines: Mapping[str, TestPortLine]
) -> tuple[FlowPlan, ...]:
    flows: list[FlowPlan] = []
    dropped: list[str] = []
    for number, item in enumerate(config.items("flows")):
        name = item.peek("name", "")
        if any(flow.name == name for flow in flows):
            item.error("name", f"there are two flows {name}")
        if (flow := _flow(item, number, ports, devices, lines)) is not None:
            flows.append(flow)
            if (station := flow.packet.forged_station) is not None and lines.get(
                flow.tx_port, TestPortLine(1)
            ).is_bridged:
                dropped.append(f"{flow.name} ({Mac(station.to_bytes(6))})")
    if dropped:
        config.warn(
            "flows", f"have frames that no switch forwards, as their source is no station: {listed(dropped, 5)}; "
            "give packet[0].ethernet.src",
        )  # fmt: skip
    return tuple(flows)


def _flow(
    item: Item,
    number: int,
    ports: Mapping[str, TestPort],
    devices: tuple[Device, ...],
    lines: Mapping[str, TestPortLine],
) -> FlowPlan | None:
    name = item.text("name")
    ends: FlowEnds | None = None
    tx_port, rx_ports = "", tuple[str, ...]()
    with item.item("tx_rx") as between:
        if between.choice("port", "port", "device") == "device":
            with between.item("device") as pairs:
                ends = FlowEnds.read(pairs, devices)
            if ends is not None:
                tx_port, rx_ports = ends.tx_port, ends.rx_ports
        else:
            with between.item("port") as one:
                tx_port, rx_ports = _between_ports(one, ports)
    line = lines.get(tx_port, TestPortLine(10**9))
    queue: int | None = _queue(item)
    parts = read_parts(item)
    if parts[0].header in (PFC_PAUSE, ETHERNET_PAUSE):
        queue = None
    payload = read_payload(item)
    counting = _counting(item)
    with item.item("ultra_ethernet") as link_layer:
        eligible = link_layer.flag("llr_eligible")
    tag = _FIRST_TAG + number if counting else 0
    packet = Packet(parts, payload, ends, tag, bool(counting and counting.latency))
    tags = sum(part.header is not None and part.header.name == "vlan" for part in parts[:2])
    sizes = read_sizes(item, line.largest(tags)) if item.has("size") else Sizes((max(SMALLEST, packet.least),))
    if min(sizes.sizes) < packet.least:
        counted = packet.signature_octets
        why = f" and the {counted} octets by which its frames are counted" if counted else ""
        item.error("size", f"frames of {min(sizes.sizes)} octets cannot hold the headers{why}: {packet.least} can")
    pace, span = read_pace(item, line), read_span(item, line)
    if not tx_port:
        return None
    return FlowPlan(name, number, tx_port, rx_ports, packet, sizes, pace, span, queue, counting, ends, eligible)


def read_change(flow: Mapping[str, Any], path: str, plan: FlowPlan, names: list[str], line: TestPortLine) -> FlowPlan:
    """Return the same flow with the rate or the size of another description of it."""
    reader = Reader()
    item = Item(reader, {name: flow.get(name) for name in ("rate", "size")}, path)
    tags = sum(part.header is not None and part.header.name == "vlan" for part in plan.packet.parts[:2])
    sizes = read_sizes(item, line.largest(tags)) if "size" in names else plan.sizes
    pace = read_pace(item, line) if "rate" in names else plan.pace
    if min(sizes.sizes) < plan.packet.least:
        item.error("size", f"frames of {min(sizes.sizes)} octets cannot hold the headers: {plan.packet.least} can")
    reader.finish()
    return plan.within(sizes, pace)


def _between_ports(item: Item, ports: Mapping[str, TestPort]) -> tuple[str, tuple[str, ...]]:
    tx = item.text("tx_name")
    if tx not in ports:
        item.error("tx_name", f"there is no port {tx!r}; {nearest(tx, ports)}")
    names = known(item, "rx_names", ports)
    if item.has("rx_name"):
        names += [name for name in known(item, "rx_name", ports) if name not in names]
    return (tx if tx in ports else ""), tuple(names)


def _queue(flow: Item) -> int:
    """Return `pfc_queue` of the first Ethernet header. The model has it there, and no frame has it."""
    packet = flow.peek("packet", ())
    try:
        pattern = packet[0]["ethernet"]["pfc_queue"]
    except (LookupError, TypeError):
        return 0
    if not isinstance(pattern, Mapping):
        flow.error("packet[0].ethernet.pfc_queue", "an object is expected")
        return 0
    with flow.reader.item(pattern, flow.at("packet[0].ethernet.pfc_queue")) as item:
        item.choice("value", "value")
        return item.integer("value", 0, 0, 7)


def _counting(flow: Item) -> Counting | None:
    with flow.item("metrics") as item:
        if not item.flag("enable"):
            item.ignore("loss", "timestamps", "latency", "rx_tx_ratio", "predefined_metric_tags")
            return None
        loss, timestamps = item.flag("loss"), item.flag("timestamps")
        with item.item("latency") as latency:
            is_on = latency.flag("enable")
            mode = latency.one_of("mode", ("store_forward", "cut_through"), "store_forward")
        with item.item("rx_tx_ratio") as ratio:
            ratio.choice("value", "value")
            expected = float(ratio.number("value", 1)) or 1.0
        with item.item("predefined_metric_tags") as tags:
            if tags.flag("rx_name"):
                tags.error("rx_name", "Xoff does not support it")
        return Counting(loss, timestamps, mode if is_on else "", expected)


def known(item: Item, name: str, ports: Mapping[str, Any]) -> list[str]:
    """Return the names of a list, or one name, without those that do not exist, which are errors."""
    value = item.peek(name, ())
    names = item.texts(name)
    for number, one in enumerate(names):
        if one not in ports:
            place = name if isinstance(value, str) else f"{name}[{number}]"
            item.error(place, f"there is no {one!r}; {nearest(one, ports)}")
    return [one for one in names if one in ports]
