"""The subject of an experiment that comes with Xoff: its docstring.

The experiment's file is parsed and not imported, and only files of this installation are read: the name in a result may
be anybody's. A result of a user's own file says nothing here.
"""

from __future__ import annotations

import ast
from functools import cache

from testbed import shipped_packages
from testbed.lab.results.folder import Folder
from testbed.report.pages.markup import Html, text


def question(folder: Folder) -> Html:
    """Return what the experiment of a result is about: its first line, and the rest; or an empty text."""
    name = folder.result["experiment"]
    match folder.result.get("again"):
        case {"command": ["run", str(asked), *_]} if asked != name:
            return Html("")  # a file of the user's, which may have an experiment of the same name
    first, _, rest = _docstring(name).partition("\n\n") if name.isidentifier() else ("", "", "")
    lead = f'<p class="lead">{text(" ".join(first.split()))}</p>' if first else ""
    return Html(lead + (f'<p class="note">{text(" ".join(rest.split()), 1200)}</p>' if rest else ""))


@cache
def _docstring(name: str) -> str:
    for package in (shipped_packages.EXPERIMENTS, shipped_packages.CONFORMANCE, shipped_packages.PUBLISHED):
        path = shipped_packages.files(package).get(name)
        if path is None:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return ast.get_docstring(node) or ""
    return ""
