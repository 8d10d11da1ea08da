"""The shells of Mininet's nodes, started with fewer processes.

For each node Mininet starts `mnexec`, `env` and `bash`, one program after the other, and from that shell `stty` and
`ifconfig`. `mnexec` closes each descriptor up to the limit, open or not. That is most of what a host takes to start.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from testbed.linux.process import kernel
from testbed.net.build.mininet_classes import Node

_QUIET, _QUIET_WITHOUT_STTY = "unset HISTFILE; stty -echo; set +m", "unset HISTFILE; set +m"
_LOOPBACK_UP = "ifconfig lo up"
_LOCAL_MODES = 3  # in what termios.tcgetattr() returns


@contextmanager
def few_processes() -> Iterator[None]:
    """Have nodes of all classes start without those programs while the block lasts."""
    node: Any = Node
    command, popen = node.cmd, node._popen

    def cmd(self: Any, *words: Any, **options: Any) -> Any:
        if words == (_LOOPBACK_UP,):
            with kernel.in_network_of(self.pid):
                kernel.set_up("lo")
            return ""
        if words == (_QUIET,):
            modes = termios.tcgetattr(self.slave)
            modes[_LOCAL_MODES] &= ~termios.ECHO
            termios.tcsetattr(self.slave, termios.TCSANOW, modes)
            words = (_QUIET_WITHOUT_STTY,)
        return command(self, *words, **options)

    def start(self: Any, program: list[str], **options: Any) -> Any:
        match program:
            case ["mnexec", flags, "env", variable, *shell] if flags.startswith("-c"):
                name, _, value = variable.partition("=")
                options |= {"env": {**(options.get("env") or os.environ), name: value}, "close_fds": True}
                program = ["mnexec", f"-{flags[2:]}", *shell]
        return popen(self, program, **options)

    node.cmd, node._popen = cmd, start
    try:
        yield
    finally:
        node.cmd, node._popen = command, popen
