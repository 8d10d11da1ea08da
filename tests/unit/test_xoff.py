"""The public face: what it exports is there, has types, and is on the page about it."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

import pytest

import xoff
from testbed import shipped_packages
from testbed.lab.job import job
from testbed.units import Quantity
from tools import api_page

ROOT = Path(__file__).parents[2]
FACE = ROOT / "xoff.py"


def _seen_by_type_checkers() -> dict[str, tuple[str, str]]:
    """The module and the own name there of each name that `if TYPE_CHECKING` imports."""
    (block,) = (node for node in ast.parse(FACE.read_text()).body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: (str(statement.module), alias.name)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_type_checkers_see_what_a_program_gets() -> None:
    assert _seen_by_type_checkers().keys() == set(xoff.__all__)
    for name, (module, own) in _seen_by_type_checkers().items():
        assert getattr(xoff, name) is getattr(importlib.import_module(module), own), name


def test_dir_lists_the_public_names() -> None:
    assert dir(xoff) == sorted(xoff.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'xoff' has no attribute 'Flo'"):
        xoff.Flo  # noqa: B018


def test_the_page_of_the_api_is_made_from_it() -> None:
    assert api_page.PAGE.read_text() == api_page.text(), "python tools/api_page.py writes the page"


IMPORT = re.compile(r"^\s*(from|import) xoff\b", re.MULTILINE)


def test_nothing_that_it_exports_imports_it() -> None:
    """The face stands on everything else: a module below that imported it would get a half-loaded one."""
    found = [
        str(path.relative_to(ROOT))
        for package in ("testbed", "topologies", "controllers", "snappi_xoff")
        for path in (ROOT / package).rglob("*.py")
        if IMPORT.search(text := path.read_text())  # parsing them all takes seconds
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.ImportFrom) and node.module == "xoff")
        or (isinstance(node, ast.Import) and any(alias.name == "xoff" for alias in node.names))
    ]
    assert found == []


def test_jobs_have_it() -> None:
    assert job.code()["xoff.py"] == FACE.read_bytes()


WITHOUT_MININET = """
import importlib, sys
sys.modules["mininet"] = None  # any import of it fails
import xoff
for name in xoff.__all__:
    getattr(xoff, name)
for module in sys.argv[1:]:
    importlib.import_module(module)
assert [link[:2] for link in xoff.Incast(2).links()] == [("h1", "s1"), ("h2", "s1"), ("r", "s1")]
try:
    with xoff.network(xoff.Incast(2)):
        pass
except xoff.XoffError as error:
    print(error)
"""


@pytest.mark.slow
def test_all_of_it_and_every_topology_and_experiment_can_be_imported_without_mininet() -> None:
    modules = [
        shipped_packages.module(package, path)
        for package in (
            shipped_packages.TOPOLOGIES,
            shipped_packages.EXPERIMENTS,
            shipped_packages.CONFORMANCE,
            shipped_packages.PUBLISHED,
        )
        for path in shipped_packages.files(package).values()
    ]
    command = [sys.executable, "-c", WITHOUT_MININET, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("a network needs Mininet, which is not on this machine"), done.stdout


SAMPLES = {"Duration": "5us", "Size": "64KiB", "Rate": "1Gb/s", "Length": "5m"}


def _quantities() -> Iterator[tuple[type, str, str]]:
    """Yield the classes of settings that need no argument, with each field that is a quantity and a value as text."""
    for kind in (getattr(xoff, name) for name in xoff.__all__):
        if not (isinstance(kind, type) and is_dataclass(kind)):
            continue
        own = [one for one in fields(kind) if one.init]
        if any(one.default is MISSING and one.default_factory is MISSING for one in own):
            continue
        for one in own:
            if (unit := str(one.type).removesuffix(" | None")) in SAMPLES:
                yield kind, one.name, SAMPLES[unit] if one.default in (None, MISSING) else str(one.default)


@pytest.mark.parametrize(
    ("kind", "name", "text"), list(_quantities()), ids=lambda one: getattr(one, "__name__", str(one))
)
def test_a_quantity_may_be_text_wherever_settings_have_one(kind: type, name: str, text: str) -> None:
    assert isinstance(getattr(kind(**{name: text}), name), Quantity)


def test_a_text_that_is_no_quantity_is_refused_with_the_name_of_the_field() -> None:
    with pytest.raises(xoff.XoffError, match=r"^Roce\(message=...\): '64' "):
        xoff.Roce(message="64")  # type: ignore[arg-type]
    with pytest.raises(xoff.XoffError, match=r"^Roce\(message=...\): a size is read from text .* not from 65536$"):
        xoff.Roce(message=65536)  # type: ignore[arg-type]
