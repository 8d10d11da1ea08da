"""Flows, events and counters of a result as tables, with the values of a small result."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.lab.results import tables
from testbed.lab.results.folder import read
from testbed.report.pages.tables import counters_table
from testbed.report.timeline.tracks import _INTERVALS, PAUSED
from tests.report_folders import MS, flow, lines, pause, result, small


def test_a_flow_has_its_network_and_its_slowdown(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "flows.jsonl", [flow(20 * MS, 0), flow(520 * MS, 1, completion_ns=None, lost=2)])
    first, second = tables.flows(read(folder))
    assert list(first) == [*dict.fromkeys(first)] and set(first) == set(tables.FLOWS)
    assert (first["network"], first["t_ns"], first["lab_ns"], first["flow"]) == ("with PFC", 20_000, 20 * MS, 0)
    assert (first["completion_ns"], first["best_ns"], first["slowdown"]) == (3000, 1500, 2.0)
    assert (first["goodput_bps"], first["worst_delay_ns"], first["marked"]) == (4 * 10**9, 900, None)
    assert (second["network"], second["completion_ns"], second["slowdown"], second["lost"]) == (
        "without PFC", None, None, 2,
    )  # fmt: skip


def test_in_lab_time_times_are_longer_and_rates_lower(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "flows.jsonl", [flow(20 * MS, 0)])
    (row,) = tables.flows(read(folder, lab_time=True))
    assert (row["t_ns"], row["completion_ns"], row["slowdown"]) == (20 * MS, 3 * MS, 2.0)
    assert (row["goodput_bps"], row["worst_delay_ns"]) == (4_000_000, 900_000)


@pytest.mark.parametrize(
    "changes",
    [
        {"t_ns": "now"}, {"t_ns": 10**30}, {"scale": 0}, {"goodput_bps": -1}, {"goodput_bps": float("inf")},
        {"source": 7}, {"lost": None}, {"completion_ns": "long"}, {"sent": True},
    ],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "flows.jsonl", [flow(20 * MS, 0) | changes, flow(21 * MS, 1)])
    found = read(folder)
    assert [row["flow"] for row in tables.flows(found)] == [1]
    assert "line 1 of flows.jsonl" in str(found.damage)


def test_a_run_without_flows_has_none(tmp_path: Path) -> None:
    assert tables.flows(read(small(tmp_path / "one"))) == []


def test_counters_are_those_of_the_event_log(tmp_path: Path) -> None:
    rows = tables.counters(read(small(tmp_path / "one")))
    of = {(row["network"], row["port"]): row for row in rows}
    assert [row["port"] for row in rows] == ["h1-eth0", "h2-eth0", "s1-eth1", "s1-eth2", "s1-eth1"]
    # Pauses of 30 ms and 20 ms of the lab at h1; the scale is 1000.
    assert of["with PFC", "h1-eth0"] == dict.fromkeys(tables.COUNTERS, 0) | {
        "network": "with PFC", "node": "h1", "port": "h1-eth0", "priority": 3, "pauses_received": 2,
        "paused_ns": 50_000,
    }  # fmt: skip
    assert (of["with PFC", "s1-eth1"]["pauses_sent"], of["with PFC", "s1-eth1"]["times_congested"]) == (2, 2)
    assert (of["without PFC", "s1-eth1"]["dropped"], of["without PFC", "s1-eth1"]["dropped_bytes"]) == (2, 3028)


def test_a_pause_that_is_open_ends_with_its_network(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    lines(folder / "events.jsonl", pause(450 * MS, 600 * MS)[:5])
    (row,) = [row for row in tables.counters(read(folder)) if row["port"] == "h1-eth0"]
    assert row["paused_ns"] == (500 * MS - 450 * MS - 20) / 1000


def test_a_pause_begins_and_ends_as_in_a_report() -> None:
    (kind,) = [one for one in _INTERVALS if one.panel == PAUSED]
    assert (kind.opens, kind.closes) == (tables.PAUSE_BEGINS, tables.PAUSE_ENDS)


def test_counters_of_soft_roce_are_in_the_end_of_their_network(tmp_path: Path) -> None:
    folder = small(tmp_path / "one")
    log = folder / "networks.jsonl"
    first, ended, *rest = [json.loads(line) for line in log.read_text().splitlines()]
    damaged = {"h1-eth0": {"np_cnp_sent": 7, "wrong": -1, "text": "x", "true": True}, "h2-eth0": 5, "r-eth0": {}}
    log.write_text("")
    lines(log, [first, ended | {"soft_roce": damaged}, *rest])
    found = read(folder)
    assert tables.soft_roce_columns(found) == ["network", "node", "port", "np_cnp_sent"]
    assert tables.soft_roce(found) == [
        {"network": "with PFC", "node": "h1", "port": "h1-eth0", "np_cnp_sent": 7},
        {"network": "with PFC", "node": "r", "port": "r-eth0"},
    ]
    shown = counters_table("Soft-RoCE", found.networks[0].soft_roce)
    assert "np_cnp_sent" in shown and "<td>7</td><td>0</td>" in re.sub(" class=[^>]*", "", shown)


def test_a_result_has_its_tables_as_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    folder = small(tmp_path / "one")
    lines(folder / "flows.jsonl", [flow(20 * MS, 0), flow(520 * MS, 1, completion_ns=None)])
    flows, events, counters = (tables.of_folder(folder, name) for name in ("flows", "events", "counters"))
    assert list(flows.columns) == list(tables.FLOWS) and list(counters.columns) == list(tables.COUNTERS)
    assert flows["completion_ns"].max() == 3000 and pandas.isna(flows["completion_ns"][1])
    assert flows["marked"].dtype == "float64", "a column that no flow counts has numbers too"
    assert list(events.columns)[:7] == list(tables.EVENTS) and len(events) == 31
    assert counters["paused_ns"].sum() == 80_000


def test_without_a_library_of_frames_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tables.READERS:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match="pip install pandas"):
        tables.frame([], ["a"])


def test_the_example_is_a_result(tmp_path: Path) -> None:
    assert json.loads((small(tmp_path / "one") / "result.json").read_text()) == result()
