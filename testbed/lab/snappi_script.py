"""Scripts of snappi as experiments: `xoff run script.py` takes one as it is.

Such a script imports snappi, and nothing in it is marked with @experiment. It is not imported on this machine: its
text shows what it is, and which of the files beside it go along. What it does is in `net/test_ports/script.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from testbed.units import Rate

if TYPE_CHECKING:
    from testbed.lab.experiment_run import Run

PACKAGE = "snappi"
TIMEOUT = "600s"
_CONFTEST = "conftest"
_DATA = (".json", ".yaml", ".yml")
_parsing = Lock()
"""Python before 3.11.9 raises SystemError if two threads make syntax trees at a time (cpython issue 106905)."""


def is_script(path: Path) -> bool:
    """Does this file import snappi, or a test's conftest.py beside it, and does it define no experiment?"""
    files = [path, *([path.with_name(f"{_CONFTEST}.py")] if path.stem.startswith("test_") else [])]
    if not any(PACKAGE.encode() in _octets(file) for file in files):
        return False  # nearly all files; parsing takes longer
    names = set().union(*map(_imported, files))
    return PACKAGE in names and "testbed" not in names


def body(path: Path) -> Callable[..., None]:
    """What runs the script in the lab, with the parameters that `--set` can change."""

    def script(run: Run, topology: str = "", line: Rate = Rate("100Mb/s")) -> None:
        """A script of snappi; topology: a network to test, in place of one switch whose fastest port has `line`."""
        from testbed.net.test_ports.script import run_script

        run_script(run, path, topology, line)

    script.__name__ = path.stem
    return script


def files(path: Path) -> tuple[str, ...]:
    """What a script takes with it, of what is beside it: modules that it imports, and those that they import,
    conftest.py for pytest, and data whose file is named in one of them."""
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
    texts = [one.read_text(errors="replace") for one in (path, *found)]
    data = [
        one
        for one in path.parent.iterdir()
        if one.suffix in _DATA and one.is_file() and any(one.name in text for text in texts)
    ]
    return tuple(str(one.relative_to(path.parent)) for one in sorted([*found, *data]))


def _imported(path: Path) -> set[str]:
    tree = _tree(path)
    return set(_imports(tree)) if tree else set()


def _modules(folder: Path, name: str) -> Iterator[Path]:
    if (module := folder / f"{name}.py").is_file():
        yield module
    elif (folder / name / "__init__.py").is_file():
        yield from (folder / name).rglob("*.py")


def _octets(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # whoever imports it reports it


def _tree(path: Path) -> ast.Module | None:
    try:
        with _parsing:
            return ast.parse(_octets(path))
    except (SyntaxError, ValueError):
        return None  # likewise


def _imports(tree: ast.Module) -> Iterator[str]:
    """The first part of the name of every module that is imported anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
