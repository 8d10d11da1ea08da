"""What is said of how long a run will take, from the forecast to its end."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from testbed.experiment.demand import Demand
from testbed.experiment.output import Record, RecordKind, Sample
from testbed.lab.engines.load import RunCosts
from testbed.lab.engines.um import PreparedUm
from testbed.lab.results.collect import Collector
from testbed.lab.runs.outlook import Forecaster, Outlook

COSTS = RunCosts(
    boot_s=0.2, job_s=1.0, node_s=0.05, node_mb=6.0, second_us=0.0, idle_us=1000.0,
    frames={
        "udp": {"host_us": 10.0, "switch_us": 5.0, "second_us": 0.0},
        "roce": {"host_us": 100.0, "switch_us": 5.0, "second_us": 50_000.0},
    },
)  # fmt: skip
SECOND = 10**9
FLOWS = Demand(SECOND, 2 * SECOND, {"udp": 100_000}, {"udp": 200_000})
"""2 s of CPU."""


@pytest.fixture
def run(tmp_path: Path) -> Collector:
    return Collector(tmp_path, lambda *_: None)


@pytest.fixture
def forecaster() -> Forecaster:
    return Forecaster(COSTS)


def note(run: Collector, **content: object) -> None:
    run.feed(Record(RecordKind.NOTE, json.dumps(content).encode() + b"\n").encode())


def passed(run: Collector, seconds: float) -> None:
    run.feed(Record(RecordKind.SAMPLE, Sample(int(seconds * SECOND), 0, 0).encode()).encode())


def tell(run: Collector, *demands: Demand) -> None:
    run.feed(Record.of(RecordKind.DEMAND, [asdict(one) for one in demands]).encode())


def test_nothing_is_said_of_a_run_that_tells_nothing(run: Collector, forecaster: Forecaster) -> None:
    assert forecaster.outlook(run, 1.0) is None


def test_a_network_is_announced_before_it_is_there(run: Collector, forecaster: Forecaster) -> None:
    note(run, note="set_up", nodes=400, t=0)
    found = forecaster.outlook(run, 3.0)
    assert found is not None
    assert found.announcement == "network of 400 nodes: about 20 s on this machine"
    later = forecaster.outlook(run, 8.0)
    assert str(later) == "network of 400 nodes, about 15 s left"
    note(run, note="phase", phase="network", begins=True, t=5)
    assert forecaster.outlook(run, 9.0) is None


def test_a_network_that_may_not_fit_is_named_once_with_the_way_out(run: Collector, forecaster: Forecaster) -> None:
    assert forecaster.shortage(run, 3000) == ""
    note(run, note="set_up", nodes=410, t=0)
    assert forecaster.shortage(run, 3000) == ""
    note(run, note="set_up", nodes=546, t=1)
    assert forecaster.shortage(run, 3000) == (
        "a network of 546 nodes takes about 3.3 GB, and its flows more, but the job may have 3.0 GB; "
        "--memory 5500 gives it more"
    )
    assert forecaster.shortage(run, 3000) == ""
    assert Forecaster(None).shortage(run, 3000) == ""


def test_a_slower_machine_takes_longer(run: Collector, forecaster: Forecaster) -> None:
    forecaster.booted(0.6)
    note(run, note="set_up", nodes=400, t=0)
    found = forecaster.outlook(run, 0.0)
    assert found is not None
    assert found.takes_s == pytest.approx(60)


def test_flows_have_a_forecast_and_then_what_they_really_take(run: Collector, forecaster: Forecaster) -> None:
    tell(run, FLOWS)
    begun = forecaster.outlook(run, 10.0)
    assert begun == Outlook("flows", 2.0, 2.0, 0.0, 2.0)
    assert begun.announcement == "flows of 2 s of lab time: about 2 s on this machine"
    passed(run, 2.0)  # half of it, in five times as long as was expected
    half = forecaster.outlook(run, 15.0)
    assert half is not None
    assert (half.done, half.left_s) == (0.5, pytest.approx(5.0))
    waiting = forecaster.outlook(run, 17.0)
    assert waiting is not None
    assert waiting.left_s == pytest.approx(3.0)
    assert str(waiting) == "flows 50 %, about 3 s left"
    passed(run, 3.5)
    assert str(forecaster.outlook(run, 21.0)) == "flows 100 %"
    tell(run)
    assert forecaster.outlook(run, 22.0) is None


def test_nodes_that_do_nothing_cost_something_while_flows_last(run: Collector) -> None:
    assert COSTS.traffic_s(FLOWS, 500) == pytest.approx(2.0 + 2 * 500 * 0.001)


def test_flows_cost_something_while_they_send_little() -> None:
    assert COSTS.traffic_s(Demand(0, 3 * SECOND, {"roce": 0}, {}, {"roce": 2}), 0) == pytest.approx(3 * 2 * 0.05)


def test_a_transport_that_was_not_measured_costs_what_udp_does() -> None:
    assert COSTS.traffic_s(Demand(0, 0, {"carrier pigeon": 10**6}, {}), 0) == pytest.approx(10.0)


def test_flows_of_several_begins_are_one(run: Collector, forecaster: Forecaster) -> None:
    tell(run, FLOWS, Demand(2 * SECOND, 3 * SECOND, {"roce": 10_000}))
    found = forecaster.outlook(run, 0.0)
    assert found is not None
    assert (found.lab_s, found.takes_s) == (4.0, pytest.approx(3.0))


def test_without_costs_the_time_that_is_left_is_that_of_what_is_done(run: Collector) -> None:
    forecaster = Forecaster(None)
    tell(run, FLOWS)
    found = forecaster.outlook(run, 0.0)
    assert found is not None
    assert (found.announcement, found.left_s) == ("", None)
    passed(run, 2.0)
    found = forecaster.outlook(run, 7.0)
    assert found is not None
    assert found.left_s == pytest.approx(7.0)


def test_the_costs_of_um_were_measured_for_each_transport() -> None:
    costs = PreparedUm.costs
    assert costs is not None
    assert set(costs.frames) == {"udp", "tcp", "roce"}
    assert min(costs.boot_s, costs.job_s, costs.node_s, *(one["host_us"] for one in costs.frames.values())) > 0
    assert RunCosts.of("vm") is None
