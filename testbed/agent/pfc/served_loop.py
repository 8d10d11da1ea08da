"""The loop of an agent whose ports the kernel serves while it sleeps, and which sleeps from its birth on.

What a process touches after its fork it has to copy. So its parent does all that comes before the first wait, and the
process makes three system calls and has copied next to nothing until it is woken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from testbed.agent.pfc.loop import URGENCY, Loop
from testbed.agent.pfc.waiting import KernelWaiting, Waiting
from testbed.linux.process import kernel
from testbed.units import NEVER


class ServedLoop(Loop):
    """A loop that can begin before its process is forked."""

    _waiting: KernelWaiting

    def _new_waiting(self, files: Iterable[int]) -> Waiting:
        return KernelWaiting(files, self._ports, self._resources, self._log)

    def first_calls(self) -> list[Callable[[], object]]:
        """Do all that comes before the first wait, and return the calls of it. What the last one returns is for
        `wake_up`.
        """
        self._take_over()
        if not self._waiting.wait((), NEVER, at_once=True):  # or what is to be read is older
            self._look_at_links()
        self._write_log()
        wait = self._waiting.first_calls(self._touched.values(), self._ways.deadline_ns)
        self._touched.clear()
        return [kernel.getting_real_time(URGENCY), *wait]

    def wake_up(self, found: object) -> None:
        """Run as `run` does, from the end of the first wait on."""
        assert isinstance(found, list)
        self._go_on(self._waiting.woken([file for file, _ in found]))
