"""Routing daemons in routers of several kernels: they find each other over the cut, and are asked from all parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Status

from ..conftest import JOBS, Runner, failed_claims

pytestmark = pytest.mark.engines("um")


@pytest.mark.parametrize("software", ["frr", pytest.param("bird", marks=pytest.mark.long)])
def test_daemons_find_routes_over_the_cut_with_one_digest(software: str, run: Runner) -> None:
    runs = [run("partition_routing:found", software=software).check() for _ in range(2)]
    assert [failed_claims(one) for one in runs] == [set()] * 2
    assert len({one.digest for one in runs}) == 1
    folder = runs[0].folder
    assert folder is not None
    log = [json.loads(line) for line in (folder / "routes.jsonl").read_text().splitlines()]
    assert {line["router"] for line in log} == {"r1", "r2", "r3", "r4"}
    assert [line["lab_ns"] for line in log] == sorted(line["lab_ns"] for line in log)


def test_a_daemon_that_dies_is_named_as_in_one_kernel(ready: PreparedEngine, tmp_path: Path) -> None:
    job = definition.load_file(JOBS / "partition_routing.py", "dies")
    whole, divided = (lab.run(job, on=ready, out=tmp_path, partitions=parts) for parts in (1, 2))
    assert (whole.status, divided.status) == (Status.ERROR,) * 2
    expected = "RoutingError: router r3: bgpd was killed by signal 9:"
    assert whole.reason.startswith(expected)
    assert divided.reason.startswith(f"part 1: {expected}")
