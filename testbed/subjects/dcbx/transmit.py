"""The times at which LLDP sends: the transmit and timer machines of IEEE 802.1AB 9.2.9 and 9.2.10, without a clock.

A frame is due when the interval is over, when the content has changed, and at once when a neighbour is new, which also
starts a series of `fast_count` frames, `fast_interval` apart. So does the start, which 802.1AB does not ask for: then a
first frame without a receiver delays by a second and not by an interval.

Each frame takes one credit; at most `most_credit` are there, and one comes back each second, counted from the start.
With no credit left the frame is sent when the next one comes, with what is true then. A frame that goes late because
the caller missed moves the later ones: it is not made up for.

Disabling the port sends one shutdown frame (TTL 0), and a port does not start again before `reinit_delay` has passed.
"""

from __future__ import annotations

from testbed.frames.lldp_timers import LldpTimers
from testbed.units import Duration, Scale

_TICK = Duration("1s")


class Transmitter:
    """The transmit machine of one port. All times are in nanoseconds of the lab. After any of its calls ask
    `frame_due`.
    """

    def __init__(self, timers: LldpTimers, scale: Scale) -> None:
        self._interval_ns = scale.lab(timers.interval).ns
        self._fast_interval_ns = scale.lab(timers.fast_interval).ns
        self._reinit_ns = scale.lab(timers.reinit_delay).ns
        self._tick_ns = scale.lab(_TICK).ns
        self._fast_count = timers.fast_count
        self._most_credit = timers.most_credit
        self._started_ns: int | None = None  # None: not running; in the future: waiting for reinit_delay
        self._not_before_ns = 0  # end of reinit_delay
        self._due = False  # txNow: a frame is to be sent as soon as there is credit
        self._next_ns = 0  # txTTR, as the time when it is over
        self._fast = 0  # txFast: frames of the fast series still to come
        self._credit = 0
        self._ticks = 0  # how many of the seconds since the start have given their credit

    @property
    def is_running(self) -> bool:
        """True if the machine was started, though it may still wait for reinit_delay."""
        return self._started_ns is not None

    def start(self, now_ns: int) -> None:
        self._started_ns = max(now_ns, self._not_before_ns)
        self._next_ns = self._started_ns
        self._due, self._fast = False, self._fast_count
        self._credit, self._ticks = self._most_credit, 0

    def stop(self) -> None:
        """Send nothing more: the link is gone."""
        self._started_ns = None

    def shut_down(self, now_ns: int) -> bool:
        """Stop, because the port is disabled, and return True if a shutdown frame is to be sent: the port had begun."""
        begun = self._has_begun(now_ns)
        if begun:
            self._not_before_ns = now_ns + self._reinit_ns
        self._started_ns = None
        return begun

    def local_change(self, now_ns: int) -> None:
        """Note that the content to send has changed (localChange)."""
        if self._has_begun(now_ns):
            self._signal(now_ns)

    def new_neighbour(self, now_ns: int) -> None:
        """Note that a new neighbour was found (newNeighbor)."""
        if self._has_begun(now_ns):
            self._fast = self._fast or self._fast_count
            self._timer_expires(now_ns)

    def frame_due(self, now_ns: int) -> bool:
        """Return True if a frame is to be sent now. That takes the credit, so the caller has to send one."""
        if not self._has_begun(now_ns):
            return False
        if now_ns >= self._next_ns:
            self._timer_expires(now_ns)
        self._collect_credit(now_ns)
        if not self._due or not self._credit:
            return False
        self._due = False
        self._credit -= 1
        return True

    def deadline_ns(self) -> int | None:
        """Return the time when `frame_due` may next return True, or None if the machine does not run."""
        if self._started_ns is None:
            return None
        if self._due:  # only credit is missing
            return min(self._next_ns, self._started_ns + (self._ticks + 1) * self._tick_ns)
        return self._next_ns

    def _has_begun(self, now_ns: int) -> bool:
        return self._started_ns is not None and now_ns >= self._started_ns

    def _timer_expires(self, now_ns: int) -> None:
        self._fast = max(0, self._fast - 1)
        self._signal(now_ns)

    def _signal(self, now_ns: int) -> None:
        self._due = True
        self._next_ns = now_ns + (self._fast_interval_ns if self._fast else self._interval_ns)

    def _collect_credit(self, now_ns: int) -> None:
        assert self._started_ns is not None
        ticks = (now_ns - self._started_ns) // self._tick_ns
        self._credit = min(self._most_credit, self._credit + ticks - self._ticks)
        self._ticks = ticks
