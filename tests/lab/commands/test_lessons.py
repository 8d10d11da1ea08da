"""Lessons in the lab: what a student starts with is not right yet, the solution is, and wrong answers get hints."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from testbed import cli, lab
from testbed.lab.engines.engine import PreparedEngine
from testbed.subjects.lessons import Seen
from testbed.subjects.lessons import lesson as files
from testbed.subjects.lessons.lesson import Lesson, Verdict

LESSONS = files.lessons()
ROOT = Path(__file__).parents[3]
RIGHT_AT_THE_START = {"pfc_basics": {1}}
"""Steps that the file which a student starts with has done already."""


def performed(lesson: Lesson, file: str, ready: PreparedEngine, folder: Path) -> Seen:
    result = lab.run(lesson.folder / file, on=ready, out=folder)
    assert result.status is lab.Status.OK, result.reason
    assert result.folder is not None
    return Seen(result.folder)


def right(found: list[Verdict]) -> set[str]:
    return {verdict.what.partition(":")[0] for verdict in found if verdict.is_right}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_solution_is_right_and_the_start_is_not(lesson: Lesson, ready: PreparedEngine, tmp_path: Path) -> None:
    solved = performed(lesson, "solution.py", ready, tmp_path / "solution")
    values = files.solutions(lesson, solved)
    found = list(files.verdicts(lesson, solved, values))
    assert [verdict for verdict in found if not verdict.is_right] == []

    wrong: dict[str, str | float] = {key: "a" if value != "a" else "b" for key, value in values.items()}
    wrong |= {key: value * 1.5 + 1 for key, value in values.items() if isinstance(value, int | float)}
    wrong_found = list(files.verdicts(lesson, solved, wrong))
    assert right(wrong_found) == {f"step {number}" for number in range(1, len(lesson.steps) + 1)}
    for question, verdict in zip(lesson.questions, wrong_found[len(lesson.steps) :], strict=True):
        assert verdict.why and str(values[question.key]) not in verdict.why.split(), "a hint is no answer"

    begun = performed(lesson, "start.py", ready, tmp_path / "start")
    done = {f"step {number}" for number in RIGHT_AT_THE_START.get(lesson.name, set())}
    assert right(list(files.verdicts(lesson, begun, {}))) == done


@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("lesson", [one for one in LESSONS if one.draws], ids=lambda lesson: lesson.name)
def test_the_solution_is_right_at_the_ends_of_what_is_drawn(
    lesson: Lesson, place: int, ready: PreparedEngine, tmp_path: Path
) -> None:
    source = (lesson.folder / "solution.py").read_text()
    for draw in lesson.draws:
        source = draw.put_into(source, draw.values[place])
    (tmp_path / "solution.py").write_text(source)
    seen = performed(lesson, str(tmp_path / "solution.py"), ready, tmp_path / "runs")
    found = files.verdicts(lesson, seen, files.solutions(lesson, seen))
    assert [verdict for verdict in found if not verdict.is_right] == []


def test_the_commands_of_teacher_and_student(
    ready: PreparedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "solution"
    engine = ["--engine", ready.engine.name]
    assert cli.main(["lesson", "solution", "1", str(folder), *engine]) == 0
    assert "9 of 9 right" in capsys.readouterr().out
    sheet = (folder / files.ANSWERS).read_text()
    (folder / files.ANSWERS).write_text(sheet.replace('who_is_paused = "c"', 'who_is_paused = "a"'))
    assert cli.main(["lesson", "check", "1", str(folder), *engine]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "8 of 9 right" in out and "question who_is_paused not yet: a PFC frame has priorities" in out
    experiment = (folder / files.EXPERIMENT).read_text()
    (folder / files.EXPERIMENT).write_text(experiment.replace("LOSSLESS: set[int] = {3}", "LOSSLESS: set[int] = {8}"))
    assert cli.main(["lesson", "check", "1", str(folder), *engine]) == 4
    assert "priority 8 does not exist" in capsys.readouterr().err


def test_the_picture_of_lesson_1_is_the_one_that_its_page_promises(
    ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's command records the buffer: a saw-tooth between XOFF and XON, of each sender."""
    page = next(lesson for lesson in LESSONS if lesson.number == 1).folder
    _, command = re.findall(r"^    \./xoff (.+)$", (page / "teacher.md").read_text(), re.MULTILINE)
    shutil.copyfile(page / "solution.py", tmp_path / "experiment.py")
    monkeypatch.chdir(tmp_path)
    words = command.replace("solution/experiment.py", "experiment.py").split()
    assert cli.main([*words, "--engine", ready.engine.name]) == 0
    (folder,) = Path("results").iterdir()
    assert "s1-eth1 priority 3" in (folder / "report.html").read_text()
    networks = [json.loads(line) for line in (folder / "networks.jsonl").read_text().splitlines()]
    begin_ns = max(one["lab_ns"] for one in networks if one["network"] == "started")
    for port in ("s1-eth1", "s1-eth2"):
        with (folder / "series-buffer.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if (row["port"], row["priority"]) == (port, "3")]
        cells = [int(row["shared"]) for row in rows if int(row["lab_ns"]) > begin_ns]
        tops = [
            cell for before, cell, after in zip(cells, cells[1:], cells[2:], strict=False) if before < cell >= after
        ]
        assert len(tops) >= 10 and min(tops[1:-1]) > 260 and max(tops) < 400


@pytest.mark.parametrize("name", ["docs/start/tutorial.ipynb", "lessons/pfc_basics/notebook.ipynb"])
def test_a_notebook_runs(name: str, ready: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.reads((ROOT / name).read_text(), as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "a notebook is kept without output"
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert ("320 cells" if "tutorial" in name else "not yet step 2") in printed


def test_a_class_is_graded_with_each_students_values_and_hostile_work_stays_in_the_lab(
    ready: PreparedEngine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers of one student are wrong for another, whose values are others; a file's module level runs in the lab."""
    lesson, mark = LESSONS[0], tmp_path / "executed"
    solution = (lesson.folder / "solution.py").read_text()
    part = solution[: solution.index(files.KEEP)]
    for student in ("ada", "bob", "eve"):
        files.begin(lesson, tmp_path / student, student=student)
        source = (tmp_path / student / files.EXPERIMENT).read_text()
        hostile = f"open({str(mark)!r}, 'w').close()\n" if student == "eve" else ""
        (tmp_path / student / files.EXPERIMENT).write_text(hostile + part + source[source.index(files.KEEP) :])
    seen = performed(lesson, str(tmp_path / "ada" / files.EXPERIMENT), ready, tmp_path / "runs")
    for student in ("ada", "bob", "eve"):
        (tmp_path / student / files.ANSWERS).write_text(files.sheet(lesson, files.solutions(lesson, seen)))
    words = ["lesson", "grade", "1", *(str(tmp_path / student) for student in ("ada", "bob", "eve")), "--json"]
    cli.main([*words, "--engine", ready.engine.name])
    ada, bob, eve = json.loads(capsys.readouterr().out)["students"]
    assert ada["right"] == ada["of"] == 9 and ada["same_as"] == "bob"
    assert all(bob["steps"]) and not bob["answers"]["dropped"], "the other buffer drops another number of frames"
    assert not eve["same_as"] and not mark.exists()
