"""Python files that are run as they are: `xoff run FILE.py` takes a script for Mininet unchanged.

A script defines no experiment. It is not imported on this machine: its text shows what it is, and which of the files
beside it go along. The lab runs it as a program, and what it prints and its exit status are the result
(`net/build/script.py`). Scripts of snappi have more to them (`snappi_script.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from testbed.units import Rate

if TYPE_CHECKING:
    from testbed.experiment.run import Run

TIMEOUT = "600s"
MININET = "mininet"
_MARK, _OURS = "experiment", ("xoff", "testbed")
_MARKED = re.compile(rb"^@(\w+\.)?experiment\b", re.MULTILINE)
_TOPOLOGIES = "topos"
_CONFTEST = "conftest"
_DATA = (".json", ".yaml", ".yml")
_DEFINES = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
)  # fmt: skip
_parsing = Lock()
"""Python before 3.11.9 raises SystemError if two threads make syntax trees at a time (cpython issue 106905)."""


class ScriptKind(Enum):
    """The kinds of scripts, by the program that runs them in the lab."""

    PROGRAM = "program"
    """Python, as it runs any program; with networks of Mininet made ready if the script imports that."""
    SNAPPI = "snappi"
    """Python or pytest, with snappi's API on the lab's test ports."""


def is_marked(path: Path) -> bool:
    """Return whether `@experiment` is on a line of its own in this file."""
    return _MARKED.search(octets(path)) is not None


def is_script(path: Path) -> bool:
    """Return whether this file does something when it is run, and marks nothing with @experiment."""
    tree = _tree(path)
    if tree is None or _has_mark(tree):
        return False
    return not all(isinstance(node, _DEFINES) or _is_text(node) for node in tree.body)


def is_of_topologies(path: Path) -> bool:
    """Return whether this file defines `topos`, by which `mn --custom` finds topologies."""
    tree = _tree(path)
    return tree is not None and any(
        isinstance(target, ast.Name) and target.id == _TOPOLOGIES
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


def body(run: Run, arguments: str = "", line: Rate = Rate("1Gb/s")) -> None:
    """A script; arguments: those of its command line; line: the rate of links of Mininet that have none."""
    raise RuntimeError("a script is run as a file")


def imported_along(path: Path) -> set[str]:
    """Return the first part of the name of every module that a script and the modules beside it import."""
    return imported(path, *_modules_along(path))


def files(path: Path) -> tuple[str, ...]:
    """Return the files beside a script that it takes with it, relative to its folder.

    These are the modules that it imports, those that they import, conftest.py for pytest, and data whose file is named
    in one of them.
    """
    along = _modules_along(path)
    texts = [one.read_text(errors="replace") for one in (path, *along)]
    data = [
        one
        for one in path.parent.iterdir()
        if one.suffix in _DATA and one.is_file() and any(one.name in text for text in texts)
    ]
    return tuple(str(one.relative_to(path.parent)) for one in sorted([*along, *data]))


def imported(*paths: Path) -> set[str]:
    """Return the first part of the name of every module that these files import, anywhere in them."""
    return {name for tree in map(_tree, paths) if tree is not None for name in _imports(tree)}


def octets(path: Path) -> bytes:
    """Return the content of a file; it is empty if the file cannot be read, which the import of it reports."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _modules_along(path: Path) -> list[Path]:
    found: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        tree = _tree(waiting.pop())
        names = [*_imports(tree), _CONFTEST] if tree else []
        for name in names:
            for one in _modules(path.parent, name):
                if one != path and one not in found:
                    found[one] = None
                    waiting.append(one)
    return list(found)


def _has_mark(tree: ast.Module) -> bool:
    """Return whether a file imports `experiment`, or takes it from a module of ours."""
    of_ours = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            of_ours = of_ours or (node.module or "").partition(".")[0] in _OURS
            if any(alias.name == _MARK or (of_ours and alias.name == "*") for alias in node.names):
                return True
        elif isinstance(node, ast.Import):
            of_ours = of_ours or any(alias.name.partition(".")[0] in _OURS for alias in node.names)
    return of_ours and any(isinstance(node, ast.Attribute) and node.attr == _MARK for node in ast.walk(tree))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _modules(folder: Path, name: str) -> Iterator[Path]:
    if (module := folder / f"{name}.py").is_file():
        yield module
    elif (folder / name / "__init__.py").is_file():
        yield from (folder / name).rglob("*.py")


def _tree(path: Path) -> ast.Module | None:
    try:
        with _parsing:
            return ast.parse(octets(path))
    except (SyntaxError, ValueError):
        return None  # whoever imports it reports it


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the first part of the name of every module that is imported anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
