"""What Xoff adds to Mininet's command line: pfc, buffers, ecn, dcbx, headroom. Only the lab can import this."""

from __future__ import annotations

from typing import Any

from mininet.cli import CLI

from testbed.errors import XoffError
from testbed.net.fabric import Fabric
from testbed.net.views import VIEWS


def install() -> None:
    """Give Mininet's CLI our commands; its `help` lists them."""
    for name, view in VIEWS.items():
        setattr(CLI, f"do_{name}", _command(name, view))


def _command(name: str, view: Any) -> Any:
    def do(_: CLI, line: str) -> None:
        try:
            print(view(Fabric.current(), line.strip()), end="")
        except XoffError as error:
            print(f"*** {error}")

    do.__doc__ = f"{view.__doc__}\n\n{name} [NODE|PORT]"
    return do
