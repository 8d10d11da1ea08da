"""Results that come back from workers, which may be anything: what cannot be used is the failure of one run."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import resource
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.experiment import definition
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.image import plain_tar
from testbed.lab.job.job import Job, RunOptions
from testbed.lab.results.result import RESULT, Again, Figure, Provenance, Result, Status, Times
from testbed.lab.runs import api
from testbed.lab.runs.api import PackedRun
from testbed.lab.studies.batch import Task
from testbed.lab.studies.cluster import client
from testbed.lab.studies.cluster.client import Cluster, UnusableError
from testbed.lab.studies.cluster.connection import ClusterError

pytestmark = pytest.mark.usefixtures("xoff_cache")
SEED = 1


@pytest.fixture
def content(tmp_path: Path) -> dict[str, Any]:
    """Return a sound result.json."""
    fidelity = Fidelity(Verdict.KEPT, (), 1, None, None, None, Thresholds())
    made_with = Provenance("um", "", "i", "k", "kd", "", "x", "c", "code")
    figures = (Figure("goodput", 1, "b/s"),)
    Result("incast", Status.OK, "", {}, SEED, figures, (), fidelity, made_with, Times(1, 1.0, None), {}).write(tmp_path)
    found: dict[str, Any] = json.loads((tmp_path / RESULT).read_text())
    return found


def packed(*files: tuple[str, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return a tar as a worker packs a folder."""
    names = json.dumps([name for name, _ in files]).encode()
    members = [("names.json", names), *((str(number), data) for number, (_, data) in enumerate(files))]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def whole(content: object, *members: tuple[str, bytes]) -> bytes:
    return packed((RESULT, json.dumps(content).encode()), *members)


def taken(data: object, out: Path) -> Any:
    return client.usable_result(data, out, "incast", SEED)


def test_what_a_worker_sends_becomes_a_folder(content: dict[str, Any], tmp_path: Path) -> None:
    long = "a/" * 60 + "deep"
    found = taken(whole(content, ("output.log", b"words"), (long, b"x")), tmp_path / "out")
    assert found.folder == tmp_path / "out" / "incast-001"
    assert (found.folder / "output.log").read_bytes() == b"words"
    assert (found.folder / long).read_bytes() == b"x"


@pytest.mark.parametrize("name", ["x" * 250, "a/" * 100 + "b", "\u00e9t\u00e9", os.fsdecode(b"\xff"), " ", "0"])
def test_files_arrive_with_the_names_that_they_had(name: str, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file = tmp_path / "in" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"content")
    tar = io.BytesIO()
    plain_tar.pack_folder(tmp_path / "in", tar)
    plain_tar.unpack_folder(io.BytesIO(tar.getvalue()), tmp_path / "out", 1)
    assert (tmp_path / "out" / name).read_bytes() == b"content"


def _named(names: object, *members: str) -> bytes:
    """Return a tar with these names, of empty files."""
    text = json.dumps(names).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        head = tarfile.TarInfo("names.json")
        head.size = len(text)
        archive.addfile(head, io.BytesIO(text))
        for name in members:
            archive.addfile(tarfile.TarInfo(name))
    return out.getvalue()


def _of_kind(kind: bytes, size: int = 0, **more: Any) -> bytes:
    """Return a tar whose only member is no file."""
    member = tarfile.TarInfo("0")
    member.type, member.size = kind, size
    for key, value in more.items():
        setattr(member, key, value)
    return _named([RESULT])[:1024] + member.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def _sparse() -> bytes:
    """Return a few octets that claim to be a file of 100 TB."""
    size = str(100 << 40)
    return _of_kind(
        tarfile.REGTYPE, pax_headers={"GNU.sparse.map": "0,0", "GNU.sparse.size": size, "GNU.sparse.realsize": size}
    )


Change = Callable[[dict[str, Any]], object]
WRONG: dict[str, tuple[Change, str]] = {
    "nothing": (lambda _: b"", "it ends too early"),
    "no tar": (lambda _: b"no tar" * 1000, "there is no header of a file"),
    "no list of names": (lambda _: _of_kind(tarfile.REGTYPE)[1024:], "it does not begin with a list of names"),
    "names that are no text": (lambda _: _named([1]), "its list of names is none"),
    "names that are no list": (lambda _: _named({"a": "b"}), "its list of names is none"),
    "a file without a name": (lambda _: _named([], "0"), "'0' in it is not a file of a result"),
    "another order": (lambda _: _named(["a", "b"], "1"), "'a' in it is not a file of a result"),
    "no octets": (lambda _: "text", "it is no tar of at most"),
    "further up": (lambda c: whole(c, ("../../evil", b"x")), "'../../evil' in it is not a file of a result"),
    "a path from the root": (lambda c: whole(c, ("/evil", b"x")), "'/evil' in it is not a file of a result"),
    "a long name": (lambda c: whole(c, ("x" * 300, b"x")), "File name too long"),
    "a zero in a name": (lambda c: whole(c, ("x\0" + "y" * 101, b"x")), "null"),
    "no name": (lambda c: whole(c, (".", b"x")), "Is a directory"),
    "a file in a file": (lambda c: whole(c, ("result.json/evil", b"x")), "Error: [Errno"),
    "a symbolic link": (
        lambda _: _of_kind(tarfile.SYMTYPE, linkname="/etc/passwd"),
        "'0' in it is no regular file",
    ),
    "a hard link": (lambda _: _of_kind(tarfile.LNKTYPE, linkname="result.json"), "'0' in it is no regular file"),
    "a FIFO": (lambda _: _of_kind(tarfile.FIFOTYPE), "'0' in it is no regular file"),
    "a sparse file": (lambda _: _sparse(), "in it is no regular file"),
    "many headers": (lambda _: tarfile.TarInfo.create_pax_global_header({"a": "b"}) * 5000, "is no regular file"),
    "more than there is": (lambda _: _of_kind(tarfile.REGTYPE, size=1 << 30), "it ends too early"),
    "gzip": (lambda c: gzip.compress(whole(c)), "there is no header of a file"),
    "bz2": (lambda c: bz2.compress(whole(c)), "there is no header of a file"),
    "xz": (lambda c: lzma.compress(whole(c)), "there is no header of a file"),
    "half a result": (lambda _: packed((RESULT, b"{")), "result.json"),
    "an empty result": (lambda _: packed((RESULT, b"{}")), "is not a result of xoff: experiment is missing"),
    "a result of another kind": (lambda _: packed((RESULT, b"[]")), "Error: "),
    "a deep result": (lambda _: packed((RESULT, b"[" * 100_000)), "Error: "),
    "another experiment": (
        lambda c: whole(c | {"experiment": "chain"}),
        "it is of 'chain' with seed 1, and not of the",
    ),
    "another seed": (lambda c: whole(c | {"seed": SEED + 1}), "it is of 'incast' with seed 2, and not of the run"),
    "a name that is no text": (
        lambda c: whole(c | {"figures": [{"name": [1], "value": 1, "unit": ""}]}),
        "is no figure",
    ),
    "a unit that is no text": (
        lambda c: whole(c | {"figures": [{"name": "a", "value": 1, "unit": {}}]}),
        "is no figure",
    ),
    "a reason that is no text": (lambda c: whole(c | {"reason": 7}), "the reason in it is no text"),
    "what would stop the sweep": (lambda c: whole(c | {"status": "disk-full"}), "the worker's disk was full"),
}


@contextmanager
def _small_files() -> Iterator[None]:
    """Let no file of more than 100 MB be written meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(("wrong", "why"), WRONG.values(), ids=WRONG)
def test_what_is_no_result_leaves_nothing_and_takes_no_room(
    wrong: Change, why: str, content: dict[str, Any], tmp_path: Path
) -> None:
    with _small_files(), pytest.raises(UnusableError) as caught:
        taken(wrong(content), tmp_path / "out")
    assert why in str(caught.value)
    assert len(str(caught.value)) <= 500
    assert not list((tmp_path / "out").iterdir())
    assert not (tmp_path / "evil").exists()


def test_size_and_number_of_files_are_limited(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_FILES", 3)
    assert taken(whole(content, ("a", b""), ("b", b"")), tmp_path / "out").seed == SEED
    with pytest.raises(UnusableError, match="it has more than 3 files"):
        taken(whole(content, ("a", b""), ("b", b""), ("c", b"")), tmp_path / "out")
    monkeypatch.setattr(client, "LARGEST", 20 << 20)
    with pytest.raises(UnusableError, match="it is no tar of at most 20 MB"):
        taken(whole(content, ("a", bytes(21 << 20))), tmp_path / "out")


# What becomes of the sweep


class Scheduler:
    """The part of a client of Dask that `Cluster` needs; each run submitted gets the next of some answers."""

    def __init__(self, *answers: object) -> None:
        self.status = "running"
        self._answers = iter(answers)

    def nthreads(self) -> dict[str, int]:
        return {"one": 1, "other": 1}

    def submit(self, *_: object, **named: object) -> Any:
        answer = next(self._answers)

        def result(timeout: float) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        found = SimpleNamespace(status="finished", result=result, release=lambda: None)
        found.add_done_callback = lambda call: call(_Future(found))
        return _Future(found)

    def cancel(self, futures: object, force: bool) -> None: ...


class _Future:
    """A future of Dask; two of them are equal if they are of one run."""

    def __init__(self, run: SimpleNamespace) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Future) and self._run is other._run

    def __hash__(self) -> int:
        return id(self._run)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Give answers to runs, as many if no other number is given; return the outcomes in the order of the runs."""
    pytest.importorskip("distributed")
    packed_run = PackedRun("incast", Job("", "incast", {}), b"", "", "", Again((), {}))
    monkeypatch.setattr(api, "pack_run", lambda *_, **__: packed_run)
    monkeypatch.setattr(Cluster, "request", lambda *_: {"parts": {"lab": {}}})

    def make(*answers: object, runs: int = 0) -> list[str]:
        tasks = [Task(definition.find("incast"), None, options=RunOptions(SEED)) for _ in range(runs or len(answers))]  # type: ignore[arg-type]
        cluster = Cluster(Scheduler(*answers), "tcp://there:1", lambda _: None, None)
        became = cluster.run(tasks, out=tmp_path / "out").outcomes
        return [one.result.experiment if one.result else str(one.error) for one in became]

    return make


def _answer(**content: object) -> dict[str, object]:
    return {"worker": "tcp://w:1", **content}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_answer(result=packed(("x" * 300, b"x"))), "the result of tcp://w:1 cannot be used: OSError: "),
        (_answer(result=packed(("result.json/x", b"x"), ("result.json", b""))), "the result of tcp://w:1 cannot be us"),
        (_answer(result=7), "the result of tcp://w:1 cannot be used: ValueError: it is no tar"),
        ({"result": b""}, "its worker returned <class 'dict'>, and no answer"),
        ([], "its worker returned <class 'list'>, and no answer"),
        (None, "its worker returned <class 'NoneType'>, and no answer"),
        (RecursionError("deep"), "RecursionError: deep"),
        (ValueError("x" * 10**6), "ValueError: xxx"),
    ],
)
def test_one_workers_answer_is_one_runs_failure(
    answer: object, said: str, made: Callable[..., list[str]], content: dict[str, Any]
) -> None:
    good = _answer(result=whole(content))
    became = made(good, answer, good)
    assert (became[0], became[2]) == ("incast", "incast")
    assert became[1].startswith(said)
    assert len(became[1]) < 3000


def test_workers_that_request_the_lab_again_and_again_are_let_go(made: Callable[..., list[str]]) -> None:
    """A run is tried on another worker, and has failed when there is none left."""
    wanting = [_answer(wants="lab", worker=name) for name in ("one", "other")]
    assert made(*wanting, runs=1) == ["other: it has no lab after it was given one"]


def test_a_disk_of_this_machine_that_is_full_ends_the_sweep(
    made: Callable[..., list[str]], content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(plain_tar, "unpack_folder", full)
    with pytest.raises(
        ClusterError, match=r"results cannot go to .*: No space left on device; the same command goes on"
    ):
        made(_answer(result=whole(content)))
