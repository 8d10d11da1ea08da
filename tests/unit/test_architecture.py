"""Pages name files that exist, modules form no cycle, and classes stay small."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
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


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def _imports(module: str) -> set[str]:
    """Return the modules that a module imports: when it is loaded, and in its functions."""
    found: set[str] = set()
    waiting: list[ast.AST] = [_tree(module)]
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


@pytest.mark.slow
def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter({module: _imports(module) for module in MODULES}).prepare()  # CycleError names the cycle


HALVES = {"agent", "commands", "daemon", "lab", "report", "rest", "script", "subject"}
"""The rooms and modules of a subject that stand on the lab; all others are its model."""
OF_THE_LAB = re.compile(r"testbed\.(agent|cli|experiment|lab|linux|measures|net|plot|report|serve)\b")


def test_the_model_of_a_subject_imports_nothing_of_the_lab() -> None:
    found = []
    for module in MODULES:
        _, *rest = module.split(".")
        if rest[:1] != ["subjects"] or len(rest) < 3 or rest[1] == "lessons" or rest[2] in HALVES:
            continue
        found += [f"{module} -> {name}" for name in _imports(module) if OF_THE_LAB.match(name)]
        own = tuple(f"testbed.subjects.{rest[1]}.{half}" for half in HALVES - {"rest"})
        found += [f"{module} -> {name}" for name in _imports(module) if name.startswith(own)]
    assert found == []


MININETS = ("testbed.net.build.graph.Topo",)
"""Classes with the interface of one of Mininet's: who knows that knows these names."""


def _names_of(target: ast.expr) -> set[str]:
    """Return the names that an assignment to this target gives an object, in its class or by `self`."""
    match target:
        case ast.Name(name) | ast.Attribute(ast.Name("self"), name):
            return {name}
        case ast.Tuple(parts):
            return set().union(*map(_names_of, parts))
    return set()


def _own_names(definition: ast.ClassDef) -> set[str]:
    """Return the public names of methods, properties and attributes that a class defines, apart from fields of records
    and members of enumerations, which are entries of a table."""
    found = set()
    is_enumeration = any("Enum" in ast.unparse(base) for base in definition.bases)
    is_record = any("dataclass" in ast.unparse(decorator) for decorator in definition.decorator_list)
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(statement.name)
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    found |= _names_of(node)
        elif isinstance(statement, ast.AnnAssign) and not is_record:
            found |= _names_of(statement.target)
        elif isinstance(statement, ast.Assign) and not is_enumeration:
            found |= set().union(*map(_names_of, statement.targets))
    return {name for name in found if not name.startswith("_")}


@pytest.mark.slow
def test_no_class_has_more_than_30_public_names_inherited_ones_included() -> None:
    trees = {module: _tree(module) for module in MODULES}
    classes, imported = dict[str, ast.ClassDef](), dict[str, str]()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[f"{module}.{node.name}"] = node
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{module}.{one.asname or one.name}": f"{node.module}.{one.name}" for one in node.names}

    def names(place: str) -> set[str]:
        module = place.rpartition(".")[0]
        found = _own_names(classes[place])
        for base in classes[place].bases:
            parent = f"{module}.{ast.unparse(base)}"
            parent = imported.get(parent, parent)
            if parent in classes and parent not in (place, *MININETS):
                found |= names(parent)
        return found

    assert {place: len(found) for place in classes if len(found := names(place)) > 30} == {}


def test_no_module_has_more_than_600_lines() -> None:
    lengths = {module: path.read_text().count("\n") for module, path in MODULES.items()}
    assert {module: length for module, length in lengths.items() if length > 600} == {}


def test_no_room_has_more_than_15_modules() -> None:
    rooms = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    assert {str(room.relative_to(ROOT)): count for room, count in rooms.items() if count > 15} == {}


def test_no_command_writes_into_the_options_that_it_was_given() -> None:
    written = [
        f"{module}:{node.lineno}"
        for module in MODULES
        if module.startswith("testbed.cli.")
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name) and node.value.id == "options"
    ]  # fmt: skip
    assert written == []
