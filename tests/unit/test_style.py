"""The project's own checks, as tests, so that `xoff test` is all there is to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from testbed.lab.host import cache

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("check", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_code_passes(check: list[str]) -> None:
    """With what mypy found in other checkouts: it looks at files that have changed since."""
    own = os.environ | {"MYPY_CACHE_DIR": str(cache.folder("mypy"))}
    command = [sys.executable, "-m", *check]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lower_layer_never_imports_a_higher_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the contracts in pyproject.toml."""
    # The linter would set up its log, and with it turn off every other log of this process.
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_unit_tests_import_nothing_from_the_tests_of_the_lab() -> None:
    wrong = []
    for path in (ROOT / "tests" / "unit").glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("from tests.lab", "import tests.lab")):
                wrong.append(f"{path.name}: {line}")
    assert wrong == []


def test_no_archive_is_unpacked_by_an_argument_that_debian_12s_python_lacks() -> None:
    """Python 3.11.2 knows no `filter`; `extraction_filter` is an attribute that it leaves alone."""
    wrong = [path for path in (ROOT / "testbed").rglob("*.py") if 'filter="data"' in path.read_text()]
    assert wrong == []
