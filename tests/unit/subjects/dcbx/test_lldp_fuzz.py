"""A short run of `tests.fuzz_lldp` over its corpus; set XOFF_FUZZ to a number of frames for a longer one."""

from __future__ import annotations

import os
import tracemalloc

import pytest

from tests.fuzz_lldp import MOST_MEMORY, Mutator, Target, arcs_of, load_corpus, memory_of, run, walk

SHORT = 4000


def test_the_corpus_is_read_refused_or_counted_and_never_fails() -> None:
    target = Target()
    for frame in load_corpus():
        target.try_frame(frame)
    assert target.outcomes["read"] >= 40


@pytest.mark.slow
def test_damaged_frames_are_read_refused_or_counted_and_never_fail() -> None:
    outcomes = run(int(os.environ.get("XOFF_FUZZ", SHORT)), seed=1).outcomes
    assert outcomes["read"] > SHORT / 4  # most damage is inside, where it counts
    assert len(outcomes) > 40  # and it finds nearly every way of being wrong


@pytest.mark.slow
def test_reading_one_frame_takes_little_memory_whatever_is_in_it() -> None:
    most_tlvs = load_corpus()[0] + bytes(2)
    mutator = Mutator(load_corpus(), seed=2)
    tracemalloc.start()
    try:
        frames = [*load_corpus(), most_tlvs, *(mutator.frame() for _ in range(500)), bytes(100_000)]
        assert max(map(memory_of, frames)) < MOST_MEMORY
    finally:
        tracemalloc.stop()


def test_the_corpus_reaches_nearly_all_of_the_parser() -> None:
    """Lines that a frame can reach; the corpus is what --grow found, so it should not lose any by an edit."""
    reached = {(file, line) for frame in load_corpus() for file, _, line in arcs_of(frame)}
    assert len(reached) > 200


def test_the_fuzzer_gives_the_same_frames_for_the_same_seed() -> None:
    first, second = (Mutator(load_corpus(), seed=7) for _ in range(2))
    assert [first.frame() for _ in range(50)] == [second.frame() for _ in range(50)]


def test_the_fuzzers_own_walk_sees_what_a_reader_of_the_standard_sees() -> None:
    octets = bytes.fromhex("0202 0401 0402 0501 0602 0079 fe04 0080c20b 0000 ffff")
    assert list(walk(octets)) == [
        (0, 1, b"\x04\x01"),
        (4, 2, b"\x05\x01"),
        (8, 3, b"\x00\x79"),
        (12, 127, b"\x00\x80\xc2\x0b"),
        (18, 0, b""),
    ]
    assert list(walk(octets[:3])) == []
