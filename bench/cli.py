"""Measure the cost of a call of the command line before it does anything, in starts of a bare Python.

    python bench/cli.py [CALLS]

A start of Python takes some 10 ms, so 30 of them are 0.3 s. Both are measured in turns, and the least of each counts: a
machine with other work has no better figure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

XOFF = Path(__file__).parents[1] / "xoff"
CASES = {
    "xoff --help": ("--help",),
    "xoff list": ("list",),
    "xoff run --help": ("run", "--help"),
    "xoff switch headroom": ("headroom", "--rate", "100Gb/s", "--length", "50km"),
}


# Compiled code is kept, as for any user.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def seconds(*command: str) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return time.perf_counter() - begin


def main(calls: int) -> None:
    bare = (sys.executable, "-I", "-S", "-c", "pass")
    for words in CASES.values():
        seconds(str(XOFF), *words)  # compiles what it imports
    for name, words in CASES.items():
        pairs = [(seconds(*bare), seconds(str(XOFF), *words)) for _ in range(calls)]
        start, call = (min(column) for column in zip(*pairs, strict=True))
        print(f"{name:<18}{call:7.3f} s  {call / start:6.1f} starts of Python ({start:.3f} s)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
