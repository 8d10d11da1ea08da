"""Some seconds of `tests.soak_controller`; `bench/controller.py soak` takes ten minutes, and times."""

from __future__ import annotations

import importlib.util

import pytest

from tests.soak_controller import TRICKS, Soak

here = pytest.mark.skipif(
    importlib.util.find_spec("os_ken") is None, reason="os-ken is not installed beside the tests; the lab has it"
)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["alone", pytest.param("os-ken", marks=here)])
def test_hostile_clients_keep_no_operator_and_no_router_out(library: str) -> None:
    with Soak(library, hostile=len(TRICKS) * 4) as soak:
        soak.run(6)
    assert soak.held(), soak.text() + soak.log
    assert soak.answers["given"] >= 5
    doors = {trick[0] for name, trick in TRICKS.items() if soak.attempts[name]}
    assert doors == ({"agents", "rest"} if library == "alone" else {"agents", "rest", "openflow"})
