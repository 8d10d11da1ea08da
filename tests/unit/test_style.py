"""The project's own checks, as tests, so that `xoff test` is all there is to run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("check", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_code_passes(check: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True, check=False)
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


def test_no_module_of_testbed_is_longer_than_450_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in (ROOT / "testbed").rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines > 450} == {}


def test_no_class_of_testbed_has_more_than_30_public_methods() -> None:
    found = {}
    for path in (ROOT / "testbed").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
                found[f"{path.relative_to(ROOT)}: {node.name}"] = sum(not name.startswith("_") for name in methods)
    assert {where: methods for where, methods in found.items() if methods > 30} == {}
