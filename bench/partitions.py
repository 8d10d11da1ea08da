"""Measure what one gains by a network over several kernels: the CPU time of the busiest part against one kernel's.

    ./xoff test --unit && python bench/partitions.py [ROW ...]

Each row is a network of racks, in one kernel and in a part for each rack, in turns; of each the least counts. What is
measured begins when the flows do and ends when they end, so boots and set-ups are not in it. The time of a part is that
of its kernel and of the processes in it, and the busiest one is what a machine with a core for each part would wait
for, if parts never waited for each other. Fewer free cores than parts make waits of sleeps, which cost CPU time too.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.results.result import Status

JOBS = Path(__file__).parent / "jobs" / "partitions.py"
TURNS = 3
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


def cpu_s() -> dict[int, float]:
    """Return the CPU time in s of each part so far."""
    times = {}
    for part, processes in kernels().items():
        times[part] = 0.0
        for pid in processes:
            with suppress(OSError, IndexError):
                times[part] += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return times


class Marks:
    """A watcher that reads the CPU time where the job says that its flows begin and end."""

    def __init__(self) -> None:
        self.times: dict[str, dict[int, float]] = {}
        self.windows = ""

    def report(self, text: str) -> None: ...
    def progress(self, virtual_ns: int, wall_s: float) -> None: ...

    def output(self, data: bytes, is_error: bool) -> None:
        for line in data.decode().splitlines():
            if line in ("begin", "end"):
                self.times[line] = cpu_s()
            elif line.startswith("windows "):
                self.windows = line


def measure(ready: Any, parameters: dict[str, Any], parts: int) -> tuple[float, str]:
    """Return the CPU time in s of the busiest part while the flows run, and the first part's windows."""
    marks = Marks()
    with tempfile.TemporaryDirectory() as out:
        result = lab.run(
            definition.load_file(JOBS, "racks"), parameters=parameters, on=ready, out=out, partitions=parts,
            watcher=marks,
        )  # fmt: skip
    if result.status is not Status.OK:
        raise SystemExit(f"{parameters}: {result.status}: {result.reason}")
    begin, end = marks.times["begin"], marks.times["end"]
    return max(end[part] - begin[part] for part in end), marks.windows


def main(words: Sequence[str]) -> int:
    ready = table.prepare("um", print)
    for name, parameters in ROWS.items():
        if words and not any(word in name for word in words):
            continue
        parts = parameters.get("racks", 2)
        whole, divided = [], []
        for _ in range(TURNS):
            whole.append(measure(ready, parameters, 1)[0])
            busiest, windows = measure(ready, parameters, parts)
            divided.append(busiest)
        print(
            f"{name}: one kernel {min(whole):.2f} s, busiest of {parts} parts {min(divided):.2f} s, "
            f"ratio {min(divided) / min(whole):.2f} (all runs: {_all(whole)}; {_all(divided)}; {windows})", flush=True,
        )  # fmt: skip
    return 0


def _all(times: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
