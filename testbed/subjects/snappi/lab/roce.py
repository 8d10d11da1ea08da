"""The RoCEv2 flows of a test: addresses of the hosts at whose ports they are, and the flows, run by `net/traffic`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.errors import UsageError
from testbed.frames import Mac
from testbed.frames.neighbours import Address
from testbed.linux.process.kernel import arp_entry, in_network_of, set_arp
from testbed.net.fabric.fabric import Fabric
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.flows import Flows
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce.rates import Line, Maker
from testbed.roce.rates.dcqcn import Dcqcn as DcqcnControl
from testbed.roce.rates.dcqcn import DcqcnParameters
from testbed.roce.settings import Settings
from testbed.subjects.snappi.config import TestPlan
from testbed.subjects.snappi.devices import Device, Neighbours
from testbed.subjects.snappi.lab.place import Place
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.rocev2 import Dcqcn, RoceFlow, RocePort
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Size

_NEVER = Duration("1000s")
"""The retransmission timer of a port without one."""
_ANSWERS_NO_ARP = 8


class RoceTraffic:
    """The RoCEv2 flows of one configuration. Only one lot of them runs at a time."""

    def __init__(self, fabric: Fabric, plan: TestPlan, places: Mapping[str, Place]) -> None:
        self._fabric, self._plan, self._places = fabric, plan.roce, places
        self._devices = {device.name: device for device in plan.devices}
        self._by_address = {one.address: device for device in plan.devices for one in device.interfaces}
        self._flows: Flows | None = None
        self._running: tuple[RoceFlow, ...] = ()
        self.failures: dict[str, str] = {}
        """The reason why flows of the last lot failed, by their names."""
        self.reports: dict[str, RoceReport] = {}
        """What the endpoints reported of flows of the last lot that ended."""
        self._require_places()
        for port in plan.roce.test_ports:
            self._prepare(port)

    @property
    def running(self) -> frozenset[str]:
        """The names of the flows that run."""
        return frozenset(flow.name for flow in self._running)

    def start(self, chosen: Iterable[RoceFlow], neighbours: Neighbours, many: int | None = None) -> None:
        """Start flows; with `many` messages of each, or until they are stopped."""
        flows = tuple(chosen)
        if self._running:
            names = ", ".join(sorted(self.running))
            raise OtgError([f"traffic.flow_transmit: RoCEv2 flows start together, and {names} run; stop them first"])
        for flow in flows:
            self._introduce(flow, neighbours)
        try:
            self._flows = Flows([self._flow(flow, many) for flow in flows])
            self._flows.__enter__()
        except UsageError as error:
            self._flows = None
            raise OtgError([f"stateful_flows.rocev2: {error}"]) from None
        self._running = flows

    def connect(self, neighbours: Neighbours) -> None:
        """Connect every queue pair once, by messages of the connection manager on the wire."""
        if not self._running and self._plan.connections:
            self.start(self._plan.connections, neighbours, many=0)
            assert self._flows is not None
            self._flows.wait()
            self.stop()

    def stop(self) -> None:
        """Stop the flows, and wait for what is on its way."""
        flows, running = self._flows, self._running
        self._flows, self._running = None, ()
        if flows is None:
            return
        flows.__exit__(None, None, None)
        for flow, report in zip(running, flows.reports_of(RoceReport), strict=True):
            self.reports[flow.name] = report
            self.failures.pop(flow.name, None)
            if report.failure:
                self.failures[flow.name] = report.failure

    def close(self) -> None:
        self.stop()

    # Hosts

    def _require_places(self) -> None:
        errors = []
        for port in self._plan.test_ports:
            place = self._places[port]
            if len([one for one in self._fabric.ports.values() if one.node is place.port.node]) > 1:
                errors.append(f"ports: {port} is at {place.interface}, and RoCEv2 takes a host with one port")
            for version in (4, 6):
                addresses = sorted(str(one) for one in set(self._addresses(port)) if one.version == version)
                if len(addresses) > 1:
                    errors.append(
                        f"devices: RoCEv2 at port {port} has {', '.join(addresses)}; one of IPv{version} is supported"
                    )
            if len({self._by_address[address].mac for address in self._addresses(port)}) > 1:
                errors.append(f"devices: RoCEv2 at port {port} has several MAC addresses; one is supported")
        if errors:
            raise OtgError(errors)

    def _prepare(self, port: str) -> None:
        """Give the host of a port the addresses and the station of its device; the generator answers ARP and ND."""
        place, addresses = self._places[port], self._addresses(port)
        intf = place.port.intf
        with in_network_of(place.pid):
            Path(f"/proc/sys/net/ipv4/conf/{place.interface}/arp_ignore").write_text(str(_ANSWERS_NO_ARP))
        intf.setMAC(str(self._by_address[addresses[0]].mac))
        for address in dict.fromkeys(addresses):
            if address.version == 4:
                intf.setIP(str(address), 32)
                self._command(place, f"ip -4 route replace default dev {place.interface} scope link")
                continue
            # Of an address of its port the kernel would tell those who ask, and of this one it does not.
            intf.ipv6 = f"{address}/128"
            self._command(place, f"ip -6 address replace {intf.ipv6} dev lo nodad")
            self._command(place, f"ip -6 route replace default dev {place.interface}")

    def _command(self, place: Place, command: str) -> None:
        if said := place.port.node.cmd(command).strip():
            raise OtgError([f"devices: {place.port.node.name}: {command}: {said}"])

    def _addresses(self, port: str) -> list[Address]:
        """Return the addresses of the queue pairs at a port."""
        own = [pair.address for pair in self._plan.pairs if pair.port == port]
        return own + [flow.pair.destination for flow in self._plan.connections if flow.rx_port == port]

    def _introduce(self, flow: RoceFlow, neighbours: Neighbours) -> None:
        """Tell both hosts of a flow the stations by which they reach each other."""
        ends = flow.pair.address, flow.pair.destination
        for address, far_address in (ends, ends[::-1]):
            own, far = self._by_address[address], self._by_address[far_address]
            station, place = self._next_hop(own, far, far_address.version, neighbours), self._places[own.port]
            if far_address.version == 6:
                self._fabric.cabling.add_neighbours(place.port.intf, {str(far_address): station})
                continue
            entry = arp_entry(str(far_address), str(station))
            with in_network_of(place.pid):
                set_arp([entry])

    def _next_hop(self, own: Device, far: Device, version: int, neighbours: Neighbours) -> Mac:
        """Return the station to send to: the gateway, if it is one of the network's, or else the far device."""
        for one in own.interfaces:
            if one.address.version == version and one.gateway not in self._by_address:
                found = one.gateway_mac or neighbours.get((own.name, one.gateway))
                if found is not None:
                    return found
        return far.mac

    # Flows

    def _flow(self, flow: RoceFlow, many: int | None) -> Flow:
        source, target = self._places[flow.tx_port], self._places[flow.rx_port]
        sends, answers = self._plan.options(flow.tx_port), self._plan.options(flow.rx_port)
        percent, shared = flow.share
        rate = Rate.from_bps(max(1, source.port.cable.rate.bps * percent // (100 * shared)))
        controlled = sends.dcqcn is not None and flow.verb != "read"
        return Flow(
            source.port.node,
            target.port.node,
            _priority(source, flow.pair.dscp),
            transport=Roce(
                ip_version=flow.pair.ip_version,
                operation=flow.verb,
                message=Size.from_bytes(flow.message),
                settings=_settings(flow, sends),
                target_settings=_settings(flow, answers),
                cnp_priority=_priority(target, answers.cnp_dscp),
                cnp_dscp=answers.cnp_dscp,
                cnp_ecn=Ecn(answers.cnp_ecn),
                ack_priority=_priority(target, answers.ack_dscp),
                ack_dscp=answers.ack_dscp,
                ack_ecn=Ecn(answers.ack_ecn),
                immediate=flow.immediate,
            ),
            dscp=flow.pair.dscp,
            ecn=Ecn(flow.pair.ecn),
            count=many,
            rate=None if controlled else rate,
            rate_control=_control(sends.dcqcn, percent, shared) if controlled and sends.dcqcn else None,
            source_port=flow.pair.source_port,
        )


def _priority(place: Place, dscp: int) -> int:
    """Return the priority of a host's port that a DSCP means."""
    settings = place.port.settings
    return dscp >> 3 if settings is None else settings.priorities.dscp_to_dot1p[dscp]


def _settings(flow: RoceFlow, port: RocePort) -> Settings:
    return Settings(
        mtu=flow.pair.mtu,
        retransmit_after=_NEVER if port.retransmit_ms is None else Duration(f"{port.retransmit_ms}ms"),
        retries=port.retries,
        cnp_interval=Duration(f"{port.cnp_us}us"),
    )


def _control(dcqcn: Dcqcn, percent: int, shared: int) -> Maker:
    """Return the maker of DCQCN below the target rate; percentages are those of the port's line."""

    def make(line: Line) -> DcqcnControl:
        hardware = line.scale.real(line.rate)

        def part(of_line: float) -> Rate:
            return Rate.from_bps(max(1, round(hardware.bps * of_line / 100)))

        parameters = DcqcnParameters(
            gain=dcqcn.gain,
            initial_alpha=dcqcn.initial_alpha,
            alpha_interval=Duration(f"{dcqcn.alpha_us}us"),
            increase_interval=Duration(f"{dcqcn.increase_us}us"),
            byte_counter=Size.from_bytes(dcqcn.byte_counter),
            fast_recovery=dcqcn.threshold,
            additive_increase=part(dcqcn.additive_percent),
            hyper_increase=part(dcqcn.hyper_percent),
            minimum=part(dcqcn.minimum_percent),
            decrease_interval=Duration(f"{dcqcn.decrease_us}us"),
            least_decrease_factor=min(0.999, 1 - dcqcn.most_decrease_percent / 100),
            first_rate=part(dcqcn.first_percent) if dcqcn.first_percent else None,
            clamp_target=dcqcn.clamp_target,
        )
        target = Rate.from_bps(max(1, line.rate.bps * percent // (100 * shared)))
        return DcqcnControl(Line(target, line.scale), parameters)

    return make
