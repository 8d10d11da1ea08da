"""The parts of SRv6 that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(
    name="srv6",
    commands="testbed.subjects.srv6.commands:COMMANDS",
    node_options="testbed.subjects.srv6.lab.plans:NODE_OPTIONS",
    agent="testbed.subjects.srv6.lab.plans:part_plan",
    views="testbed.subjects.srv6.lab.views:VIEWS",
    states="testbed.subjects.srv6.lab.views:states",
    history="testbed.subjects.srv6.report.states:states",
)
