"""The source of classes and functions that are lowered.

A file is read when its class is made, which is when its module is imported: to read a file in a running lab takes time
of the lab, and so moves what happens next.
"""

from __future__ import annotations

import ast
import types
from contextlib import suppress
from pathlib import Path

_texts: dict[str, str] = {}
_functions: dict[str, dict[tuple[str, int], ast.FunctionDef]] = {}


def keep(file: str | None) -> None:
    """Read a file of Python, unless it has been read; one that cannot be read has no source."""
    if file is not None and file not in _texts:
        _texts[file] = ""
        with suppress(OSError, UnicodeDecodeError):
            _texts[file] = Path(file).read_text()


def function(of: types.FunctionType) -> ast.FunctionDef | None:
    """Return the syntax tree of a function, or None if its source is not at hand."""
    code = of.__code__
    keep(code.co_filename)
    known = _functions.get(code.co_filename)
    if known is None:
        known = _functions[code.co_filename] = {}
        with suppress(SyntaxError):
            for node in ast.walk(ast.parse(_texts[code.co_filename])):
                if isinstance(node, ast.FunctionDef):
                    first = min((node.lineno, *(one.lineno for one in node.decorator_list)))
                    known[node.name, first] = node
    return known.get((code.co_name, code.co_firstlineno))
