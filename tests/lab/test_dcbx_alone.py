"""`xoff agent` and `xoff dcbx` on interfaces of a real kernel."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize("name", ["links", "settings", "ends", "command_line"])
def test_agent(run: Runner, name: str) -> None:
    run(f"alone:{name}").check()
