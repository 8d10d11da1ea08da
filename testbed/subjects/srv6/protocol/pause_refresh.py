"""The repetition of XOFF through a reverse tunnel.

A pause is counted at J from the arrival of the frame, for `quanta` at J's own rate, which the sender need not know
(decision 0141): it plans with the fastest rate that J may have, where the pause is shortest. The way through the
WAN has these effects:

- The delay itself delays every frame alike, so it does not make the interval any shorter. It determines when a pause
  or its end takes effect, and for how long data still arrive.
- The variation of the delay does count. A frame that takes the fastest way and a next one that takes the slowest are
  further apart on arrival than they were when they were sent.
- Frames get lost. The interval is chosen so that `losses` of them in a row do not end the pause:

      (losses + 1) x interval + variation <= pause,    and at most half the pause (0132)

A lost XON costs time and never the link: J resumes at the latest when the last XOFF has run out. `PauseSender` is the
small state machine that agents run per tunnel; frames come out when XOFF or XON is due, and the next deadline. It has
no clock, and counts on nothing but the times that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.frames import Mac
from testbed.frames.mac_control import LONGEST_PAUSE, PRIORITIES, PfcFrame
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.units import Duration, Rate


@dataclass(frozen=True)
class Refresh:
    """What decides how often an XOFF is repeated through one reverse tunnel; times are in nanoseconds."""

    pause_ns: int  # how long one XOFF holds at J, at the fastest rate that J may have
    delay_ns: int  # the least that the tunnel takes, one way
    variation_ns: int = 0  # what it may take beyond that
    losses: int = 1  # frames in a row that may be lost without an end of the pause

    def __post_init__(self) -> None:
        for name in ("pause_ns", "delay_ns", "variation_ns", "losses"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise Srv6Error(f"{name} is {value!r}; it is a whole number, 0 or more")
        if self.interval_ns < 1:
            raise Srv6Error(
                f"a pause of {Duration.from_ns(self.pause_ns)} cannot be kept up through a tunnel whose delay varies "
                f"by {Duration.from_ns(self.variation_ns)} and that may lose {self.losses} frames in a row; "
                "send more quanta, or keep the tunnel to one path"
            )

    @classmethod
    def of(
        cls, fastest: Rate, delay: Duration, variation: Duration, *, quanta: int = LONGEST_PAUSE, losses: int = 1
    ) -> Refresh:
        """Make the times of J's fastest rate and the tunnel. The pause is rounded down, the rest up: never too late."""
        return cls(fastest.time_for_quanta(quanta).ps // 1000, -(-delay.ps // 1000), -(-variation.ps // 1000), losses)

    @property
    def interval_ns(self) -> int:
        """The longest time between two XOFF."""
        return min((self.pause_ns - self.variation_ns) // (self.losses + 1), self.pause_ns // 2)


class PauseSender:
    """The sender of PFC frames into one reverse tunnel."""

    def __init__(self, source: Mac, refresh: Refresh, quanta: int = LONGEST_PAUSE) -> None:
        self._source = source
        self._refresh = refresh
        self._quanta = quanta
        self._stopped: set[int] = set()
        self._deadline_ns: int | None = None
        self.sent = {"xoff": 0, "refresh": 0, "xon": 0}

    @property
    def stopped(self) -> frozenset[int]:
        """The priorities that the other end has to hold."""
        return frozenset(self._stopped)

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `due` must be called next, or None while nothing is stopped."""
        return self._deadline_ns

    def xoff(self, priority: int, now_ns: int) -> PfcFrame | None:
        """Stop a priority. Return a frame for all stopped ones, or None if this one was among them already."""
        _check(priority)
        if priority in self._stopped:
            return None
        self._stopped.add(priority)
        self.sent["xoff"] += 1
        return self._repeat(now_ns)

    def xon(self, priority: int) -> PfcFrame | None:
        """Let a priority go on. Return the frame, or None if the priority was not stopped."""
        _check(priority)
        if priority not in self._stopped:
            return None
        self._stopped.remove(priority)
        self.sent["xon"] += 1
        if not self._stopped:
            self._deadline_ns = None
        return PfcFrame.xon(self._source, [priority])

    def due(self, now_ns: int) -> PfcFrame | None:
        """Return the repetition if it is time for it, or None. One is enough, however late the call."""
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return None
        self.sent["refresh"] += 1
        return self._repeat(now_ns)

    def _repeat(self, now_ns: int) -> PfcFrame:
        self._deadline_ns = now_ns + self._refresh.interval_ns
        return PfcFrame.xoff(self._source, sorted(self._stopped), self._quanta)


def _check(priority: int) -> None:
    if priority not in PRIORITIES:
        raise Srv6Error(f"{priority!r} is not a priority: there are 0 to 7")
