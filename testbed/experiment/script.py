"""Python files that are run as they are: `xoff run FILE.py` takes a script for Mininet unchanged.

A script defines no experiment. It is not imported on this machine: its text shows what it is, and which of the files
beside it go along. The lab runs it as a program in a folder with these files, and what it prints and its exit status
are the result (`net/build/script.py`). Subjects have other kinds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from testbed import subject
from testbed.errors import warn
from testbed.units import Rate

if TYPE_CHECKING:
    from testbed.experiment.run import Run

TIMEOUT = "600s"
NO_TUNNELS = "no WireGuard, and no tunnels but those of SRv6; docs/howto/run-a-mininet-script.md says what it has"
MININET = "mininet"
_MARK, _OURS = "experiment", ("xoff", "testbed")
_MARKED = re.compile(rb"^@(\w+\.)?experiment\b", re.MULTILINE)
_TOPOLOGIES = "topos"
_CONFTEST = "conftest"
_WORDS = re.compile(r"[^\s\"'`<>|&;,=:(){}\[\]*?$!]+")
"""A word that may be the name of a file, in a line for a shell or in another text."""
_BESIDE = ("", "templates", "static")
"""The folders in which a name is looked for, from the script's and from that of the file that has the name."""
_MOST_OCTETS, _MOST_FILES = 4 << 20, 200
"""The limits of one file, and of a folder, that go along for their name."""
_LONGEST_TEXT = 1 << 16
"""The octets of a file in which names of others are looked for."""
_DEFINES = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign,
)  # fmt: skip
_MISSING = re.compile(
    rb"\btype\s+(wireguard|vxlan|geneve|gre|gretap|ip6gre|ipip|sit|macsec|bond|team)\b|\b(wireguard|wg-quick|tuntap)\b"
)
"""Interfaces that the kernel of `um` does not have (`lab/um/linux/uml.config`), as users ask for them."""
_parsing = Lock()
"""Python before 3.11.9 raises SystemError if two threads make syntax trees at a time (cpython issue 106905)."""


class ScriptKind(NamedTuple):
    """A kind of scripts that run as they are."""

    is_script: Callable[[Path], bool]
    """A function that tells by a file's text whether it is one."""
    signature: Callable[..., None]
    """A function with the parameters and the docstring of such an experiment; it is not called."""
    runner: str
    """The name of the function that runs it in the lab, "MODULE:OBJECT"; its first argument is the file."""
    packages: tuple[str, ...] = ()
    """Python packages that it takes."""


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
    """Return the files below a script's folder that it takes with it, relative to that folder.

    These are the modules that it imports, conftest.py for pytest, the programs, data and folders that it names, and
    what those import and name in turn.
    """
    folder = path.parent.resolve()
    taken: dict[Path, None] = {}
    waiting = [folder / path.name]
    while waiting:
        one = waiting.pop()
        for other in (*_imported_by(one, folder), *_named_in(one, folder)):
            if other != folder / path.name and other not in taken:
                taken[other] = None
                waiting.append(other)
    return tuple(str(one.relative_to(folder)) for one in sorted(taken))


def imported(*paths: Path) -> set[str]:
    """Return the first part of the name of every module that these files import, anywhere in them."""
    return {name for tree in map(_tree, paths) if tree is not None for name in _imports(tree)}


def warn_of_missing_interfaces(path: Path) -> None:
    """Say which kinds of interfaces that a file asks for the kernel of `um` lacks; iproute2 has no name for them."""
    found = sorted({(link or word).decode() for link, word in _MISSING.findall(octets(path))})
    if found:
        warn(f"{path.name} asks for {', '.join(found)}, and the kernel of the engine um has {NO_TUNNELS}")


def octets(path: Path) -> bytes:
    """Return the content of a file; it is empty if the file cannot be read, which the import of it reports."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _modules_along(path: Path) -> list[Path]:
    taken: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        tree = _tree(waiting.pop())
        names = [*_imports(tree), _CONFTEST] if tree else []
        for name in names:
            for one in _modules(path.parent, name):
                if one != path and one not in taken:
                    taken[one] = None
                    waiting.append(one)
    return list(taken)


def _imported_by(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the modules below the script's folder that a file of Python imports, if it is one."""
    if path.suffix == ".py" and (tree := _tree(path)) is not None:
        for name in (*_imports(tree), _CONFTEST):
            for beside in dict.fromkeys((folder, path.parent)):
                yield from _modules(beside, name)


def _named_in(path: Path, folder: Path) -> Iterator[Path]:
    """Yield the files below the script's folder that a file names: those in folders that it names, too."""
    for text in _texts(path):
        for name in dict.fromkeys((text, *_WORDS.findall(text))):
            for beside in dict.fromkeys((folder, path.parent)):
                yield from _of_name(name, beside, folder, path)


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts in which a file may name others: strings of Python, or the lines of another text."""
    content = octets(path)
    if path.suffix == ".py":
        if (tree := _tree(path)) is not None:
            yield from (node.value for node in ast.walk(tree) if _is_string(node))  # type: ignore[attr-defined]
    elif len(content) <= _LONGEST_TEXT and b"\0" not in content:
        yield from content.decode(errors="replace").splitlines()


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _of_name(name: str, beside: Path, folder: Path, by: Path) -> Iterator[Path]:
    if not name.strip("./~") or "\0" in name or len(name) > 255:
        return
    for place in _BESIDE[:1] if ".." in name else _BESIDE:
        try:
            one = (beside / place / name.lstrip("/")).resolve()  # a folder may be before it, as in f"{HERE}/load.sh"
            if not one.is_relative_to(folder) or one == folder:
                continue
            if one.is_file():
                if one.stat().st_size <= _MOST_OCTETS:
                    yield one
                else:
                    _leave(by, one, f"has more than {_MOST_OCTETS >> 20} MB")
            elif one.is_dir():
                yield from _whole_folder(one, by)
        except OSError:  # a name that no file can have here
            continue


def _whole_folder(folder: Path, by: Path) -> list[Path]:
    inside, octets = [], 0
    for one in folder.rglob("*"):
        if one.is_file() and not any(part.startswith((".", "__pycache__")) for part in one.relative_to(folder).parts):
            inside.append(one)
            octets += one.stat().st_size
        if len(inside) > _MOST_FILES or octets > _MOST_OCTETS:
            _leave(by, folder, f"has more than {_MOST_FILES} files or {_MOST_OCTETS >> 20} MB")
            return []
    return inside


@cache
def _leave(by: Path, left: Path, why: str) -> None:
    """Say once that a file or folder of this name does not travel: it may be what an earlier run has written."""
    warn(f"{by.name} names {left.name}, which {why} and does not go along")


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


PROGRAM = ScriptKind(is_script, body, "testbed.net.build.script:run_script")
"""A script of Mininet."""


def kinds() -> tuple[ScriptKind, ...]:
    """Return all kinds of scripts, those of subjects first: they are told by what they import."""
    return (*(kind for kinds in subject.loaded("scripts") for kind in kinds), PROGRAM)
