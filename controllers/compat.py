"""The names that the application takes from os-ken or Ryu, where only package and base class are called otherwise."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from controllers.library import PACKAGES, choose, loaded
from controllers.switches import SwitchDoor, install

_package = loaded() or choose()


def _part(name: str) -> Any:
    return import_module(f"{_package}.{name}")


_app_manager = _part("base.app_manager")  # before the controller: os-ken's parts import each other in this order
_handler = _part("controller.handler")
_controller = _part("controller.controller")
ofp_event = _part("controller.ofp_event")
EventBase: Any = _part("controller.event").EventBase
OPENFLOW_VERSIONS = [_part(f"ofproto.ofproto_v1_{minor}").OFP_VERSION for minor in (3, 5)]
"""OpenFlow 1.3, and 1.5 with switches that have it: there a group can say what is hashed, and with which seed."""
hub = _part("lib.hub")
App: Any = _app_manager.OSKenApp if _package == "os_ken" else _app_manager.RyuApp
set_ev_cls = _handler.set_ev_cls
CONFIG_DISPATCHER, MAIN_DISPATCHER, DEAD_DISPATCHER = (
    _handler.CONFIG_DISPATCHER,
    _handler.MAIN_DISPATCHER,
    _handler.DEAD_DISPATCHER,
)


DOOR = SwitchDoor()
"""The door for switches, under `python3 -m controllers` and under Ryu's own launcher."""
install(DOOR, _controller, _part("ofproto.ofproto_parser"))


def openflow_host() -> str:
    """Return the place where the library listens for switches: a host, a path, or an empty text for everywhere."""
    return str(_part("cfg").CONF.ofp_listen_host)


def library() -> str:
    """Return the library's name and version, as in "os-ken 4.2.2"."""
    name = next(name for name, package in PACKAGES.items() if package == _package)
    return f"{name} {version(name)}"
