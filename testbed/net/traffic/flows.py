"""Runs flows: starts the endpoints of their transports in the hosts' namespaces, all at one moment, and collects what
they counted.
"""

from __future__ import annotations

import gc
import random
import selectors
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from multiprocessing import connection
from typing import Any, Literal, TypeVar

from testbed.errors import listed, warn
from testbed.experiment.output import FLOW_LOG
from testbed.experiment.run import Run
from testbed.linux.flow_device import address_of
from testbed.linux.netlink.qdiscs import WIRE_OVERHEAD
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import Ending, ForkedHelper
from testbed.linux.process.observing import observing
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.ports import PortState
from testbed.net.traffic.demand import asked_of, demand
from testbed.net.traffic.flow import Flow, FlowError
from testbed.net.traffic.mismatches import mismatches
from testbed.net.traffic.report import Report, log_ways, logged
from testbed.net.traffic.transport import (
    BEGIN_NS,
    IS_READY,
    LISTENS,
    MAY_CONNECT,
    MAY_SEND,
    MUST_REPORT,
    Endpoint,
    EndpointControl,
    Line,
    Outcome,
    Shared,
    Transport,
    kernels,
)
from testbed.units import Duration, Rate, Scale

_POLL_S, _READY_POLL_S, _STALL_S = 0.02, 0.001, 10
_LEAD_NS = 20_000_000
_SETTLE = Duration("20s")
_UNKNOWN = Rate("4Gb/s") * 1000
"""The line of a host without a lossless port: no sender waits for it."""

End = Literal["sent", "received"]
R = TypeVar("R", bound=Report)


def _queue(flow: Flow) -> tuple[str, int, int]:
    """Return the host, priority and DSCP of a flow, which decide in which queue of the host its frames wait."""
    return flow.source.name, flow.priority, flow.ds_field >> 2


def _open(endpoint: Endpoint) -> None:
    try:
        with kernel.in_network_of(endpoint.node.pid):
            endpoint.open()
    except OSError as error:
        raise FlowError(f"flow at {endpoint.place}: {error}") from None


class _Process:
    """A started endpoint, and what it has reported so far."""

    def __init__(self, endpoint: Endpoint, place: int, shared: Shared) -> None:
        self.endpoint = endpoint
        self.reports: dict[tuple[End, int], Any] = {}
        self._helper = ForkedHelper[Any](
            f"flow at {endpoint.place}", partial(self._body, shared, place), connection.Pipe(duplex=False),
            Ending.IS_KILLED, error=FlowError,
            killed=f"flow at {endpoint.place}: its process was killed, so what it counted is not known",
        )  # fmt: skip
        self.reader = self._helper.pipe

    def _body(self, shared: Shared, place: int, writer: Any) -> None:
        gc.freeze()  # or the collector would write to all objects of the parent's, and each page of them be copied
        random.seed()  # a transport of a plugin may draw from it
        kernel.enter_network_of(self.endpoint.node.pid)
        self.endpoint.run(EndpointControl(shared, place, writer))

    def take(self) -> None:
        """Wait for one message of the endpoint and keep its reports; a failure of the endpoint is an error here."""
        end, outcomes = self._helper.receive()
        self.reports.update(((end, index), outcome) for index, outcome in outcomes.items())

    def has_sent(self) -> bool:
        """Return True if all flows that the endpoint sends have finished."""
        return all(("sent", index) in self.reports for index in self.endpoint.sends)

    def has_received(self) -> bool:
        """Return True if the endpoint has reported all flows that it receives."""
        return all(("received", index) in self.reports for index in self.endpoint.receives)

    def end(self) -> None:
        self._helper.stop()


class Flows:
    """Running flows; `with Flows(...) as flows` starts them, and the end of the block stops and counts them.

    The time from their begin to the end of the block counts for the run's fidelity, unless the experiment marks the
    part that counts with `run.measuring()`.
    """

    def __init__(self, flows: Sequence[Flow], settle: Duration | str | None = None, first: int = 0) -> None:
        """`settle`: how long to wait at the end for what is still on its way, at most; by default 20 s of the lab, or
        four times the delay of the longest cable if that is more.

        `first`: the number of the first flow. Ports of hosts are chosen by these numbers, so that of several `Flows` at
        one time each has others.
        """
        self._first = first
        fabric = FabricCore.current()
        ports, rates = fabric.ports.by_node(), dict[str, Rate]()
        self._flows: list[Flow] = []
        self._scales: list[Scale] = []
        for flow in flows:
            source, scale = fabric.ports.node(flow.source), Scale(1)
            if own := ports.get(source.name):
                fastest = max(own, key=lambda port: port.lab_cable.rate)
                scale, line = fastest.units, fastest.lab_cable.rate
                flow.check_line(scale.real(line))
                rates[source.name] = line
            self._flows.append(flow.in_lab(scale, source, fabric.ports.node(flow.target)))
            self._scales.append(scale)
        self._make_parts()
        slowest = max(self._scales, key=lambda scale: scale.k, default=Scale(1))
        far = max((port.lab_cable.delay.ns for own in ports.values() for port in own), default=0)
        by_default = Duration.from_ns(max(_SETTLE.ns, 4 * far))
        self._settle = by_default if settle is None else slowest.lab(Duration(settle))
        by_transport: dict[type[Transport], dict[int, Flow]] = {}
        for index, flow in enumerate(self._parts, first):
            by_transport.setdefault(type(flow.transport), {})[index] = flow
        self._kernels = kernels()
        self._arriving = [place for place, flow in enumerate(self._parts) if self._kernels.has(flow.target.name)]
        """The places in `_parts` of the flows that arrive in this kernel."""
        self._endpoints = [
            one
            for kind, chosen in by_transport.items()
            for one in kind.endpoints(chosen)
            if self._kernels.has(one.node.name)
        ]
        for kind, chosen in by_transport.items():
            whole = {index: flow for index, flow in chosen.items() if index < first + len(self._flows)}
            for text in kind.warnings(whole):
                warn(text)
        for text in mismatches(self._flows):
            warn(text)
        queues = list(dict.fromkeys(map(_queue, self._flows)))
        self._shared = Shared(len(self._endpoints), len(self._parts), len(queues), first)
        lines = {
            queue: Line(
                rates.get(queue[0], _UNKNOWN),
                self._shared.lines[place : place + 1],
                self._shared.first_line + place,
            )
            for place, queue in enumerate(queues)
        }
        for endpoint in self._endpoints:
            endpoint.lines = {index: lines[_queue(flow)] for index, flow in enumerate(self._parts, first)}
        self._processes: list[_Process] = []
        self._mark = ExitStack()
        self._ways: list[list[PortState]] = []
        """The ports by which the frames of each flow leave each node; only a run, which logs them, needs them."""
        self.begin_lab_ns = 0
        """The moment by the lab's clock from which `Flow.start` counts, for all hosts and transports: all endpoints are
        ready by then, and all connections made whose flows do not ask for them at their start, with nothing of that in
        any queue.
        """
        self.log: list[dict[str, Any]] = []
        """The lines of the flows in the run's log of flows, when the block has ended."""
        self.reports: list[Report] = []
        """The report of each flow, in the order of the flows; empty until the block has ended."""

    def _make_parts(self) -> None:
        """Make the flows of the endpoints: one of each flow in the same order, and behind them all further ones."""
        run = Run.current()
        parts = [list(flow.transport.parts(flow)) for flow in self._flows]
        self._parts = [first for first, *_ in parts]
        self._places: list[list[int]] = []
        """The places in `_parts` of the parts of each flow."""
        for place, (_, *others) in enumerate(parts):
            self._places.append([place, *range(len(self._parts), len(self._parts) + len(others))])
            self._parts += others
        seed = run.seed if run else 1
        self._parts = [flow.with_drawn_port(seed, index) for index, flow in enumerate(self._parts, self._first)]

    def __enter__(self) -> Flows:
        words = self._shared.words
        words[MAY_SEND] = 1
        try:
            for endpoint in self._endpoints:
                _open(endpoint)
            with kernel.interrupts_blocked():  # Ctrl-C is for this process, which then collects the reports
                for place, endpoint in enumerate(self._endpoints):
                    self._processes.append(_Process(endpoint, place, self._shared))
        finally:
            for endpoint in self._endpoints:
                for socket in endpoint.sockets:
                    socket.close()
        self._meet("flows are to connect", LISTENS)
        self._shared.tell(MAY_CONNECT, True)
        # Twice: an endpoint that takes connections does not know of one that is to come. But when all that ask for some
        # have the answer, it does.
        self._meet("flows are connected", IS_READY)
        self.begin_lab_ns = self._meet("flows begin", IS_READY) + _LEAD_NS
        self._shared.tell(BEGIN_NS, self.begin_lab_ns)
        self._tell(self.begin_lab_ns)
        if fabric := FabricCore.running():
            fabric.flows.begin(self)
        if run := Run.current():
            self._mark.enter_context(run.traffic_is_running())
        return self

    def _meet(self, what: str, state: int) -> int:
        """Wait until all endpoints in all parts of the network are in a state; the moment at which all parts know."""
        while not all(
            state <= self._shared.states[place] or one.reader.poll() for place, one in enumerate(self._processes)
        ):
            time.sleep(_READY_POLL_S)
        return self._kernels.meet(what)

    def _bring_counts(self) -> None:
        """Have what the flows of all parts of the network have sent and received by now."""
        if self._shared.told:
            ends = [(flow.source.name, flow.target.name) for flow in self._parts]
            self._kernels.bring_flow_counts(ends, self._shared.sent, self._shared.received)

    def __exit__(self, *failure: object) -> None:
        self._mark.close()
        if run := Run.current():
            run.demands(id(self), None)
        fabric = FabricCore.running()
        try:
            if failure[0] is None:
                self.reports = self._finish()
                with observing() if self._kernels.many == 1 else nullcontext():
                    self._remark()
                if fabric:
                    fabric.flows.lost += sum(report.lost for report in self.reports)
                if run:
                    ended = enumerate(zip(self._flows, self.reports, self._ways, strict=True), self._first)
                    self.log = [logged(index, *one) for index, one in ended]
                    log_ways(FabricCore.current(), self._parts[: len(self.log)], self.reports, self.log)
                    run.lines_at_end(FLOW_LOG, self.log)
        finally:
            if fabric:
                fabric.flows.end(self)
            for process in self._processes:
                process.end()
            self._shared.close()

    def _remark(self) -> None:
        for kind in dict.fromkeys(type(flow.transport) for flow in self._flows):
            both = zip(self._flows, self.reports, strict=True)
            for text in kind.remarks([one for one in both if isinstance(one[0].transport, kind)]):
                warn(text)

    def _tell(self, begin_ns: int) -> None:
        """Tell the run what these flows ask for, for the forecast on the user's machine."""
        if run := Run.current():
            ports = FabricCore.current().ports
            self._ways = [ports.way(flow.source.name, flow.target.name) for flow in self._flows]
            asked = [asked_of(flow, way) for flow, way in zip(self._flows, self._ways, strict=True)]
            run.demands(id(self), demand(begin_ns, asked))

    def wait(self) -> None:
        """Wait until every flow has sent all of its data."""
        self._take_until_sent(None)
        self._bring_counts()

    @property
    def sent(self) -> int:
        """The datagrams that all flows have sent so far, or what else their transports count."""
        return self._sum("sent")

    @property
    def received(self) -> int:
        """The datagrams that all flows have received so far, or what else their transports count."""
        return self._sum("received")

    @property
    def lost(self) -> int:
        """The datagrams of all flows that were sent and did not arrive; 0 until the flows have ended."""
        return sum(report.lost for report in self.reports)

    @property
    def worst_delay(self) -> Duration:
        """The longest time from a datagram's departure to its arrival, over all flows."""
        return max((report.worst_delay for report in self.reports), default=Duration.from_ns(0))

    @property
    def completion(self) -> Duration:
        """The longest time from the moment when a flow was to begin to the arrival of its last datagram."""
        return max((report.completion for report in self.reports), default=Duration.from_ns(0))

    def reports_of(self, kind: type[R]) -> list[R]:
        """Return the reports of a class, such as `RoceReport`, by the flows; empty until the block has ended."""
        return [report for report in self.reports if isinstance(report, kind)]

    def _sum(self, name: str) -> int:
        if self.reports:
            return sum(getattr(report, name) for report in self.reports)
        self._bring_counts()
        return sum(getattr(self._shared, name)[: len(self._parts)])

    def sent_by(self, index: int = 0) -> int:
        """Return the datagrams that a flow has sent so far, or what else its transport counts."""
        self._bring_counts()
        return sum(self._shared.sent[place] for place in self._places[index])

    def received_by(self, index: int = 0) -> int:
        """Return the datagrams of a flow that have arrived so far, or what else its transport counts.

        Receivers of UDP look every 20 ms, except on `um`, where the kernel counts.
        """
        self._bring_counts()
        return sum(self._shared.received[place] for place in self._places[index])

    def counters(self) -> list[tuple[str, int, list[int]]]:
        """Return a name, the octets of a full frame on the wire and where in this process's memory the frames received
        are counted, for each flow to here.
        """
        at = address_of(self._shared.memory) + 8 * self._shared.first_received
        return [
            (f"{flow.source.name} to {flow.target.name} p{flow.priority}", flow.frame.bytes + WIRE_OVERHEAD,
             [at + 8 * place for place in self._places[index]])
            for index, flow in enumerate(self._flows)
            if flow.transport.name != "tcp" and self._kernels.has(flow.target.name)  # TCP counts octets, at its end
        ]  # fmt: skip

    def stop_sending(self) -> None:
        self._shared.tell(MAY_SEND, False)

    def _take_until_sent(self, deadline: float | None) -> None:
        """Take reports until all senders have finished, or a moment of the monotonic clock; a failure of any endpoint,
        also of one that only receives, is an error here. Without such a moment flows that do not move are warned of.
        """
        moved, is_told = self._moved(), deadline is not None
        unfinished = {process for process in self._processes if not process.has_sent()}
        with selectors.DefaultSelector() as waiting:
            for process in self._processes:
                waiting.register(process.reader, selectors.EVENT_READ, process)
            while unfinished:
                left = (None if is_told else _STALL_S) if deadline is None else max(0.0, deadline - time.monotonic())
                readable = waiting.select(left)
                if not readable and deadline is not None:
                    return  # a sender that was stopped in the middle: its queue does not move
                if not readable:
                    before, moved = moved, self._moved()
                    is_told = moved == before and self._tell_stalled()
                for key, _ in readable:
                    key.data.take()
                    if key.data.has_sent():
                        unfinished.discard(key.data)

    def _moved(self) -> list[int]:
        """Return what has been sent and received so far, of each flow."""
        many = len(self._parts)
        return [*self._shared.sent[:many], *self._shared.received[:many]]

    def _tell_stalled(self) -> bool:
        """Warn of flows that are not at their end and do not move, with what their transports know of the reason."""
        ended = {index for process in self._processes for end, index in process.reports if end == "sent"}
        now = time.monotonic_ns() - self.begin_lab_ns
        late = [
            flow
            for index, flow in enumerate(self._parts, self._first)
            if index not in ended and flow.start.ns < now and self._kernels.has(flow.source.name)
        ]
        told = False
        for kind in dict.fromkeys(type(flow.transport) for flow in late):
            waiting = [flow for flow in late if isinstance(flow.transport, kind)]
            if why := kind.stalled(waiting):
                whose = listed([f"{flow.source.name} to {flow.target.name}" for flow in waiting], 4)
                warn(f"flows {whose} have not moved for {_STALL_S} s of the lab or more: {why}")
                told = True
        return told

    def _finish(self) -> list[Report]:
        self.stop_sending()
        deadline = time.monotonic() + self._settle.ns / 1e9
        self._take_until_sent(deadline)
        self._bring_counts()
        sent = sum(self._shared.sent[place] for place in self._arriving)
        quiet_since, before = time.monotonic(), -1
        while time.monotonic() < deadline:
            arrived = sum(self._shared.received[place] for place in self._arriving)
            if arrived >= sent:
                break
            if arrived != before:
                before, quiet_since = arrived, time.monotonic()
            elif time.monotonic() - quiet_since > self._settle.ns / 2e9:
                break
            time.sleep(_POLL_S)
        self._bring_counts()
        sent_by = [self._shared.sent[place] for place in range(len(self._parts))]
        self._shared.tell(MUST_REPORT, True)
        for process in self._processes:
            while not process.has_received():
                process.take()
        found: dict[tuple[str, int], Any] = {
            key: outcome for process in self._processes for key, outcome in process.reports.items()
        } | {("observed", index): outcome for index, outcome in self._shared.observed().items()}
        found = {
            key: outcome for one in self._kernels.exchange("what flows did", found) for key, outcome in one.items()
        }
        reports = [
            flow.transport.report(
                flow,
                Outcome(
                    sent_by[index - self._first],
                    found.get(("sent", index)),
                    found["received", index],
                    self.begin_lab_ns + flow.start.ns,
                    found.get(("observed", index)),
                ),
            )
            for index, flow in enumerate(self._parts, self._first)
        ]
        return [
            flow.transport.joined(flow, [reports[place] for place in places]).in_hardware(scale)
            for flow, places, scale in zip(self._flows, self._places, self._scales, strict=True)
        ]


@contextmanager
def flowing(*flows: Flow) -> Iterator[Flows]:
    """Run flows for as long as the block lasts."""
    with Flows(flows) as running:
        yield running
