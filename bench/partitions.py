"""Measure what one gains by a network over several kernels: the CPU time of the busiest part against one kernel's.

    ./xoff test --unit && python bench/partitions.py [ROW ...]
    python bench/partitions.py growth [HOSTS ...]

Each row is a network of racks, in one kernel and in a part for each rack, in turns; of each the least counts. What is
measured begins when the flows do and ends when they end, so boots and set-ups are not in it. The time of a part is that
of its kernel and of the processes in it, and the busiest one is what a machine with a core for each part would wait
for, if parts never waited for each other. Fewer free cores than parts make waits of sleeps, which cost CPU time too.
Where there is a core for each part, the wall time is shown, too.

The second form takes 64 to 512 hosts with one load each, in racks of 16 or, as there are 16 parts at most, of 32. What
each part works in each window is measured, by its kernel; what 2 to 16 cores gain by that is a model: a round takes as
long as the core with the most work, whose parts' windows are drawn from those that were measured, each by itself, and
the time that its kernels took beyond their windows. One window of 200 is long: flows begin or end, in all parts at the
same moment. These, and the time of processes, are divided by the cores.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.results.result import Status
from testbed.linux.parts_device import MOST_PARTS

JOBS = Path(__file__).parent / "jobs" / "partitions.py"
TURNS = 3
GROWTH = (64, 128, 256, 512)
ROWS: dict[str, dict[str, Any]] = {
    "2 racks of 8 hosts, 10 Gb/s, 100 m": {"hosts": 8, "rate": "10Gb/s", "us": 20000},
    "2 racks of 16 hosts, 100 Gb/s, 100 m": {"hosts": 16, "us": 1500},
    "2 racks of 32 hosts, 100 Gb/s, 100 m": {"hosts": 32, "us": 750},
    "2 racks of 16 hosts, 100 Gb/s, 100 m, RoCE": {"hosts": 16, "us": 1000, "transport": "roce"},
    "2 sites of 16 hosts, 100 Gb/s, 10 km": {"hosts": 16, "us": 1500, "between": "10km"},
    "2 sites of 8 hosts, 10 Gb/s, 10 km": {"hosts": 8, "rate": "10Gb/s", "us": 20000, "between": "10km"},
    "4 racks of 16 hosts, 100 Gb/s, 100 m": {"racks": 4, "hosts": 16, "us": 1000},
    "4 racks of 4 hosts, 10 Gb/s, 100 m": {"racks": 4, "hosts": 4, "rate": "10Gb/s", "us": 20000},
}


def kernels() -> dict[int, list[int]]:
    """Return the processes of each part's kernel that this process has started; part 0 is a network that is whole."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                variables = dict(
                    one.partition(b"=")[::2] for one in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
                )
                if b"XOFF_OUT" in variables:
                    found[int(variables.get(b"XOFF_PART", b"0"))] = _tree(int(child))
    return found


def _tree(pid: int) -> list[int]:
    tree = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                tree += _tree(int(child))
    return tree


def cpu_s() -> dict[int, tuple[float, float]]:
    """Return the CPU time in s of each part so far: of its kernel, and of all processes in it."""
    times = {}
    for part, processes in kernels().items():
        of_kernel = of_processes = 0.0
        for pid in processes:
            with suppress(OSError, IndexError):
                own_s = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
                if Path(f"/proc/{pid}/comm").read_text().strip() == "linux":
                    of_kernel += own_s
                else:
                    of_processes += own_s
        times[part] = of_kernel, of_processes
    return times


class Marks:
    """A watcher that reads the CPU time where the job says that its flows begin and end."""

    def __init__(self) -> None:
        self.times: dict[str, dict[int, tuple[float, float]]] = {}
        self.moments: dict[str, float] = {}

    def report(self, text: str) -> None: ...
    def progress(self, virtual_ns: int, wall_s: float) -> None: ...

    def output(self, data: bytes, is_error: bool) -> None:
        for line in data.decode().splitlines():
            if line in ("begin", "end"):
                self.times[line], self.moments[line] = cpu_s(), time.monotonic()


@dataclass(frozen=True)
class Taken:
    """The time that a run has taken while its flows ran, and its windows."""

    wall_s: float
    cpu_s: list[tuple[float, float]]
    """The CPU time of each part: that of its kernel, and that of the processes in it."""
    windows_us: list[list[float]]
    """The work of each part's kernel in each window, in us of CPU time."""

    @property
    def busiest_s(self) -> float:
        return max(map(sum, self.cpu_s))


def measure(ready: Any, parameters: dict[str, Any], parts: int) -> Taken:
    marks = Marks()
    with tempfile.TemporaryDirectory() as out:
        result = lab.run(
            definition.load_file(JOBS, "racks"), parameters=parameters, on=ready, out=out, partitions=parts,
            watcher=marks,
        )  # fmt: skip
        if result.status is not Status.OK:
            raise SystemExit(f"{parameters}: {result.status}: {result.reason}")
        assert result.folder is not None
        windows = json.loads((result.folder / "windows.json").read_text())
    begin, end = marks.times["begin"], marks.times["end"]
    return Taken(
        marks.moments["end"] - marks.moments["begin"],
        [(end[part][0] - begin[part][0], end[part][1] - begin[part][1]) for part in sorted(end)],
        [[ns / 1000 for ns in of_part] for of_part in windows],
    )


def main(words: Sequence[str]) -> int:
    ready = table.prepare("um", print)
    if words and words[0] == "growth":
        for hosts in [int(word) for word in words[1:]] or GROWTH:
            grow(ready, hosts)
        return 0
    for name, parameters in ROWS.items():
        if words and not any(word in name for word in words):
            continue
        parts = parameters.get("racks", 2)
        runs = [(measure(ready, parameters, 1), measure(ready, parameters, parts)) for _ in range(TURNS)]
        whole, divided = zip(*runs, strict=True)
        one_s, busiest_s = min(one.busiest_s for one in whole), min(one.busiest_s for one in divided)
        print(
            f"{name}: one kernel {one_s:.2f} s, busiest of {parts} parts {busiest_s:.2f} s, "
            f"ratio {busiest_s / one_s:.2f}"
        )
        if len(os.sched_getaffinity(0)) >= parts:
            one_s, divided_s = min(one.wall_s for one in whole), min(one.wall_s for one in divided)
            print(f"    wall: {one_s:.2f} s, {divided_s:.2f} s, ratio {divided_s / one_s:.2f}")
        windows = [f"{len(of_part)} of {statistics.mean(of_part):.0f} us" for of_part in divided[-1].windows_us]
        print(
            f"    all runs: {_all(one.busiest_s for one in whole)}; {_all(one.busiest_s for one in divided)}; "
            f"windows of each part: {', '.join(windows)}", flush=True,
        )  # fmt: skip
    return 0


def grow(ready: Any, hosts: int) -> None:
    """Measure a network of so many hosts in one kernel and in parts, and show what the model makes of it."""
    parts = min(hosts // 16, MOST_PARTS)
    parameters = {"racks": parts, "hosts": hosts // parts, "us": 300}
    whole, divided = measure(ready, parameters, 1), measure(ready, parameters, parts)
    worked = sorted(us for of_part in divided.windows_us for us in of_part)
    usual = worked[: -len(worked) // 200]
    kernels_us, processes_us = (sum(one) * 1e6 for one in zip(*divided.cpu_s, strict=True))
    together_us = processes_us + sum(worked[len(usual) :])
    many = len(worked) / parts
    wait_us = (kernels_us - sum(worked)) / len(worked)
    print(
        f"{hosts} hosts, measured: one kernel {whole.busiest_s:.2f} s; {parts} parts "
        f"{(kernels_us + processes_us) / 1e6:.2f} s, busiest {divided.busiest_s:.2f} s; {many:.0f} windows of a part, "
        f"of {statistics.mean(usual):.0f} us and {wait_us:.0f} us of waiting, and {together_us / parts / 1e6:.2f} s of "
        "processes and long windows"
    )
    dice = random.Random(1)
    gains = []
    for cores in (2, 4, 16):
        if cores > parts:
            continue
        rounds = [
            max(sum(dice.choices(usual, k=parts // cores)) for _ in range(cores)) + wait_us * parts / cores
            for _ in range(20_000)
        ]
        takes_us = many * statistics.mean(rounds) + together_us / cores
        gains.append(f"{cores} cores {whole.busiest_s * 1e6 / takes_us:.1f}")
    print(f"    model, times one kernel's speed: {', '.join(gains)}", flush=True)


def _all(times: Iterable[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
