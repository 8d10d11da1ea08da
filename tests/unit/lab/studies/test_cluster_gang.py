"""One network over workers: which gets what, the wait for those that are busy, and workers that fail."""

from __future__ import annotations

import base64
import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.experiment.output import Record, RecordKind
from testbed.lab.partition.gang import Gang
from testbed.lab.studies.cluster import gang, one_machine
from testbed.lab.studies.cluster.connection import ClusterError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang, "_ENDS_WITHIN_S", 20.0)  # nobody waits for it, unless the machine is busy
    monkeypatch.setattr(gang, "_LOOK_S", 0.02)
    monkeypatch.setattr(random, "uniform", lambda *_: 0.01)


@pytest.mark.parametrize(
    ("free", "parts", "expected"),
    [
        ({"a": 1, "b": 1}, 2, {"a": [0], "b": [1]}),
        ({"a": 1, "b": 4}, 4, {"b": [0, 1, 2, 3]}),
        ({"a": 2, "b": 3, "c": 0}, 4, {"b": [0, 1, 2], "a": [3]}),
        ({"a": 1, "b": 1}, 3, None),
        ({"a": -2, "b": 2}, 2, {"b": [0, 1]}),
        ({}, 2, None),
    ],
)
def test_as_few_workers_as_possible_have_a_network(
    free: Mapping[str, int], parts: int, expected: Mapping[str, Sequence[int]] | None
) -> None:
    assert gang.shares(free, parts) == expected


Answer = Callable[["Workers", str, list[dict[str, Any]]], dict[str, Any] | None]


def says(*lines: Mapping[str, Any], **further: Any) -> dict[str, Any]:
    said = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return {"said": said, "answer": None, "stopped": 0, **further}


class Workers:
    """A cluster whose workers do what a test says."""

    address = "tcp://scheduler:1"

    def __init__(self, **workers: Answer) -> None:
        self.workers = workers
        self.free = dict.fromkeys(workers, 1)
        self.reports: list[str] = []
        self.commands: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
        self.runs: dict[str, list[Mapping[str, Any]]] = {name: [] for name in workers}
        self.withdrawn: list[str] = []
        self.labs = 0
        self.no_scheduler: str | None = None

    def request(self, _: object) -> dict[str, Any]:
        return {"parts": {}}

    def give_lab(self, request: dict[str, Any], _: object) -> None:
        self.labs += 1
        request["parts"] = {"lab": {}}

    def free_threads(self) -> dict[str, int]:
        return self.free

    def have_part(self, worker: str, request: Mapping[str, Any], run: Mapping[str, Any], job: bytes) -> str:
        self.runs[worker].append({**request, **run})
        return worker

    def look(self, worker: str, key: str, commands: bytes) -> dict[str, Any] | None:
        time.sleep(0.002)
        new = [json.loads(line) for line in commands.splitlines()]
        self.commands[worker] += new
        return self.workers[worker](self, worker, new)

    def gone(self) -> str | None:
        return self.no_scheduler

    def withdraw(self, futures: Sequence[str]) -> None:
        self.withdrawn += futures

    def say(self, text: str) -> None:
        self.reports.append(text)


def sound(_: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any]:
    """A worker that has its parts as long as they are wanted."""
    if any("end" in one for one in commands):
        return says(answer={"worker": worker})
    if any("machines" in one for one in commands):
        return says({"begun": True})
    return says({"listens": [worker, 1]})


def begin(cluster: Workers, parts: int = 2, cancel: threading.Event | None = None) -> Any:
    prepared: Any = SimpleNamespace(cluster=cluster, job_mb=100, written_mb=100)
    return gang._placed(prepared, parts, b"job", cancel or threading.Event())


def test_all_workers_begin_and_end_together_and_know_of_each_other() -> None:
    cluster = Workers(a=sound, b=sound)
    with begin(cluster) as workers:
        assert [one.own for one in workers] == [[0], [1]]
    runs = [cluster.runs[name][0] for name in "ab"]
    assert [run["machine"] for run in runs] == [0, 1]
    assert [run["placement"] for run in runs] == [[[0], [1]]] * 2
    assert runs[0]["secret"] == runs[1]["secret"]
    assert len(bytes.fromhex(runs[0]["secret"])) == 32
    for name in "ab":
        assert cluster.commands[name] == [{"machines": [["a", 1], ["b", 1]]}, {"end": True}]
    assert sorted(cluster.withdrawn) == ["a", "b"]


def test_a_run_waits_in_one_line_until_all_parts_have_a_thread() -> None:
    cluster = Workers(a=sound, b=sound)
    cluster.free = {"a": 1, "b": 0}
    threading.Timer(0.1, cluster.free.update, [{"b": 1}]).start()
    with begin(cluster):
        pass
    assert cluster.reports == [
        "waiting for 2 free threads of workers at tcp://scheduler:1, one for each part: 1 of 2 workers are free; "
        "`dask worker` adds some"
    ]


def test_a_wait_can_be_interrupted() -> None:
    cancel = threading.Event()
    threading.Timer(0.05, cancel.set).start()
    with (
        pytest.raises(ClusterError, match="interrupted before there were workers for all parts"),
        begin(Workers(a=sound), cancel=cancel),
    ):
        pass


def test_workers_are_released_when_another_job_was_faster_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang, "_ALL_BEGIN_WITHIN_S", 0.1)
    tries: list[str] = []

    def late(cluster: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any] | None:
        return None if len(cluster.runs[worker]) == 1 else sound(cluster, worker, commands)

    cluster = Workers(a=sound, b=late)
    with begin(cluster):
        tries += cluster.withdrawn
    assert sorted(tries) == ["a", "b"]
    assert [len(cluster.runs[name]) for name in "ab"] == [2, 2]
    assert cluster.runs["a"][0]["secret"] != cluster.runs["a"][1]["secret"]


def test_a_worker_without_the_lab_gets_it_and_all_begin_again() -> None:
    def bare(cluster: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any]:
        return sound(cluster, worker, commands) if cluster.labs else says(answer={"worker": worker, "wants": "lab"})

    cluster = Workers(a=sound, b=bare)
    with begin(cluster):
        pass
    assert cluster.labs == 1
    assert [run["parts"] for run in cluster.runs["a"]] == [{}, {"lab": {}}]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (says(answer={"worker": "b", "error": "no port can be opened"}), "b: no port can be opened"),
        (says(answer={"worker": "b"}), "b: its process has ended"),
    ],
)
def test_a_worker_that_cannot_begin_ends_all_with_its_reason(answer: dict[str, Any], expected: str) -> None:
    cluster = Workers(a=sound, b=lambda *_: answer)
    with pytest.raises(ClusterError, match=re.escape(expected)), begin(cluster):
        pass
    assert {"end": True} in cluster.commands["a"]


def gone(cluster: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any]:
    cluster.free.pop(worker, None)
    raise OSError("no such worker")


def no_scheduler(cluster: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any]:
    """A scheduler that was killed: nothing more can be asked, also not who is there."""
    cluster.no_scheduler = f"the scheduler at {cluster.address} has gone or was restarted"
    raise OSError("connection refused")


has_been_asked, may_end = threading.Event(), threading.Event()


def hangs(*_: object) -> None:
    has_been_asked.set()
    may_end.wait(60)


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (gone, "the worker has left the cluster"),
        (no_scheduler, "the scheduler at tcp://scheduler:1 has gone or was restarted"),
        (hangs, "the worker has not answered for 30 s"),
        (lambda *_: None, "its task was ended there"),
        (lambda *_: says(answer={"worker": "b", "error": "exit code -9"}), "exit code -9"),
        (lambda *_: says({"part": 1, "lost": "the kernel ended"}), "the kernel ended"),
        (lambda *_: says({"relay": "the connection was lost"}), "the connection was lost"),
    ],
)
def test_what_ends_a_worker_while_it_runs_ends_its_parts(
    then: Answer, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "_ENDS_WITHIN_S", 0.2)  # some of these do not end
    has_been_asked.clear()
    may_end.clear()
    cluster = Workers(a=sound, b=sound)
    with begin(cluster) as workers:
        parts = [part for one in workers for part in one.begin(tmp_path)]
        cluster.workers["b"] = then
        if then is hangs:
            assert has_been_asked.wait(60)
            workers[1]._heard_s -= gang._SILENT_S
        end_s = time.monotonic() + 60
        while parts[1].lost() is None and time.monotonic() < end_s:
            time.sleep(0.001)
        assert (parts[1].lost() or "").partition(" (")[0] == expected
        assert parts[0].lost() == cluster.no_scheduler  # of a scheduler that has gone all parts say the same
    may_end.set()


def test_what_a_part_writes_and_how_it_is_comes_to_its_gang(tmp_path: Path) -> None:
    written = Record.of(RecordKind.START, {"kernel": "k"}).encode()
    news = [
        says({"part": 1, "data": base64.b64encode(written).decode()}),
        says({"part": 1, "cpu_s": 2.5, "stopped": None, "spins": "loop"}),
        says(stopped=77),
    ]

    def busy(cluster: Workers, worker: str, commands: list[dict[str, Any]]) -> dict[str, Any]:
        if any("end" in one for one in commands) or not (has_begun.is_set() and news):
            return sound(cluster, worker, commands)
        return news.pop(0)

    has_begun = threading.Event()
    cluster = Workers(a=sound, b=busy)
    with begin(cluster) as workers:
        has_begun.set()  # what comes before the gang is there is not lost
        parts = [part for one in workers for part in one.begin(tmp_path)]
        end_s = time.monotonic() + 5
        while (news or parts[1].stopped()) and time.monotonic() < end_s:  # nobody waits for one that is stopped
            time.sleep(0.001)
        running = Gang(parts, tmp_path, ["a", "b"])
        assert parts[1].stream.read_bytes() == written
        assert (parts[1].cpu_s(), parts[1].spins()) == (2.5, "loop")
        running.send(Record.of(RecordKind.ABORT, ["why", False]))
        running.close()
    (sent,) = [one for one in cluster.commands["b"] if "kind" in one]
    assert (sent["part"], sent["kind"]) == (1, RecordKind.ABORT)
    assert json.loads(base64.b64decode(sent["payload"])) == ["why", False]


def test_machines_that_were_given_different_things_know_it() -> None:
    request = {"image": "i", "kernel": "k", "packages": None, "placement": [[0], [1]], "job": "j",
               "parts": {"code": {"sha256": "c"}, "lab": {"sha256": "l"}}}  # fmt: skip
    own = one_machine.alike(request)
    assert len(own) == 32
    assert one_machine.alike({**request, "parts": {"code": {"sha256": "c"}}}) == own
    assert one_machine.alike({**request, "parts": {"code": {"sha256": "d"}}}) != own
    assert one_machine.alike({**request, "kernel": "l"}) != own
