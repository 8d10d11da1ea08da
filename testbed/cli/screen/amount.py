"""The progress of a long piece of work: a bar with the time left in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from testbed.cli.screen.console import say, stderr
from testbed.lab.engines.forecast import duration
from testbed.lab.host.looking import looking
from testbed.lab.host.process_tree import descendants

_SILENCE_S = 10.0
"""The least time in s between two lines where there is no terminal."""
_KNOWN = 0.03
"""The part of the work after which the time that it took tells how long the rest takes."""
_LOOK_S = 0.5


class Bar(ProgressColumn):
    """A column with a bar for the tasks whose total is known, and nothing for others."""

    def render(self, task: Task) -> ProgressBar | Text:
        if not task.total:
            return Text("")
        return ProgressBar(task.total, task.completed, width=30)


class Amount:
    """The work that is done and the work that is left.

    `total` is in parts that take about the same time each, or in seconds that the work is expected to take.
    """

    def __init__(
        self,
        what: str,
        total: float,
        progress: Progress | None,
        *,
        clock: Callable[[], float] | None = None,
        expected_s: float | None = None,
        begun_s: float | None = None,
    ) -> None:
        """`expected_s` is a forecast of the whole time, which counts until some of the work is done. The work begins
        now, or began at `begun_s` of the clock.
        """
        self._what, self._total, self._expected_s = what, total, expected_s
        self._now = ""
        self._progress, self._clock = progress, clock or time.monotonic
        self._said_s = self._clock()
        self._begun_s = self._said_s if begun_s is None else begun_s
        self._done = 0.0
        self._shown = ""
        self._task: TaskID | None = None
        if progress is not None:
            self._task = progress.add_task(what, total=total, virtual_s=0.0, wall_s=0.0, outlook="")

    def at(self, done: float, now: str | None = None) -> None:
        """Take how much of the total is done, and, where that has changed, what is being done now."""
        self._done = max(self._done, min(done, self._total))
        self._now = self._now if now is None else now
        text = self._text()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self._done, description=escape(f"{self._what}: {text}"))
        elif self._clock() - self._said_s >= _SILENCE_S and text != self._shown:
            self._said_s, self._shown = self._clock(), text
            say(f"{self._what}: {text}")

    def close(self) -> None:
        """Take the bar from the screen."""
        if self._progress is not None and self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None

    def left_s(self) -> float | None:
        """Return the seconds that are left, or None if nothing is known of them."""
        part = self._done / self._total if self._total else 1.0
        took_s = self._clock() - self._begun_s
        if part >= 1.0:
            return 0.0
        if part < _KNOWN:
            return None if self._expected_s is None else max(0.0, self._expected_s - took_s)
        return took_s / part * (1.0 - part)

    def _text(self) -> str:
        left_s = self.left_s()
        words = [f"{100 * self._done / self._total:.0f} %" if self._total else "", self._now]
        if left_s:
            words.append(f"about {duration(left_s)} left")
        return ", ".join(filter(None, words))


@contextmanager
def shown(what: str, total: float, expected_s: float | None = None) -> Iterator[Amount]:
    """Yield an amount that has the last line of the terminal for itself."""
    progress = None
    if stderr.is_terminal:
        columns = (SpinnerColumn(), Bar(), TextColumn("{task.description}"))
        # What is printed meanwhile goes to the stream that it was meant for, and not through this console.
        progress = Progress(*columns, console=stderr, transient=True, refresh_per_second=4, redirect_stdout=False)
        progress.start()
    amount = Amount(what, total, progress, expected_s=expected_s)
    try:
        yield amount
    finally:
        amount.close()
        if progress is not None:
            progress.stop()


@contextmanager
def by_cpu_time(amount: Amount) -> Iterator[None]:
    """Show an amount in seconds of CPU time by what this process and all below it have used since."""
    begun_s = cpu_time()
    with looking(lambda: amount.at(cpu_time() - begun_s), _LOOK_S):
        yield


def cpu_time() -> float:
    """Return the seconds of CPU time of this process, of those below it and of those that have ended."""
    own, ended = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    used = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return used + sum(map(_times, descendants(os.getpid()))) / os.sysconf("SC_CLK_TCK")


def _times(pid: int) -> int:
    """Return the ticks of a process and of those that it has waited for; 0 if it has ended meanwhile."""
    try:
        fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))
