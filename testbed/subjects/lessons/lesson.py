"""Lessons: their files, students' folders, and verdicts about students' work."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from testbed import shipped_packages
from testbed.errors import UsageError
from testbed.lab.results.foreign import ForeignFolder
from testbed.subjects.lessons.answers import Choice, Question
from testbed.subjects.lessons.check import NotYet, Seen

PACKAGE = "lessons"
KEEP = "# ---- Keep this part "
"""The beginning of the line above which a file is the student's."""
LONGEST_NAME = 80
EXPERIMENT, ANSWERS, PAGE, STUDENT = "experiment.py", "answers.toml", "lesson.md", "student.txt"
"""The names of files in a student's folder."""
_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]*\)")
_FIGURE = re.compile(r"^!\[.*\n\n?", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A step of a lesson, done in the experiment file. `check` raises NotYet until it is done."""

    text: str
    check: Callable[[Seen], None]


@dataclass(frozen=True)
class Draw:
    """A value of a lesson that is drawn for each student. `place` is a part of the kept half of the lesson's files, in
    which braces stand for the value.
    """

    what: str
    place: str
    default: str
    values: tuple[str, ...]

    def value_for(self, lesson: str, student: str) -> str:
        """Return the value for a student: the same each time, whoever asks."""
        seed = hashlib.sha256(f"{lesson}\n{self.what}\n{normal(student)}".encode()).digest()
        return self.values[int.from_bytes(seed[:8]) % len(self.values)]

    def put_into(self, source: str, value: str) -> str:
        old = self.place.format(self.default)
        if source.count(old) != 1:
            raise UsageError(f"the lesson's file has {source.count(old)} places {old!r}; one is expected")
        return source.replace(old, self.place.format(value))


def normal(student: str) -> str:
    """Return a student's name or number as it counts: without the case of letters, and with single spaces."""
    return " ".join(student.casefold().split())


@dataclass(frozen=True)
class Lesson:
    """A guided lab."""

    number: int
    name: str
    title: str
    minutes: int
    summary: str
    steps: Sequence[Step]
    questions: Sequence[Question]
    draws: Sequence[Draw] = ()

    def drawn(self, student: str) -> dict[str, str]:
        """Return the values that are drawn for a student, by what they are."""
        return {draw.what: draw.value_for(self.name, student) for draw in self.draws}

    def kept(self, student: str | None = None) -> str:
        """Return the half of the lesson's file that stays as it is, from its first line on; with the values of a
        student.
        """
        text = (self.folder / "start.py").read_text(encoding="utf-8")
        kept = text[text.index(KEEP) :]
        for draw in self.draws if student is not None else ():
            kept = draw.put_into(kept, draw.value_for(self.name, student or ""))
        return kept

    @property
    def folder(self) -> Path:
        """The folder with its page, its files and its solution."""
        return shipped_packages.folder(PACKAGE) / self.name


@dataclass(frozen=True)
class Verdict:
    """The verdict about a step or an answer."""

    what: str
    is_right: bool
    why: str = ""
    """The reason why it is not right yet; empty if it is right."""


def lessons() -> list[Lesson]:
    """Return all lessons, by number."""
    found = [importlib.import_module(f"{PACKAGE}.{path.parent.name}.checks").LESSON for path in _places()]
    return sorted(found, key=lambda lesson: lesson.number)


def find(wanted: str) -> Lesson:
    """Return a lesson by its number or name."""
    known = lessons()
    for lesson in known:
        if wanted in (str(lesson.number), lesson.name):
            return lesson
    near = get_close_matches(wanted, [lesson.name for lesson in known], 1)
    hint = f"did you mean {near[0]}" if near else f"there are {known[0].number} to {known[-1].number}"
    raise UsageError(f"there is no lesson {wanted}; {hint}; `xoff lesson list` shows them")


def begin(lesson: Lesson, folder: Path, solved: bool = False, student: str | None = None) -> list[Path]:
    """Write the files that a student starts with into a folder, or the solution. No file is overwritten. With a student
    they have that student's values.
    """
    page = (lesson.folder / "page.md").read_text(encoding="utf-8")
    experiment = (lesson.folder / ("solution.py" if solved else "start.py")).read_text(encoding="utf-8")
    if student is not None:
        name = named(student)
        experiment = experiment[: experiment.index(KEEP)] + lesson.kept(name)
        page = f"{page.rstrip()}\n\n{_values(lesson, name)}"
    content = {
        PAGE: _LINK.sub(r"\1", _FIGURE.sub("", page)),
        EXPERIMENT: experiment,
        ANSWERS: sheet(lesson),
    }
    if student is not None:
        content[STUDENT] = f"{named(student)}\n"
    files = ForeignFolder(folder)
    taken = [name for name in content if files.has(name)]
    if taken:
        raise UsageError(f"{folder / taken[0]} is there already; name another folder, or remove it to start anew")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in content.items():
            with files.create(name) as out:
                out.write(text.encode())
    except OSError as error:
        raise UsageError(f"the lesson cannot go to {folder}: {error.strerror}") from None
    return [folder / name for name in content]


def named(student: str) -> str:
    """Return a student's name or number as it is written; UsageError if it is none."""
    name = " ".join(student.split())
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"{student[:40]!r} is no name or number of a student; it has 1 to {LONGEST_NAME} characters")
    return name


def _values(lesson: Lesson, student: str) -> str:
    if not lesson.draws:
        return f"## For {student}\n\nThis lesson has the same values for everybody.\n"
    rows = "\n".join(f"- {what}: {value}" for what, value in lesson.drawn(student).items())
    return f"## For {student}\n\nYour file has values of your own, in place of those above:\n\n{rows}\n"


def sheet(lesson: Lesson, values: Mapping[str, Any] | None = None) -> str:
    """Return the file of answers: each question as a comment, with an empty text or a value as its answer."""
    lines = [
        f'# Lesson {lesson.number}: {lesson.title}. Write each answer behind its =; leave "" for what is open.',
        "",
    ]
    for question in lesson.questions:
        lines += [f"# {line}" for line in _wrapped(question.text)]
        if isinstance(question, Choice):
            lines += [f"#   {letter}: {text}" for letter, text in question.choices.items()]
        lines += [f"# ({question.form})", f"{question.key} = {json.dumps((values or {}).get(question.key, ''))}", ""]
    return "\n".join(lines)


def answers(lesson: Lesson, folder: Path) -> dict[str, Any]:
    """Return the answers that a student has written into the file, without open ones."""
    path = folder / ANSWERS
    try:
        text = ForeignFolder(folder).text(ANSWERS)
    except FileNotFoundError:
        raise UsageError(
            f"{path} is not there; `xoff lesson start {lesson.number} DIR` makes a folder with it"
        ) from None
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{path}: {error}; an answer is a number, or text in quotes as in "s1-eth1"') from None
    known = {question.key for question in lesson.questions}
    if unknown := sorted(found.keys() - known):
        raise UsageError(
            f"{path}: lesson {lesson.number} has no question {unknown[0]}; it has {', '.join(sorted(known))}"
        )
    return {key: value for key, value in found.items() if value != ""}


def verdicts(lesson: Lesson, seen: Seen, given: Mapping[str, Any]) -> Iterator[Verdict]:
    """Yield a verdict about each step and each answer."""
    for number, step in enumerate(lesson.steps, 1):
        yield _verdict(f"step {number}: {step.text}", lambda: step.check(seen))  # noqa: B023
    for question in lesson.questions:
        what = f"question {question.key}"
        if question.key not in given:
            yield Verdict(what, False, "not answered yet")
        else:
            yield _verdict(what, lambda: question.judge(given[question.key], seen))  # noqa: B023


def _verdict(what: str, judge: Callable[[], None]) -> Verdict:
    try:
        judge()
    except NotYet as why:
        return Verdict(what, False, str(why))
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError):
        # Figures and networks are those of the student's file, which may have been changed in any way.
        changed = (
            "the run has other figures or networks than the lesson has; keep the second part of its file, or start anew"
        )
        return Verdict(what, False, changed)
    return Verdict(what, True)


def solutions(lesson: Lesson, seen: Seen) -> dict[str, Any]:
    """Return the right answers for a run."""
    return {question.key: question.solution(seen) for question in lesson.questions}


def _places() -> list[Path]:
    return sorted(shipped_packages.folder(PACKAGE).glob("*/checks.py"))


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 110)
