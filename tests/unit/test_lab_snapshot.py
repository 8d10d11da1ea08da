"""A snapshot is taken at one exact moment, or taken again. (Loading one is in test_lab_qemu.py.)"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from testbed.lab import snapshot
from testbed.lab.image import Image
from testbed.lab.qemu import ICOUNT, Machine, QemuError

IMAGE = Image(Path("/image"), "key", "digest", "6.12.1", {}, {}, {})


class Told:
    """A machine whose monitor tells one thing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def command(self, line: str) -> str:
        assert line == "info lapic"
        return self.text


@pytest.mark.parametrize(("left", "ran_on"), [(124437, False), (1, False), (0, True)])
def test_a_timer_that_has_run_out_shows_that_the_clock_went_on(left: int, ran_on: bool) -> None:
    text = f"Timer\t DCR=0x3 (divide by 16) initial_count = 249803 current_count = {left}\r\nIRR\t (none)\r\n"
    assert snapshot._ran_on(cast(Machine, Told(text))) is ran_on


def test_a_qemu_that_does_not_tell_is_an_error() -> None:
    with pytest.raises(QemuError, match="does not tell the state of the CPU's timer: No APIC available"):
        snapshot._ran_on(cast(Machine, Told("No APIC available\r\n")))


def test_a_moment_that_was_not_exact_is_tried_again_and_that_is_said(
    xoff_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = [False, False, True]
    monkeypatch.setattr(snapshot, "_take", lambda *_: outcomes.pop(0))
    monkeypatch.setattr(snapshot.qemu, "arguments", lambda *_, **__: [])
    monkeypatch.setattr(snapshot.qemu, "version", lambda: "7.2.0")
    said: list[str] = []
    snapshot.ensure(IMAGE, ICOUNT, said.append)
    again = "the lab's clock ran on while it was stopped; booting it again"
    assert said == ["booting the lab once (tcg-icount) to take its snapshot", again, again]
    outcomes += [False] * 8
    with pytest.raises(QemuError, match="no exact snapshot in 8 attempts"):
        snapshot.ensure(IMAGE, ICOUNT, said.append)
