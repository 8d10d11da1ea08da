"""Shipped experiments while their processes are killed at random moments: promises about loss are kept.

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

from testbed.experiment import definition
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
"""The claims about loss of each experiment, by name."""
PARENTS = ("supervisor", "deputy")
_LEAST_S, _MOST_S = 0.02, 0.25
_AGAIN_S = 0.3
"""The time for which a node is left alone, since an agent that dies five times within a second is given up."""


class Promises:
    """A run in which only some claims count."""

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
    """A thread that kills processes of the running network until it is stopped."""

    def __init__(self, run: Run, fabric: Any, controllers: list[Any], most: int, parents: bool) -> None:
        self._rng, self._fabric, self._controllers, self._left = run.rng, fabric, controllers, most
        self._parents = parents
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
        """Return the processes to kill: agents, speakers, a controller, the agents' supervisor and its deputy."""
        agents, found = self._fabric.core.agents, list[tuple[str, str, Callable[[], None]]]()
        for node in self._fabric.core.numbers:
            for speaker in (False, True):
                if pid := agents.pid(node, speaker):
                    kind = "speaker" if speaker else "agent"
                    found.append((kind, f"{kind} of {node}", lambda pid=pid: _kill(pid)))  # type: ignore[misc]
        for kind in PARENTS * 2 if self._parents else ():
            found.append((kind, kind, lambda kind=kind: _kill(getattr(agents, kind))))  # type: ignore[misc]
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
def under(run: Run, which: str = "incast", kills: int = 6, parents: bool = False) -> None:
    """Run an experiment of `PROMISES`, and kill this many processes in each of its loads.

    With `parents` the agents' supervisor and its deputy are killed, too.
    """
    from testbed.net import traffic
    from testbed.net.fabric.fabric import Fabric
    from testbed.subjects.srv6.lab.controller import SrController

    before = everything()
    killed: dict[str, int] = {}
    frozen: list[str] = []
    controllers: list[Any] = []

    # The class itself: an experiment may have imported it by its name before.
    begin, end = traffic.Flows.__enter__, traffic.Flows.__exit__
    killers: dict[int, Killer] = {}

    def enter(flows: traffic.Flows) -> traffic.Flows:
        fabric = Fabric.running()
        assert fabric is not None
        begin(flows)
        killers[id(flows)] = Killer(run, fabric, controllers, kills, parents)
        return flows

    def leave(flows: traffic.Flows, *failure: object) -> None:
        fabric = Fabric.running()
        assert fabric is not None
        killer = killers.pop(id(flows))
        killer.stop()
        end(flows, *failure)
        for kind, many in killer.killed.items():
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

    promises = Promises(run, PROMISES[which])
    traffic.Flows.__enter__, traffic.Flows.__exit__ = enter, leave  # type: ignore[method-assign]
    importlib.import_module("testbed.subjects.srv6.lab.controller").SrController = Controller  # type: ignore[attr-defined]
    definition.find(which).perform(promises, {})  # type: ignore[arg-type]
    run.claim("claims that promise something", promises.made, at_least=1)
    run.figure("killed", killed)
    run.claim("killed at least", sum(killed.values()), at_least=kills)
    if parents:
        run.claim("supervisors and deputies among them", min(killed.get(one, 0) for one in PARENTS), at_least=1)
    run.claim("frozen after a load", frozen, equals=[])
    wait_for(lambda: everything() == before, seconds=5)
    left = {name: value for name, value in everything().items() if value != before[name]}
    run.claim("left in the end", sorted(left), equals=[])


def _frozen(fabric: Any) -> list[str]:
    """Return ports whose lossless queues stand still, and buffers that hold frames, when all had the time to end."""

    def stuck() -> list[str]:
        found = [f"{switch} holds frames" for switch in fabric.buffers if fabric.held(*range(1, 8), by=(switch,))]
        for node in fabric.core.numbers:
            for port, state in fabric.snapshot(node)["ports"].items():
                found += [f"{port} is paused" for one in state["priorities"] if one["paused_until_ns"] is not None]
        return found

    wait_for(lambda: not stuck(), seconds=20)
    return stuck()


@experiment(_in_lab_time=True, timeout="120s", files=("looking.py",))
def supervisors(run: Run) -> None:
    """Overload a port while the agents' supervisor and its deputy are killed, alone and with agents: each agent is kept
    or has a successor, nothing is lost, and no port stays paused or open.
    """
    before = everything()
    _kill_supervisors(run)
    wait_for(lambda: everything() == before, seconds=5)
    left = {name: value for name, value in everything().items() if value != before[name]}
    run.claim("left in the end", sorted(left), equals=[])


def _kill_supervisors(run: Run) -> None:
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Buffer
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.buffer.settings import Static
    from topologies.incast import Incast

    buffer = Buffer(total=2000, xoff=Static(60), xon_offset=16, headroom=200)
    with network(Incast(n=2, buffer=buffer), run) as net:
        fabric, agents = net.fabric, net.fabric.core.running_agents()
        nodes = sorted(fabric.core.numbers)

        def pids() -> dict[str, int]:
            return {node: agents.pid(node) for node in nodes}

        def congested() -> None:
            wait_for(lambda: fabric.group("s1-eth1", 3).xoff)

        def replaced(*victims: str) -> None:
            """Kill the supervisor, and right after it the agents of nodes."""
            congested()
            first, deputy, old = agents.supervisor, agents.deputy, pids()
            for pid in (first, *(old[node] for node in victims)):
                _kill(pid)
            there = wait_for(lambda: agents.deputy not in (0, deputy) and all(pids().values()))
            run.claim("a supervisor and a deputy are there", there, equals=True)
            run.claim("the supervisor is the deputy", agents.supervisor == deputy, equals=True)
            changed = sorted(node for node, pid in pids().items() if pid != old[node])
            run.claim("agents with a successor", changed, equals=sorted(victims))

        with Flows([Flow(net[name], net["r"], count=1400) for name in ("h1", "h2")]) as flows:
            replaced()
            time.sleep(0.1)
            replaced("s1")
            replaced("h1", "r")
            for _ in range(7):  # each supervisor is another process, so none dies too often
                replaced()
            congested()
            deputy = agents.deputy
            _kill(deputy)
            there = wait_for(lambda: agents.deputy not in (0, deputy))
            run.claim("another deputy is there", there, equals=True)
            congested()
            supervisor, old = agents.supervisor, agents.pid("s1")
            os.kill(supervisor, signal.SIGSTOP)
            _kill(old)  # in a moment in which the supervisor cannot see it
            _kill(supervisor)
            there = wait_for(lambda: agents.pid("s1") not in (0, old))
            run.claim("an agent that died before its supervisor has a successor", there, equals=True)
            flows.wait()
        ports = ("s1-eth1", "s1-eth2", "h1-eth0", "h2-eth0", "r-eth0")
        found = fabric.events()
        taken = [event.detail for event in found if event.kind == "supervisor_died"]
        run.claim("supervisors that died", len(taken), equals=11)
        run.claim("agents kept each time", [one["kept"] for one in taken], equals=[4] * 10 + [3])
        run.claim("agents missing each time", [one["started"] for one in taken], equals=[0] * 10 + [1])
        run.claim("deputies that died", sum(event.kind == "deputy_died" for event in found), equals=1)
        died = [(event.port, event.detail["status"]) for event in found if event.kind == "agent_died"]
        run.claim(
            "agents that died, and their status after the death of who forked them", died,
            equals=[("s1-eth1", -1), ("h1-eth0", -1), ("r-eth0", -1), ("s1-eth1", -1)],
        )  # fmt: skip
        run.claim("received", [report.received for report in flows.reports], equals=[1400, 1400])
        run.claim("out of order or doubled", [r.out_of_order + r.doubled for r in flows.reports], equals=[0, 0])
        run.claim("dropped", fabric.dropped(), equals=0)
        run.claim("cells in use", fabric.held(3), equals=0)
        run.claim("frozen in the end", _frozen(fabric), equals=[])
        state = {name: fabric.pfc(name, 3) for name in ports}
        run.claim("congested in the end", [name for name in ports if state[name]["is_congested"]], equals=[])
