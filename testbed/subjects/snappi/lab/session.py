"""A test against the ports of a network: its configuration, and the generator that carries it out.

The network is that of the experiment, if one runs. Else it is made for the configuration: one switch with a cable to
a host for each port, at the speed that layer 1 gives.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

from testbed.errors import warn
from testbed.experiment.run import Run
from testbed.frames.capture_file import Interface, Writer, write_pcap
from testbed.linux.sockets.packet_tap import Tapped
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.cable import MTU, Cable
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.port import Buffer, Port
from testbed.subjects.snappi.config import DEFAULT_SPEED, TestPlan, TestPort, read_change, read_config, read_ports
from testbed.subjects.snappi.lab.generator import Generator
from testbed.subjects.snappi.lab.place import places
from testbed.subjects.snappi.packet import FCS
from testbed.subjects.snappi.reading import OtgError
from testbed.subjects.snappi.requests import CaptureRequest, Control
from testbed.units import Rate

if TYPE_CHECKING:
    from testbed.subjects.snappi.lab.link_layer import LinkLayers
    from testbed.subjects.snappi.ultra_ethernet.settings import LinkLayer, VcCredits

Config = dict[str, Any]
DEFAULT_LINE = Rate("100Mb/s")
_BUFFER = 1_040_000
"""The octets of the switch's buffer beside the cells that stand for credits."""
_LENGTH = "5m"
"""The cable of a port with a link layer."""
_NO_CC_UPDATES = (1 << 32) - 1
"""The most octets from one CC_Update to the next, which no test sends."""
_AROUND = 18
"""The octets of a frame that its MTU does not count."""


class OneSwitch(LosslessTopo):
    """Hosts p1, p2, ... on the switch s1, each by a cable of its own rate."""

    def build(self, rates: Sequence[Rate] = (), mtu: int = MTU, layers: Sequence[LinkLayer | None] = ()) -> None:
        having = [layer.credits for layer in layers if layer and layer.credits and layer.has_credits_on]
        if having:
            cell = having[0].cell
            kept = sum(credits.cells * len(credits.vcs) for credits in having)
            self.addSwitch("s1", buffer=Buffer(total=_BUFFER // cell + kept, cell=cell))
        else:
            self.addSwitch("s1")
        for number, rate in enumerate(rates, 1):
            layer = layers[number - 1] if layers else None
            options: dict[str, Any] = {}
            if having:
                port = Port(priorities=having[0].priorities)
                if layer and layer.credits and layer.has_credits_on:
                    port = _with_credits(port, layer.credits)
                options = {"settings1": port, "settings2": port}
            length, has_llr = (_LENGTH, bool(layer.llr)) if layer else (None, False)
            self.addLink(self.addHost(f"p{number}"), "s1", cable=Cable(rate, length, mtu=mtu, llr=has_llr), **options)


def _with_credits(port: Port, credits: VcCredits) -> Port:
    updates = {"cc_interval": _NO_CC_UPDATES} if credits.cc_timer is None else {"cc_time": credits.cc_timer}
    return port.with_credits(
        *sorted(credits.vcs), cells=credits.cells, mode=credits.mode, cf_min=credits.cf_min, cf_max=credits.cf_max,
        **updates,
    )  # fmt: skip


class Session:
    """The test of one snappi client: its configuration, the network made for it, and the traffic that runs."""

    line = DEFAULT_LINE
    """The lab's rate of the fastest port in a network that is made for a configuration."""
    _open: ClassVar[list[Session]] = []

    def __init__(self) -> None:
        self.config: Config = {}
        self.plan = TestPlan()
        self.running: Generator | None = None
        """The running generator, or None if no port is configured."""
        self.link_layers: LinkLayers | None = None
        """The link layers of the ports, if the configuration has some."""
        self._own = ExitStack()
        self._made_for: tuple[Any, ...] | None = None
        """The speeds of ports, the MTU and the link layers of a network that was made here."""
        Session._open.append(self)

    @property
    def generator(self) -> Generator:
        if self.running is None:
            raise OtgError(["ports: there are none; call set_config first, with a port at least"])
        return self.running

    def set_config(self, config: Mapping[str, Any]) -> None:
        """Check a configuration, and carry it out from now on. A wrong one changes nothing."""
        self._carry_out(config, {})

    def _carry_out(self, config: Mapping[str, Any], switched: Mapping[str, LinkLayer]) -> None:
        """Carry a configuration out, with the link layers that a test has switched."""
        ports = read_ports(config)
        first = read_config(config, {})  # before a network is made for it
        fabric = self._network(ports, max(MTU, first.largest - _AROUND), {**first.link_layers, **switched})
        placed = places(fabric, ports) if ports else {}
        plan = read_config(config, {name: place.line for name, place in placed.items()})
        if not switched:
            for text in plan.warnings:  # few scripts look at what `set_config` returns
                warn(text)
        self._end()
        self.config, self.plan = dict(config), plan
        if plan.link_layers:
            from testbed.subjects.snappi.lab.link_layer import LinkLayers

            self.link_layers = LinkLayers(fabric, {**plan.link_layers, **switched}, placed)
        self.running = Generator(fabric, plan, placed) if ports else None

    def append_flows(self, flows: Sequence[Mapping[str, Any]]) -> None:
        self._set_flows([*self.config.get("flows", ()), *flows])

    def delete_flows(self, names: Sequence[str]) -> None:
        unknown = [name for name in names if self.plan.flow(name) is None]
        if unknown:
            raise OtgError([f"flows: there is no flow {name!r}" for name in unknown])
        self._set_flows([flow for flow in self.config.get("flows", ()) if flow["name"] not in names])

    def _set_flows(self, flows: list[Mapping[str, Any]]) -> None:
        self.set_config(self.config | {"flows": flows})

    def update_flows(self, names: Sequence[str], flows: Sequence[Mapping[str, Any]]) -> None:
        """Change rates or sizes of flows. Running flows go on with them."""
        changed, described = {}, {flow["name"]: dict(flow) for flow in self.config.get("flows", ())}
        for number, flow in enumerate(flows):
            plan = self.plan.flow(flow["name"])
            if plan is None:
                raise OtgError([f"flows.flows[{number}].name: there is no flow {flow['name']!r}"])
            line = self.generator.places[plan.tx_port].line
            changed[plan.name] = read_change(flow, f"flows.flows[{number}]", plan, list(names), line)
            described[plan.name] |= {name: flow[name] for name in names if name in flow}
        self.plan = replace(self.plan, flows=tuple(changed.get(flow.name, flow) for flow in self.plan.flows))
        self.config["flows"] = list(described.values())
        self.generator.change(self.plan, list(changed.values()))

    def control(self, control: Control) -> None:
        if control.what == "flows":
            self.generator.transmit(control.state, control.names)
        elif control.what == "capture":
            self.generator.capture(control.names, control.state == "start")
        elif control.what == "link":
            self.generator.set_link(control.names or tuple(self.plan.ports), control.state == "up")
        elif control.what in ("llr", "cbfc"):
            self._switch(control)
        elif control.what == "protocols":
            self.generator.protocols(control.state == "start")

    def _switch(self, control: Control) -> None:
        """Switch LLR, or the senders of credits, which a network has from its beginning."""
        layers = self.plan.link_layers
        assert self.link_layers is not None
        if control.what == "llr":
            self.link_layers.switch_llr(control.names, control.state)
            return
        wanted = dict(self.link_layers.layers)
        for port, layer in layers.items():
            if not control.names or layer.name in control.names:
                if layer.credits is None:
                    raise OtgError([f"ultra_ethernet.cbfc.ultra_ethernet_names: {layer.name} has no cbfc.sender"])
                wanted[port] = wanted[port].with_credits(control.state)
        if wanted == self.link_layers.layers:
            return
        if self.generator.is_sending:
            raise OtgError(
                ["ultra_ethernet.cbfc.state: traffic runs; credits begin with a new network, so stop it first"]
            )
        if self._made_for is None:
            raise OtgError(
                ["ultra_ethernet.cbfc.state: credits of this topology cannot be switched, as it is not the test's own"]
            )
        self._carry_out(self.config, wanted)

    def capture(self, wanted: CaptureRequest) -> bytes:
        """Return the capture of a port as a file."""
        capture = self.plan.captures[wanted.port]
        end = None if wanted.most is None else wanted.first + wanted.most
        frames = [_with_fcs(frame, capture.octets) for frame in self.generator.captured(wanted.port)]
        out = io.BytesIO()
        if capture.is_pcapng:
            writer = Writer(out)
            number = writer.interface(Interface(wanted.port))
            for frame in frames[wanted.first : end]:
                writer.frame(number, frame.t_ns, frame.octets, frame.length)
        else:
            write_pcap(out, ((one.t_ns, one.length, one.octets) for one in frames[wanted.first : end]))
        return out.getvalue()

    def _network(self, ports: Mapping[str, TestPort], mtu: int, layers: Mapping[str, LinkLayer]) -> Fabric:
        """Return the running network, or make one for these ports."""
        running = Fabric.running()
        if running is not None and self._made_for is None:
            return running
        rates = [port.speed or DEFAULT_SPEED for port in ports.values()]
        by_port = [layers.get(name) for name in ports] if layers else []
        # Counters of a link layer begin with its network
        if running is None or layers or (rates, mtu, by_port) != self._made_for:
            self.close()
            scale = max(1, max(rates).bps // self.line.bps) if rates else 1
            topo = OneSwitch(rates, mtu, by_port, scale=scale)
            running = self._own.enter_context(network(topo)).fabric
            self._made_for = rates, mtu, by_port
        return running

    def _report(self, generator: Generator, run: Run) -> None:
        generator.count()
        for name in self.plan.ports:
            run.figure_of_each(f"{name}: frames sent", sum(tally.frames for tally in generator.sent_by_port(name)))
            run.figure_of_each(f"{name}: frames received", generator.tallies.received[f"port {name}"].frames)
        for flow in self.plan.flows:
            if flow.counting is not None:
                sent, received = generator.flow_tallies(flow.name)
                run.figure_of_each(f"{flow.name}: frames sent", sent.frames)
                run.figure_of_each(f"{flow.name}: frames received", received.frames)

    def _end(self) -> None:
        if self.running is not None:
            self.running.close()
            self.running = self.link_layers = None

    @classmethod
    def close_all(cls) -> None:
        """Close the sessions that scripts have left open."""
        while cls._open:
            cls._open.pop().close()

    def close(self) -> None:
        """End the generator, and the network if it was made here. The last counters are in the run's figures."""
        if self.running is not None and (run := Run.current()) is not None:
            self._report(self.running, run)
        self._leave()

    def _leave(self) -> None:
        self._end()
        self._own.close()
        self._made_for = None


def _with_fcs(frame: Tapped, most: int | None) -> Tapped:
    """Return a frame as it was on the wire, with its FCS, or only its first octets if the capture has no more."""
    whole = frame.octets
    if len(whole) == frame.length:
        whole += crc32(whole).to_bytes(4, "little")
    return replace(frame, length=frame.length + FCS, octets=whole[: most or None])
