"""Buffers and events of a running network as lines of JSON, ten times a second, for a user who watches the run. Those
of several parts of a network are joined outside the lab (`lab/partition/gang.py`).

| line | keys |
|---|---|
| `network` | its `case`, `nodes` with their kinds, `cables` and `buffers` (cells), once |
| `t` | nanoseconds since the run began, with `used` (cells by node) and `events` (time, name, port, priorities) |
| `end` | the time of the network's end; it is the last line of the network |

"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from testbed.experiment.run import Run
from testbed.linux.process import kernel
from testbed.linux.process.forked_helper import READY, PacketPipe
from testbed.linux.process.observing import Clock, Observer
from testbed.net.watch import description

_EVERY_NS = 100_000_000
_MOST_EVENTS = 200
"""The most events in a line; the event log has all."""


def reporting(net: Any, run: Run, case: str) -> Observer:
    """Start the process that writes lines about a running network, in a divided one about the nodes that are here."""
    return Observer("following the network failed", lambda pipe: _follow(net, run, case, pipe), name="xoff-follow")


def _follow(net: Any, run: Run, case: str, pipe: PacketPipe) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    fabric, start_ns = net.fabric, net.fabric.core.run_began_ns
    here = [name for name in fabric.core.here() if name in fabric.buffers]
    agents, marks = fabric.core.agents, list[int]()
    _write(
        run.follower,
        network={
            "case": case,
            "nodes": {name: description.kind(node) for name, node in net.nameToNode.items()},
            "cables": [[intf.name for intf in (link.intf1, link.intf2)] for link in net.links],
            "ports": {intf.name: intf.node.name for link in net.links for intf in (link.intf1, link.intf2)},
            "buffers": {name: settings.shared_cells for name, settings in fabric.buffers.items()},
        },
    )
    pipe.send(READY)
    clock, due_ns, ended = Clock(), start_ns, False
    while not ended:
        due_ns += _EVERY_NS * (1 + max(0, time.monotonic_ns() - due_ns) // _EVERY_NS)
        clock.set(due_ns)
        ended = pipe.fileno() in kernel.wait_readable([clock.fd, pipe])
        clock.clear()
        records = sorted(agents.records_after(marks)) if agents else []
        events = [
            (event.lab_ns - start_ns, event.kind, event.port, event.priorities)
            for event in fabric.core.log.decoded(records[-_MOST_EVENTS:])
        ]
        used = {name: sum(fabric.buffer(name).used) for name in here}
        _write(run.follower, t=time.monotonic_ns() - start_ns, used=used, events=events)
    _write(run.follower, end=time.monotonic_ns() - start_ns)


def _write(file: int, **line: Any) -> None:
    left = memoryview(json.dumps(line).encode() + b"\n")
    while left:
        left = left[os.write(file, left) :]
