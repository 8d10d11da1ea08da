"""The replay of a saved session of a live view: the same controls at the same times of the lab.

A session is a topology, as `xoff serve` takes it, and actions: when each was taken after the network had started, in
the lab's time, and its command, which `controls.py` carries out as it did in the session. What a command says is a
figure of the run, and that it was carried out a claim. Pace, pauses and steps of a session concern no time of the lab,
and are not in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.errors import UsageError, XoffError
from testbed.experiment.run import Run
from testbed.net.build.network import network
from testbed.net.build.topo import LosslessTopo
from testbed.net.live.controls import Controls
from testbed.net.live.prepared import prepare
from testbed.net.shell.topologies import build
from testbed.units import Duration

Action = tuple[str, Mapping[str, Any]]
"""A moment after the start, in the lab's time, and a command: a control as `do`, and its fields."""


def replay(run: Run, topology: str, actions: Sequence[Action], *, lasts: str) -> None:
    """Run a session again: the network for as long as it lasted, and each action at its moment."""
    topo = build(topology)
    if not isinstance(topo, LosslessTopo):
        raise UsageError(f"{topology} has no lossless ports; incast,4 has some")
    prepare(topo)
    with network(topo) as net:
        if net.fabric.core.parts.many > 1:
            raise UsageError(
                "a session runs on one kernel, since its storms and thresholds act at nodes that only one part has; "
                "run it without --partitions"
            )
        start_ns = time.monotonic_ns()
        controls = Controls(net)
        try:
            for number, (moment, command) in enumerate(actions, 1):
                _sleep_until(start_ns + Duration(moment).ns)
                run.event("action", number=number, text=_words(command))
                try:
                    answer, is_done = controls.perform(dict(command)), True
                except (XoffError, OSError) as error:
                    answer, is_done = str(error), False
                run.figure(f"{number}. {_words(command)}", answer)
                run.claim(f"{number}. {_words(command)}: carried out", is_done, equals=True)
            _sleep_until(start_ns + Duration(lasts).ns)
            controls.rest()  # so that each frame that is lost is in a counter
        finally:
            controls.close()


def _sleep_until(due_ns: int) -> None:
    while (left_ns := due_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


def _words(command: Mapping[str, Any]) -> str:
    fields = (f"{name} {value}" for name, value in command.items() if name != "do" and value not in ("", None))
    return " ".join([str(command.get("do")), *fields])
