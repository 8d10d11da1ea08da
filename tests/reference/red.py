"""Linux RED packet by packet, as net/sched/sch_red.c of 6.12 does it: integers, its 32-bit random numbers, its idling.

It shows the effect of settings without a kernel. The queue itself is the caller's, which passes how many bytes wait
as a packet arrives, and when a dequeue found nothing. What becomes of a packet that is picked is `field.fate`. Not
modelled: ADAPTATIVE, and hardware offload.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.switch.ecn.field import Pick
from testbed.switch.ecn.red import RedParameters


class RedModel:
    """One RED qdisc over an empty queue. `random` gives the kernel's random numbers: 0 to 2^32 - 1, one per call."""

    def __init__(self, parameters: RedParameters, random: Callable[[], int], now_ns: int = 0) -> None:
        self._parameters = parameters
        self._random = random
        self._average = 0  # shifted left by Wlog, as are the thresholds below
        self._since_draw = -1  # packets between the thresholds since the random number was drawn; -1: none is drawn
        self._drawn = 0
        self._idle_since_ns: int | None = now_ns
        self._qth_min = parameters.qth_min << parameters.wlog
        self._qth_max = parameters.qth_max << parameters.wlog

    def arrive(self, now_ns: int, waiting: int, length: int) -> Pick:
        """Decide about a packet of `length` bytes that finds `waiting` bytes in the queue."""
        if self._idle_since_ns is None:
            self._average += waiting - (self._average >> self._parameters.wlog)
        else:
            self._average = self._aged((now_ns - self._idle_since_ns) // 1000)
            self._idle_since_ns = None
        pick = self._judge()
        limit = self._parameters.limit
        return Pick.FULL if limit and waiting + length > limit else pick

    def found_nothing(self, now_ns: int) -> None:
        """Note that a dequeue gave no packet: the queue is empty, or plugged. The kernel sees no difference."""
        if self._idle_since_ns is None:
            self._idle_since_ns = now_ns

    def _judge(self) -> Pick:
        if self._average < self._qth_min:
            self._since_draw = -1
            return Pick.PASSED
        if self._average >= self._qth_max:
            self._since_draw = -1
            return Pick.FORCED
        self._since_draw += 1
        if self._since_draw == 0:
            self._draw()
            return Pick.PASSED
        above = (self._average - self._qth_min) >> self._parameters.wlog
        if above * self._since_draw < self._drawn:
            return Pick.PASSED
        self._since_draw = 0
        self._draw()
        return Pick.PICKED

    def _draw(self) -> None:
        self._drawn = self._random() // self._parameters.slope

    def _aged(self, idle_us: int) -> int:
        """Return the average after idle time: a shift from the table, or a straight line where the table has 0."""
        scell = self._parameters.scell_log
        idle_us = min(idle_us, 255 << scell)
        shift = self._parameters.stab[(idle_us >> scell) & 255]
        if shift:
            return self._average >> shift
        lost = (self._average * idle_us) >> scell
        half = self._average >> 1
        return self._average - lost if lost < half else half
