"""Folders of runs that were killed are removed by the next run, and nothing else is."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.lab.results.collect import RESERVE
from testbed.lab.results.result_folder import new_folder, remove_abandoned, reserved

HOLDS = """
import sys, pathlib
from testbed.lab.results.result_folder import new_folder, reserved
with reserved(new_folder(pathlib.Path(sys.argv[1]), "one")):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def run_in(parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder of a run, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.send_signal(signal.SIGKILL)


def test_the_folder_of_a_killed_run_goes_with_the_next_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    with run_in(tmp_path) as living:
        with run_in(tmp_path):
            assert remove_abandoned(tmp_path) == []
            assert sorted(path.name for path in tmp_path.iterdir()) == ["one-001", "one-002"]
        assert (tmp_path / "one-002" / RESERVE).stat().st_size == 1 << 18, "the killed one has left it"
        assert living.poll() is None
        assert new_folder(tmp_path, "other").name == "other-001"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one-001", "other-001"]
    assert new_folder(tmp_path, "one").name == "one-001", "its name is free again"


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    kept = {"empty-001": (), "done-001": ("result.json",), "own": ("mine.txt",)}
    for name, files in kept.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    for name in ("link-001", "pipe-001", "folder-001"):
        (tmp_path / name).mkdir()
    (tmp_path / "link-001" / RESERVE).symlink_to(tmp_path / "own" / "mine.txt")
    os.mkfifo(tmp_path / "pipe-001" / RESERVE)
    (tmp_path / "folder-001" / RESERVE).mkdir()
    target = tmp_path / "elsewhere" / "gone-001"
    target.mkdir(parents=True)
    (target / RESERVE).touch()
    (tmp_path / "way-001").symlink_to(target)
    (tmp_path / RESERVE).touch()
    before = sorted(tmp_path.rglob("*"))
    assert remove_abandoned(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert remove_abandoned(tmp_path / "nothing") == []
    assert remove_abandoned(target.parent) == [target]


def test_what_a_killed_run_had_is_kept_without_the_room_that_it_reserved(tmp_path: Path) -> None:
    for name, files in {"kept-001": (RESERVE, "output.log"), "begun-001": (f"{RESERVE}.new",)}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    assert remove_abandoned(tmp_path) == [], "a run that begins now may have it"
    assert [path.name for path in (tmp_path / "kept-001").iterdir()] == ["output.log"]
    os.utime(tmp_path / "begun-001" / f"{RESERVE}.new", (0, 0))
    assert remove_abandoned(tmp_path) == [tmp_path / "begun-001"]


def test_no_room_is_an_error_that_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = new_folder(tmp_path, "one")
    (folder / f"{RESERVE}.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="File exists"), reserved(folder):
        pytest.fail("the file of another run was taken")
    (folder / f"{RESERVE}.new").unlink()
    with pytest.raises(OSError, match="nothing fits") as found, reserved(folder):
        assert list(folder.iterdir()) == [folder / RESERVE]
        raise OSError(errno.ENOSPC, "nothing fits")
    assert found.value.errno == errno.ENOSPC
    assert list(folder.iterdir()) == []
