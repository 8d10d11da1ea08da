"""The archive of Xoff's own code for the browser: the modules that the calculators import, and no others.

Imports are read from the sources, those in functions too, so that nothing is missing later. What subjects plug in is
imported by name at run time; their decoders of frames are added.
"""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from functools import cache
from pathlib import Path

from testbed import subject

ROOT = Path(__file__).parents[2]
ENTRY = "tools.calculators.table"
ELSEWHERE = "testbed.plugins"
"""A module that is left out: it finds installed packages, of which a browser has none."""
_PACKAGES = ("testbed", "tools")
_TIME = (1980, 1, 1, 0, 0, 0)


def roots() -> list[str]:
    """Return the modules that the browser imports by name."""
    found = [ENTRY, "testbed.subjects"]
    for one in subject.own():
        found.append(f"testbed.subjects.{one.name}.subject")
        found += [one.decoders.partition(":")[0]] if one.decoders else []
    return found


def closure() -> dict[str, Path]:
    """Return the modules that the calculators need, with their files."""
    found: dict[str, Path] = {}
    waiting = roots()
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name in found or path is None or name == ELSEWHERE:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *imports(path)]
    return dict(sorted(found.items()))


def further(modules: dict[str, Path]) -> set[str]:
    """Return the modules that these import from elsewhere, by the first part of their names."""
    named = {name.partition(".")[0] for path in modules.values() for name in imports(path)}
    return named - set(_PACKAGES)


def imports(path: Path) -> set[str]:
    """Return the names that a module imports, in functions too, and of `from a import b` both `a` and `a.b`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [_tree(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def archive() -> bytes:
    """Return the archive, which has the same octets for the same sources."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for path in closure().values():
            entry = zipfile.ZipInfo(str(path.relative_to(ROOT)), _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, path.read_bytes())
    return content.getvalue()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _file(name: str) -> Path | None:
    if name.partition(".")[0] not in _PACKAGES:
        return None
    place = ROOT.joinpath(*name.split("."))
    return next((one for one in (place.with_suffix(".py"), place / "__init__.py") if one.is_file()), None)


if __name__ == "__main__":
    sys.stdout.buffer.write(archive())
