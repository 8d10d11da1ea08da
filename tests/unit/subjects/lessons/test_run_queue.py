"""The queue of a class: so many runs at a time, in order, one of each student."""

from __future__ import annotations

import threading
import time

import pytest

from testbed.errors import UsageError
from testbed.subjects.lessons.run_queue import RunQueue


def until(holds: object) -> None:
    deadline = time.monotonic() + 10
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_runs_go_in_order_so_many_at_a_time_and_one_of_each_student() -> None:
    begun: list[str] = []
    may_end = threading.Event()

    def perform(work: str) -> str:
        begun.append(work)
        may_end.wait(10)
        return work.upper()

    queue: RunQueue[str, str] = RunQueue(perform, at_once=2)
    assert queue.submit("ada", "a") == 0
    until(lambda: begun == ["a"])
    queue.submit("bob", "b")
    until(lambda: len(begun) == 2)
    assert queue.submit("eve", "e") == 2 and queue.submit("mal", "m") == 3
    for student in ("ada", "eve"):
        with pytest.raises(UsageError, match="has not ended"):
            queue.submit(student, "again")
    assert [queue.state(name).before for name in ("ada", "bob", "eve", "mal", "zoe")] == [0, 0, 2, 3, None]
    time.sleep(0.05)
    assert begun == ["a", "b"]
    may_end.set()
    until(lambda: len(queue.all()) == 4)
    assert queue.all() == {"ada": "A", "bob": "B", "eve": "E", "mal": "M"} and begun[:2] == ["a", "b"]
    assert queue.state("ada").last == "A" and queue.submit("ada", "a2") == 0
    until(lambda: queue.state("ada").last == "A2")
    queue.close()


def test_a_failure_is_told_and_the_queue_goes_on_and_has_a_limit() -> None:
    def perform(work: str) -> str:
        if work == "bad":
            raise UsageError("no engine")
        return work

    queue: RunQueue[str, str] = RunQueue(perform, at_once=1)
    queue.submit("ada", "bad")
    until(lambda: queue.state("ada").failure == "no engine")
    queue.submit("ada", "good")
    until(lambda: queue.state("ada").last == "good")
    assert queue.state("ada").failure == ""
    queue.close()
    full: RunQueue[str, str] = RunQueue(perform, at_once=0, most=1)
    full.submit("ada", "x")
    with pytest.raises(UsageError, match="1 runs wait already"):
        full.submit("bob", "x")
