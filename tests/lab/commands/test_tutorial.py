"""The tutorial's commands, one after another in an empty folder, as a newcomer types them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from tests.pages import ROOT

PAGE = (ROOT / "docs/start/tutorial.md").read_text()
COMMANDS = [re.split(r"\s{2,}", line)[0] for line in re.findall(r"^    \./xoff (.*)$", PAGE, re.MULTILINE)]
LEFT_BEHIND = {
    "report": ("both.html",),
    "plot": ("delay.pdf",),
    "sweep": ("results/sweep-mine/summary.csv",),
}


def test_the_page_has_these_commands() -> None:
    assert [command.split()[0] for command in COMMANDS] == [
        "demo", "list", "run", "run", "run", "run", "compare", "report", "plot", "sweep",
    ]  # fmt: skip


def test_each_command_does_what_the_page_says(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo has a test of its own, test_demo.py."""
    pytest.importorskip("matplotlib", reason="matplotlib is missing")
    monkeypatch.chdir(tmp_path)
    (experiment,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    Path("mine.py").write_text(experiment)
    for command in COMMANDS[1:]:
        words = shlex.split(command)
        engine = ["--engine", ready.engine.name] if words[0] in ("run", "sweep") else []
        assert main([*words, *engine]) in (0, 1 if words[0] == "compare" else 0), command
        for name in LEFT_BEHIND.get(words[0], ()):
            assert Path(name).stat().st_size > 500, name
    assert {one.name for one in Path("results").iterdir()} >= {"incast-001", "incast-002", "mine-001", "mine-002"}
