"""Who observes a run on `um` changes nothing of it: all that the digest is made of is the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.experiment.output import RUN_SERIES
from testbed.lab.engines.engine import PreparedEngine
from testbed.serve.history import exposition
from testbed.units import Duration

from .. import once
from ..conftest import JOBS, Runner

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
    "cross_dc": {},  # Open vSwitch, a controller and sockets of netlink
}
SERIES, LONG_SERIES = Duration("50us").ns, Duration("10ms").ns
"""Intervals of series; the long one is for a network without a scale, in whose 40 s there would be 800 000 samples."""
OBSERVERS: dict[str, dict[str, Any]] = {
    "captures": {"capture_octets": 96},
    "series": {"series_ns": SERIES},
    "a follower": {"follow": lambda line: None},
    "metrics": {},  # made of the folder
}


def inputs(result: lab.Result) -> dict[str, Any]:
    """Return what the digest is made of, without what observers have left."""
    assert result.status == "ok", result.reason
    found = result.as_json()
    for name in ("digest", "provenance", "times", "again", "parameters"):
        del found[name]
    own = {name: digest for name, digest in found["files"].items() if not name.startswith(("captures/", "series-"))}
    return found | {"files": own, "virtual_ns": result.times.virtual_ns}


def same(name: str, ready: PreparedEngine, out: Path, observed: dict[str, Any]) -> None:
    """Claim that a run that is observed is the run that is not."""
    if "series_ns" in observed and name == "dcbx_negotiation":
        observed = observed | {"series_ns": LONG_SERIES}
    alone = once.run(name, EXPERIMENTS[name], on=ready, out=out)
    seen = lab.run(name, parameters=EXPERIMENTS[name], on=ready, out=out, **observed)
    assert seen.folder is not None
    assert inputs(lab.Result.read(seen.folder)) == inputs(alone)
    assert exposition(seen.folder).endswith("# EOF\n")
    assert seen.files == {name: hashlib.sha256((seen.folder / name).read_bytes()).hexdigest() for name in seen.files}, (
        "as before anybody asked for metrics"
    )
    left = {file.partition("/")[0].partition("-")[0] for file in seen.files}
    has_ports = name != "hello"  # which has no lossless one
    assert ("captures" in left, "series" in left) == (
        "capture_octets" in observed,
        "series_ns" in observed and has_ports,
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_all_observers_at_once_change_nothing(name: str, ready: PreparedEngine, tmp_path: Path) -> None:
    same(name, ready, tmp_path, {key: value for one in OBSERVERS.values() for key, value in one.items()})


@pytest.mark.long
@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_observer_changes_nothing(name: str, observer: str, ready: PreparedEngine, tmp_path: Path) -> None:
    same(name, ready, tmp_path, OBSERVERS[observer])


@pytest.mark.parametrize("job", ("rated", "roce"))
def test_observers_of_a_divided_network_change_nothing(job: str, ready: PreparedEngine, tmp_path: Path) -> None:
    experiment = definition.load_file(JOBS / "partition.py", job)
    every = {key: value for one in OBSERVERS.values() for key, value in one.items()} | {"series_ns": 10_000}
    alone, seen, again = (lab.run(experiment, on=ready, out=tmp_path, **given) for given in ({}, every, every))
    assert inputs(seen) == inputs(alone)
    assert set(RUN_SERIES) <= seen.files.keys() and not set(RUN_SERIES) & alone.files.keys()
    assert seen.digest == again.digest


def test_samples_of_rate_controls_change_nothing(run: Runner) -> None:
    without, under = (run("observation:sampled", interval=interval) for interval in ("0s", "3us"))
    found = [inputs(one.check()) for one in (without, under)]
    samples = [[figure for figure in one["figures"] if figure["name"].endswith("samples")] for one in found]
    assert samples[0][0]["value"] == 0 and samples[1][0]["value"] > 100
    assert set(samples[1][1]["value"]) == {"dcqcn", "dcqcn-connectx", "timely", "swift"}
    for one in found:
        one["figures"] = [figure for figure in one["figures"] if not figure["name"].endswith("samples")]
    assert found[0] == found[1]
