"""Sweeps that are disturbed, here and on a Dask cluster: each run once, and the table of an undisturbed one."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.studies import sweep, sweep_tables

from ..processes import Dask, Process, Start, descendants, ended

ROOT = Path(__file__).parents[3]
JOB = ROOT / "tests" / "lab" / "jobs" / "studies.py"
TABLES = (sweep_tables.TABLE, sweep_tables.SUMMARY, sweep_tables.PARQUET)


def labs(pid: int) -> list[int]:
    """The kernels of labs that a process has started."""
    found = []
    for one in descendants(pid):
        try:
            words = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"init=/init" in words:
            found.append(one)
    return found


def sweeping(start: Start, out: Path, scales: int, *options: str) -> Process:
    grid = "scale=" + ",".join(str(scale) for scale in range(1, scales + 1))
    return start("testbed", "sweep", JOB, "--grid", grid, "--seeds", "2", "--out", out, *options)


def is_as_undisturbed(out: Path, scales: int, ready: PreparedEngine, undisturbed: Path) -> bool:
    """Return True if a sweep's folder has each run once, and the tables of one made here without a break."""
    grid = {"scale": list(range(1, scales + 1))}
    found = sweep.run(JOB, grid, seeds=2, on=ready, out=undisturbed, width=2)
    found.write_tables()
    assert (found.made, len(found.rows), found.failed) == (scales * 2, scales * 2, ())
    assert {path.name for path in out.iterdir()} == {path.name for path in undisturbed.iterdir()}
    assert {path.name for path in (out / "runs").iterdir()} == {path.name for path in (undisturbed / "runs").iterdir()}
    return all(
        (out / name).read_bytes() == (undisturbed / name).read_bytes() for name in TABLES if (out / name).exists()
    )


def made_now(process: Process) -> int:
    """Return the number of runs that a sweep has made."""
    return int(re.findall(r"(\d+) were made now", process.said)[-1])


SIZES = [pytest.param(3, id="6-runs"), pytest.param(12, id="24-runs", marks=pytest.mark.long)]


@pytest.mark.parametrize("scales", SIZES)
def test_a_killed_worker_and_an_interruption_leave_the_table_as_it_is(
    scales: int, start: Start, ready: PreparedEngine, tmp_path: Path
) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    killed, other = dask.worker(), dask.worker()
    out, runs = tmp_path / "disturbed", scales * 2

    first = sweeping(start, out, scales, "--scheduler", dask.address)
    first.await_(rf"{runs // 6} of {runs}:")
    of_killed = descendants(killed.popen.pid)
    killed.end(signal.SIGKILL)
    assert ended(of_killed), "a run outlives its worker"
    first.await_(rf"{runs // 2} of {runs}:")
    assert first.end(signal.SIGINT) == 130, first.said
    assert "Traceback" not in first.said
    assert ended(descendants(other.popen.pid)), "a run goes on after it was cancelled"
    made = made_now(first)
    assert runs // 2 <= made < runs

    dask.worker()
    second = sweeping(start, out, scales, "--scheduler", dask.address)
    assert second.popen.wait(600) == 0, second.said
    assert made + made_now(second) == runs
    assert is_as_undisturbed(out, scales, ready, tmp_path / "undisturbed")


def test_a_killed_lab_and_an_interruption_on_this_machine_leave_the_table_as_it_is(
    start: Start, ready: PreparedEngine, tmp_path: Path
) -> None:
    out = tmp_path / "disturbed"
    first = sweeping(start, out, 3, "--engine", ready.engine.name)
    first.await_("1 of 6:")
    while "lost: " not in first.said:  # one that is about to end is none that is lost
        for pid in labs(first.popen.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    first.await_("3 of 6:")
    assert first.end(signal.SIGINT) == 130, first.said
    second = sweeping(start, out, 3, "--engine", ready.engine.name)
    assert second.popen.wait(600) == 0, second.said
    assert made_now(first) + made_now(second) == 6
    assert is_as_undisturbed(out, 3, ready, tmp_path / "undisturbed")


def test_a_sweep_ends_with_one_message_when_its_scheduler_goes(
    start: Start, ready: PreparedEngine, tmp_path: Path
) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    dask.worker()
    first = sweeping(start, tmp_path / "out", 3, "--scheduler", dask.address)
    first.await_("1 of 6:")
    dask.scheduler.end(signal.SIGKILL)
    assert first.popen.wait(120) == 3, first.said
    assert f"the scheduler at {dask.address} has gone" in first.said
    assert "Traceback" not in first.said
    here = sweep.run(JOB, {"scale": [1, 2, 3]}, seeds=2, on=ready, out=tmp_path / "out")
    assert len(here.rows) == 6
    assert here.made < 6
