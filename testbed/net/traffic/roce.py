"""Transport `roce`: reliable RoCEv2 connections, with a rate control that answers congestion. Only the lab can run it.

Each flow is a connection of its own. Its data go from source to target: by writes or sends that the source asks for, or
by reads that the target asks for. The connections are made before the flows begin; a flow that begins before its
connection is ready waits for it. What the target receives is checked by SHA-256.

CNPs have a priority and DSCP of their own. A rate control of the flow's source is a name of `testbed.roce.rates`, a
class, or a function, for example of one's own experiment file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError, listed
from testbed.net.fabric.fabric import Fabric
from testbed.net.traffic.report import Report
from testbed.net.traffic.transport import Endpoint, Outcome, Transport, register
from testbed.roce import rates
from testbed.roce.rates import Line
from testbed.roce.requester import Operation
from testbed.roce.settings import Settings
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Size

if TYPE_CHECKING:
    from testbed.net.traffic.flow import Flow


@dataclass(frozen=True)
class Roce(Transport):
    """How a flow uses RoCE."""

    name = "roce"
    frame = "1098B"  # 1024 octets of payload in the first packet of a write

    operation: str = "write"
    """"write", "send" or "read"."""
    message: Size = Size("64kB")
    """A flow is a row of messages of this size; the next is posted while one is being sent. A flow with
    a duration sends to its end what has been posted."""
    settings: Settings = field(default_factory=Settings)
    cnp_priority: int = 6
    cnp_dscp: int = 48
    after: tuple[int, ...] = ()
    """Flows, by their place among all, that this one waits for: block m of it is sent when its source has received
    block m - `lag` of each. A block is a message."""
    lag: int = 0
    sample: Duration | None = None
    """Record the rate control's state at this interval of lab time."""

    def check(self, flow: Flow) -> None:
        try:
            Operation(self.operation)
        except ValueError:
            raise UsageError(f"operation is {self.operation!r}; RoCE has {', '.join(map(str, Operation))}") from None
        if flow.frame != Size(self.frame):
            raise UsageError(f"frame is {flow.frame}; transport roce takes Roce(settings=Settings(mtu=...)) instead")
        if flow.rate is not None and flow.rate_control not in (None, "fixed"):
            raise UsageError(f"rate is {flow.rate}, and rate_control {flow.rate_control!r} has its own")
        if flow.rate_control is not None:
            rates.maker_of(flow.rate_control)
        if self.after and self.operation == Operation.READ:
            raise UsageError("a read waits for no other flow: the target asks for it, and others arrive at the source")
        if not self.message.bytes:
            raise UsageError("message is 0B; a message has at least one octet")
        for name, value, most in (("cnp_priority", self.cnp_priority, 7), ("cnp_dscp", self.cnp_dscp, 63)):
            if type(value) is not int or not 0 <= value <= most:
                raise UsageError(f"{name} is {value!r}; 0 to {most} is expected")

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        """One for each host that is a source or a target."""
        from testbed.net.traffic.roce_endpoint import RoceEndpoint

        if len({flow.transport.settings for flow in flows.values() if isinstance(flow.transport, cls)}) > 1:
            raise UsageError("RoCE flows that run together have the same Roce(settings=...); these have different ones")
        for index, flow in flows.items():
            assert isinstance(flow.transport, cls)
            for other in flow.transport.after:
                if other not in flows or flows[other].target is not flow.source:
                    raise UsageError(
                        f"flow {index} from {flow.source.name} waits for flow {other}, which no RoCE flow to "
                        f"{flow.source.name} is"
                    )
        nodes = {flow.source.name: flow.source for flow in flows.values()}
        nodes |= {flow.target.name: flow.target for flow in flows.values()}
        return [
            RoceEndpoint(
                node,
                flows,
                [index for index, flow in flows.items() if flow.source.name == name],
                [index for index, flow in flows.items() if flow.target.name == name],
            )
            for name, node in nodes.items()
        ]

    @classmethod
    def warnings(cls, flows: Mapping[int, Flow]) -> Sequence[str]:
        """Name the rate controls that go by marks where no port marks."""
        return without_marks([flow for flow in flows.values() if flow.rate_control not in (None, "fixed")])

    def report(self, flow: Flow, outcome: Outcome) -> Report:
        taken: Taken = outcome.receiver
        given: Given = outcome.sender or Given()
        return RoceReport(
            sent=outcome.sent,
            received=taken.packets,
            lost=0 if taken.packets >= outcome.sent or given.failure else outcome.sent - taken.packets,
            doubled=taken.doubled,
            out_of_order=taken.out_of_order,
            ecn=taken.ecn,
            octets=taken.frame_octets,
            first_ns=taken.first_ns,
            last_ns=taken.last_ns,
            worst_delay_ns=0,
            windows=taken.windows,
            begin_ns=outcome.begin_ns,
            size=Size.from_bytes(taken.octets),
            intact=bool(taken.digest) and taken.digest == taken.expected,
            retransmitted=given.retransmitted,
            went_back=given.went_back + taken.went_back,
            timeouts=given.timeouts + taken.timeouts,
            cnps_sent=taken.cnps,
            cnps_received=given.cnps,
            failure=given.failure or taken.failure,
            samples=given.samples,
        )


@dataclass(frozen=True)
class Given:
    """What the source of a flow counted."""

    retransmitted: int = 0
    went_back: int = 0
    timeouts: int = 0
    cnps: int = 0
    failure: str = ""
    samples: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Taken:
    """What the target of a flow counted."""

    packets: int = 0
    octets: int = 0
    frame_octets: int = 0
    digest: str = ""
    expected: str = ""
    doubled: int = 0
    out_of_order: int = 0
    ecn: tuple[int, ...] = (0, 0, 0, 0)
    first_ns: int = 0
    last_ns: int = 0
    windows: tuple[int, ...] = ()
    cnps: int = 0
    failure: str = ""
    went_back: int = 0
    timeouts: int = 0


@dataclass(frozen=True)
class RoceReport(Report):
    """What became of a flow; `sent` and `received` count packets of data once, however often they were sent."""

    size: Size = Size("0B")
    """What the target has received of the data, in order and without headers."""
    intact: bool = False
    """Has all of it the SHA-256 that it had at the source?"""
    retransmitted: int = 0
    went_back: int = 0
    """How often the requester went back to an earlier packet."""
    timeouts: int = 0
    cnps_sent: int = 0
    cnps_received: int = 0
    failure: str = ""
    samples: tuple[dict[str, Any], ...] = ()
    """`Roce.sample`: time, rate and what else the rate control has."""


def ds_field(flow: Flow) -> int:
    """DSCP as the flow has it; ECT(0) unless it asks for another field."""
    return flow.ds_field & ~3 | (Ecn.ECT_0 if flow.ecn is None else flow.ecn)


def line_of(node: Any) -> Line:
    """The line of a host that has RoCE flows."""
    for port in Fabric.current().ports.values():
        if port.node is node:
            return Line(port.cable.rate, port.scale)
    raise UsageError(f"{node.name} has no lossless port, as hosts of a LosslessTopo have; transport roce needs one")


def without_marks(flows: Sequence[Flow]) -> list[str]:
    """Return a warning for each priority and rate control that goes by marks, if nothing marks the packets."""
    fabric = Fabric.current()
    made: dict[tuple[int, Line], rates.RateControl] = {}
    concerned: dict[tuple[str, int | None], list[Flow]] = {}
    silent: dict[tuple[str, int | None], dict[str, None]] = {}
    for flow in flows:
        line = line_of(flow.source)
        if (id(flow.rate_control), line) not in made:
            made[id(flow.rate_control), line] = rates.control(flow.rate_control, line)
        control, ds = made[id(flow.rate_control), line], ds_field(flow)
        if not control.needs_marks or ds & 3 == Ecn.CE:
            continue
        name = flow.rate_control if isinstance(flow.rate_control, str) else type(control).__name__
        found = None
        if ds & 3 != Ecn.NOT_ECT:
            found = fabric.unmarked(flow.source.name, flow.target.name, flow.priority, ds)
            if found is None:
                continue
        key = name, None if found is None else found.priority
        concerned.setdefault(key, []).append(flow)
        silent.setdefault(key, {}).update((port.name, None) for port in (found.ports if found else ()))
    return [_without_marks(*key, flows, list(silent[key])) for key, flows in concerned.items()]


def _without_marks(name: str, priority: int | None, flows: Sequence[Flow], ports: Sequence[str]) -> str:
    whose = listed([f"{flow.source.name} to {flow.target.name}" for flow in flows], 4)
    begin = f"rate control {name} of the flow from {whose}" if len(flows) == 1 else f"rate control {name} of {whose}"
    begin = f"{begin} slows down by marks alone, and will not: "
    if priority is None:
        return f"{begin}with ecn={int(Ecn.NOT_ECT)} nothing may mark the packets; leave ecn out"
    if not ports:
        return f"{begin}there is no switch on the way, so nothing marks"
    return (
        f"{begin}no port on the way marks priority {priority}: {listed(ports, 8)}. A curve at these ports does it, as "
        f'in Port(ecn={{{priority}: EcnCurve("40kB", "160kB", "20%")}})'
    )


register(Roce())
