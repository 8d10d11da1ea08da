"""`xoff workload`: mistakes are told in one line before anything runs; what it hands to the run; the citation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.cli import main
from testbed.cli.first_steps import running
from testbed.cli.studies import sweep
from testbed.experiment.fidelity import Fidelity, Thresholds, Verdict
from testbed.lab.results import citation
from testbed.lab.results.result import Again, Provenance, Result, Status, Times
from testbed.lab.studies.sweep import Sweep, points
from testbed.measures.offered_load import needs_marks
from testbed.measures.own_files import rate_control, shown
from testbed.workload import traces

OWN = """from xoff import Line, RateControl


class Mine(RateControl):
    needs_marks = True

    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = max(self.line.rate.bps / 100, self.rate_lab_bps / 2)
"""
TABLE = "size,percent\n2kB,50\n100kB,100\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--load 0%", "load is 0%; it is above 0% and at most 100% of the line"),
        ("--load 130%", "load is 130%; it is above 0% and at most 100% of the line"),
        ("--topo fat-tree,5", "k is 5; an even number is expected"),
        ("--topo fattree,4", "there is no topology fattree; did you mean fat-tree?"),
        ("--topo star", "has no lossless ports, which RoCE flows take; fat-tree,4 has some"),
        ("--sizes falling.csv", "falling.csv, line 2: the part falls from 50 to 40"),
        (
            "--sizes none.csv",
            "--sizes none.csv: No such file or directory; websearch, hadoop, alistorage are published",
        ),
        ("--sizes websearc", "there is no distribution 'websearc'; did you mean websearch?"),
        ("--control dcqn", "there is no rate control 'dcqn'; did you mean dcqcn?"),
        ("--pattern incast", "as in incast:8"),
        ("--pattern incast:16", "incast:16 needs 17 hosts, and fat-tree,4 has 16; take a larger topology"),
        ("--hosts 20", "--hosts 20: fat-tree,4 has 16; take fewer, or a larger topology"),
        ("--flows 9999", "a run has 1 to 5000 flows"),
        ("--duration 1ns", "no flow arrives in 1ns"),
        ("--pull edge1-eth1", "--pull edge1-eth1: PORT@TIME is expected, or PORT@TIME+TIME"),
        ("--pull edge1-eth1@soon", "--pull edge1-eth1@soon: PORT@TIME is expected"),
        ("--pull edge1-eth0@1ms", "--pull: there is no port edge1-eth0; did you mean edge1-eth"),
        ("--trace pipeline --pull edge1-eth1@1ms", "--pull is for flows at random alone; beside --trace pipeline they"),
        ("--trace pipeline --load 40% --flows 9", "--flows is for flows at random alone; beside --trace pipeline they"),
        ("--trace pipeline --sizes hadoop", "--sizes is of flows at random, which --trace pipeline has beside it with"),
        ("--trace pipeline --load 40%,50%", "--load 40%,50%: beside a training job there is one load"),
        ("--trace pipeline --load 140%", "load is 140%; it is above 0% and at most 100% of the line"),
        ("--trace pipeline --load 9% --pattern incast:99", "incast:99 needs 100 hosts, and fat-tree,4 has 16"),
        ("--pfc maybe", "there are on, off"),
        ("--recovery selective", "there is no recovery 'selective'; did you mean selective-repeat?"),
        ("--trace pipelin", "there is no trace 'pipelin'; did you mean pipeline?"),
        ("--trace none.et", "--trace none.et: No such file or directory; data-parallel, mixture-of-experts, pipeline"),
        ("--trace falling.csv", "falling.csv is no execution trace of Chakra"),
        ("--trace pipeline --topo incast,2", "the job has 4 ranks, and the topology 3 hosts; take a larger one"),
        ("--trace pipeline --hosts 3", "--hosts 3: there are 4 traces, one for each rank; leave it out"),
        ("--trace pipeline --straggler 4=2", "straggler 4: ranks are 0 to 3"),
        ("--trace pipeline --straggler 1", "straggler 1: RANK=FACTOR is expected, as in 3=1.5"),
        ("--trace pipeline --control dcqcn,swift", "--control dcqcn,swift: a training job has one rate control"),
        ("--straggler 1=2", "--straggler, --shrink and --keep are for training jobs, which --trace names"),
        ("--keep mine", "--straggler, --shrink and --keep are for training jobs, which --trace names"),
        ("--control none.py:Mine", "none.py: there is no such file"),
        ("--control own.py:Mein", "own.py has no rate control Mein; did you mean Mine?"),
        ("--control own.py", "own.py: name its rate control, as in own.py:Mine"),
        ("--load 30%,30%", "--load 30%,30%: each value is there once, as in --load A,B"),
        ("--load 30%,130%", "load is 130%; it is above 0% and at most 100% of the line"),
        ("--load 30%,60% --series 10us", "--series is for one run; with several loads or rate controls leave it out"),
        ("--control dcqcn,swfit", "there is no rate control 'swfit'; did you mean swift?"),
    ],
)
def test_a_mistake_is_one_line_with_the_way_out(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "run_experiment", lambda *_, **__: pytest.fail("it ran"))
    (tmp_path / "own.py").write_text(OWN + "\n\nclass Other(Mine):\n    pass\n")
    (tmp_path / "falling.csv").write_text("1000,50\n2000,40\n3000,100\n")
    assert main(["workload", *words.split()]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_the_run_gets_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def run(experiment: str, parameters: dict[str, str], options: Any, origin: Any, after: Any) -> int:
        seen.update(parameters=parameters, words=origin.words, files=origin.files)
        return 0

    monkeypatch.setattr(running, "run_experiment", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(TABLE)
    assert (
        main(
            [
                "workload",
                "--sizes",
                "mine.csv",
                "--load",
                "30%",
                "--hosts",
                "8",
                "--duration",
                "1ms",
                "--pfc",
                "off",
                "--control",
                "timely",
            ]
        )
        == 0
    )
    words = (
        "workload --topo fat-tree,4 --sizes mine.csv --load 30% --control timely --pattern random --pfc off --ecn auto "
        "--recovery go-back-N --duration 1ms --hosts 8"
    )
    assert seen["words"] == tuple(words.split())
    assert seen["files"] == ("mine.csv",) and seen["parameters"]["table"] == "mine.csv"
    assert seen["parameters"]["duration"] == "1ms"


def test_several_loads_and_controls_are_the_grid_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: dict[str, Any] = {}

    def make(experiment: Any, grid: Any, seeds: Any, options: Any, out: Path) -> Sweep:
        seen.update(grid, words=experiment.origin.words, files=experiment.origin.files, seeds=seeds)
        points(experiment, grid)
        return Sweep(tmp_path, (), (), (), 0)

    monkeypatch.setattr(sweep, "make", make)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    Path("sub/own.py").write_text(OWN)
    assert main(["workload", "--load", "30%,60%", "--control", "sub/own.py,dcqcn", "--seed", "7", "-j", "2"]) == 0
    assert seen["load"] == ["30%", "60%"] and seen["control"] == ["own.py", "dcqcn"] and seen["seeds"] == [7]
    assert seen["topo"] == ["fat-tree,4"]
    assert seen["files"] == ("sub/own.py",)
    assert seen["words"][5:9] == ("--load", "30%,60%", "--control", "sub/own.py,dcqcn")


def test_a_rate_control_of_a_file_is_found_by_the_files_name(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    files = [tmp_path / "own.py"]
    for wanted in ("own.py:Mine", "own.py", "elsewhere/own.py:Mine"):
        made = rate_control(wanted, files)
        assert callable(made) and shown(made) == "Mine" and needs_marks(made)
    assert rate_control("swift", files) == "swift"


def test_a_shipped_trace_is_kept_to_be_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "--trace", "pipeline", "--keep", str(tmp_path / "mine")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    command, _, words = line.rpartition(" ")
    assert command == "xoff workload --trace"
    for word, path in zip(words.split(","), traces.files("pipeline"), strict=True):
        assert Path(word).read_bytes() == path.read_bytes()


def test_a_citation_has_the_command_and_the_digest() -> None:
    fidelity = Fidelity(Verdict.KEPT, (), 1, 99.0, 0, 0, Thresholds())
    provenance = Provenance("um", "", "", "6.12", "", "", "0.1.0", "abc", "")
    again = Again(("workload", "--load", "50%", "--sizes", "my_sizes & more.csv"), {})
    times = Times(1, 1.0, None)
    result = Result("workload", Status.OK, "", {}, 1, (), (), fidelity, provenance, times, {}, again=again)
    entry = citation.bibtex(result, 2026)
    assert entry.startswith(f"@misc{{xoff-{result.digest[:12]},\n") and entry.endswith("\n}\n")
    assert r"\texttt{xoff workload --load 50\% --sizes 'my\_sizes \& more.csv'}" in entry
    assert f"digest \\texttt{{{result.digest}}}" in entry and "year         = {2026}" in entry
