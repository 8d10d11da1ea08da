"""The project's own checks, as tests, so that `xoff test` is all there is to run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from testbed.lab import cache
from tests.unit import plain_words

ROOT = Path(__file__).parents[2]
CODE = ("testbed", "snappi_xoff", "experiments", "controllers", "topologies", "lessons", "tests", "bench", "docs")
PROSE = (*(f"{folder}/**/*.py" for folder in CODE), "*.md", "docs/**/*.md", "lessons/**/*.md")


@pytest.mark.parametrize("check", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_code_passes(check: list[str]) -> None:
    """With what mypy found in other checkouts: it looks at files that have changed since."""
    own = os.environ | {"MYPY_CACHE_DIR": str(cache.folder("mypy"))}
    command = [sys.executable, "-m", *check]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_lower_layer_never_imports_a_higher_one() -> None:
    """By the contracts in pyproject.toml."""
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_unit_tests_import_nothing_from_the_tests_of_the_lab() -> None:
    wrong = []
    for path in (ROOT / "tests" / "unit").glob("*.py"):
        for line in path.read_text().splitlines():
            if line.startswith(("from tests.lab", "import tests.lab")):
                wrong.append(f"{path.name}: {line}")
    assert wrong == []


def test_programs_and_devices_are_not_described_as_persons() -> None:
    """The words are in `plain_words`."""
    found = []
    for pattern in PROSE:
        for path in ROOT.glob(pattern):
            if path.is_symlink() or path == Path(plain_words.__file__):
                continue
            places = (plain_words.in_python if path.suffix == ".py" else plain_words.in_page)(path.read_text())
            found += [f"{path.relative_to(ROOT)}:{line}: {word}" for line, word in places]
    assert found == [], "see CONTRIBUTING.md, Style"


@pytest.mark.parametrize(
    ("find", "text", "words"),
    plain_words.EXAMPLES,
)
def test_words_of_persons_are_found(
    find: Callable[[str], Iterator[tuple[int, str]]], text: str, words: list[tuple[int, str]]
) -> None:
    assert list(find(text)) == words
