"""A lock for each agent: its holder is found by processes that did not fork it, and is one at a time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.agent.lives import Lives
from testbed.linux.process import kernel
from testbed.linux.process.child import Child


@contextmanager
def taking(lives: Lives, number: int) -> Iterator[tuple[int, bytes]]:
    """Run a process that takes a lock until the end of the block, and yield it with True if it got the lock."""
    reader, writer = os.pipe()

    def take() -> None:
        os.write(writer, b"y" if lives.acquire(number) else b"n")
        signal.pause()

    child = Child(take)
    try:
        yield child.pid, os.read(reader, 1)
    finally:
        child.kill()
        os.close(reader)
        os.close(writer)


def test_the_holder_is_found_and_no_other_process_gets_the_lock_while_it_lives() -> None:
    lives = Lives()
    assert lives.holder(1) == 0 and lives.open_holder(1) is None
    with taking(lives, 1) as (first, got):
        assert got == b"y"
        assert [lives.holder(number) for number in (0, 1, 2)] == [0, first, 0]
        found = lives.open_holder(1)
        assert found is not None and found[0] == first
        assert kernel.wait_readable((found[1],), 0) == []
        with taking(lives, 1) as (_, refused):
            assert refused == b"n"
        with taking(lives, 2) as (other, taken):
            assert taken == b"y" and lives.holder(2) == other
        assert lives.holder(1) == first
    assert kernel.wait_readable((found[1],), 10) == [found[1]], "its end is seen by one that is not its parent"
    os.close(found[1])
    assert lives.holder(1) == 0
    with taking(lives, 1) as (second, got):
        assert got == b"y" and lives.holder(1) == second
    lives.close()
