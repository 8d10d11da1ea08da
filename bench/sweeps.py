"""Runs per minute of a sweep: here with one and two at a time, and on a Dask cluster of this machine.

    python3 bench/sweeps.py [--runs 24]

Each way makes the same runs, of a job of some tenths of a second, so the figures are what a run costs beside its
experiment. A worker of the cluster is a process with one thread; what it takes before its first run is measured apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.studies import sweep
from testbed.lab.studies.cluster.client import connected
from testbed.lab.studies.sweep import Sweep

ROOT = Path(__file__).parents[1]
JOB = ROOT / "tests" / "lab" / "jobs" / "studies.py"
WAYS = ("here, one at a time", "here, two at a time", "Dask, one worker", "Dask, two workers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24)
    options = parser.parse_args()
    job, ready = definition.load_file(JOB), table.prepare("um", print)
    tables = set()
    with tempfile.TemporaryDirectory() as work:
        for number, way in enumerate(WAYS):
            out, width = Path(work) / str(number), 1 + number % 2

            def make(scheduler: object = None, out: Path = out, width: int = width, runs: int = options.runs) -> Sweep:
                return sweep.run(job, {}, seeds=runs, on=ready, out=out, width=width, scheduler=scheduler)

            first_s, took_s, found = _on_cluster(make, width) if way.startswith("Dask") else (0.0, *_timed(make))
            assert len(found.rows) == options.runs, found.failed
            found.write_tables()
            tables.add((out / "table.csv").read_bytes())
            first = f"; the first run {first_s:.1f} s after connecting" if first_s else ""
            print(f"{way}: {found.made / took_s * 60:.0f} runs per minute{first}", flush=True)
    assert len(tables) == 1, "the ways have made different tables"
    return 0


def _timed(make: Callable[[], Sweep]) -> tuple[float, Sweep]:
    begin = time.monotonic()
    found = make()
    return time.monotonic() - begin, found


def _on_cluster(make: Callable[..., Sweep], workers: int) -> tuple[float, float, Sweep]:
    with _dask(workers) as address, connected(address) as cluster:
        first_s, _ = _timed(lambda: make(cluster, runs=1))
        took_s, found = _timed(lambda: make(cluster))
    return first_s, took_s, found


@contextmanager
def _dask(workers: int) -> Iterator[str]:
    """A scheduler and workers; they end with the block."""
    with ExitStack() as stack:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "scheduler.json"
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        commands = [["dask_scheduler", "--port", "0", "--scheduler-file", str(file)]]
        commands += [["dask_worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny"]] * workers
        for program, *words in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *words, *common], stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        while not file.exists():
            time.sleep(0.05)
        yield str(json.loads(file.read_text())["address"])


if __name__ == "__main__":
    sys.exit(main())
