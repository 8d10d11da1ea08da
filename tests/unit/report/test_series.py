"""Time series in a report: recorded values are tracks, exact where whole, which end with their network."""

from __future__ import annotations

import json
import re
from pathlib import Path

from testbed.lab.results.folder import read
from testbed.report.pages.page import report
from testbed.report.timeline.series import tracks
from testbed.report.timeline.tracks import Shape
from tests.report_folders import HOSTILE, MS, small

BUFFER = f"""t_ns,port,priority,guaranteed,shared,headroom,xoff
{100 * MS},s1-eth1,3,0,299,0,0
{101 * MS},s1-eth1,3,0,300,7,1
{102 * MS},s1-eth2,3,0,12,0,0
{600 * MS},s1-eth1,3,0,5,0,0
"""
FLOWS = f"""t_ns,flow,alpha,rate_bps,sent
{100 * MS},h1,1.0,10000000,0
{101 * MS},h1,0.99609375,5000000.5,1514
{102 * MS},h2,,,7
"""


def with_series(folder: Path, **series: str) -> Path:
    small(folder)
    for name, text in series.items():
        (folder / f"series-{name}.csv").write_text(text, encoding="utf-8")
    return folder


def test_cells_of_a_group_are_those_of_the_rows_and_none_falls_to_zero_with_its_network(tmp_path: Path) -> None:
    found = {(one.panel, one.name): one for one in tracks(read(with_series(tmp_path / "one", buffer=BUFFER)))}
    shared = found["occupancy", "s1-eth1 priority 3, shared"]
    assert shared.shape is Shape.STEPS and shared.unit == "cells" and shared.parts == 1
    assert list(zip(shared.t_ns, shared.values, strict=True)) == [
        (100 * MS, 299), (101 * MS, 300), (600 * MS, 5),
    ]  # fmt: skip
    headroom = found["series:headroom in use", "s1-eth1 priority 3"]
    assert list(headroom.values) == [0, 7, 0]
    assert ("series:guaranteed cells in use", "s1-eth1 priority 3") not in found, "never anything but zero"


def test_rates_of_flows_are_charts_of_their_own_with_units(tmp_path: Path) -> None:
    found = {(one.panel, one.name): one for one in tracks(read(with_series(tmp_path / "one", flows=FLOWS)))}
    rate, alpha = found["series:flows: rate", "h1"], found["series:flows: alpha", "h1"]
    assert (rate.unit, [value / rate.parts for value in rate.values]) == ("b/s", [10_000_000, 5_000_000.5])
    assert (alpha.unit, [value / alpha.parts for value in alpha.values]) == ("", [1, 0.996094])
    assert list(found["series:flows: sent", "h2"].values) == [7]
    assert ("series:flows: rate", "h2") not in found, "an empty field is no value"


def test_series_are_panels_of_the_report(tmp_path: Path) -> None:
    source = report([with_series(tmp_path / "one", buffer=BUFFER, flows=FLOWS)])
    for title in ("Flows: rate", "Flows: alpha", "Headroom in use", "as recorded"):
        assert title in source
    (text,) = re.findall(r'class="data">(.*?)</script>', source)
    (buffer,) = [one for one in json.loads(text)["panels"] if one.get("lines")]
    assert buffer["lines"] == [["XOFF 300", 300], ["XON 204", 204]]


def test_rows_that_cannot_be_are_counted_and_hostile_names_are_text(tmp_path: Path) -> None:
    rows = (
        f"t_ns,flow,x\n1,{HOSTILE.replace(',', '')},5\nnone,a,1\n5,b\n1e400,a,1\n7,c,nan\n6,c,{10**30}\n8,c,1\n7,c,2\n"
    )
    folder = read(with_series(tmp_path / "one", odd=rows))
    found = tracks(folder)
    assert [list(one.values) for one in found] == [[5], [1]]
    assert len(folder.damage) == 4
    assert "line 3 of series-odd.csv has no time, line 4 of series-odd.csv has other columns" in str(folder.damage)
    assert "<img" not in report([folder.path])
