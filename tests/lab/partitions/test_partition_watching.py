"""Time series, the search for deadlocks and the live view of a network over several kernels."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.folder import read
from testbed.lab.results.result import Result
from testbed.lab.studies.cluster.client import connected
from testbed.lab.studies.cluster.gang import placed
from testbed.report.pages.page import report
from testbed.report.timeline.series import LOAD, tracks

from ..conftest import JOBS, failed_claims
from ..processes import Dask, Start

pytestmark = pytest.mark.engines("um")
INTERVAL_NS = 10_000
"""10 ms of the lab, at its scale of 1000."""
POLL_NS = 10_000_000
"""The interval of the search, in the lab."""


def run(job: str, ready: PreparedEngine, out: Path, *, partitions: int = 2, series: bool = False, **of: Any) -> Result:
    experiment = definition.load_file(JOBS / "partition.py", job)
    found = lab.run(
        experiment, parameters=of, on=ready, out=out, partitions=partitions, series_ns=INTERVAL_NS if series else 0
    )
    assert (found.status, found.reason, failed_claims(found)) == ("ok", "", set())
    return found


def rows(result: Result, series: str) -> list[dict[str, str]]:
    assert result.folder is not None
    with (result.folder / f"series-{series}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def octets(result: Result, series: str, subject: str, value: str) -> Counter[str]:
    """Return the octets on the wire of each port or flow, which are its loads over time."""
    found, last = Counter[str](), dict[str, tuple[int, int]]()
    for row in rows(result, series):
        at_ns, rate = int(row["lab_ns"]), int(row[value])
        before_ns, before = last.get(row[subject], (at_ns, 0))
        found[row[subject]] += before * (at_ns - before_ns)
        last[row[subject]] = at_ns, rate
    assert {rate for _, rate in last.values()} == {0}
    return Counter({name: many // (8 * 1000 * 10**9) for name, many in found.items()})


@pytest.fixture(scope="module")
def divided(ready: PreparedEngine, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run("rated", ready, tmp_path_factory.mktemp("divided"), series=True)


def test_series_of_two_parts_are_those_of_one_kernel(ready: PreparedEngine, divided: Result, tmp_path: Path) -> None:
    whole = run("rated", ready, tmp_path, partitions=1, series=True)
    loads = octets(divided, "links", "port", "load_bps")
    assert loads == octets(whole, "links", "port", "load_bps")
    assert {"h1a-eth0", "s1-eth3", "s2-eth3", "h2b-eth0"} <= loads.keys()
    rates = octets(divided, "rates", "flow", "rate_bps")
    assert rates == {name: frames * 1538 for name, frames in divided.figure("received").items()}
    assert rates == octets(whole, "rates", "flow", "rate_bps")
    for series in ("buffer", "queue", "marks"):
        columns, ports = rows(divided, series)[:1], {row["port"] for row in rows(divided, series)}
        assert [list(one) for one in columns] == [list(one) for one in rows(whole, series)[:1]]
        assert ports == {row["port"] for row in rows(whole, series)}


def test_rows_of_all_parts_are_of_the_same_moments_and_in_their_order(divided: Result) -> None:
    for series in ("links", "rates", "buffer"):
        at_ns = [int(row["lab_ns"]) for row in rows(divided, series)]
        assert at_ns == sorted(at_ns)
        assert len({one % (INTERVAL_NS * 1000) for one in at_ns}) <= 2, "one phase for each network"


def test_series_of_two_parts_are_the_same_in_each_run(ready: PreparedEngine, divided: Result, tmp_path: Path) -> None:
    again = run("rated", ready, tmp_path, series=True)
    assert again.digest == divided.digest
    assert {name for name in again.files if name.startswith("series-")} == {
        f"series-{name}.csv" for name in ("links", "marks", "rates", "buffer", "queue")
    }


@pytest.mark.long
def test_series_and_the_live_view_of_two_workers_are_those_of_one_machine(
    ready: PreparedEngine, divided: Result, start: Start, tmp_path: Path
) -> None:
    dask = Dask(start, tmp_path)
    for _ in range(2):
        dask.worker()
    lines: list[dict[str, Any]] = []
    with connected(dask.address) as cluster:
        there = run("rated", placed(ready, cluster), tmp_path / "out", series=True)
        experiment = definition.load_file(JOBS / "partition.py", "roce")
        lab.run(experiment, on=placed(ready, cluster), out=tmp_path / "out", follow=lines.append).check()
    assert there.digest == divided.digest
    assert {name for line in lines[1:-1] for name in line["used"]} == {"s1", "s2"}


def test_marks_of_all_switches_are_in_the_series(ready: PreparedEngine, tmp_path: Path) -> None:
    result = run("roce", ready, tmp_path, series=True)
    last = {row["port"]: int(row["marked"]) for row in rows(result, "marks")}
    assert {port[:2] for port in last} >= {"s1", "s2"}
    assert sum(last.values()) >= result.figure("marked") > 0  # some were marked in more than one place


def test_a_script_that_records_reads_the_rows_of_all_parts(ready: PreparedEngine, tmp_path: Path) -> None:
    found = [run("rated", ready, tmp_path, partitions=parts, of_script=True) for parts in (1, 2)]
    for case in ("first", "second"):
        ports = [one.figure(f"{case}: ports with rows") for one in found]
        assert ports[0] == ports[1]
        assert {port[:2] for port in ports[1]} == {"s1", "s2"}


def test_report_and_plots_have_the_series_of_all_parts(divided: Result) -> None:
    assert divided.folder is not None
    ports = {track.port for track in tracks(read(divided.folder)) if track.panel == LOAD}
    assert ports == {row["port"] for row in rows(divided, "links")}
    page = report([divided.folder])
    assert "Load of links" in page
    assert "h2b to h2a p3" in page


def test_the_live_view_has_buffers_and_events_of_all_parts(ready: PreparedEngine, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    experiment = definition.load_file(JOBS / "partition.py", "roce")
    result = lab.run(experiment, parameters={"ms": 2}, on=ready, out=tmp_path, follow=lines.append).check()
    assert [next(iter(line)) for line in lines] == ["network", *["t"] * (len(lines) - 2), "end"]
    during = lines[1:-1]
    assert all(line["used"].keys() == {"s1", "s2"} for line in during)
    assert all(any(line["used"][switch] for line in during) for switch in ("s1", "s2"))
    told = [event for line in during for event in line["events"]]
    for kind, port in (("xoff_sent", "s1-eth3"), ("xoff_received", "s2-eth3"), ("xoff_sent", "s2-eth3")):
        logged_ns = [one["t"] for one in events_of(result) if (one["event"], one["port"]) == (kind, port)]
        told_ns = [event[0] for event in told if event[1:3] == [kind, port]]
        assert told_ns == pytest.approx(logged_ns, abs=1000), "the view's clock takes a system call to read"
        assert told_ns


def events_of(result: Result) -> list[dict[str, Any]]:
    assert result.folder is not None
    with (result.folder / "events.jsonl").open() as file:
        return [json.loads(line) for line in file]


def deadlocks(result: Result) -> list[dict[str, Any]]:
    """Return the events of deadlocks, with the look of each in place of its moment."""
    return [one | {"t": one["t"] // POLL_NS} for one in events_of(result) if one["event"].startswith("deadlock")]


@pytest.mark.parametrize("watchdog", [False, True])
def test_a_deadlock_over_the_cut_is_found_and_broken_at_the_looks_of_one_kernel(
    ready: PreparedEngine, tmp_path: Path, watchdog: bool
) -> None:
    whole, parts, again = (run("circle", ready, tmp_path, partitions=many, watchdog=watchdog) for many in (1, 2, 2))
    found = deadlocks(parts)
    assert found == deadlocks(whole)
    assert {one["event"] for one in found} == {"deadlock_detected"} | ({"deadlock_broken"} if watchdog else set())
    circle = [one["port"] for one in found[:4]]
    assert circle == ["s1-eth2", "s2-eth3", "s3-eth3", "s4-eth3"]
    for figure in ("circles", "deadlocks while flows run"):
        assert parts.figure(figure) == whole.figure(figure)
    assert again.digest == parts.digest


def test_a_ring_without_a_circle_has_no_deadlock_in_two_parts(ready: PreparedEngine, tmp_path: Path) -> None:
    result = run("circle", ready, tmp_path, clockwise=False)
    assert result.figure("circles") == deadlocks(result) == []
    assert [one["event"] for one in events_of(result)].count("queue_stopped") > 50
