"""`xoff dissector`: where Wireshark's dissector for Xoff's private formats is, and a copy of it for Wireshark."""

from __future__ import annotations

import argparse
from pathlib import Path

from testbed import frames
from testbed.errors import UsageError
from testbed.lab.result import Exit

_PLUGINS = Path(".local/lib/wireshark/plugins")
"""Of a user, below the home folder."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install", action="store_true", help=f"copy it to ~/{_PLUGINS}, where Wireshark and tshark load it"
    )


def dissector(options: argparse.Namespace) -> int:
    """The path of a Lua dissector for Wireshark: headroom measurement, DCBX's headroom capability and draft format,
    slices, and the datagrams of UDP flows. tshark takes it as -X lua_script:PATH."""
    source = Path(frames.__path__[0]) / "xoff.lua"
    if not options.install:
        print(source)
        return Exit.OK
    target = Path.home() / _PLUGINS / source.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}") from None
    print(target)
    return Exit.OK
