"""A network that is used without its `with` block says so."""

from __future__ import annotations

import pytest

from testbed.net.fabric.ports import FabricError
from xoff import Incast, network


def test_a_network_without_its_block_names_the_block_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    net = network(Incast(2))
    with pytest.raises(FabricError, match=r"network\(\.\.\.\) has no run: .* `with network\(\.\.\.\) as net:`"):
        _ = net.run
    with pytest.raises(FabricError, match=r"has no node h1"):
        net["h1"]
    assert capsys.readouterr().err == ""
    del net
    assert capsys.readouterr().err.startswith("warning: network(...) was called, and no network was started")
