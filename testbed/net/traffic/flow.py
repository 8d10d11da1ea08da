"""A flow: what one host sends to another, by which transport, and when. The same for every transport."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Never

from testbed.errors import UsageError, XoffError, nearest
from testbed.net.traffic.transport import Transport, transport_named
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Scale, Size


class FlowError(XoffError):
    """A flow that failed."""


class FlowOptionError(FlowError, UsageError):
    """Parameters that no flow can have, or not with its transport."""


@dataclass(frozen=True)
class Flow:
    """One sender and one receiver: names of hosts, or Mininet's objects.

    A flow ends after `count` datagrams, `size` of data or `duration`, whichever comes first; without any of them when
    the run stops it. Rates, sizes and times are given as text with a unit or as values of `testbed.units`.
    """

    source: Any
    target: Any
    priority: int
    """Of the sender's socket, and of its frames by way of `dscp`."""
    frame: Size
    """Each full frame without FCS; by default what the transport sends."""
    rate: Rate | None
    """Of what is on the wire. None: as fast as the port and the transport's rate control allow."""
    count: int | None
    """Datagrams, or messages of a transport that has them."""
    duration: Duration | None
    start: Duration
    """When the flow begins, counted from the moment at which all flows are ready."""
    ecn: Ecn | None
    """The ECN field of the frames; the receiver then counts it. None: Not-ECT, or what the transport needs."""
    dscp: int | None
    """DSCP of the frames; by default 8 x priority. -1: 0, and only the sender's socket has the priority."""
    buffer: Size | None
    """What the sender's socket holds before it blocks; None: the transport's default."""
    size: Size | None
    """Data to transfer, without headers."""
    transport: Transport
    rate_control: Any
    """A name or an object that the transport accepts; None: the transport's default."""

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
        **others: Never,
    ) -> None:
        name = f"flow from {source} to {target}"
        for option in others:
            known = (one.name for one in fields(self) if one.name not in ("source", "target"))
            raise FlowOptionError(f"{name}: there is no option {option}; {nearest(option, known)}")
        try:
            chosen = transport_named(transport)
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

    def check_line(self, line: Rate, scale: Scale) -> None:
        """Refuse a rate above the sender's line: most likely it is meant for the hardware that the line stands for."""
        if self.rate is None or self.rate <= line:
            return
        meant = ""
        if scale.k > 1 and not self.rate.bps % scale.k and scale.lab(self.rate) <= line:
            meant = f': rate="{scale.lab(self.rate)}" stands for {self.rate} of hardware here'
        raise FlowOptionError(
            f"flow from {self.source} to {self.target}: rate is {self.rate}, and the line of {self.source} is "
            f"{scale.both(line)}. Rates of flows are those of the lab{meant}; without rate a flow takes all of the line"
        )

    @property
    def ds_field(self) -> int:
        """The octet of the IP header with DSCP and ECN."""
        dscp = 8 * self.priority if self.dscp is None else max(0, self.dscp)
        return dscp << 2 | (self.ecn or Ecn.NOT_ECT)
