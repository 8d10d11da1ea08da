"""The experiments about End.X.PFC over an SRv6 WAN."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims, kept

EXPERIMENTS = (
    "wan_read", "wan_controller", "wan_headroom", "cross_dc", "wan_tenants", "wan_distance", "wan_ring", "wan_deadlock",
)  # fmt: skip


@pytest.mark.parametrize("name", [*EXPERIMENTS, pytest.param("wan_isis", marks=pytest.mark.long)])
def test_every_claim_holds_and_the_lab_kept_its_promises(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    kept(name, ready, tmp_path)


def failing(run: Runner, fault: str) -> set[str]:
    return failed_claims(run(f"wan_faults:{fault}"))


def test_a_pause_of_one_slice_that_stops_the_other_is_seen_at_blue(run: Runner) -> None:
    result = run("wan_faults:a_pause_of_all_slices")
    found = failed_claims(result)
    assert "slices: queues that stopped at J" in found
    assert "slices: lost" not in found
    # Blue makes up for its pauses, so its goodput may not show them; its frames are late.
    waits, before = (result.figure(f"{phase}: blue's longest way, in us") for phase in ("slices", "before red sends"))
    assert waits > 2 * before


def test_headroom_for_one_way_is_seen_as_loss(run: Runner) -> None:
    assert "100km: lost" in failing(run, "headroom_for_one_way")


def test_an_end_of_congestion_that_is_not_told_is_seen_as_a_standstill(run: Runner) -> None:
    found = failing(run, "tunnels_that_never_say_go_on")
    assert "all overloaded: frames from a1 to b1 in the worst window" in found
    assert "in the end: what is stopped" in found
    assert "dropped by any buffer" not in found
