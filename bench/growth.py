"""Measure how the wall time of a run grows with the nodes of its network, start and end included.

    ./xoff test --unit && python bench/growth.py
    python bench/growth.py nodes [HOSTS ...]

The second form shows what a node takes of CPU time and memory in networks of 64 to 512 hosts: for its set-up, for 10 s
of the lab in which nothing happens, and for its end. The memory is the most that the lab's kernel had, beyond that of a
lab without a network. It has no bound: CPU time is that of this machine, and the boot's is shown beside it.

Each doubling of the nodes may take twice as long and 10 % more. What a run takes until the experiment begins, the boot,
is not counted: it would hide growth. All sizes run in turns, and of each the quickest counts.

The largest network takes 2 GB. A virtual machine may have to get so much from its host first, and gives it back when it
is free: that is no growth of the lab's. So the memory is touched before each run; what that takes is shown.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.cpu import Meter, most_mb
from bench.dataplane import figures
from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.results.result import Status
from testbed.lab.runs.outlook import Forecaster

JOBS = Path(__file__).parent / "jobs" / "growth.py"
GROUPS = (2, 5, 10, 20, 40)
"""The numbers of groups, of five nodes each, that are measured."""
TURNS = 2
MOST = 1.1
MEMORY_MB = (500, 2000)


HOSTS = (64, 128, 256, 512)
_PARTS = ("booted", "set-up", "idle", "end")


class _Marks:
    """A watcher that reads the meter at each line of the job."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.read_s: dict[str, float] = {}
        self.boot_s = 0.0

    def report(self, text: str) -> None: ...

    def output(self, data: bytes, is_error: bool) -> None:
        for line in data.decode().split():
            self.read_s[line] = self._meter.read_s()

    def progress(self, virtual_ns: int, wall_s: float) -> None: ...

    def booted(self, cpu_s: float | None) -> None:
        self.boot_s = cpu_s or 0.0


def show_nodes(sizes: Sequence[int]) -> int:
    """Show what a node takes in networks of so many hosts, the smallest first."""
    ready = table.prepare("um", print)
    with tempfile.TemporaryDirectory() as out:
        lab.run(definition.load_file(JOBS, "nothing"), on=ready, out=out)
    empty_mb = most_mb()
    print(f"a lab without a network: {empty_mb} MB")
    for hosts in sorted(sizes):
        with closing(Meter()) as meter, tempfile.TemporaryDirectory() as out:
            marks = _Marks(meter)
            with mock.patch.object(Forecaster, "booted", marks.booted):
                result = lab.run(
                    definition.load_file(JOBS, "idle"),
                    parameters={"hosts": str(hosts)},
                    on=ready,
                    out=out,
                    watcher=marks,
                )
            end_s = meter.read_s()
        if result.status is not Status.OK:
            sys.exit(f"{hosts} hosts: {result.reason}")
        many = int(figures(result)["nodes"])
        spent = {part: marks.read_s[part] - marks.read_s[before] for before, part in pairwise(_PARTS)}
        each = ", ".join(f"{part} {took_s / many * 1000:.1f}" for part, took_s in spent.items())
        memory_mb = (most_mb() - empty_mb) / many
        print(f"{hosts:4} hosts, {many:4} nodes: {end_s:6.2f} s of CPU, boot {marks.boot_s:.2f} s; ms a node: {each}; "
              f"{memory_mb:.1f} MB a node; fidelity {result.fidelity.explained}", flush=True)  # fmt: skip
    return 0


def main() -> int:
    if sys.argv[1:2] == ["nodes"]:
        return show_nodes([int(hosts) for hosts in sys.argv[2:]] or HOSTS)
    ready = table.prepare("um", print)
    walls: dict[int, float] = {}
    for _ in range(TURNS):
        for groups in GROUPS:
            _touched(MEMORY_MB[-1])
            with tempfile.TemporaryDirectory() as out:
                job = definition.load_file(JOBS, "groups")
                result = lab.run(job, parameters={"groups": str(groups)}, on=ready, out=out)
            if result.status is not Status.OK:
                sys.exit(f"{groups} groups: {result.reason}")
            found = figures(result)
            nodes = int(found["nodes"])
            assert not found["lost"]
            booted_s = result.times.first_line_s
            assert booted_s is not None
            walls[nodes] = min(walls.get(nodes, float("inf")), result.times.wall_s - booted_s)
    reached, before = True, None
    for nodes, wall_s in walls.items():
        line = f"{nodes:4} nodes: {wall_s:6.2f} s, {wall_s / nodes * 1000:5.1f} ms a node"
        if before:
            growth = (wall_s / before[1]) ** (1 / (math.log2(nodes / before[0]))) / 2
            reached = reached and growth <= MOST
            line += f"; for each doubling {growth:.2f} of twice as long"
        print(line)
        before = nodes, wall_s
    print("this machine's memory, touched for the first time: "
          + ", ".join(f"{size_mb} MB in {_touched(size_mb):.2f} s" for size_mb in MEMORY_MB))  # fmt: skip
    print(f"at most {MOST} for each doubling: {'✓' if reached else '✗'}")
    return 0 if reached else 1


def _touched(size_mb: int) -> float:
    """Return the seconds for the first write to each page of a memfd of this size, as the lab's memory is one."""
    descriptor = os.memfd_create("growth")
    try:
        os.ftruncate(descriptor, size_mb << 20)
        with mmap.mmap(descriptor, size_mb << 20) as memory:
            begun = time.monotonic()
            for at in range(0, size_mb << 20, mmap.PAGESIZE):
                memory[at] = 1
            return time.monotonic() - begun
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
