"""The waits of an agent: for an event of the port program, for a deadline, or for something to be read.

On `um` the kernel does what is frequent meanwhile (decision 0540), and wakes the agent for the rest. Elsewhere the
agent is woken for each event.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from testbed.agent.event_log import MappedLog
from testbed.agent.pfc.port import AgentPort
from testbed.agent.pfc.resources import AgentResources
from testbed.linux.netlink import qdiscs
from testbed.linux.pfc_device import News, PfcDevice, PfcPlan
from testbed.linux.port_program.records import XOFF_AT
from testbed.linux.process import kernel
from testbed.switch.pfc.timers import TIMERS
from testbed.units import NEVER

_MOST_READY = 8
"""Files that one wait returns at most: an agent has five."""


class Waiting:
    """The waits of an agent that does all by itself."""

    def __init__(self, files: Iterable[int], ring: int) -> None:
        self.timer = kernel.Timer()
        """The file that is ready when a deadline has come."""
        self._files = select.epoll()
        for file in (ring, *files):
            self._files.register(file, select.EPOLLIN)
        # With EPOLLET each expiry ends one wait, and the timer need not be read.
        self._files.register(self.timer.fd, select.EPOLLIN | select.EPOLLET)
        self._set_ns = NEVER
        self.started_ns = NEVER
        """The moment at which the agent began; no event before that is late."""

    def wait(self, ports: Iterable[AgentPort], due_ns: int, at_once: bool) -> list[int]:
        """Wait, and return the files that are ready; with `at_once` there may be none.

        `ports` are those whose state may have changed since the last call, and `due_ns` is when something else is due.
        """
        for port in ports:
            due_ns = min(due_ns, port.pfc.deadline_ns or NEVER)
        if due_ns < self._set_ns:  # an early wake-up is cheaper than setting the timer each time
            self.timer.set(due_ns)
            self._set_ns = due_ns
        ready = [file for file, _ in self._files.poll(0 if at_once else None, _MOST_READY)]
        if self.timer.fd in ready:
            self._set_ns = NEVER
        return ready

    def woke_ns(self) -> int:
        """Return a moment after the last wait."""
        return time.monotonic_ns()

    def close(self) -> None:
        os.close(self.timer.fd)
        self._files.close()


class KernelWaiting(Waiting):
    """The waits of an agent whose ports the kernel serves meanwhile."""

    def __init__(
        self, files: Iterable[int], ports: Mapping[int, AgentPort], resources: AgentResources, log: MappedLog
    ) -> None:
        """This is made in the agent's parent, with all that is the same in both: what the process touches first it has
        to copy. Who waits first is served.
        """
        self._ports, self._log = list(ports.values()), log
        self._places = {port.plan.slot: place for place, port in enumerate(self._ports)}
        self._changed: dict[int, AgentPort] = {}
        """Ports whose state the kernel has to get."""
        self._device = PfcDevice(
            resources.ring,
            resources.program.groups,
            XOFF_AT,
            resources.lateness,
            [_plan(port, resources) for port in self._ports],
        )
        for place, port in enumerate(self._ports):
            self._device.put(place, port.give())
        log.room()
        self._woke_ns = 0
        super().__init__(files, self._device.fd)

    def wait(self, ports: Iterable[AgentPort], due_ns: int, at_once: bool) -> list[int]:
        self._changed |= {port.plan.slot: port for port in ports}
        if at_once:
            self._woke_ns = 0
            return super().wait((), NEVER, at_once=True)
        self._give()
        self._device.serve(due_ns, self.started_ns, self._log.room())
        return self.woken(super().wait((), NEVER, at_once=False))

    def first_calls(self, ports: Iterable[AgentPort], due_ns: int) -> list[Callable[[], object]]:
        """Return the two calls of the first wait, which run no Python."""
        self._changed |= {port.plan.slot: port for port in ports}
        self._give()
        serve = self._device.serving(due_ns, self.started_ns, self._log.room())
        return [serve, partial(self._files.poll, None, _MOST_READY)]

    def woken(self, ready: list[int]) -> list[int]:
        """Take the state of the ports back after a wait that ended with these files, and return those that are
        ready.
        """
        self._woke_ns, news = self._device.take()
        self._log.follow()
        for place, state in self._device.changed():
            port = self._ports[place]
            port.pfc.take_back(state)
            self._changed[port.plan.slot] = port  # what has been counted is not to be counted again
        return [*ready, self.timer.fd] if news & News.DUE else ready

    def _give(self) -> None:
        for slot, port in self._changed.items():
            self._device.put(self._places[slot], port.give())
        self._changed.clear()

    def woke_ns(self) -> int:
        return self._woke_ns or super().woke_ns()

    def close(self) -> None:
        self._device.close()
        self._log.close()
        super().close()


def _plan(port: AgentPort, resources: AgentResources) -> PfcPlan:
    plan = port.plan
    return PfcPlan(
        plan.slot, plan.interface, port.fileno, plan.mac, [qdiscs.paused_places(request) for request in plan.stop],
        plan.xoff_delay_ns, plan.stop_delay_ns, plan.xoff_allowed_ns, plan.stop_allowed_ns, plan.rate.bps,
        resources.timers[plan.slot * TIMERS : (plan.slot + 1) * TIMERS],
    )  # fmt: skip
