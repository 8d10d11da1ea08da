"""Batches of tasks, which run on this machine, several at a time and each on cores of its own.

`xoff run -j`, `xoff verify` and sweeps use it. A task is an experiment with its parameters and seed on an engine that
is ready. Tasks are started in their order. An interruption ends those that run, which keep what they had, and starts
no more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from testbed.errors import XoffError
from testbed.experiment.definition import Experiment
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.host import cores
from testbed.lab.job.job import RunOptions
from testbed.lab.results.result import Result
from testbed.lab.runs import api
from testbed.lab.runs.api import Silent, Watcher


@dataclass(frozen=True)
class Task:
    """A run to be made."""

    experiment: Experiment
    on: PreparedEngine
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: RunOptions = field(default_factory=RunOptions)


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task: a result, or the error that prevented one; neither if it was not started."""

    task: Task
    result: Result | None = None
    error: XoffError | None = None


@dataclass(frozen=True)
class Batch:
    """The outcomes of all tasks, in their order."""

    outcomes: tuple[TaskOutcome, ...]
    interruption: KeyboardInterrupt | None = None

    @property
    def results(self) -> list[Result]:
        return [outcome.result for outcome in self.outcomes if outcome.result is not None]

    def raise_first(self) -> None:
        """Raise the interruption, or the first task's error, if there is one."""
        if self.interruption is not None:
            raise self.interruption
        for outcome in self.outcomes:
            if outcome.error is not None:
                raise outcome.error


def _silent(_: Task) -> AbstractContextManager[Watcher]:
    return nullcontext(Silent())


def run(
    tasks: Sequence[Task],
    *,
    out: str | PathLike[str] = "results",
    width: int = 1,
    watch: Callable[[Task], AbstractContextManager[Watcher]] = _silent,
    done: Callable[[TaskOutcome], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> Batch:
    """Run the tasks, at most `width` at a time and no more than there are cores; result folders go below `out`.

    `watch` gives what sees a run while it happens, and `done` is called with each outcome, one at a time, when it is
    known. Ctrl-C, or setting `cancel`, ends the runs.
    """
    cancel, calls = cancel or threading.Event(), threading.Lock()

    def one(task: Task) -> TaskOutcome:
        if cancel.is_set():
            return TaskOutcome(task)
        try:
            with watch(task) as watcher:
                result = api.run_with(
                    task.experiment, task.on, task.parameters, task.options, out=out, watcher=watcher, cancel=cancel
                )
            outcome = TaskOutcome(task, result)
        except XoffError as error:
            outcome = TaskOutcome(task, error=error)
        with calls:
            done(outcome)
        return outcome

    width = max(1, min(width, len(cores.available())))
    interruption = None
    outcomes = []
    with cores.shared(width), ThreadPoolExecutor(width) as pool:
        for future in [pool.submit(one, task) for task in tasks]:
            while True:
                try:
                    outcomes.append(future.result())
                    break
                except KeyboardInterrupt as error:
                    # The runs are in threads of their own; they end by themselves and keep what they had.
                    interruption = interruption or error
                    cancel.set()
    return Batch(tuple(outcomes), interruption)
