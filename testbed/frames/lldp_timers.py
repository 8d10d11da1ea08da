"""The timers of LLDP (IEEE 802.1AB)."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.units import Duration, read_quantities

_SECOND = 10**9


class LldpTimersError(UsageError):
    """A timer of LLDP is out of its range."""


@dataclass(frozen=True)
class LldpTimers:
    """The timers of IEEE 802.1AB 9.2.5 and 10.5.4, with its defaults and ranges, in the standard's time."""

    interval: Duration = Duration("30s")  # msgTxInterval; whole seconds, because the TTL is made of it
    hold: int = 4  # msgTxHold
    fast_interval: Duration = Duration("1s")  # msgFastTx
    fast_count: int = 4  # txFastInit
    reinit_delay: Duration = Duration("2s")
    most_credit: int = 5  # txCreditMax: frames that may follow each other at once; one more comes each second

    def __post_init__(self) -> None:
        read_quantities(self)
        for name, longest in (("interval", "3600s"), ("fast_interval", "3600s"), ("reinit_delay", "10s")):
            value = getattr(self, name)
            if not Duration("1s") <= value <= Duration(longest):
                raise LldpTimersError(f"LLDP {name} is {value}, and has to be 1s to {longest}")
        if self.interval.ns % _SECOND:
            raise LldpTimersError(f"LLDP interval is {self.interval}, and has to be whole seconds: the TTL counts them")
        for name, most in (("hold", 100), ("fast_count", 8), ("most_credit", 10)):
            if not 1 <= getattr(self, name) <= most:
                raise LldpTimersError(f"LLDP {name} is {getattr(self, name)}, and has to be 1 to {most}")

    @property
    def ttl(self) -> int:
        """The TTL in sent frames, in seconds: 121 by default."""
        return min(65535, self.interval.ns // _SECOND * self.hold + 1)
