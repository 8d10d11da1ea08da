"""PFC at a port that the kernel serves while the agent sleeps: the state that goes to the kernel and comes back."""

from __future__ import annotations

from testbed.linux.pfc_device import COUNTS, PRIORITIES, PfcState, Serves
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.port import PfcPort
from testbed.switch.pfc.record import PfcEvent
from testbed.switch.pfc.watchdog import Watchdog
from testbed.units import NEVER

_COUNTED = (
    PfcEvent.XOFF_RECEIVED, PfcEvent.XON_RECEIVED, PfcEvent.XOFF_SENT, PfcEvent.XON_SENT, PfcEvent.CONGESTED,
    PfcEvent.RELIEVED,
)  # fmt: skip
"""The order in which the kernel counts events."""
_NOTHING = (0,) * PRIORITIES


class ServedPort(PfcPort):
    """A port between two turns of its agent. All events have to be drained before its state is given away."""

    __slots__ = ()

    def give(self, serves: Serves, held: int, overlaps: bool, queues: bytes) -> PfcState:
        """Return the state for the kernel; `queues` are those of each priority, as masks."""
        watchdog = self._watchdog
        detection_ns = period_ns = 0
        if type(watchdog) is Watchdog:
            detection_ns, period_ns = (
                -(-time.ps // 1000) for time in (watchdog.settings.detection, watchdog.settings.poll)
            )
        elif watchdog is not None:
            serves &= ~Serves.FRAMES  # it has rules of its own for when a pause begins
        if not self._is_up:
            serves &= ~Serves.FRAMES  # what came before the link was lost is judged by all that is enabled
        since = self.counters.paused_since
        return PfcState(
            serves, self.paused_mask, self.congested_mask, self._announced, self._active, held, overlaps,
            self._settings.send_xon, 0, self._settings.pause_quanta, queues, self._interval_ns, detection_ns, period_ns,
            NEVER if watchdog is None else watchdog.due_ns, _NOTHING,
            tuple(since.get(priority, NEVER) for priority in range(PRIORITIES)), _NOTHING, (_NOTHING,) * COUNTS,
        )  # fmt: skip

    def take_back(self, state: PfcState) -> None:
        """Go on with what the kernel has made of the state."""
        self.paused_mask, self.congested_mask, self._announced = state.paused, state.congested, state.announced
        if state.began and self._watchdog is not None:
            for priority in PRIORITIES_IN[state.began]:
                self._watchdog.paused(mask_of((priority,)), state.since_ns[priority])
            self._watchdog.due_ns = state.polls_at_ns
        since = {priority: at for priority, at in enumerate(state.paused_since_ns) if at != NEVER}
        self.counters.add_sums(dict(zip(_COUNTED, state.counts, strict=True)), since, state.paused_ns)
