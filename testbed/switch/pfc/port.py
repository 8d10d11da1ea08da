"""PFC at one port, both directions: received frames stop and resume the port's queues, and congestion of its
ingress buffer sends frames. IEEE 802.1Q clause 36 and the PFC/ECN article, by decisions 0132, 0137 and 0138.

Nothing here sends or waits. Time comes in as `now_ns`; out come frames, the next deadline, and priorities (as bit
masks) whose queues have to change. A queue is in one of three states, and only changes are reported:

    resume   it sends
    stop     it sends nothing, and keeps what it holds
    drop     what it holds and gets is thrown away (only by the watchdog)

Our own transmission. XOFF stops a priority for its quanta, counted from the moment it came, whatever was left of a
pause before. XON or the end of that time resumes it. Enable bit 0 leaves it as it is. A priority without PFC is never
touched. State changes in calls only: a pause whose time is over lasts until `expire` is called, and an XOFF that comes
before that prolongs it without a gap, for the queue has not moved.

The far end's transmission, and which priorities a frame names (decision 0137):

- XOFF names the newly congested priorities, XON those relieved; neither shortens nor prolongs another's pause.
- A refresh names all that are congested. The port has one refresh timer, started by the first XOFF: one frame per
  period however many priorities are congested, and none waits longer than its share of the pause.

A hot path, from an event to the frame that is sent or the queue that is stopped, has some 250 byte codes in the lab's
emulated machine, the caller's included. Hence bit masks, frames prepared in advance (`wire`), and counters that are
summed up later (`record`); and the caller has to pass masks of 8 bits and time that does not go back.

Runs in C: `testbed/lab/um/linux/xoff_pfc_rules.h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from testbed.frames import Mac
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.record import Event, Ignored, PfcCounters, PfcEvent
from testbed.switch.pfc.settings import Action, PfcError, PfcSettings, check_priority
from testbed.switch.pfc.timers import POLL, REFRESH, TIMERS, Timers, refresh_interval_ns
from testbed.switch.pfc.watchdog import watchdog_of
from testbed.switch.pfc.wire import Frames, Readings, pause_ns
from testbed.units import NEVER, Rate

_SOON_NS = 2_000_000
"""After a link came up, the time to the first repetition of XOFF."""

# For hot paths: a name of the module is found quicker than a member of an enum.
_XOFF_RECEIVED = PfcEvent.XOFF_RECEIVED
_XON_RECEIVED = PfcEvent.XON_RECEIVED
_PAUSE_EXPIRED = PfcEvent.PAUSE_EXPIRED
_XOFF_SENT = PfcEvent.XOFF_SENT
_XON_SENT = PfcEvent.XON_SENT
_CONGESTED = PfcEvent.CONGESTED
_RELIEVED = PfcEvent.RELIEVED


class Change(NamedTuple):
    """The work of the caller after new settings or a restart: a frame to send, and changes of queues."""

    frame: bytes | None
    stop: int
    resume: int


class PfcPort:
    """PFC at one port. The rules are in the module's docstring."""

    __slots__ = (
        "_active",
        "_announced",
        "_counted",
        "_counters",
        "_events",
        "_interval_ns",
        "_is_up",
        "_rate",
        "_readings",
        "_settings",
        "_source",
        "_timers",
        "_watchdog",
        "_xoff",
        "_xon",
        "congested_mask",
        "paused_mask",
    )

    def __init__(self, settings: PfcSettings, source: Mac, rate: Rate, timers: Timers | None = None) -> None:
        """`source` is the source address of sent frames, `rate` the port's speed in the lab, scaled already.

        `timers` are TIMERS numbers in which the port keeps what is due when, the ends of the eight pauses first (NEVER:
        not paused). In memory that a successor can read they are the input of `restore`, at every moment; also if the
        successor dies before it has called it: a new port leaves what it finds there as it is. For a port that is not
        to be restored all of them have to be NEVER.
        """
        if rate.bps == 0:
            raise PfcError("the rate of a port with PFC is 0b/s, so a pause would never end; give a rate above zero")
        self._source = source
        self._rate = rate
        self._settings = settings
        self._timers: Timers = [NEVER] * TIMERS if timers is None else timers
        self._events: list[Event] = []
        self._counted = 0  # so many of the events are in the counters already
        self._counters = PfcCounters()
        self.paused_mask = 0  # priorities whose own transmission is stopped
        self.congested_mask = 0  # priorities above their threshold, with PFC or without
        self._announced = 0  # those of them for which XOFF was sent
        self._is_up = True
        self._readings = Readings(rate)
        self._interval_ns = refresh_interval_ns(self._rate, settings)
        self._watchdog = watchdog_of(settings)
        self._prepare()

    # Hot paths

    def congested(self, mask: int, now_ns: int) -> bytes | None:
        """Note that the buffer of these priorities passed its threshold; return the frame to send now, or None."""
        mask &= ~self.congested_mask
        if not mask:
            return None
        self.congested_mask |= mask
        self._events.append((now_ns, _CONGESTED, mask, 0))
        mask &= self._active
        if not mask:
            return None
        if not self._announced:
            self._timers[REFRESH] = now_ns + self._interval_ns
        self._announced |= mask
        self._events.append((now_ns, _XOFF_SENT, mask, self._settings.pause_quanta))
        return self._xoff[mask]

    def relieved(self, mask: int, now_ns: int) -> bytes | None:
        """Note that the buffer of these priorities has room again; return the frame to send now, or None."""
        mask &= self.congested_mask
        if not mask:
            return None
        self.congested_mask ^= mask
        self._events.append((now_ns, _RELIEVED, mask, 0))
        mask &= self._announced
        if not mask:
            return None
        self._announced ^= mask
        if not self._announced:
            self._timers[REFRESH] = NEVER
        if not self._settings.send_xon:
            return None
        self._events.append((now_ns, _XON_SENT, mask, 0))
        return self._xon[mask]

    def receive(self, frame: bytes, now_ns: int) -> tuple[int, int]:
        """Process a MAC control frame, from the destination on; return (stop, resume) for this port's queues."""
        xoff, xon, pauses, told, ignored = self._readings[frame[:6] + frame[12:34]]
        stop = resume = 0
        if xoff:
            timers = self._timers
            for priority, pause in pauses:
                timers[priority] = now_ns + pause
            for mask, quanta in told:
                self._events.append((now_ns, _XOFF_RECEIVED, mask, quanta))
            stop = xoff & ~self.paused_mask
            if stop:
                self.paused_mask |= stop
                if self._watchdog is not None:
                    timers[POLL] = self._watchdog.paused(stop, now_ns)
        if xon:
            self._events.append((now_ns, _XON_RECEIVED, xon, 0))
            resume = xon & self.paused_mask
            if resume:
                self._unpause(resume)
        if ignored:
            self._ignore(ignored, now_ns)
        return stop, resume

    @property
    def deadline_ns(self) -> int | None:
        """The time when `expire` has to be called: the earliest end of a pause, refresh, or poll of the watchdog."""
        due = min(self._timers)
        return None if due == NEVER else due

    def expire(self, now_ns: int) -> tuple[int, int, int]:
        """Do all that is due, and return (resume, refresh, drop).

        For each priority in `refresh` the caller calls the buffer model's `recheck`, then `relieved` if that returned
        XON, else `refreshed`. Called too early, this does nothing. Called late, it does things late: the next refresh
        counts from now, and a pause that has ended by now is no storm. Nor is one that ends at the moment of a poll.
        """
        timers = self._timers
        resume = refresh = drop = 0
        for priority in PRIORITIES_IN[self.paused_mask]:
            if timers[priority] <= now_ns:
                resume |= 1 << priority
                self._events.append((now_ns, _PAUSE_EXPIRED, 1 << priority, now_ns - timers[priority]))
                timers[priority] = NEVER
        self.paused_mask ^= resume
        if timers[POLL] <= now_ns:
            let_go, refresh, drop = self._poll(now_ns)
            resume |= let_go
        if timers[REFRESH] <= now_ns:
            timers[REFRESH] = now_ns + self._interval_ns
            refresh |= self._announced
        return resume, refresh, drop

    def refreshed(self, mask: int, now_ns: int) -> bytes | None:
        """Note that these priorities are congested still; return the frame to send now, or None if none is."""
        mask &= self.congested_mask & self._active
        if not mask:
            return None
        if not self._announced:
            self._timers[REFRESH] = now_ns + self._interval_ns
        again = mask & self._announced
        self._announced |= mask
        if again:
            self._events.append((now_ns, PfcEvent.XOFF_REFRESHED, again, self._settings.pause_quanta))
        if mask != again:  # after a storm XOFF has to be sent anew
            self._events.append((now_ns, _XOFF_SENT, mask ^ again, self._settings.pause_quanta))
        return self._xoff[mask]

    # Administration

    def configure(self, settings: PfcSettings, now_ns: int) -> Change:
        """Change the settings while frames flow. Settings that do not fit the port raise and change nothing.

        A priority that is switched off resumes if it was paused or dropping, and the far end is sent XON for it if it
        was sent XOFF (unless XON is never sent). One that is switched on and congested is sent XOFF. Another pause
        time or refresh holds from now on. Other watchdog settings end all storms, and detection starts anew.
        """
        self._interval_ns = refresh_interval_ns(self._rate, settings)
        watchdog_changes = settings.watchdog != self._settings.watchdog
        off = ~settings.mask
        resume = 0
        if self._watchdog is not None:
            over = self.stormed_mask if watchdog_changes else self.stormed_mask & off
            resume = self._end_storms(self._watchdog.end(over, now_ns), now_ns)
        cancelled = self.paused_mask & off
        if cancelled:
            self._unpause(cancelled)
            self._events.append((now_ns, PfcEvent.PAUSE_CANCELLED, cancelled, 0))
        self._settings = settings
        if watchdog_changes:
            self._watchdog = watchdog_of(settings)
            self._timers[POLL] = NEVER
            self._watch(self.paused_mask, now_ns)
        self._prepare()
        xon = self._announced & off
        xoff = self.congested_mask & self._active & ~self._announced
        self._announced &= ~off
        if not self._announced:
            self._timers[REFRESH] = NEVER
        self._announced |= xoff
        if self._announced:
            self._timers[REFRESH] = min(self._timers[REFRESH], now_ns + self._interval_ns)
        return Change(self._frame(xoff, xon, now_ns), 0, resume | cancelled)

    def restore(self, paused_until_ns: Mapping[int, int], congested_mask: int, now_ns: int) -> Change:
        """Take over from an agent that died: what it had paused (its `paused_until_ns`), and what is congested now.

        Call this before anything else. A pause goes on to its end, but no longer than the longest pause of a frame,
        and is a new one to the watchdog. Of the priorities given, those whose pause is over or without PFC resume. As
        the frames sent last are unknown, one frame covers all: XOFF for congested priorities, XON for the
        other priorities with PFC. Storms are not handed over: the caller has to start with no queue dropping.
        """
        if self.paused_mask or self.congested_mask or self.stormed_mask:
            raise PfcError("a port that is paused or congested already cannot be restored; restore a new one, first")
        for priority in paused_until_ns:
            check_priority(priority)
        longest_ns = now_ns + pause_ns(self._rate, LONGEST_PAUSE)
        stop = 0
        self._timers[REFRESH] = self._timers[POLL] = NEVER
        for priority in PRIORITIES_IN[0xFF]:
            until_ns = paused_until_ns.get(priority, 0)
            if self._active >> priority & 1 and until_ns > now_ns:
                stop |= 1 << priority
                until_ns = min(until_ns, longest_ns)
                self._events.append((now_ns, PfcEvent.PAUSE_RESTORED, 1 << priority, until_ns - now_ns))
            else:
                until_ns = NEVER
            self._timers[priority] = until_ns
        self.paused_mask = stop
        self._watch(stop, now_ns)
        self.congested_mask = congested_mask
        if congested_mask:
            self._events.append((now_ns, _CONGESTED, congested_mask, 0))
        self._announced = congested_mask & self._active
        if self._announced:
            self._timers[REFRESH] = now_ns + self._interval_ns
        frame = self._frame(self._announced, self._active & ~congested_mask, now_ns)
        return Change(frame, stop, mask_of(paused_until_ns) & ~stop)

    def link_down(self, now_ns: int) -> int:
        """Note that the link is lost, which no pause outlives: it is an agreement of two ends that have a link.

        What was paused or dropping resumes, storms are over, and nothing is sent until `link_up`. The buffer's state
        stays as it is. The method returns the queues to resume.
        """
        self._is_up = False
        resume = 0
        if self._watchdog is not None:
            resume = self._end_storms(self._watchdog.end(self.stormed_mask, now_ns), now_ns)
            self._watchdog = watchdog_of(self._settings)
        paused = self.paused_mask
        if paused:
            self._unpause(paused)
            self._events.append((now_ns, PfcEvent.PAUSE_CANCELLED, paused, 0))
        self._announced = 0
        self._timers[REFRESH] = self._timers[POLL] = NEVER
        self._obey()
        return resume | paused

    def link_up(self, now_ns: int) -> bytes | None:
        """Note that there is a link again, and return the frame to send now: XOFF for what is congested.

        The far end may detect the link a little later than this one, and then drops what was received before. So the
        first refresh comes soon.
        """
        if self._is_up:
            return None
        self._is_up = True
        self._obey()
        self._announced = self.congested_mask & self._active
        if not self._announced:
            return None
        self._timers[REFRESH] = now_ns + min(self._interval_ns, _SOON_NS)
        return self._frame(self._announced, 0, now_ns)

    # What there is to see

    @property
    def settings(self) -> PfcSettings:
        return self._settings

    @property
    def stormed_mask(self) -> int:
        """The priorities in a storm: nothing is obeyed or sent for them."""
        return 0 if self._watchdog is None else self._watchdog.stormed

    @property
    def paused_until_ns(self) -> dict[int, int]:
        """The time when the pause of each paused priority ends."""
        return {priority: self._timers[priority] for priority in PRIORITIES_IN[self.paused_mask]}

    @property
    def counters(self) -> PfcCounters:
        """The counters, up to date."""
        self._counters.add(self._events[self._counted :])
        self._counted = len(self._events)
        return self._counters

    def drain(self) -> list[Event]:
        """Return the events since the last call. The port counts them and keeps none, so call this often enough."""
        self._counters.add(self._events[self._counted :])
        events, self._events, self._counted = self._events, [], 0
        return events

    def snapshot(self, now_ns: int) -> dict[str, Any]:
        """Return state and counters as plain data."""
        counters = self.counters
        until_ns = self.paused_until_ns
        return {
            "ignored_frames": counters.frames(),
            "priorities": [
                {
                    "priority": priority,
                    "enabled": priority in self._settings.enabled,
                    "paused_until_ns": until_ns.get(priority),
                    "is_congested": bool(self.congested_mask >> priority & 1),
                    "stormed": bool(self.stormed_mask >> priority & 1),
                    **counters.priority(priority, now_ns),
                }
                for priority in range(8)
            ],
        }

    # Inside

    def _prepare(self) -> None:
        """Make the frames of new settings for one priority and for all, and read such, for a peer sends the same.

        Any other frame is made or read when it first comes, which costs that once several hundred byte codes.
        """
        self._xoff = Frames(self._source, self._settings.pause_quanta)
        self._xon = Frames(self._source, 0)
        self._obey()
        for mask in [1 << priority for priority in self._settings.enabled] + [self._settings.mask]:
            if mask:
                self._readings.of(self._xoff[mask])
                self._readings.of(self._xon[mask])

    def _obey(self) -> None:
        """Obey the right priorities after new settings, or when a storm began or ended."""
        alert = self._watchdog is not None and self._watchdog.watch(self._settings.mask)
        active = self._settings.mask & ~(0 if alert else self.stormed_mask)
        self._readings.obey(self._settings.mask, active)
        self._active = active if self._is_up else 0

    def _unpause(self, mask: int) -> None:
        self.paused_mask ^= mask
        for priority in PRIORITIES_IN[mask]:
            self._timers[priority] = NEVER

    def _ignore(self, ignored: tuple[tuple[Ignored, int, int], ...], now_ns: int) -> None:
        for reason, mask, stopping in ignored:
            self._events.append((now_ns, PfcEvent.IGNORED, mask, reason))
            if reason is Ignored.STORM and self._watchdog is not None:
                self._watchdog.xoff(stopping, now_ns)

    def _watch(self, paused: int, now_ns: int) -> None:
        """Start the watchdog for pauses that begin now."""
        if paused and self._watchdog is not None:
            self._timers[POLL] = self._watchdog.paused(paused, now_ns)

    def _poll(self, now_ns: int) -> tuple[int, int, int]:
        """Have the watchdog look, and return (resume, refresh, drop)."""
        assert self._watchdog is not None  # or there would be no poll
        if alert := self._watchdog.settings.action is Action.ALERT:  # a storm lasts as long as its pause
            self._watchdog.xoff(self.paused_mask & self.stormed_mask, now_ns)
        verdict, over = self._watchdog.poll(self.paused_mask & ~self.stormed_mask, now_ns)
        self._timers[POLL] = self._watchdog.due_ns
        let_go = self._end_storms(over, now_ns)
        storms = mask_of(priority for priority, _ in verdict)
        for priority, paused_ns in verdict:
            self._events.append((now_ns, PfcEvent.STORM_DETECTED, 1 << priority, paused_ns))
        if alert:
            return 0, 0, 0
        self._unpause(storms)
        self._announced &= ~storms
        if not self._announced:
            self._timers[REFRESH] = NEVER
        if verdict or over:
            self._obey()
        refresh = mask_of(priority for priority, _ in over) & self.congested_mask
        if self._watchdog.settings.action is Action.DROP:
            return let_go, refresh, storms
        return let_go | storms, refresh, 0

    def _end_storms(self, over: list[tuple[int, int]], now_ns: int) -> int:
        """Note the storms that the watchdog ended, and return the queues to resume; with FORWARD they send already."""
        for priority, lasted_ns in over:
            self._events.append((now_ns, PfcEvent.STORM_ENDED, 1 << priority, lasted_ns))
        assert self._watchdog is not None
        return mask_of(priority for priority, _ in over) if self._watchdog.settings.action is Action.DROP else 0

    def _frame(self, xoff: int, xon: int, now_ns: int) -> bytes | None:
        """Return one frame with XOFF and XON for these priorities, XON only if the settings send any."""
        quanta = self._settings.pause_quanta
        changes = dict.fromkeys(PRIORITIES_IN[xoff], quanta)
        if xoff:
            self._events.append((now_ns, _XOFF_SENT, xoff, quanta))
        if xon and self._settings.send_xon:
            self._events.append((now_ns, _XON_SENT, xon, 0))
            changes |= dict.fromkeys(PRIORITIES_IN[xon], 0)
        return PfcFrame.of(self._source, changes).encode() if changes else None
