"""Emulated devices: stations at test ports with IP addresses, which resolve their gateways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.frames import Mac
from testbed.frames.neighbours import Address, NeighbourQuestion, Reply, parse
from testbed.subjects.snappi.patterns import Values
from testbed.subjects.snappi.reading import Item
from testbed.subjects.snappi.rocev2 import RocePlace, RoceReader

Neighbours = dict[tuple[str, Address], Mac]
"""MAC addresses of neighbours by name of the Ethernet interface and address."""


@dataclass(frozen=True)
class Interface:
    """An IP address of a device."""

    name: str
    address: Address
    gateway: Address
    gateway_mac: Mac | None = None
    """The gateway's MAC address, or None if it is to be resolved."""


@dataclass(frozen=True)
class Device:
    """An Ethernet interface of a device, at a port."""

    device: str
    name: str
    port: str
    mac: Mac
    interfaces: tuple[Interface, ...] = ()

    def interface(self, version: int, name: str = "") -> Interface | None:
        fitting = [one for one in self.interfaces if one.address.version == version]
        return next((one for one in fitting if name in ("", one.name)), fitting[0] if fitting else None)


@dataclass(frozen=True)
class FlowEnds:
    """The pairs of devices between which a flow goes. Its frames take the pairs in turn."""

    pairs: tuple[tuple[Device, Device], ...]
    names: tuple[tuple[str, str], ...]
    """The names that the flow has for them: an Ethernet interface or an address."""
    neighbours: Neighbours = field(default_factory=dict, compare=False)

    @property
    def tx_port(self) -> str:
        return self.pairs[0][0].port

    @property
    def rx_ports(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(receiver.port for _, receiver in self.pairs))

    def resolved(self, neighbours: Neighbours) -> FlowEnds:
        return replace(self, neighbours=neighbours)

    def values(self, what: str, version: int) -> Values | None:
        """Return the values for `station` and `destination`, MAC addresses, or `source` and `target`, IP addresses."""
        found = []
        for (sender, receiver), (own, other) in zip(self.pairs, self.names, strict=True):
            end, peer = sender.interface(version, own), receiver.interface(version, other)
            value: int | None = None
            if what == "station":
                value = int.from_bytes(sender.mac.octets)
            elif what == "destination":
                mac = self._next_hop(sender, end) if end else receiver.mac
                value = int.from_bytes(mac.octets) if mac else 0
            elif (chosen := end if what == "source" else peer) is not None:
                value = int(chosen.address)
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    def unresolved(self, version: int) -> Iterator[str]:
        """Return, in words, the addresses that have to be resolved before the flow can be sent."""
        for (sender, _), (own, _) in zip(self.pairs, self.names, strict=True):
            end = sender.interface(version, own)
            if end is not None and self._next_hop(sender, end) is None:
                yield f"gateway {end.gateway} of {end.name}"

    def _next_hop(self, sender: Device, end: Interface) -> Mac | None:
        return end.gateway_mac or self.neighbours.get((sender.name, end.gateway))

    @classmethod
    def read(cls, item: Item, devices: Iterable[Device]) -> FlowEnds | None:
        if item.flag("bidirectional"):
            item.error("bidirectional", "Xoff does not support it; write two flows")
        mode = item.one_of("mode", ("mesh", "one_to_one"), "mesh")
        senders, receivers = (_named(item, name, list(devices)) for name in ("tx_names", "rx_names"))
        if not senders or not receivers:
            return None
        if mode == "one_to_one" and len(senders) != len(receivers):
            item.error("rx_names", f"there are {len(receivers)}, and {len(senders)} tx_names: one_to_one takes as many")
            return None
        pairs = (
            list(zip(senders, receivers, strict=True))
            if mode == "one_to_one"
            else [(one, other) for one in senders for other in receivers]
        )
        if len({sender.port for sender, _ in senders}) > 1:
            item.error("tx_names", "they are at several ports; write a flow for each port")
            return None
        if any(sender == receiver for (sender, _), (receiver, _) in pairs):
            item.error("rx_names", "a device would send to itself")
            return None
        return cls(
            tuple((one, other) for (one, _), (other, _) in pairs),
            tuple((own, peer) for (_, own), (_, peer) in pairs),
        )


def _named(item: Item, name: str, devices: list[Device]) -> list[tuple[Device, str]]:
    """Return the devices of a list, each by its own name, that of its Ethernet interface or of an address."""
    known: dict[str, Device] = {}
    for device in reversed(devices):
        known |= {one: device for one in (device.device, device.name, *(i.name for i in device.interfaces))}
    found = []
    for number, one in enumerate(item.texts(name)):
        if one in known:
            found.append((known[one], one))
        else:
            item.error(f"{name}[{number}]", f"there is no device interface {one!r}; {nearest(one, known)}")
    return found


def read_devices(config: Item, ports: Mapping[str, Any], roce: RoceReader) -> tuple[Device, ...]:
    found: list[Device] = []
    for item in config.items("devices"):
        device = item.text("name")
        own = [one for ethernet in item.items("ethernets") if (one := _ethernet(ethernet, device, ports))]
        places = {interface.name: RocePlace(one.port, interface.address) for one in own for interface in one.interfaces}
        with item.item("rocev2") as rocev2:
            roce.device(rocev2, device, places)
        found += own
    return tuple(found)


def _ethernet(item: Item, device: str, ports: Mapping[str, Any]) -> Device | None:
    name, port = item.text("name"), item.text("port_name")
    item.ignore("mtu")
    with item.item("connection") as connection:
        if connection.choice("port_name", "port_name"):
            port = connection.text("port_name", port)
    if port not in ports:
        item.error("connection.port_name", f"there is no port {port!r}; {nearest(port, ports)}")
    mac = _address(item, "mac", Mac.parse, "00:00:00:00:00:00")
    interfaces = []
    for kind, read in (("ipv4_addresses", IPv4Address), ("ipv6_addresses", IPv6Address)):
        for one in item.items(kind):
            address, gateway = (_address(one, word, read, str(read(0))) for word in ("address", "gateway"))
            one.ignore("prefix")  # what is not the gateway is reached by it
            with one.item("gateway_mac") as hop:
                given = _address(hop, "value", Mac.parse) if hop.choice("auto", "auto", "value") == "value" else None
                hop.ignore("auto")
            interfaces.append(Interface(one.text("name"), address, gateway, given))
    return Device(device, name, port, mac, tuple(interfaces)) if port in ports else None


def _address(item: Item, name: str, read: Any, default: str = "") -> Any:
    text = item.text(name, default)
    try:
        return read(text)
    except (ValueError, UsageError):
        item.error(name, f"{text!r} is no address")
        return read(default) if default else None


class Resolver:
    """Address resolution of the devices at one port."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices = tuple(devices)
        self.neighbours: Neighbours = {}
        self.is_on = True

    def requests(self) -> list[bytes]:
        """Return the frames that ask for gateways which are not resolved."""
        return [
            NeighbourQuestion(device.mac, one.address, one.gateway).encode()
            for device in self.devices
            for one in device.interfaces
            if self.is_on and one.gateway_mac is None and (device.name, one.gateway) not in self.neighbours
        ]

    def receive(self, frame: bytes) -> list[bytes]:
        """Take in a received frame, and return the frames to send for it."""
        message = parse(frame)
        if not self.is_on or message is None:
            return []
        answers = []
        for device in self.devices:
            for one in device.interfaces:
                if one.gateway == message.address and one.gateway_mac is None:
                    self.neighbours[device.name, one.gateway] = message.mac
                if (
                    isinstance(message, NeighbourQuestion)
                    and message.target == one.address
                    and message.mac != device.mac
                ):
                    answers.append(Reply(device.mac, one.address, message.mac, message.address).encode())
        return answers

    def switch(self, is_on: bool) -> None:
        """Start or stop resolution. At the stop resolved addresses are forgotten."""
        self.is_on = is_on
        if not is_on:
            self.neighbours.clear()
