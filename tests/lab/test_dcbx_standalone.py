"""`xoff agent` and `xoff dcbx` on interfaces of a real kernel."""

from __future__ import annotations

import pytest

from .conftest import Runner


@pytest.mark.parametrize("name", ["links", "settings", "ends", "command_line", "unprivileged", "hostile"])
def test_agent(run: Runner, name: str) -> None:
    run(f"standalone:{name}").check()


def test_an_lldp_socket_returns_lldp_from_others_without_a_tag_and_nothing_else(run: Runner) -> None:
    run("standalone:sockets").check()
