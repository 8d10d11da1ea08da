"""Memory in reserve: what a process allocates after `heap.reserve` takes no system calls."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_ADDR_NO_RANDOMIZE = 0x0040000
PROGRAM = """
import ctypes, resource, sys
from testbed.linux.process import heap

def end_of_data():
    return ctypes.CDLL(None).sbrk(0)

def mappings():
    return sum(1 for line in open("/proc/self/maps"))

if sys.argv[1] == "reserve":
    heap.reserve()
before = end_of_data(), mappings()
small = [object() for _ in range(100_000)]
large = [bytearray(200_000) for _ in range(40)]
print(before == (end_of_data(), mappings()))
"""


def _without_random_addresses() -> None:
    ctypes.CDLL(None).personality(_ADDR_NO_RANDOMIZE)


@pytest.mark.parametrize(("argument", "expected"), [("reserve", "True"), ("nothing", "False")])
def test_allocations_take_no_memory_from_the_kernel_once_some_is_in_reserve(argument: str, expected: str) -> None:
    """As in the lab, addresses and hashes are the same each time: what is free between mappings follows from them."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, argument], cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONHASHSEED": "0"}, preexec_fn=_without_random_addresses,
    )  # fmt: skip
    assert done.stdout.strip() == expected
