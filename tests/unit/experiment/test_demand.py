"""The board on which a job writes what its flows ask for, and what is believed of what a lab tells."""

from __future__ import annotations

import json
import mmap
import os

import pytest

from testbed.experiment.demand import Board, Demand, demands

ONE = Demand(5_000, 2_000_000, {"udp": 40}, {"udp": 80}, {"udp": 2})
OTHER = Demand(6_000, 1_000, {"tcp": 3}, {"tcp": 3})


def told(board: Board) -> tuple[Demand, ...] | None:
    news = board.news()
    return None if news is None else demands(json.loads(news))


def test_what_another_process_writes_is_news_once() -> None:
    board = Board()
    assert told(board) is None
    if (pid := os.fork()) == 0:
        board.write([ONE, OTHER])
        os._exit(0)
    os.waitpid(pid, 0)
    assert told(board) == (ONE, OTHER)
    assert told(board) is None


def test_the_last_of_two_changes_counts() -> None:
    board = Board()
    board.write([ONE])
    board.write([])
    assert told(board) == ()


def test_a_change_that_is_not_over_is_no_news() -> None:
    board = Board()
    board.write([ONE])
    board._memory[0] += 1
    assert board.news() is None


def test_what_has_no_room_is_left_out() -> None:
    board = Board()
    board.write([ONE] * (mmap.PAGESIZE // 50))
    assert told(board) == ()


@pytest.mark.parametrize("length", [-1, 1 << 40])
def test_a_length_that_a_job_forged_reaches_nothing_else(length: int) -> None:
    board = Board()
    board._memory[:16] = (2).to_bytes(8, "little") + length.to_bytes(8, "little", signed=True)
    assert len(board.news() or b"") <= mmap.PAGESIZE


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        [1],
        [{"begin_ns": 1, "lab_ns": 1, "frames": {}}],
        [{"begin_ns": -1, "lab_ns": 1, "frames": {}, "hops": {}, "flows": {}}],
        [{"begin_ns": 1, "lab_ns": True, "frames": {}, "hops": {}, "flows": {}}],
        [{"begin_ns": 1, "lab_ns": 1, "frames": {"udp": "many"}, "hops": {}, "flows": {}}],
        [{"begin_ns": 1, "lab_ns": 1, "frames": {"udp": 1.5}, "hops": {}, "flows": {}}],
        [{"begin_ns": 1, "lab_ns": 1, "frames": {}, "hops": {}}],
        [{"begin_ns": 1, "lab_ns": 1, "frames": {"udp": 10**30}, "hops": {}, "flows": {}}],
    ],
)
def test_what_no_lab_of_ours_tells_is_refused(content: object) -> None:
    assert demands(content) is None
