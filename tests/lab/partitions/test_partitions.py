"""One network over several kernels: the same result every time, and an end for all when one ends."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Result, Status
from testbed.lab.studies.cluster.client import connected
from testbed.lab.studies.cluster.gang import placed

from ..conftest import JOBS, Runner, failed_claims
from ..processes import Dask, Start, descendants, ended


@pytest.fixture(scope="module")
def here(ready: PreparedEngine, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run in two kernels of this machine, which meet in memory."""
    return lab.run(definition.load_file(JOBS / "partition.py", "roce"), on=ready, out=tmp_path_factory.mktemp("here"))


@pytest.mark.engines("um")
def test_two_workers_of_a_cluster_give_the_digest_of_one_machine(
    ready: PreparedEngine, here: Result, start: Start, tmp_path: Path
) -> None:
    """Without Xoff in the workers; the network begins when both are free, and leaves nothing on them."""
    dask = Dask(start, tmp_path)
    workers = [dask.worker()]
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if "waiting for 2 free threads of workers" in text:
            workers.append(dask.worker())

    with connected(dask.address, say) as cluster:
        job = definition.load_file(JOBS / "partition.py", "roce")
        result = lab.run(job, on=placed(ready, cluster), out=tmp_path / "out")
    assert (result.status, result.reason) == (Status.OK, "")
    assert result.digest == here.digest
    assert "1 of 1 worker are free" in said[0]
    assert ended([pid for worker in workers for pid in descendants(worker.popen.pid)])


@pytest.mark.engines("um")
def test_roce_with_pfc_across_the_cut_gives_one_digest(run: Runner, here: Result) -> None:
    """On whatever cores, and whoever waits for whom: the frames that cross come at the same nanosecond."""
    runs = [here, run("partition:roce")]
    assert [failed_claims(one) for one in runs] == [set()] * 2
    assert len({one.digest for one in runs}) == 1
    folder = runs[0].folder
    assert folder is not None
    line = json.loads((folder / "partition.jsonl").read_text())
    assert line["parts"] == [["h1a", "h1b", "s1"], ["h2a", "h2b", "s2"]]
    assert all(one["lost"] == one["dropped"] == 0 < one["received"] for one in line["cables"][0]["from"].values())
    assert all(count > 0 for count in runs[0].figure("pauses received between racks"))


@pytest.mark.engines("um")
def test_all_parts_read_the_same_of_counters_that_go_on(run: Runner) -> None:
    assert failed_claims(run("partition:read").check()) == set()


@pytest.mark.engines("um")
def test_cables_of_any_part_and_between_them_change_as_in_one_kernel(ready: PreparedEngine, tmp_path: Path) -> None:
    job = definition.load_file(JOBS / "partition.py", "changed")
    whole, divided = (lab.run(job, on=ready, out=tmp_path, partitions=parts).check() for parts in (1, 2))
    assert {one.name: one.value for one in divided.figures} == {one.name: one.value for one in whole.figures}
    assert [one.value for one in divided.figures if "lost of 20 at 1" in one.name] == [20] * 3
    assert [one.value for one in divided.figures if "lost of 20 at 0" in one.name] == [0] * 3


@pytest.mark.long
@pytest.mark.engines("um")
def test_more_parts_than_cores_end_with_the_digest_of_any_other_placement(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    """Eight kernels, on all cores of this machine and on one of them."""
    job, all_cores, digests = definition.load_file(JOBS / "partition.py", "roce"), os.sched_getaffinity(0), set()
    for own in (all_cores, {min(all_cores)}):
        try:
            os.sched_setaffinity(0, own)
            result = lab.run(job, parameters={"racks": 8}, on=ready, out=tmp_path, partitions=8)
        finally:
            os.sched_setaffinity(0, all_cores)
        assert (result.status, failed_claims(result)) == (Status.OK, set())
        digests.add(result.digest)
    assert len(digests) == 1


def parts() -> dict[int, int]:
    """Return the processes of the kernels that this one has started, by part."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                for variable in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    if variable.startswith(b"XOFF_PART="):
                        found[int(variable.partition(b"=")[2])] = int(child)
    return found


def kernel_of(started: int) -> int:
    """Return the process of the kernel, which the one that was started waits for."""
    children = Path(f"/proc/{started}/task/{started}/children").read_text().split()
    guards = Path(f"/proc/{started}/comm").read_text().strip() == "xoff-guard"
    return int(children[0]) if guards else started


def end_one(ready: PreparedEngine, out: Path, part: int, sent: signal.Signals, after_s: float = 0.0) -> Result:
    """Return the result of a run of which the kernel of one part gets a signal, and check that all end soon."""
    started = threading.Event()

    class Watch:
        def report(self, text: str) -> None: ...
        def output(self, data: bytes, is_error: bool) -> None: ...
        def progress(self, virtual_ns: int, wall_s: float) -> None:
            if virtual_ns > 0:
                started.set()

    job = definition.load_file(JOBS / "partition.py", "roce")
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lab.run, job, parameters={"ms": 1000}, on=ready, out=out, watcher=Watch())
        assert started.wait(120)
        time.sleep(after_s)
        both = parts()
        os.kill(kernel_of(both[part]), sent)
        sent_s = time.monotonic()
        result = running.result(60)
        took = time.monotonic() - sent_s
    assert took < 1 + len(os.sched_getaffinity(0))  # a second, and more where others have the cores
    assert parts() == {}
    assert not any(Path(f"/proc/{pid}").exists() for pid in both.values())
    return result


@pytest.mark.engines("um")
@pytest.mark.parametrize(
    ("part", "sent", "expected"),
    [
        (1, signal.SIGKILL, "part 1: the lab's kernel ended before the job did"),
        (0, signal.SIGSTOP, "part 0: the lab's kernel (process "),
    ],
)
def test_a_part_that_dies_or_hangs_ends_all_within_a_second(
    ready: PreparedEngine, tmp_path: Path, part: int, sent: signal.Signals, expected: str
) -> None:
    result = end_one(ready, tmp_path, part, sent)
    assert result.status is Status.LOST
    assert result.reason.startswith(expected)


@pytest.mark.long
@pytest.mark.engines("um")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_each_part_may_die_or_hang_at_any_moment(ready: PreparedEngine, tmp_path: Path, sent: signal.Signals) -> None:
    dice = random.Random(1)
    for part in (0, 1) * 5:
        result = end_one(ready, tmp_path, part, sent, dice.uniform(0, 4))
        assert (result.status, result.reason[:8]) == (Status.LOST, f"part {part}: ")


CLAIMS = {
    "victim": {"delay": "500ns"},
    "dcqcn": {"delay": "500ns"},
    "ai_training_step": {"delay": "500ns"},
    "flow_completion": {},
    "wan_read": {},
    "wan_tenants": {},
    "wan_isis": {},
}
"""The experiments whose claims hold in two parts, with the cables that are cut."""


@pytest.mark.engines("um")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "victim" else pytest.mark.long) for name in CLAIMS]
)
def test_claims_hold_in_two_parts(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    result = lab.run(definition.find(name), parameters=CLAIMS[name], on=ready, out=tmp_path, partitions=2)
    assert failed_claims(result) == set()
    assert result.claims
