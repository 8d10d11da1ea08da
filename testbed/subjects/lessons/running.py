"""The run of a student's work in the lab, within limits of time and memory. The file is read in the lab alone."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from testbed import shipped_packages
from testbed.errors import XoffError
from testbed.experiment import definition
from testbed.lab.engines.engine import PreparedEngine
from testbed.lab.job.job import Limits
from testbed.lab.results.result import Status
from testbed.lab.runs import api
from testbed.subjects.lessons import grading
from testbed.subjects.lessons.check import Seen
from testbed.subjects.lessons.grading import Row, Submission
from testbed.subjects.lessons.lesson import Lesson, Verdict, verdicts

_EXPERIMENT = shipped_packages.folder(shipped_packages.EXPERIMENTS) / "_submission.py"


@dataclass(frozen=True)
class RunLimits:
    """The limits of one run: seconds of wall time and of the lab's time, and memory."""

    wall_s: float = 300.0
    virtual_s: float = 240.0
    memory_mb: int | None = None

    def of_job(self) -> Limits:
        return Limits(
            virtual_s=self.virtual_s, wall_s=self.wall_s, memory_mb=self.memory_mb, processes=1024, files_mb=64
        )


def checked(
    lesson: Lesson,
    submitted: Submission,
    on: PreparedEngine,
    limits: RunLimits,
    cancel: threading.Event | None = None,
) -> tuple[Row, list[Verdict]]:
    """Run a student's work and return the line of the table, and the verdicts; nothing of the run is kept."""
    if submitted.problem:
        return grading.failed(submitted, lesson, submitted.problem), []
    with tempfile.TemporaryDirectory(prefix="xoff-class-") as folder:
        file = Path(folder, "submission.py")
        file.write_text(submitted.composed(lesson), encoding="utf-8", errors="replace")
        try:
            result = api.run(
                definition.load_file(_EXPERIMENT), parameters={"file": str(file)}, out=Path(folder, "results"), on=on,
                limits=limits.of_job(), cancel=cancel,
            )  # fmt: skip
            if result.status is not Status.OK or result.folder is None:
                why = result.reason or "the experiment did not come to its end"
                return grading.failed(submitted, lesson, f"{result.status}: {why}"), []
            found = list(verdicts(lesson, Seen(result.folder), submitted.given or {}))
        except (XoffError, OSError) as error:
            return grading.failed(submitted, lesson, str(error)), []
    return grading.row(submitted, lesson, found), found
