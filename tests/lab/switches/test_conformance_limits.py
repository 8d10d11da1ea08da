"""Conformance cases of buffers, watchdog and deadlocks: exact figures, and a fault in the switch is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from tests.lab.conftest import Runner, failed_claims

MEASURED: dict[tuple[str, str, str], dict[str, Any]] = {
    ("xoff_xon_limits", "100G", "static"): {
        "bytes held when XOFF was sent": 2_098_304,
        "bytes of the shared pool held when XON was sent": 2_057_952,
    },
    ("xoff_xon_limits", "100G", "dynamic"): {"bytes held when XOFF was sent": 2_417_792},
    ("headroom_size", "100G", "static"): {
        "bytes taken after XOFF until a frame is dropped, least of all groups": 129_792
    },
    ("watermarks", "400G", "dynamic"): {"bytes: group, shared": 2_399_072, "bytes: group, headroom": 34_944},
    ("l10_deadlock", "400G", "static"): {"queues in each circle": [3], "deadlocks that last at the end": 0},
    ("pause_response", "800G", "static"): {"longest response without a loss": 3728.97},
    ("watchdog_timer", "100G", "dynamic"): {"storms found and over": [6, 6]},
}
"""Figures of the default switch, in bytes and nanoseconds of the hardware."""

SCENARIOS = ("two lossless queues", "two lossless queues, messages of 128 and 4 kB")


@pytest.fixture(autouse=True)
def on_um(ready: PreparedEngine) -> None:
    if ready.engine.name != "um":
        pytest.skip("conformance cases are for the engine um")


@pytest.mark.parametrize(("name", "speed", "buffer"), list(MEASURED))
def test_a_case_measures_what_the_configuration_means(
    ready: PreparedEngine, tmp_path: Path, name: str, speed: str, buffer: str
) -> None:
    result = lab.run(definition.find(name), parameters={"speed": speed, "buffer": buffer}, on=ready, out=tmp_path)
    assert failed_claims(result) == set()
    found = {claim.name: claim.measured for claim in result.claims}
    expected = MEASURED[name, speed, buffer]
    assert {claim: found[claim] for claim in expected} == expected


def failing(run: Runner, fault: str) -> set[str]:
    """The claims that fail, but for those about the control."""
    return {name for name in failed_claims(run(f"conformance_faults:{fault}")) if not name.startswith("control")}


def test_a_look_that_finds_no_circle_is_seen(run: Runner) -> None:
    assert {"deadlocks found", "deadlock until it was broken, longest"} <= failing(run, "no_circle_is_found")


def test_a_watchdog_that_is_late_is_seen(run: Runner) -> None:
    assert failing(run, "a_watchdog_that_is_late") == {"detection, longest"}


def test_xoff_a_frame_early_is_seen(run: Runner) -> None:
    assert "bytes held when XOFF was sent" in failing(run, "xoff_a_frame_early")


def test_xon_a_frame_late_is_seen(run: Runner) -> None:
    assert failing(run, "xon_a_frame_late") == {"bytes of the shared pool held when XON was sent"}


def test_headroom_of_a_frame_less_is_seen(run: Runner) -> None:
    assert {
        "headroom of each group, in cells",
        "first frame dropped, of each group",
    } <= failing(run, "headroom_of_a_frame_less")


def test_watermarks_that_stay_are_seen(run: Runner) -> None:
    found = failing(run, "watermarks_that_stay")
    assert found == {
        f"after clearing: {name}" for name in ("group, shared", "group, headroom", "queue", "ingress pool")
    }


def test_half_the_marks_are_seen(run: Runner) -> None:
    assert "marked half way from Kmin to Kmax, in percent" in failing(run, "half_the_marks")


def test_a_switch_that_pauses_one_of_two_lossless_queues_is_seen(run: Runner) -> None:
    """Pauses of both ranks in sum would be enough: SONiC's issue 20075."""
    found = failing(run, "one_of_two_queues_pauses")
    assert {f"{name}: XOFF for rank 1 on its priority" for name in SCENARIOS} <= found
    assert not {f"{name}: XOFF for rank 0 on its priority" for name in ("one lossless queue", *SCENARIOS)} & found
