"""The commands `xoff policy` and `xoff controller qos`."""

from __future__ import annotations

from testbed.cli.commands import CONTROLLER, SWITCHES, Command

_HERE = "testbed.subjects.qos.commands"
COMMANDS = {
    SWITCHES: {
        "policy": Command("QoS policy files: check, show, convert, query", f"{_HERE}.policy", "policy", "options"),
        "controller": CONTROLLER._replace(
            parts={"qos": Command("path records, and the QoS policy in force", f"{_HERE}.qos", "qos", "options")}
        ),
    }
}
