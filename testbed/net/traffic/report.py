"""The report of a flow, and the numbers of its datagrams that have not come."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace

from testbed.errors import warn
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Scale

WINDOW_NS = 10_000_000
"""The length of the windows in which receivers count, in the lab's time."""
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

    def goodput_over(self, begin_lab_ns: int, duration: Duration) -> Rate:
        """Return the rate of received bits on the wire in whole windows of 10 ms of the lab from a moment on.

        There are as many windows as `duration` has, and none begins before `begin_lab_ns`. A window before the flow's
        first frame counts as one without frames.
        """
        many = self.scale.lab(duration).ns // WINDOW_NS
        if not many or not self.received:
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

    @property
    def first_ns(self) -> int:
        """The old name of `first_lab_ns`."""
        return self._by_old_name("first_ns")

    @property
    def last_ns(self) -> int:
        """The old name of `last_lab_ns`."""
        return self._by_old_name("last_ns")

    @property
    def begin_ns(self) -> int:
        """The old name of `begin_lab_ns`."""
        return self._by_old_name("begin_ns")

    @property
    def worst_delay_ns(self) -> int:
        """The old name of `worst_delay_lab_ns`."""
        return self._by_old_name("worst_delay_ns")

    def _by_old_name(self, name: str) -> int:
        new, real = name.replace("_ns", "_lab_ns"), "; report.worst_delay is the hardware's" if "delay" in name else ""
        warn(f"report.{name} is report.{new} since Xoff 0.1, for it is the lab's time{real}")
        return int(getattr(self, new))


class Gaps:
    """Numbers of a row that have not come, as ranges in order: a gap of a million takes no more than one of two."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        """The first number behind each range."""

    def add(self, first: int, end: int) -> None:
        """Add the numbers from `first` on, before `end`; all that were missing before are below them."""
        if first >= end:
            return
        if self._ends and self._ends[-1] == first:
            self._ends[-1] = end
        else:
            self._firsts.append(first)
            self._ends.append(end)

    def fill(self, number: int) -> bool:
        """Remove a number that has come; return False if it was not missing."""
        place = bisect_right(self._firsts, number) - 1
        if place < 0 or number >= self._ends[place]:
            return False
        first, end = self._firsts[place], self._ends[place]
        rest = [(one, other) for one, other in ((first, number), (number + 1, end)) if one < other]
        self._firsts[place : place + 1] = [one for one, _ in rest]
        self._ends[place : place + 1] = [other for _, other in rest]
        return True

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first number of each range, and the first one behind it."""
        return list(zip(self._firsts, self._ends, strict=True))

    def __len__(self) -> int:
        """Return the count of the missing numbers."""
        return sum(self._ends) - sum(self._firsts)
