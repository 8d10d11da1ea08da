"""The state of source files: the same while none changes, and another after any change that a file system can tell."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.lab.host import sources

OLD_NS = 10**18


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    for name in ("one.py", "room/two.py", "room/three.txt"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(OLD_NS, OLD_NS))
    return tmp_path


def in_place(path: Path) -> None:
    """Give a file other content of the same length, and the times of before as far as a program can."""
    path.write_text("x" * len(path.read_text()))
    os.utime(path, ns=(OLD_NS, OLD_NS))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: in_place(folder / "one.py"),
        lambda folder: (folder / "room/two.py").unlink(),
        lambda folder: (folder / "room/two.py").rename(folder / "room/four.py"),
        lambda folder: (folder / "room/new").touch(),
        lambda folder: (folder / "one.py").write_text("longer than before"),
    ],
)
def test_a_change_gives_another_name(folder: Path, change: Callable[[Path], object]) -> None:
    before = sources.stamp([folder])
    assert sources.stamp([folder]) == before
    time.sleep(0.01)  # the clock of a file system has a few milliseconds
    change(folder)
    assert sources.stamp([folder]).name != before.name


def test_compiled_modules_do_not_count(folder: Path) -> None:
    before = sources.stamp([folder])
    (folder / "room/__pycache__").mkdir()
    (folder / "room/__pycache__/two.cpython-311.pyc").touch()
    (folder / "old.pyc").touch()
    assert sources.stamp([folder]) == before


def test_places_are_files_or_folders(folder: Path) -> None:
    assert sources.stamp([folder / "one.py"]) != sources.stamp([folder / "room"])
    assert sources.stamp([folder / "one.py", folder / "room"]).changed_ns == sources.stamp([folder]).changed_ns


def test_what_has_just_changed_is_not_settled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = sources.stamp([folder])
    assert not now.is_settled, "its files were made a moment ago"
    monkeypatch.setattr(time, "time_ns", lambda: now.changed_ns + 2_000_000_001)
    assert now.is_settled
