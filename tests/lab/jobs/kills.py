"""Shipped experiments while their processes are killed at random moments: what promises to lose nothing keeps that.

Whatever else the experiments claim, such as how many pauses there are, does not count here.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from looking import everything, wait_for

from testbed.lab import Run, experiment

PROMISES = {
    "incast": r"with PFC: (h\d+|frames dropped, by the switch's counters)$",
    "conservation": r"with PFC: (octets received from each host|drops)$",
    "mixed": r"PFC on one of the priorities: lossless frames lost$",
    "parking_lot": r"(parking lot|one switch) with PFC: lost$",
    "wan_read": r"(planned|learned): (lost|dropped by any buffer)$",
    "wan_ring": r"(alone|one overloaded|all overloaded): lost$|in the end: ",
    "wan_tenants": r"slices: (lost|dropped by any buffer)$",
    "cross_dc": r"with End\.X\.PFC: lost$",
}
"""What each claims about loss, by its claims' names."""
_LEAST_S, _MOST_S = 0.02, 0.25
_AGAIN_S = 0.3
"""So long a node is left alone: who dies five times within a second is given up."""


class Promises:
    """A run of which only some claims count."""

    def __init__(self, run: Run, wanted: str) -> None:
        self._run, self._wanted = run, re.compile(wanted)
        self.made = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def claim(self, name: str, measured: Any, **expected: Any) -> bool:
        if not self._wanted.match(name) and name != "lost, and in no counter":
            return True
        self.made += 1
        return self._run.claim(name, measured, **expected)


class Killer:
    """Kills processes of the network that runs, from a thread, until it is stopped."""

    def __init__(self, run: Run, fabric: Any, controllers: list[Any], most: int) -> None:
        self._rng, self._fabric, self._controllers, self._left = run.rng, fabric, controllers, most
        self.killed: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while self._left and not self._over.wait(self._rng.uniform(_LEAST_S, _MOST_S)):
            kind, who, kill = self._rng.choice(self._victims())
            now_s = time.monotonic()
            if now_s - self._last.get(who, -1.0) < _AGAIN_S:
                continue
            self._last[who] = now_s
            kill()
            self._left -= 1
            self.killed[kind] = self.killed.get(kind, 0) + 1

    def _victims(self) -> list[tuple[str, str, Callable[[], None]]]:
        """Agents and speakers that live; a controller."""
        agents, found = self._fabric.agents, list[tuple[str, str, Callable[[], None]]]()
        for node in self._fabric.nodes:
            for speaker in (False, True):
                if pid := agents.pid(node, speaker):
                    kind = "speaker" if speaker else "agent"
                    found.append((kind, f"{kind} of {node}", lambda pid=pid: _kill(pid)))  # type: ignore[misc]
        for controller in self._controllers:
            found.append(("controller", "controller", lambda one=controller: _replace(one)))  # type: ignore[misc]
        return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended since it was chosen, as at the end of a network
        os.kill(pid, signal.SIGKILL)


def _replace(controller: Any) -> None:
    controller.kill()
    controller.start()


@experiment(timeout="1200s", files=("looking.py",))
def under(run: Run, which: str = "incast", kills: int = 6, parent: bool = False) -> None:
    """An experiment of `PROMISES`, in each load of which so many processes are killed; `parent`: the last of them is
    the agent supervisor.
    """
    from testbed.net import traffic
    from testbed.net.controller import SrController
    from testbed.net.fabric import Fabric

    before = everything()
    killed: dict[str, int] = {}
    frozen: list[str] = []
    controllers: list[Any] = []

    class Loads(traffic.Flows):
        """A load with a killer beside it."""

        def __enter__(self) -> traffic.Flows:
            fabric = Fabric.running()
            assert fabric is not None
            super().__enter__()
            self.killer = Killer(run, fabric, controllers, kills)
            return self

        def __exit__(self, *failure: object) -> None:
            fabric = Fabric.running()
            assert fabric is not None and fabric.agents is not None
            self.killer.stop()
            if parent and fabric.agents._supervisor not in killed_parents:
                killed_parents.add(fabric.agents._supervisor)
                time.sleep(0.05)  # whoever was killed last has a successor by now
                _kill(fabric.agents._supervisor)
                killed["parent"] = killed.get("parent", 0) + 1
            super().__exit__(*failure)
            for kind, many in self.killer.killed.items():
                killed[kind] = killed.get(kind, 0) + many
            if failure[0] is None:
                frozen.extend(_frozen(fabric))

    class Controller(SrController):
        def __enter__(self) -> SrController:
            controllers.append(self)
            return super().__enter__()

        def __exit__(self, *failure: object) -> None:
            controllers.remove(self)
            super().__exit__(*failure)

    killed_parents = set[int]()
    promises = Promises(run, PROMISES[which])
    traffic.Flows = Loads  # type: ignore[misc]
    importlib.import_module("testbed.net.controller").SrController = Controller  # type: ignore[attr-defined]
    getattr(importlib.import_module(f"experiments.{which}"), which).perform(promises, {})
    run.claim("claims that promise something", promises.made, at_least=1)
    run.figure("killed", killed)
    run.claim("killed at least", sum(killed.values()), at_least=kills)
    run.claim("frozen after a load", frozen, equals=[])
    wait_for(lambda: everything() == before, seconds=5)
    left = {name: value for name, value in everything().items() if value != before[name]}
    run.claim("left in the end", sorted(left), equals=[])


def _frozen(fabric: Any) -> list[str]:
    """Ports whose lossless queues stand still, or buffers that hold frames, when all has had the time to end."""

    def stuck() -> list[str]:
        found = [f"{switch} holds frames" for switch in fabric.buffers if fabric.held(*range(1, 8), by=(switch,))]
        for node in fabric.nodes:
            for port, state in fabric.snapshot(node)["ports"].items():
                found += [f"{port} is paused" for one in state["priorities"] if one["paused_until_ns"] is not None]
        return found

    wait_for(lambda: not stuck(), seconds=20)
    return stuck()
