"""The parts of the link layer that plug into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(
    name="link",
    views="testbed.subjects.link.lab.views:VIEWS",
    section="testbed.subjects.link.report.replays:section",
    line_frames="testbed.subjects.link.lab.captured:as_frame",
    decoders="testbed.subjects.link.report.decoders:DECODERS",
    plans="testbed.subjects.link.commands:PLANS",
)
