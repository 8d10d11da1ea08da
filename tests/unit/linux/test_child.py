"""Child processes that are forks of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Pipe

import pytest

from testbed.linux.process import kernel
from testbed.linux.process.child import Child


def test_a_child_has_the_objects_of_its_starter_and_ends_with_0() -> None:
    word, (reader, writer) = object(), Pipe(duplex=False)
    child = Child(lambda: writer.send((os.getpid(), id(word))))
    assert reader.recv() == (child.pid, id(word))
    assert child.wait() == 0


def test_an_exception_is_shown_and_gives_1(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("it cannot be done")

    assert Child(fail).wait() == 1
    assert "ValueError: it cannot be done" in capfd.readouterr().err


def test_what_the_starter_wrote_is_written_once_and_in_order() -> None:
    code = """
import os
from testbed.linux.process.child import Child
print("starter")
child = Child(lambda: print("child"))
child.wait()
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["starter", "child", "end"]


def test_a_child_is_killed_by_hand_and_with_its_starter() -> None:
    by_hand = Child(signal.pause)
    by_hand.signal(signal.SIGTERM)
    assert by_hand.wait() == -signal.SIGTERM
    Child(signal.pause).kill()
    ended = Child(lambda: None)
    ended.wait()
    ended.kill()

    reader, writer = os.pipe()
    starter = kernel.fork()
    if starter == 0:
        try:
            child = Child(signal.pause)
            os.write(writer, str(child.pid).encode())
        finally:
            os._exit(0)
    os.waitpid(starter, 0)
    pid = int(os.read(reader, 20))
    for _ in range(500):
        try:
            if (state := _state(pid)) in "ZX":
                break
        except OSError:
            break
        time.sleep(0.01)
    else:
        pytest.fail(f"the child of a process that has ended goes on: {state}")
    os.close(reader)
    os.close(writer)


def test_a_child_whose_starter_has_ended_before_it_asked_to_be_told_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    own = kernel.die_with_parent
    monkeypatch.setattr(kernel, "die_with_parent", lambda parent: own(parent + 1))  # another one has taken it over
    child = Child(signal.pause)
    assert child.wait() == 1
    monkeypatch.setattr(kernel, "in_lab", True)
    monkeypatch.setattr(kernel, "die_with_parent", own)
    child = Child(lambda: None)
    assert child.wait() == 0


def test_two_children_draw_the_same_numbers_until_they_are_seeded() -> None:
    """`kernel.fork` documents it: a child that draws from `random` has to seed it."""
    code = """
import random
from testbed.linux.process.child import Child
for seed in (lambda: None, random.seed):
    for _ in range(2):
        Child(lambda: (seed(), print(random.random()))).wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second, *seeded = done.stdout.split()
    assert first == second
    assert len({first, *seeded}) == 3


def test_beside_other_threads_python_renews_their_locks() -> None:
    """A lock that another thread holds would block the child for ever."""
    import logging

    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with logging._lock:  # type: ignore[attr-defined]
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    timer = threading.Timer(0.2, done.set)  # os.fork() itself waits for this lock
    timer.start()
    child = Child(lambda: logging.getLogger("child").setLevel(logging.INFO))
    assert child.wait() == 0
    thread.join()
    timer.join()


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
