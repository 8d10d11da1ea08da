"""A warning where the lab's clock stands still because a program computes on and on."""

from __future__ import annotations

from testbed.lab.engines.engine import RunningJob

AFTER_S = 10.0
"""The wall time without progress of the lab's clock after which its programs are looked at."""
_EVERY_S = 2.0


class Stall:
    """The progress of a lab's clock, as it is reported."""

    def __init__(self) -> None:
        self._virtual_ns = -1
        self._since_s = self._next_s = 0.0
        self._told = False

    def warning(self, session: RunningJob, virtual_ns: int, now_s: float) -> str | None:
        """Return a warning, once, if the clock has stood still and a program has its CPU all the time."""
        if virtual_ns != self._virtual_ns:
            self._virtual_ns, self._since_s, self._next_s = virtual_ns, now_s, now_s + AFTER_S
        if self._told or now_s < self._next_s:
            return None
        self._next_s = now_s + _EVERY_S
        if (command := session.spins()) is None:
            return None
        self._told = True
        what = f"the program {command}" if command else "a program"
        return (
            f"the lab's clock has stood still for {now_s - self._since_s:.0f} s: {what} computes without a system "
            "call, which takes no lab time. It may be at work; if it waits for another one by looking at memory again "
            "and again, it waits for ever: have it sleep or yield, or use --engine vm. Ctrl-C ends the run"
        )
