"""`xoff workload` in the lab: a load of flows of the user's own sizes, its figures, its citation, and its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.cli import main
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.folder import read
from testbed.lab.results.foreign import ForeignFolder
from testbed.lab.results.result import Result
from testbed.lab.results.tables import flows as table_of
from testbed.net.traffic.report import WIRE_OCTETS
from testbed.workload.statistics import percentile

TABLE = "size,percent\n1kB,50\n20kB,100\n"
WORDS = ["--topo", "fat-tree,2", "--pattern", "incast:1", "--load", "40%", "--flows", "40"]


def offered(ready: PreparedEngine, folder: Path, *words: str, table: str = TABLE) -> Result:
    folder.mkdir(exist_ok=True)
    (folder / "mine.csv").write_text(table)
    out = folder / "results"
    name = ready.engine.name
    assert main(["workload", "--sizes", str(folder / "mine.csv"), "--out", str(out), "--engine", name, *words]) == 0
    (made,) = out.iterdir()
    return Result.read(ForeignFolder(made))


def test_a_load_of_ones_own_sizes(ready: PreparedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is missing")
    result = offered(ready, tmp_path, *WORDS)
    assert result.folder is not None and result.passed
    assert {claim.name for claim in result.claims} == {
        "flows that are complete", "every octet as it was sent", "frames dropped by switches", "smallest slowdown",
    }  # fmt: skip
    rows = table_of(read(result.folder))
    assert len(rows) == result.figure("flows") == 40
    assert {(row["source"], row["target"], row["rate_control"]) for row in rows} == {("h1", "h2", "dcqcn")}
    assert {row["size_bytes"] for row in rows if row["size_bytes"] <= 1000} == {1000}
    on_wire = sum(row["octets"] + WIRE_OCTETS * row["sent"] for row in rows)
    assert result.figure("data of all flows, with headers, preamble and gap") == on_wire
    # One sender at 40 % of its line seldom waits for itself: half of its flows are alone.
    assert 1 <= result.figure("slowdown, median") < 1.5
    assert (result.folder / "cdf.pdf").stat().st_size > 3000 and (result.folder / "slowdown.pdf").stat().st_size > 3000
    assert result.digest in (result.folder / "citation.bib").read_text()
    said = capsys.readouterr().out
    assert "citation.bib" in said and result.digest[:12] in said
    assert result.again is not None and result.again.command[:3] == ("workload", "--topo", "fat-tree,2")


def test_percentiles_of_2000_flows_are_those_of_the_steady_part(ready: PreparedEngine, tmp_path: Path) -> None:
    """Flows that begin first find a network without the messages of 2000 connections."""
    words = ["--topo", "leaf-spine,2,2,4", "--load", "30%", "--flows", "2000", "--no-figures"]
    result = offered(ready, tmp_path, *words, table="size,percent\n9999B,0\n10kB,100\n")
    assert result.passed and result.folder is not None
    rows = sorted(table_of(read(result.folder)), key=lambda row: row["t_ns"])
    slowdowns = [row["completion_ns"] / row["best_ns"] for row in rows]
    for percent in (50, 95, 99):
        whole, steady = percentile(slowdowns, percent), percentile(slowdowns[200:], percent)
        assert abs(whole / steady - 1) < 0.03
    assert percentile(slowdowns[:20], 50) < 1.1


def test_without_pfc_switches_drop_and_flows_end_all_the_same(ready: PreparedEngine, tmp_path: Path) -> None:
    words = ["--topo", "incast,8", "--pattern", "incast:8", "--load", "90%", "--flows", "8", "--no-figures"]
    large = "400kB,50\n500kB,100\n"  # eight of them are more than a switch can hold
    result = offered(ready, tmp_path, *words, "--pfc", "off", "--control", "fixed", table=large)
    assert result.passed and result.figure("frames dropped by switches") > 0
    assert result.figure("packets sent again") >= result.figure("frames dropped by switches")
    assert result.figure("times a switch paused a neighbour") == 0
    assert not (result.folder / "cdf.pdf").exists() if result.folder else False


def test_a_cable_is_pulled_while_flows_run_and_comes_back(ready: PreparedEngine, tmp_path: Path) -> None:
    words = ["--topo", "leaf-spine,2,2,2", "--load", "50%", "--duration", "400us", "--pull", "leaf1-eth1@100us+50us"]
    result = offered(ready, tmp_path, *words, "--no-figures", "--recovery", "selective-repeat")
    assert result.folder is not None and result.passed and result.figure("packets sent again") > 0
    before = offered(ready, tmp_path / "before", *words[:-2], "--no-figures", "--recovery", "selective-repeat")
    assert before.passed and before.figure("packets sent again") < result.figure("packets sent again") / 4


def test_the_load_is_of_the_wire(ready: PreparedEngine, tmp_path: Path) -> None:
    """Flows of a packet each, of which a half is headers: the packets fill what was asked for of each line."""
    words = ["--topo", "leaf-spine,2,2,2", "--load", "60%", "--duration", "100us", "--control", "fixed", "--no-figures"]
    result = offered(ready, tmp_path, *words, table="99B,0\n100B,100\n")
    assert result.folder is not None
    rows = table_of(read(result.folder))
    on_wire = sum(row["octets"] + WIRE_OCTETS * row["sent"] for row in rows)
    assert {row["octets"] + WIRE_OCTETS * row["sent"] for row in rows} == {198}  # with padding, RETH, FCS and gap
    assert on_wire * 8 / (4 * 10**10 * 1e-4) == pytest.approx(0.6, rel=0.05)
