"""Modules in `vm` are compiled outside of it, to the octets that the lab's own Python makes of them."""

from __future__ import annotations

from testbed.lab.engines.engine import PreparedEngine

from ..conftest import Runner


def test_modules_are_compiled_as_by_the_python_of_the_lab(run: Runner, vm: PreparedEngine) -> None:
    result = run("bytecode:compiles_anew", on=vm).check()
    assert result.figure("modules") > 3
