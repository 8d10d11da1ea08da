"""The stacks that a process writes as it ends, and the line in them that is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab.job import job_stack

LOOPS = """
import sys, threading, time
from testbed.lab.job import job_stack
job_stack.prepare()
def loop():
    print("begun", flush=True)
    while True: pass
def sleeps():
    time.sleep(3600)
threading.Thread(target=sleeps, daemon=True).start()
loop()
"""
WRITTEN = """noise
Thread 0x01 (most recent call first):
  File "/xoff/code/user/mine.py", line 3 in other

Current thread 0x02 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 5 in wait
  File "/xoff/code/user/beside.py", line 9 in helps
  File "/xoff/code/user/mine.py", line 7 in loop
  File "/xoff/code/testbed/lab/job/run_job.py", line 31 in run_job

after
"""


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("user/mine.py", "in loop, at line 7 of mine.py"),
        ("user/absent.py", "in helps, at line 9 of beside.py"),
        ("testbed/lab/job/run_job.py", "in run_job, at line 31 of testbed/lab/job/run_job.py"),
    ],
)
def test_the_innermost_line_of_the_jobs_own_file_is_shown_then_of_the_users_files(source: str, place: str) -> None:
    assert job_stack.place(WRITTEN, Path("/xoff/code"), source) == place


def test_without_a_file_of_the_user_it_is_the_innermost_line_and_without_a_stack_nothing() -> None:
    assert job_stack.place(WRITTEN, Path("/other"), "x.py") == "in wait, at line 5 of /usr/lib/python3.11/threading.py"
    for text in ("", "Current thread", "Current thread 0x1 (most recent call first):\n  <no Python frame>\n"):
        assert job_stack.place(text, Path("/xoff/code"), "user/mine.py") == ""
    long = f'Current thread 0x1:\n  File "/c/{"n" * 5000}", line 1 in {"f" * 5000}\n'
    assert len(job_stack.place(long, Path("/c"), "x")) < 300


def test_a_process_in_an_endless_loop_writes_its_stacks_and_ends_by_the_signal(tmp_path: Path) -> None:
    file = tmp_path / "loops.py"
    file.write_text(LOOPS)
    with subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(job_stack.SIGNAL)
        _, written = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGVTALRM
    shown = job_stack.place(written, tmp_path, "loops.py")
    assert shown in {f"in loop, at line {line} of loops.py" for line in (6, 7)}, "it may not have come out of print"
    assert "in sleeps" in written
