"""The command `xoff lesson`."""

from __future__ import annotations

from testbed.cli.commands import FIRST_STEPS, Command

COMMANDS = {
    FIRST_STEPS: {
        "lesson": Command(
            "guided labs that check your work", "testbed.subjects.lessons.commands.lesson", "lesson", "options"
        )
    }
}
