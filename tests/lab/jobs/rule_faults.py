"""Jobs whose port drops by a rule of one's own, and whose counters are changed behind the kernel's back."""

from __future__ import annotations

import struct
from typing import Any

from testbed.linux.port_program.records import GROUP, PRIORITIES, RULED
from xoff import Flow, Incast, OfferedFrame, Port, PortLine, PortRule, Run, experiment, network


class EveryTenth(PortRule):
    """A port that drops each tenth frame."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.offered = 0

    def on_admission(self, frame: OfferedFrame) -> int:
        self.offered += 1
        return self.DROP if self.offered % 10 == 0 else self.ADMIT


@experiment
def drops(run: Run, forget: int = 0) -> None:
    """Send 400 frames to a port that drops 40 of them, and let its counter forget some."""
    with network(Incast(2, port=Port().with_rule(EveryTenth, 3), hopts={"port": Port()}, total=4000)) as net:
        flows = net.run(*(Flow(host, "r", count=200) for host in ("h1", "h2")))
        if forget:
            _forget(net.fabric.core.running_program().buffers.group_memory, net.fabric.port("s1-eth1").slot, forget)
    run.figure("lost by both", flows.lost)


def _forget(memory: Any, slot: int, frames: int) -> None:
    """Take frames from the counter of those that rules refused, of priority 3 at a port."""
    fields = GROUP.unpack_from(memory, (slot * PRIORITIES + 3) * GROUP.size)
    changed = list(fields)
    changed[8 + 14 + RULED] -= frames
    assert changed[8 + 14 + RULED] >= 0
    struct.pack_into(GROUP.format, memory, (slot * PRIORITIES + 3) * GROUP.size, *changed)
