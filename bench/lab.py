"""Measure the cost of the lab: sizes, times, and the ratios that make the case for its design.

    ./xoff test --unit && python bench/lab.py [--cold] [--runs N]

Wall times depend on the machine; the ratios are taken in one go, one after the other, and depend on it
far less. `--cold` also builds image and snapshot in an empty cache, and shows how long that takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.engines.vm import PreparedMachine
from testbed.lab.host import cores
from testbed.lab.image import image
from testbed.lab.results.result import Result
from testbed.lab.vm import qemu

JOBS = Path(__file__).parents[1] / "tests" / "lab" / "jobs" / "behave.py"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the lab costs.")
    parser.add_argument("--cold", action="store_true", help="build image and snapshot anew, in another cache")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each kind; medians are shown")
    options = parser.parse_args()
    rows: list[tuple[str, str, str, bool | None]] = []

    def row(name: str, value: float, unit: str, limit: float | None = None) -> None:
        wanted = "" if limit is None else f"at most {limit:g} {unit}"
        rows.append((name, f"{value:.2f} {unit}".strip(), wanted, None if limit is None else value <= limit))

    if options.cold:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XOFF_CACHE"] = folder
            begin = time.monotonic()
            image.ensure(print)
            built = time.monotonic()
            table.prepare("vm", print)
            row("cold: building the image, with downloads", built - begin, "s")
            row("cold: image and snapshots, with downloads", time.monotonic() - begin, "s", 360)
            for path in Path(folder).glob("snapshot-*-*"):
                shutil.rmtree(path)
            begin = time.monotonic()
            table.prepare("vm", print)
            row("after a change of Xoff's code: its snapshot", time.monotonic() - begin, "s")
            del os.environ["XOFF_CACHE"]
    ready = table.prepare("vm", print)
    assert isinstance(ready, PreparedMachine)
    row("image", sum(ready.snapshot.image.sizes.values()) / 1e6, "MB", 200)
    row("snapshot", ready.snapshot.size / 1e6, "MB", 1000)
    row("guest memory", qemu.MEMORY_MB / 1024, "GiB", 2)

    says = definition.load_file(JOBS, "says")
    waits = definition.load_file(JOBS, "waits")
    hello = definition.find("hello")
    row("snapshot to the job's first line", middle(options.runs, lambda: run(ready, says), first_line), "s", 2)
    row("four-host demo", pinned := middle(options.runs, lambda: run(ready, hello), wall), "s", 15)
    row("wall time of 100 s of idle virtual time", middle(1, lambda: run(ready, waits, how_long="100s"), wall), "s")
    unpinned = middle(options.runs, lambda: run(ready, hello, pin=False), wall)
    row("demo with QEMU on all cores : pinned to one", unpinned / pinned, "")
    row("its virtual time : wall time", 1 / middle(1, lambda: run(ready, hello), lambda r: 1 / r.times.ratio), "")

    width = max(len(name) for name, *_ in rows)
    for name, value, wanted, ok in rows:
        mark = {None: " ", True: "✓", False: "✗"}[ok]
        print(f"{mark} {name:<{width}}  {value:>12}  {wanted}")
    return 0 if all(ok is not False for *_, ok in rows) else 1


def run(ready: PreparedEngine, experiment: lab.Experiment, pin: bool = True, **parameters: str) -> Result:
    everywhere = cores.taken
    if not pin:
        cores.taken = every_core  # type: ignore[assignment]
    try:
        with tempfile.TemporaryDirectory() as out:
            return lab.run(experiment, parameters=parameters, on=ready, out=out).check()
    finally:
        cores.taken = everywhere


class every_core:
    """Stands in for `cores.taken`: no core in particular."""

    def __init__(self, most: int) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def middle(count: int, work: Callable[[], Result], figure: Callable[[Result], float]) -> float:
    return median(figure(work()) for _ in range(count))


def wall(result: Result) -> float:
    return result.times.wall_s


def first_line(result: Result) -> float:
    assert result.times.first_line_s is not None
    return result.times.first_line_s


if __name__ == "__main__":
    sys.exit(main())
