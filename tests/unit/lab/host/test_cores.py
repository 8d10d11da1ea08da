"""Cores of labs side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab.host import cores


@pytest.fixture(autouse=True)
def four_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XOFF_CACHE", str(tmp_path))
    monkeypatch.setenv("XOFF_LABS_SIDE_BY_SIDE", "1")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(cores, "_LOAD", tmp_path / "loadavg")
    runnable(tmp_path, 1)


def runnable(folder: Path, many: int) -> None:
    """So many threads can run on this machine, with that of the test."""
    (folder / "loadavg").write_text(f"0.1 0.2 0.3 {many}/300 4711\n")


def test_a_lab_gets_the_cores_that_it_can_use() -> None:
    with cores.taken(2) as two, cores.taken(1) as one:
        assert (two, one) == ({2, 3}, {1})


def test_a_lab_gets_fewer_cores_when_others_have_the_rest() -> None:
    with cores.taken(3), cores.taken(2) as rest, cores.taken(2) as shared:
        assert rest == {0}
        assert len(shared) == 1


def test_a_lab_polls_on_no_core_that_another_program_wants(tmp_path: Path) -> None:
    runnable(tmp_path, 4)
    with cores.taken(2) as own:
        assert own == {3}
    runnable(tmp_path, 3)
    with cores.taken(2) as own:
        assert own == {2, 3}
    runnable(tmp_path, 30)
    with cores.taken(2) as own:
        assert own == {3}


def test_labs_side_by_side_divide_the_cores() -> None:
    with cores.shared(4), cores.taken(2) as first, cores.taken(2) as second:
        assert (first, second) == ({3}, {2})
    with cores.taken(2) as alone:
        assert alone == {2, 3}


def test_labs_of_other_programs_that_are_started_meanwhile_divide_the_cores_too() -> None:
    code = (
        "import os; os.sched_getaffinity = lambda _: {0, 1, 2, 3}\n"
        "from testbed.lab.host import cores\n"
        "with cores.taken(2) as own: print(len(own))"
    )
    with cores.shared(4):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_what_is_divided_already_is_not_for_fewer_labs_afterwards() -> None:
    with cores.shared(4):
        with cores.shared(2), cores.taken(2) as own:
            assert len(own) == 1
        with cores.taken(2) as own:
            assert len(own) == 1


def test_cores_are_free_again_after_use() -> None:
    with cores.taken(4):
        pass
    with cores.taken(4) as again:
        assert again == {0, 1, 2, 3}
