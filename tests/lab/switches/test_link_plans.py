"""The test plans of the link layer in the lab: the scale-up standard's cases, and the plan of LLR by its command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from testbed import lab, shipped_packages
from testbed.cli import main
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.results.result import Exit
from testbed.lab.studies.conformance import FILE
from testbed.lab.studies.plan_rows import rows_of_run
from testbed.subjects.link.commands import scale_up

QUICK = {"LLR-03", "LLR-05", "CBFC-03", "CBFC-05", "CBFC-09"}


@pytest.mark.engines("um")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in scale_up.CASES]
)
def test_a_case_of_the_standard_passes_in_the_lab(ready: PreparedEngine, tmp_path: Path, name: str) -> None:
    file = shipped_packages.folder(shipped_packages.EXPERIMENTS) / scale_up.EXPERIMENT
    result = lab.run(definition.load_file(file), parameters={"case": name}, on=ready, out=tmp_path)
    rows = rows_of_run(name, result)
    assert rows and [row for row in rows if not row.passed] == []
    assert {row.scenario for row in rows} == {"lab"}


@pytest.mark.engines("um")
def test_the_command_records_models_and_lab_side_by_side(
    ready: PreparedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["switch", "conformance", "--plan", "scale-up", "--case", "LLR-02", "--out", str(tmp_path)]
    assert main(words) == Exit.OK
    rows = list(csv.DictReader((tmp_path / "scale-up.csv").read_text().splitlines()))
    assert {(row["Scenario_ID"], row["Pass/Fail"]) for row in rows} == {("model", "PASS"), ("lab", "PASS")}
    assert "1 of 1 cases passed" in capsys.readouterr().out


@pytest.mark.engines("um")
def test_the_plan_of_llr_runs_by_its_name(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["switch", "conformance", "--plan", "llr", "--case", "LR8,LR19", "--buffer", "dynamic", "-o", "out"]
    assert main(words) == Exit.OK
    cells = {cell["case"]: cell for cell in json.loads(Path("out", FILE).read_text())["cells"]}
    assert sorted(cells) == ["LR08", "LR19"] and all(cell["passed"] for cell in cells.values())
    assert any(claim["name"].startswith("control, no PFC: holds") for claim in cells["LR19"]["claims"])
