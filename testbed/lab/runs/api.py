"""Running an experiment in an engine: start the job, follow it, and bring back the result."""

from __future__ import annotations

import errno
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

import testbed
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.experiment.fidelity import Thresholds
from testbed.experiment.output import Record, RecordKind, StreamError
from testbed.lab.engines import table
from testbed.lab.engines.engine import Engine, PreparedEngine, RunningJob
from testbed.lab.host import cache
from testbed.lab.job.job import Follow, Job, Limits, RunOptions, digest_of_code, job_for, pack
from testbed.lab.partition.gang import Gang, is_consequence
from testbed.lab.results import series
from testbed.lab.results.collect import OUTPUT_LOG, Collector
from testbed.lab.results.result import Again, Result, Status, Times
from testbed.lab.results.result_folder import new_folder, reserved
from testbed.lab.runs.again import again
from testbed.lab.runs.outlook import Forecaster, Outlook

_OF_HEAD = "# branch.oid "
_POLL_S = 0.01
_GRACE_S = 20.0
_SHOWING_S = 8.0
"""The time in s that a job has to show where it is, before the command to end is sent again."""
_LONGER = {Status.TIMEOUT: "--timeout", Status.WALL_TIMEOUT: "--wall-timeout"}
_RAISED = {Status.MEMORY: "--memory", Status.PROCESSES: "--processes"}
_LEAST_FREE = 8 << 20
_ROOT_CAUSE_S = 1.0
"""The time in s for the part to end that another failed for."""
_STARTS_WITHIN_S = 120.0
_NO_ROOM = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EFBIG: "a file is larger than `ulimit -f` allows",
}


_STALLS_AFTER_S = 10.0
"""The wall time without progress of the lab's clock after which its programs are looked at."""
_STALLS_EVERY_S = 2.0


class Stall:
    """The progress of a lab's clock, as it is reported."""

    def __init__(self) -> None:
        self._virtual_ns = -1
        self._since_s = self._next_s = 0.0
        self._told = False

    def warning(self, session: RunningJob, virtual_ns: int, now_s: float) -> str | None:
        """Return a warning, once, if the clock has stood still and a program has its CPU all the time."""
        if virtual_ns != self._virtual_ns:
            self._virtual_ns, self._since_s, self._next_s = virtual_ns, now_s, now_s + _STALLS_AFTER_S
        if self._told or now_s < self._next_s:
            return None
        self._next_s = now_s + _STALLS_EVERY_S
        if (command := session.spins()) is None:
            return None
        self._told = True
        what = f"the program {command}" if command else "a program"
        return (
            f"the lab's clock has stood still for {now_s - self._since_s:.0f} s: {what} computes without a system "
            "call, which takes no lab time. It may be at work; if it waits for another one by looking at memory again "
            "and again, it waits for ever: have it sleep or yield, or use --engine vm. Ctrl-C ends the run"
        )


class Watcher(Protocol):
    """An observer of a run."""

    def report(self, text: str) -> None:
        """Take a message about the lab itself, such as what is being set up or what went wrong."""

    def output(self, data: bytes, is_error: bool) -> None:
        """Take output that the job printed."""

    def progress(self, virtual_ns: int, wall_s: float) -> None:
        """Take the times that have passed; this is called often."""


@runtime_checkable
class ForesightedWatcher(Watcher, Protocol):
    """An observer of a run that also takes how long it will go on."""

    def outlook(self, outlook: Outlook | None) -> None:
        """Take what the run does at this moment and how much of it is left, or None; this is called often."""


class Silent:
    """A watcher that ignores everything."""

    def report(self, text: str) -> None: ...

    def output(self, data: bytes, is_error: bool) -> None: ...

    def progress(self, virtual_ns: int, wall_s: float) -> None: ...


def run(
    experiment: Experiment | str | PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    seed: int = 1,
    out: str | PathLike[str] = "results",
    on: PreparedEngine | Engine | str = table.DEFAULT,
    packages: Sequence[str] = (),
    limits: Limits | None = None,
    thresholds: Thresholds | None = None,
    capture_octets: int = 0,
    series_ns: int = 0,
    follow: Follow | None = None,
    partitions: int | None = None,
    watcher: Watcher | None = None,
    cancel: threading.Event | None = None,
) -> Result:
    """Run an experiment and return its result, which is also in a new folder below `out`.

    `experiment` is one made with `@experiment`, the name of one of Xoff's own, or a Python file. `on` is the engine:
    `um`, `vm`, `realtime` or `host`, or one that `prepare` has made. `packages` are further Python packages, beside
    those that the experiment names itself. With `capture_octets` all cables are captured, so much of each frame (65536:
    whole frames), as pcapng files in the folder `captures` of the result. With `series_ns` networks record time series
    at that interval of the modelled time. `follow` is called with what networks report while they run
    (`net/watch/progress.py`). `partitions` is the number of kernels that have its networks together, instead of that
    of the experiment. Setting `cancel`, or Ctrl-C, ends the run and keeps what it had.
    """
    if not isinstance(experiment, Experiment):
        experiment = definition.find(str(experiment))
    options = RunOptions(seed, limits, thresholds or Thresholds(), capture_octets, series_ns, follow, partitions)
    return run_with(
        experiment, on, parameters or {}, options, out=out, packages=packages, watcher=watcher or Silent(),
        cancel=cancel,
    )  # fmt: skip


def run_with(
    experiment: Experiment,
    on: PreparedEngine | Engine | str,
    parameters: Mapping[str, Any],
    options: RunOptions,
    *,
    out: str | PathLike[str],
    packages: Sequence[str] = (),
    watcher: Watcher,
    cancel: threading.Event | None = None,
) -> Result:
    """Run an experiment as `run` does, with its options as one object."""
    prepared = on if isinstance(on, PreparedEngine) else table.prepare(on, watcher.report)
    prepared = prepared.having([*experiment.further, *packages], watcher.report, experiment.source.parent)
    packed = pack_run(experiment, prepared, parameters, options)
    return make(packed, prepared, out=out, watcher=watcher, cancel=cancel)


@dataclass(frozen=True)
class PackedRun:
    """A run with all that it takes, ready to be made on this machine or on another."""

    experiment: str
    job: Job
    tar: bytes
    """The job and the code that the engine does not hold already."""
    code: str
    """The digest of all code that the run may use, for the result."""
    commit: str
    again: Again
    thresholds: Thresholds = field(default_factory=Thresholds)
    follow: Follow | None = None


def pack_run(
    experiment: Experiment, prepared: PreparedEngine, parameters: Mapping[str, Any], options: RunOptions
) -> PackedRun:
    """Check what a run is given, and put together what it takes."""
    limits = options.limits_of(experiment)
    if limits.memory_mb is None:
        limits = replace(limits, memory_mb=prepared.memory_mb)
    options = replace(options, limits=limits)
    if options.partitions_of(experiment) > 1 and not prepared.engine.divides:
        raise UsageError(
            f"{experiment.name}: {prepared.engine} has one kernel for a network, so it cannot have "
            f"{options.partitions_of(experiment)} parts; run it with --engine um or --partitions 1"
        )
    job = job_for(
        experiment, parameters, options, reproducible=prepared.engine.reproducible,
        packages=prepared.packages.digest if prepared.packages else "",
    )  # fmt: skip
    return PackedRun(
        experiment.name, job, pack(job, experiment, held=prepared.holds), digest_of_code(job, experiment), commit(),
        again(experiment, job, prepared, options.thresholds), options.thresholds, options.follow,
    )  # fmt: skip


def make(
    packed: PackedRun,
    prepared: PreparedEngine,
    *,
    out: str | PathLike[str] = "results",
    watcher: Watcher | None = None,
    cancel: threading.Event | None = None,
) -> Result:
    """Make a run that is packed; its result folder goes below `out`."""
    folder = new_folder(Path(out), packed.experiment)
    watcher = watcher or Silent()
    prepared = prepared.with_room(packed.job.limits.memory_mb or 0, packed.job.limits.written_mb)
    follower = _Follower(prepared, packed, folder, watcher, cancel or threading.Event())
    try:
        follower.follow()
    except BaseException:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    result = follower.result()
    try:
        result.write(folder)
    except OSError as error:
        watcher.report(f"cannot write {folder}/result.json: {error.strerror}")
    write_parquet(folder, watcher)
    if follower.interrupted:
        raise KeyboardInterrupt
    return result


def write_parquet(folder: Path, watcher: Watcher) -> None:
    """Write the result's time series as Parquet too, where pyarrow is installed."""
    try:
        series.write_parquet(folder)
    except (OSError, UsageError) as error:
        watcher.report(f"no Parquet in {folder}: {error}")


class _Follower:
    """The machine's side of one run, from its start to its result."""

    def __init__(
        self,
        prepared: PreparedEngine,
        packed: PackedRun,
        folder: Path,
        watcher: Watcher,
        cancel: threading.Event,
    ) -> None:
        self._prepared = prepared
        self._packed = packed
        self._job = packed.job
        self._folder = folder
        self._watcher = watcher
        self._cancel = cancel
        self._collector = Collector(folder, watcher.output, packed.follow or (lambda line: None))
        self._status: tuple[Status, str] | None = None
        self._wall_s = 0.0
        self._cpu_s: float | None = None
        self._first_line_s: float | None = None
        self._forecaster = Forecaster(prepared.costs)
        self._booted = False
        self._give_up_s = self._again_s = float("inf")
        self._stall = Stall()
        self.interrupted = False
        self._fails_s = 0.0
        """The moment at which a part other than the first was seen to have failed; 0 before."""
        self._first_lost: tuple[Status, str] | None = None
        """The loss of the first part, if it was lost before it ended."""
        self._gang: Gang | None = None
        """The parts of the network, if it has several."""

    def follow(self) -> None:
        """Start the job and see it through."""
        try:
            with reserved(self._folder), cache.owned("run") as workplace:
                self._follow_in(workplace)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._status = (Status.DISK_FULL, f"{_NO_ROOM[error.errno]}: {error.filename or self._folder}")
        except StreamError as error:
            self._status = (Status.LOST, str(error))

    def _follow_in(self, workplace: Path) -> None:
        begin = time.monotonic()
        try:
            with self._start(workplace) as session, session.stream.open("rb") as stream:
                begin = time.monotonic()  # parts may have waited for machines that are free
                if isinstance(session, Gang):
                    self._collector.live = session.live(self._collector.live)
                while not self._step(session, stream, time.monotonic() - begin):
                    pass
                self._cpu_s = session.used_cpu_s()
                if self._gang is not None:
                    for said in self._gang.bring(self._collector, series=bool(self._job.series_ns)):
                        self._watcher.report(said)
        finally:
            self._wall_s = time.monotonic() - begin
            self._collector.close()

    def _start(self, workplace: Path) -> AbstractContextManager[RunningJob]:
        if self._job.partitions > 1:
            return self._prepared.start_parts(self._job.partitions, self._packed.tar, workplace, self._cancel)
        return self._prepared.start(self._packed.tar, workplace)

    def _step(self, session: RunningJob, stream: IO[bytes], now: float) -> bool:
        """Read once what has come, and return True when the run is over."""
        try:
            lost = session.lost()  # before reading: what it wrote before it ended is in the stream
            data = stream.read(1 << 20)
            self._collector.feed(data)
            if self._first_line_s is None and self._collector.heard:
                self._first_line_s = round(now, 3)
            self._show(session, now)
            if isinstance(session, Gang):
                self._gang = session
                if lost is not None and not data and self._collector.ended is None:
                    self._first_lost = Status.LOST, lost
                if self._status is None and self._is_failing(session):
                    return self._part_has_failed(session, now)
            if self._collector.ended is not None and (self._gang is None or self._gang.have_ended()):
                return True
            if lost is not None and not data and self._collector.ended is None:
                self._status = self._status or (Status.LOST, lost)
                return True
            if now > _STARTS_WITHIN_S and not self._collector.started:
                self._status = self._status or (Status.LOST, self._why_not_started())
                return True
            if self._status is None and (why := self._must_end(session, now)) is not None:
                self._status = why
                self._give_up_s, self._again_s = now + _GRACE_S, now + _SHOWING_S
                session.send(_abort(why))
            elif self._status is not None and now > self._again_s:
                self._again_s = float("inf")
                session.send(_abort(self._status))
            if not data:
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.interrupted = True
            if self._cancel.is_set():
                self._status = self._status or (Status.INTERRUPTED, "interrupted")
                return True  # the second interruption: do not wait for the rest
            self._cancel.set()
        return now > self._give_up_s

    def _own_failure(self) -> tuple[Status, str] | None:
        """Return how the first part has failed, or None if it has not."""
        if self._collector.ended is None:
            return self._first_lost
        if self._collector.status()[0] is Status.OK:
            return None
        return self._collector.status()

    def _is_failing(self, gang: Gang) -> bool:
        return gang.failure() is not None or self._own_failure() is not None

    def _part_has_failed(self, gang: Gang, now: float) -> bool:
        """Take the failure of a part for that of the run; False while another may still say why."""
        self._fails_s = self._fails_s or now
        own, others = self._own_failure(), gang.failure()
        known = next((one for one in (own, others) if one is not None and not is_consequence(one)), None)
        if known is None and now - self._fails_s < _ROOT_CAUSE_S:
            time.sleep(_POLL_S)
            return False
        if known is None or known is self._first_lost:
            self._status = known or own or others
        elif known is not own and others is not None:
            self._status = others
            if text := gang.errors():
                self._watcher.output(text, True)
        return True

    def _show(self, session: RunningJob, now: float) -> None:
        """Show the watcher how far the run is."""
        self._watcher.progress(self._collector.virtual_ns, now)
        if not self._booted and self._collector.started:
            self._booted = True
            self._forecaster.booted(session.cpu_s())
        if warning := self._forecaster.shortage(self._collector, self._job.limits.memory_mb):
            self._watcher.report(warning)
        if (stalled := self._stall.warning(session, self._collector.virtual_ns, now)) is not None:
            self._watcher.report(stalled)
        if isinstance(self._watcher, ForesightedWatcher):
            self._watcher.outlook(self._forecaster.outlook(self._collector, now))

    def _why_not_started(self) -> str:
        """Return the reason for which a lab that runs does not begin with the job."""
        reason = f"the lab did not start the job within {_STARTS_WITHIN_S:g} s of wall time"
        return "; ".join(filter(None, [reason, self._prepared.give_up()]))

    def _must_end(self, session: RunningJob, now: float) -> tuple[Status, str] | None:
        """Return the status and reason for which the run must be cut short, or None while it may go on."""
        if self._cancel.is_set():
            return Status.INTERRUPTED, "interrupted"
        if now > self._job.limits.wall_s:
            return Status.WALL_TIMEOUT, f"the job did not end within {self._job.limits.wall_s:g} s of wall time"
        for place in (session.stream.parent, self._folder):
            if (free := shutil.disk_usage(place).free) < _LEAST_FREE:
                return Status.DISK_FULL, f"the disk is full: {place} has {free >> 10} KB free"
        return None

    def result(self) -> Result:
        """Return all that is known of the run."""
        collector = self._collector
        status, reason = self._status or collector.status()
        fidelity = collector.fidelity(self._packed.thresholds)
        if self._gang is not None:
            fidelity = self._gang.fidelity(fidelity, self._packed.thresholds)
            if status is Status.OK and (different := self._gang.difference(collector)) is not None:
                status, reason = Status.ERROR, different
        if status in _LONGER and collector.where:
            reason = (
                f"{reason}; it was {collector.where} (the stack is in {OUTPUT_LOG}); {_LONGER[status]} gives it longer"
            )
        if status in _RAISED:
            reason = f"{reason}; {_RAISED[status]} raises that"
        return Result(
            experiment=self._packed.experiment,
            status=status,
            reason=reason,
            parameters=self._job.parameters,
            seed=self._job.seed,
            figures=tuple(collector.figures),
            claims=tuple(collector.claims),
            fidelity=fidelity,
            provenance=replace(
                self._prepared.provenance(),
                kernel=str(collector.started.get("kernel", "")),
                commit=self._packed.commit,
                code=self._packed.code,
                rate_controls=collector.rate_controls,
                switch_rules=collector.switch_rules,
            ),
            times=Times(collector.virtual_ns, round(self._wall_s, 3), self._first_line_s, self._cpu_s),
            files=collector.files,
            folder=self._folder,
            again=self._packed.again,
            partitions=self._job.partitions,
        )


def _abort(why: tuple[Status, str]) -> Record:
    return Record.of(RecordKind.ABORT, [why[1], why[0] is Status.WALL_TIMEOUT])


def commit() -> str:
    """Return the commit of the checkout that runs, with `+` if it was changed since; empty outside a checkout."""
    here = Path(testbed.__path__[0]).parent
    if not (here / ".git").exists():
        return ""
    git = ["git", "-C", str(here), "status", "--porcelain=v2", "--branch"]
    try:
        said = subprocess.run(git, capture_output=True, text=True, check=False).stdout.splitlines()
    except FileNotFoundError:
        return ""
    head = next((line.removeprefix(_OF_HEAD) for line in said if line.startswith(_OF_HEAD)), "(")
    if head.startswith("("):  # git could not read it, or nothing is committed yet
        return ""
    return head[:12] + ("+" if any(not line.startswith("#") for line in said) else "")
