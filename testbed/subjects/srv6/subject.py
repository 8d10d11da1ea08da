"""What srv6 plugs into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(name="srv6", commands="testbed.subjects.srv6.commands:COMMANDS")
