"""What a terminal shows of how long a run will take, and that nothing else does."""

from __future__ import annotations

from typing import cast

import pytest
from rich.progress import TaskID

from testbed.cli.screen import progress
from testbed.cli.screen.progress import Screen, Watch
from testbed.lab.runs.api import ForesightedWatcher
from testbed.lab.runs.outlook import Outlook

LONG = Outlook("flows", 40.0, 23.0, 0.42, 8.2)
SHORT = Outlook("flows", 4.0, 3.0, 0.1, 0.5)


class Lines:
    """In the place of a screen with a progress line."""

    def __init__(self, foresees: bool = True) -> None:
        self.foresees = foresees
        self.shown: list[str] = []

    def foresee(self, task: TaskID, outlook: str) -> None:
        self.shown.append(outlook)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(progress, "say", lines.append)
    return lines


def test_what_takes_long_is_announced_once_and_shown_until_it_is_over(said: list[str]) -> None:
    screen = Lines()
    watch = Watch(cast(Screen, screen), "incast", TaskID(1))
    assert isinstance(watch, ForesightedWatcher)
    for outlook in (LONG, LONG, None):
        watch._foreseen = 0.0
        watch.outlook(outlook)
    assert said == ["incast: flows of 8.2 s of lab time: about 40 s on this machine"]
    assert screen.shown == ["flows 42 %, about 23 s left", "flows 42 %, about 23 s left", ""]


def test_what_takes_some_seconds_is_shown_only(said: list[str]) -> None:
    screen = Lines()
    Watch(cast(Screen, screen), "incast", TaskID(1)).outlook(SHORT)
    assert said == []
    assert screen.shown == ["flows 10 %, about 3 s left"]


def test_beside_json_nothing_is_said(said: list[str]) -> None:
    screen = Lines(foresees=Screen(many=False, quiet_stdout=True).foresees)
    Watch(cast(Screen, screen), "incast", TaskID(1)).outlook(LONG)
    assert (said, screen.shown) == ([], [])


def test_without_a_terminal_nothing_is_said(said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(many=False, quiet_stdout=False) as screen:
        screen.watch("incast").outlook(LONG)
    assert said == []
    assert capsys.readouterr() == ("", "")
