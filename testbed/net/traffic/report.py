"""The report of a flow, its line in the log of flows, and the numbers of its datagrams that have not come."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError
from testbed.net.fabric.ports import address_of
from testbed.switch.ecn.field import Ecn
from testbed.switch.ways.model import Fields
from testbed.switch.ways.path import Hop, path
from testbed.units import Duration, Rate, Scale, Size, real_ns

if TYPE_CHECKING:
    from testbed.net.fabric.core import FabricCore
    from testbed.net.fabric.ports import PortState
    from testbed.net.fabric.switch_ways import SwitchWays
    from testbed.net.traffic.flow import Flow

WINDOW_NS = 10_000_000
"""The length of the windows in which receivers count, in the lab's time."""
_UDP = 17
WIRE_OCTETS = 24
"""The octets that a frame takes on the wire beside its own without FCS: preamble, FCS and gap."""


@dataclass(frozen=True)
class Report:
    """The counters of both ends of a flow; a transport adds fields in a subclass.

    Times and rates are those of the modelled hardware. The moments by the lab's clock, which are those of
    `time.monotonic_ns`, have `lab_ns` in their names.
    """

    sent: int
    """The datagrams that were sent, or another unit of the transport."""
    received: int
    """The distinct datagrams that arrived."""
    lost: int
    doubled: int
    out_of_order: int
    """Those that came when one before them was missing; with UDP the missing ones that came later."""
    ecn: tuple[int, ...]
    """Datagrams by the ECN field that they arrived with, 0 to 3, if the flow has one."""
    octets: int
    """The octets of the frames that arrived, without FCS."""
    first_lab_ns: int
    """The arrival of the first datagram."""
    last_lab_ns: int
    """The arrival of the last datagram."""
    worst_delay_lab_ns: int
    """The longest time from the sender's call to the arrival, in the lab."""
    windows: tuple[int, ...]
    """Frames received in each 10 ms of the lab's time from `first_lab_ns` on."""
    begin_lab_ns: int = 0
    """The moment at which the flow was to begin."""
    reordered: int | None = None
    """Those that came after one that was sent later, as RFC 4737 counts them; one that was sent again is late, too.
    None where a transport does not count."""
    reordering_extent: int | None = None
    """The largest number of datagrams by which one of them came too late: 1 if two neighbours changed places."""
    scale: Scale = Scale(1)
    """The scale between the lab and the hardware for which it stands."""

    @property
    def marked(self) -> int:
        """Datagrams that arrived with ECN's congestion mark."""
        return self.ecn[Ecn.CE]

    @property
    def completion(self) -> Duration:
        """The time from the planned begin of the flow to the arrival of its last datagram."""
        return self.scale.nearest_real(Duration.from_ns(max(0, self.last_lab_ns - self.begin_lab_ns)))

    @property
    def worst_delay(self) -> Duration:
        """The longest time from the sender's call to the arrival of a datagram; 0s where a transport does not know."""
        return self.scale.nearest_real(Duration.from_ns(self.worst_delay_lab_ns))

    @property
    def goodput(self) -> Rate:
        """The rate of the received bits on the wire, from the first to the last datagram."""
        if self.received < 2:
            return Rate.from_bps(0)
        span_ns = self.last_lab_ns - self.first_lab_ns
        return self.scale.real(Rate.from_bps((self.received - 1) * self.wire_bits * 10**9 // span_ns))

    def goodput_over(self, begin: Duration | str, lasts: Duration | str) -> Rate:
        """Return the rate of received bits on the wire over a time of the hardware, in whole windows.

        The time begins `begin` after the planned begin of the flow, and is `lasts` long. There are as many windows of
        10 ms of the lab as it has, and none begins before it. A window before the flow's first frame counts as one
        without frames.
        """
        begin_lab_ns = self.begin_lab_ns + self.scale.lab(Duration(begin)).ns
        return self.goodput_between(begin_lab_ns, begin_lab_ns + self.scale.lab(Duration(lasts)).ns)

    def goodput_between(self, begin_lab_ns: int, end_lab_ns: int) -> Rate:
        """Return the same between two moments of the lab's clock, as the report's `first_lab_ns`."""
        many = (end_lab_ns - begin_lab_ns) // WINDOW_NS
        if many < 1:
            asked, window = (
                self.scale.nearest_real(Duration.from_ns(one)) for one in (max(0, end_lab_ns - begin_lab_ns), WINDOW_NS)
            )
            raise UsageError(
                f"goodput over {asked}: arrivals are counted in windows of {window} of the hardware, 10 ms of the lab; "
                "give a time with one or more of them"
            )
        if not self.received:
            return Rate.from_bps(0)
        first = -(-(begin_lab_ns - self.first_lab_ns) // WINDOW_NS)
        frames = sum(self.windows[max(0, first) : max(0, first + many)])
        return self.scale.real(Rate.from_bps(frames * self.wire_bits * 10**9 // (many * WINDOW_NS)))

    @property
    def wire_bits(self) -> int:
        """The bits that a frame has on the wire, on average."""
        return (self.octets // self.received + WIRE_OCTETS) * 8

    def in_hardware(self, scale: Scale) -> Report:
        """The same report with times and rates of the hardware for which the lab stands at a scale."""
        return replace(self, scale=scale)


def logged(index: int, flow: Flow, report: Report, way: Sequence[PortState]) -> dict[str, Any]:
    """Return the line of a flow in the run's log of flows; its frames leave the nodes by the ports of `way`.

    In the file `t_ns` is `lab_ns`, as in every log; the other times and the rates are those of the modelled hardware. A
    flow has a completion time if it has an end, by `size` or `count`, and all of it arrived.
    """
    best, took_ns = _best_in_lab(flow, way), report.last_lab_ns - report.begin_lab_ns
    # A transport of one's own may leave times out, as zeros.
    is_complete = took_ns > 0 and _ended(flow, report)
    scale, failure = report.scale, getattr(report, "failure", "")
    may_lose = ("service", "messages", "lost_messages", "drops") if getattr(report, "lost_messages", None) else ()
    return {
        "t_ns": report.begin_lab_ns,
        "flow": index,
        "source": flow.source.name,
        "target": flow.target.name,
        "transport": flow.transport.name,
        "priority": flow.priority,
        "rate_control": _control(flow),
        "size_bytes": _size(flow, report),
        "completion_ns": real_ns(took_ns, scale) if is_complete else None,
        "best_ns": None if best is None else real_ns(best.ns, scale),
        "goodput_bps": report.goodput.bps if report.last_lab_ns > report.first_lab_ns else 0,
        "worst_delay_ns": real_ns(report.worst_delay_lab_ns, scale) if report.worst_delay_lab_ns else None,
        "sent": report.sent,
        "received": report.received,
        "lost": report.lost,
        "doubled": report.doubled,
        "out_of_order": report.out_of_order,
        "reordered": report.reordered,
        "reordering_extent": report.reordering_extent,
        "octets": report.octets,
        "marked": report.marked if report.ecn else None,
        "retransmitted": getattr(report, "retransmitted", getattr(report, "retransmits", None)),
        "cnps": getattr(report, "cnps_received", None),
        "failure": failure,
        "scale": scale.k,
    } | {name: getattr(report, name) for name in may_lose}


def log_ways(
    core: FabricCore, flows: Sequence[Flow], reports: Sequence[Report], lines: Sequence[dict[str, Any]]
) -> None:
    """Add to the lines of flows by which nodes their frames went, where switches have equal ways.

    There is a way for each queue pair that takes another one, as switches choose by its fields. It is empty if its
    ports are not known, or a switch does not go by the flow: then `spread` has how that one spread its frames.
    """
    if core.ways is None or not core.ways.plans:
        return
    switches = core.ways.switches()
    for flow, report, line in zip(flows, reports, lines, strict=True):
        source, target = flow.source, flow.target
        first = core.ports.graph.neighbours[source.name][0]
        macs = [bytes.fromhex(node.MAC().replace(":", "")) for node in (source, target)]
        nodes = dict[str, None]()
        known = flow.transport.ports(flow, line["flow"], report)
        version = flow.transport.version_of(flow)
        own, far = (address_of(node, version) or "" for node in (source, target))
        for from_port, to_port, pair, label in known or [(0, 0, 0, 0)]:
            packet = Fields(own, far, _UDP, from_port, to_port, label, pair, *macs)
            way = path(switches, source.name, target.name, first, packet)
            if known:
                is_whole = way.is_known and way.nodes[-1] == target.name
                nodes[" ".join(way.nodes[1:-1]) if is_whole else ""] = None
            if known or not any(hop.hashed for hop in way.hops):
                line["spread"] = _spread(core.ways, way.hops, target.name)
        line["ways"] = "" if "" in nodes else "; ".join(nodes)


def _spread(ways: SwitchWays, hops: Sequence[Hop], station: str) -> str:
    """Return the parts of its frames, of all flows that have the same ways, that a switch gave to each way, if it does
    not go by the flow.
    """
    if not hops or hops[-1].chosen is not None or hops[-1].hashed is not None:
        return ""
    frames = ways.frames(hops[-1].switch, station)
    total = sum(frames.values())
    shares = ", ".join(f"{name} {100 * many / total:.0f} %" for name, many in frames.items()) if total else ""
    return f"{hops[-1].switch} to {shares}" if shares else ""


def _size(flow: Flow, report: Report) -> int:
    """Return the data of a flow in octets: what was asked for by `size`, else what was sent, as far as that is known.

    Datagrams of a flow with a count are whole frames; RoCE and TCP count data.
    """
    if flow.size is not None:
        return flow.size.bytes
    if flow.transport.name == "udp":
        return report.sent * flow.frame.bytes
    data: Size | None = getattr(report, "size", None)
    return data.bytes if data is not None else report.received if flow.transport.name == "tcp" else report.octets


def _best_in_lab(flow: Flow, way: Sequence[PortState]) -> Duration | None:
    if not way or flow.duration is not None or not flow.transport.frames(flow):
        return None
    rates = [port.lab_cable.rate.bps for port in way] + ([flow.rate.bps] if flow.rate else [])
    delay = Duration.from_ps(sum(port.lab_cable.delay.ps for port in way))
    return flow.transport.best(flow, Rate.from_bps(min(rates)), delay)


def _ended(flow: Flow, report: Report) -> bool:
    """Return whether a flow has an end by its data, and came to it without a loss."""
    has_end = flow.size is not None or flow.count is not None
    frames = flow.transport.frames(flow) if flow.transport.name in ("udp", "roce") else None
    return (
        has_end
        and not report.lost
        and not getattr(report, "failure", "")
        and 0 < report.received >= report.sent >= (frames or 0)
    )


def _control(flow: Flow) -> str:
    control = flow.rate_control
    if control is None or isinstance(control, str):
        return control or ""
    return str(getattr(control, "__name__", type(control).__name__))


class Gaps:
    """Numbers of a row that have not come, as ranges in order: a gap of a million takes no more than one of two."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        """The first number behind each range."""
        self._since: list[int] = []

    def add(self, first: int, end: int, since: int = 0) -> None:
        """Add the numbers from `first` on, before `end`, which are missing since a moment; all that were missing before
        are below them.
        """
        if first >= end:
            return
        if self._ends and (self._ends[-1], self._since[-1]) == (first, since):
            self._ends[-1] = end
        else:
            self._firsts.append(first)
            self._ends.append(end)
            self._since.append(since)

    def fill(self, number: int) -> int | None:
        """Remove a number that has come, and return since when it was missing; None if it was not."""
        place = bisect_right(self._firsts, number) - 1
        if place < 0 or number >= self._ends[place]:
            return None
        first, end, since = self._firsts[place], self._ends[place], self._since[place]
        rest = [(one, other) for one, other in ((first, number), (number + 1, end)) if one < other]
        self._firsts[place : place + 1] = [one for one, _ in rest]
        self._ends[place : place + 1] = [other for _, other in rest]
        self._since[place : place + 1] = [since] * len(rest)
        return since

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first number of each range, and the first one behind it."""
        return list(zip(self._firsts, self._ends, strict=True))

    def __len__(self) -> int:
        """Return the count of the missing numbers."""
        return sum(self._ends) - sum(self._firsts)
