"""What long work shows of itself: lines with the time left where there is no terminal, and a bar where there is one."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import Progress

from testbed.cli.screen import amount, progress
from testbed.cli.screen.amount import Amount
from testbed.lab.engines.forecast import Step


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(amount, "say", lines.append)
    return lines


def test_without_a_terminal_there_is_a_line_each_ten_seconds_at_most(said: list[str]) -> None:
    clock = Clock()
    work = Amount("verify", 40, None, clock=clock)
    for step in range(1, 26):
        clock.now_s += 1
        work.at(step, f"{step} of 40")
    assert said == ["verify: 25 %, 10 of 40, about 30 s left", "verify: 50 %, 20 of 40, about 20 s left"]


def test_what_has_not_changed_is_not_said_again(said: list[str]) -> None:
    clock = Clock()
    work = Amount("docs", 10, None, clock=clock)
    for _ in range(3):
        clock.now_s += 11
        work.at(10, "ready")
    assert said == ["docs: 100 %, ready"]


@pytest.mark.parametrize(
    ("done", "took_s", "expected_s", "left_s"),
    [(0, 5, None, None), (0, 5, 60, 55), (0, 90, 60, 0), (5, 10, 99, 10), (10, 9, 60, 0)],
)  # fmt: skip
def test_what_is_left_follows_the_forecast_until_some_is_done(
    done: float, took_s: float, expected_s: float | None, left_s: float | None
) -> None:
    clock = Clock()
    work = Amount("kernel", 10, None, clock=clock, expected_s=expected_s)
    clock.now_s += took_s
    work.at(done)
    assert work.left_s() == left_s


def test_work_never_goes_back_and_never_beyond_its_end() -> None:
    work = Amount("kernel", 10, None, clock=Clock())
    for done in (7.0, 3.0, 12.0):
        work.at(done)
        assert work.left_s() == 0.0


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_it_is_a_bar_that_goes_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = _Tty(), Clock()
    monkeypatch.setattr("time.monotonic", clock)
    console = Console(file=terminal, force_terminal=True, width=120, _environ={"TERM": "xterm"})
    monkeypatch.setattr(amount, "stderr", console)
    with amount.shown("building the site", 4.0) as work:
        clock.now_s += 1
        work.at(1.0, "[red] 1 of 4 pages")
        assert work._progress is not None
        work._progress.refresh()
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "━━━" in text and "building the site: 25 %, [red] 1 of 4 pages, about 3 s left" in text
    assert "\x1b[2K" in terminal.getvalue().rpartition(" left")[2], "the line is taken away"


def test_the_cpu_time_of_what_is_below_counts() -> None:
    """Also that of a process whose own child did the work, and that has ended."""
    before = amount.cpu_time()
    burns = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burns!r}])"
    with subprocess.Popen([sys.executable, "-c", below]) as child:
        child.wait()
    assert 0.3 <= amount.cpu_time() - before < 3
    assert amount._times(os.getpid()) > 0 and amount._times(2**22 + 1) == 0


@pytest.mark.parametrize(("steps", "shows"), [([], False), ([Step.KERNEL, Step.IMAGE], True)])
def test_setting_up_has_a_bar_if_its_cost_is_known(
    steps: list[Step], shows: bool, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    made: list[tuple[str, float]] = []
    real: Callable[..., None] = Amount.__init__

    def noted(self: Amount, what: str, total: float, progress: Progress | None, **rest: float) -> None:
        made.append((what, total))
        real(self, what, total, progress, **rest)

    monkeypatch.setattr(Amount, "__init__", noted)
    with progress.setting_up(steps) as report:
        report("building the kernel")
        report("building the image")
    assert made == ([("setting up", pytest.approx(457.8 + 59.2))] if shows else [])


def test_several_runs_count_by_what_they_cost(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    with progress.Screen(many=False, quiet_stdout=False) as screen:
        done = progress.Several(screen, "verify", "experiments", [1.0, 3.0])
        clock.now_s += 20
        done.ended(1.0)
        clock.now_s += 60
        done.ended(3.0)
    assert said == ["verify: 25 %, 1 of 2 experiments, about 60 s left", "verify: 100 %, 2 of 2 experiments"]
