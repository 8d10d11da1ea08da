"""The timers of a PFC port, as numbers in memory that the agent's successor reads.

Runs in C: `testbed/lab/um/linux/xoff_pfc_rules.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from testbed.switch.pfc.settings import PfcError, PfcSettings
from testbed.switch.pfc.wire import pause_ns
from testbed.units import Rate

REFRESH = 8
"""The places of the timers: the ends of eight pauses come first, then the next repetition of XOFF, then the watchdog's
poll."""
POLL = 9
TIMERS = 10


class Timers(Protocol):
    """Numbers of 64 bits, signed: a list, or a piece of memory."""

    def __getitem__(self, number: int, /) -> int: ...
    def __setitem__(self, number: int, moment_ns: int, /) -> None: ...
    def __iter__(self) -> Iterator[int]: ...


def refresh_interval_ns(rate: Rate, settings: PfcSettings) -> int:
    """Return the time from one XOFF to the next while a priority stays congested."""
    whole_ns = pause_ns(rate, settings.pause_quanta)
    interval_ns = math.floor(whole_ns * settings.refresh)
    if interval_ns == 0:
        raise PfcError(
            f"a pause of {settings.pause_quanta} quanta takes {whole_ns}ns at {rate}, too short to be "
            f"repeated after {settings.refresh} of it; raise pause_quanta"
        )
    return interval_ns
