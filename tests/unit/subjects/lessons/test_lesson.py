"""Lessons without the lab: their files, their answers, and checks of a run's folder."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testbed import cli
from testbed.errors import UsageError
from testbed.experiment import definition
from testbed.subjects.lessons import Choice, Name, NotYet, Number, Seen
from testbed.subjects.lessons import lesson as files
from testbed.subjects.lessons.lesson import Lesson
from testbed.units import Duration

LESSONS = files.lessons()
ROOT = Path(__file__).parents[4]
KEEP = "# ---- Keep this part "
each = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def folder_of_a_run(path: Path, figures: dict[str, object] | None = None, events: str = "") -> Seen:
    """Write a result folder with one network, from 0 to 1 s."""
    path.mkdir(parents=True, exist_ok=True)
    found = [{"name": name, "value": value, "unit": ""} for name, value in (figures or {}).items()]
    content = {"experiment": "x", "status": "ok", "parameters": {}, "seed": 1, "figures": found, "claims": []}
    content |= {"fidelity": {}, "provenance": {}, "times": {"virtual_ns": 10**9}, "files": {}, "passed": True}
    (path / "result.json").write_text(json.dumps(content | {"digest": ""}))
    started = {
        "t_ns": 0,
        "network": "started",
        "case": "yours",
        "topology": "T",
        "nodes": {},
        "cables": [],
        "ports": {},
    }
    (path / "networks.jsonl").write_text(json.dumps(started | {"buffers": {}}) + "\n")
    (path / "events.jsonl").write_text(events)
    return Seen(path)


def test_there_are_seven_lessons_of_60_to_90_minutes() -> None:
    assert [lesson.number for lesson in LESSONS] == [1, 2, 3, 4, 5, 6, 7]
    assert all(60 <= lesson.minutes <= 90 for lesson in LESSONS)


@each
def test_a_lesson_has_its_files(lesson: Lesson) -> None:
    for name in ("page.md", "teacher.md", "start.py", "solution.py"):
        assert (lesson.folder / name).is_file()
    page = (lesson.folder / "page.md").read_text()
    assert page.startswith(f"# Lesson {lesson.number}: ")
    assert "**Goal**: " in page and f"{lesson.minutes} minutes." in " ".join(page.split())
    assert all(f"\n**{number}. " in page for number in range(1, len(lesson.steps) + 1))


@each
def test_the_solution_changes_the_students_part_alone(lesson: Lesson) -> None:
    start, solution = ((lesson.folder / name).read_text().partition(KEEP) for name in ("start.py", "solution.py"))
    assert start[1:] == solution[1:] and start[1]
    assert start[0] != solution[0]
    for name in ("start.py", "solution.py"):
        assert definition.load_file(lesson.folder / name).name == lesson.name


@each
def test_a_teachers_page_has_every_change_of_the_solution(lesson: Lesson) -> None:
    page = (lesson.folder / "teacher.md").read_text()
    start, solution = ((lesson.folder / name).read_text().splitlines() for name in ("start.py", "solution.py"))
    changed = [line.strip().rstrip(",") for line in solution if line not in start and not line.startswith('"""')]
    for line in changed:
        value = line.partition("=")[2].strip() or line
        assert value in page, line


@each
def test_keys_are_names_and_choices_have_a_right_one(lesson: Lesson) -> None:
    keys = [question.key for question in lesson.questions]
    assert len(set(keys)) == len(keys) and all(key.isidentifier() for key in keys)
    assert not {"first", "second", "third", "fourth", "fifth"} & set(keys), "a key is what is asked, not its place"
    for question in lesson.questions:
        if isinstance(question, Choice):
            assert question.right in question.choices
        # The hint is no answer.
        right = question.choices[question.right] if isinstance(question, Choice) else None
        assert right is None or right not in question.hint


@each
def test_what_start_makes_has_no_answers_and_is_not_made_twice(lesson: Lesson, tmp_path: Path) -> None:
    made = files.begin(lesson, tmp_path / "mine")
    assert [path.name for path in made] == ["lesson.md", "experiment.py", "answers.toml"]
    assert files.answers(lesson, tmp_path / "mine") == {}
    text = (tmp_path / "mine" / "lesson.md").read_text()
    assert "![" not in text and "\n!" not in text
    assert "](" not in (tmp_path / "mine" / "lesson.md").read_text().replace("](http", "")
    with pytest.raises(UsageError, match="is there already; name another folder"):
        files.begin(lesson, tmp_path / "mine")


@each
def test_a_run_that_lacks_what_a_lesson_looks_at_is_not_yet_right(lesson: Lesson, tmp_path: Path) -> None:
    seen = folder_of_a_run(tmp_path / "run")
    given = {
        question.key: "1ms" if isinstance(question, Number) and question.unit else 1 for question in lesson.questions
    }
    given |= {question.key: "zz" for question in lesson.questions if isinstance(question, Choice)}
    found = list(files.verdicts(lesson, seen, given))
    steps = found[: len(lesson.steps)]
    assert not any(verdict.is_right for verdict in steps)
    assert all(verdict.why for verdict in found if not verdict.is_right)


def test_a_number_may_be_off_by_its_tolerance(tmp_path: Path) -> None:
    seen = folder_of_a_run(tmp_path)
    exact = Number("n", "?", lambda _: 40, "count again")
    exact.judge(40, seen)
    for wrong in (41, "forty", True):
        with pytest.raises(NotYet):
            exact.judge(wrong, seen)
    about = Number("t", "?", lambda _: Duration("10ms").ns, "twice as long", unit=Duration, within=0.05)
    about.judge("10.4ms", seen)
    with pytest.raises(NotYet, match="twice as long"):
        about.judge("11ms", seen)
    with pytest.raises(NotYet, match="ms"):
        about.judge("10", seen)


def test_names_and_letters_are_read_in_any_case(tmp_path: Path) -> None:
    seen = folder_of_a_run(tmp_path)
    Name("p", "?", lambda _: {"s1-eth1", "s1-eth2"}, "look again").judge(" S1-eth2 ", seen)
    letter = Choice("c", "?", {"a": "this", "b": "that"}, "b", "think")
    letter.judge("B", seen)
    with pytest.raises(NotYet, match="think"):
        letter.judge("a", seen)
    with pytest.raises(NotYet, match="none of a, b"):
        letter.judge("x", seen)


def test_events_are_those_of_the_network_that_is_asked_for(tmp_path: Path) -> None:
    line = '{"t": %d, "event": "xoff_sent", "port": "s1-eth1", "priorities": [3]}\n'
    seen = folder_of_a_run(tmp_path, events=line % 5 + line % 2_000_000_000)
    assert seen.count("yours", "xoff_sent") == 1
    assert seen.count("yours", "xoff_sent", port="s1-eth2") == 0
    assert seen.count("yours", "xoff_sent", priority=4) == 0
    with pytest.raises(NotYet, match="no network 'theirs'"):
        seen.count("theirs", "xoff_sent")


def test_a_sheet_with_the_solutions_is_read_back(tmp_path: Path) -> None:
    lesson = LESSONS[0]
    files.begin(lesson, tmp_path)
    values = {"dropped": 7, "xoff_from": "s1-eth1", "longest_pause": "3.35s"}
    (tmp_path / files.ANSWERS).write_text(files.sheet(lesson, values))
    assert files.answers(lesson, tmp_path) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dropped = s1\n", "an answer is a number, or text in quotes"),
        ("droped = 3\n", "lesson 1 has no question droped"),
        ("dropped = \xff", "answers.toml"),
    ],
)
def test_a_damaged_sheet_is_one_clear_message(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / files.ANSWERS).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=message):
        files.answers(LESSONS[0], tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "1", "nowhere"], "nowhere/answers.toml is not there; `xoff lesson start 1 DIR`"),
        (["start", "8"], "there is no lesson 8; there are 1 to 7"),
        (["start", "wam"], "did you mean wan;"),
        (["begin", "1"], "there is no lesson command 'begin'; there are list, start, check, solution"),
        ([], "ACTION"),
    ],
)
def test_a_mistake_on_the_command_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lesson", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_list_and_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lesson", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 7
    assert cli.main(["lesson", "start", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "lesson-2/lesson.md", "lesson-2/experiment.py", "lesson-2/answers.toml",
    ]  # fmt: skip


@each
def test_a_teachers_page_has_a_plan_of_90_minutes_with_the_steps_of_the_page(lesson: Lesson) -> None:
    page = (lesson.folder / "teacher.md").read_text()
    plan = page[page.index("## A plan for 90 minutes") :]
    found = re.findall(r"^\| (\d+) \| (\d+) \| (.*) \|$", plan, re.MULTILINE)
    rows = [(int(at), int(lasts), what) for at, lasts, what in found]
    assert [at for at, _, _ in rows] == [sum(lasts for _, lasts, _ in rows[:number]) for number in range(len(rows))]
    assert sum(lasts for _, lasts, _ in rows) == 90
    students = " ".join((lesson.folder / "page.md").read_text().split())
    given = re.findall(r"\((?:About )?(\d+) minutes\.\)", students[students.index("## Steps") :])
    assert [lasts for _, lasts, what in rows if what.startswith("step ")] == [int(one) for one in given]
    (measured,) = re.findall(r"takes ([0-9.]+) s of CPU time", plan)
    known = json.loads((ROOT / "experiments/costs.json").read_text())
    assert 0.5 < float(measured) / known[f"lesson-{lesson.name}"] < 2


def test_slides_have_a_part_for_each_lesson_and_figures_that_are_there() -> None:
    text = (ROOT / "lessons/slides.markdown").read_text()
    slides = text.split("\n---\n")
    for lesson in LESSONS:
        assert any(f"\n# {lesson.number} {lesson.title}\n" in slide for slide in slides)
    figures = re.findall(r"\]\((.*?\.svg)\)", text)
    assert len(figures) >= 7 and all((ROOT / "lessons" / one).is_file() for one in figures)
    assert all(len(slide.strip().splitlines()) <= 12 for slide in slides)
