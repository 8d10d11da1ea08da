"""Who observes a run on `um` changes nothing of it: all that the digest is made of is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.lab.engines.engine import PreparedEngine
from testbed.units import Duration

from .conftest import Runner

pytestmark = pytest.mark.engines("um")
EXPERIMENTS: dict[str, dict[str, str]] = {
    "incast": {"frames": "200"},  # UDP, and PFC
    "hello": {},  # TCP
    "tcp_beside_roce": {},
    "dcqcn": {},
    "timely": {},
    "go_back_n": {},  # losses that the kernel draws
    "storm": {},  # the watchdog
    "dcbx_negotiation": {},
    "wan_read": {},  # segment routing, and reads over a distance
    "conservation": {},  # what a run left has its own order
}
SERIES = Duration("50us").ns
OBSERVERS: dict[str, dict[str, Any]] = {
    "captures": {"capture_octets": 96},
    "series": {"series_ns": SERIES},
    "a follower": {"follow": lambda line: None},
}


def inputs(result: lab.Result) -> dict[str, Any]:
    """Return what the digest is made of, without what observers have left."""
    assert result.status == "ok", result.reason
    found = result.as_json()
    for name in ("digest", "provenance", "times", "again", "parameters"):
        del found[name]
    own = {name: digest for name, digest in found["files"].items() if not name.startswith(("captures/", "series-"))}
    return found | {"files": own, "virtual_ns": result.times.virtual_ns}


def same(name: str, ready: PreparedEngine, out: Path, *observers: dict[str, Any]) -> None:
    def run(**observed: Any) -> lab.Result:
        return lab.run(name, parameters=EXPERIMENTS[name], on=ready, out=out, **observed)

    alone = inputs(run())
    for observed in observers:
        result = run(**observed)
        assert inputs(result) == alone, list(observed)
        left = {file.partition("/")[0].partition("-")[0] for file in result.files}
        has_ports = name != "hello"  # which has no lossless one
        assert ("captures" in left, "series" in left) == (
            "capture_octets" in observed,
            "series_ns" in observed and has_ports,
        )


MOVED = "dcqcn", "go_back_n", "tcp_beside_roce", "wan_read"
"""Experiments whose later networks a capture moves."""
_AFTER_CAPTURES = pytest.mark.xfail(
    reason="the end of a capture can move the end of its network by up to some us, and all networks after it"
)
_AFTER_LOOKS = pytest.mark.xfail(
    reason="to ask for the length of a log has its next writer read the clock once more, which takes 1 ns"
)
_CAPTURED = [pytest.param(name, marks=[_AFTER_CAPTURES] if name in MOVED else []) for name in EXPERIMENTS]


_FOLLOWED = [pytest.param(name, marks=[_AFTER_LOOKS] if name == "dcbx_negotiation" else []) for name in EXPERIMENTS]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_series_change_nothing(name: str, ready: PreparedEngine, tmp_path: Path) -> None:
    # This network has no scale: in its 40 s there would be 800 000 samples.
    every = Duration("10ms").ns if name == "dcbx_negotiation" else SERIES
    same(name, ready, tmp_path, {"series_ns": every})


@pytest.mark.parametrize("name", _FOLLOWED)
def test_a_follower_changes_nothing(name: str, ready: PreparedEngine, tmp_path: Path) -> None:
    same(name, ready, tmp_path, OBSERVERS["a follower"])


@pytest.mark.parametrize("name", _CAPTURED)
def test_captures_change_nothing(name: str, ready: PreparedEngine, tmp_path: Path) -> None:
    same(name, ready, tmp_path, OBSERVERS["captures"])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in (*MOVED, "dcbx_negotiation")])
def test_all_observers_at_once_change_nothing(name: str, ready: PreparedEngine, tmp_path: Path) -> None:
    same(name, ready, tmp_path, {key: value for one in OBSERVERS.values() for key, value in one.items()})


def test_samples_of_rate_controls_change_nothing(run: Runner) -> None:
    without, under = (run("observation:sampled", interval=interval) for interval in ("0s", "3us"))
    found = [inputs(one.check()) for one in (without, under)]
    samples = [[figure for figure in one["figures"] if figure["name"].endswith("samples")] for one in found]
    assert samples[0][0]["value"] == 0 and samples[1][0]["value"] > 100
    assert set(samples[1][1]["value"]) == {"dcqcn", "dcqcn-connectx", "timely", "swift"}
    for one in found:
        one["figures"] = [figure for figure in one["figures"] if not figure["name"].endswith("samples")]
    assert found[0] == found[1]
