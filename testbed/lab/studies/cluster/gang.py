"""One network over the workers of a cluster: its parts begin together on all of them, and end together.

Dask gives each machine of the network a task that is for one worker alone, and is not repeated. Everything that tasks
say comes by the scheduler, so workers need not reach the user's machine; what the kernels tell each other goes from
worker to worker (`lab/partition/relay.py`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import secrets
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.experiment.output import Record
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.um import PreparedUm
from testbed.lab.partition.gang import Gang
from testbed.lab.studies.cluster.client import Cluster
from testbed.lab.studies.cluster.connection import ClusterError, cause

_ALL_BEGIN_WITHIN_S = 5.0
"""The seconds within which all workers that were free have begun; else another job was faster, and all are released."""
_LOOK_S = 0.5
_ENDS_WITHIN_S = 5.0
_SILENT_S = 30.0
"""The seconds without an answer after which a worker is lost."""


@dataclass(frozen=True, kw_only=True)
class PlacedUm(PreparedUm):
    """The engine `um`, which has networks with several parts on the workers of a cluster."""

    cluster: Cluster

    @contextmanager
    def start_parts(self, parts: int, job: bytes, folder: Path, cancel: threading.Event) -> Iterator[Gang]:
        with _placed(self, parts, job, cancel) as workers:
            machines: list[_Part] = []
            for worker in workers:
                machines += worker.begin(folder)
            machines.sort(key=lambda one: one.number)
            with closing(Gang(machines, folder, [one.worker.address for one in machines])) as gang:
                yield gang


def placed(prepared: PreparedEngine, cluster: Cluster) -> PlacedUm:
    """Return an engine whose networks with parts run on a cluster."""
    if not isinstance(prepared, PreparedUm):
        raise UsageError(f"--scheduler: the engine {prepared.engine} does not run on a cluster; um does")
    return PlacedUm(cluster=cluster, **{one.name: getattr(prepared, one.name) for one in fields(PreparedUm)})


def shares(free: Mapping[str, int], parts: int) -> dict[str, list[int]] | None:
    """Return the parts that each worker gets, or None if there are not enough free threads.

    As few workers as possible have a network, for parts of one worker meet in memory.
    """
    if sum(max(many, 0) for many in free.values()) < parts:
        return None
    found: dict[str, list[int]] = {}
    given = 0
    for worker in sorted(free, key=lambda one: (-free[one], one)):
        many = min(max(free[worker], 0), parts - given)
        if many:
            found[worker] = list(range(given, given + many))
            given += many
    return found


@contextmanager
def _placed(prepared: PlacedUm, parts: int, job: bytes, cancel: threading.Event) -> Iterator[list[_Worker]]:
    """Yield the workers that have begun, all of them; each has its parts, and a connection to all others."""
    cluster = prepared.cluster
    request = cluster.request(prepared)
    waits = _Waits(cluster, parts)
    while True:
        if cancel.is_set():
            raise ClusterError("interrupted before there were workers for all parts")
        if (chosen := shares(waits.free(), parts)) is None:
            waits.say()
            cancel.wait(_LOOK_S)
            continue
        with _released(cluster, chosen) as workers:
            if not _begin(workers, request, prepared, job, cancel):
                waits.say()
            elif any(one.wants_lab for one in workers):
                cluster.give_lab(request, prepared)
            else:
                _connect(workers, cancel)
                yield workers
                return
        cancel.wait(random.uniform(0, 1))


@contextmanager
def _released(cluster: Cluster, chosen: Mapping[str, Sequence[int]]) -> Iterator[list[_Worker]]:
    """Yield workers that are to have some parts each, and end afterwards what they have."""
    name = uuid.uuid4().hex
    workers = [
        _Worker(cluster, address, f"xoff-part-{name}-{number}", own)
        for number, (address, own) in enumerate(chosen.items())
    ]
    try:
        yield workers
    finally:
        for one in workers:
            one.tell({"end": True})
        for one in workers:
            one.close()


class _Waits:
    """The wait for free workers, which is told when it changes."""

    def __init__(self, cluster: Cluster, parts: int) -> None:
        self._cluster, self._parts = cluster, parts
        self._free: Mapping[str, int] = {}
        self._said = ""

    def free(self) -> Mapping[str, int]:
        self._free = self._cluster.free_threads()
        return self._free

    def say(self) -> None:
        free = sum(max(many, 0) for many in self._free.values())
        text = (
            f"waiting for {self._parts} free threads of workers at {self._cluster.address}, one for each part: {free} "
            f"of {len(self._free)} worker{'s' * (len(self._free) != 1)} are free; `dask worker` adds some"
        )
        if text != self._said:
            self._said = text
            self._cluster.say(text)


def _begin(
    workers: Sequence[_Worker], request: Mapping[str, Any], prepared: PreparedUm, job: bytes, cancel: threading.Event
) -> bool:
    """Have all workers begin; False if another job was faster on some."""
    run = {
        "secret": secrets.token_hex(32), "placement": [one.own for one in workers],
        "workers": [one.address for one in workers], "memory_mb": prepared.job_mb, "written_mb": prepared.written_mb,
        "job": hashlib.sha256(job).hexdigest(),
    }  # fmt: skip
    for number, one in enumerate(workers):
        one.submit(request, {**run, "key": one.key, "machine": number}, job)
    end_s = time.monotonic() + _ALL_BEGIN_WITHIN_S
    while not all(one.listens or one.wants_lab for one in workers):
        _require_going(workers, cancel)
        if time.monotonic() > end_s and not all(one.has_begun for one in workers):
            return False
        time.sleep(0.02)
    return True


def _connect(workers: Sequence[_Worker], cancel: threading.Event) -> None:
    """Let all machines connect to each other, and start the kernels."""
    command = {"machines": [one.listens for one in workers]}
    for one in workers:
        one.tell(command)
    while not all(one.has_kernels for one in workers):
        _require_going(workers, cancel)
        time.sleep(0.01)


def _require_going(workers: Sequence[_Worker], cancel: threading.Event) -> None:
    if cancel.is_set():
        raise ClusterError("interrupted before all parts had begun")
    for one in workers:
        if why := one.failure or one.absence():
            raise ClusterError(f"{one.address}: {why}")


class _Worker:
    """A worker that has some parts of a network."""

    def __init__(self, cluster: Cluster, address: str, key: str, own: Sequence[int]) -> None:
        self.address, self.key = address, key
        self.has_begun = self.wants_lab = self.has_kernels = False
        self.listens: tuple[str, int] | None = None
        self.failure = ""
        """The reason for which nothing will come any more."""
        self._cluster, self.own = cluster, own
        self._future: Any = None
        self._commands: list[bytes] = []
        self._turn = threading.Lock()
        self._is_over = threading.Event()
        self._half = b""
        self._heard_s = 0.0
        self._parts: dict[int, _Part] = {}
        self._early: list[Mapping[str, Any]] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def submit(self, request: Mapping[str, Any], run: Mapping[str, Any], job: bytes) -> None:
        self._future = self._cluster.have_part(self.address, request, run, job)
        self._thread.start()

    def begin(self, folder: Path) -> list[_Part]:
        """Return the parts, whose streams are in a folder from now on."""
        with self._turn:
            self._parts = {number: _Part(number, self, folder / f"stream-{number}") for number in self.own}
            for line in self._early:
                self._parts[line["part"]].take(line)
            self._early.clear()
        return list(self._parts.values())

    def tell(self, command: Mapping[str, Any]) -> None:
        with self._turn:
            self._commands.append(json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """Have the worker end what it has of the network."""
        if self._future is None:
            return
        if self.has_begun and not self.failure and not any(part.is_halted for part in self._parts.values()):
            self._thread.join(_ENDS_WITHIN_S)
        self._is_over.set()
        self._cluster.withdraw([self._future])
        for part in self._parts.values():
            part.end()

    def absence(self) -> str | None:
        """Return the reason to take the worker for lost if the scheduler has gone, or the worker is silent as one whose
        machine hangs.
        """
        if (gone := self._cluster.gone()) is not None:
            return gone
        if self._heard_s and time.monotonic() - self._heard_s > _SILENT_S:
            return f"the worker has not answered for {_SILENT_S:g} s"
        return None

    def _follow(self) -> None:
        while not self._is_over.is_set():
            with self._turn:
                commands = b"".join(self._commands)
                self._commands.clear()
            try:
                news = self._cluster.look(self.address, self.key, commands)
            except Exception as error:
                if not self._is_there():
                    self._fail("the worker has left the cluster")
                elif (why := self.absence()) is not None:
                    self._fail(f"{why} ({cause(error)})")
                else:
                    time.sleep(0.1)
                    continue
                return
            self._heard_s = time.monotonic()
            if news is None:
                if self.has_begun:
                    self._fail("its task was ended there")
                    return
                with self._turn:
                    self._commands.insert(0, commands)
                time.sleep(0.05)
                continue
            self.has_begun = True
            self._take(news)
            if (answer := news["answer"]) is not None:
                self.wants_lab = "wants" in answer
                if not self.wants_lab:
                    self._fail(str(answer.get("error", "its process has ended"))[:2000])
                return

    def _is_there(self) -> bool:
        with suppress(Exception):
            return self.address in self._cluster.free_threads()
        return True

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
        for part in self._parts.values():
            part.fail(why)

    def _take(self, found: Mapping[str, Any]) -> None:
        lines = (self._half + found["said"]).split(b"\n")
        self._half = lines.pop()
        with self._turn:
            for text in lines:
                self._hear(json.loads(text))
            for part in self._parts.values():
                part.is_halted = f"its process {found['stopped']} is stopped" if found["stopped"] else None

    def _hear(self, line: Mapping[str, Any]) -> None:
        if "listens" in line:
            self.listens = line["listens"]
        elif "begun" in line:
            self.has_kernels = True
        elif "report" in line:
            self._cluster.say(f"{self.address}: {line['report']}")
        elif "relay" in line:
            self._fail(line["relay"])
        elif self._parts:
            self._parts[line["part"]].take(line)
        else:
            self._early.append(line)


class _Part:
    """A part on a worker, as its gang sees it (`lab/partition/gang.py:Part`)."""

    def __init__(self, number: int, worker: _Worker, stream: Path) -> None:
        self.number, self.worker, self.stream = number, worker, stream
        self.is_halted: str | None = None
        """A process of the part that was found stopped, besides the kernel and what is in it."""
        self._out = stream.open("ab", buffering=0)
        self._lost: str | None = worker.failure or None
        self._state: dict[str, Any] = {}

    def take(self, line: Mapping[str, Any]) -> None:
        if "data" in line and not self._out.closed:
            self._out.write(base64.b64decode(line["data"]))
        if "lost" in line:
            self.fail(line["lost"])
        self._state |= line

    def fail(self, why: str) -> None:
        self._lost = self._lost or why

    def lost(self) -> str | None:
        return self._lost or self.worker.absence()

    def send(self, record: Record) -> None:
        payload = base64.b64encode(record.payload).decode()
        self.worker.tell({"part": self.number, "kind": int(record.kind), "payload": payload})

    def cpu_s(self) -> float | None:
        return self._state.get("cpu_s")

    def used_cpu_s(self) -> float | None:
        return self._state.get("used_cpu_s")

    def spins(self) -> str | None:
        return self._state.get("spins")

    def stopped(self) -> str | None:
        return self.is_halted or self._state.get("stopped")

    def close(self) -> None: ...

    def end(self) -> None:
        self._out.close()
