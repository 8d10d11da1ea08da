"""The PFC watchdog, which detects when a pause has become a storm, and when the storm is over (decision 0138).

The PFC/ECN article warns of storms and deadlocks; switches answer with this watchdog. Words and rules:

- A priority whose own transmission has been paused without a break for the detection time is in a storm, from the
  first poll at or after that moment. A repeated PAUSE is no break. Progress of the queue is not examined: a
  paused queue here is stopped whole, so a pause without a break is a queue without progress.
- A storm is over at the first poll at which restoration time has passed since its detection and since the last XOFF
  for the priority.
- Polls are at whole multiples of the poll period on the caller's clock, so those of all ports fall together. A poll
  that cannot find anything is left out: without pauses and storms the watchdog wakes no process.

It decides only; what follows from a storm is up to the port.
"""

from __future__ import annotations

from testbed.switch.pfc import PRIORITIES_IN
from testbed.switch.pfc.settings import WatchdogSettings
from testbed.units import NEVER


class Watchdog:
    """The pauses and storms of one port."""

    __slots__ = (
        "_detected",
        "_detection",
        "_period",
        "_quiet_since",
        "_restoration",
        "_since",
        "due_ns",
        "settings",
        "stormed",
    )

    def __init__(self, settings: WatchdogSettings) -> None:
        self.settings = settings
        # Rounded up: no storm is found before its time, not even by a part of a nanosecond.
        self._detection = -(-settings.detection.ps // 1000)
        self._restoration = -(-settings.restoration.ps // 1000)
        self._period = -(-settings.poll.ps // 1000)
        self._since = [NEVER] * 8
        self._detected = [NEVER] * 8
        self._quiet_since = [NEVER] * 8
        self.stormed = 0
        self.due_ns = NEVER
        """The time of the next poll."""

    def paused(self, mask: int, now_ns: int) -> int:
        """Note that a pause of these priorities began, and return the time of the next poll."""
        for priority in PRIORITIES_IN[mask]:
            self._since[priority] = now_ns
        due = -(-(now_ns + self._detection) // self._period) * self._period
        self.due_ns = min(self.due_ns, due)
        return self.due_ns

    def xoff(self, mask: int, now_ns: int) -> None:
        """Note that XOFF was received for these priorities, which are in a storm."""
        for priority in PRIORITIES_IN[mask]:
            self._quiet_since[priority] = now_ns

    def end(self, mask: int, now_ns: int) -> list[tuple[int, int]]:
        """End the storms of these priorities, and return (priority, ns) for each, with the time that it lasted."""
        ended = [(priority, now_ns - self._detected[priority]) for priority in PRIORITIES_IN[self.stormed & mask]]
        self.stormed &= ~mask
        return ended

    def poll(self, paused: int, now_ns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return storms found and storms ended at this moment, (priority, ns) for each, with the time that pause or
        storm lasted.

        `paused` are the priorities whose pause goes on. Those found are paused no longer, since the port resumes them.
        """
        ended = 0
        due = NEVER
        for priority in PRIORITIES_IN[self.stormed]:
            calm = self._quiet_since[priority] + self._restoration
            if calm <= now_ns:
                ended |= 1 << priority
            else:
                due = min(due, calm)
        over = self.end(ended, now_ns)
        found = []
        for priority in PRIORITIES_IN[paused]:
            storm = self._since[priority] + self._detection
            if storm <= now_ns:
                found.append((priority, now_ns - self._since[priority]))
                self.stormed |= 1 << priority
                self._detected[priority] = self._quiet_since[priority] = now_ns
                due = min(due, now_ns + self._restoration)
            else:
                due = min(due, storm)
        self.due_ns = -(-due // self._period) * self._period if due < NEVER else NEVER
        return found, over
