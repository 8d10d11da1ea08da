"""A rate control that is told what happens to its queue pair; a fault of it is put into words, and ends the flow.

It has the sentences of the kernel's interpreter (`testbed.bytecode.code.FAULTS`). In Python more can go wrong than
in code, so any other exception has its own words.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from testbed.bytecode.code import FAULTS
from testbed.roce.rates.base import RateControl
from testbed.units import NEVER

_WORDS = {ZeroDivisionError: FAULTS[2], IndexError: FAULTS[5], AssertionError: FAULTS[13]}
_BAD_RATE, _BAD_WINDOW, _STANDS_STILL = FAULTS[9], FAULTS[10], FAULTS[11]
_MOST_DEADLINES = 10_000
"""The most deadlines that may be due at one moment."""


class Informed:
    """The rate control of one queue pair."""

    def __init__(self, rate: RateControl, on_fault: Callable[[str], None]) -> None:
        self._rate, self._on_fault = rate, on_fault
        self.has_fault = False

    def tell(self, event: Callable[..., None], *arguments: Any) -> None:
        """Call a method of the rate control for an event, unless it has had a fault."""
        if self.has_fault:
            return
        try:
            event(*arguments)
            self.check(event)
        except Exception as error:
            self._fail(self._words(error))

    def check(self, event: Callable[..., None]) -> None:
        """Have a fault if the method that was called has left a rate or a window that nothing can have."""
        window = self._rate.window
        if not self._rate.rate_lab_bps > 0:
            self._fail(f"{_BAD_RATE}, at {_place(event)}")
        elif window is not None and not window >= 1:
            self._fail(f"{_BAD_WINDOW}, at {_place(event)}")

    @property
    def deadline_ns(self) -> int:
        """The moment at which it wants to be told of its deadline."""
        if self.has_fault:
            return NEVER
        try:
            return self._rate.deadline_lab_ns
        except Exception as error:
            self._fail(self._words(error))
            return NEVER

    def bring_up(self, now_ns: int) -> None:
        """Tell it of each deadline until a moment."""
        left = _MOST_DEADLINES
        while self.deadline_ns <= now_ns:
            self.tell(self._rate.on_deadline, now_ns)
            left -= 1
            if not left:
                self._fail(f"{_STANDS_STILL}, at {_place(self._rate.on_deadline)}")

    def _fail(self, what: str) -> None:
        self.has_fault = True
        self._on_fault(f"its rate control has a fault: {what}")

    def _words(self, error: Exception) -> str:
        """Return what happened, and the line of the rate control's own file in which it did."""
        frames = traceback.extract_tb(error.__traceback__)
        own = {inspect.getsourcefile(kind) for kind in type(self._rate).__mro__ if kind.__module__ != "builtins"}
        frame = next((one for one in reversed(frames) if one.filename in own), frames[-1])
        what = _WORDS.get(type(error), f"{type(error).__name__}: {error}")
        return f"{what}, at {PurePath(frame.filename).name}:{frame.lineno}"


def _place(event: Callable[..., None]) -> str:
    code = getattr(inspect.unwrap(event), "__code__", None)
    return f"{PurePath(code.co_filename).name}:{code.co_firstlineno}" if code is not None else "its code"
