"""Many runs, several at a time: order, callbacks, errors and interruption."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.lab.host import cores
from testbed.lab.job.job import Job, RunOptions
from testbed.lab.studies import batch
from testbed.lab.studies.batch import Task, TaskOutcome
from tests.unit.serve.scripted_lab import ScriptedEngine

pytestmark = pytest.mark.usefixtures("xoff_cache")


@experiment
def measured(run: Run, load: int = 1) -> None:
    """An experiment that a script answers here."""


def test_results_are_in_the_order_of_the_tasks_whatever_order_they_end_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "available", lambda: [0, 1])
    later = threading.Event()

    def answer(job: Job) -> dict[str, Any]:
        if job.seed == 1:
            assert later.wait(30)
        else:
            later.set()
        return {"seed": job.seed}

    seen: list[int] = []
    ready = ScriptedEngine(answer=answer)
    finished = batch.run(
        [Task(measured, ready, {"load": 5}, RunOptions(seed)) for seed in (1, 2)],
        out=tmp_path, width=2, done=lambda outcome: seen.append(outcome.task.options.seed),
    )  # fmt: skip
    assert [result.figure("seed") for result in finished.results] == [1, 2]
    assert sorted(seen) == [1, 2]
    assert all(job.parameters == {"load": 5} for job in ready.jobs)


def test_an_error_of_one_task_does_not_end_the_others(tmp_path: Path) -> None:
    ready = ScriptedEngine()
    finished = batch.run([Task(measured, ready, {"laod": 5}), Task(measured, ready)], out=tmp_path)
    assert str(finished.outcomes[0].error).startswith("measured has no parameter laod; did you mean load?")
    assert len(finished.results) == 1
    with pytest.raises(UsageError, match="did you mean load"):
        finished.raise_first()


def test_after_cancelling_no_task_is_started(tmp_path: Path) -> None:
    cancel = threading.Event()
    ready = ScriptedEngine()

    def done(_: TaskOutcome) -> None:
        cancel.set()

    tasks = [Task(measured, ready, options=RunOptions(seed)) for seed in range(5)]
    finished = batch.run(tasks, out=tmp_path, done=done, cancel=cancel)
    assert len(ready.jobs) == 1
    assert [outcome.result is None for outcome in finished.outcomes] == [False, True, True, True, True]
