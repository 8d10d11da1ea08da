"""Measure the cost of a call of the command line before it does anything, in starts of a bare Python.

    python bench/cli.py [CALLS] [CHECKOUT]

A start of Python takes some 10 ms, so 30 of them are 0.3 s. CPU seconds are measured, in turns with those of another
checkout, such as the version before, and the least of each counts: a machine with other work has no better figure.
"""

from __future__ import annotations

import os
import subprocess
import sys
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


# Compiled code is kept, as for any user.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(*command: str, completes: bool = False) -> float:
    """Return the CPU seconds of a command and of what it started."""
    before = getrusage(RUSAGE_CHILDREN)
    environment = ENVIRONMENT | (COMPLETION if completes else {})
    # Python looks for a module in the folder that it is started in first, which may be another checkout.
    subprocess.run(
        command, stdout=subprocess.DEVNULL, env=environment, check=not completes, cwd=Path(command[0]).parent
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(calls: int, checkouts: list[Path]) -> None:
    bare = (sys.executable, "-I", "-S", "-c", "pass")
    commands = [str(checkout / "xoff") for checkout in checkouts]
    for name, words in CASES.items():
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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, [*map(Path, sys.argv[2:3]), HERE])
