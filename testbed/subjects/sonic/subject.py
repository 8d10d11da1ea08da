"""The parts of SONiC that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(
    name="sonic",
    commands="testbed.subjects.sonic.commands:COMMANDS",
    shell="testbed.subjects.sonic.lab.shell:SHELL",
    fabric="testbed.subjects.sonic.lab.fabric:of_config",
)
