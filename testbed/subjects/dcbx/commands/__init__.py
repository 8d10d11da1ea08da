"""The commands of `xoff dcbx`."""

from __future__ import annotations

from testbed.cli.commands import SWITCHES, Command

_HERE = "testbed.subjects.dcbx.commands.daemon"
_DCBX = {
    "agent": Command("run DCBX on interfaces", _HERE, "agent", "agent_options"),
    "show": Command("show what the agents of this machine negotiate", _HERE, "show", "show_options", True),
    "metrics": Command("what the agents count, for Prometheus", _HERE, "metrics", "metrics_options"),
    "forget": Command("have the agents forget their neighbours", _HERE, "forget", "show_options", True),
}
COMMANDS = {SWITCHES: {"dcbx": Command("DCBX on interfaces of this machine", parts=_DCBX)}}
