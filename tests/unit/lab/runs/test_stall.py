"""A program that computes while the lab's clock stands still is named once, and only where nothing else is at work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from testbed.lab.runs.api import _STALLS_AFTER_S, Stall
from testbed.lab.um import spinning
from testbed.lab.um.spinning import Look

TOP = b"\0\0junk\0x86_64\0ib_write_lat\0-d\0rxe0\0PATH=/usr/bin\0XOFF_HOST=h1\0A=b=c\0/usr/bin/ib_write_lat\0" + bytes(
    8
)


class Session:
    """A job that says the same whenever it is asked."""

    def __init__(self, said: str | None) -> None:
        self.said, self.asked = said, 0

    def spins(self) -> str | None:
        self.asked += 1
        return self.said


def warnings(session: Any, *steps: tuple[int, float]) -> list[str]:
    stall = Stall()
    return [warning for virtual_ns, now_s in steps if (warning := stall.warning(session, virtual_ns, now_s))]


def test_a_program_that_has_the_cpu_for_ten_seconds_is_named_once_with_the_way_on() -> None:
    said = warnings(Session("`yes` of h1"), (5, 0), (5, 9), (5, 11), (5, 30), (7, 31), (7, 60))
    assert len(said) == 1
    assert said[0].startswith("the lab's clock has stood still for 11 s: the program `yes` of h1 computes without")
    assert "--engine vm" in said[0] and "Ctrl-C" in said[0]
    assert "s: a program computes" in warnings(Session(""), (5, 0), (5, 11))[0]


def test_nothing_is_asked_while_the_clock_goes_on_and_nothing_said_while_the_kernel_is_at_work() -> None:
    moving, busy = Session("yes"), Session(None)
    assert warnings(moving, *((second, second) for second in range(100))) == []
    assert moving.asked == 0
    assert warnings(busy, *((5, second) for second in range(0, 20))) == []
    assert busy.asked == 1 + (19 - int(_STALLS_AFTER_S)) // 2


def test_arguments_are_found_at_the_top_of_a_stack() -> None:
    page = TOP.rjust(4096, b"\xff")
    assert spinning._is_top_of_stack(page)
    assert spinning._shown(page) == "`ib_write_lat -d rxe0` of h1"
    assert spinning._shown(b"x86_64\0" + b"word\0" * 100 + TOP.partition(b"rxe0\0")[2]).endswith("word wo...` of h1")
    assert spinning._shown(b"A=1\0/usr/bin/one\0") == "`/usr/bin/one`"
    forged = spinning._shown(b"x86_64\0sh\0a\nxoff: all claims hold\x1b[2J\0XOFF_RDMA_HOST=h1\nxoff: ok\0x\0")
    assert forged.isprintable() and forged.startswith("`sh a\\nxoff: all claims hold\\x1b[2J`")
    for other in (bytes(4096), b"x" * 4096, page[:-1] + b"x", b"text".ljust(4096, b"\0")):
        assert not spinning._is_top_of_stack(other)


def test_a_kernel_that_waits_takes_hardly_any_cpu_time() -> None:
    assert Look(982_359_604, 7).goes_on(Look(982_233_186, 7))
    assert not Look(982_359_604, 7).goes_on(Look(982_233_186, 8))
    assert not Look(982_359_604, 7).goes_on(Look(360_258_284, 7))


def test_only_memory_of_the_lab_that_can_be_written_is_looked_at() -> None:
    maps = [
        "7f7fffffd000-7f7fffffe000 rwxs 09c1a000 00:01 416451                     /memfd:uml-memory (deleted)",
        "7f7ffffff000-7f8000000000 r-xs 011b5000 00:01 416450                     /memfd:uml-memory (deleted)",
        "7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]",
    ]
    assert spinning._writable(maps) == [("7f7fffffd000", "7f7fffffe000")]


def test_one_child_that_runs_while_its_parent_sleeps_is_seen() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as parent:
        try:
            found: Look | None = None
            for _ in range(100):
                if (found := spinning.look(parent.pid)) is not None:
                    break
                time.sleep(0.02)
            assert found is not None
            assert Path(f"/proc/{found.running}").exists()
            assert spinning.command(found.running) == ""  # it has no memory of a lab
        finally:
            os.killpg(parent.pid, 9)
    assert spinning.look(parent.pid) is None


@pytest.mark.parametrize("process", [0, 2**22 + 1])
def test_a_process_that_is_not_there_is_no_error(process: int) -> None:
    assert spinning.look(process) is None
    assert spinning.command(process) == ""
