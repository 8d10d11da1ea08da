"""Measure what a hop of a packet costs, and how long fabrics of RoCE hosts take, beside another version of Xoff.

    python bench/fabrics.py [--before CHECKOUT] [--turns 3] [--only TEXT]

A hop is a packet in the queue of one port: an incast has two of them, a way through a spine four. The cost is the
difference of the CPU seconds of a long run and a short one, with all processes of the lab and on one core, by that of
their hops; so the start is not in it. Wall seconds are those of the whole command, with all cores. All rows run in
turns and of each the quickest counts, so other work on the machine shows as little as it can. ns-3's fork for RDMA took
1.3 to 1.4 us a hop for an incast 2:1 with DCQCN on the machine on which it was compared.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.cpu import Meter  # noqa: E402

JOBS = ROOT / "bench" / "jobs" / "fabrics.py"


@dataclass(frozen=True)
class Row:
    """A load in two lengths, in microseconds of hardware, and what is wanted of it."""

    name: str
    job: str
    settings: dict[str, object]
    short_us: int
    long_us: int
    most_us: float | None = None
    """CPU microseconds for a hop."""
    most_s: float | None = None
    """Wall seconds of the long run."""
    memory_mb: int | None = None
    can_before: bool = True
    """True if a version before can do it in reasonable time."""


ROWS = (
    Row("UDP 2:1, PFC, 100 Mb/s", "incast", {"rate": "100Gb/s"}, 1000, 20_000, most_us=4),
    Row("UDP 2:1, each at 40 % of 100 Mb/s", "at_a_rate", {}, 1000, 20_000, most_us=4),
    Row("RoCE 2:1, DCQCN", "incast", {"transport": "roce", "control": "dcqcn"}, 10_000, 200_000, most_us=5),
    Row("RoCE all-to-all, 8 hosts", "all_to_all", {}, 500, 20_000, most_us=6),
    Row("RoCE all-to-all, 16 hosts, 10 ms", "all_to_all", {"leaves": 4, "spines": 4}, 500, 10_000, most_s=6),
    Row("RoCE all-to-all, 64 hosts, 1 ms", "all_to_all", {"leaves": 8, "spines": 8, "hosts": 8}, 200, 1000,
        most_us=8, most_s=30, can_before=False),
    Row("RoCE, 128 hosts, a flow each, 1 ms", "each_one_flow", {}, 100, 1000, most_s=15, can_before=False),
    Row("RoCE, 512 hosts, a flow each, 0.1 ms", "each_one_flow", {"leaves": 16, "spines": 4, "hosts": 32}, 50, 100,
        memory_mb=9000, can_before=False),
)  # fmt: skip


@dataclass(frozen=True)
class Taken:
    """One run."""

    cpu_s: float
    wall_s: float
    hops: float
    fidelity: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="", help="the rows whose names have this text")
    given = parser.parse_args()
    rows = [row for row in ROWS if given.only in row.name]
    checkouts = {"now": ROOT} | ({"before": given.before} if given.before else {})
    best: dict[tuple[str, str, bool], Taken] = {}
    for _ in range(given.turns):
        for row in rows:
            for version, checkout in checkouts.items():
                if version == "before" and not row.can_before:
                    continue
                for is_long in (False, True):
                    taken = run(checkout, row, row.long_us if is_long else row.short_us)
                    if taken is None:
                        continue
                    known = best.get((row.name, version, is_long))
                    if known is None or taken.cpu_s < known.cpu_s:
                        best[row.name, version, is_long] = taken
    reached = True
    width = max(len(row.name) for row in rows)
    for row in rows:
        for version in checkouts:
            if any((row.name, version, is_long) not in best for is_long in (False, True)):
                reached = reached and version != "now"
                continue
            short, long = (best[row.name, version, is_long] for is_long in (False, True))
            # Where each flow sends its first messages and no more, both are the same load: the start counts as well
            hops = long.hops - short.hops
            cost_us = ((long.cpu_s - short.cpu_s) / hops if hops else long.cpu_s / long.hops) * 1e6
            line = f"{row.name:<{width}}  {version:<6}  {cost_us:6.1f} us a hop  {long.cpu_s:6.1f} CPU s  "
            line += f"{long.wall_s:6.1f} s  {long.hops:9.0f} hops  {long.fidelity}"
            if version == "now":
                for found, most, unit in ((cost_us, row.most_us, "us a hop"), (long.wall_s, row.most_s, "s")):
                    if most is not None:
                        reached = reached and found <= most
                        line += f"  {'✓' if found <= most else '✗'} at most {most:g} {unit}"
            print(line)
    return 0 if reached else 1


def run(checkout: Path, row: Row, us: int) -> Taken | None:
    memory = ["--memory", str(row.memory_mb)] if row.memory_mb else []
    settings = [f"--set={name}={value}" for name, value in (row.settings | {"us": us}).items()]
    with tempfile.TemporaryDirectory() as out:
        # Beside the checkout's own code, and not this one's
        job = shutil.copy(JOBS, out)
        meter, begun = Meter(), time.monotonic()
        done = subprocess.run(
            [checkout / "xoff", "run", f"{job}:{row.job}", *settings, *memory,
             "--out", f"{out}/results"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=checkout,
            # Where the cost of a hop counts: on two cores each side polls for its turn, which is CPU time as well
            env=os.environ | ({} if row.most_s else {"XOFF_LABS_SIDE_BY_SIDE": str(os.cpu_count())}),
        )  # fmt: skip
        wall_s, cpu_s = time.monotonic() - begun, meter.read_s()
        meter.close()
        if done.returncode:
            print(f"{row.name}: {done.stdout[-2000:]}", file=sys.stderr)
            return None
        (file,) = Path(out).glob("results/*/result.json")
        result = json.loads(file.read_text())
    hops = next(figure["value"] for figure in result["figures"] if figure["name"] == "hops")
    return Taken(cpu_s, wall_s, hops, result["fidelity"]["verdict"])


if __name__ == "__main__":
    sys.exit(main())
