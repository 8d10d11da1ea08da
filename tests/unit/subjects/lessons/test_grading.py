"""A class's work without the lab: drawn values, what is taken of hostile folders, and the table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from testbed import cli
from testbed.errors import UsageError
from testbed.subjects.lessons import grading
from testbed.subjects.lessons import lesson as files
from testbed.subjects.lessons.grading import Row, Submission, as_csv, as_json, compared, failed, row, submission
from testbed.subjects.lessons.lesson import ANSWERS, EXPERIMENT, KEEP, PAGE, STUDENT, Verdict, normal

LESSONS = files.lessons()
BASICS, HEADROOM = LESSONS[0], LESSONS[1]
DRAWING = [lesson for lesson in LESSONS if lesson.draws]


@pytest.mark.parametrize("lesson", DRAWING, ids=lambda lesson: lesson.name)
def test_each_drawn_value_has_one_place_and_the_default_is_the_lessons(lesson: files.Lesson) -> None:
    assert lesson.kept() == (lesson.folder / "start.py").read_text()[-len(lesson.kept()) :]
    for draw in lesson.draws:
        assert lesson.kept().count(draw.place.format(draw.default)) == 1
        assert len(set(draw.values)) == len(draw.values) >= 10
        for value in draw.values:
            compile(draw.put_into(lesson.kept(), value), "kept", "exec")


def test_values_are_those_of_a_name_and_no_other() -> None:
    assert normal("  Ada  LOVELACE ") == "ada lovelace"
    assert HEADROOM.drawn("Ada Lovelace") == HEADROOM.drawn(" ada  lovelace")
    assert HEADROOM.drawn("Ada Lovelace") == {"the length of h1's cable": "10000m", "cells of the buffer": "4840"}
    assert len({tuple(HEADROOM.drawn(str(number)).values()) for number in range(100)}) > 70
    assert HEADROOM.kept("Ada Lovelace").count('("h1", "10000m")') == 1


def test_a_students_folder_has_the_values_and_the_name(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    files.begin(HEADROOM, folder, student="Ada  Lovelace")
    assert (folder / STUDENT).read_text() == "Ada Lovelace\n"
    assert '("h1", "10000m")' in (folder / EXPERIMENT).read_text()
    assert "- the length of h1's cable: 10000m" in (folder / PAGE).read_text()
    assert "Keep this part" in (folder / EXPERIMENT).read_text()
    for wrong in ("", " ", "x" * 81, "a\x1bb"):
        with pytest.raises(UsageError, match="no name or number of a student"):
            files.begin(HEADROOM, tmp_path / "other", student=wrong)


def handed_in(folder: Path, student: str, part: str = "X = 1\n", kept: str = "while True: pass\n") -> Path:
    files.begin(BASICS, folder, student=student)
    (folder / EXPERIMENT).write_text(f"{part}{KEEP}----\n{kept}")
    return folder


def test_only_the_students_half_is_taken_and_it_is_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    found = submission(BASICS, handed_in(tmp_path / "a", "Ada", f"open({str(mark)!r}, 'w')\n"))
    assert found.student == "Ada" and not found.problem and not mark.exists()
    composed = found.composed(BASICS)
    assert composed.startswith("open(") and composed.endswith(BASICS.kept("Ada")) and "while True" not in composed


def test_a_hostile_or_empty_folder_is_a_reason(tmp_path: Path) -> None:
    def problem(name: str) -> str:
        return submission(BASICS, tmp_path / name).problem

    (tmp_path / "empty").mkdir()
    assert problem("empty") == "experiment.py is not there"
    assert problem("none") == "experiment.py is not there"
    handed_in(tmp_path / "link", "Eve")
    (tmp_path / "link" / ANSWERS).unlink()
    (tmp_path / "link" / ANSWERS).symlink_to("/etc/passwd")
    assert "symbolic link" in problem("link")
    handed_in(tmp_path / "large", "Eve", "#" * (grading.LARGEST + 1))
    assert "experiment.py" in problem("large")
    handed_in(tmp_path / "toml", "Eve")
    (tmp_path / "toml" / ANSWERS).write_text("[" * 100_000)
    assert "answers.toml" in problem("toml")
    handed_in(tmp_path / "whole", "Eve")
    (tmp_path / "whole" / EXPERIMENT).write_text("print(1)\n")
    assert "start anew and copy your part" in problem("whole")
    handed_in(tmp_path / "name", "Eve")
    (tmp_path / "name" / STUDENT).write_text("\x1b[31m\n")
    assert "no name or number of a student" in problem("name")


def test_equal_work_is_shown_whatever_its_comments(tmp_path: Path) -> None:
    all_ = [
        submission(BASICS, handed_in(tmp_path / "a", "Ada", "X = 1\n")),
        submission(BASICS, handed_in(tmp_path / "b", "Bob", "# mine\n\nX = 1  # own\n")),
        submission(BASICS, handed_in(tmp_path / "c", "Eve", "X = 2\n")),
        Submission("Mal", problem="none"),
    ]
    rows = compared([failed(one, BASICS, "x") for one in all_], all_)
    assert [one.same_as for one in rows] == ["Bob", "Ada", "", ""]


def test_the_table_has_a_column_for_each_item_and_no_formula() -> None:
    steps, questions = len(BASICS.steps), len(BASICS.questions)
    verdicts = [Verdict(str(number), number % 2 == 0) for number in range(steps + questions)]
    rows = [row(Submission("=1+1"), BASICS, verdicts), failed(Submission("Bob"), BASICS, "wall-timeout: x\ny")]
    assert (rows[0].right, rows[0].of, rows[0].steps) == (5, 9, (True, False, True, False))
    head, one, other = csv.reader(io.StringIO(as_csv(BASICS, rows)))
    assert head[:4] == ["student", "right", "of", "step 1"] and head[-2:] == ["same as", "why"]
    assert len(head) == len(one) == len(other) == 3 + steps + questions + 2
    assert one[:7] == ["'=1+1", "5", "9", "1", "0", "1", "0"] and other[-1] == "wall-timeout: x"
    found = as_json(BASICS, rows)["students"]
    assert found[0]["answers"] == {q.key: n % 2 == 0 for n, q in enumerate(BASICS.questions, steps)}
    assert found[1] == {"student": "Bob", "right": 0, "of": 9, "steps": [], "answers": {}, "same_as": "",
                        "why": "wall-timeout: x"}  # fmt: skip
    assert isinstance(rows[0], Row)


def test_the_command_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lesson", "start", "2", str(tmp_path / "x"), "--student", ""]) == 2
    assert "no name or number of a student" in capsys.readouterr().err
    assert cli.main(["lesson", "grade", "9", str(tmp_path)]) == 2
    assert "there is no lesson 9" in capsys.readouterr().err
