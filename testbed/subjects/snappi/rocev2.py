"""RoCEv2 in a configuration: queue pairs of devices, stateful flows, and the options of ports. Sans-I/O.

Each flow is a connection of its own, with the settings of the queue pair that its `tx_endpoint` names. What the lab's
endpoints choose themselves has no effect and becomes a warning, as do values that they have nearest to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from testbed.errors import nearest
from testbed.frames.neighbours import Address
from testbed.subjects.snappi.reading import Item

PATH_MTUS = (256, 512, 1024, 2048, 4096)
ECN = {"non_ect": 0, "ect_1": 1, "ect_0": 2, "ce": 3}
MOST_MESSAGE = 2**31
_UNITS = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_VERBS = {
    "write": "write", "write_with_immediate": "write", "send": "send", "send_with_immediate": "send", "read": "read",
}  # fmt: skip
_ADDRESSES: Mapping[int, type[Address]] = {4: IPv4Address, 6: IPv6Address}
"""The addresses of an IP version."""
NOBODY = IPv4Address(0)
_CHOSEN = {"source_qp_number": 2, "initial_psn": 0, "virtual_address": 0, "remote_key": 0}
"""What endpoints choose themselves, with the model's defaults."""
_COUNTER_UNIT = 64
"""The octets of one unit of DCQCN's byte counter."""
_FRACTIONS = 1024
"""The parts in which alpha and its gain are counted."""


@dataclass(frozen=True)
class Dcqcn:
    """DCQCN of a port's senders. Rates are in percent of the line, times in us of the hardware."""

    gain: float = (_FRACTIONS - 1019) / _FRACTIONS
    initial_alpha: float = 1023 / _FRACTIONS
    alpha_us: int = 21
    decrease_us: int = 21
    first_percent: float = 0.002
    """The rate that the first CNP sets; 0: it decreases like any other."""
    minimum_percent: float = 0.002
    most_decrease_percent: int = 10
    clamp_target: bool = False
    increase_us: int = 250
    byte_counter: int = 32767 * _COUNTER_UNIT
    threshold: int = 25
    additive_percent: float = 0.001
    hyper_percent: float = 0.001


@dataclass(frozen=True)
class RocePort:
    """The RoCEv2 options of a port, for all that is sent from there."""

    cnp_dscp: int = 48
    cnp_ecn: int = ECN["ect_1"]
    cnp_us: int = 55
    """The least time between two CNPs of a queue pair, of the hardware."""
    ack_dscp: int = 48
    ack_ecn: int = ECN["ect_1"]
    retransmit_ms: int | None = 1
    """The time without an acknowledgement until packets are sent again, of the hardware; None: never."""
    retries: int = 3
    dcqcn: Dcqcn | None = field(default_factory=Dcqcn)
    """DCQCN; None: senders keep the target rate."""


@dataclass(frozen=True)
class RocePlace:
    """The port and the address of a device."""

    port: str = ""
    address: Address = NOBODY


@dataclass(frozen=True)
class RocePeer:
    """The device of a peer, and the IP version of its queue pairs."""

    device: str
    ip_version: int = 4


@dataclass(frozen=True)
class RocePair:
    """A queue pair of a device, as the configuration has it."""

    name: str
    peer: str
    """The name of the peer that it belongs to."""
    place: RocePlace
    destination: Address
    """With the address 0 the peer sends nothing."""
    mtu: int
    dscp: int = 24
    ecn: int = ECN["ect_1"]
    source_port: int = 49152

    @property
    def port(self) -> str:
        return self.place.port

    @property
    def address(self) -> Address:
        return self.place.address

    @property
    def ip_version(self) -> int:
        return self.destination.version


@dataclass(frozen=True)
class RoceFlow:
    """A flow between two ports, ready to be run."""

    name: str
    number: int
    pair: RocePair
    rx_port: str
    verb: str
    """`write`, `send` or `read`."""
    immediate: int | None
    message: int
    share: tuple[int, int]
    """The flow's part of the line: percent of it, and the number of flows that share them."""

    @property
    def tx_port(self) -> str:
        return self.pair.port


@dataclass(frozen=True)
class RocePlan:
    """All of RoCEv2 in a configuration."""

    pairs: tuple[RocePair, ...] = ()
    peers: Mapping[str, RocePeer] = field(default_factory=dict)
    """The peers by their names."""
    flows: tuple[RoceFlow, ...] = ()
    idle: tuple[RoceFlow, ...] = ()
    """Queue pairs without a flow: they are connected, and carry nothing."""
    ports: Mapping[str, RocePort] = field(default_factory=dict)

    @property
    def connections(self) -> tuple[RoceFlow, ...]:
        return self.flows + self.idle

    @property
    def test_ports(self) -> tuple[str, ...]:
        """The ports at which there are queue pairs, or to which flows go."""
        return tuple(dict.fromkeys(port for flow in self.connections for port in (flow.tx_port, flow.rx_port)))

    @property
    def largest(self) -> int:
        """The octets of the largest frame with its FCS; 0 if there is no flow."""
        beside = 14 + 8 + 12 + 16 + 4 + 4 + 4  # Ethernet, UDP, BTH, RETH, immediate data, ICRC, FCS
        ip = {4: 20, 6: 40}
        return max(
            (min(flow.message, flow.pair.mtu) + beside + ip[flow.pair.ip_version] for flow in self.flows), default=0
        )

    def options(self, port: str) -> RocePort:
        return self.ports.get(port, RocePort())


class RoceReader:
    """Reads the three parts of a configuration that are about RoCEv2, each where it stands."""

    def __init__(self) -> None:
        self._pairs: dict[str, RocePair] = {}
        self._peers: dict[str, RocePeer] = {}

    def device(self, item: Item, device: str, places: Mapping[str, RocePlace]) -> None:
        """Read `devices[].rocev2`; `places` are those of the device's names of IP addresses."""
        for version in _ADDRESSES:
            of_version = {name: place for name, place in places.items() if place.address.version == version}
            for interface in item.items(f"ipv{version}_interfaces"):
                self._interface(interface, RocePeer(device, version), of_version)

    def _interface(self, item: Item, peer: RocePeer, places: Mapping[str, RocePlace]) -> None:
        """Read the peers of one address of a device."""
        word = f"ipv{peer.ip_version}_name"
        name, given = item.text(word), item.integer("ib_mtu", 1024, PATH_MTUS[0], 14000)
        mtu = max(one for one in PATH_MTUS if one <= given)
        if mtu != given:
            _warn(item, "ib_mtu", f"packets have {mtu} octets of payload, the next path MTU below")
        if name not in places:
            item.error(word, f"there is no IPv{peer.ip_version} interface {name!r}; {nearest(name, places)}")
        for one in item.items("peers"):
            self._peer(one, peer, places.get(name, RocePlace()), mtu)

    def _peer(self, peer: Item, known: RocePeer, place: RocePlace, mtu: int) -> None:
        name, text = peer.text("name"), peer.text("destination_ip_address")
        if name in self._peers:
            peer.error("name", f"there are two peers {name}")
        self._peers[name] = known
        read = _ADDRESSES[known.ip_version]
        try:
            destination = read(text)
        except ValueError:
            peer.error("destination_ip_address", f"{text!r} is no IPv{known.ip_version} address")
            destination = read(0)
        for pair in peer.items("qps"):
            found = self._pair(pair, RocePair("", name, place, destination, mtu))
            if found.name in self._pairs:
                pair.error("qp_name", f"there are two queue pairs {found.name}")
            self._pairs[found.name] = found

    def _pair(self, item: Item, of_peer: RocePair) -> RocePair:
        name, dscp, ecn, source_port = item.text("qp_name"), 24, "ect_1", 49152
        with item.item("connection_type") as kind:
            if kind.choice("reliable_connection", "reliable_connection"):
                with kind.item("reliable_connection") as rc:
                    for own, usual in _CHOSEN.items():
                        if int(str(rc.peek(own, usual)), 16) != usual:
                            _warn(rc, own, "the endpoint chooses it when it connects")
                        rc.ignore(own)
                    dscp = rc.integer("dscp", 24, 0, 63)
                    ecn = rc.one_of("ecn", ECN, "ect_1")
                    source_port = rc.integer("udp_source_port", 49152, 1, 65535)
        return replace(of_peer, name=name, dscp=dscp, ecn=ECN[ecn], source_port=source_port)

    def options(self, items: Iterable[Item], ports: Mapping[str, Any]) -> dict[str, RocePort]:
        """Read `options.per_port_options`."""
        found: dict[str, RocePort] = {}
        for item in items:
            name = item.text("port_name")
            if name not in ports:
                item.error("port_name", f"there is no port {name!r}; {nearest(name, ports)}")
            for protocol in item.items("protocols"):
                if protocol.choice("rocev2", "rocev2"):
                    with protocol.item("rocev2") as settings:
                        found[name] = self._port(settings)
        return found

    def _port(self, item: Item) -> RocePort:
        with item.item("cnp") as cnp:
            cnp_dscp, cnp_ecn = _marked(cnp)
            cnp_us = cnp.integer("cnp_delay_timer", 55, 0, 255)
        ack, retransmit_ms, retries = (48, ECN["ect_1"]), 1, 3
        with item.item("connection_type") as kind:
            if kind.choice("reliable_connection", "reliable_connection"):
                with kind.item("reliable_connection") as rc:
                    with rc.item("ack") as one:
                        ack = _marked(one)
                    if rc.has("nak"):
                        with rc.item("nak") as one:
                            nak = _marked(one)
                        if nak != ack:
                            rc.error("nak", "NAKs go with the DSCP and the ECN field of ACKs; give both the same")
                    is_on = rc.flag("enable_retransmission_timeout", True)
                    after = rc.integer("retransmission_timeout_value", 1, 0, 5369)
                    if is_on and not after:
                        rc.error("retransmission_timeout_value", "it is 0; 1 ms or more is possible")
                    retransmit_ms = after if is_on else None  # type: ignore[assignment]
                    retries = rc.integer("retransmission_retry_count", 3, 0, 254)
        with item.item("dcqcn_settings") as settings:
            dcqcn = _dcqcn(settings)
        return RocePort(cnp_dscp, cnp_ecn, cnp_us, *ack, retransmit_ms, retries, dcqcn)

    def flows(self, item: Item, ports: Mapping[str, Any], addresses: Mapping[Address, str]) -> tuple[RoceFlow, ...]:
        """Read `stateful_flows`; `addresses` has the port of each device's address."""
        found: list[RoceFlow] = []
        item.choice("rocev2", "rocev2")
        for rocev2 in item.items("rocev2"):
            for tx in rocev2.items("tx_ports"):
                name = tx.text("port_name")
                if name not in ports:
                    tx.error("port_name", f"there is no port {name!r}; {nearest(name, ports)}")
                with tx.item("transmit_type") as kind:
                    if kind.choice("target_line_rate", "target_line_rate"):
                        with kind.item("target_line_rate") as rate:
                            self._at_port(rate, name, addresses, found)
        return tuple(found)

    def _at_port(self, rate: Item, port: str, addresses: Mapping[Address, str], found: list[RoceFlow]) -> None:
        percent = rate.integer("value", 98, 0, 100)
        many = len(rate.peek("flows", ()))
        if not percent and many:
            rate.error("value", "a target rate of 0 sends nothing; leave the flows out")
        for item in rate.items("flows"):
            flow = self._flow(item, port, addresses, len(found), (percent, many))
            if flow is None:
                continue
            if any(one.name == flow.name for one in found):
                item.error("name", f"there are two flows {flow.name}")
            found.append(flow)

    def _flow(
        self, item: Item, port: str, addresses: Mapping[Address, str], number: int, share: tuple[int, int]
    ) -> RoceFlow | None:
        name, own, far = item.text("name"), item.text("tx_endpoint"), item.text("rx_endpoint")
        verb, immediate = self._verb(item)
        unit = item.one_of("message_size_unit", _UNITS, "mb")
        message = item.integer("message_size", 1, 1, 65535) * _UNITS[unit]
        if message > MOST_MESSAGE:
            item.error("message_size", f"it is {message} octets; a message has at most {MOST_MESSAGE}")
        pair = self._pairs.get(own)
        if pair is None:
            item.error("tx_endpoint", f"there is no queue pair {own!r}; {nearest(own, self._pairs)}")
            return None
        if pair.port != port:
            _warn(item, "tx_endpoint", f"{own} is at port {pair.port}, and the flow is sent there")
        if not int(pair.destination):
            _warn(item, "tx_endpoint", f"peer {pair.peer} of {own} has no destination, so nothing is sent")
            return None
        rx_port = addresses.get(pair.destination)
        if rx_port is None:
            item.error("tx_endpoint", f"no device has {pair.destination}, the destination of peer {pair.peer}")
            return None
        if rx_port == pair.port:
            item.error("tx_endpoint", f"{pair.destination}, the destination of peer {pair.peer}, is at the same port")
            return None
        if far and far != rx_port and (far not in self._pairs or self._pairs[far].port != rx_port):
            item.error("rx_endpoint", f"{far!r} is neither port {rx_port}, where {own} leads, nor a queue pair there")
        return RoceFlow(name, number, pair, rx_port, verb, immediate, message, share)

    def _verb(self, item: Item) -> tuple[str, int | None]:
        with item.item("rocev2_verb") as verb:
            chosen = verb.choice("write", *_VERBS)
            if not chosen.endswith("with_immediate"):
                return _VERBS.get(chosen, "write"), None
            with verb.item(chosen) as data:
                text = data.text("immediate_data", "00000000")
                try:
                    immediate = int(text, 16)
                except ValueError:
                    immediate = -1
                if not 0 <= immediate < 1 << 32:
                    data.error("immediate_data", f"{text!r} is not one to eight hexadecimal digits")
        return _VERBS[chosen], max(0, immediate)

    def plan(
        self,
        flows: tuple[RoceFlow, ...],
        ports: Mapping[str, RocePort],
        addresses: Mapping[Address, str],
    ) -> RocePlan:
        """Return the plan of what was read."""
        used = {flow.pair.name for flow in flows}
        idle = [
            (pair, rx)
            for pair in self._pairs.values()
            if pair.name not in used and (rx := addresses.get(pair.destination)) not in (None, pair.port)
        ]
        connected = tuple(
            RoceFlow("", number, pair, str(rx), "write", None, 1, (1, 1))
            for number, (pair, rx) in enumerate(idle, len(flows))
        )
        pairs = tuple(self._pairs.values())
        return RocePlan(pairs, dict(self._peers), flows, connected, dict(ports))


def _warn(item: Item, name: str, text: str) -> None:
    item.warn(name, f"has no effect as it is: {text}")


def _marked(item: Item) -> tuple[int, int]:
    """Return the DSCP and the ECN field of CNPs, ACKs or NAKs."""
    dscp = 48
    if item.choice("ip_dscp", "ip_dscp"):
        with item.item("ip_dscp") as value:
            dscp = value.integer("value", 48, 0, 63)
    return dscp, ECN[item.one_of("ecn_value", ECN, "ect_1")]


def _dcqcn(item: Item) -> Dcqcn | None:
    is_on = item.flag("enable_dcqcn", True)

    def percent(name: str, default: float) -> float:
        value = float(item.number(name, default))
        if value > 100:
            item.error(name, f"it is {value}; 0 to 100 percent of the line are possible")
        return min(100.0, value)

    found = Dcqcn(
        gain=(_FRACTIONS - item.integer("alpha_g", 1019, 1, 1023)) / _FRACTIONS,
        initial_alpha=item.integer("initial_alpha", 1023, 1, 1023) / _FRACTIONS,
        alpha_us=item.integer("alpha_update_period", 21, 1),
        decrease_us=item.integer("rate_reduction_time_period", 21, 1),
        first_percent=percent("initial_rate_after_first_cnp", 0.002),
        minimum_percent=percent("minimum_rate_limmit", 0.002),
        most_decrease_percent=item.integer("maximum_rate_decrement_at_time", 10, 0, 100),
        clamp_target=item.flag("clamp_target_rate"),
        increase_us=item.integer("rate_increment_time", 250, 1),
        byte_counter=item.integer("rate_increment_byte_counter", 32767, 1, 32767) * _COUNTER_UNIT,
        threshold=item.integer("rate_increment_threshold", 25, 1, 31),
        additive_percent=percent("additive_increment_rate", 0.001),
        hyper_percent=percent("hyper_increment_rate", 0.001),
    )
    return found if is_on else None
