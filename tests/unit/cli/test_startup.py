"""The modules that a command imports before it does anything: they are its time to start, whatever the machine does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COUNT = """
import sys
from contextlib import redirect_stdout
from io import StringIO
from testbed.cli import main
try:
    with redirect_stdout(StringIO()):
        main(sys.argv[1:])
except SystemExit:
    pass
print("\\n".join(name for name in sys.modules if name.partition(".")[0] == "testbed"))
"""


def imported(*words: str, **environment: str) -> set[str]:
    """Return the modules of ours that are there when a command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *words], cwd=ROOT, env={**os.environ, **environment}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def core_of(found: set[str]) -> list[str]:
    """Return the modules of the core; each subject has its own and that of its commands, and no more."""
    subjects = Counter(name.split(".")[2] for name in found if name.startswith("testbed.subjects."))
    assert max(subjects.values()) <= 4, sorted(found)
    return sorted(name for name in found if not name.startswith("testbed.subjects."))


@pytest.mark.parametrize(("words", "most"), [("--help", 9), ("run --help", 27), ("demo --help", 27)])
def test_help_imports_few_modules(words: str, most: int) -> None:
    found = imported(*words.split())
    assert len(core_of(found)) <= most, core_of(found)
    assert not {"testbed.report.pages.page", "testbed.lab.image.image"} & found


@pytest.mark.slow
def test_the_list_imports_no_experiment_and_no_engine(xoff_cache: Path) -> None:
    imported("list")  # makes the index
    found = imported("list")
    assert len(core_of(found)) <= 34, core_of(found)
    assert not {"testbed.experiment.definition", "testbed.lab.engines.engine", "testbed.lab.results.result"} & found


def test_a_run_imports_the_pages_of_a_report_only_to_write_one() -> None:
    code = "import sys, testbed.cli.first_steps.running; assert 'testbed.report.pages.page' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
