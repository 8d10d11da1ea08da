"""Memory in reserve: what a process allocates after `heap.reserve` takes no system calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from testbed.linux.process import heap

def mapped():
    areas = (line.split()[0].split("-") for line in open("/proc/self/maps"))
    return sum(int(end, 16) - int(begin, 16) for begin, end in areas)

if sys.argv[1] == "reserve":
    heap.reserve()
before = mapped()
small = [object() for _ in range(100_000)]
large = [bytearray(200_000) for _ in range(40)]
print(before == mapped())
"""


@pytest.mark.parametrize(("argument", "expected"), [("reserve", "True"), ("nothing", "False")])
def test_allocations_take_no_memory_from_the_kernel_once_some_is_in_reserve(argument: str, expected: str) -> None:
    command = [sys.executable, "-c", PROGRAM, argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
