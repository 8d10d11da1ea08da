"""The face of a fabric: names that moved into its core warn and still work."""

from __future__ import annotations

import pytest

from testbed.net.fabric.core import FabricCore
from testbed.net.fabric.fabric import _MOVED, Fabric
from testbed.net.fabric.ports import FabricError


@pytest.mark.parametrize("name", sorted(set(_MOVED) - {"deadlock_poll"}))
def test_a_name_that_moved_into_the_core_warns_of_its_place_and_still_works(name: str) -> None:
    core = FabricCore()
    with pytest.warns(FutureWarning, match=rf"net\.fabric\.{name} is net\.fabric\.core\.\w+"):
        found = getattr(Fabric(core), name)
    expected: object = core
    for part in _MOVED[name].split(".")[1:]:
        expected = getattr(expected, part)
    assert found == expected


def test_a_name_that_a_fabric_never_had_is_refused() -> None:
    with pytest.raises(AttributeError, match="a fabric has no grup"):
        Fabric(FabricCore()).grup  # type: ignore[attr-defined]  # noqa: B018


def test_counters_take_a_network_that_runs() -> None:
    with pytest.raises(FabricError, match="the network does not run"):
        Fabric(FabricCore()).losses()
