"""One network over several workers of a cluster: the placement does not matter, and what ends one part ends all."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.host import cache
from testbed.lab.results.result import Status
from testbed.lab.studies.cluster.client import connected
from testbed.lab.studies.cluster.gang import placed

from ..conftest import JOBS, failed_claims
from ..processes import Dask, Process, Start, descendants, ended
from .test_partitions import kernel_of

pytestmark = [pytest.mark.long, pytest.mark.engines("um")]
ROCE = definition.load_file(JOBS / "partition.py", "roce")


def words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def of_parts(worker: Process) -> list[int]:
    """Return the processes that a worker has started for a network."""
    return descendants(worker.popen.pid)


def left_files() -> list[str]:
    """Return the folders of parts in the caches of this machine's workers, if no other network has some now."""
    places = (cache.root(), *cache.folder("cluster").glob("lab-*"))
    return [one.name for place in places for one in (place / "tmp").glob("cluster-parts-*")]


@pytest.mark.parametrize("threads", [(4,), (2, 2), (2, 1, 1), (1, 1, 1, 1)], ids=str)
def test_a_network_of_four_parts_gives_one_digest_wherever_they_are(
    threads: tuple[int, ...], ready: PreparedEngine, start: Start, tmp_path: Path
) -> None:
    here = lab.run(ROCE, parameters={"racks": 4}, on=ready, out=tmp_path / "here", partitions=4)
    dask = Dask(start, tmp_path)
    for many in threads:
        dask.worker(many)
    with connected(dask.address) as cluster:
        there = lab.run(
            ROCE, parameters={"racks": 4}, on=placed(ready, cluster), out=tmp_path / "there", partitions=4
        )  # fmt: skip
    assert (there.status, there.reason) == (Status.OK, "")
    assert there.digest == here.digest


def test_a_hundred_runs_give_one_digest(
    ready: PreparedEngine, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over other programs that want the cores, one core or all of them, kernels that spin before they sleep, memory and
    TCP between the parts, and their places on workers.
    """
    dice, digests, all_cores = random.Random(1), set(), os.sched_getaffinity(0)
    clusters = []
    for threads in ((4,), (2, 1, 1)):
        folder = tmp_path / str(len(threads))
        folder.mkdir()
        clusters.append(dask := Dask(start, folder))
        for many in threads:
            dask.worker(many)
    with ExitStack() as open_clusters:
        places = [placed(ready, open_clusters.enter_context(connected(dask.address))) for dask in clusters]
        for number in range(int(os.environ.get("XOFF_RUNS", "100"))):
            monkeypatch.setattr("testbed.lab.partition.memory.LOOKS", dice.choice((0, 200, 100_000)))
            monkeypatch.setattr("testbed.lab.host.cores.are_free", lambda parts: True)
            others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(dice.choice((0, 0, 1, 4)))]
            try:
                os.sched_setaffinity(0, all_cores if number % 3 else {min(all_cores)})
                on = dice.choice([ready, ready, *places])
                result = lab.run(ROCE, parameters={"racks": 4}, on=on, out=tmp_path / "results", partitions=4)
            finally:
                os.sched_setaffinity(0, all_cores)
                for other in others:
                    other.kill()
                    other.wait()
            assert (result.status, result.reason, failed_claims(result)) == (Status.OK, "", set())
            digests.add(result.digest)
            print(number, "on workers" if on is not ready else "here", result.digest, flush=True)
    assert len(digests) == 1


def test_a_controller_is_reached_from_another_worker(ready: PreparedEngine, start: Start, tmp_path: Path) -> None:
    job, dask = definition.find("cross_dc"), Dask(start, tmp_path)
    here = lab.run(job, on=ready, out=tmp_path / "here", partitions=2)
    for _ in range(2):
        dask.worker(1)
    with connected(dask.address) as cluster:
        there = lab.run(job, on=placed(ready, cluster), out=tmp_path / "there", partitions=2)
    assert (there.status, there.reason) == (Status.OK, "")
    assert there.digest == here.digest


def running(start: Start, dask: Dask, out: Path) -> Process:
    """Start a network that runs for long, and return when all its parts do."""
    return start(
        "testbed", "run", f"{JOBS / 'partition.py'}:roce", "--set", "ms=3000", "--partitions", "2", "--scheduler",
        dask.address, "--out", out,
    )  # fmt: skip


WAYS = [(what, sent) for what in ("kernel", "process") for sent in (signal.SIGKILL, signal.SIGSTOP)]


@pytest.mark.parametrize(("what", "sent"), [*WAYS, ("worker", signal.SIGKILL)])
def test_what_ends_one_part_at_any_moment_ends_all_and_leaves_nothing(
    what: str, sent: signal.Signals, ready: PreparedEngine, start: Start, tmp_path: Path
) -> None:
    """Each of its parts in turn: its kernel, the process that has it, or the worker."""
    assert ready.engine.name == "um"
    dask, dice = Dask(start, tmp_path), random.Random(1)
    workers = [dask.worker() for _ in range(2)]
    for turn in range(6):
        run = running(start, dask, tmp_path / f"out-{turn}")
        while not all(any("init=/init" in words_of(pid) for pid in of_parts(worker)) for worker in workers):
            assert run.popen.poll() is None, run.said
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 4))
        hit = workers[turn % 2]
        mine = [pid for worker in workers for pid in of_parts(worker)]
        process = next(
            pid for pid in of_parts(hit) if words_of(pid)[-2:-1] == ["testbed.lab.studies.cluster.one_machine"]
        )
        started = next(pid for pid in descendants(process) if "init=/init" in words_of(pid))
        os.kill({"kernel": kernel_of(started), "process": process, "worker": hit.popen.pid}[what], sent)
        sent_s = time.monotonic()
        assert run.popen.wait(60) == 3, run.said
        took = time.monotonic() - sent_s
        assert took < 2 + len(os.sched_getaffinity(0))  # a second, the end of Python, and others who have the cores
        assert re.search(r"roce: part [01] on tcp://127\.0\.0\.1:\d+: ", run.said), run.said
        assert "Traceback" not in run.said
        assert ended(mine), "a process of the network is left"
        if what == "worker":
            hit.popen.wait(10)
            workers[turn % 2] = dask.worker()
        else:
            assert left_files() == []
    whole = start(
        "testbed", "run", f"{JOBS / 'partition.py'}:roce", "--scheduler", dask.address, "--out", tmp_path / "whole"
    )
    assert whole.popen.wait(120) == 0, whole.said
    assert left_files() == []


def test_a_scheduler_that_is_killed_is_named(ready: PreparedEngine, start: Start, tmp_path: Path) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    workers = [dask.worker() for _ in range(2)]
    run = running(start, dask, tmp_path / "out")
    while not all(any("init=/init" in words_of(pid) for pid in of_parts(worker)) for worker in workers):
        assert run.popen.poll() is None, run.said
        time.sleep(0.02)
    mine = [pid for worker in workers for pid in of_parts(worker)]
    dask.scheduler.popen.kill()
    assert run.popen.wait(60) == 3, run.said
    assert f"the scheduler at {dask.address} has gone or was restarted" in run.said
    assert "Traceback" not in run.said
    assert ended(mine), "a process of the network is left"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_the_command_ends_all_parts(
    sent: signal.Signals, ready: PreparedEngine, start: Start, tmp_path: Path
) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    workers = [dask.worker() for _ in range(2)]
    run = running(start, dask, tmp_path / "out")
    while not all(any("init=/init" in words_of(pid) for pid in of_parts(worker)) for worker in workers):
        time.sleep(0.02)
    mine = [pid for worker in workers for pid in of_parts(worker)]
    code = run.end(sent)
    assert code == (130 if sent is signal.SIGINT else -sent), run.said
    assert ended(mine), "a process of the network is left"
    time.sleep(0.5)
    assert left_files() == []


def test_two_networks_that_want_the_same_workers_run_one_after_the_other(
    ready: PreparedEngine, start: Start, tmp_path: Path
) -> None:
    assert ready.engine.name == "um"
    dask = Dask(start, tmp_path)
    for _ in range(2):
        dask.worker()
    command = ("run", f"{JOBS / 'partition.py'}:roce", "--scheduler", dask.address, "--json")
    both = [start("testbed", *command, "--out", tmp_path / f"out-{number}") for number in range(2)]
    assert [one.popen.wait(200) for one in both] == [0, 0], both[0].said + both[1].said
    assert sum("waiting for 2 free threads" in one.said for one in both) >= 1
