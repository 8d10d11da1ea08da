"""Who ends pauses when an agent cannot, because it is dead and its successor is not there yet.

With its own timer an agent sets its parent's alarm, to a little later. An agent that lives does what is due and sets
both anew. If it does not live, a stand-in looks at what it has noted in the memory they share, and ends what is over.
It changes nothing there: a successor finds all as it was, and ends such a pause once more, which does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from testbed.agent.plan import AgentPlan, PortPlan
from testbed.agent.port import SHARED
from testbed.linux.port_program import PRIORITIES
from testbed.pfc import NEVER
from testbed.pfc.port import TIMERS

GRACE_NS = 200_000
"""How much later than the agent's timer its parent's alarm comes."""


class Alarm(Protocol):
    """What can be set to a moment: kernel.Timer."""

    def set(self, moment_ns: int) -> None: ...


class StandIn:
    """Stands in for the agent of one node."""

    def __init__(
        self,
        plan: AgentPlan,
        timers: memoryview[int],
        shared: memoryview[int],
        alarm: Alarm,
        send: Callable[[bytes], object],
    ) -> None:
        """`timers` are those of all ports, TIMERS for each slot; `shared` has what a pause of each priority
        stops (`port.py`), SHARED octets for each slot; `send` sends a request in the node's network.

        When the alarm comes, `look` is to be called.
        """
        self._ports = {
            port.slot * TIMERS + priority: (port, priority) for port in plan.ports for priority in range(PRIORITIES)
        }
        self._timers = timers
        self._shared = shared
        self._alarm = alarm
        self._send = send
        self._ended: dict[int, int] = {}
        """By its place in the memory, the end of the pause that was ended last."""

    def look(self, now_ns: int) -> int:
        """End the pauses that are over, and set the alarm to the next end, which is returned (NEVER: none is left)."""
        next_ns = NEVER
        for place, (port, priority) in self._ports.items():
            end_ns = self._timers[place]
            if not 0 < end_ns < NEVER or self._ended.get(place) == end_ns:
                continue
            if end_ns <= now_ns:
                self._send(self._go(port, priority, now_ns))
                self._ended[place] = end_ns
            else:
                next_ns = min(next_ns, end_ns)
        if next_ns < NEVER:
            self._alarm.set(next_ns)
        return next_ns

    def _go(self, port: PortPlan, priority: int, now_ns: int) -> bytes:
        """The request that lets go what this priority stopped, but for queues that another one stops still."""
        queues = self._shared[port.slot * SHARED + priority]
        for other in range(PRIORITIES):
            if other != priority and now_ns < self._timers[port.slot * TIMERS + other] < NEVER:
                queues &= ~self._shared[port.slot * SHARED + other]
        return b"".join(port.go[queue] for queue in range(PRIORITIES) if queues >> queue & 1)
