"""The place of a test port in the network, and the silence of its host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.errors import listed
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState, bridges, forwards
from testbed.subjects.snappi.config import TestPort
from testbed.subjects.snappi.pacing import TestPortLine
from testbed.subjects.snappi.reading import OtgError


@dataclass(frozen=True)
class Place:
    """A host's port that is a test port."""

    port: PortState
    far_end: PortState

    @property
    def pid(self) -> int:
        """A process in the host's network namespace."""
        pid: int = self.port.node.pid
        return pid

    @property
    def interface(self) -> str:
        return self.port.name

    @property
    def line(self) -> TestPortLine:
        is_bridged = bridges(self.far_end.node) and not getattr(self.far_end.node, "steered", False)
        return TestPortLine(self.port.lab_cable.rate.bps, self.port.scale.k, self.port.lab_cable.mtu, is_bridged)


def places(fabric: Fabric, ports: Mapping[str, TestPort]) -> dict[str, Place]:
    """Return the place of each port: the host or the port that its location names, or else the next free host."""
    free = {port.name: port for port in fabric.ports.values() if not forwards(port.node)}
    by_host: dict[str, str] = {}
    for state in reversed(list(free.values())):
        by_host[state.node.name] = state.name
    if len(ports) > len(free):
        raise OtgError([f"ports: there are {len(ports)}, and this network has {len(free)} ports of hosts"])

    def placed(state: PortState) -> Place:
        return Place(state, fabric.core.ports.far_end(state))

    by_port: dict[str, Place] = {}
    for number, port in enumerate(ports.values()):
        name = by_host.get(port.location, port.location)
        if name in fabric.core.ports.slots and name not in free:
            taken = next((one for one, place in by_port.items() if place.interface == name), None)
            why = f"port {taken} is there" if taken else f"{name} is no port of a host; {listed(free)} are"
            raise OtgError([f"ports[{number}].location: {why}"])
        if name in free:
            by_port[port.name] = placed(free.pop(name))
    for port in ports.values():
        if port.name not in by_port:
            by_port[port.name] = placed(free.pop(next(iter(free))))
    return {name: by_port[name] for name in ports}


def silence(fabric: Fabric, place: Place) -> None:
    """Take the host's own addresses away, so that its kernel answers nothing that a test sends."""
    intf = place.port.intf
    if intf.ip:
        fabric.cabling.remove_address(intf, f"{intf.ip}/{intf.prefixLen}")
        intf.ip = None
    if intf.ipv6:
        fabric.cabling.remove_address(intf, intf.ipv6)
        intf.ipv6 = None
