"""Whether runs of one experiment are one result: many runs, with the machine idle and busy, and all their digests.

    ./xoff test --unit && python bench/repeats.py --count 100 hello

Half of the runs have nothing beside them. The others go two at a time, beside more processes that never wait than there
are cores. `--digest` is that of earlier runs, so that a hundred can be done in parts. Exit code 1 if one differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.lab import definition, engine
from testbed.lab.engine import Kind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", default="hello", help="as for `xoff run` (default hello)")
    parser.add_argument("--count", type=int, default=20, help="how many runs (default 20)")
    parser.add_argument("--engine", type=Kind, default=Kind.UM, help="um (default) or vm")
    parser.add_argument("--digest", help="that of earlier runs")
    options = parser.parse_args()
    ready = engine.prepare(options.engine, print)
    experiment = definition.find(options.experiment)

    with tempfile.TemporaryDirectory() as out:

        def one(_: int) -> str:
            return lab.run(experiment, on=ready, out=out).check().digest

        begun = time.monotonic()
        digests = Counter(map(one, range(options.count - options.count // 2)))
        quiet = time.monotonic()
        with busy(), ThreadPoolExecutor(2) as pool:
            digests.update(pool.map(one, range(options.count // 2)))
    print(
        f"{options.count} runs of {experiment.name}, {quiet - begun:.0f} s idle, {time.monotonic() - quiet:.0f} s busy"
    )
    for digest, number in digests.most_common():
        print(f"{number:>5}  {digest}")
    wanted = options.digest or digests.most_common(1)[0][0]
    same = digests[wanted]
    print(f"{'✓' if same == options.count else '✗'} {same} of {options.count} are {wanted[:16]}")
    return 0 if same == options.count else 1


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
