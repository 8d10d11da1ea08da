"""The parts of QoS policies that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(name="qos", commands="testbed.subjects.qos.commands:COMMANDS")
