"""Guided labs: the parts of a lesson, and the checks of a student's run.

The lessons themselves are in the package `lessons`. A lesson has a page, an experiment file that the student edits, and
questions. `xoff lesson check` runs that file in the lab and looks at what the lab wrote: the networks, the events and
the figures of this very run. So answers are compared with the student's own run.
"""

from testbed.subjects.lessons.answers import Choice, Name, Number
from testbed.subjects.lessons.check import Missing, NotYet, Seen
from testbed.subjects.lessons.lesson import Draw, Lesson, Step

__all__ = ["Choice", "Draw", "Lesson", "Missing", "Name", "NotYet", "Number", "Seen", "Step"]
