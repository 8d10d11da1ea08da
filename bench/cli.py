"""Measure the cost of a call of the command line before it does anything, in starts of a bare Python.

    python bench/cli.py [--lab] [CALLS] [CHECKOUT]

A start of Python takes some 10 ms, so 30 of them are 0.3 s. CPU seconds are measured, in turns with those of another
checkout, such as the version before, and the least of each counts: a machine with other work has no better figure.
With --lab runs on `um` are measured in place of calls that do nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

HERE = Path(__file__).parents[1]
COMPLETION = {
    "_ARGCOMPLETE": "1",
    "COMP_LINE": "xoff run he",
    "COMP_POINT": "11",
    "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull,
}
"""The environment that a shell sets at the key Tab."""
CASES = {
    "xoff --help": ("--help",),
    "xoff list": ("list",),
    "xoff run --help": ("run", "--help"),
    "xoff switch headroom": ("switch", "headroom", "--rate", "100Gb/s", "--length", "50km"),
    "xoff run he<Tab>": (),
}
CASES_IN_LAB = {
    "xoff run hello": ("run", "hello", "--engine", "um"),
    "xoff run incast": ("run", "incast", "--engine", "um"),
    "xoff demo": ("demo", "--engine", "um"),
}

# Compiled code is kept, as for any user.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(*command: str, completes: bool = False) -> float:
    """Return the CPU seconds of a command and of what it started."""
    before = getrusage(RUSAGE_CHILDREN)
    environment = ENVIRONMENT | (COMPLETION if completes else {})
    # Python looks for a module in the folder that it is started in first, which may be another checkout.
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=not completes,
        cwd=Path(command[0]).parent,
    )  # fmt: skip
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(cases: Mapping[str, tuple[str, ...]], calls: int, checkouts: list[Path]) -> None:
    bare = (sys.executable, "-I", "-S", "-c", "pass")
    commands = [str(checkout / "xoff") for checkout in checkouts]
    for name, words in cases.items():
        for command in commands:
            seconds(command, *words, completes=not words)  # compiles what it imports
        turns = [
            (seconds(*bare), *(seconds(command, *words, completes=not words) for command in commands))
            for _ in range(calls)
        ]
        start, *found = (min(column) for column in zip(*turns, strict=True))
        shown = "".join(f"{call:8.3f} s{call / start:6.1f} starts" for call in found)
        print(f"{name:<22}{shown}  ({start:.3f} s)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure calls of xoff, beside those of another checkout.")
    parser.add_argument("calls", type=int, nargs="?", metavar="CALLS", help="calls of each kind (20; 3 with --lab)")
    parser.add_argument("checkout", type=Path, nargs="*", metavar="CHECKOUT")
    parser.add_argument("--lab", action="store_true", help="measure runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as results:
        cases = {name: (*words, "--out", results) for name, words in CASES_IN_LAB.items()} if options.lab else CASES
        main(cases, options.calls or (3 if options.lab else 20), [*options.checkout, HERE])
