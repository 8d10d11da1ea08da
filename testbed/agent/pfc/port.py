"""A port as its agent sees it: what PFC decides about priorities, in requests about queues.

A priority's frames lie in one queue. With ETS several priorities can share one, and while frames of a priority still
lie in a queue that it had before, it has two. So a pause of a priority stops a set of queues, and the end of a pause
resumes those that no other pause stops. The sets are in memory that the agent's successor and the pause failsafe read.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace

from testbed.agent.plan import PortPlan
from testbed.frames.mac_control import PfcFrame
from testbed.linux.pfc_device import COUNTS, PfcState, Serves
from testbed.linux.port_program import EVENT, PRIORITIES, EventKind
from testbed.switch.pfc import PRIORITIES_IN, mask_of
from testbed.switch.pfc.port import Change, PfcPort
from testbed.switch.pfc.record import PfcEvent
from testbed.switch.pfc.settings import WatchdogSettings
from testbed.switch.pfc.timers import TIMERS
from testbed.switch.pfc.watchdog import Watchdog
from testbed.units import NEVER

SHARED = 24
"""The octets for each port in that memory: for each priority the queues that it stops, as a mask; then these:"""
QUEUE_OF, ENABLED, LINK, HELD = 8, 16, 17, 18
_KNOWN, _UP, _DOWNS = 0x80, 0x40, 0x3F
"""The parts of the octet LINK: the rest is known, there is a link, and the number of times that it was lost, modulo
64."""


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


class Requests(dict[int, bytes]):
    """Requests for sets of queues, each in one message that is made when it is first wanted."""

    def __init__(self, of_each: tuple[bytes, ...]) -> None:
        self._of_each = of_each

    def __missing__(self, mask: int) -> bytes:
        request = self[mask] = b"".join(self._of_each[queue] for queue in PRIORITIES_IN[mask])
        return request


class _Union(dict[int, int]):
    """The queues of a set of priorities."""

    def __init__(self, of_each: memoryview[int]) -> None:
        self._of_each = of_each

    def __missing__(self, mask: int) -> int:
        queues = 0
        for priority in PRIORITIES_IN[mask]:
            queues |= self._of_each[priority]
        self[mask] = queues
        return queues


class AgentPort:
    """A port with its queues."""

    __slots__ = ("_go", "_leaving", "_masks", "_overlap", "_queues", "_shared", "_socket", "_stop",
                 "blocked", "held_mask", "left_behind", "pfc", "plan", "send")  # fmt: skip

    def __init__(self, plan: PortPlan, timers: memoryview[int], shared: memoryview[int]) -> None:
        """`timers` and `shared` are this port's part of the memory that a successor finds."""
        self.plan = plan
        self.left_behind = {priority: timers[priority] for priority in range(PRIORITIES) if timers[priority]}
        self._shared, self._masks = shared, shared[:PRIORITIES]
        self._queues = _Union(self._masks)
        self._leaving = 0
        if not self.left_behind:  # the first agent of this port
            for number in range(TIMERS):
                timers[number] = NEVER
            shared[ENABLED] = plan.pfc.mask
            shared[QUEUE_OF : QUEUE_OF + PRIORITIES] = bytes(plan.arrange(None).queue_of)
            self._masks[:] = bytes(self._only(priority) for priority in range(PRIORITIES))
        self.held_mask = shared[HELD]
        self._note_overlap()
        settings = replace(plan.pfc, enabled=frozenset(PRIORITIES_IN[shared[ENABLED]]))
        self.pfc = ServedPort(settings, plan.mac, plan.rate, timers)
        self._stop, self._go = Requests(plan.stop), Requests(plan.go)
        self.blocked = 0

    def open(self) -> None:
        """Open the port's socket, in its node's network namespace."""
        self._socket = packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        packets.bind((self.plan.name, 0))
        packets.setblocking(False)
        self.send = packets.send

    @property
    def fileno(self) -> int:
        """The file descriptor of the port's socket."""
        return self._socket.fileno()

    def give(self) -> PfcState:
        """Return the port's state for the kernel, with what it may do here while the agent sleeps."""
        serves = Serves(0)
        if not self.plan.notifies_speaker:
            serves |= Serves.THRESHOLDS
        if not self.plan.response_delay_ns and not self._leaving:
            serves |= Serves.FRAMES
        return self.pfc.give(serves, self.held_mask, self._overlap, bytes(self._masks))

    def close(self) -> None:
        """Close the port's socket."""
        self._socket.close()

    def silent_copy(self) -> AgentPort:
        """Return a port like this, with memory of its own, that reacts at once and sends nothing."""
        plan = replace(self.plan, notifies_speaker=False, response_delay_ns=0, xoff_delay_ns=0, stop_delay_ns=0)
        copy = AgentPort(plan, memoryview(bytearray(8 * TIMERS)).cast("q"), memoryview(bytearray(SHARED)))
        copy.send = lambda frame, _flags=0: 0
        return copy

    def pause_and_end(self, now_ns: int) -> list[bytes]:
        """Return the events of a pause that comes in and ends, and of a group that becomes congested if there is a
        buffer.
        """
        priority, plan = min(self.plan.pfc.enabled), self.plan
        frames = [PfcFrame.of(plan.mac, {priority: quanta}).encode() for quanta in (plan.pfc.pause_quanta, 0)]
        events = [EVENT.pack(now_ns, EventKind.FRAME, plan.slot, 0, 0, len(frame), 0, 0) + frame for frame in frames]
        if plan.has_buffer:
            events.append(EVENT.pack(now_ns, EventKind.XOFF, plan.slot, priority, 0, 0, 0, 0))
        return events

    def lost_link(self, is_up: bool, downs: int | None) -> bool:
        """Note the state of the link, and return True if it was lost since the last time, seen by this agent or a
        predecessor.
        """
        before, now = self._shared[LINK], _KNOWN | (_UP if is_up else 0) | (downs or 0) & _DOWNS
        self._shared[LINK] = now
        return not is_up or (before & _KNOWN != 0 and before != now)

    def stopping(self, priorities: int) -> bytes:
        """Return the request that stops the queues of these priorities; one that is stopped already may be stopped
        again.
        """
        return self._stop[self._queues[priorities]]

    def resuming(self, priorities: int) -> bytes:
        """Return the request that resumes the queues of these priorities that no other pause stops, and that are not
        held.
        """
        queues = self._queues[priorities]
        if self._overlap or self.held_mask:
            queues &= ~self._queues[self.stopped_mask]
        if self._leaving & priorities:
            self._leave(priorities)
        return self._go[queues]

    def emptying(self, priorities: int) -> list[bytes]:
        """Return the requests that throw away what the queues of these priorities hold, and leave them stopped."""
        return [self.plan.empty[queue] for queue in PRIORITIES_IN[self._queues[priorities]]]

    def locals_of(self, priorities: int) -> int:
        """Return the local priorities of these priorities, as a mask."""
        found = 0
        for priority in PRIORITIES_IN[priorities]:
            found |= 1 << self.plan.local[priority]
        return found

    @property
    def stopped_mask(self) -> int:
        """The priorities whose queues are stopped, by a pause or held."""
        return self.pfc.paused_mask | self.held_mask

    def hold(self, priorities: int) -> bytes:
        """Return the netlink request that stops the queues of these priorities, paused or not, until another call lets
        them go on; those of all others that are not paused go on now.
        """
        released = self.held_mask & ~priorities
        self.held_mask = self._shared[HELD] = priorities
        return self.stopping(priorities) + self.resuming(released & ~self.pfc.paused_mask)

    def enable(self, priorities: int, now_ns: int) -> Change:
        """Turn PFC on for these priorities and off for the others."""
        self._shared[ENABLED] = priorities
        settings = replace(self.pfc.settings, enabled=frozenset(PRIORITIES_IN[priorities]))
        return self.pfc.configure(settings, now_ns)

    def watch(self, watchdog: WatchdogSettings | None, now_ns: int) -> Change:
        """Give the watchdog other settings, which ends all storms."""
        return self.pfc.configure(replace(self.pfc.settings, watchdog=watchdog), now_ns)

    def arrange(self, queue_of: Sequence[int]) -> bytes:
        """Note that frames go into these queues from now on, by local priority. Those before may hold some still, until
        `drained`.

        Returns the request that stops the new queues, too, of what is stopped.
        """
        self._shared[QUEUE_OF : QUEUE_OF + PRIORITIES] = bytes(queue_of)
        for priority in range(PRIORITIES):
            self._masks[priority] |= self._only(priority)
        self._queues.clear()
        self._note_overlap()
        return self.stopping(self.stopped_mask)

    def drained(self) -> None:
        """Note that the queues before hold nothing any longer: a priority leaves them, at once or when its pause
        ends.
        """
        self._leaving = self.stopped_mask
        self._leave(0xFF & ~self._leaving)

    def _leave(self, priorities: int) -> None:
        for priority in PRIORITIES_IN[priorities]:
            self._masks[priority] = self._only(priority)
        self._leaving &= ~priorities
        self._queues.clear()
        self._note_overlap()

    def _only(self, priority: int) -> int:
        return 1 << self._shared[QUEUE_OF + self.plan.local[priority]]

    def _note_overlap(self) -> None:
        """Note whether two priorities can stop the same queue."""
        self._overlap = sum(queues.bit_count() for queues in self._masks) != self._queues[0xFF].bit_count()
