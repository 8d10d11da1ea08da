"""The code blocks of README and docs that need the lab, in the lab: they work as the pages show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed import lab
from testbed.experiment.fidelity import Verdict
from testbed.lab.engines.engine import PreparedEngine
from testbed.report.pages.page import report
from tests import pages
from tests.pages import ROOT, Block

from ..conftest import Runner

BLOCKS = {str(block): block for block in pages.blocks()}
FIRST = BLOCKS["README.md:0"]
EXPERIMENTS = [block for block in BLOCKS.values() if block.is_experiment and block is not FIRST]
"""All but the one of `test_a_newcomers_way_from_an_experiment_to_a_compared_report`."""
LONG = {"docs/snappi.md:0", "docs/howto/verbs.md:2"}
"""They take many CPU seconds, and other tests use the same parts."""
APPLICATIONS = "docs/applications.md"
AROUND = """
from testbed.lab import Run, experiment

SHOWN = {shown!r}


@experiment
def shown(run: Run) -> None:
    from testbed.net.build.network import network

    names = {{}}
    for text in SHOWN:
        exec(text, names)
    with network({topology}) as net:
        hosts = [host for host in net.hosts if host.name.startswith("h")]
        run.claim("pings lost", net.ping(hosts), equals=0)
        run.claim("found", {measured}, equals={expected!r})
"""


def saved(block: Block, folder: Path) -> Path:
    file = folder / "mine.py"
    file.write_text(block.text)
    return file


@pytest.mark.parametrize(
    "block", [pytest.param(one, id=str(one), marks=pytest.mark.long if str(one) in LONG else ()) for one in EXPERIMENTS]
)
def test_an_experiment_runs_its_claims_hold_and_the_lab_keeps_its_promises(
    block: Block, ready: PreparedEngine, tmp_path: Path
) -> None:
    result = lab.run(saved(block, tmp_path), on=ready, out=tmp_path).check()
    assert result.claims
    assert result.fidelity.verdict is not Verdict.DEGRADED
    if (further := FURTHER.get(str(block))) is not None:
        further(result)
    if block.page == APPLICATIONS:  # programs of others repeat to the byte as ours do
        assert lab.run(saved(block, tmp_path), on=ready, out=tmp_path).digest == result.digest


def leaves_its_events(result: lab.Result) -> None:
    """Check the example of docs/network.md, whose network finds its run by itself."""
    assert result.folder is not None
    assert '"event": "xoff_sent"' in (result.folder / "events.jsonl").read_text()


def prints_what_the_page_shows(result: lab.Result) -> None:
    page = (ROOT / "docs/dcbx-lab.md").read_text()
    assert result.folder is not None
    for line in (result.folder / "output.log").read_text().splitlines():
        assert not line or f"\n    {line}\n" in page


FURTHER: dict[str, Callable[[lab.Result], None]] = {
    "docs/network.md:3": leaves_its_events,
    "docs/dcbx-lab.md:0": prints_what_the_page_shows,
}
"""Further claims of some of them."""


def test_all_that_show_more_are_experiments() -> None:
    assert set(FURTHER) <= {str(block) for block in EXPERIMENTS}


def test_a_newcomers_way_from_an_experiment_to_a_compared_report(ready: PreparedEngine, tmp_path: Path) -> None:
    """README says: run it, change a threshold, and see both runs in one report.

    Its experiment once was degraded, because its network was not known to be the run's.
    """
    file = saved(FIRST, tmp_path)
    first = lab.run(file, on=ready, out=tmp_path).check()
    assert first.claims
    assert first.fidelity.verdict is not Verdict.DEGRADED
    second = lab.run(file, parameters={"xoff": "80"}, on=ready, out=tmp_path).check()
    longest = "longest delay"
    assert 0 < second.figure(longest) < first.figure(longest)
    assert first.folder and second.folder
    page = report([first.folder, second.folder])
    assert first.folder.name in page and second.folder.name in page


def test_the_python_example_runs(ready: PreparedEngine, tmp_path: Path) -> None:
    program = BLOCKS["docs/lab.md:0"].text
    program = program.replace("seed=3)", "seed=3, on=ready, out=out)").replace("on=ready)", "on=ready, out=out)")
    names: dict[str, object] = {"out": tmp_path, "ready": ready}
    exec(program.replace('xoff.prepare("vm")', f'xoff.prepare("{ready.engine.name}")'), names)
    result = names["result"]
    assert isinstance(result, lab.Result)
    assert (result.seed, result.parameters["hosts"]) == (3, 8)


PARTS = {
    "network": (
        ["docs/network.md:0", "docs/network.md:1"],
        'names["Pair"](port=names["port"])',
        'sorted(net.fabric.port("s1-eth1").settings.ecn)',
        [3],
    ),
    "equal routes": (
        ["docs/fabrics.md:1"],
        'names["Square"]()',
        '[way.neighbour for way in net.path("h1", "h2").hops[0].ways]',
        ["r2", "r3"],
    ),
    "headroom": (["docs/headroom.md:0"], 'names["topo"]', 'net.fabric.limits("s1-eth1", 3).headroom', 26),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_experiments_make_a_network(part: str, ready: PreparedEngine, tmp_path: Path) -> None:
    shown, topology, measured, expected = PARTS[part]
    file = tmp_path / "shown.py"
    texts = [BLOCKS[name].text for name in shown]
    file.write_text(AROUND.format(shown=texts, topology=topology, measured=measured, expected=expected))
    assert lab.run(file, on=ready, out=tmp_path).check().claims


def test_contributings_test_is_one_that_passes(run: Runner) -> None:
    names: dict[str, object] = {}
    exec("from testbed.lab.results.result import Status\nRunner = object\n" + BLOCKS["CONTRIBUTING.md:0"].text, names)
    test = names["test_a_pause_of_the_job_takes_its_time"]
    assert callable(test)
    test(run)


def test_the_test_of_the_page_on_automation_passes(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(BLOCKS["docs/howto/automate.md:0"].text, names)
    test = names["test_nothing_is_lost"]
    assert callable(test)
    test()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["incast-001"]


def test_the_notebook_pages_program_runs(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS["docs/howto/notebooks.md:0"].text, {})
    assert capsys.readouterr().out.startswith("True [400, 400, 0]")


def test_leaf_spine_takes_the_ways_that_the_page_names(run: Runner) -> None:
    """In docs/flows.md frames from leaf1 go to h3 by spine1 and to h4 by spine2."""
    result = run("ways:spines")
    assert result.status is lab.Status.OK, result.reason
    assert result.figure("frames by spine") == {"h3": [10, 0], "h4": [0, 10]}


@pytest.mark.long
def test_the_studies_of_the_page_have_a_mean_of_each_figure_here_and_on_a_cluster(
    ready: PreparedEngine, tmp_path: Path
) -> None:
    program = BLOCKS["docs/studies.md:0"].text
    program = program.replace('out="results/study"', "on=ready, out=out")
    names: dict[str, Any] = {"out": tmp_path, "ready": ready}
    exec(program, names)
    found = names["found"]
    assert (found.made, len(found.rows), found.failed) == (4, 4, ())
    assert names["mean"].runs == 2
    again: dict[str, Any] = {"out": tmp_path, "ready": ready}
    exec(program, again)
    assert again["found"].made == 0
    assert again["found"].rows == found.rows

    pytest.importorskip("distributed")
    spread: dict[str, Any] = {"out": tmp_path / "spread", "ready": ready}
    exec(BLOCKS["docs/studies.md:1"].text.replace('out="results/study"', "on=ready, out=out"), spread)
    assert (spread["found"].made, spread["found"].failed) == (2, ())
    assert [*spread["found"].rows] == [row for row in found.rows if row.seed == 1]
