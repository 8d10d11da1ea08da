"""An experiment is short to begin: it imports from `xoff`, at its top, in few lines."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

from testbed import shipped_packages

ROOT = Path(__file__).parents[3]
MOST_LINES = 3
SHIPPED = [
    *shipped_packages.files(shipped_packages.EXPERIMENTS).values(),
    *shipped_packages.files(shipped_packages.CONFORMANCE).values(),
    *shipped_packages.files(shipped_packages.PUBLISHED).values(),
]
OTHERS = [
    *(ROOT / "experiments").rglob("_*.py"),
    *(ROOT / "experiments" / "templates").glob("*.py"),
    *(ROOT / "lessons").rglob("*.py"),
]


def _imports(path: Path) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The import statements of a module, and those below its top level."""
    tree = ast.parse(path.read_text())
    all_of_them = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [node for node in all_of_them if node in tree.body], [node for node in all_of_them if node not in tree.body]


def test_half_of_the_shipped_experiments_have_three_import_lines_at_most() -> None:
    assert statistics.median(len(_imports(path)[0]) for path in SHIPPED) <= MOST_LINES


@pytest.mark.parametrize("path", [*SHIPPED, *OTHERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_imported_inside_a_function(path: Path) -> None:
    assert [node.lineno for node in _imports(path)[1]] == []


@pytest.mark.parametrize("path", [*SHIPPED, *OTHERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_xoff_exports_is_imported_from_there(path: Path) -> None:
    found = [
        f"line {node.lineno}: from {node.module} import {alias.name}"
        for node in _imports(path)[0]
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (node.module, alias.name) in EXPORTED
    ]
    assert found == []


def _exported() -> set[tuple[str, str]]:
    """The module and the own name of all that `xoff` exports."""
    tree = ast.parse((ROOT / "xoff.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


EXPORTED = _exported()
