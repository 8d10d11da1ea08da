"""Questions to agents and their answers, through the sockets that both have."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pytest

from testbed.agent import query_socket
from testbed.agent.query_socket import Question


@pytest.fixture
def ends() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def open_files() -> int:
    gc.collect()  # what other tests have left to the collector is not to go in between
    return len(list(Path("/proc/self/fd").iterdir()))


def test_an_answer_may_be_larger_than_any_packet(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    text = "x" * (5 << 20)
    before = open_files()
    query_socket.answer(theirs, Question(1, "snapshot"), {"text": text})
    assert query_socket.ask(ours, Question(1, "snapshot")) == {"text": text}
    assert open_files() == before


def test_an_answer_that_came_too_late_is_not_taken_for_that_to_the_next_question(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    before = open_files()
    query_socket.answer(theirs, Question(1, "snapshot"), {"text": "of the one before"})
    query_socket.answer(theirs, Question(2, "snapshot"), {"text": "of this one"})
    assert query_socket.ask(ours, Question(2, "snapshot")) == {"text": "of this one"}
    assert open_files() == before


def test_a_question_arrives_as_it_was_and_a_closed_end_is_an_empty_one(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    query_socket.answer(theirs, Question(7, "configure"), {})
    query_socket.ask(ours, Question(7, "configure", ("s1-eth1", None)))
    assert query_socket.receive(theirs) == Question(7, "configure", ("s1-eth1", None))
    ours.close()
    assert query_socket.receive(theirs).verb == ""


def test_an_end_that_is_closed_is_reported(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(OSError):
        query_socket.ask(ours, Question(1, "snapshot"))
