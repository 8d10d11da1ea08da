"""What Mininet's own command takes from us; see testbed/mn.py. Only the lab can import this."""

from __future__ import annotations

import sys
from typing import Any

from mininet.node import Host, NullController

from testbed.net import shell
from testbed.net.fabric import Fabric
from testbed.net.link import LosslessLink
from testbed.net.nodes import LosslessSwitch
from testbed.net.traffic import Flow, Flows
from testbed.net.views import buffers, pfc

SWITCHES = {"lossless": LosslessSwitch}


def topologies() -> dict[str, Any]:
    """All of ours, by the names that users type."""
    return {name: shell.find(name) for name in shell.own_names()}


def install() -> None:
    """Put into Mininet's command what its --custom does not take: the link, and that no controller is needed."""
    command: Any = sys.modules["__main__"]
    if not hasattr(command, "LINKS"):
        return  # another program than mn reads testbed/mn.py
    command.LINKS["lossless"] = LosslessLink
    find = command.findController
    # Without --controller Mininet requires one for switch classes other than its own; ours learn by themselves.
    command.findController = lambda: find() or NullController


def lossless_test(net: Any, frames: str = "600") -> None:
    """Everybody sends lossless frames to the last host at once, enough to need pauses, and nothing may be lost."""
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
