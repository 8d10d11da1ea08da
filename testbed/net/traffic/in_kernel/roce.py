"""Hosts whose RoCE queue pairs the kernel serves, and the process that makes their connections and reports.

Only the kernel of the engine `um` can do that, and only with rate controls that it has or that have code
(`testbed.net.traffic.in_kernel.control`); otherwise `testbed.net.traffic.roce_endpoint` does all of it. Connection
management is the same in both. When a connection has been made, the kernel gets its queue pair with the flow, and from
then on the process only looks at what has been sent and received. If it is killed, the kernel ends all queue pairs of
its hosts: nothing is sent any more, and the far ends retry until they give up.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from typing import Any

from testbed.bytecode.values import Refusal
from testbed.frames.roce import Service
from testbed.frames.roce_cm import DATAGRAM_KEY
from testbed.linux import roce_device
from testbed.linux.flow_device import NOWHERE
from testbed.linux.process import kernel
from testbed.linux.roce_device import C, ControlCode, PairReport, RoceDevice, Wait, ends
from testbed.net.traffic.in_kernel.control import rate_in_kernel
from testbed.net.traffic.roce_connections import FAST_SEND_BUFFER, SEND_BUFFER, Connections, not_sent, open_listener
from testbed.net.traffic.roce_flow import (
    COMPARED,
    KEY,
    Given,
    Taken,
    cnp_ds_field,
    ds_field,
    far_ds_field,
    far_priority,
    label_of,
    maker_of_source,
    nic_timing,
    report_sent,
    transport_of,
    used,
)
from testbed.net.traffic.transport import EndpointControl
from testbed.roce import in_kernel, rates
from testbed.roce.control.rate_code import Code
from testbed.roce.counters import Counters
from testbed.roce.memory import content_block
from testbed.roce.queue_pair import QueuePair, State, ahead_ns
from testbed.roce.settings import CnpModeration, CnpScope, Timing
from testbed.roce.work import Operation
from testbed.units import NEVER

_LONGEST = 8192
_GATHERS_S = 0.002
"""The time for which a host that makes connections lets datagrams gather after the first one."""
_OPERATIONS = {
    Operation.WRITE: roce_device.WRITE,
    Operation.READ: roce_device.READ,
    Operation.SEND: roce_device.SEND,
    Operation.COMPARE_SWAP: roce_device.COMPARE_SWAP,
    Operation.FETCH_ADD: roce_device.FETCH_ADD,
}


def serve(hosts: Sequence[KernelHost], session: EndpointControl) -> None:
    """Make the connections of the flows of some hosts, and report; this process is in the network of the first one."""
    with ExitStack() as devices:
        for place, host in enumerate(hosts):
            if place:
                kernel.enter_network_of(host.node.pid)
            host.open(session, devices)
        session.listen()
        for host in hosts:
            host.connect()
        has_begun = False
        awaited = [descriptor for host in hosts for descriptor in host.awaited]
        readable = [host.listener.fileno() for host in hosts]
        while session.receiving:
            for host in hosts:
                host.turn(session, readable)
            if not has_begun:
                session.ready(all(host.is_settled for host in hosts))
                if begin_ns := session.begins_ns:
                    has_begun = True
                    for host in hosts:
                        host.begin(begin_ns, session)
            full = [host.manager.socket for host in hosts if host.manager.waiting]
            readable = kernel.wait_readable([*awaited, *session.changes], writable=full)
            if not has_begun:
                time.sleep(_GATHERS_S)
        for host in hosts:
            host.report_rest(session)
        session.received({index: taken for host in hosts for index, taken in host.taken().items()})


class KernelHost(Connections):
    """A host with the queue pairs in the kernel."""

    def _prepare(self) -> None:
        super()._prepare()
        self._codes: dict[int, Code] = {}
        """The code of the rate controls of flows from here that the kernel has not by itself."""
        self._plans = {(index, True): self._plan(index, is_source=True) for index in self.sources}
        """The queue pairs of the flows at their sources (True) and targets, but for what their connections decide."""
        self._plans |= {(index, False): self._plan(index, is_source=False) for index in self.targets}

    def open(self, session: EndpointControl, devices: ExitStack) -> None:
        """Open the sockets, in the host's network, and the device, which `devices` closes."""
        self.listener, self._timer = open_listener(is_ipv6=self.is_ipv6), kernel.Timer()
        self._timer_ns = NEVER
        self.manager = self.open_manager()
        self._device = devices.enter_context(closing(self._open_device(session)))
        self.awaited = [self.listener.fileno(), self._timer.fd, self._device.fd]
        """Descriptors of which one is readable if `turn` has something to do."""
        self._served: set[int] = set()
        self._places = session.places
        self._unfinished = list(self.sources)
        """The flows from here that have not come to their end; the last one may have."""
        self._is_stopped = False
        self._begin_ns = 0

    def begin(self, begin_ns: int, session: EndpointControl) -> None:
        """Have the kernel serve the queue pairs that are connected, and ask for the other connections in time."""
        self._begin_ns = begin_ns
        self.connect(begin_ns)
        self.turn(session, ())

    def turn(self, session: EndpointControl, readable: Collection[int]) -> None:
        """Do what there is to do."""
        if not session.sending and not self._is_stopped:
            self._is_stopped = True
            self._device.stop()
        timer, device = self._timer, self._device
        if timer.fd in readable:
            timer.clear()
        is_connecting = len(self._served) < len(self.index_of)
        if is_connecting or self.manager.waiting or timer.fd in readable or self.listener.fileno() in readable:
            self._manage(session)
        if self._begin_ns and (is_connecting or self._is_stopped or device.fd in readable):
            self._look(session)
        due_ns = self.host.management_deadline_ns
        if due_ns not in {self._timer_ns, NEVER}:
            timer.set(due_ns)
            self._timer_ns = due_ns

    def report_rest(self, session: EndpointControl) -> None:
        """Report the flows from here, unless that has been done."""
        if self._unfinished:
            self._report(session)

    def taken(self) -> dict[int, Taken]:
        """Return what was received of each flow that ends here."""
        return {index: self._taken(index) for index in self.targets}

    def _open_device(self, session: EndpointControl) -> RoceDevice:
        settings = self.settings
        return RoceDevice(
            self.listener,
            max(1, len(self.sources) + len(self.targets)),
            C.xr_settings(**in_kernel.settings(settings, Timing.of(settings, self.line.scale), self.host.rests)),
            content_block(),
            session.counters,
            first=self.host.first,
            is_per_priority=settings.cnp_scope is CnpScope.PRIORITY,
            moderation=list(CnpModeration).index(settings.cnp_moderation),
        )

    def _manage(self, session: EndpointControl) -> None:
        """Take the datagrams that the kernel leaves, serve connections that they have made, and send what is due."""
        now_ns = time.monotonic_ns()
        while True:
            try:
                datagram = self.listener.recv(_LONGEST)
            except BlockingIOError:
                break
            self.host.receive(datagram, 0, now_ns)
        if self._begin_ns and len(self._served) < len(self.index_of):
            for number in sorted(self.index_of.keys() - self._served):
                pair = self.host.queue_pairs[number]
                if pair.state is State.READY:
                    try:
                        self._device.add(*self._pair(pair), self._code(pair))
                    except OSError as error:
                        raise not_sent(error, pair.far_address) from None
                    self._served.add(number)
        if not self._begin_ns and not self.is_settled:
            session.ready(False)  # before anybody has what is sent here, and is ready itself
        self.manager.send(list(self.host.management(now_ns)))

    def _plan(self, index: int, *, is_source: bool) -> Any:
        """Describe the queue pair of a flow, as far as it is known before there is a connection.

        It is made before this process is forked, like all that is: afterwards each page that is touched is copied.
        """
        flow = self.flows[index]
        transport = transport_of(flow)
        is_asker = is_source != (transport.operation == Operation.READ)
        maker = maker_of_source(flow) if is_source else rates.maker_of("fixed")
        rate = rate_in_kernel(maker(self.line))
        assert not isinstance(rate, Refusal)  # or another loop would serve the host (roce_endpoint)
        if rate.code is not None:
            self._codes[index] = rate.code
        content = self.sources[index].content if is_source else self.targets[index].content
        usual = FAST_SEND_BUFFER if ahead_ns(self.line, self.settings.mtu) else SEND_BUFFER
        nic = nic_timing(flow, index, self.line.scale, at_source=is_source)
        return C.xr_add(
            priority=flow.priority if is_source else far_priority(flow),
            ds_field=ds_field(flow) if is_source else far_ds_field(flow),
            cnp_priority=transport.cnp_priority,
            cnp_ds_field=cnp_ds_field(transport),
            buffer=flow.buffer.bytes if flow.buffer else usual,
            roles=(roce_device.IS_SOURCE if is_source else roce_device.IS_TARGET) | roce_device.IS_ASKER * is_asker,
            region=self._region(index, is_source),
            operation=_OPERATIONS[Operation(transport.operation)],
            lag=transport.lag,
            has_immediate=transport.immediate is not None,
            immediate=transport.immediate or 0,
            content=content.start,
            message=transport.message.bytes,
            left=flow.size.bytes if flow.size else NEVER,
            messages=flow.count if flow.count is not None else NEVER,
            begin_ns=flow.start.ns,
            end_ns=flow.start.ns + flow.duration.ns if flow.duration else NEVER,
            sample_ns=transport.sample.ns if transport.sample and is_source else 0,
            line_bps=self.line.rate.bps,
            nic=C.xr_nic(**nic.numbers()),
            service=list(Service).index(Service(transport.service)),
            q_key=DATAGRAM_KEY,
            rate=roce_device.rate(rate.kind, rate.numbers),
        )

    def _pair(self, pair: QueuePair) -> tuple[Any, Sequence[Wait]]:
        """Describe a queue pair whose connection has been made, its flow, and the flows that this one waits for."""
        index = self.index_of[pair.number]
        is_source = index in self.sources and self.sources[index].pair is pair
        plan = self._plans[index, is_source]
        assert pair.far_path is not None  # the connection has been made
        (far_key,) = KEY.unpack_from(pair.reply.ljust(KEY.size, b"\0"))
        sent_at, received_at = self._places(index)
        made = type(plan).from_buffer_copy(plan)
        made.number, made.far_number = pair.number, pair.responder.far_qp
        made.first, made.far_first = pair.first, pair.responder.expected
        for name, value in ends(self.host.address_to(pair.far_address), pair.far_address).items():
            setattr(made, name, value)
        made.flow_label = label_of(self.flows[index], pair)
        made.port, made.far_port = pair.path.source_port, pair.far_path.source_port
        made.far_key = far_key
        made.begin_ns += self._begin_ns
        made.end_ns = min(NEVER, made.end_ns + self._begin_ns)
        made.sent_at = sent_at if is_source else NOWHERE
        made.received_at = NOWHERE if is_source else received_at
        is_asker = made.roles & roce_device.IS_ASKER
        return made, [self._wait(other) for other in transport_of(self.flows[index]).after] if is_asker else []

    def _code(self, pair: QueuePair) -> ControlCode | None:
        """Return the code of a queue pair's rate control, if it has one."""
        index = self.index_of[pair.number]
        own = self._codes.get(index) if index in self.sources and self.sources[index].pair is pair else None
        if own is None:
            return None
        program = own.program
        return ControlCode(program.octets, program.cells, program.entries, program.stamps, own.frame)

    def _region(self, index: int, at_source: bool) -> int:
        return self.keys[index, at_source] - roce_device.FIRST_KEY

    def _wait(self, index: int) -> Wait:
        flow = self.flows[index]
        size = flow.size.bytes if flow.size else 0
        return Wait(self._region(index, False), transport_of(flow).message.bytes, size)

    def _look(self, session: EndpointControl) -> None:
        """Report the flows from here when all of them have come to their end: one message costs little, and hosts can
        have hundreds of flows."""
        self._device.look()
        if not self._unfinished:
            return
        while self._unfinished and self._is_over(self.sources[self._unfinished[-1]].pair, session):
            self._unfinished.pop()
        if not self._unfinished:
            self._report(session)

    def _is_over(self, pair: QueuePair | None, session: EndpointControl) -> bool:
        if pair is None:
            return False
        if pair.number in self._served:
            return self._device.has_ended(pair.number)
        return pair.state is State.FAILED or not session.sending

    def _report(self, session: EndpointControl) -> None:
        report_sent(session, {index: self._given(index) for index in self.sources})

    def _counted(self, pair: QueuePair | None) -> PairReport | None:
        return self._device.report(pair.number) if pair is not None and pair.number in self._served else None

    def _given(self, index: int) -> Given:
        source = self.sources[index]
        found = self._counted(source.pair)
        if found is None or source.pair is None:
            return source.given()
        own = self._codes.get(index)
        shown = own.program.shown if own else [(name, "float") for name in source.pair.rate.state()]
        samples = tuple(
            {"lab_ns": at_ns, "sent": sent}
            | {
                name: value if kind == "float" else int(value)
                for (name, kind), value in zip(shown, state, strict=False)
            }
            for at_ns, sent, state in found.samples
        )
        counters = Counters(**found.counters.values())
        failure = in_kernel.failure(found.failure, own.program if own else None)
        return Given(counters, failure, samples, in_kernel=True, used=used(source.flow, source.pair))

    def _taken(self, index: int) -> Taken:
        target = self.targets[index]
        found = self._counted(target.pair)
        if found is None:
            return target.taken()
        return Taken(
            Counters(**found.counters.values()),
            in_kernel.failure(found.failure),
            found.octets,
            COMPARED if found.is_as_expected else "",
            COMPARED,
            found.packets,
            found.frame_octets,
            found.ecn,
            found.first_ns,
            found.last_ns,
            found.windows,
        )
