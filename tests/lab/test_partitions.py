"""One network over several kernels: the same result every time, and an end for all when one ends."""

from __future__ import annotations

import json
import os
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
from testbed.lab.results.result import Status

from .conftest import JOBS, Runner, failed_claims


@pytest.mark.engines("um")
def test_roce_with_pfc_across_the_cut_gives_one_digest(run: Runner) -> None:
    """On whatever cores, and whoever waits for whom: the frames that cross come at the same nanosecond."""
    runs = [run("partition:roce") for _ in range(2)]
    assert [failed_claims(one) for one in runs] == [set()] * 2
    assert len({one.digest for one in runs}) == 1
    folder = runs[0].folder
    assert folder is not None
    line = json.loads((folder / "partition.jsonl").read_text())
    assert line["parts"] == [["h1a", "h1b", "s1"], ["h2a", "h2b", "s2"]]
    assert all(one["lost"] == one["dropped"] == 0 < one["received"] for one in line["cables"][0]["from"].values())
    assert all(count > 0 for count in runs[0].figure("pauses received between racks"))


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


@pytest.mark.engines("um")
def test_a_part_that_is_killed_ends_all_within_a_second(ready: PreparedEngine, tmp_path: Path) -> None:
    started = threading.Event()

    class Watch:
        def report(self, text: str) -> None: ...
        def output(self, data: bytes, is_error: bool) -> None: ...
        def progress(self, virtual_ns: int, wall_s: float) -> None:
            if virtual_ns > 0:
                started.set()

    job = definition.load_file(JOBS / "partition.py", "roce")
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lab.run, job, parameters={"ms": 1000}, on=ready, out=tmp_path, watcher=Watch())
        assert started.wait(120)
        both = parts()
        os.kill(both[1], signal.SIGKILL)
        killed = time.monotonic()
        result = running.result(60)
        took = time.monotonic() - killed
    assert result.status is Status.LOST
    assert result.reason.startswith("part 1: the lab's kernel ended before the job did")
    assert took < 1 + len(os.sched_getaffinity(0))  # a second, and more where others have the cores
    assert parts() == {}
    assert not any(Path(f"/proc/{pid}").exists() for pid in both.values())
