"""A parameter study: one experiment with every combination of parameters and every seed.

    from testbed.lab.studies import sweep
    found = sweep.run("incast", {"senders": [2, 4], "frames": 300}, seeds=10, on="um", out="results/incast")
    found.rows, sweep_tables.summary(found.rows)

With `scheduler` the same runs are made on a Dask cluster (`cluster/`).

Each run is known by the digest of its inputs: code, parameters, seed, limits, engine, image, kernel and packages. A run
that has ended is never made again. So a sweep that was interrupted goes on where it was, and one with more seeds makes
those alone. Runs that were lost, interrupted, or cut off by a limit of wall time or a full disk have no result that
repeats; these are made again, and lost ones once more in the same sweep.

The folder of a sweep has `runs/`, result folders with the digest of their inputs as name, and the tables
(`sweep_tables.py`). Nothing in the tables depends on the order in which runs were made.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import math
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.engines import table
from testbed.lab.engines.engine import Engine, PreparedEngine
from testbed.lab.host import cache
from testbed.lab.job.job import Limits, RunOptions, job_for, pack
from testbed.lab.results import tables
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import RESULT, Status
from testbed.lab.runs.api import Silent, Watcher
from testbed.lab.studies import batch, sweep_tables
from testbed.lab.studies.batch import Task, TaskOutcome
from testbed.lab.studies.cluster.client import Cluster, connected
from testbed.lab.studies.sweep_tables import Failure, Row

RUNS, UNFINISHED, LOCK = "runs", "unfinished", ".lock"
_UNREPEATABLE = {Status.INTERRUPTED, Status.LOST, Status.WALL_TIMEOUT, Status.DISK_FULL}
_NOT_STARTED = "not started"
_NOT_MADE = {_NOT_STARTED, Status.INTERRUPTED}
MOST_RUNS = 100_000
AGAIN = 1
"""The number of times that a run is made again if its lab broke down."""
_LEAST_FREE = 32 << 20


@dataclass(frozen=True)
class Sweep:
    """A sweep that has ended, or has been cut short."""

    folder: Path
    rows: tuple[Row, ...]
    """The rows of runs that ended by themselves, in the order of the grid, then of seeds."""
    failed: tuple[Failure, ...]
    not_made: tuple[Failure, ...]
    """Runs that were interrupted or not started; the same call makes them."""
    made: int
    """The number of runs that this call made; all others were there already."""
    interruption: KeyboardInterrupt | None = None

    def __repr__(self) -> str:
        """Return the sweep in a line, as a notebook shows it under a cell."""
        counts = {"runs": len(self.rows), "failed": len(self.failed), "not made": len(self.not_made)}
        return f"<Sweep {self.folder}: {', '.join(f'{count} {what}' for what, count in counts.items() if count)}>"

    def table(self) -> Any:
        """Return the runs as a DataFrame of pandas, or else of polars: a row for each, as in `table.csv`."""
        rows = [row.columns() for row in self.rows]
        return tables.frame(rows, list(dict.fromkeys(name for row in rows for name in row)))

    def write_tables(self) -> list[Path]:
        """Write the tables into the sweep's folder, and return the files."""
        return sweep_tables.write(self.folder, self.rows, self.failed)


def combinations(grid: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return every combination of the values; those of the last parameter change first."""
    for name, values in grid.items():
        if not values:
            raise UsageError(f"the grid has no value of {name}")
        if len(set(values)) < len(values):
            raise UsageError(f"the grid has a value of {name} twice: {','.join(values)}")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def points(experiment: Experiment, grid: Mapping[str, Sequence[Any]], runs_each: int = 1) -> list[dict[str, str]]:
    """Return the combinations of a grid; UsageError if the experiment does not take one."""
    texts = {name: [str(value) for value in values] for name, values in grid.items()}
    count = math.prod(map(len, texts.values()))
    if count * runs_each > MOST_RUNS:
        raise UsageError(f"{count} combinations with {runs_each} seeds are over {MOST_RUNS} runs; make several sweeps")
    for name, values in texts.items():
        written: dict[Any, str] = {}
        for text in dict.fromkeys(values):
            value = experiment.parameter(name).read(text)
            if (other := written.setdefault(value, text)) != text:
                raise UsageError(f"the grid has the same value of {name} twice: {other} and {text}")
        if name in sweep_tables.OWN_COLUMNS:
            raise UsageError(
                f"the parameter {name} cannot be in a grid: the tables have a column {name}; rename the parameter"
            )
    return combinations(texts)


def seeds_of(seeds: Sequence[int] | int) -> Sequence[int]:
    """Return the seeds: 1 to a number, or those given."""
    if isinstance(seeds, int):
        if seeds < 1:
            raise UsageError(f"seeds is {seeds}; one seed at least is expected")
        return range(1, seeds + 1)
    if not seeds:
        raise UsageError("there are no seeds; one at least is expected")
    for seed in seeds:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError(f"seed {seed}: a whole number from 0 up is expected")
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"a seed is there twice: {listed(map(str, seeds))}")
    return seeds


def input_digest(task: Task) -> str:
    """Return the digest of all that a run's result may depend on."""
    further = task.on.packages.digest if task.on.packages else ""
    job = job_for(
        task.experiment, task.parameters, task.options, reproducible=task.on.engine.reproducible, packages=further
    )  # fmt: skip
    made_with = task.on.provenance()
    machine = [getattr(made_with, part) for part in ("engine", "accelerator", "image", "kernel_digest", "qemu")]
    return hashlib.sha256(pack(job, task.experiment) + json.dumps(machine).encode()).hexdigest()


def run(
    experiment: Experiment | str | PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    seeds: Sequence[int] | int = 1,
    on: PreparedEngine | Engine | str = table.DEFAULT,
    out: str | PathLike[str] = "results/sweep",
    width: int = 1,
    scheduler: Cluster | str | Any = None,
    limits: Limits | None = None,
    packages: Sequence[str] = (),
    watch: Callable[[Task], AbstractContextManager[Watcher]] = lambda _: nullcontext(Silent()),
    done: Callable[[TaskOutcome, int, int], None] | None = None,
    cancel: threading.Event | None = None,
) -> Sweep:
    """Make all runs of the study that have not been made; `seeds` 10 means 1 to 10.

    `parameters` are those of `run`, where a list or another sequence has several values of one: there is a run for each
    combination of them.

    They are made on this machine, `width` at a time, or on the Dask cluster of a `scheduler`: its address, or a
    `distributed.Client`. `done` is called with each outcome, how many runs of this call have ended, and how many there
    are in all; without it, a terminal or a notebook shows these numbers. `watch` gives what sees a run while it happens
    on this machine.
    """
    if not isinstance(experiment, Experiment):
        experiment = definition.find(str(experiment))
    seeds = seeds_of(seeds)
    grid = {name: [value] if _is_one(value) else value for name, value in (parameters or {}).items()}
    grid_points = points(experiment, grid, len(seeds))
    limits = limits or Limits(virtual_s=float(experiment.timeout.ps) / 1e12)
    cancel = cancel or threading.Event()
    with ExitStack() as stack:
        cluster, folder = None, Path(out)
        if scheduler is not None:
            cluster = scheduler if isinstance(scheduler, Cluster) else stack.enter_context(connected(scheduler))
        stack.enter_context(_only_sweep_of(folder))
        prepared = on if isinstance(on, PreparedEngine) else table.prepare(on)
        prepared = prepared.having([*experiment.further, *packages], lambda _: None, experiment.source.parent)
        tasks = {
            input_digest(task): task
            for point in grid_points
            for seed in seeds
            for task in (Task(experiment, prepared, point, RunOptions(seed, limits)),)
        }
        study = _Study(folder, tasks, done or _show_count, cancel)
        stack.callback(shutil.rmtree, folder / UNFINISHED, ignore_errors=True)
        for _ in range(1 + AGAIN):
            pending = study.to_make()
            if cluster is not None:
                made = cluster.run(pending, out=folder / UNFINISHED, done=study.keep, cancel=cancel)
            else:
                made = batch.run(
                    pending, out=folder / UNFINISHED, width=width, watch=watch, done=study.keep, cancel=cancel
                )
            if not study.lost or cancel.is_set():
                break
        return study.ended(made.interruption)


def _is_one(value: object) -> bool:
    """Return True for a value of a parameter, and False for a sequence of them; text is one value."""
    return isinstance(value, str) or not isinstance(value, Sequence)


def _in_a_notebook() -> bool:
    """Return True in a cell of a notebook; a program that only imports IPython has no shell."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def _show_count(outcome: TaskOutcome, ended: int, total: int) -> None:
    """Show how many runs have ended, in one line of a terminal or of a notebook's cell."""
    if sys.stderr.isatty() or _in_a_notebook():
        end = "\n" if ended == total else ""
        print(f"\r{outcome.task.experiment.name}: {ended} of {total} runs", end=end, file=sys.stderr, flush=True)


class _Study:
    """The runs of a sweep, and their outcomes so far."""

    def __init__(
        self,
        folder: Path,
        tasks: Mapping[str, Task],
        done: Callable[[TaskOutcome, int, int], None],
        cancel: threading.Event,
    ) -> None:
        self._folder = folder
        self._tasks = tasks
        self._digests = {id(task): digest for digest, task in tasks.items()}
        self._done = done
        self._cancel = cancel
        self._failures: dict[str, Failure] = {}
        self._total = len(self._missing())
        self._made = self._settled = 0
        self._lost: set[str] | None = None
        self._stopped = "the sweep was interrupted"

    @property
    def lost(self) -> bool:
        """True if there are runs whose lab broke down in the last round."""
        return bool(self._lost)

    def to_make(self) -> list[Task]:
        """Return the tasks to be made: those without a result, or those whose runs were lost in the round before."""
        digests = self._missing() if self._lost is None else [one for one in self._tasks if one in self._lost]
        self._lost = set()
        return [self._tasks[digest] for digest in digests]

    def keep(self, outcome: TaskOutcome) -> None:
        """Record an outcome: move a result to its place, and note anything else as a failure."""
        digest = self._digests[id(outcome.task)]
        result = outcome.result
        self._failures.pop(digest, None)
        if result is None:
            status = "refused" if isinstance(outcome.error, UsageError) else Status.LOST
            self._failures[digest] = _failure(outcome.task, status, str(outcome.error))
            if isinstance(outcome.error, cache.DiskFullError):
                self._stop(str(outcome.error))
        elif result.status in _UNREPEATABLE:
            self._failures[digest] = _failure(outcome.task, result.status, result.reason)
            if result.status is Status.DISK_FULL:
                self._stop(result.reason)
        else:
            assert result.folder is not None
            place = _place(self._folder, digest)
            shutil.rmtree(place, ignore_errors=True)
            result.folder.rename(place)
            self._made += 1
        if result is not None and result.status is Status.LOST:
            assert self._lost is not None
            self._lost.add(digest)
        else:
            self._settled += 1
        self._done(outcome, self._settled, self._total)

    def ended(self, interruption: KeyboardInterrupt | None) -> Sweep:
        """Return the sweep as it is now."""
        rows = []
        for digest, task in self._tasks.items():
            place = _place(self._folder, digest)
            if not (place / RESULT).is_file():
                self._failures.setdefault(digest, _failure(task, _NOT_STARTED, self._stopped))
                continue
            row = Row.read(self._folder, str(place.relative_to(self._folder)), digest, task.parameters)
            if row.status == Status.OK:
                rows.append(row)
            else:
                self._failures[digest] = _failure(task, row.status, row.reason)
        others = [self._failures[digest] for digest in self._tasks if digest in self._failures]
        not_made = tuple(one for one in others if one.status in _NOT_MADE)
        failed = tuple(one for one in others if one.status not in _NOT_MADE)
        return Sweep(self._folder, tuple(rows), failed, not_made, self._made, interruption)

    def _missing(self) -> list[str]:
        return [digest for digest in self._tasks if not (_place(self._folder, digest) / RESULT).is_file()]

    def _stop(self, reason: str) -> None:
        """Stop the sweep, as no further run would fare better."""
        self._stopped = reason
        self._cancel.set()


def _failure(task: Task, status: str, reason: str) -> Failure:
    return Failure({name: str(value) for name, value in task.parameters.items()}, task.options.seed, status, reason)


def _place(folder: Path, digest: str) -> Path:
    return folder / RUNS / digest[:20]


@contextmanager
def _only_sweep_of(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no second sweep uses it meanwhile."""
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        files = ForeignFolder(folder)
        files.require(RUNS)  # the folder may have been another's, who has made a link of it
        lock = files.lock_file(LOCK)
    except OSError as error:
        raise UsageError(f"a sweep cannot go to {folder}: {error.strerror}; name another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another sweep is running in {folder}; wait for its end, or name another folder"
            ) from None
        if (free := shutil.disk_usage(folder).free) < _LEAST_FREE:
            raise cache.DiskFullError(
                f"no room for results: {folder} has {free >> 20} MB free; free some, or name a folder on another disk"
            )
        yield
