"""Stand-ins for the nodes of other parts: they have names, addresses and ports, and no process.

A stand-in is of a class made from that of the node, so that all that asks for a node's class finds it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from testbed.net.fabric.core import FabricCore
from testbed.net.partition.cut import PartitionError
from testbed.net.partition.divided import Divided


class StandIn:
    """What a node of another part does differently."""

    name: str
    shell: Any
    pid = 0

    def startShell(self, mnopts: Any = None) -> None:
        self.shell = self.execed = self.pollOut = None
        self.pid, self.waiting, self.lastCmd, self.lastPid, self.readbuf = 0, False, None, None, ""

    def mountPrivateDirs(self) -> None: ...

    def unmountPrivateDirs(self) -> None: ...

    def setDefaultRoute(self, intf: Any = None) -> None: ...

    def terminate(self) -> None: ...

    def cleanup(self) -> None: ...

    def stop(self, deleteIntfs: bool = True) -> None: ...

    def cmd(self, *words: Any, **_: Any) -> Any:
        return ""

    def popen(self, *words: Any, **_: Any) -> Any:
        part = FabricCore.current().parts.part_of(self.name)
        raise PartitionError(
            f"{self.name} is in part {part}, and a program that another part would wait for cannot run there; "
            "node.cmd() and node.pexec() run one to its end in any part; or run it without partitions"
        )

    sendCmd = popen


@functools.cache
def stand_in(kind: type) -> type:
    """Return the class of stand-ins for nodes of a class."""
    return type(kind.__name__, (StandIn, kind), {"config": _config, "__module__": kind.__module__})


def _config(self: Any, mac: Any = None, ip: Any = None, **params: Any) -> dict[str, Any]:
    """Take the addresses of a node, as Mininet's nodes do, and run nothing."""
    if mac is not None:
        self.setMAC(mac)
    if ip is not None:
        self.setIP(ip)
    return {}


def share_commands(node: Any, parts: Divided) -> None:
    """Have `node.cmd`, `node.pexec`, and a router's `vtysh` and `birdc`, give to all parts what was printed.

    The part that has the node runs them.
    """

    def shared(run: Callable[..., Any], what: Callable[[Any], str]) -> Callable[..., Any]:
        return lambda *words, **options: parts.of(node.name, what(words), lambda: run(*words, **options))

    # The words may have times by the clock of the script, which are not quite the same everywhere.
    node.cmd = shared(node.cmd, lambda words: f"output of {str(words[0]).split()[0]!r}")
    node.pexec = shared(node.pexec, lambda _: "a command's output, errors and code")
    for program in ("vtysh", "birdc"):
        if hasattr(node, program):
            setattr(node, program, shared(getattr(node, program), lambda _: "answer of a routing daemon"))
