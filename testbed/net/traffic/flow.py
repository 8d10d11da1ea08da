"""A flow: what one host sends to another, by which transport, and when. The same for every transport."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Never, NoReturn

from testbed.errors import UsageError, XoffError, nearest
from testbed.net.traffic.transport import Transport, transport_named
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Scale, Size

_LONG = Duration("100s")
"""The time of the lab beyond which a flow's time was most likely not meant so."""


_PORTS = 65535


class FlowError(XoffError):
    """A flow that failed."""


class FlowOptionError(FlowError, UsageError):
    """Parameters that no flow can have, or not with its transport."""


@dataclass(frozen=True)
class Flow:
    """One sender and one receiver: names of hosts, or Mininet's objects.

    A flow ends after `count` datagrams, `size` of data or `duration`, whichever comes first; without any of them when
    the run stops it. Rates, sizes and times are given as text with a unit or as values of `testbed.units`. They are
    those of the modelled hardware: on a line of 10 Gb/s a flow of `rate="5Gb/s"` takes half of it, whatever the scale.
    """

    source: Any
    target: Any
    priority: int
    """The priority of the sender's socket, and of its frames by way of `dscp`."""
    frame: Size
    """The size of a full frame without FCS; by default that of the transport."""
    rate: Rate | None
    """The rate on the wire; None: as fast as the port and the transport's rate control allow."""
    count: int | None
    """The number of datagrams, or of messages of a transport that has them."""
    duration: Duration | None
    start: Duration
    """The time from the moment at which all flows are ready to the begin of the flow."""
    ecn: Ecn | None
    """The ECN field of the frames; the receiver then counts it. None: Not-ECT, or what the transport needs."""
    dscp: int | None
    """DSCP of the frames; by default 8 x priority. -1: 0, and only the sender's socket has the priority."""
    buffer: Size | None
    """The octets that the sender's socket holds before it blocks; None: the transport's default."""
    size: Size | None
    """The data to transfer, without headers."""
    transport: Transport
    rate_control: Any
    """A name or an object that the transport accepts; None: the transport's default."""
    source_port: int | str | range | None
    """The UDP port that frames come from: a number, a range from which the run's seed draws one, or the name of a rule
    of the transport; None: the transport's default."""

    def __init__(
        self,
        source: Any,
        target: Any,
        priority: int = 3,
        frame: Size | str | None = None,
        rate: Rate | str | None = None,
        *,
        transport: Transport | str = "udp",
        count: int | None = None,
        size: Size | str | None = None,
        duration: Duration | str | None = None,
        start: Duration | str = "0s",
        ecn: Ecn | None = None,
        dscp: int | None = None,
        buffer: Size | str | None = None,
        rate_control: Any = None,
        source_port: int | str | range | None = None,
        **unknown: Never,
    ) -> None:
        """The name of a transport stands for its defaults; an object has others: `transport=Roce(queue_pairs=4)`."""
        name = f"flow from {source} to {target}"
        try:
            chosen = transport_named(transport)
            if rate_control is None and rate is None:
                rate_control = chosen.own_rate_control()
            for option in unknown:
                _refuse(option, chosen)
            values = {
                "source": source,
                "target": target,
                "priority": priority,
                "frame": Size(chosen.frame if frame is None else frame),
                "rate": None if rate is None else Rate(rate),
                "count": count,
                "duration": None if duration is None else Duration(duration),
                "start": Duration(start),
                "ecn": None if ecn is None else Ecn(ecn),
                "dscp": dscp,
                "buffer": None if buffer is None else Size(buffer),
                "size": None if size is None else Size(size),
                "transport": chosen,
                "rate_control": rate_control,
                "source_port": source_port,
            }
        except (ValueError, UsageError) as error:  # of units, which name the value, of Ecn and of the registry
            raise FlowOptionError(f"{name}: {error}") from None
        for field, value in values.items():
            object.__setattr__(self, field, value)
        try:
            self._check()
            chosen.check(self)
        except UsageError as error:
            raise FlowOptionError(f"{name}: {error}") from None

    def _check(self) -> None:
        for field, value, possible, meaning in (
            ("priority", self.priority, range(8), "0 to 7"),
            ("dscp", self.dscp, range(-1, 64), "0 to 63, or -1 for none"),
            ("count", self.count, range(2**62), "a whole number of datagrams, 0 or more"),
        ):
            if value is not None and (type(value) is not int or value not in possible):
                raise UsageError(f"{field} is {value!r}; {meaning} is expected")
        if self.rate is not None and not self.rate.bps:
            raise UsageError(f"a rate of {self.rate} sends nothing; without rate it is what the port takes")
        if self.size is not None and not self.size.bytes:
            raise UsageError(f"a size of {self.size} sends nothing; give at least 1B")
        self._check_source_port()

    def _check_source_port(self) -> None:
        port, rules = self.source_port, self.transport.port_rules
        if port is None:
            return
        if rules is None:
            raise UsageError(f"source_port is {port!r}; transport {self.transport.name} chooses its own")
        if isinstance(port, str):
            if port not in rules:
                names = ", ".join(map(repr, rules))
                raise UsageError(
                    f"source_port is {port!r}; transport {self.transport.name} takes a number"
                    + (f", a range or one of {names}" if rules else " or a range, and has no rules")
                )
            return
        ends = [port] if type(port) is int else [port[0], port[-1]] if isinstance(port, range) and port else []
        if not ends or not all(1 <= end <= _PORTS for end in ends):
            raise UsageError(f"source_port is {port!r}; 1 to {_PORTS} is expected, or range(first, last + 1) of them")

    def with_drawn_port(self, seed: int, number: int) -> Flow:
        """Return the same flow with a port of its range, which is another one for each seed and for each flow."""
        if not isinstance(self.source_port, range):
            return self
        drawn = random.Random(f"source port of flow {number}, seed {seed}").choice(self.source_port)
        return replace(self, source_port=drawn)

    def check_line(self, line: Rate) -> None:
        """Refuse a rate above the sender's line, which is given as the flow's rate is."""
        if self.rate is not None and self.rate > line:
            raise FlowOptionError(
                f"flow from {self.source} to {self.target}: rate is {self.rate}, and the line of {self.source} is "
                f"{line}; without rate a flow takes all of the line"
            )

    def in_lab(self, scale: Scale, source: Any, target: Any) -> Flow:
        """The same flow between nodes of the lab, with the lab's rates and times; a rate is rounded down to b/s."""
        scaled = replace(
            self,
            source=source,
            target=target,
            rate=None if self.rate is None else _rate_in_lab(self.rate, scale),
            duration=None if self.duration is None else scale.lab(self.duration),
            start=scale.lab(self.start),
            transport=self.transport.in_lab(scale),
        )
        try:
            scaled.transport.check_in_lab(scaled, scale)
        except UsageError as error:
            raise FlowOptionError(f"flow from {self.source} to {self.target}: {error}") from None
        return scaled

    @property
    def ds_field(self) -> int:
        """The octet of the IP header with DSCP and ECN."""
        dscp = 8 * self.priority if self.dscp is None else max(0, self.dscp)
        return dscp << 2 | (self.ecn or Ecn.NOT_ECT)


def _rate_in_lab(rate: Rate, scale: Scale) -> Rate:
    """Return the lab's rate in whole b/s, which is below the exact one and above zero."""
    return Rate.from_bps(max(1, rate.bps // scale.k))


def _refuse(option: str, transport: Transport) -> NoReturn:
    """Raise an error about an option that no flow has; it may be the transport's."""
    kind = type(transport)
    if is_dataclass(kind) and option in {one.name for one in fields(kind)}:
        raise UsageError(
            f"{option} is an option of transport {transport.name}; write transport={kind.__name__}({option}=...)"
        )
    known = {one.name for one in fields(Flow)} - {"source", "target"}
    raise UsageError(f"there is no option {option}; {nearest(option, known)}")
