"""Which of the two libraries the controller runs under. Nothing of either is imported here before it has to be.

os-ken is Ryu's maintained fork. Ryu 4.34 needs to be prepared: it imports a name that a current eventlet no longer has,
and the standard library has to be made green before anything else is imported.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
from typing import Any

from testbed.errors import UsageError

PACKAGES = {"os-ken": "os_ken", "ryu": "ryu"}


def loaded() -> str | None:
    """The package that is running already, as under `ryu-manager`."""
    return next((package for package in PACKAGES.values() if f"{package}.base.app_manager" in sys.modules), None)


def choose(name: str | None = None) -> str:
    """The package of that name, or else the first that is there."""
    if name is not None and name not in PACKAGES:
        raise UsageError(f"there is no library {name} for controllers; there are {', '.join(PACKAGES)}")
    for package in (PACKAGES[name],) if name else PACKAGES.values():
        if importlib.util.find_spec(package) is not None:
            return package
    raise UsageError(
        f"{f'{name} is not' if name else 'neither os-ken nor Ryu is'} installed here; install os-ken 4.2.2, as Xoff's "
        "extra 'host' does, or run the controller in the lab, which has both"
    )


def load_ryu() -> None:
    """Prepare Ryu 4.34."""
    import eventlet.wsgi

    eventlet.wsgi.ALREADY_HANDLED = getattr(eventlet.wsgi, "ALREADY_HANDLED", object())
    from ryu.lib import hub

    hub.patch(thread=False)


def let_switches_come_by_unix_socket(controller: Any) -> None:
    """Both libraries listen at a Unix socket if they are given a path, and then fail to set an option of TCP on it.

    `controller` is their module of that name. A Unix socket is for switches in other network namespaces.
    """
    serve = controller.datapath_connection_factory
    controller.datapath_connection_factory = lambda connection, address: serve(_Local(connection), address or "a leaf")


class _Local:
    """A connection by a Unix socket, which has none of TCP's options."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if level != socket.IPPROTO_TCP:
            self._connection.setsockopt(level, option, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
