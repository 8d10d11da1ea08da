"""The face of a fabric without a network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError


def test_counters_take_a_network_that_runs() -> None:
    with pytest.raises(FabricError, match="the network does not run"):
        Fabric(FabricCore()).losses()


def test_the_far_end_of_a_port_is_found_by_its_name_too() -> None:
    core = FabricCore()
    one, other = (cast(Any, SimpleNamespace(slot=slot, name=f"s{slot + 1}-eth1")) for slot in (0, 1))
    core.ports.by_slot, core.ports.slots = {0: one, 1: other}, {"s1-eth1": 0, "s2-eth1": 1}
    assert Fabric(core).far_end("s1-eth1") is other is Fabric(core).far_end(one)
    with pytest.raises(FabricError, match="there is no lossless port s1-eth2; did you mean"):
        Fabric(core).far_end("s1-eth2")
