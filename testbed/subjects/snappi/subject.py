"""The parts of snappi that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(
    name="snappi",
    scripts="testbed.subjects.snappi.script:SCRIPTS",
)
