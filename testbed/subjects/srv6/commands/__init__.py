"""The command `xoff controller sr`."""

from __future__ import annotations

from testbed.cli.commands import CONTROLLER, SWITCHES, Command

COMMANDS = {
    SWITCHES: {
        "controller": CONTROLLER._replace(
            parts={
                "sr": Command(
                    "SR policies, VPNs, slices, SIDs, and the topology",
                    "testbed.subjects.srv6.commands.sr",
                    "sr",
                    "options",
                )
            }
        )
    }
}
