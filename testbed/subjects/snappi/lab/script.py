"""The runner of snappi's scripts in the lab, unchanged: `snappi.api` means the lab's test ports with any arguments."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from testbed.experiment import script
from testbed.experiment.run import Run
from testbed.experiment.script_tests import must_pass
from testbed.net.build.network import network
from testbed.net.build.script import as_program, place_files
from testbed.net.shell import topologies
from testbed.subjects.snappi.lab.session import Session
from testbed.units import Rate

_KEPT = ("logger", "loglevel", "version_check")
"""The arguments of `snappi.api` that have a meaning here. The address of a server has none."""


def run_script(source: Path, run: Run, topology: str, line: Rate) -> None:
    """Run the script as a program, or by pytest if it has tests and no main part."""
    Session.line = line
    place_files(source)
    built = network(topologies.build(topology), run) if topology else nullcontext()
    with built, _our_api(), must_pass({"pytest", *script.imported_along(source)}):
        if _is_for_pytest(source):
            import pytest

            pytest.main(["-p", "no:cacheprovider", "-s", "-q", str(source)])
        else:
            try:
                as_program(source)
            finally:
                Session.close_all()


@contextmanager
def _our_api() -> Iterator[None]:
    import snappi

    original = snappi.api
    places = [sys.modules[name] for name in ("snappi", "snappi.snappi") if name in sys.modules]

    def api(*_: Any, **options: Any) -> Any:
        return original(ext="xoff", **{name: value for name, value in options.items() if name in _KEPT})

    for module in places:
        setattr(module, "api", api)  # noqa: B010 - of modules that mypy has no types of
    try:
        yield
    finally:
        Session.close_all()
        for module in places:
            setattr(module, "api", original)  # noqa: B010


def _is_for_pytest(source: Path) -> bool:
    tree = ast.parse(source.read_bytes())
    inside = [node for kind in tree.body if isinstance(kind, ast.ClassDef) for node in kind.body]
    functions = [node for node in (*tree.body, *inside) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    has_tests = any(node.name.startswith("test_") for node in functions)
    has_main = any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)
    return has_tests and not has_main
