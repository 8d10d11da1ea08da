"""Xoff in Mininet's own command:

    mn --custom testbed/mn.py --topo incast,4 --link lossless --switch lossless --test lossless

It adds our topologies, the lossless switch and link, the test, and the commands pfc, buffers, ecn and dcbx of the CLI.
"""

import sys
from pathlib import Path

# `mn` executes this file without saying where it is, so the package is looked for where the command line has it.
for _argument in sys.argv:
    for _name in _argument.removeprefix("--custom=").split(","):
        if _name.endswith("mn.py") and (Path(_name).resolve().parents[1] / "testbed" / "__init__.py").exists():
            sys.path.insert(0, str(Path(_name).resolve().parents[1]))

from testbed.net.shell import commands, mininet_command  # noqa: E402

commands.install()
mininet_command.install()

topos = mininet_command.topologies()
switches = mininet_command.SWITCHES
tests = mininet_command.TESTS
