"""The part of routing that plugs into the core."""

from __future__ import annotations

from testbed.subject import Subject

SUBJECT = Subject(name="routing", control_plane="testbed.subjects.routing.lab.control_plane:running")
