"""Process trees: nothing that a builder has started outlives it, or its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.lab.host import process_tree

WAIT_S = 30
# A builder: a child in a session of its own that has a child too, whose parent has ended. It writes the pid of that.
BUILDER = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
        os.rename(sys.argv[1] + ".new", sys.argv[1])
        time.sleep(1000)
    os._exit(0)
time.sleep(float(sys.argv[2]))
"""


SPENDS = """
import os, time
if os.fork() == 0:
    while time.process_time() < 0.2: pass
    os._exit(0)
os.wait()
print("spent", flush=True)
time.sleep(1000)
"""


def test_the_cpu_time_of_a_tree_is_that_of_all_its_processes() -> None:
    """Those that have ended count too, and the file with what a run took has it."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SPENDS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"spent\n"
        found = process_tree.cpu_s(process.pid)
        process.kill()
    assert found is not None and 0.19 <= found < 5
    assert process_tree.cpu_s(process.pid) is None, "there is no such process any more"


def builder(pid_file: Path, seconds: float) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", BUILDER, str(pid_file), str(seconds)]


def pid_in(file: Path) -> int:
    deadline = time.monotonic() + WAIT_S
    while not file.exists():
        assert time.monotonic() < deadline, "the builder did not start"
        time.sleep(0.01)
    return int(file.read_text())


def gone(pid: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def interruption() -> Iterator[None]:
    """Interrupt this thread as Ctrl-C would, when it has worked for a while."""

    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_program_ends_with_its_code_and_what_it_wrote() -> None:
    assert process_tree.run(["sh", "-c", "echo out; echo err >&2; exit 7"], {}) == (7, "out\nerr\n")


def test_a_program_that_was_killed_ends_with_the_signal() -> None:
    assert process_tree.run(["sh", "-c", "kill -9 $$"], {}) == (137, "")


def test_a_program_gets_the_environment_and_no_input() -> None:
    assert process_tree.run(["sh", "-c", 'echo "$WHAT"; cat'], {"WHAT": "this"}) == (0, "this\n")


def test_a_program_that_is_not_there_is_named() -> None:
    assert process_tree.run(["no-such-builder"], {}) == (
        127,
        "no-such-builder cannot be started: No such file or directory\n",
    )


def test_no_signal_is_blocked_in_a_program() -> None:
    code, said = process_tree.run(["grep", "SigBlk", "/proc/self/status"], {})
    assert (code, said.split()) == (0, ["SigBlk:", "0000000000000000"])


def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    assert process_tree.run(builder(tmp_path / "pid", 0.5), {}) == (0, "")
    assert gone(pid_in(tmp_path / "pid"))


def test_what_is_done_meanwhile_is_done_while_the_program_runs(tmp_path: Path) -> None:
    waits = ["sh", "-c", f"echo begun; until [ -e {tmp_path}/done ]; do sleep 0.01; done; echo seen"]
    assert process_tree.run(waits, {}, (tmp_path / "done").touch) == (0, "begun\nseen\n")


def test_a_failure_meanwhile_ends_the_program_at_once(tmp_path: Path) -> None:
    def fail() -> None:
        pid_in(tmp_path / "pid")
        raise LookupError("no such package")

    with pytest.raises(LookupError, match="no such package"):
        process_tree.run(builder(tmp_path / "pid", 1000), {}, fail)
    assert gone(pid_in(tmp_path / "pid"))


def test_what_was_started_ends_when_we_are_interrupted(tmp_path: Path, interruption: None) -> None:
    def interrupt() -> None:
        pid_in(tmp_path / "pid")
        os.kill(os.getpid(), signal.SIGALRM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        process_tree.run(builder(tmp_path / "pid", 1000), {})
    thread.join()
    assert gone(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_what_was_started_ends_when_we_are_killed(number: signal.Signals, tmp_path: Path) -> None:
    text = f"from testbed.lab.host import process_tree; process_tree.run({builder(tmp_path / 'pid', 1000)!r}, {{}})"
    # Whoever runs the tests in the background has SIGHUP ignored, and children inherit that.
    command = ["env", "--default-signal", sys.executable, "-c", text]
    with subprocess.Popen(command, cwd=Path(__file__).parents[4]) as process:
        started = pid_in(tmp_path / "pid")
        process.send_signal(number)
    assert process.returncode == -number
    assert gone(started)


def test_what_the_front_door_starts_ends_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = f"from testbed.cli import bootstrap; bootstrap._run({builder(pid_file, 1000)!r}, 'installing')"
    with subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[4]) as front_door:
        pid = pid_in(pid_file)
        front_door.kill()
    assert gone(pid)
