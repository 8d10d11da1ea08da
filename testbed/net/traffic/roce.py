"""Transport `roce`: RoCEv2 with a rate control that answers congestion. Only the lab can run it.

Each flow is a connection of its own, reliable unless its `service` is another. Data go from source to target: by writes
or sends that the source asks for, or by reads that the target asks for. The connections are made before the flows
begin, or at its start if a flow wants that (`Roce.connects_at_start`). What the target receives is checked by SHA-256.

CNPs have a priority and DSCP of their own. A rate control of the flow's source is a name of `testbed.roce.rates`, a
class, or a function, for example of one's own experiment file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.frames.roce import MAXIMUM_MESSAGE, PORT, Service
from testbed.linux.netlink.rdma import SOFT_ROCE
from testbed.net.fabric.ports import rdma_of
from testbed.net.traffic import roce_endpoint
from testbed.net.traffic.flow import Flow
from testbed.net.traffic.in_kernel.control import ServedBy, in_python
from testbed.net.traffic.mismatches import (
    DROPS,
    lost_messages,
    out_of_order,
    short_messages,
    without_effect,
    without_marks,
    without_telemetry,
)
from testbed.net.traffic.report import WINDOW_NS, WIRE_OCTETS, Report
from testbed.net.traffic.roce_flow import (
    Given,
    RoceOptions,
    Taken,
    UsedQueuePair,
    ds_field,
    line_of,
    sent_again_in_vain,
    settings_at,
    stalled,
    transport_of,
    whole_messages,
)
from testbed.net.traffic.transport import (
    Endpoint,
    Outcome,
    Transport,
    check_version,
    more_octets,
    register,
    require_addresses,
)
from testbed.roce import rates
from testbed.roce.memory import WORD_OCTETS
from testbed.roce.nic import Nic, Recovery, recovery_named
from testbed.roce.products.table import nic_model
from testbed.roce.settings import Settings
from testbed.roce.source_port import RULES
from testbed.roce.work import Operation
from testbed.units import Duration, Rate, Scale, Size

_MOST_QUEUE_PAIRS = 256
_MOST_IMMEDIATE, _MOST_LABEL = 2**32 - 1, 2**20 - 1
_OVERHEAD = 74
"""Octets of the headers of a frame of data over IPv4, and of its ICRC: those of `Roce.frame` beside 1024 octets."""
_ATOMIC = 86
"""Octets of a frame with an atomic operation over IPv4: Ethernet, IP, UDP, BTH, AtomicETH, ICRC."""
_DATAGRAM_HEADER = 8
"""Octets of the header that each datagram has: DETH. A first packet of a write has 16 of RETH in its place."""
_RETH = 16
_SUMS = (
    "sent", "received", "lost", "doubled", "out_of_order", "reordered", "octets", "retransmitted", "went_back",
    "timeouts", "cnps_sent", "cnps_received", "sequence_naks", "rnr_naks", "trimmed", "messages",
    "lost_messages", "limit_events",
)  # fmt: skip
"""The counts of a report that are the sums of those of its queue pairs."""
_BESIDE_DATA = 58 + WIRE_OCTETS
"""Octets on the wire beside the data of a packet over IPv4 that is not the first of a message: Ethernet, IP, UDP, BTH,
ICRC, and what goes with every frame."""


@dataclass(frozen=True)
class Roce(RoceOptions, Transport):
    """RoCE, with the options of one flow."""

    name = "roce"
    port_rules = RULES
    frame = "1098B"  # 1024 octets of payload in the first packet of a write

    def check(self, flow: Flow) -> None:
        try:
            Operation(self.operation)
        except ValueError:
            raise UsageError(f"operation is {self.operation!r}; RoCE has {', '.join(map(str, Operation))}") from None
        self._check_service()
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
        if self.is_atomic:
            if self.message.bytes != WORD_OCTETS:
                raise UsageError(f"message is {self.message}; a {self.operation} has {WORD_OCTETS}B")
            if flow.size is not None and flow.size.bytes % WORD_OCTETS:
                raise UsageError(
                    f"size is {flow.size}; a {self.operation} has {WORD_OCTETS}B, so take a multiple of it"
                )
        if self.message.bytes > MAXIMUM_MESSAGE:
            raise UsageError(f"message is {self.message}; a message has at most {Size.from_bytes(MAXIMUM_MESSAGE)}")
        if flow.source_port == PORT or (isinstance(flow.source_port, range) and PORT in flow.source_port):
            raise UsageError(f"source_port is {flow.source_port!r}; {PORT} is the port at which RoCE arrives")
        if type(self.queue_pairs) is not int or not 1 <= self.queue_pairs <= _MOST_QUEUE_PAIRS:
            raise UsageError(f"queue_pairs is {self.queue_pairs!r}; 1 to {_MOST_QUEUE_PAIRS} is expected")
        recovery = recovery_named(self.recovery)
        for name, given in (("nic", self.nic), ("target_nic", self.target_nic or self.nic)):
            if not isinstance(given, Nic | str):
                raise UsageError(f"{name} is {given!r}; Nic(...) or a name that `xoff nics` shows is expected")
        for nic, settings in self.nics():
            if recovery is Recovery.GO_BACK_0 and nic.reorder_time.ns:
                raise UsageError(
                    "go-back-0 takes packets in their order alone; leave reorder_time out, or choose another recovery"
                )
            if recovery is Recovery.SELECTIVE_REPEAT and nic.bdp_packets > settings.window:
                raise UsageError(
                    f"Nic(bdp_packets={nic.bdp_packets}): Settings(window={settings.window}) lets fewer be under way; "
                    "give it as many"
                )
        if self.queue_pairs > 1 and self.after:
            raise UsageError("a flow that waits for others has one queue pair, for its blocks are in a row")
        if self.target_settings is not None and self.target_settings.mtu != self.settings.mtu:
            raise UsageError(
                f"target_settings have an MTU of {self.target_settings.mtu}, and settings one of {self.settings.mtu}; "
                "a connection has one"
            )
        if self.immediate is not None and Operation(self.operation).is_answered:
            raise UsageError(
                f"a {self.operation} has no immediate data; leave immediate out, or take operation write or send"
            )
        check_version(self.ip_version)
        if self.flow_label is not None and self.ip_version == 4:
            raise UsageError("IPv4 has no flow label; leave flow_label out, or take ip_version=6")
        if self.served_by is not None and self.served_by not in list(ServedBy):
            raise UsageError(f"served_by is {self.served_by!r}; {nearest(self.served_by, ServedBy)}")
        for name, value, most in (
            ("cnp_priority", self.cnp_priority, 7),
            ("cnp_dscp", self.cnp_dscp, 63),
            ("cnp_ecn", int(self.cnp_ecn), 3),
            ("ack_priority", 0 if self.ack_priority is None else self.ack_priority, 7),
            ("ack_dscp", 0 if self.ack_dscp is None else self.ack_dscp, 63),
            ("ack_ecn", int(self.ack_ecn or 0), 3),
            ("immediate", self.immediate or 0, _MOST_IMMEDIATE),
            ("flow_label", self.flow_label or 0, _MOST_LABEL),
        ):
            if type(value) is not int or not 0 <= value <= most:
                raise UsageError(f"{name} is {value!r}; 0 to {most} is expected")

    def _check_service(self) -> None:
        """Refuse what an unreliable service does not have."""
        if self.service not in list(Service):
            raise UsageError(f"service is {self.service!r}; RoCE has {', '.join(Service)}")
        if self.is_reliable:
            return
        has = [Operation.SEND] if self.service == Service.UD else [Operation.WRITE, Operation.SEND]
        if self.operation not in has:
            raise UsageError(
                f"operation is {self.operation!r}, and service {self.service} has {' and '.join(has)} alone; "
                "take one of these, or service='RC'"
            )
        if self.service == Service.UD and self.message.bytes > self.settings.mtu:
            raise UsageError(
                f"message is {self.message}; over UD it is one packet, up to {self.settings.mtu}B here: take "
                "Settings(mtu=...), up to 4096, or service='UC', which divides messages"
            )
        if self.after:
            raise UsageError(
                f"a flow that waits for others needs each of its blocks, and service {self.service} may lose some; "
                "take service='RC'"
            )

    @classmethod
    def endpoints(cls, flows: Mapping[int, Flow]) -> Sequence[Endpoint]:
        _require_equal_settings(flows)
        for index, flow in flows.items():
            assert isinstance(flow.transport, cls)
            for host in (flow.source, flow.target):
                if rdma_of(host) == SOFT_ROCE:
                    raise UsageError(
                        f"flow {index}: {host.name} has rdma={host.params['rdma']!r}, so the kernel's Soft-RoCE has "
                        f"port {PORT} there; take a host without it or with rdma='siw' for RoCE flows, or programs "
                        "that use verbs"
                    )
            if flow.transport.operation == Operation.READ and flow.rate_control not in (None, "fixed"):
                control = rates.control(flow.rate_control, line_of(flow.source))
                if control.counts_acknowledgements:
                    raise UsageError(
                        f"flow {index} from {flow.source.name} is a read, whose packets are not acknowledged, and its "
                        f"rate control {type(control).__name__} goes by acknowledgements; use operation write or send"
                    )
            if not flow.transport.is_reliable:
                _require_no_answers(flow, index)
            for other in flow.transport.after:
                if other not in flows or flows[other].target is not flow.source:
                    raise UsageError(
                        f"flow {index} from {flow.source.name} waits for flow {other}, which no RoCE flow to "
                        f"{flow.source.name} is"
                    )
                if not transport_of(flows[other]).is_reliable:
                    raise UsageError(
                        f"flow {index} from {flow.source.name} waits for flow {other}, whose service "
                        f"{transport_of(flows[other]).service} may lose blocks; take service='RC' for it"
                    )
                if transport_of(flows[other]).queue_pairs > 1:
                    raise UsageError(
                        f"flow {index} from {flow.source.name} waits for flow {other}, which has several queue pairs; "
                        "blocks of such a flow do not arrive in a row"
                    )
        for index, flow in flows.items():
            require_addresses(flow, index)
        return roce_endpoint.endpoints(flows)

    def parts(self, flow: Flow) -> Sequence[Flow]:
        """Return a flow for each queue pair, which has the messages of that one; no more than there are messages."""
        many, message = self.queue_pairs, self.message.bytes
        ends = [] if flow.count is None else [flow.count * message]
        octets = min([*ends, flow.size.bytes] if flow.size is not None else ends, default=None)
        if octets is not None:
            many = max(1, min(many, -(-octets // message)))
        if many == 1:
            return [flow]
        rate = None if flow.rate is None else Rate.from_bps(max(1, flow.rate.bps // many))
        if octets is None:
            return [replace(flow, rate=rate)] * many
        whole, rest = divmod(octets, message)
        sizes = [
            (whole // many + (number < whole % many)) * message + (rest if number == whole % many else 0)
            for number in range(many)
        ]
        return [replace(flow, rate=rate, count=None, size=Size.from_bytes(size)) for size in sizes]

    def joined(self, flow: Flow, reports: Sequence[Report]) -> Report:
        parts = [one for one in reports if isinstance(one, RoceReport)]
        return parts[0] if len(parts) == 1 else joined(parts)

    def frames(self, flow: Flow) -> int | None:
        each = -(-self.message.bytes // self.settings.mtu)
        ends = [] if flow.count is None else [flow.count * each]
        if flow.size is not None:
            whole, rest = divmod(flow.size.bytes, self.message.bytes)
            ends.append(whole * each - (-rest // self.settings.mtu))  # the last message is as short as what is left
        return min(ends, default=None)

    def best(self, flow: Flow, rate: Rate, delay: Duration) -> Duration | None:
        if self.after or self.is_atomic:
            return None
        message, mtu = self.message.bytes, self.settings.mtu
        ends = [] if flow.count is None else [flow.count * message]
        octets = min([*ends, flow.size.bytes] if flow.size is not None else ends)
        of_last_message = octets % message or message
        before_last = octets - (of_last_message % mtu or mtu)
        packets = octets // message * -(-message // mtu) + -(-(octets % message) // mtu)
        if self.operation == Operation.READ:
            delay = delay * 2  # the target asks for it first
        beside = _BESIDE_DATA + more_octets(flow) + (_DATAGRAM_HEADER if self.service == Service.UD else 0)
        return rate.time_for(Size.from_bytes(before_last + (packets - 1) * beside)) + delay

    def frame_size(self, flow: Flow) -> Size:
        octets = _ATOMIC if self.is_atomic else min(self.message.bytes, self.settings.mtu) + _OVERHEAD
        if self.service == Service.UD:
            octets += _DATAGRAM_HEADER - _RETH
        return Size.from_bytes(octets + more_octets(flow))

    def own_rate_control(self) -> str | None:
        return nic_model(self.nic).of_flow("rate_control") if isinstance(self.nic, str) else None

    def in_lab(self, scale: Scale) -> Roce:
        return self if self.sample is None else replace(self, sample=scale.lab(self.sample))

    @classmethod
    def warnings(cls, flows: Mapping[int, Flow]) -> Sequence[str]:
        """Name the rate controls that go by marks where no port marks, or by telemetry where none stamps, and the NIC's
        settings without effect. Name flows whose packets are sent again because ways change their order.
        """
        controlled = [flow for flow in flows.values() if flow.rate_control not in (None, "fixed")]
        told = [*without_marks(controlled), *without_telemetry(controlled), *without_effect(flows.values())]
        told += in_python(controlled)
        return [*told, *out_of_order(flows.values()), *short_messages(flows.values())]

    def ds_field(self, flow: Flow) -> int:
        return ds_field(flow)

    @classmethod
    def remarks(cls, ended: Sequence[tuple[Flow, Report]]) -> Sequence[str]:
        return [*sent_again_in_vain(ended), *lost_messages(ended)]

    @classmethod
    def stalled(cls, waiting: Sequence[Flow]) -> str:
        return stalled(waiting)

    def ports(self, flow: Flow, index: int, report: Report) -> Sequence[tuple[int, int, int, int]]:
        pairs = report.queue_pairs if isinstance(report, RoceReport) else ()
        return [(pair.source_port, PORT, pair.far_number, pair.flow_label) for pair in pairs]

    def report(self, flow: Flow, outcome: Outcome) -> Report:
        taken: Taken = outcome.receiver
        given: Given = outcome.sender or Given()
        here, there = given.counters, taken.counters
        messages, is_reliable = whole_messages(flow, taken), transport_of(flow).is_reliable
        of_rests = 0 if is_reliable else there.trimmed
        return RoceReport(
            sent=outcome.sent,
            received=taken.packets,
            # A sender that failed, or was stopped within a message, has packets that it would have sent again.
            lost=max(0, outcome.sent - taken.packets - of_rests) if outcome.sender and not given.failure else 0,
            doubled=there.duplicates,
            out_of_order=there.out_of_order,
            reordered=there.reordered,
            reordering_extent=there.extent,
            ecn=taken.ecn,
            octets=taken.frame_octets,
            first_lab_ns=taken.first_ns,
            last_lab_ns=taken.last_ns,
            worst_delay_lab_ns=0,
            windows=taken.windows,
            begin_lab_ns=outcome.begin_ns,
            size=Size.from_bytes(taken.octets),
            intact=bool(taken.digest) and taken.digest == taken.expected,
            retransmitted=here.retransmitted,
            went_back=here.went_back + there.went_back,
            timeouts=here.timeouts + there.timeouts,
            cnps_sent=there.cnps_sent,
            cnps_received=here.cnps_received,
            sequence_naks=here.sequence_naks + there.sequence_naks,
            rnr_naks=here.rnr_naks,
            trimmed=here.trimmed + there.trimmed,
            messages=messages,
            service=transport_of(flow).service,
            lost_messages=0 if is_reliable else max(0, here.completed - messages),
            drops={name: count for name in DROPS if (count := getattr(there, name))},
            limit_events=there.limit_events,
            failure=given.failure or taken.failure,
            samples=outcome.observed or (),
            in_kernel=given.in_kernel,
            queue_pairs=(replace(given.used, sent=outcome.sent, last_lab_ns=taken.last_ns),) if given.used else (),
        )


def joined(parts: Sequence[RoceReport]) -> RoceReport:
    """Return the report of a flow over several queue pairs: it is complete when the last of them is.

    The windows of a queue pair begin with its own first packet; here they count to those of the flow's that they begin
    in.
    """
    first = min((one.first_lab_ns for one in parts if one.first_lab_ns), default=0)
    windows: list[int] = []
    for one in parts:
        place = (one.first_lab_ns - first) // WINDOW_NS
        windows += [0] * (place + len(one.windows) - len(windows))
        for number, frames in enumerate(one.windows, place):
            windows[number] += frames
    samples = [{"queue_pair": number, **sample} for number, one in enumerate(parts) for sample in one.samples]
    failures = [f"queue pair {number}: {one.failure}" for number, one in enumerate(parts) if one.failure]
    total: dict[str, Any] = {name: sum(getattr(one, name) or 0 for one in parts) for name in _SUMS}
    return replace(
        parts[0],
        **total,
        reordering_extent=max(one.reordering_extent or 0 for one in parts),
        ecn=tuple(map(sum, zip(*(one.ecn for one in parts), strict=True))),
        first_lab_ns=first,
        last_lab_ns=max(one.last_lab_ns for one in parts),
        windows=tuple(windows),
        size=Size.from_bytes(sum(one.size.bytes for one in parts)),
        intact=all(one.intact for one in parts),
        drops={name: count for name in DROPS if (count := sum(one.drops.get(name, 0) for one in parts))},
        failure="; ".join(failures),
        in_kernel=all(one.in_kernel for one in parts),
        samples=tuple(sorted(samples, key=lambda sample: sample["lab_ns"])),
        queue_pairs=tuple(used for one in parts for used in one.queue_pairs),
    )


@dataclass(frozen=True)
class RoceReport(Report):
    """The report of a RoCE flow; `sent` and `received` count packets of data once, however often they were sent."""

    size: Size = Size("0B")
    """The data that the target received in order, without headers."""
    intact: bool = False
    """True if all of it has the SHA-256 that it had at the source."""
    retransmitted: int = 0
    went_back: int = 0
    """The number of times that the requester went back to an earlier packet."""
    timeouts: int = 0
    cnps_sent: int = 0
    cnps_received: int = 0
    sequence_naks: int = 0
    """The number of NAKs that came from an end which missed a packet."""
    rnr_naks: int = 0
    """The number of times that the source had to wait, because the target had no receive posted."""
    trimmed: int = 0
    """The number of packets of which rests came, because a switch that trims had no room for more."""
    messages: int = 0
    """The messages that have arrived to their last octet."""
    service: str = Service.RC
    lost_messages: int = 0
    """The messages of an unreliable service that were sent and have not come whole."""
    drops: Mapping[str, int] = field(default_factory=dict)
    """The lost messages that the target dropped, by the reason: "incomplete", a packet was missing; "no_receive";
    "too_long"; "no_access"; "other_keys". All others were lost on the way."""
    limit_events: int = 0
    """The times that the target's shared receive queue told that it had fewer receives than its limit."""
    failure: str = ""
    in_kernel: bool = False
    """True if the kernel served the queue pair at the source, and False if a process of the host did."""
    queue_pairs: tuple[UsedQueuePair, ...] = ()
    """The queue pairs that carried it: the numbers of their ends, source ports, and packets of data."""
    samples: tuple[dict[str, Any], ...] = ()
    """The states of the rate control at each `Roce.sample`: `lab_ns`, the moment by the lab's clock, and rates and
    further values of the hardware."""

    def in_hardware(self, scale: Scale) -> RoceReport:
        samples = tuple(
            dict(_of_hardware(name, value, scale) for name, value in sample.items()) for sample in self.samples
        )
        return replace(self, scale=scale, samples=samples)


def _of_hardware(name: str, value: Any, scale: Scale) -> tuple[str, Any]:
    """Return a value of a sample, with its name, in hardware's units if the name says that it is in the lab's."""
    if name.endswith("_lab_bps"):
        return f"{name.removesuffix('_lab_bps')}_bps", value * scale.k
    if name.endswith("_lab_ns"):
        return f"{name.removesuffix('_lab_ns')}_ns", value if scale.k == 1 else round(value / scale.k, 3)
    return name, value


def _require_equal_settings(flows: Mapping[int, Flow]) -> None:
    """Refuse flows at one host with different settings: a host has one endpoint."""
    found: dict[str, Settings] = {}
    for flow in flows.values():
        for node, source in ((flow.source, True), (flow.target, False)):
            settings = settings_at(flow, source=source)
            if found.setdefault(node.name, settings) != settings:
                raise UsageError(
                    f"RoCE flows of one host that run together have the same Roce(settings=...); those of {node.name} "
                    "have different ones"
                )


def _require_no_answers(flow: Flow, index: int) -> None:
    """Refuse a rate control that goes by what an unreliable service does not have: acknowledgements."""
    if flow.rate_control in (None, "fixed"):
        return
    control, service = rates.control(flow.rate_control, line_of(flow.source)), transport_of(flow).service
    by = "acknowledgements" if control.counts_acknowledgements else "round trips"
    if control.counts_acknowledgements or type(control).on_round_trip is not rates.RateControl.on_round_trip:
        raise UsageError(
            f"flow {index} from {flow.source.name} has service {service}, whose packets are not acknowledged, and its "
            f"rate control {type(control).__name__} goes by {by}; use service='RC', or a rate control that goes by "
            "CNPs, such as 'dcqcn'"
        )


register(Roce())
