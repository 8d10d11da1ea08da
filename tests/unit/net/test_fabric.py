"""The face of a fabric without a network."""

from __future__ import annotations

import pytest

from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import FabricError


def test_counters_take_a_network_that_runs() -> None:
    with pytest.raises(FabricError, match="the network does not run"):
        Fabric(FabricCore()).losses()
