"""The parts of DCBX that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(
    name="dcbx",
    commands="testbed.subjects.dcbx.commands:COMMANDS",
    exports="testbed.subjects.dcbx.commands.ladder:EXPORTS",
    negotiation="testbed.subjects.dcbx.lab.port_settings:negotiate",
    agent="testbed.subjects.dcbx.lab.plans:part_plan",
    views="testbed.subjects.dcbx.lab.views:VIEWS",
    states="testbed.subjects.dcbx.lab.views:states",
    history="testbed.subjects.dcbx.report.states:states",
    section="testbed.subjects.dcbx.report.ladders:section",
    decoders="testbed.subjects.dcbx.report.decoder:DECODERS",
)
