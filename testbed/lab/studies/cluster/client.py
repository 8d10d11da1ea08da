"""The user's side of a cluster: it makes a list of tasks on Dask workers, as `batch.run` does on this machine.

A run is a task of Dask, so a worker that is lost has its runs made by others. A machine that cannot make a run, because
its disk is full for one, gets no more of them. What a run left comes back as a tar and becomes a result folder here.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import queue
import shutil
import sys
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from testbed.errors import UsageError
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.um import PreparedUm
from testbed.lab.host import cache
from testbed.lab.host.cache import Report
from testbed.lab.image import plain_tar
from testbed.lab.results.result import Result, Status
from testbed.lab.results.result_folder import new_folder
from testbed.lab.runs import api
from testbed.lab.runs.api import Silent
from testbed.lab.studies.batch import Batch, Task, TaskOutcome
from testbed.lab.studies.cluster import on_worker, parts
from testbed.lab.studies.cluster.connection import ClusterError, cause, client_of, require_same_versions
from testbed.lab.studies.cluster.parts import Part

_COMES_BACK_WITHIN_S = 20.0
"""The seconds within which a lost scheduler has to come back."""
_LOOK_S = 0.5
_ATTEMPTS = 4
"""The number of machines on which a run is tried that they cannot make."""
_LEAST_AHEAD = 64
_LONGEST_ERROR = 2000
"""The most characters of an error that a worker reports."""


@contextmanager
def connected(scheduler: str | Any, report: Report = lambda _: None, lab: Path | None = None) -> Iterator[Cluster]:
    """Yield the cluster of a scheduler, which is an address such as tcp://host:8786 or a `distributed.Client`.

    `lab` is a file in a folder that this machine and all workers see, from which they take the lab; it is written if it
    is not there. Without it they take the lab from the scheduler.
    """
    if not isinstance(scheduler, str):
        yield Cluster(scheduler, scheduler.scheduler.address, report, lab)
        return
    client = client_of(scheduler)
    try:
        require_same_versions(scheduler, client)
        yield Cluster(client, scheduler, report, lab)
    finally:
        with suppress(Exception):
            client.close(timeout=5)


@dataclass
class _AtWork:
    """A run that the scheduler has been given."""

    task: Task
    refused: dict[str, str] = field(default_factory=dict)
    """The machines that could not make the run, each with the reason."""
    has_lab: bool = False
    """True if the request that was sent names the lab."""


class Cluster:
    """Dask workers, for runs on the engine `um`."""

    def __init__(self, client: Any, address: str, report: Report, lab: Path | None) -> None:
        self.address = address
        self._client = client
        self._report = report
        self._lab = lab
        self._module = _sent_module()
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._unfit: set[str] = set()
        """The workers whose machine cannot make a run."""
        self._lost_s: float | None = None
        self._progress: Callable[[str], None] = lambda _: None

    def show_progress(self, progress: Callable[[str], None]) -> None:
        """Call `progress` with a line about all runs, now and then."""
        self._progress = progress

    def run(
        self,
        tasks: Sequence[Task],
        *,
        out: Path,
        done: Callable[[TaskOutcome], None] = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> Batch:
        """Make the runs; `done` is called with each outcome. Ctrl-C, or setting `cancel`, ends those at work."""
        if not tasks:
            return Batch(())
        cancel, interruption = cancel or threading.Event(), None
        request = self.request(tasks[0].on)
        outcomes: dict[int, TaskOutcome] = {}
        ahead = deque(_AtWork(task) for task in tasks)
        at_work: dict[Any, _AtWork] = {}
        watch = _Watch(self._client)
        try:
            while (ahead or at_work) and not cancel.is_set():
                while ahead and len(at_work) < max(2 * watch.threads, _LEAST_AHEAD):
                    self._submit(ahead.popleft(), at_work, request)
                with suppress(queue.Empty):
                    future = self._ended.get(timeout=_LOOK_S)
                    one = at_work.pop(future, None)
                    if one is None:
                        continue
                    answer, error = self._answer(future)
                    future.release()
                    if answer is not None and "wants" in answer and not one.has_lab:
                        if "lab" not in request["parts"]:
                            self.give_lab(request, one.task.on)
                        ahead.appendleft(one)
                    elif (outcome := self._outcome(answer, error, one, out)) is not None:
                        outcomes[id(one.task)] = outcome
                        done(outcome)
                    else:
                        ahead.appendleft(one)
                self._look(watch, len(outcomes), len(tasks))
        except KeyboardInterrupt as error:
            interruption = error
            cancel.set()
        finally:
            self.withdraw(list(at_work))
        return Batch(tuple(outcomes.get(id(task), TaskOutcome(task)) for task in tasks), interruption)

    def request(self, prepared: PreparedEngine) -> dict[str, Any]:
        """Give the cluster what its workers take; return what each of them is asked."""
        if not isinstance(prepared, PreparedUm):
            raise UsageError(
                f"the engine {prepared.engine} does not run on a cluster, whose workers have only Python; um does"
            )
        with cache.owned("cluster") as work:
            self._send_module(work)
            files = parts.of_code(prepared, work)
            for part in files.values():
                self._offer(part, "Xoff's code")
        named: dict[str, Any] = {name: part.named() for name, part in files.items()}
        request = {"parts": named, "shared": "", **parts.described(prepared)}
        if self._lab is not None:
            self.give_lab(request, prepared)
        return request

    def give_lab(self, request: dict[str, Any], prepared: PreparedEngine) -> None:
        """Let workers have the lab, from the scheduler or from a shared file; what is asked of them names it then."""
        lab = parts.lab(prepared, self._report, _percents(self._report, "packing the lab"))
        if self._lab is not None:
            request["shared"] = str(parts.share(lab, self._lab.absolute()).path)
        else:
            self._offer(lab, "the lab")
        request["parts"] = {**request["parts"], "lab": lab.named()}

    def _send_module(self, work: Path) -> None:
        """Have the scheduler and all workers, also those to come, import `on_worker.py`."""
        from distributed.diagnostics.plugin import SchedulerUploadFile, UploadFile

        file = work / f"{self._module.__name__}.py"
        file.write_bytes(Path(on_worker.__file__).read_bytes())
        for kind in (SchedulerUploadFile, UploadFile):
            plugin = kind(str(file))
            plugin.idempotent = True
            self._asked(self._client.register_plugin, plugin, name=self._module.__name__)

    def _offer(self, part: Part, what: str) -> None:
        """Give the scheduler a file, unless it has it."""
        if self._on_scheduler("has", part.named()):
            return
        sender, progress = uuid.uuid4().hex, _percents(self._report, f"sending {what} to {self.address}")
        with part.path.open("rb") as source:
            while data := source.read(on_worker.PIECE):
                self._on_scheduler("take", part.named(), sender, source.tell() - len(data), data)
                progress(source.tell(), part.size)

    def free_threads(self) -> dict[str, int]:
        """Return the number of threads of each worker that have nothing to do."""
        busy = self._asked(self._client.processing)
        return {worker: many - len(busy.get(worker, ())) for worker, many in self._asked(self._client.nthreads).items()}

    def have_part(self, worker: str, request: Mapping[str, Any], run: Mapping[str, Any], job: bytes) -> Any:
        """Have a worker take parts of a network, as soon as it has a free thread; return the future of its task."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._asked(
                self._client.submit, self._module.take_part, dict(request), dict(run), job, key=run["key"],
                pure=False, workers=[worker], allow_other_workers=False, retries=0,
            )  # fmt: skip

    def look(self, worker: str, key: str, commands: bytes) -> dict[str, Any] | None:
        """Return what a worker's parts say; an exception if it cannot be asked."""
        found: dict[str, Any] | None = self._client.run(self._module.look, key, commands, workers=[worker])[worker]
        return found

    def gone(self) -> str | None:
        """Return what to say of a scheduler that has been gone for longer than one that comes back; None if it is
        there.
        """
        if self._client.status == "running":
            self._lost_s = None
        elif self._lost_s is None:
            self._lost_s = time.monotonic()
        elif time.monotonic() - self._lost_s > _COMES_BACK_WITHIN_S:
            return self._has_gone
        return None

    @property
    def _has_gone(self) -> str:
        return f"the scheduler at {self.address} has gone or was restarted"

    def withdraw(self, futures: list[Any]) -> None:
        """Withdraw tasks from the scheduler; workers end what they make."""
        with suppress(Exception):
            if futures:
                self._client.cancel(futures, force=True)

    def say(self, text: str) -> None:
        self._report(text)

    def _on_scheduler(self, function: str, *arguments: Any) -> Any:
        return self._asked(self._client.run_on_scheduler, getattr(self._module, function), *arguments)

    def _asked(self, ask: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return the scheduler's answer."""
        try:
            return ask(*arguments, **named)
        except Exception as error:
            raise ClusterError(f"the scheduler at {self.address} cannot be used: {cause(error)}") from error

    def _submit(self, one: _AtWork, at_work: dict[Any, _AtWork], request: Mapping[str, Any]) -> None:
        task = one.task
        packed = api.pack_run(task.experiment, task.on, task.parameters, task.options)
        run = {
            "key": f"xoff-{packed.experiment}-{uuid.uuid4().hex}",
            "experiment": packed.experiment,
            "job": packed.job.encode(),
            "wall_s": packed.job.limits.wall_s,
            "code": packed.code,
            "commit": packed.commit,
            "again": asdict(packed.again),
            "thresholds": asdict(packed.thresholds),
        }
        fit = sorted(set(self._asked(self._client.nthreads)) - self._unfit) if self._unfit else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a job with much code of the user
            future = self._asked(
                self._client.submit, self._module.perform, dict(request), run, packed.tar,
                key=run["key"], pure=False, workers=fit or None,
            )  # fmt: skip
        one.has_lab = "lab" in request["parts"]
        at_work[future] = one
        future.add_done_callback(self._ended.put)

    def _outcome(self, answer: Mapping[str, Any] | None, error: str, one: _AtWork, out: Path) -> TaskOutcome | None:
        """Return the outcome of a run, or None if it has to be made again."""
        if answer is not None and "result" in answer:
            try:
                name, seed = one.task.experiment.name, one.task.options.seed
                return TaskOutcome(one.task, usable_result(answer["result"], out, name, seed))
            except OSError as wrong:
                raise ClusterError(f"results cannot go to {out}: {wrong.strerror}; the same command goes on") from None
            except UnusableError as wrong:
                error = f"the result of {answer['worker']} cannot be used: {wrong}"
        elif answer is not None:
            why = "it has no lab after it was given one" if "wants" in answer else "it was stopped there"
            error = f"{answer['worker']}: {answer.get('error', why)}"[:_LONGEST_ERROR]
            one.refused[answer["worker"]] = error
            self._unfit.add(answer["worker"])
            others = set(self._asked(self._client.nthreads)) - self._unfit
            if others and len(one.refused) < _ATTEMPTS:
                self._report(f"{error}; it gets no more runs")
                return None
        return TaskOutcome(one.task, error=ClusterError(error))

    def _answer(self, future: Any) -> tuple[dict[str, Any] | None, str]:
        """Return a worker's answer, or the reason why there is none."""
        from distributed.scheduler import KilledWorker

        try:
            answer = future.result(timeout=_COMES_BACK_WITHIN_S)
            if isinstance(answer, dict) and isinstance(answer.get("worker"), str):
                return answer, ""
            return None, f"its worker returned {str(type(answer))[:80]}, and no answer"
        except KilledWorker as error:
            return None, f"its worker was lost {error.allowed_failures + 1} times; the last one was {error.last_worker}"
        except Exception as error:
            if future.status in ("cancelled", "lost"):
                raise self._gone() from None
            return None, f"{type(error).__name__}: {cause(error)}"[:_LONGEST_ERROR]

    def _gone(self) -> ClusterError:
        return ClusterError(f"{self._has_gone}; with another, the same command goes on")

    def _look(self, watch: _Watch, ended: int, total: int) -> None:
        """Look at the state of the cluster; ClusterError if it has gone."""
        if self.gone() is not None:
            raise self._gone()
        if watch.look():
            if not watch.workers:
                self._report(f"no worker at {self.address}; runs start when one joins")
            else:
                self._report(f"{self.address}: {watch}")
        self._progress(f"{ended} of {total} runs have ended; {watch}")


class _Watch:
    """A watch over the cluster's state, which is asked for now and then."""

    _EVERY_S = 2.0

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked_s = -self._EVERY_S
        self._reported: int | None = None
        self.workers = self.threads = 0

    def __str__(self) -> str:
        counted = ((self.workers, "worker"), (self.threads, "thread"))
        return " with ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in counted)

    def look(self) -> bool:
        """Ask for the workers, if it is time; return True if their number has changed."""
        if self._client.status != "running" or time.monotonic() - self._asked_s < self._EVERY_S:
            return False
        self._asked_s = time.monotonic()
        with suppress(Exception):
            found = self._client.nthreads()
            self.workers, self.threads = len(found), sum(found.values())
        changed, self._reported = self.workers != self._reported, self.workers
        return changed


def _percents(report: Report, what: str) -> Callable[[int, int], None]:
    """Return a function that reports the progress of a long transfer, in few lines."""
    shown = 0

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if total > 32 << 20 and percent // 25 > shown // 25:
            shown = percent
            report(f"{what}: {percent} %")

    return progress


def _sent_module() -> ModuleType:
    """Return `on_worker.py` by the name that it has on the cluster, where another version of it may be too."""
    file = Path(on_worker.__file__)
    name = f"xoff_on_worker_{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


LARGEST, MOST_FILES = 4 << 30, 100_000
"""The most octets and files of a result, many times what a job's limits allow."""
_OF_THIS_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class UnusableError(Exception):
    """Raised if data from a worker is no usable result; the message is the reason."""


def usable_result(packed: object, out: Path, experiment: str, seed: int) -> Result:
    """Return the result of a run that is in a tar from a worker, which may be anything, in a new folder.

    Raises UnusableError if there is none in it, which is the failure of one run, and OSError if this machine's disk
    does not take it.
    """
    folder = new_folder(out, experiment)
    try:
        _unpack(packed, folder)
        found = Result.read(folder)
        _require_usable(found, experiment, seed)
        api.write_parquet(folder, Silent())
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        is_ours = isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE
        if is_ours or not isinstance(error, Exception):
            raise
        raise UnusableError(f"{type(error).__name__}: {error}"[:500]) from error
    return found


def _unpack(packed: object, folder: Path) -> None:
    if not isinstance(packed, bytes) or len(packed) > LARGEST:
        raise ValueError(f"it is no tar of at most {LARGEST >> 20} MB")
    plain_tar.unpack_folder(io.BytesIO(packed), folder, MOST_FILES)


def _require_usable(found: Result, experiment: str, seed: int) -> None:
    """Refuse a result of another run, and one that tables could not be made of or that would end the sweep."""
    if (found.experiment, found.seed) != (experiment, seed):
        raise ValueError(f"it is of {found.experiment!r} with seed {found.seed!r}, and not of the run that was given")
    if not isinstance(found.reason, str):
        raise ValueError("the reason in it is no text")
    if found.status is Status.DISK_FULL:
        raise ValueError("the worker's disk was full")  # of which its process reports an error
