"""Helpers that are forks of the test: what they send, how they fail and how they end."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.linux.process.forked_helper import READY, Ending, ForkedHelper, HelperError, PacketPipe


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


PIPES: dict[str, Callable[[], tuple[Any, Any]]] = {"packets": PacketPipe.pair, "stream": Pipe}


@pytest.mark.parametrize("pair", PIPES.values(), ids=PIPES)
def test_messages_go_both_ways(pair: Callable[[], tuple[Any, Any]]) -> None:
    def doubles(pipe: Any) -> None:
        while True:
            pipe.send(2 * pipe.recv())

    helper = ForkedHelper("doubling", doubles, pair(), Ending.IS_KILLED)
    for number in (3, 4):
        helper.send(number)
        assert helper.receive() == 2 * number
    helper.stop()
    assert is_gone(helper.process.pid)


@pytest.mark.parametrize("pair", PIPES.values(), ids=PIPES)
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (UsageError("no room"), "helping: no room"),
        (OSError(2, "No such file"), "helping: [Errno 2] No such file"),
        (ValueError("odd"), "helping: ValueError: odd"),
        (ValueError("x" * 10_000), "helping: ValueError: xxx"),
    ],
)
def test_a_failure_is_an_error_where_the_parent_receives(
    failure: Exception, said: str, pair: Callable[[], tuple[Any, Any]]
) -> None:
    def fails(_: Any) -> None:
        raise failure

    helper = ForkedHelper("helping", fails, pair(), Ending.IS_KILLED, error=UsageError)
    with pytest.raises(UsageError) as caught:
        helper.receive()
    assert str(caught.value).startswith(said)
    helper.stop()


@pytest.mark.parametrize("pair", PIPES.values(), ids=PIPES)
def test_one_that_was_killed_is_an_error_too(pair: Callable[[], tuple[Any, Any]]) -> None:
    helper = ForkedHelper("helping", lambda _: os.kill(os.getpid(), signal.SIGKILL), pair(), Ending.IS_KILLED)
    with pytest.raises(HelperError, match=r"^helping: its process was killed$"):
        helper.receive()
    helper.stop()


def watches(file: Path) -> Callable[[PacketPipe], None]:
    def body(pipe: PacketPipe) -> None:
        file.write_text(Path("/proc/self/comm").read_text())
        pipe.send(READY)
        select.select([pipe], [], [])
        file.write_text("done")

    return body


def test_one_that_confirms_has_begun_when_it_is_made_and_is_done_when_it_has_stopped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    helper = ForkedHelper("watching", watches(file), PacketPipe.pair(), Ending.CONFIRMS, name="xoff-watch")
    assert file.read_text() == "xoff-watch\n"
    helper.stop()
    assert file.read_text() == "done"
    assert is_gone(helper.process.pid)


def test_one_that_fails_before_it_is_ready_is_an_error_at_once() -> None:
    with pytest.raises(HelperError, match="watching failed: ValueError: odd"):
        ForkedHelper("watching failed", lambda _: _fail(), PacketPipe.pair(), Ending.CONFIRMS)


def _fail() -> None:
    raise ValueError("odd")


def test_one_that_fails_while_it_works_is_an_error_when_it_is_stopped() -> None:
    def body(pipe: PacketPipe) -> None:
        pipe.send(READY)
        raise ValueError("odd")

    helper = ForkedHelper("watching failed", body, PacketPipe.pair(), Ending.CONFIRMS)
    with pytest.raises(HelperError, match="watching failed: ValueError: odd"):
        helper.stop()
    assert is_gone(helper.process.pid)


def test_one_that_fails_before_it_reads_what_it_is_sent_is_the_same_error() -> None:
    failed, fails = os.pipe()

    def body(pipe: PacketPipe) -> None:
        pipe.send(READY)
        select.select([pipe], [], [])  # the message is there, and stays unread
        os.close(fails)
        raise ValueError("odd")

    helper = ForkedHelper("watching failed", body, PacketPipe.pair(), Ending.CONFIRMS)
    os.close(fails)
    helper.send("go on")
    assert os.read(failed, 1) == b""
    os.close(failed)
    helper.process.wait()
    with pytest.raises(HelperError, match="watching failed: ValueError: odd"):
        helper.receive()
    helper.pipe.close()


def test_one_that_is_only_told_returns_when_it_is_stopped() -> None:
    told, tells = Pipe(duplex=False)
    done, says = Pipe(duplex=False)

    def body(pipe: Connection) -> None:
        select.select([pipe], [], [])
        says.send("done")

    helper = ForkedHelper("recording", body, (tells, told), Ending.RETURNS)
    helper.stop()
    assert done.recv() == "done"
    assert is_gone(helper.process.pid)


def test_one_that_is_only_told_shows_its_failure_and_stopping_it_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    told, tells = Pipe(duplex=False)
    helper = ForkedHelper("recording", lambda _: _fail(), (tells, told), Ending.RETURNS)
    with pytest.raises(HelperError, match=r"^recording: its process ended with 1, and its output has the reason$"):
        helper.stop()
    assert "ValueError: odd" in capfd.readouterr().err
