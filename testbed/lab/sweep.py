"""A parameter study: one experiment with every combination of parameters and every seed.

    from testbed.lab import sweep
    found = sweep.run("incast", {"hosts": ["2", "4"]}, seeds=10, on="um", out="results/incast")
    found.rows, sweep_tables.summary(found.rows)

Each run is known by the digest of its inputs: code, parameters, seed, limits, engine, image, kernel and packages. A run
that has ended is never made again. So a sweep that was interrupted goes on where it was, and one with more seeds makes
those alone. Runs that were lost, interrupted, or cut off by a limit of wall time or a full disk have no result that
repeats; these are made again.

The folder of a sweep has `runs/`, result folders with the digest of their inputs as name, and the tables
(`sweep_tables.py`). Nothing in the tables depends on the order in which runs were made.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab import batch, definition, engine, qemu, sweep_tables
from testbed.lab.api import Silent, Watcher
from testbed.lab.batch import Task, TaskOutcome
from testbed.lab.definition import Experiment
from testbed.lab.engine import Ready
from testbed.lab.job import Limits, job_for, pack
from testbed.lab.result import RESULT, Status
from testbed.lab.sweep_tables import Failure, Row

RUNS, UNFINISHED, LOCK = "runs", "unfinished", ".lock"
_UNREPEATABLE = {Status.INTERRUPTED, Status.LOST, Status.WALL_TIMEOUT, Status.DISK_FULL}
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Sweep:
    """A study that has ended, or has been cut short."""

    folder: Path
    rows: tuple[Row, ...]
    """One for each run that ended by itself, in the order of the grid, then of seeds."""
    failed: tuple[Failure, ...]
    made: int
    """How many runs were made by this call; all others were there already."""
    interruption: KeyboardInterrupt | None = None

    def write_tables(self) -> list[Path]:
        """Write the tables into the sweep's folder; the files."""
        return sweep_tables.write(self.folder, self.rows, self.failed)


def combinations(grid: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the values, the last parameter's changing first."""
    for name, values in grid.items():
        if not values:
            raise UsageError(f"the grid has no value of {name}")
        if len(set(values)) < len(values):
            raise UsageError(f"the grid has a value of {name} twice: {','.join(values)}")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def input_digest(task: Task) -> str:
    """The digest of all that a run's result may depend on."""
    further = task.on.packages.digest if task.on.packages else ""
    job = job_for(
        task.experiment, dict(task.parameters), task.seed, task.limits or Limits(), task.on.kind.reproducible,
        packages=further,
    )  # fmt: skip
    machine = [task.on.kind, task.on.accelerator, task.on.image_digest, task.on.kernel_digest]
    machine.append(qemu.version() if task.on.snapshot else "")
    return hashlib.sha256(pack(job, task.experiment) + json.dumps(machine).encode()).hexdigest()


def run(
    experiment: Experiment | str | Path,
    grid: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int] | int = 1,
    on: Ready | engine.Kind | str = engine.Kind.UM,
    out: Path | str = "results/sweep",
    width: int = 1,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    watch: Callable[[Task], AbstractContextManager[Watcher]] = lambda _: nullcontext(Silent()),
    done: Callable[[TaskOutcome, int, int], None] = lambda *_: None,
    cancel: threading.Event | None = None,
) -> Sweep:
    """Make all runs of the study that have not been made, `width` at a time; `seeds` 10 means 1 to 10.

    `done` is called with each outcome, how many runs of this call have ended, and how many there are in all.
    """
    if not isinstance(experiment, Experiment):
        experiment = definition.find(str(experiment))
    seeds = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    points = combinations({name: [str(value) for value in values] for name, values in grid.items()})
    if len(points) * len(seeds) > MOST_RUNS:
        raise UsageError(f"{len(points)} combinations with {len(seeds)} seeds are over {MOST_RUNS} runs")
    for point in points:
        experiment.read_parameters(point)  # a wrong value is reported before anything is set up
    limits = limits or Limits(virtual_s=float(experiment.timeout.ps) / 1e12)
    ready = on if isinstance(on, Ready) else engine.prepare(on)
    ready = ready.having([*experiment.packages, *packages], lambda _: None, experiment.source.parent)
    folder = Path(out)
    tasks = {
        input_digest(task): task
        for task in (Task(experiment, ready, point, seed, limits) for point in points for seed in seeds)
    }
    with _only_sweep_of(folder):
        left = {digest: task for digest, task in tasks.items() if not (_place(folder, digest) / RESULT).is_file()}
        digests = {id(task): digest for digest, task in left.items()}
        failures: dict[str, Failure] = {}
        counted = itertools.count(1)

        def keep(outcome: TaskOutcome) -> None:
            digest = digests[id(outcome.task)]
            if (result := outcome.result) is None:
                failures[digest] = _failure(outcome.task, "refused", str(outcome.error))
            elif result.status in _UNREPEATABLE:
                failures[digest] = _failure(outcome.task, result.status, result.reason)
            else:
                assert result.folder is not None
                shutil.rmtree(_place(folder, digest), ignore_errors=True)
                result.folder.rename(_place(folder, digest))
            done(outcome, next(counted), len(left))

        unfinished = folder / UNFINISHED
        try:
            made = batch.run(list(left.values()), out=unfinished, width=width, watch=watch, done=keep, cancel=cancel)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    rows = []
    for digest, task in tasks.items():
        place = _place(folder, digest)
        if not (place / RESULT).is_file():
            failures.setdefault(digest, _failure(task, "not started", "the sweep was interrupted"))
            continue
        row = Row.read(folder, str(place.relative_to(folder)), digest, task.parameters)
        if row.status == Status.OK:
            rows.append(row)
        else:
            failures[digest] = _failure(task, row.status, row.reason)
    failed = tuple(failures[digest] for digest in tasks if digest in failures)
    count = sum(outcome.result is not None for outcome in made.outcomes)
    return Sweep(folder, tuple(rows), failed, count, made.interruption)


def _failure(task: Task, status: str, reason: str) -> Failure:
    return Failure({name: str(value) for name, value in task.parameters.items()}, task.seed, status, reason)


def _place(folder: Path, digest: str) -> Path:
    return folder / RUNS / digest[:20]


@contextmanager
def _only_sweep_of(folder: Path) -> Iterator[None]:
    """Keep a second sweep out of the folder meanwhile."""
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as error:
        raise UsageError(f"a sweep cannot go to {folder}: {error.strerror}; name another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another sweep is running in {folder}; wait for its end, or name another folder"
            ) from None
        yield
