"""The parts of lessons that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(name="lessons", commands="testbed.subjects.lessons.commands:COMMANDS")
