"""`xoff switch conformance` without a lab: what is run for which options, mistakes, and what is printed of results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance._tables import default_json
from testbed.cli import main
from testbed.experiment import definition
from testbed.lab.job.job import job_for
from testbed.lab.results.result import Claim, Exit, Result, Status
from testbed.lab.studies import batch
from testbed.lab.studies.batch import Batch, Task, TaskOutcome
from testbed.lab.studies.conformance import FILE, case_name
from testbed.subjects.sonic.commands import conformance
from tests.unit.lab.results.test_references import GOOD

CASES = [case_name(one.name) for one in definition.conformance()]
CASES.sort(key=lambda name: (re.fullmatch(r"[LY]\d\d", name) is None, name))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Task]:
    """The tasks of a run. Claims of each result hold, but for L08; L09 runs out of time."""
    found: list[Task] = []

    def run(given: Sequence[Task], **_: Any) -> Batch:
        found.extend(given)
        return Batch(tuple(TaskOutcome(task, _result(task.experiment.name)) for task in given))

    monkeypatch.setattr(batch, "run", run)
    monkeypatch.setattr(conformance, "ready", lambda kind: kind)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return found


def _result(name: str) -> Result:
    lost = 7 if name.startswith("l08") else 0
    done = replace(
        GOOD, experiment=name, claims=(Claim("frames lost", {"equals": 0}, lost, not lost),), folder=Path(f"{name}-001")
    )
    if name.startswith("l09"):
        done = replace(done, status=Status.TIMEOUT, reason="its limit of 120 s of virtual time is over", claims=())
    return done


def config_db(folder: Path, **changes: Any) -> Path:
    path = folder / "leaf.json"
    path.write_text(json.dumps(default_json("400G", "static") | changes))
    return path


def planned(tasks: list[Task]) -> list[tuple[str, dict[str, Any]]]:
    return [(case_name(task.experiment.name), dict(task.parameters)) for task in tasks]


def test_without_options_every_case_runs_at_100g_with_both_buffer_models(
    tasks: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["switch", "conformance"])
    columns = [{"speed": "100G", "buffer": model} for model in ("dynamic", "static")]
    cases = [case for case in CASES if not case.startswith(("TC", "PT", "LR"))]
    assert planned(tasks) == [(case, column) for case in cases for column in columns]


def test_a_plan_has_its_own_cases(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", "--plan", "rocev2", "--buffer", "static"]) == Exit.OK
    assert planned(tasks) == [(f"TC{number:02}", {"speed": "100G", "buffer": "static"}) for number in range(1, 12)]


def test_the_trimming_plan_has_its_thirteen_cases(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", "--plan", "trimming", "--buffer", "static"]) == Exit.OK
    assert [case for case, _ in planned(tasks)] == [f"PT{number:02}" for number in range(1, 14)]


def test_the_plan_of_link_layer_retry_has_its_twenty_cases(
    tasks: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "conformance", "--plan", "llr", "--buffer", "static"]) == Exit.OK
    assert [case for case, _ in planned(tasks)] == [f"LR{number:02}" for number in range(1, 21)]


def test_a_case_is_of_the_plan_that_is_named(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", "--case", "tc2,L01", "--buffer", "static"]) == Exit.OK
    assert [case for case, _ in planned(tasks)] == ["TC02", "L01"]
    assert main(["switch", "conformance", "--plan", "pfc", "--case", "TC2"]) == Exit.USAGE
    assert "TC02 is no case of the plan pfc" in capsys.readouterr().err


def test_lists_choose_cases_and_columns(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["switch", "conformance", "--speed", "400G,800G", "--buffer", "static", "--case", "y3, l01_storm"])
        == Exit.OK
    )
    columns = [{"speed": speed, "buffer": "static"} for speed in ("400G", "800G")]
    assert planned(tasks) == [(case, column) for case in ("Y03", "L01") for column in columns]
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["case", "measured", "400G", "static", "800G", "static"]
    assert table[1].split() == ["Y03", "frames", "lost", "✓", "0", "✓", "0"]
    assert table[3] == "4 of 4 runs passed"


def test_a_failed_claim_is_a_line_and_an_exit_code(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", "--case", "L08,L01", "--buffer", "static", "-o", "here"]) == Exit.FAILED
    out = capsys.readouterr().out
    assert "L08 100G static: frames lost: measured 7, expected 0\n1 of 2 runs passed\n" in out
    assert "✗ 7" in Path("here/report.html").read_text()
    assert [cell["passed"] for cell in json.loads(Path("here", FILE).read_text())["cells"]] == [False, True]


def test_a_case_that_runs_out_of_time_is_a_line_and_an_exit_code(
    tasks: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "conformance", "--case", "L09", "--buffer", "static"]) == Exit.LIMIT
    assert "L09 100G static: its limit of 120 s of virtual time is over; what it had" in capsys.readouterr().out


def test_json_is_the_whole_matrix(tasks: list[Task], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", "--case", "L01", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["columns"]) == (True, ["100G dynamic", "100G static"])
    assert found["cells"][1]["claims"][0]["name"] == "frames lost"


# A switch of the user's


def test_a_file_is_one_column_and_travels_with_each_case(
    tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_db(tmp_path)
    assert main(["switch", "conformance", str(path), "--case", "L01,L02", "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["switch"], found["columns"]) == ("leaf.json", ["dut1 Ethernet0 400Gb/s 40m"])
    assert [task.experiment.name for task in tasks] == ["l01_storm", "l02_storm_of_two"]
    for task in tasks:
        made = job_for(task.experiment, task.parameters)
        assert [one.content for one in made.attached] == [path.read_bytes()]
        assert made.parameters["switch"] == "leaf.json"


def far(folder: Path) -> Path:
    """A switch whose last port has a cable of 50 km, and whose first two ports have another speed."""
    content = default_json("100G", "static")
    content["CABLE_LENGTH"]["AZURE"]["Ethernet24"] = "50km"
    content["PORT"]["Ethernet0"]["speed"] = content["PORT"]["Ethernet8"]["speed"] = "400000"
    return config_db(folder, **content)


def test_each_class_of_ports_is_a_column_and_the_one_that_check_warns_of_is_the_first(
    tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "conformance", str(far(tmp_path)), "--case", "L01,HEADROOM-SIZE"]) == Exit.OK
    captured = capsys.readouterr()
    columns = ["dut1 Ethernet24 100Gb/s 50km", "dut1 Ethernet0 400Gb/s 40m", "dut1 Ethernet16 100Gb/s 40m"]
    found = json.loads(Path("results/conformance", FILE).read_text())
    assert found["columns"] == columns[:2]
    assert [one["column"] for one in found["tested"]] == columns
    assert [one["ports"] for one in found["tested"]] == [
        ["Ethernet24", "Ethernet16"], ["Ethernet0", "Ethernet8"], ["Ethernet16"]
    ]  # fmt: skip
    assert [task.parameters["ports"] for task in tasks] == ["Ethernet24,Ethernet16"] * 2 + ["Ethernet0,Ethernet8"] * 2
    assert found["tested"][2]["left_out"] == ["L01", "HEADROOM-SIZE"], "the far port would lose frames itself"
    assert f"xoff: {columns[0]}: hosts at Ethernet24, Ethernet16; Ethernet24: 100Gb/s, 50km" in captured.err
    assert f"{columns[0]}: set xoff of profile ingress_lossless to " in captured.out
    assert f"{columns[2]}: set" not in captured.out


def test_a_case_travels_with_its_ports_and_may_take_longer_on_a_large_switch(tasks: list[Task], tmp_path: Path) -> None:
    main(["switch", "conformance", str(far(tmp_path)), "--ports", "Ethernet24", "--case", "L01", "--json"])
    assert tasks[0].parameters["ports"] == "Ethernet24,Ethernet16"
    limits = tasks[0].options.limits_of(tasks[0].experiment)
    assert limits.virtual_s > 10 * definition.find("l01_storm").timeout.ps / 1e12


def test_cases_that_take_more_ports_than_a_class_has_are_left_out_and_named(
    tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "conformance", str(far(tmp_path)), "--ports", "Ethernet8", "--case", "L01,L06"]) == Exit.OK
    captured = capsys.readouterr()
    assert [name for name, _ in planned(tasks)] == ["L01"]
    assert "L06 take more ports of one kind, and are left out" in captured.err
    assert "not run" in captured.out and "1 of 1 runs passed" in captured.out
    assert main(["switch", "conformance", str(far(tmp_path)), "--ports", "Ethernet8", "--case", "L06"]) == Exit.USAGE
    assert "the switch has too few ports of one kind for each of these cases" in capsys.readouterr().err


def test_a_file_with_errors_is_refused_with_their_paths(
    tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_db(tmp_path, BUFFER_PROFILE={"ingress_lossless": {"pool": "none", "size": "x"}})
    assert main(["switch", "conformance", str(path)]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "$.BUFFER_PROFILE.ingress_lossless.size" in err and "Traceback" not in err
    assert tasks == []


def test_a_file_without_pfc_is_refused(tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switch", "conformance", str(config_db(tmp_path, PORT_QOS_MAP={}, PFC_WD={}))]) == Exit.USAGE
    assert "no port is up and has pfc_enable in PORT_QOS_MAP" in capsys.readouterr().err


# Mistakes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--case", "Y004"], "there is no case 'Y004'; did you mean Y04?"),
        (["--case", ","], "--case ',' names none; there are L01"),
        (["--speed", "250G"], "--speed 250G: not possible, because the lab has no scale for it; there are 100G"),
        (
            ["--speed", "800"],
            "--speed 800: not possible, because the lab has no scale for it; did you mean 800G?",
        ),
        (["--buffer", "statc"], "--buffer statc: not possible; did you mean static?"),
        (["nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (
            ["a.json", "--speed", "100G"],
            "--speed is for Xoff's own switch; here it is what a.json has",
        ),
        (
            ["--ports", "Ethernet0"],
            "--ports is for a switch of your own, whose FILE is named; all ports of Xoff's own are",
        ),
        (["a.json", "--buffer", "static"], "--buffer is for Xoff's own switch; here it is what"),
    ],
)
def test_a_mistake_is_one_line(
    tasks: list[Task], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["switch", "conformance", *words]) == Exit.USAGE
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert tasks == []


def test_a_folder_that_cannot_be_is_refused_before_anything_runs(
    tasks: list[Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["switch", "conformance", "-o", "file/below"]) == Exit.USAGE
    assert "file/below cannot be made: Not a directory; --out names another place" in capsys.readouterr().err
    assert tasks == []


def test_the_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["switch", "conformance", "--help"])
    out = capsys.readouterr().out
    assert "xoff switch conformance config_db.json" in out and "Exit code: 0 if every case passed" in out
