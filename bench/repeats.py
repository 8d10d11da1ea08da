"""Compare the digests of many runs of one experiment, on an idle and on a busy machine.

    ./xoff test --unit && python bench/repeats.py --count 100 hello
    python bench/repeats.py --count 10 --programs

Half of the runs have nothing beside them. The others go two at a time, beside more processes that never wait than there
are cores. With `--file` each digest is appended to a file when its run has ended, and a script that was interrupted
goes on where it was. With `--programs` it is each job with programs of others that docs show. Exit code 1 if one
differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.experiment.definition import Experiment
from testbed.lab.engines import table
from testbed.lab.engines.engine import PreparedEngine
from tests import pages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", default="hello", help="as for `xoff run` (default hello)")
    parser.add_argument("--count", type=int, default=20, help="how many runs (default 20)")
    parser.add_argument("--engine", choices=("um", "vm"), default="um", help="um (default) or vm")
    parser.add_argument("--file", type=Path, help="keep the digests here, a line for each run, and go on from it")
    parser.add_argument("--programs", action="store_true", help="the jobs with programs of others in docs, one by one")
    options = parser.parse_args()
    ready = table.prepare(options.engine, print)
    if not options.programs:
        return 0 if repeats(definition.find(options.experiment), ready, options.count, options.file) else 1
    shown = {str(block): block.text for block in pages.blocks()}
    good = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (job, block) in enumerate(pages.JOBS.items()):
            print(job)
            file = Path(folder) / f"job{number}.py"
            file.write_text(shown[block])
            kept = options.file and options.file.with_name(f"{options.file.name}.{number}")
            good.append(repeats(definition.find(str(file)), ready, options.count, kept))
    print(f"{sum(good)} of {len(good)} jobs repeat to the byte")
    return 0 if all(good) else 1


def repeats(experiment: Experiment, ready: PreparedEngine, count: int, file: Path | None) -> bool:
    """Make the runs of one experiment, and return True if their digests are equal."""
    done = Done(count, file)

    with tempfile.TemporaryDirectory() as out:

        def one(load: str) -> None:
            done.add(load, lab.run(experiment, on=ready, out=out).check().digest)

        begun = time.monotonic()
        for _ in range(count - count // 2 - done.number("idle")):
            one("idle")
        idle = time.monotonic()
        with busy(), ThreadPoolExecutor(2) as pool:
            list(pool.map(one, ["busy"] * (count // 2 - done.number("busy"))))
    print(f"{count} runs of {experiment.name}, {idle - begun:.0f} s idle, {time.monotonic() - idle:.0f} s busy")
    digests = Counter(digest for _, digest in done.runs)
    for digest, number in digests.most_common():
        print(f"{number:>5}  {digest}")
    [(digest, same)] = digests.most_common(1)
    print(f"{'✓' if same == count else '✗'} {same} of {count} are {digest[:16]}")
    return same == count


class Done:
    """The load and the digest of each run so far, those of a file first."""

    def __init__(self, wanted: int, file: Path | None) -> None:
        self._wanted, self._file, self._lock = wanted, file, threading.Lock()
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.runs = [(load, digest) for load, digest in map(str.split, lines)]

    def number(self, load: str) -> int:
        return sum(of == load for of, _ in self.runs)

    def add(self, load: str, digest: str) -> None:
        with self._lock:
            self.runs.append((load, digest))
            if self._file is not None:
                with self._file.open("a") as file:
                    file.write(f"{load} {digest}\n")
            different = len({digest for _, digest in self.runs})
            print(
                f"\r{len(self.runs)} of {self._wanted}, {different} digest(s)",
                end="\n" * (len(self.runs) % 10 == 0),
                flush=True,
            )


@contextmanager
def busy() -> Iterator[None]:
    """More processes that never wait than there are cores."""
    command = [sys.executable, "-c", "while True: pass"]
    spinners = [subprocess.Popen(command) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


if __name__ == "__main__":
    sys.exit(main())
