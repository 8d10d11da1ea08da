"""The PFC watchdog, which detects when a pause has become a storm, and when the storm is over (decision 0138).

The PFC/ECN article warns of storms and deadlocks; switches answer with this watchdog. Words and rules:

- A priority whose own transmission has been paused without a break for the detection time is in a storm, from the
  first poll at or after that moment. A repeated PAUSE is no break. Progress of the queue is not examined: a
  paused queue here is stopped whole, so a pause without a break is a queue without progress.
- A storm is over at the first poll at which restoration time has passed since its detection and since the last XOFF
  for the priority.
- Polls are at whole multiples of the poll period on the caller's clock, so those of all ports fall together. A poll
  that cannot find anything is left out: without pauses and storms the watchdog wakes no process.

Those are the rules of an ideal watchdog, `Watchdog`. What ships is another thing (decision 0581): `SonicWatchdog` knows
only what it sees at its polls, and `HardwareWatchdog` has timers and looks at nothing while they run.

It decides only; what follows from a storm is up to the port.
"""

from __future__ import annotations

from testbed.switch.pfc import PRIORITIES_IN
from testbed.switch.pfc.settings import Action, Kind, PfcSettings, WatchdogSettings
from testbed.units import NEVER


class Watchdog:
    """The pauses and storms of one port."""

    __slots__ = (
        "_detected",
        "_detection",
        "_enabled",
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
        self._enabled = 0xFF  # until `watch` says more
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

    def watch(self, enabled: int) -> bool:
        """Note for which priorities PFC is on at the port; return True if storms are only counted and logged."""
        self._enabled = enabled
        return self.settings.action is Action.ALERT

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
            calm = self._calm_at(self._quiet_since[priority])
            if calm <= now_ns:
                ended |= 1 << priority
            else:
                due = min(due, calm)
        over = self.end(ended, now_ns)
        found = []
        for priority in PRIORITIES_IN[paused]:
            storm = self._storm_at(self._since[priority])
            if storm <= now_ns:
                found.append((priority, now_ns - self._since[priority]))
                self.stormed |= 1 << priority
                self._detected[priority] = self._quiet_since[priority] = now_ns
                due = min(due, self._calm_at(now_ns))
            else:
                due = min(due, storm)
        self.due_ns = self._next_poll(due) if due < NEVER else NEVER
        return found, over

    def _next_poll(self, moment_ns: int) -> int:
        """Return the first poll at or after a moment."""
        return -(-moment_ns // self._period) * self._period

    def _storm_at(self, since_ns: int) -> int:
        """Return when a pause that began at `since_ns`, and goes on, is a storm."""
        return since_ns + self._detection

    def _calm_at(self, quiet_since_ns: int) -> int:
        """Return when a storm is over whose last XOFF came at `quiet_since_ns`."""
        return quiet_since_ns + self._restoration


class SonicWatchdog(Watchdog):
    """The watchdog of SONiC, whose scripts compare the counters of a port and its queues at each poll with the last
    ones.

    A poll counts for the detection if the priority was paused before the last poll already, and without a break; so
    many polls in a row as make up the detection time are a storm. A poll counts for the restoration if the port's
    counter of received PFC frames of the priority stands where it stood. While there is a storm PFC is off for the
    priority at the port, and a port at which it is off for all of them counts no PFC frame: then the watchdog takes a
    storm that goes on for its end, and finds it anew, again and again. With the action `alert` PFC stays on, and the
    first poll that does not count for the detection ends the storm.
    """

    __slots__ = ()

    def xoff(self, mask: int, now_ns: int) -> None:
        if self.settings.action is Action.ALERT or self._enabled & ~self.stormed:
            super().xoff(mask, now_ns)

    def poll(self, paused: int, now_ns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Look at the moment of the poll, also if the caller is a little late: what follows is counted in polls."""
        return super().poll(paused, now_ns - now_ns % self._period)

    def _storm_at(self, since_ns: int) -> int:
        return self._next_poll(since_ns + 1) + self._next_poll(self._detection)

    def _calm_at(self, quiet_since_ns: int) -> int:
        polls = self._period if self.settings.action is Action.ALERT else self._next_poll(self._restoration)
        return self._next_poll(quiet_since_ns) + polls


class HardwareWatchdog(Watchdog):
    """Timers of a switch chip: a storm is found when a pause has lasted for the detection time, and it is over after
    the restoration time, whatever comes in the meantime. There are no polls.
    """

    __slots__ = ()

    def __init__(self, settings: WatchdogSettings) -> None:
        super().__init__(settings)
        self._period = 1

    def xoff(self, mask: int, now_ns: int) -> None:
        if self.settings.action is Action.ALERT:
            super().xoff(mask, now_ns)


_KINDS = {Kind.IDEAL: Watchdog, Kind.SONIC: SonicWatchdog, Kind.HARDWARE: HardwareWatchdog}


def watchdog_of(settings: PfcSettings) -> Watchdog | None:
    """Return the watchdog of a port with these settings, or None if it has none."""
    chosen = settings.watchdog
    return None if chosen is None else _KINDS[chosen.kind](chosen)
