"""Mininet's own command with Xoff's topologies, switch, link and test, by its `--custom testbed/mn.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import testbed
from testbed.net.build.link import LosslessLink
from testbed.net.build.nodes import LosslessSwitch
from testbed.net.fabric.fabric import Fabric
from testbed.net.shell import topologies as named
from testbed.net.shell.views import buffers, pfc
from testbed.net.traffic import Flow, Flows

SWITCHES = {"lossless": LosslessSwitch}


def topologies() -> dict[str, Any]:
    """Return all topologies of Xoff, by the names that users type."""
    return {name: named.find(name) for name in named.own_names()}


def install() -> None:
    """Add to Mininet's command what its --custom cannot: the link, and that the switches need no controller."""
    command: Any = sys.modules["__main__"]
    if not hasattr(command, "LINKS"):
        return  # another program than mn reads testbed/mn.py
    from mininet.node import NullController

    command.LINKS["lossless"] = LosslessLink
    find = command.findController
    # Without --controller Mininet wants one for switch classes other than its own; Xoff's switches learn by themselves.
    command.findController = lambda: find() or NullController


def lossless_test(net: Any, frames: str = "600") -> None:
    """Send lossless frames from all hosts to the last one at once, enough to need pauses; nothing may be lost."""
    from mininet.node import Host

    *senders, target = [host for host in net.hosts if isinstance(host, Host)]
    lost = net.ping([senders[0], target], timeout="1")
    with Flows([Flow(sender, target, count=int(frames)) for sender in senders]) as flows:
        flows.wait()
    sent, received = (sum(getattr(report, name) for report in flows.reports) for name in ("sent", "received"))
    fabric = Fabric.current()
    print(pfc(fabric), buffers(fabric), sep="\n", end="")
    dropped = fabric.dropped()
    verdict = "lossless" if not lost and sent == received and not dropped else "NOT LOSSLESS"
    print(f"*** {verdict}: {len(senders)} senders, {sent} frames sent, {received} received, {dropped} dropped")
    if verdict != "lossless":
        raise SystemExit(1)


TESTS = {"lossless": lossless_test}


def with_xoff_file(words: Sequence[str]) -> list[str]:
    """Return the arguments of Mininet's own command with --custom naming Xoff's file where it is in the lab.

    The documentation names that file from Xoff's folder, in which the shell does not run.
    """
    ours, others, files = str(Path(testbed.__path__[0]) / "mn.py"), [], []
    given = iter(words)
    for word in given:
        if word == "--custom" or word.startswith("--custom="):
            name = next(given, "") if word == "--custom" else word.partition("=")[2]
            files += [
                one for one in name.split(",") if one and (Path(one).exists() or not one.endswith("testbed/mn.py"))
            ]
        else:
            others.append(word)
    return ["--custom", ",".join([ours, *(one for one in files if Path(one).resolve() != Path(ours))]), *others]
