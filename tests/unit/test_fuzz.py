"""A short run of `tests.fuzz` for each decoder; set XOFF_FUZZ to a number of inputs for a longer one."""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.errors import XoffError
from tests import fuzz
from tests.fuzz import Decoder, FuzzError, decoders, run

pytestmark = pytest.mark.slow

SHORT = 1000
SLOW = {"policy", "run's stream", "fabric"}
"""The decoders that take about a millisecond for an input."""
UNREAD = {"refused", "none", "no text", "error", "no answer", "left"}


@pytest.mark.parametrize("name", decoders())
def test_damaged_input_is_read_or_refused_and_nothing_else(name: str) -> None:
    count = int(os.environ.get("XOFF_FUZZ", SHORT // 5 if name in SLOW else SHORT))
    outcome = run(decoders()[name], count)
    assert outcome.refused + sum(outcome.words.values()) == count
    read = sum(times for word, times in outcome.words.items() if word not in UNREAD)
    assert read > count / 20, "most damage is inside, where it counts"
    assert read < count or name == "measurer", "which ignores what is wrong"


def test_the_same_seed_gives_the_same_inputs() -> None:
    for name, decoder in decoders().items():
        first, again, other = (decoder.inputs(random.Random(seed)) for seed in (1, 1, 2))
        taken = [[next(inputs) for _ in range(50)] for inputs in (first, again, other)]
        assert taken[0] == taken[1] != taken[2], name


def decoder(read: Callable[[bytes], str]) -> Decoder:
    def inputs(dice: random.Random) -> Iterator[bytes]:
        while True:
            yield dice.randbytes(4)

    return Decoder(inputs, lambda: read)


def test_an_error_outside_of_the_family_is_found_with_its_input() -> None:
    def read(octets: bytes) -> str:
        if octets[0] == 0xFF:
            raise KeyError("x")
        raise XoffError("refused")

    with pytest.raises(FuzzError, match=r"^KeyError: 'x', after ff[0-9a-f]{6}$"):
        run(decoder(read), 5000)


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0

    def read(octets: bytes) -> str:
        nonlocal clock
        clock += 0.051 if octets[0] == 0xFF else 0.049
        return "read"

    monkeypatch.setattr(time, "thread_time", lambda: clock)
    with pytest.raises(FuzzError, match=r"^51 ms for ff"):
        run(decoder(read), 5000)


def test_one_slow_moment_of_the_machine_is_no_slow_input(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = 0.0, 0

    def read(_: bytes) -> str:
        nonlocal clock, calls
        calls += 1
        clock += 0.2 if calls == 7 else 0.001
        return "read"

    monkeypatch.setattr(time, "thread_time", lambda: clock)
    assert run(decoder(read), 100).longest_s < 0.002


def test_memory_that_is_kept_of_each_input_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    monkeypatch.setattr(fuzz, "_memory_kib", lambda: 100 * len(kept))
    with pytest.raises(FuzzError, match="something is kept of each of them"):
        run(decoder(lambda octets: kept.append(octets) or "read"), 1000)


def test_what_is_written_and_read_as_something_else_is_found() -> None:
    with pytest.raises(FuzzError, match="1 was written and read as 2"):
        fuzz._same(1, 2)


def test_a_total_is_shared_by_the_decoders(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = decoder(lambda octets: "read")
    monkeypatch.setattr(fuzz, "decoders", lambda: {"one": made, "two": made, "three": made})
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--total", "1e3"])
    assert fuzz.main() == 0
    lines = [re.sub(" {2,}", " ", line) for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(" inputs")[0] for line in lines] == [
        "✓ one 334",
        "✓ two 333",
        "✓ three 333",
        "✓ all decoders 1,000",
    ]
