"""A network's subnet manager that has its policy from a controller, and reports to it.

with SrController() as controller, network(...) as net, FollowingManager(net.fabric, controller.client) as manager:
    manager.sa.put_policy(policy)
    manager.wait()

It is a process beside the network: every `every` it reads the policy's revision, sweeps the network, and reports the
fabric, drift and drops.

Traffic of the clients of a QoS policy: flows that have SL, MTU and rate of their path records.

The SL is the DSCP of a flow's packets, and of a TCP connection's ACKs. The route to the target has the path's MTU,
which a TCP connection uses. A UDP flow has datagrams of it, a RoCE connection the largest MTU of InfiniBand below it,
which counts payload. The rate is the path's. Flows between the same hosts, one after the other, each have their own.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.errors import XoffError
from testbed.frames.path_record import dscp_of
from testbed.linux.process.child import Child
from testbed.net.fabric.fabric import Fabric, FabricError
from testbed.net.traffic import Flow, Transport
from testbed.net.traffic.roce import Roce
from testbed.net.traffic.tcp import Tcp
from testbed.net.traffic.transport import transport_named
from testbed.rest.client import Client
from testbed.roce.settings import Settings
from testbed.subjects.qos.fabric import Partition
from testbed.subjects.qos.lab.subnet_manager import SubnetManager
from testbed.subjects.qos.numbers import MTU_CODES
from testbed.subjects.qos.rest.client import RestSa
from testbed.subjects.qos.rest.messages import SweepReport
from testbed.subjects.qos.rfc_clients import AddressVector
from testbed.subjects.qos.syntax.check import load
from testbed.units import Duration, Rate, Size

_ETHERNET_HEADER = 14
_ROCE_HEADERS = 60
"""The octets of the IP, UDP and InfiniBand headers of the longest packet, with its ICRC."""


def flow(vector: AddressVector, source: Any, target: Any, transport: Transport | str = "udp", **others: Any) -> Flow:
    """Return a flow from one host to another with an address vector. `others` are further arguments of `Flow`."""
    port = Fabric.current().between(source.name, _switch_of(source))
    if vector.rate < port.scale.real(port.lab_cable.rate).bps:
        others["rate"] = port.units.real(port.scale.lab(Rate.from_bps(vector.rate)))
    chosen = transport_named(transport)
    longest = min(port.queues.mtu if port.queues else vector.mtu, vector.mtu)
    if chosen.name == "udp":
        others["frame"] = Size.from_bytes(longest + _ETHERNET_HEADER)
    elif isinstance(chosen, Tcp):
        chosen = replace(chosen, marks_replies=True)
    elif isinstance(chosen, Roce):
        longest = min(1500, vector.mtu + _ROCE_HEADERS)
        fits = [size for size in MTU_CODES.values() if size <= vector.mtu and size + _ROCE_HEADERS <= 1500]
        chosen = replace(chosen, settings=Settings(mtu=max(fits)), cnp_dscp=dscp_of(vector.sl))
    _set_route_mtu(source, target, longest)
    return Flow(source, target, 0, transport=chosen, dscp=dscp_of(vector.sl), **others)


def _switch_of(host: Any) -> str:
    """Return the neighbour at a host's only lossless port."""
    fabric = Fabric.current()
    ports = [port for port in fabric.ports.values() if port.node is host]
    if len(ports) != 1:
        raise FabricError(f"{host.name} has {len(ports)} lossless ports; a client's host has one")
    name: str = fabric.far_end(ports[0]).node.name
    return name


def _set_route_mtu(source: Any, target: Any, mtu: int) -> None:
    """Limit the length of packets from one host to another."""
    interface = source.defaultIntf().name
    if refused := source.cmd(f"ip route replace {target.IP()}/32 dev {interface} mtu lock {mtu}").strip():
        raise FabricError(f"{source.name}: no route to {target.IP()} with MTU {mtu}: {refused}")


_PATIENCE_S = 10


class FollowingManager:
    """A subnet manager in a process of its own, and the controller's SA for clients."""

    def __init__(
        self, fabric: Fabric, client: Client, partitions: Sequence[Partition] = (), every: Duration = Duration("100ms")
    ) -> None:
        self.sa = RestSa(client)
        self._fabric, self._client = fabric, client
        self._partitions, self._every = partitions, every
        self._process: Child | None = None

    def __enter__(self) -> FollowingManager:
        self._process = Child(self._follow)
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.signal(signal.SIGTERM)
        self._process.wait()

    def wait(self) -> None:
        """Wait until the ports are set up by the policy in force, and the controller has had the fabric since."""
        deadline = time.monotonic() + _PATIENCE_S
        wanted = self.sa.policy()[0]
        while time.monotonic() < deadline:
            report = self.status()["report"]
            if report is not None and report["revision"] >= wanted:
                return
            time.sleep(0.01)
        raise FabricError(f"the subnet manager has not applied revision {wanted} of the policy in {_PATIENCE_S} s")

    def status(self) -> dict[str, Any]:
        """Return the answer to GET /qos/status."""
        found: dict[str, Any] = self._client.ask("GET", "/qos/status")
        return found

    def _follow(self) -> None:
        """Be the process: follow the policy until the end."""
        manager, revision, reported = SubnetManager(self._fabric, partitions=self._partitions), 0, False
        while True:
            try:
                current, text = self.sa.policy()
                if current != revision:
                    manager.policy, revision = load(text.encode(), f"revision {current}"), current
                swept = manager.sweep()
                if not reported or swept.changes or swept.rerouted:
                    self.sa.put_fabric(manager.subnet)
                drift = tuple(map(str, swept.drift))
                self.sa.put_report(SweepReport(revision, drift, len(swept.changes), manager.dropped()))
                reported = True
            except XoffError as error:  # the controller is away for a while, or a node is
                print(f"subnet manager: {error}", flush=True)
                reported = False
            time.sleep(self._every.ns / 1e9)
