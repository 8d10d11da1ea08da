"""A queue of runs of a class: a few at a time, in the order in which they came, and one of each student.

Not here: what a run is, and its own limits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from testbed.errors import UsageError, XoffError

Work = TypeVar("Work")
Done = TypeVar("Done")


@dataclass(frozen=True)
class State(Generic[Done]):
    """The state of a student: how many runs are before the student's own (0: it runs), or None if there is none; and
    what came of the last one.
    """

    before: int | None
    last: Done | None
    failure: str = ""


class RunQueue(Generic[Work, Done]):
    """The queue of one class."""

    def __init__(self, perform: Callable[[Work], Done], at_once: int, most: int = 500) -> None:
        self._perform, self._most = perform, most
        self._waiting: deque[tuple[str, Work]] = deque()
        self._running: set[str] = set()
        self._last: dict[str, Done] = {}
        self._failed: dict[str, str] = {}
        self._changed = threading.Condition()
        self._ends = False
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(at_once)]
        for thread in self._threads:
            thread.start()

    def submit(self, student: str, work: Work) -> int:
        """Put a student's run into the queue, and return how many are before it."""
        with self._changed:
            if student in self._running or any(one == student for one, _ in self._waiting):
                raise UsageError("your last run has not ended; wait for it, then hand in again")
            if len(self._waiting) >= self._most:
                raise UsageError(f"{self._most} runs wait already; try again later")
            self._waiting.append((student, work))
            self._changed.notify()
            return len(self._waiting) - 1 + len(self._running)

    def state(self, student: str) -> State[Done]:
        """Return the state of a student."""
        with self._changed:
            before: int | None = 0 if student in self._running else None
            for place, (one, _) in enumerate(self._waiting):
                if one == student:
                    before = place + len(self._running)
            return State(before, self._last.get(student), self._failed.get(student, ""))

    def all(self) -> dict[str, Done]:
        """Return what came of each student's last run."""
        with self._changed:
            return dict(self._last)

    def close(self) -> None:
        """Let no further run begin. Those that run go on to their ends or limits."""
        with self._changed:
            self._ends = True
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ends:
                    self._changed.wait()
                if self._ends:
                    return
                student, work = self._waiting.popleft()
                self._running.add(student)
            done, failure = None, ""
            try:
                done = self._perform(work)
            except (XoffError, OSError) as error:
                failure = str(error)
            with self._changed:
                self._running.discard(student)
                self._failed[student] = failure
                if done is not None:
                    self._last[student] = done
