"""The interface of transports, and their registry.

A transport is one module: a subclass of `Transport`, a subclass of `Endpoint`, and a call of `register`. A name in
`Flow(transport=...)` gives the default settings of a transport; an object of its class gives others. Those of Xoff
register themselves when the package `testbed.net.traffic` is imported, which names them.
"""

from __future__ import annotations

import fcntl
import io
import mmap
import os
import pickle
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from testbed.errors import UsageError, nearest
from testbed.linux.process import kernel
from testbed.linux.process.observing import observing
from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.parts import Parts
from testbed.net.fabric.ports import address_of
from testbed.net.traffic.report import WIRE_OCTETS
from testbed.units import Duration, Rate, Scale, Size

if TYPE_CHECKING:
    from testbed.net.traffic.flow import Flow
    from testbed.net.traffic.report import Report

T = TypeVar("T")

_MOST_PROCESSES = 8
"""The processes that all hosts have together whose flows of a transport the kernel serves; each part of a divided
network has its share."""
HEADERS = 42
"""Octets of Ethernet, IPv4 and UDP headers in a frame."""
_MORE_IN_IPV6 = 20
"""The octets by which a header of IPv6 is longer than one of IPv4."""
_LEAST_BUFFER = 4608
"""The kernel gives no socket less."""
_DESCRIPTION = 576
"""Octets that a socket counts at the least for a frame beside those of the frame: what the kernel keeps with it."""


MAY_CONNECT, BEGIN_NS, MAY_SEND, MUST_REPORT, _COUNTERS = range(5)
"""Words of the memory that all processes of a `Flows` share; from `_COUNTERS` on are the state of each endpoint, two of
each flow, what it has sent and received, and one of each line.
"""
LISTENS, IS_READY = 1, 2
"""States of an endpoint."""


class Shared:
    """The shared memory of one `Flows`."""

    def __init__(self, endpoints: int, flows: int, lines: int, first: int) -> None:
        self.first = first
        octets = 8 * (_COUNTERS + endpoints + 2 * flows + lines)
        self.memory = mmap.mmap(-1, -(-octets // mmap.PAGESIZE) * mmap.PAGESIZE)
        self.first_sent, self.first_received = _COUNTERS + endpoints, _COUNTERS + endpoints + flows
        self.first_line = self.first_received + flows
        self.words = memoryview(self.memory).cast("q")
        self.sent = self.words[_COUNTERS + endpoints :]
        self.received = self.sent[flows:]
        self.lines = self.received[flows:]
        self.states = self.words[_COUNTERS : _COUNTERS + endpoints]
        self.told = {word: os.eventfd(0) for word in range(_COUNTERS)}
        """A descriptor for each of the first words, which is readable once endpoints have been told of its change."""
        with observing():
            self._observed = os.memfd_create("observed")
            fcntl.fcntl(self._observed, fcntl.F_SETFL, os.O_APPEND)

    def tell(self, word: int, value: int) -> None:
        """Tell all endpoints the new value of a word."""
        self.words[word] = value
        if word in self.told:
            os.eventfd_write(self.told[word], 1)

    def close(self) -> None:
        for descriptor in self.told.values():
            os.close(descriptor)
        if self.told:
            with observing():
                os.close(self._observed)
        self.told.clear()

    def observe(self, outcomes: Mapping[int, Any]) -> None:
        """Keep what an endpoint has sampled of some flows. It may be much: to send it would take the lab's time."""
        with observing():
            os.write(self._observed, pickle.dumps(dict(outcomes)))

    def observed(self) -> dict[int, Any]:
        """Return what all endpoints have sampled."""
        found: dict[int, Any] = {}
        with observing():
            file = io.BytesIO(os.pread(self._observed, os.fstat(self._observed).st_size, 0))
        while file.tell() < len(file.getbuffer()):
            found.update(pickle.load(file))
        return found


class EndpointControl:
    """The link between a running endpoint, in its own process, and the process that started the flows."""

    def __init__(self, shared: Shared, place: int, writer: Any) -> None:
        self._shared, self._words, self._place, self._writer = shared, shared.words, place, writer
        self._sent, self._received = shared.sent, shared.received

    def listen(self) -> None:
        """State that the endpoint takes connections from now on, and wait until all others do. Who asks for connections
        before the flows begin calls this before, and `ready` when they are made."""
        self._shared.states[self._place] = LISTENS
        if not self._words[MAY_CONNECT]:
            kernel.wait_readable([self._shared.told[MAY_CONNECT]])

    def ready(self, is_so: bool = True) -> None:
        """State that the endpoint can send and receive from now on, with no connection being made; False: not now."""
        self._shared.states[self._place] = IS_READY if is_so else LISTENS

    def begin_ns(self) -> int:
        """Wait until all endpoints are ready; when the flows begin, of the monotonic clock. Their `start` is later."""
        if not self.begins_ns:
            kernel.wait_readable([self._shared.told[BEGIN_NS]])
        return self.begins_ns

    @property
    def begins_ns(self) -> int:
        """What `begin_ns` returns, without waiting; 0 as long as it is not known."""
        return self._words[BEGIN_NS]

    @property
    def sending(self) -> bool:
        """False from when senders have to stop."""
        return bool(self._words[MAY_SEND])

    @property
    def receiving(self) -> bool:
        """False from when receivers have to report what they have."""
        return not self._words[MUST_REPORT]

    @property
    def changes(self) -> Sequence[int]:
        """Descriptors of which one gets readable when `begins_ns` is known, another when `sending` becomes False, and
        one when `receiving` does, and stay so; those of what has happened are left out."""
        are_to_come = {BEGIN_NS: not self.begins_ns, MAY_SEND: self.sending, MUST_REPORT: True}
        return [self._shared.told[word] for word, is_to_come in are_to_come.items() if is_to_come]

    @property
    def counters(self) -> mmap.mmap:
        """The memory that all endpoints and the process that started the flows share."""
        return self._shared.memory

    def places(self, index: int) -> tuple[int, int]:
        """Return the places of a flow's two counts in `counters`, in words of eight octets: sent, and received."""
        place = index - self._shared.first
        return self._shared.first_sent + place, self._shared.first_received + place

    def count_sent(self, index: int, units: int) -> None:
        """Tell how much of a flow has been sent so far, in the transport's unit, without retransmissions."""
        self._sent[index - self._shared.first] = units

    def count_received(self, index: int, units: int) -> None:
        """Tell how much of a flow has been received so far, in the transport's unit, without duplicates."""
        self._received[index - self._shared.first] = units

    def sent(self, outcomes: Mapping[int, Any]) -> None:
        """Tell that the senders of some flows have finished; what is given of each is for `Transport.report`."""
        self._writer.send(("sent", outcomes))

    def received(self, outcomes: Mapping[int, Any]) -> None:
        """Hand over the receivers' counters of some flows, after `receiving` has become False."""
        self._writer.send(("received", outcomes))

    def observed(self, outcomes: Mapping[int, Any]) -> None:
        """Hand over what was sampled of some flows, which takes none of the lab's time; before `sent` or `received`."""
        self._shared.observe(outcomes)


class Word(Protocol):
    """One number; in memory that processes share."""

    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


class Line:
    """The line of a host's port as the limit of what the senders of one queue give it.

    A sender is stopped by its socket, which counts what the port has not sent yet. A port that drops frees the socket
    at once, whether it has no carrier or its RED drops what it cannot mark, and a sender that goes by its socket alone
    would then be infinitely fast. So a port is given no more than its line takes and the sockets hold: what it drops,
    it drops at line rate. Where nothing is dropped no sender waits.

    Processes change `until_ns` without a lock: of two that do so at one moment one batch is not counted.
    """

    def __init__(self, rate: Rate, until_ns: Word, place: int = 0) -> None:
        self.place = place
        """The place of `until_ns` in `EndpointControl.counters`, in words of eight octets."""
        self._bps = rate.bps
        self._until_ns = until_ns
        """Element 0: the time at which the line has sent all that it was given."""
        self.held_ns = 0
        """The time that the line takes for what sockets hold."""

    def frame_ns(self, frame: Size) -> int:
        """Return the time in ns that the line takes for a frame, less one, which the kernel may round off."""
        return max(1, (frame.bytes + WIRE_OCTETS) * 8 * 10**9 // self._bps - 1)

    def share(self, buffer: Size, frame: Size, batch: int) -> None:
        """Count another sender in: the buffer of its socket, its frames, and as many as it gives at a time.

        One frame may be above the buffer, and one has left before its time.
        """
        holds = max(buffer.bytes, _LEAST_BUFFER) // (frame.bytes + _DESCRIPTION)
        self.held_ns += (holds + batch + 2) * self.frame_ns(frame)

    def take(self, now_ns: int, takes_ns: int) -> int:
        """Take a place in the row for frames that the line takes so long for; how long to wait for it."""
        until_ns = max(self._until_ns[0], now_ns) + takes_ns
        self._until_ns[0] = until_ns
        return max(0, until_ns - now_ns - self.held_ns)

    def give_back(self, takes_ns: int) -> None:
        """Give time back that was taken for frames that were not sent."""
        self._until_ns[0] -= takes_ns


class Endpoint(ABC):
    """A process in the network namespace of a host that sends some flows, receives some, or both."""

    def __init__(self, node: Any, flows: Mapping[int, Flow], sends: Sequence[int], receives: Sequence[int]) -> None:
        self.node = node
        """The host's node."""
        self.place = node.name
        """The name of the host, or whatever else says where the endpoint is, for messages."""
        self.flows = flows
        """All flows of the transport, by their index."""
        self.sends = tuple(sends)
        """The flows that this endpoint sends."""
        self.receives = tuple(receives)
        """The flows that this endpoint receives."""
        self.sockets: list[socket.socket] = []
        """The sockets that `open` has opened."""
        self.lines: Mapping[int, Line] = {}
        """The line of the queue in which the frames of each flow's source wait, by the flow's index; set when `open` is
        called. A sender that nothing else paces shares its line in `open`, and waits for it in `run`."""

    def open(self) -> None:  # noqa: B027  it need not be overridden
        """Open sockets, in the process that starts the flows and in the host's network namespace. That process closes
        them when the endpoint's own has been forked.

        This may be left to `run`. But after a fork a process copies each page of memory that it touches: there it takes
        longer.
        """

    @abstractmethod
    def run(self, session: EndpointControl) -> None:
        """The process. It calls `session.ready`, and then `sent` and `received` for each flow; it may then return."""


@dataclass(frozen=True)
class Outcome:
    """The reports of both ends of a flow."""

    sent: int
    """The last value of `EndpointControl.count_sent`."""
    sender: Any
    """The argument of `EndpointControl.sent`; None also if the sender had to be stopped."""
    receiver: Any
    """The argument of `EndpointControl.received`."""
    begin_ns: int
    """The moment at which the flow was to begin, by the monotonic clock."""
    observed: Any = None
    """The argument of `EndpointControl.observed`, if anything was sampled."""


def kernels() -> Parts:
    """Return the kernels that the network of this process is in."""
    return FabricCore.current().parts


def in_groups(hosts: Sequence[T]) -> list[Sequence[T]]:
    """Divide hosts whose flows the kernel serves into groups that have a process each: of one host, or of more where
    there are many. A process copies the memory that it touches, and is pushed out of all caches between its turns.
    """
    each = -(-len(hosts) // max(1, _MOST_PROCESSES // kernels().many)) or 1
    return [hosts[place : place + each] for place in range(0, len(hosts), each)]


def by_host(flows: Mapping[int, Flow]) -> list[tuple[Any, list[int], list[int]]]:
    """Return each host of some flows that this kernel has, with the indices of those that it sends and of those that it
    receives.
    """
    nodes = {flow.source.name: flow.source for flow in flows.values()}
    nodes |= {flow.target.name: flow.target for flow in flows.values()}
    sends: dict[str, list[int]] = {name: [] for name in nodes}
    receives: dict[str, list[int]] = {name: [] for name in nodes}
    for index, flow in flows.items():
        sends[flow.source.name].append(index)
        receives[flow.target.name].append(index)
    parts = kernels()
    return [(node, sends[name], receives[name]) for name, node in nodes.items() if parts.has(name)]


class Transport(ABC):
    """A way for flows to travel. An object is the frozen settings of one flow."""

    name: ClassVar[str]
    frame: ClassVar[str] = "1514B"
    """The default of `Flow.frame`."""
    port_rules: ClassVar[tuple[str, ...] | None] = None
    """The names of rules that `Flow.source_port` may have beside a number and a range; None: no flow may have one."""

    @abstractmethod
    def check(self, flow: Flow) -> None:
        """Raise UsageError where the transport cannot carry a flow as it is described."""

    def own_rate_control(self) -> str | None:
        """Return the rate control of a flow that has neither one nor a rate; None: the transport's default."""
        return None

    @classmethod
    @abstractmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        """The processes for all flows of this transport, which have Mininet's objects for source and target.

        A flow's index is its place among all flows, those of other transports included; port numbers can depend on it.
        """

    def parts(self, flow: Flow) -> Sequence[Flow]:
        """Return the flows that this one consists of for the endpoints, as a flow over several queue pairs does."""
        return [flow]

    def joined(self, flow: Flow, reports: Sequence[Report]) -> Report:
        """Return the report of a flow, of those of its parts."""
        return reports[0]

    def frames(self, flow: Flow) -> int | None:
        """Return the frames of data that a flow sends to its end by `count` or `size`; None if it has no such end.

        It is for the forecast of a run; retransmissions do not count.
        """
        ends = [] if flow.count is None else [flow.count]
        if flow.size is not None:
            ends.append(-(-flow.size.bytes // max(1, flow.frame.bytes - headers(flow))))
        return min(ends, default=None)

    def best(self, flow: Flow, rate: Rate, delay: Duration) -> Duration | None:
        """Return the completion time of a flow with an end that has the network to itself; None if it is not known.

        `rate` is that of the slowest cable on its way, or the flow's own, and `delay` that of all cables. A port of the
        lab that is free sends a frame at once and is then busy for as long as the frame takes; so the last frame takes
        no time, and switches on the way add nothing.
        """
        return None

    def frame_size(self, flow: Flow) -> Size:
        """Return the size of most of these frames, without FCS."""
        return flow.frame

    def check_in_lab(self, flow: Flow, scale: Scale) -> None:  # noqa: B027  it need not be overridden
        """Raise UsageError where the transport cannot carry a flow with these values of the lab."""

    def in_lab(self, scale: Scale) -> Transport:
        """The same settings with the lab's rates and times; a transport that has such settings overrides this."""
        return self

    @classmethod
    def warnings(cls, flows: Mapping[int, Flow]) -> Sequence[str]:
        """Settings of the flows that have no effect in this network; each is printed before the flows begin."""
        return ()

    def ds_field(self, flow: Flow) -> int:
        """Return the octet of the IP header with DSCP and ECN that frames of data of a flow have."""
        return flow.ds_field

    @classmethod
    def remarks(cls, ended: Sequence[tuple[Flow, Report]]) -> Sequence[str]:
        """Return what to warn of when the flows of this transport have ended, such as a timer that is too short."""
        return ()

    @classmethod
    def stalled(cls, waiting: Sequence[Flow]) -> str:
        """Return what flows may be waiting for of which nothing has moved for long, such as a timer; "" if nothing is
        known of it.
        """
        return ""

    def version_of(self, flow: Flow) -> int:
        """Return the IP version of a flow between nodes of the lab."""
        return ip_version(flow)

    def ports(self, flow: Flow, index: int, report: Report) -> Sequence[tuple[int, int, int, int]]:
        """Return the UDP ports that frames of data came from and went to, the queue pair, and the flow label; none if
        they are not known.

        `flow` has the port that was drawn for it, and a flow over several queue pairs has each of them.
        """
        return ()

    @abstractmethod
    def report(self, flow: Flow, outcome: Outcome) -> Report:
        """Return the report of a flow."""


_TRANSPORTS: dict[str, Transport] = {}
"""The default settings of each transport, by its name."""


def register(transport: Transport) -> None:
    """Let `Flow(transport=NAME)` mean these settings."""
    _TRANSPORTS[transport.name] = transport


def transport_named(wanted: Transport | str) -> Transport:
    """A transport by its name; an object passes through."""
    if isinstance(wanted, Transport):
        return wanted
    if not isinstance(wanted, str):
        raise UsageError(f"transport is {wanted!r}; a name or an object of a transport is expected")
    if wanted not in _TRANSPORTS:
        raise UsageError(f"there is no transport {wanted}; {nearest(wanted, _TRANSPORTS)}")
    return _TRANSPORTS[wanted]


# The IP version of a flow


def _wanted(flow: Flow) -> int | None:
    version: int | None = getattr(flow.transport, "ip_version", None)
    return version


def check_version(version: int | None) -> None:
    """Refuse an IP version that there is not; None is that of the addresses."""
    if version not in (None, 4, 6):
        raise UsageError(f"ip_version is {version!r}; 4 or 6 is expected")


def ip_version(flow: Flow) -> int:
    """Return the IP version of a flow between nodes of the lab."""
    wanted = _wanted(flow)
    for version in (4, 6) if wanted is None else (wanted,):
        if address_of(flow.source, version) and address_of(flow.target, version):
            return version
    return wanted or 4


def headers(flow: Flow) -> int:
    """Return the octets of a frame before the payload of UDP."""
    return HEADERS + more_octets(flow)


def more_octets(flow: Flow) -> int:
    """Return the octets that a frame has more than one of IPv4."""
    return _MORE_IN_IPV6 if ip_version(flow) == 6 else 0


def target_address(flow: Flow, index: int) -> str:
    """Return the address that a flow between nodes of the lab goes to; UsageError if an end has none."""
    require_addresses(flow, index)
    address = address_of(flow.target, ip_version(flow))
    assert address is not None
    return address


def require_addresses(flow: Flow, index: int) -> None:
    """Refuse a flow between hosts that have no address of its IP version."""
    wanted, version = _wanted(flow), ip_version(flow)
    without = [host.name for host in (flow.source, flow.target) if not address_of(host, version)]
    if not without:
        return
    what = "addresses of one IP version" if wanted is None else f"IPv{version} address"
    who = f"{flow.source.name} and {flow.target.name} have" if wanted is None else f"{without[0]} has"
    transport = type(flow.transport).__name__
    advice = (
        'a topology gives one to each host by ipv6=True, as in Incast(2, ipv6=True), and to one by addHost("h1", '
        'ipv6="fd00::1/64")'
        if version == 6 or wanted is None
        else f"Mininet gives one to each host that has not ip=None; {transport}(ip_version=6) takes the other version"
    )
    raise UsageError(f"flow {index} from {flow.source.name} to {flow.target.name}: {who} no {what}; {advice}")
