"""The settings that all queue pairs of an endpoint have in common."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.units import Duration, Scale, read_quantities

MTUS = (256, 512, 1024, 2048, 4096)
ACK_TIMEOUTS = (None, *(Duration.from_ns(4096 << code) for code in range(1, 32)))
"""InfiniBand's times of the retransmission timer by their codes, 4.096 us * 2^code; code 0 is no timer."""
NO_TIMER_NS = 1 << 60
"""A time that does not come."""


class CnpScope(enum.StrEnum):
    """The queue pairs that a CNP slows down (decision 0135)."""

    FLOW = "flow"  # the queue pair that it names
    PRIORITY = "priority"  # all queue pairs of its priority at this host


class CnpModeration(enum.StrEnum):
    """The marked packets that share one interval of CNPs at their receiver."""

    FLOW = "flow"  # those of one queue pair
    ADDRESS = "address"  # those from one sender
    NIC = "nic"  # all of this host


class RoceError(UsageError):
    """Settings of RoCE that cannot be."""


@dataclass(frozen=True)
class Settings:
    """Times are those of hardware; an endpoint multiplies them by its scale."""

    mtu: int = 1024
    """Octets of payload in a full packet."""
    ack_every: int = 16
    """A packet in so many asks for an acknowledgement, and so does the last one of a message."""
    window: int = 4096
    """Packets that may be sent without an acknowledgement."""
    retransmit_after: Duration = Duration("67108864ns")
    """The time after which a sender without an acknowledgement goes back: 4.096 us * 2^14, which perftest sets."""
    ack_timeout: int | None = None
    """The code of InfiniBand's that `retransmit_after` follows from, 0 to 31; 0: there is no such timer."""
    retries: int = 7
    """The most such times in a row, until the queue pair fails. InfiniBand has 7; testers take more."""
    cnp_interval: Duration = Duration("50us")
    """A receiver sends at most one CNP for a queue pair in this time."""
    cnp_moderation: CnpModeration = CnpModeration.FLOW
    """The scope of that limit."""
    cnp_scope: CnpScope = CnpScope.FLOW
    connect_after: Duration = Duration("4ms")
    """The time after which a connection request without a reply is sent again."""

    def __post_init__(self) -> None:
        read_quantities(self)
        if self.mtu not in MTUS:
            raise RoceError(f"mtu is {self.mtu!r}; InfiniBand has {', '.join(map(str, MTUS))}")
        for name, least, most in (("ack_every", 1, 1024), ("window", 1, 1 << 22), ("retries", 0, 254)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise RoceError(f"{name} is {value!r}; it is a whole number from {least} to {most}")
        if self.ack_timeout is not None:
            self._take_ack_timeout(self.ack_timeout)
        for name in ("retransmit_after", "connect_after"):
            if not getattr(self, name).ns:
                raise RoceError(f"{name} is 0; a sender that waits for no time sends for ever")

    def _take_ack_timeout(self, code: int) -> None:
        if type(code) is not int or not 0 <= code < len(ACK_TIMEOUTS):
            raise RoceError(f"ack_timeout is {code!r}; InfiniBand has codes from 0 to {len(ACK_TIMEOUTS) - 1}")
        time, given = ACK_TIMEOUTS[code], self.retransmit_after
        if given not in (Settings.retransmit_after, time):
            meant = time or "no timer"
            raise RoceError(f"ack_timeout is {code}, which is {meant}, and retransmit_after {given}; set one of them")
        if time is not None:
            object.__setattr__(self, "retransmit_after", time)


@dataclass(frozen=True)
class Timing:
    """The times of the settings in nanoseconds of the lab."""

    retransmit_ns: int
    cnp_ns: int
    connect_ns: int

    @classmethod
    def of(cls, settings: Settings, scale: Scale) -> Timing:
        times = (settings.retransmit_after, settings.cnp_interval, settings.connect_after)
        retransmit_ns, cnp_ns, connect_ns = (scale.lab(time).ns for time in times)
        return cls(NO_TIMER_NS if settings.ack_timeout == 0 else retransmit_ns, cnp_ns, connect_ns)
