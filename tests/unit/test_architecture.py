"""Pages name files that exist, modules form no cycle, and classes stay small."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:[a-z0-9_]+/)+[a-z0-9_.]*)(?::([A-Za-z_.]+))?`")


@pytest.mark.parametrize("page", ["architecture.md", "extending.md", "pfc.md", "events.md"])
def test_files_and_names_that_a_page_gives_are_in_the_code(page: str) -> None:
    found = list(NAMED.finditer((ROOT / "docs" / page).read_text()))
    assert found
    missing = []
    for match in found:
        path, name = match.groups()
        place = next((each for each in (ROOT / path, ROOT / "testbed" / path) if each.exists()), None)
        if place is None:
            missing.append(match[0])
        elif name:
            text = place.read_text()
            for part in name.split("."):
                if not re.search(rf"\b(?:def|class|int|bool) {part}\b|\b{part}\(", text):
                    missing.append(match[0])
    assert missing == []


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "testbed").rglob("*.py")
}


def _imports(module: str) -> set[str]:
    """Return the modules that a module imports: when it is loaded, and in its functions."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(MODULES[module].read_text())]
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.ImportFrom):
            names = {f"{statement.module}.{name.name}" for name in statement.names}
            found |= {name if name in MODULES else str(statement.module) for name in names}
        elif isinstance(statement, ast.Import):
            found |= {name.name for name in statement.names}
        elif not (isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"):
            waiting += ast.iter_child_nodes(statement)
    return found & MODULES.keys() - {module}


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter({module: _imports(module) for module in MODULES}).prepare()  # CycleError names the cycle


def test_no_class_has_more_than_30_public_methods() -> None:
    large = {
        f"{module}.{node.name}": len(public)
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and len(public := [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_"]) > 30
    }
    assert large == {}


def test_no_module_has_more_than_450_lines() -> None:
    lengths = {module: path.read_text().count("\n") for module, path in MODULES.items()}
    assert {module: length for module, length in lengths.items() if length > 450} == {}
