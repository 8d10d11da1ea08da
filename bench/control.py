"""Measure what rate controls of one's own cost: 400 flows over a fat tree, with DCQCN in C and with classes as code.

    python bench/control.py [--flows 400] [--rounds 3] [CONTROL ...]

Each rate control has its turn in each round, and the least CPU time of the lab counts. Own DCQCN should take 1.1 times
that of DCQCN in C at the most, and the others 1.3 times; `aimd-python` is the same class as `aimd`, with a method that
has no code, so that the protocol of all hosts runs in Python.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines import table
from testbed.lab.results.result import Status

JOBS = Path(__file__).parent / "jobs" / "control.py"
FIRST = "dcqcn"
MOST = {"own-dcqcn": 1.1, "aimd": 1.3, "swift": 1.3, "hpcc": 1.3}
"""The most CPU time of each, in that of DCQCN in C."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("controls", nargs="*", metavar="CONTROL", help="of its jobs (default: all but aimd-python)")
    options = parser.parse_args()
    controls = [FIRST, *(options.controls or MOST)]
    ready = table.prepare("um", print)
    least: dict[str, float] = {}
    for _ in range(options.rounds):
        for control in controls:
            with tempfile.TemporaryDirectory() as out:
                parameters = {"control": control, "flows": str(options.flows)}
                result = lab.run(definition.load_file(JOBS, "load"), parameters=parameters, on=ready, out=out)
            if result.status is not Status.OK or result.times.cpu_s is None:
                sys.exit(f"{control}: {result.reason}")
            least[control] = min(least.get(control, float("inf")), result.times.cpu_s)
    holds = True
    for control, cpu_s in least.items():
        ratio, most = cpu_s / least[FIRST], MOST.get(control)
        is_good = most is None or ratio <= most
        holds = holds and is_good
        limit = f", at most {most}" if most else ""
        print(f"{'✓' if is_good else '✗'} {control}: {cpu_s:.2f} s of CPU, {ratio:.2f} times DCQCN in C{limit}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
