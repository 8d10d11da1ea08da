"""Open vSwitch's daemons, started for one job in its own namespaces.

Their sockets and database are in the sandbox's own /run, and they end when the sandbox does.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.errors import XoffError

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_DATABASE = "/run/openvswitch/conf.db"
_SOCKET = "/run/openvswitch/db.sock"


class OvsError(XoffError):
    """Open vSwitch did not start."""

    exit_code = 3


def ensure() -> None:
    """Start the daemons if they do not run yet."""
    if Path(_SOCKET).exists():
        return
    daemon = ["--pidfile", "--detach", "--no-chdir", "--log-file=/dev/null", "-vconsole:off", "-vsyslog:off"]
    for command in (
        ["ovsdb-tool", "create", _DATABASE, SCHEMA],
        ["ovsdb-server", f"--remote=punix:{_SOCKET}", *daemon, _DATABASE],
        ["ovs-vsctl", "--no-wait", "init"],
        ["ovs-vswitchd", *daemon, f"unix:{_SOCKET}"],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise OvsError(f"Open vSwitch is not installed: {command[0]} is missing") from None
        if done.returncode:
            raise OvsError(f"Open vSwitch did not start: {' '.join(command[:2])}: {done.stderr.strip()}")
