"""The rewritten C library: frequent system calls are jumps, and all else is as before."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from testbed.lab.image.recipe import ImageError
from testbed.lab.um import system_calls
from testbed.lab.um.system_calls import ENTRY, rewrite

NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
CODE, PAGE = 0x1000, 0x1000
SENDTO, FORK = 44, 57
SITES = 50
READ = bytes.fromhex("803d 00200000 00 7417 31c0 0f05 c3")
FLAG, SEVERAL_THREADS = 7 + 0x2000, 9 + 0x17
"""The distances from the begin of read() of the flag that it compares and of the place where it jumps to."""


def call(number: int) -> bytes:
    return b"\xb8" + struct.pack("<I", number) + b"\x0f\x05\xc3"


def library(code: bytes) -> bytes:
    """An ELF file with one segment of code."""
    header = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<QQIHHHHHH", 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, CODE, CODE, CODE, len(code), len(code), PAGE)
    return (header + segment).ljust(CODE, b"\0") + code.ljust(2 * PAGE, b"\0") + b"data"


def jump(content: bytes, place: int) -> int:
    """Return the target of the jump at `place`."""
    assert content[place] == 0xE9
    return place + 5 + int.from_bytes(content[place + 1 : place + 5], "little", signed=True)


def end_of_thunk(content: bytes, place: int, back: int) -> None:
    """The last part of a thunk: the address to return to in rcx, and on to the kernel's code."""
    assert content[place : place + 3] == b"\x48\x8d\x0d"
    assert place + 7 + int.from_bytes(content[place + 3 : place + 7], "little", signed=True) == back
    common = jump(content, place + 7)
    assert content[common : common + 13] == b"\x49\xbb" + struct.pack("<Q", ENTRY) + b"\x41\xff\xe3"


def test_a_frequent_call_jumps_to_a_thunk_that_returns_behind_it() -> None:
    before = library(call(SENDTO) * SITES)
    after = rewrite(before)
    assert len(after) == len(before)
    for index in range(SITES):
        site = CODE + 8 * index
        assert after[site + 5 : site + 8] == before[site + 5 : site + 8]  # the instruction itself stays
        thunk = jump(after, site)
        assert after[thunk : thunk + 5] == before[site : site + 5]
        end_of_thunk(after, thunk + 5, site + 7)


def test_read_compares_its_flag_in_the_thunk() -> None:
    before = library(call(SENDTO) * SITES + READ)
    after = rewrite(before)
    site = CODE + 8 * SITES
    thunk = jump(after, site)
    assert after[site + 5 : site + 7] == b"\x90\x90"
    assert after[site + 7 : site + len(READ)] == READ[7:]
    assert after[thunk : thunk + 2] == b"\x80\x3d"
    assert thunk + 7 + int.from_bytes(after[thunk + 2 : thunk + 6], "little", signed=True) == site + FLAG
    assert after[thunk + 6 : thunk + 9] == b"\x00\x0f\x84"
    assert thunk + 13 + int.from_bytes(after[thunk + 9 : thunk + 13], "little", signed=True) == site + SEVERAL_THREADS
    assert after[thunk + 13 : thunk + 15] == b"\x31\xc0"
    end_of_thunk(after, thunk + 15, site + 13)


def test_calls_that_make_processes_and_octets_elsewhere_stay() -> None:
    code = call(SENDTO) * SITES + call(FORK)
    before = library(code) + call(SENDTO)
    after = rewrite(before)
    fork = CODE + 8 * SITES
    assert after[fork : fork + 8] == before[fork : fork + 8]
    assert after[:CODE] == before[:CODE]
    assert after[CODE + 2 * PAGE :] == before[CODE + 2 * PAGE :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a 64-bit ELF library"),
        (b"\x7fELF\x02\x01".ljust(64, b"\0"), "not a 64-bit ELF library"),
        (library(call(SENDTO)), "1 system calls were found"),
        (library(call(SENDTO) * 400), "400 system calls were found"),
        (library(call(SENDTO) * SITES)[: CODE + 8 * SITES] + b"x" * PAGE, "no unused room"),
    ],
)
def test_another_library_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        rewrite(content)


@pytest.mark.skipif(not NUMBERS.exists(), reason="linux-libc-dev is missing")
def test_each_number_is_of_its_call() -> None:
    lines = [line.split() for line in NUMBERS.read_text().splitlines() if line.startswith("#define __NR_")]
    numbers = {line[1]: line[2] for line in lines}
    assert {f"__NR_{name}": str(number) for name, number in system_calls._CALLS.items()}.items() <= numbers.items()
