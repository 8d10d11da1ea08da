"""Guided labs: the parts of a lesson, and the checks of a student's run.

The lessons themselves are in the package `lessons`. A lesson has a page, an experiment file that the student edits, and
questions. `xoff lesson check` runs that file in the lab and looks at what the lab wrote: the networks, the events and
the figures of this very run. So answers are compared with the student's own run.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.subjects.lessons.answers import Choice, Name, Number
    from testbed.subjects.lessons.check import Missing, NotYet, Seen
    from testbed.subjects.lessons.lesson import Draw, Lesson, Step

__all__ = ["Choice", "Draw", "Lesson", "Missing", "Name", "NotYet", "Number", "Seen", "Step"]


def __getattr__(name: str) -> Any:
    """Return one of the names; what they are is imported when one is used, and not by `subject.py`."""
    if name in __all__:
        for module in ("answers", "check", "lesson"):
            found = importlib.import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
