"""A snapshot is taken at one exact moment, or taken again. (Loading one is in test_lab_qemu.py.)"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import testbed
from testbed.errors import UsageError
from testbed.lab import guest_main
from testbed.lab.image import bytecode
from testbed.lab.image.image import Image
from testbed.lab.image.packages import Packages
from testbed.lab.image.recipe import ImageError
from testbed.lab.job.job import HELD, LARGEST, held
from testbed.lab.vm import qemu, snapshot
from testbed.lab.vm.qemu import ICOUNT, Accelerator, Machine, QemuError
from testbed.lab.vm.snapshot import Snapshot

IMAGE = Image(Path("/image"), "key", "digest", "6.12.1", {}, {}, {})


class Told:
    """A machine whose monitor gives one answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def command(self, line: str) -> str:
        assert line == "info lapic"
        return self.text


@pytest.mark.parametrize(("left", "ran_on"), [(124437, False), (1, False), (0, True)])
def test_a_timer_that_has_run_out_shows_that_the_clock_went_on(left: int, ran_on: bool) -> None:
    text = f"Timer\t DCR=0x3 (divide by 16) initial_count = 249803 current_count = {left}\r\nIRR\t (none)\r\n"
    assert snapshot._ran_on(cast(Machine, Told(text))) is ran_on


def test_a_qemu_that_does_not_tell_is_an_error() -> None:
    with pytest.raises(QemuError, match="does not show the state of the CPU's timer: No APIC available"):
        snapshot._ran_on(cast(Machine, Told("No APIC available\r\n")))


class Taking:
    """A stand-in for machines that boot and are given code, which notes what was taken and keeps the results."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.outcomes: list[bool | QemuError] = []
        """The outcomes of the next snapshots; then all succeed."""
        self.taken: list[str] = []
        self.said: list[str] = []

    def take(self, _: Image, __: Accelerator, place: Path, ___: float, onto: tuple[Path, bytes] | None = None) -> bool:
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, QemuError):
            raise outcome
        if outcome:
            assert onto is None or onto[0].is_dir()
            self.taken.append("booted" if onto is None else f"holds {onto[1].decode()}")
            place.mkdir(parents=True, exist_ok=True)
        return outcome

    def ensure(self, packages: Packages | None = None) -> Path:
        self.said.clear()
        return snapshot.ensure(IMAGE, ICOUNT, self.said.append, packages=packages).path


@pytest.fixture
def taking(xoff_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Taking:
    made = Taking(xoff_cache)
    monkeypatch.setattr(snapshot, "_take", made.take)
    monkeypatch.setattr(snapshot, "_whole", Path.is_dir)
    monkeypatch.setattr(snapshot, "held", lambda *_: b"version 1")
    monkeypatch.setattr(bytecode, "with_bytecode", lambda code, _: code)
    monkeypatch.setattr(qemu, "arguments", lambda *_, **__: [])
    monkeypatch.setattr(qemu, "version", lambda: "7.2.0")
    return made


BOOTING = "booting the lab once (tcg-icount) to take its snapshot"
PUTTING = "putting this version of Xoff into the lab, once"


def test_a_moment_that_was_not_exact_is_tried_again_and_that_is_said(taking: Taking) -> None:
    taking.outcomes = [False, False, True, False]
    taking.ensure()
    again = "the lab's clock ran on while it was stopped; once more"
    assert taking.said == [BOOTING, again, again, PUTTING, again]
    for path in taking.cache.glob("snapshot-*"):
        path.rmdir()
    taking.outcomes = [False] * 8
    with pytest.raises(QemuError, match="no exact snapshot in 8 attempts"):
        taking.ensure()


def test_another_version_of_the_code_goes_into_the_machine_that_has_booted(
    taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = taking.ensure()
    assert taking.ensure() == first
    assert taking.said == []
    monkeypatch.setattr(snapshot, "held", lambda *_: b"version 2")
    assert taking.ensure() != first
    assert taking.said == [PUTTING]
    assert taking.taken == ["booted", "holds version 1", "holds version 2"]


def test_of_versions_of_the_code_a_few_stay(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in range(6):
        monkeypatch.setattr(snapshot, "held", lambda *_, version=version: b"version %d" % version)
        last = taking.ensure()
    left = {path.name for path in taking.cache.glob("snapshot-*")}
    assert len(left) == 1 + snapshot._KEPT
    assert last.name in left


@pytest.mark.parametrize("gone", [QemuError("no memory"), FileNotFoundError("no state")], ids=["spoilt", "pruned"])
def test_a_snapshot_that_cannot_be_woken_is_taken_again_once(
    gone: Exception, taking: Taking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Exception | Machine] = [gone, cast(Machine, Told(""))]

    def wake(*_: object) -> Machine:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(Snapshot, "_wake", wake)
    ready = snapshot.ensure(IMAGE, ICOUNT, taking.said.append)
    ready.start(b"job", tmp_path, None)
    assert taking.taken == ["booted", "holds version 1", "holds version 1"]
    ready.path.rmdir()  # by another xoff, before we start
    outcomes.append(cast(Machine, Told("")))
    ready.start(b"job", tmp_path, None)
    assert taking.taken[3:] == ["holds version 1"]


def test_a_snapshot_that_jobs_start_from_is_not_pruned(
    taking: Taking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshot, "_wake", lambda *_: None)
    ready = snapshot.ensure(IMAGE, ICOUNT, taking.said.append)
    for version in range(2, 8):
        ready.start(b"job", tmp_path, None)
        monkeypatch.setattr(snapshot, "held", lambda *_, version=version: b"version %d" % version)
        taking.ensure()
    assert ready.path.is_dir()


def test_a_booted_machine_that_qemu_cannot_load_is_booted_again_once(taking: Taking) -> None:
    taking.ensure()
    for path in taking.cache.glob("snapshot-*-*"):
        path.rmdir()
    spoilt = snapshot._SpoiltError("QEMU could not loadvm the lab's state")
    taking.outcomes = [spoilt]
    taking.ensure()
    assert taking.taken == ["booted", "holds version 1", "booted", "holds version 1"]
    for path in taking.cache.glob("snapshot-*-*"):
        path.rmdir()
    taking.outcomes = [spoilt, True, spoilt]
    with pytest.raises(QemuError, match="could not loadvm"):
        taking.ensure()


class StrictMachine:
    """A stand-in for QEMU 10.1 in record mode, which aborts when a state would take the place of another."""

    def __init__(self, _: object, folder: Path, __: object, *, batch: bool = False) -> None:
        (folder / "memory").touch()

    def __enter__(self) -> StrictMachine:
        return self

    def __exit__(self, *_: object) -> None: ...

    def place_job_memory(self, *_: int) -> None: ...

    def wait_for_stop(self, _: float) -> None: ...

    def last_words(self) -> str:
        return ""

    def job_memory(self) -> tuple[int, int]:
        return 3, 1 << 32

    def command(self, line: str) -> str:
        return "current_count = 5" if line == "info lapic" else ""

    def load(self, state: Path, name: str) -> None:
        if name not in state.read_text().split():
            raise QemuError(f"no state {name}")

    def save(self, state: Path, name: str) -> None:
        there = state.read_text().split() if state.exists() else []
        if name in there:
            raise QemuError("QEMU ended with -6")
        state.write_text(" ".join([*there, name]))


def test_the_second_state_takes_the_place_of_no_other(
    xoff_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "Machine", StrictMachine)
    monkeypatch.setattr(snapshot, "held", lambda *_: b"version 1")
    monkeypatch.setattr(bytecode, "with_bytecode", lambda code, _: code)
    monkeypatch.setattr(qemu, "arguments", lambda *_, **__: [])
    monkeypatch.setattr(qemu, "version", lambda: "11.1.3")
    ready = snapshot.ensure(IMAGE, ICOUNT, lambda _: None)
    ready.start(b"job", tmp_path, None)
    assert ready.path in xoff_cache.iterdir()


@pytest.fixture(params=[0o022, 0o000], ids=["usual umask", "no umask"])
def taken(request: pytest.FixtureRequest, xoff_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Snapshot]:
    """A snapshot with a manifest, taken of nothing."""
    before = os.umask(request.param)
    monkeypatch.setattr(snapshot, "Machine", StrictMachine)
    monkeypatch.setattr(snapshot, "held", lambda *_: b"version 1")
    monkeypatch.setattr(bytecode, "with_bytecode", lambda code, _: code)
    monkeypatch.setattr(qemu, "arguments", lambda *_, **__: [])
    monkeypatch.setattr(qemu, "version", lambda: "7.2.0")
    yield snapshot.ensure(IMAGE, ICOUNT, lambda _: None)
    os.umask(before)


def test_memory_that_was_changed_and_given_back_its_time_is_noticed(taken: Snapshot) -> None:
    assert snapshot._whole(taken.path)
    before = taken.memory.stat()
    with taken.memory.open("r+b") as memory:
        memory.write(b"")
        memory.truncate(before.st_size)
    os.utime(taken.memory, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert taken.memory.stat().st_mtime_ns == before.st_mtime_ns
    assert not snapshot._whole(taken.path)


@pytest.mark.parametrize("text", ["[]", "5", '{"seen": 5}', "[" * 100_000, ""])
def test_a_manifest_with_something_else_is_that_of_no_snapshot(text: str, taken: Snapshot) -> None:
    (taken.path / "manifest.json").write_text(text)
    assert not snapshot._whole(taken.path)


def test_a_snapshot_that_is_discarded_is_taken_again(taken: Snapshot) -> None:
    taken.discard()
    said: list[str] = []
    assert snapshot.ensure(IMAGE, ICOUNT, said.append) == taken
    assert said == [PUTTING]


@pytest.mark.parametrize(
    "pieces",
    [[], [(0, b"at the begin")], [(5 << 20, b"in the middle")], [(0, b"a"), (3 << 20, b"b"), ((16 << 20) - 3, b"end")]],
)
def test_a_copy_is_the_same_and_has_the_same_holes(pieces: list[tuple[int, bytes]], tmp_path: Path) -> None:
    source, target = tmp_path / "memory", tmp_path / "copy"
    with source.open("wb") as out:
        out.truncate(16 << 20)
        for place, content in pieces:
            out.seek(place)
            out.write(content)
    snapshot._copy_sparse(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks <= source.stat().st_blocks


def test_every_package_that_labs_import_exists() -> None:
    """A name that is wrong would not be missed: it has no modules."""
    place = Path(testbed.__path__[0])
    assert [package for package in guest_main._PACKAGES if not (place / package / "__init__.py").is_file()] == []
    assert [name for name in guest_main._NOT_IN_LABS if importlib.util.find_spec(name) is None] == []


def test_code_that_a_jobs_memory_cannot_hold_boots_a_machine_with_more_of_it(
    taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code is that of numpy; machines without it stay as they are."""
    told: list[int] = []
    monkeypatch.setattr(
        qemu, "arguments", lambda _, accelerator, *__, **___: told.append(accelerator.job_space_mb) or []
    )
    packages = Packages(None, {}, "digest")
    monkeypatch.setattr(bytecode, "largest", len)
    monkeypatch.setattr(snapshot, "held", lambda *_: bytes(33 << 20))
    taking.ensure(packages)
    assert told == [256]
    monkeypatch.setattr(snapshot, "held", lambda *_: bytes(300 << 20))
    with pytest.raises(UsageError, match="the packages have 300 MB; the engine vm takes 255 MB"):
        taking.ensure(packages)


def test_code_of_ours_has_room_in_the_usual_machine_when_it_is_compiled() -> None:
    assert bytecode.largest(held(HELD)) <= LARGEST


def test_code_is_compiled_while_the_machine_boots_and_goes_into_it_compiled(
    taking: Taking, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()

    def compiles(code: bytes, _: Image) -> bytes:
        begun.set()
        return code + b", compiled"

    def boots(*arguments: Any) -> bool:
        assert begun.wait(60)
        return Taking.take(taking, *arguments)

    monkeypatch.setattr(bytecode, "with_bytecode", compiles)
    monkeypatch.setattr(snapshot, "_take", boots)
    taking.ensure()
    assert taking.taken == ["booted", "holds version 1, compiled"]


def test_code_that_cannot_be_compiled_ends_in_the_error(taking: Taking, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise ImageError("the Python of the lab image could not compile Xoff")

    monkeypatch.setattr(bytecode, "with_bytecode", fails)
    with pytest.raises(ImageError, match="could not compile"):
        taking.ensure()
    assert taking.taken == ["booted"]
    monkeypatch.setattr(bytecode, "with_bytecode", lambda code, _: code)
    taking.ensure()
    assert taking.taken == ["booted", "holds version 1"], "the machine that has booted is there"
