"""The length of comments and docstrings changes no digest."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.lab.job import job
from testbed.lab.results.result import Result

ROOT = Path(__file__).parents[3]
CHANGED = (
    "experiments",
    "topologies",
    "testbed/agent",
    "testbed/buffer",
    "testbed/frames",
    "testbed/net",
    "testbed/pfc",
)
RUN = "incast"


def _digest(code: Path, out: Path) -> str:
    command = [sys.executable, "-m", "testbed", "run", RUN, "--set", "frames=200", "--engine", "um", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(code)}
    done = subprocess.run(command, env=environment, cwd=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Result.read(out / f"{RUN}-001").digest


def _lengthen(code: Path) -> None:
    """Make each module's docstring longer by up to 8000 characters and 60 lines."""
    drawn = random.Random(1)
    for folder in CHANGED:
        for path in sorted((code / folder).rglob("*.py")):
            text = path.read_text()
            quotes, rest = text[:3], text[3:]
            assert quotes == '"""', path
            path.write_text(quotes + "x" * drawn.randrange(8000) + "\n" * drawn.randrange(60) + rest)


@pytest.mark.long  # Xoff is compiled for the lab once more
def test_a_run_of_code_with_longer_docstrings_has_the_same_digest(tmp_path: Path) -> None:
    longer = tmp_path / "longer"
    for name, content in job.code().items():
        (longer / name).parent.mkdir(parents=True, exist_ok=True)
        (longer / name).write_bytes(content)
    _lengthen(longer)
    assert _digest(longer, tmp_path / "a") == _digest(ROOT, tmp_path / "b")
