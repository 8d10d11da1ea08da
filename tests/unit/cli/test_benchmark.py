"""`xoff benchmark`: mistakes are told in one line before anything runs; the grid of its sweep; fabrics of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.cli.studies import benchmark
from testbed.lab.studies.benchmark import FILE, TESTS, Benchmark
from testbed.lab.studies.sweep import Sweep
from testbed.measures.fabric_under_test import FabricUnderTest
from testbed.switch.ways.settings import By

SONIC = Path(__file__).parents[1] / "data" / "sonic"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("leafspine,2", "there is no topology leafspine; did you mean leaf-spine?"),
        ("incast,2 star,4", "incast,2 star,4: one topology is expected, or config_db.json files"),
        ("incast,1", "incast,1 has 2 hosts; a benchmark takes 3 to 64"),
        ("leaf-spine,8,2,16", "leaf-spine,8,2,16 has 128 hosts; a benchmark takes 3 to 64"),
        ("star", "has no lossless ports, which RoCE flows take"),
        ("--test incst", "there is no test 'incst'; did you mean incast?"),
        ("--test ,", "--test ',' names none; there are throughput, latency"),
        ("--control dcqn", "there is no rate control 'dcqn'; did you mean dcqcn?"),
        ("none.json", "none.json cannot be read: No such file or directory"),
        ("{sonic}/fabric_l1.json --pfc off", "--pfc and --ecn are for topologies; here they are"),
        ("--lab lab.tar", "--lab is for the workers of a cluster, which --scheduler names"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_the_way_out(
    words: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "_make", lambda *_: pytest.fail("it ran"))
    assert main(["benchmark", *(word.format(sonic=SONIC) for word in words.split())]) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


def test_tests_become_the_grid_of_a_sweep_in_the_order_of_the_draft(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}

    def make(options: Any, experiment: Any, grid: Any, cluster: Any) -> Sweep:
        seen.update(grid, again=experiment.origin.words, known=[one.name for one in experiment.parameters])
        return Sweep(tmp_path, (), (), (), 0)

    monkeypatch.setattr(benchmark, "_make", make)
    main(["benchmark", "incast,3", "--quick", "--test", "storm,ecn", "-o", str(tmp_path)])
    assert seen["test"] == ["ecn", "storm"] and seen["topo"] == ["incast,3"] and seen["quick"] == ["true"]
    assert seen["again"][:4] == ("benchmark", "incast,3", "--test", "ecn,storm")
    assert {*seen} - {"again", "known"} <= {*seen["known"]}
    main(["benchmark", str(SONIC / "fabric_l1.json"), str(SONIC / "fabric_sp1.json"), "-o", str(tmp_path)])
    assert seen["files"] == [f"{SONIC}/fabric_l1.json,{SONIC}/fabric_sp1.json"] and seen["topo"] == [""]
    assert seen["test"] == [one.name for one in TESTS]


def test_a_topology_names_its_own_rule_of_ways_and_tests_may_choose_another() -> None:
    fabric = FabricUnderTest.of("leaf-spine,2,2,2,ways=spray")
    assert fabric.topo().ways.by is By.SPRAY and fabric.topo("hash").ways.by is By.HASH  # type: ignore[union-attr]
    assert fabric.across() == [("h1", "h3"), ("h2", "h4"), ("h3", "h1"), ("h4", "h2")]
    assert fabric.senders(5) == ["h1", "h2", "h3", "h1", "h2"]


def test_switches_of_a_file_keep_its_marks_and_its_maps() -> None:
    fabric = FabricUnderTest.of("", [SONIC / "leaf_100g_classic.json"])
    assert fabric.line.bps == 100 * 10**9 and len(fabric.hosts) == 9
    assert fabric.flow("h1", "h2").dscp is not None
    assert ("switches", "leaf_100g_classic.json") in fabric.settings


def test_a_topology_of_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from xoff import Incast\n\nclass Wide(Incast):\n    'An incast.'\n\ntopos = {'wide': Wide, 'other': Incast}\n"
    )
    fabric = FabricUnderTest.of(":wide,4", [mine])
    assert fabric.name == "mine.py:wide,4" and len(fabric.hosts) == 5


@pytest.mark.parametrize(
    ("topo", "shown"), [("leaf-spine,2,2,4", "2:1"), ("leaf-spine,4,4,4", "1:1"), ("incast,4", "no leaf has")]
)
def test_leaf_oversubscription_is_stated(topo: str, shown: str) -> None:
    assert dict(FabricUnderTest.of(topo).settings)["leaf oversubscription"].startswith(shown)


def test_what_is_not_compared_directly_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, hosts in (("one", "16, with lines of 100Gb/s"), ("other", "8, with lines of 100Gb/s")):
        settings = (("hosts", hosts), ("equal ways", "hash"))
        found = Benchmark("a fabric", settings, True, 1, "xoff benchmark", (), ())
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE).write_text(json.dumps(found.as_json()))
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "other")]) == 1
    said = capsys.readouterr()
    assert "side by side, and not compared directly" in said.err + said.out
    assert main(["compare", str(tmp_path / "one"), str(tmp_path / "one")]) == 0
    assert "side by side" not in capsys.readouterr().err
