"""The options of a RoCE flow, and its two ends in their processes, which post, take, count and sample."""

from __future__ import annotations

import copy
import random
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from testbed.errors import UsageError, listed
from testbed.experiment.run import Run
from testbed.frames.roce import Service
from testbed.net.fabric.fabric import Fabric
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import WINDOW_NS, Report
from testbed.net.traffic.transport import EndpointControl, headers
from testbed.roce import rates
from testbed.roce.counters import Counters
from testbed.roce.memory import WORD_OCTETS, Content, Region, Scattered, Sink, Words
from testbed.roce.nic import Nic, NicTiming, Recovery, recovery_named
from testbed.roce.products.model import NicModel
from testbed.roce.products.table import nic_model
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.rates import Fixed, Line, Maker
from testbed.roce.settings import Settings
from testbed.roce.source_port import QUEUE_PAIR, PortRule, flow_label
from testbed.roce.work import Operation, Work
from testbed.switch.ecn.field import Ecn
from testbed.units import NEVER, Duration, Scale, Size, read_quantities

MESSAGES_UNDER_WAY = 64
"""The most messages that are posted and not complete."""
KEY = struct.Struct("!I")
"""Private data of a reply: the key of the memory."""


class _Usual(str):
    """An operation that was not given."""


_WRITE = _Usual("write")
_MESSAGE = Size("64kB")
"""The size that a message has if none is given; one that is given is another object, also if it is equal."""
COMPARED = "compared"
"""In place of a digest, where each octet has been compared with the one that is to come."""


@dataclass(frozen=True)
class RoceOptions:
    """The use of RoCE by one flow."""

    operation: str = _WRITE
    """"write", "send" or "read"; or "fetch and add" or "compare and swap", which count their messages in 64 bits of the
    target's memory. Over UD it is "send"."""
    message: Size = _MESSAGE
    """A flow is a row of messages of this size; the next is posted while one is being sent. A flow with
    a duration sends to its end what has been posted. An atomic operation has 8 octets, and a datagram is one packet, by
    default a full one."""
    settings: Settings = field(default_factory=Settings)
    cnp_priority: int = 6
    cnp_dscp: int = 48
    cnp_ecn: Ecn = Ecn.NOT_ECT
    ack_priority: int | None = None
    """The priority of what the target sends beside CNPs: acknowledgements and NAKs, or requests of reads. None: that
    of the flow."""
    ack_dscp: int | None = None
    """Their DSCP; None: that of the flow."""
    ack_ecn: Ecn | None = None
    """Their ECN field; None: that of the flow."""
    target_settings: Settings | None = None
    """The settings at the target's host, where they differ from those at the source's; the MTU is the same."""
    immediate: int | None = None
    """Immediate data with the last packet of each message of a write or a send."""
    after: tuple[int, ...] = ()
    """Flows, by their place among all, that this one waits for: block m of it is sent when its source has received
    block m - `lag` of each. A block is a message."""
    lag: int = 0
    queue_pairs: int = 1
    """The queue pairs of the flow, each a connection of its own with a rate control of its own: message m goes over the
    one with the number m modulo so many. A fixed rate is divided among them."""
    connects_at_start: bool = False
    """True: the flow asks for its connections at its start, so that `completion` has them in it. False: they are made
    before any flow begins."""
    recovery: str = Recovery.GO_BACK_N
    """"go-back-N", "go-back-0" or "selective repeat": what is sent again after a loss, at both ends."""
    nic: Nic | str = field(default_factory=Nic)
    """The NICs of both ends, or the name of a product (`xoff nics`). A product brings its own value for each of
    `settings`, `cnp_priority`, `cnp_dscp` and the flow's `rate_control` that has its default."""
    target_nic: Nic | str | None = None
    """The NIC of the target, where it differs from that of the source."""
    ip_version: int | None = None
    """4 or 6. None: 4 if both ends have an IPv4 address, else 6."""
    flow_label: int | None = None
    """The flow label of packets over IPv6; 0 is none. None: Linux's RDMA core's, of the numbers of both queue pairs."""
    sample: Duration | None = None
    """The interval at which the rate control's state is recorded; None: not at all."""
    service: str = "RC"
    """"RC", a reliable connection; "UC", one without acknowledgements, which drops messages of which a packet is lost;
    or "UD": datagrams."""
    served_by: str | None = None
    """"kernel" or "python": who serves the queue pairs of the source's host, with the rate control. None: the kernel if
    it can."""

    def __post_init__(self) -> None:
        has_usual_size = self.message is _MESSAGE
        read_quantities(self)
        if self.service == Service.UD and isinstance(self.operation, _Usual):
            object.__setattr__(self, "operation", str(Operation.SEND))
        self._take_product()
        if has_usual_size and (self.is_atomic or self.service == Service.UD):
            octets = WORD_OCTETS if self.is_atomic else self.settings.mtu
            object.__setattr__(self, "message", Size.from_bytes(octets))

    def _take_product(self) -> None:
        """Take the values of the NICs' products for what has its default."""
        source, target = _product(self.nic), _product(self.target_nic or self.nic)
        if not isinstance(self.settings, Settings) or source is target is None:
            return
        there = self.target_settings or self.settings
        values: dict[str, Any] = {}
        if source is not None:
            values["settings"] = source.settings(self.settings)
        if self.target_nic is not None or self.target_settings is not None:
            values["target_settings"] = there if target is None else target.settings(there)
        for name in ("cnp_priority", "cnp_dscp"):  # of what the target sends
            known = None if target is None else target.of_flow(name)
            if known is not None and getattr(self, name) == _DEFAULTS[name]:
                values[name] = known
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_reliable(self) -> bool:
        return self.service == Service.RC

    @property
    def is_atomic(self) -> bool:
        return self.operation in (Operation.COMPARE_SWAP, Operation.FETCH_ADD)

    def nic_at(self, *, source: bool) -> Nic:
        """Return the NIC of one end."""
        nic = self.nic if source or self.target_nic is None else self.target_nic
        return nic if isinstance(nic, Nic) else nic_model(nic).nic(self.operation)

    def nics(self) -> list[tuple[Nic, Settings]]:
        """Return the NIC and the settings of each end, once if they are the same."""
        here, there = self.nic_at(source=True), self.nic_at(source=False)
        both = [(here, self.settings), (there, self.target_settings or self.settings)]
        return list(dict.fromkeys(both))


_DEFAULTS = {one.name: one.default for one in fields(RoceOptions)}


def _product(nic: Nic | str) -> NicModel | None:
    return nic_model(nic) if isinstance(nic, str) else None


@dataclass(frozen=True)
class UsedQueuePair:
    """A queue pair that a flow used: the numbers of its ends, and the UDP port that its packets of data came from."""

    number: int
    far_number: int
    source_port: int
    flow_label: int = 0
    """Over IPv6."""
    sent: int = 0
    """The packets of data that went over it, each counted once."""
    last_lab_ns: int = 0
    """The arrival of the last of them."""


def used(flow: Flow, pair: QueuePair | None) -> UsedQueuePair | None:
    """Return what is known of a queue pair at its source."""
    if pair is None:
        return None
    return UsedQueuePair(pair.number, pair.responder.far_qp, pair.path.source_port, label_of(flow, pair))


@dataclass(frozen=True)
class Given:
    """The report of a flow's source."""

    counters: Counters = field(default_factory=Counters)
    failure: str = ""
    samples: tuple[dict[str, Any], ...] = ()
    in_kernel: bool = False
    used: UsedQueuePair | None = None


@dataclass(frozen=True)
class Taken:
    """The report of a flow's target."""

    counters: Counters = field(default_factory=Counters)
    failure: str = ""
    octets: int = 0
    digest: str = ""
    expected: str = ""
    packets: int = 0
    """Those of data that were taken, by their ECN fields in `ecn` and by 10 ms from the first one in `windows`."""
    frame_octets: int = 0
    ecn: tuple[int, ...] = (0, 0, 0, 0)
    first_ns: int = 0
    last_ns: int = 0
    windows: tuple[int, ...] = ()


def ds_field(flow: Flow) -> int:
    """Return the DS field of a flow, with ECT(0) unless the flow has another ECN field."""
    return flow.ds_field & ~3 | (Ecn.ECT_0 if flow.ecn is None else flow.ecn)


def far_ds_field(flow: Flow) -> int:
    """Return the DS field of what the target of a flow sends beside CNPs."""
    transport, own = transport_of(flow), ds_field(flow)
    dscp = own >> 2 if transport.ack_dscp is None else transport.ack_dscp
    return dscp << 2 | (own & 3 if transport.ack_ecn is None else transport.ack_ecn)


def far_priority(flow: Flow) -> int:
    """Return the priority of what the target of a flow sends beside CNPs."""
    priority = transport_of(flow).ack_priority
    return flow.priority if priority is None else priority


def cnp_ds_field(transport: RoceOptions) -> int:
    """Return the DS field of CNPs."""
    return transport.cnp_dscp << 2 | transport.cnp_ecn


def settings_at(flow: Flow, *, source: bool) -> Settings:
    """Return the settings of the host at one end of a flow."""
    transport = transport_of(flow)
    return transport.settings if source or transport.target_settings is None else transport.target_settings


def line_of(node: Any) -> Line:
    """Return the line of a host that has RoCE flows."""
    for port in Fabric.current().ports.values():
        if port.node is node:
            return Line(port.lab_cable.rate, port.scale)
    raise UsageError(f"{node.name} has no lossless port, as hosts of a LosslessTopo have; transport roce needs one")


def transport_of(flow: Flow) -> RoceOptions:
    assert isinstance(flow.transport, RoceOptions)
    return flow.transport


def label_of(flow: Flow, pair: QueuePair) -> int:
    """Return the flow label of what a queue pair of a flow sends; 0 over IPv4, which has none."""
    if ":" not in pair.far_address:
        return 0
    wanted = transport_of(flow).flow_label
    return flow_label(pair.number, pair.responder.far_qp) if wanted is None else wanted


def port_rule(flow: Flow) -> PortRule:
    """Return the rule of the UDP port that both ends of a flow send from."""
    port = flow.source_port
    assert not isinstance(port, range)  # one has been drawn
    return QUEUE_PAIR if port is None else port


def nic_timing(flow: Flow, index: int, scale: Scale, *, at_source: bool) -> NicTiming:
    """Return the NIC of one end of a flow in the lab, with what it draws by the run's seed."""
    transport, run = transport_of(flow), Run.current()
    seed = f"NIC of flow {index} at its {'source' if at_source else 'target'}, seed {run.seed if run else 1}"
    nic = transport.nic_at(source=at_source)
    drawn = random.Random(seed).getrandbits(64) if nic.jitter.ns else 0
    return NicTiming.of(nic, recovery_named(transport.recovery), scale, drawn)


def whole_messages(flow: Flow, taken: Taken) -> int:
    """Return how many messages have arrived: works of a read, which has one more, its end."""
    done = taken.counters.completed if transport_of(flow).operation == Operation.READ else taken.counters.messages
    return min(done, -(-taken.octets // transport_of(flow).message.bytes))


def sent_again_in_vain(ended: Sequence[tuple[Flow, Report]]) -> list[str]:
    """Name the flows that sent again what was not lost: their packets overtook each other, or timers are too short."""
    gaps, timeouts = list[tuple[str, int]](), list[tuple[str, int]]()
    for flow, report in ended:
        whose, ends = f"{flow.source.name} to {flow.target.name}", getattr(report, "timeouts", 0)
        timeouts.append((whose, ends))
        if recovery_named(transport_of(flow).recovery) is not Recovery.SELECTIVE_REPEAT:
            gaps.append((whose, getattr(report, "went_back", 0) - ends))
    losses = Fabric.current().losses() if any(count for _, count in gaps + timeouts) else None
    if losses is None:
        return []
    lost = sum(losses.values()) - losses.get("waiting", 0)
    again = sum(getattr(report, "retransmitted", 0) for _, report in ended)
    found = (
        (gaps, "RoCE went back {} times because a packet was missing",
         f"packets came out of their order, and {again} were sent again. recovery='selective repeat' sends again what "
         "is missing alone, and Nic(reorder_time=...) waits for it"),
        (timeouts, "retransmission timers of RoCE ended {} times",
         "what was only late was sent again. Settings(retransmit_after=...), or with selective repeat "
         "Nic(timeout_low=..., timeout_high=...), gives it more time"),
    )  # fmt: skip
    return [
        f"{what.format(many)}, and {lost} frames were lost in the network "
        f"({listed([name for name, count in counts if count], 4)}): {why}"
        for counts, what, why in found
        if (many := sum(count for _, count in counts)) > lost
    ]


def stalled(waiting: Sequence[Flow]) -> str:
    """Return which timer flows may wait for that have not moved for long."""
    timers = {
        transport_of(flow).settings.retransmit_after: line_of(flow.source).scale
        for flow in waiting
        if recovery_named(transport_of(flow).recovery) is not Recovery.SELECTIVE_REPEAT
        and transport_of(flow).settings.ack_timeout != 0
    }
    if not timers:
        return ""
    longest = max(timers, key=lambda timer: timers[timer].lab(timer))
    return (
        "RoCE finds the loss of the last packets under way by its retransmission timer alone, as NICs do: "
        f"{longest}, which are {timers[longest].lab(longest)} of the lab; Settings(retransmit_after=...) shortens it"
    )


def maker_of_source(flow: Flow) -> Maker:
    """Return the maker of the rate control of a flow's source."""
    if flow.rate is not None:
        return lambda line: Fixed(line, flow.rate)
    return rates.maker_of(flow.rate_control or "fixed")


def report_sent(session: EndpointControl, given: Mapping[int, Given]) -> None:
    """Report flows that have been sent, and what was sampled of them."""
    if samples := {index: one.samples for index, one in given.items() if one.samples}:
        session.observed(samples)
    session.sent({index: replace(one, samples=()) for index, one in given.items()})


class Source:
    """The data of one flow at its source."""

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow, self.index = flow, index
        self.content = Content(index)
        self.pair: QueuePair | None = None
        self.samples: list[dict[str, Any]] = []
        sample = transport_of(flow).sample
        self.sample_ns = sample.ns if sample else 0
        self.next_sample_ns = NEVER
        self.has_reported = False

    def begin(self, begin_ns: int) -> None:
        """Begin to sample at the moment at which the flows begin."""
        if self.sample_ns:
            self.next_sample_ns = begin_ns

    def given(self) -> Given:
        pair = self.pair
        if pair is None:
            return Given(failure="no connection was made")
        return Given(pair.counters, pair.failure, tuple(self.samples), used=used(self.flow, pair))

    @property
    def has_been_read(self) -> bool:
        """True if the target of a read has reported its end, or failed."""
        return self.pair is not None and (self.pair.counters.received > 0 or self.pair.state is State.FAILED)

    def take_samples(self, now_ns: int) -> None:
        """Take a sample for each moment of the interval that has passed, before anything happens to the flow now.

        So nobody has to be woken for a sample. What is due until its moment is done to a copy of the rate control: to
        look changes nothing.
        """
        while self.next_sample_ns <= now_ns:
            if self.pair is not None and not self.pair.informed.has_fault:
                rate = copy.copy(self.pair.rate)
                rate.settle(self.next_sample_ns)
                self.samples.append(
                    {"lab_ns": self.next_sample_ns, "sent": self.pair.counters.sent_octets, **rate.state()}
                )
            self.next_sample_ns += self.sample_ns


class Target:
    """The data of one flow at its target."""

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow, self.index = flow, index
        self.content = Content(index)
        transport = transport_of(flow)
        self.sink: Words | Sink | Scattered = Sink(content=self.content)
        if transport.is_atomic:
            self.sink = Words()
        elif not transport.is_reliable:
            self.sink = Scattered(self.content)
        self.headers = headers(flow)
        self.pair: QueuePair | None = None
        self.packets = self.frame_octets = 0
        self.ecn = [0] * 4
        self.first_ns = self.last_ns = 0
        self._window_end_ns = 0
        self.windows: list[int] = []

    def count_run(self, octets: int, ecn: int, arrivals_ns: Sequence[int]) -> None:
        """Count packets of data that were taken, all of the same length and with the same ECN field."""
        place, many = 0, len(arrivals_ns)
        while place < many:
            if arrivals_ns[place] >= self._window_end_ns:
                self._next_window(arrivals_ns[place])
            end = bisect_left(arrivals_ns, self._window_end_ns, place)
            self.windows[-1] += end - place
            place = end
        self.packets += many
        self.frame_octets += octets * many
        self.last_ns = arrivals_ns[-1]
        self.ecn[ecn] += many

    def count(self, octets: int, ecn: int, at_ns: int) -> None:
        """Count a packet of data that was taken."""
        self.count_run(octets, ecn, (at_ns,))

    def _next_window(self, at_ns: int) -> None:
        if not self.first_ns:
            self.first_ns = self._window_end_ns = at_ns
        while at_ns >= self._window_end_ns:
            self._window_end_ns += WINDOW_NS
            self.windows.append(0)

    def taken(self) -> Taken:
        pair = self.pair
        if pair is None:
            return Taken(failure="no connection was made")
        octets = self.sink.received
        if isinstance(self.sink, Words):
            digest = COMPARED if self.sink.words == [pair.counters.messages] else ""
        elif isinstance(self.sink, Scattered):
            digest = COMPARED if self.sink.is_as_expected else ""
        else:
            digest = self.sink.digest
        return Taken(
            pair.counters,
            pair.failure,
            octets,
            digest,
            digest or self._expected(octets),  # the first one is empty unless all came as it is at the source
            self.packets,
            self.frame_octets,
            tuple(self.ecn),
            self.first_ns,
            self.last_ns,
            tuple(self.windows),
        )

    def _expected(self, octets: int) -> str:
        return COMPARED if isinstance(self.sink, Scattered) else self.content.digest(octets)


class Asker:
    """Posts the messages of one flow at the end that asks: the source, or the target of reads."""

    def __init__(
        self, flow: Flow, pair: QueuePair, local: Region, begin_ns: int, waits_for: Sequence[Target] = ()
    ) -> None:
        transport = transport_of(flow)
        self.flow, self.pair = flow, pair
        self._local = Sink() if transport.is_atomic else local
        self._operation = Operation(transport.operation)
        self._message = transport.message.bytes
        self._immediate = transport.immediate
        self._waits_for, self._lag = waits_for, transport.lag
        self._begin_ns = begin_ns + flow.start.ns
        self._end_ns = self._begin_ns + flow.duration.ns if flow.duration else NEVER
        self._left = flow.size.bytes if flow.size else NEVER
        self._messages = flow.count if flow.count is not None else NEVER
        self._posted = 0
        self._has_ended = False
        self.is_over = False

    def deadline_ns(self, now_ns: int) -> int:
        """Return the begin of the flow if it is still to come; all else that it waits for comes in datagrams."""
        return self._begin_ns if self._begin_ns > now_ns and not self.is_over else NEVER

    def post(self, now_ns: int, may_send: bool) -> None:
        """Keep messages under way, until the flow has been sent."""
        pair = self.pair
        if pair.state is State.FAILED:
            self.is_over = True
            return
        if now_ns < self._begin_ns or pair.state is not State.READY:
            if not may_send:
                self.is_over = True
            return
        requester, ahead = pair.requester, self._message // pair.settings.mtu
        # The next message is posted when the one before is being sent: what is posted is sent, whatever the time is.
        while requester.unsent <= ahead and requester.outstanding < MESSAGES_UNDER_WAY and self._may_post():
            length = min(self._message, self._left)
            if not length or not self._messages or now_ns >= self._end_ns or not may_send:
                break
            (key,) = KEY.unpack_from(pair.reply.ljust(KEY.size, b"\0"))
            pair.post(self._work(length, key), now_ns)
            self._posted += length
            self._left -= length
            self._messages -= 1
        # A flow that waits for others has more to send, unless all has been posted.
        waits = bool(self._left and self._messages and now_ns < self._end_ns and may_send and not self._may_post())
        if pair.requester.idle and not waits:
            if self._operation is Operation.READ and not self._has_ended:
                self._has_ended = True
                pair.post(Work(Operation.SEND, self._local, 0, immediate=0), now_ns)  # the source cannot know otherwise
            else:
                self.is_over = True
        pair.requester.take_completed()

    def _work(self, length: int, key: int) -> Work:
        posted = self._posted
        if not self._operation.is_atomic:
            return Work(self._operation, self._local, length, posted, posted, key, self._immediate)
        # One word counts the messages: those that were done twice, or not at all, would show.
        count = posted // WORD_OCTETS if self._operation is Operation.COMPARE_SWAP else 0
        return Work(self._operation, self._local, length, posted, 0, key, data=count + 1, compare=count)

    def _may_post(self) -> bool:
        """Return True if every flow that this one waits for has delivered the block that the next block needs."""
        blocks = self._posted // self._message + 1 - self._lag
        for target in self._waits_for:
            needed, size = blocks * transport_of(target.flow).message.bytes, target.flow.size
            if target.sink.received < (needed if size is None else min(needed, size.bytes)):
                return False
        return True
