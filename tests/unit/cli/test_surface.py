"""The surface of `xoff new`: its kinds have templates that stand on the public face alone, and pages name them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import xoff
from testbed.cli.first_steps import new

ROOT = Path(__file__).parents[3]
_PAGES = "\n".join(page.read_text() for page in sorted((ROOT / "docs").rglob("*.md")))


@pytest.mark.parametrize("kind", new._TEMPLATES)
def test_a_page_names_the_kind(kind: str) -> None:
    assert f"xoff new {kind}" in _PAGES


@pytest.mark.parametrize("template", sorted({name for files in new._TEMPLATES.values() for name in files}))
def test_a_template_imports_what_the_public_face_has(template: str) -> None:
    tree = ast.parse((ROOT / "experiments/templates" / template).read_text())
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "xoff"]
    names = [one.name for node in taken for one in node.names]
    assert names, "a template that takes nothing of xoff shows nothing of it"
    assert [name for name in names if name not in xoff.__all__] == []
