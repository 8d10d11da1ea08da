"""The work of a class: what each student handed in, put together with the lesson's own half, and a table of verdicts.

Nothing that a student handed in is executed here. Of a file only the half above the line that the lesson keeps is
taken, as text; the other half is the lesson's, with the values that are drawn for this student. So somebody else's
answers belong to other values, and a changed second half has no effect. Both run in the lab only.

A student's half still runs in the process that reports the figures, so a table is no proof against somebody who forges
them; equal files and answers are shown.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, XoffError
from testbed.lab.results.csv_cells import neutral
from testbed.lab.results.foreign import ForeignFolder
from testbed.subjects.lessons.lesson import ANSWERS, EXPERIMENT, KEEP, STUDENT, Lesson, Verdict, answers, named

LARGEST = 256 << 10
"""The most octets of a file that a student hands in."""
LONGEST_REASON = 200


@dataclass(frozen=True)
class Submission:
    """The work that a student handed in: the student's half of the file and the answers, or the problem with them."""

    student: str
    source: str = ""
    given: Mapping[str, Any] | None = None
    problem: str = ""

    def composed(self, lesson: Lesson) -> str:
        """Return the file that is run: the student's half, and the lesson's with this student's values."""
        return f"{self.source.rstrip()}\n\n\n{lesson.kept(self.student)}"

    @property
    def fingerprint(self) -> str:
        """The digest of code and answers, without blanks and comments at the ends of lines."""
        code = "\n".join(line.partition("#")[0].strip() for line in self.source.splitlines())
        lines = "\n".join(line for line in code.splitlines() if line)
        return hashlib.sha256(f"{lines}\n{sorted((self.given or {}).items(), key=str)}".encode()).hexdigest()


@dataclass(frozen=True)
class Row:
    """A student's line in the table."""

    student: str
    right: int
    of: int
    steps: tuple[bool, ...]
    answers: tuple[bool, ...]
    same_as: str = ""
    why: str = ""
    """The reason why nothing was checked; empty if it was."""


def submission(lesson: Lesson, folder: Path) -> Submission:
    """Return what is in a student's folder. The student is the one of `student.txt`, or has the folder's name."""
    student = folder.resolve().name[:60] or "?"
    files = ForeignFolder(folder)
    try:
        if files.has(STUDENT):
            student = named(_text(files, STUDENT))
        source = _text(files, EXPERIMENT)
        own, line, _ = source.partition(KEEP)
        if not line:
            raise UsageError(
                f"{EXPERIMENT} has no line that begins with {KEEP.strip()!r}; start anew and copy your part"
            )
        _text(files, ANSWERS)  # its size
        return Submission(student, own, answers(lesson, folder))
    except FileNotFoundError as error:
        return Submission(student, problem=f"{Path(str(error.filename)).name} is not there")
    except (XoffError, OSError) as error:
        return Submission(student, problem=shortened(str(error)))


def _text(files: ForeignFolder, name: str) -> str:
    with files.open(name, LARGEST) as file:
        return file.read(LARGEST).decode(errors="replace")


def row(submitted: Submission, lesson: Lesson, verdicts: Iterable[Verdict]) -> Row:
    """Return the line of a student whose run was checked."""
    right = [verdict.is_right for verdict in verdicts]
    steps = len(lesson.steps)
    return Row(submitted.student, sum(right), len(right), tuple(right[:steps]), tuple(right[steps:]))


def failed(submitted: Submission, lesson: Lesson, why: str) -> Row:
    """Return the line of a student with nothing to check."""
    return Row(submitted.student, 0, len(lesson.steps) + len(lesson.questions), (), (), why=shortened(why))


def compared(rows: Sequence[Row], submitted: Sequence[Submission]) -> list[Row]:
    """Return the lines with the students whose code and answers are equal to those of others."""
    same: defaultdict[str, list[str]] = defaultdict(list)
    for one in submitted:
        if not one.problem:
            same[one.fingerprint].append(one.student)
    found = []
    for line, one in zip(rows, submitted, strict=True):
        others = [] if one.problem else list(same[one.fingerprint])
        if one.student in others:
            others.remove(one.student)
        found.append(replace(line, same_as=", ".join(others)))
    return found


def as_csv(lesson: Lesson, rows: Iterable[Row]) -> str:
    """Return the table as CSV, for a spreadsheet: no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    steps = [f"step {number}" for number in range(1, len(lesson.steps) + 1)]
    writer.writerow(
        ["student", "right", "of", *steps, *(question.key for question in lesson.questions), "same as", "why"]
    )
    for one in rows:
        cells: list[Any] = [int(value) for value in (*one.steps, *one.answers)] or [""] * one.of
        writer.writerow([neutral(value) for value in (one.student, one.right, one.of, *cells, one.same_as, one.why)])
    return out.getvalue()


def as_json(lesson: Lesson, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the table as plain data."""
    keys = [question.key for question in lesson.questions]
    return {
        "lesson": lesson.number,
        "students": [
            {
                "student": one.student,
                "right": one.right,
                "of": one.of,
                "steps": list(one.steps),
                "answers": dict(zip(keys, one.answers, strict=False)),
                "same_as": one.same_as,
                "why": one.why,
            }
            for one in rows
        ],
    }


def shortened(text: str) -> str:
    """Return the first line of a reason, not longer than a table bears."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."
