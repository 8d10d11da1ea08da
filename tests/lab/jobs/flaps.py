"""Cables are pulled, ports set down, agents killed and settings changed at random under lossless traffic."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from looking import wait_for

from testbed.lab import Run, experiment
from testbed.units import Duration

LOSSLESS, OTHER = 3, 4
BY_LINKS = {"cable", "port without a link", "queue of a lost link"}
"""The reasons for which a frame may be lost: it was in a cable that was pulled, waited for one, or had none."""
_CABLE = "200m"
_DELAYS = ("0.2us", "0.5us", "1us")
"""The delays of cables, on the scale of hardware; 200 m take 1 us, and headroom is for that."""
_PAUSE_S = (0.01, 0.4)
_OUT_S = (0.0005, 1.5)
"""The shortest and the longest time in s between two changes, and those for which a link is out."""
_AGAIN_S = 1.0
"""The time in s for which a node is left alone, since an agent that dies five times within a second is given up."""


class Changes:
    """The changes of a network, drawn by the run's seed."""

    def __init__(self, run: Run, net: Any) -> None:
        self._rng, self._net, self._fabric = run.rng, net, net.fabric
        self._out: dict[str, tuple[float, Callable[[], None]]] = {}
        """The ports that are out, each with the time at which it is restored, and the function that restores it."""
        self._killed: dict[str, float] = {}
        self.done: Counter[str] = Counter()

    def go_on(self, seconds: float) -> None:
        """Make one change after the other for this long, and restore everything at the end."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            time.sleep(min(self._rng.uniform(*_PAUSE_S), end - now))
            self._restore(time.monotonic())
            kind = self._rng.choice(("pull", "set_down", "kill", "delay", "pfc", "ecn"))
            if getattr(self, f"_{kind}")():
                self.done[kind] += 1
        self._restore(float("inf"))

    def _restore(self, now: float) -> None:
        for name, (until, restore) in list(self._out.items()):
            if until <= now:
                del self._out[name]
                restore()

    def _pull(self) -> bool:
        name = self._rng.choice(sorted(self._fabric.names()))
        return self._take_out(name, lambda: self._fabric.cabling.pull(name), lambda: self._fabric.cabling.plug(name))

    def _set_down(self) -> bool:
        """Set a switch's port down, or the receiver's: a sending host needs its own port for its routes."""
        name = self._rng.choice([one for one in sorted(self._fabric.names()) if not one.startswith("h")])
        intf = self._fabric.port(name).intf
        return self._take_out(name, lambda: intf.ifconfig("down"), lambda: intf.ifconfig("up"))

    def _take_out(self, name: str, lose: Callable[[], Any], restore: Callable[[], Any]) -> bool:
        far = self._fabric.far_end(self._fabric.port(name)).name
        if {name, far} & self._out.keys():
            return False
        lose()
        self._out[name] = time.monotonic() + self._rng.uniform(*_OUT_S), restore
        return True

    def _kill(self) -> bool:
        node = self._rng.choice(sorted(self._fabric.core.numbers))
        pid, now = self._fabric.core.agents.pid(node, False), time.monotonic()
        if not pid or now - self._killed.get(node, -_AGAIN_S) < _AGAIN_S:
            return False
        self._killed[node] = now
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def _delay(self) -> bool:
        name = self._rng.choice(sorted(self._fabric.names()))
        self._fabric.cabling.change_delay(name, Duration(self._rng.choice(_DELAYS)) * 1000)
        return True

    def _pfc(self) -> bool:
        """Change PFC of a priority without traffic, so that the buffer is divided anew around the one that has some."""
        from testbed.net.fabric.changes import set_pfc
        from testbed.net.fabric.ports import FabricError

        name, on = self._rng.choice(sorted(self._fabric.names())), self._rng.random() < 0.5
        try:
            set_pfc(self._fabric, name, OTHER, on)
        except FabricError as error:  # "try again when it is empty"
            assert "holds too many frames" in str(error), error
            return False
        return True

    def _ecn(self) -> bool:
        from testbed.net.fabric.changes import set_ecn
        from testbed.switch.ecn.curve import EcnCurve

        name = self._rng.choice(sorted(self._fabric.names()))
        set_ecn(self._fabric, name, LOSSLESS, self._rng.choice((None, EcnCurve("15kB", "60kB", "1/2"))))
        return True


@experiment(_in_lab_time=True, timeout="1200s", files=("looking.py",))
def flapping(run: Run, duration: Duration = Duration("6s")) -> None:
    """Overload a host from three others over two switches while the network changes: frames are lost with links alone,
    each lost frame is in a counter, and in the end everything flows.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.changes import with_dormant_ecn
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows
    from testbed.switch.ecn.field import Ecn

    class Overload(LosslessTopo):
        def build(self) -> None:
            cable = Cable("10Gb/s", _CABLE)
            self.addLink(self.addSwitch("s1"), self.addSwitch("s2"), cable=cable)
            for host, switch in (("h1", "s1"), ("h2", "s1"), ("h3", "s2"), ("r", "s2")):
                self.addLink(self.addHost(host), switch, cable=cable)

    with network(Overload(port=with_dormant_ecn(Port())), run, autoStaticArp=True) as net:
        fabric, changes = net.fabric, Changes(run, net)
        flows = [Flow(host, "r", LOSSLESS, ecn=Ecn.ECT_0) for host in ("h1", "h2")]
        flows.append(Flow("h3", "r", LOSSLESS, rate="6Mb/s", ecn=Ecn.ECT_0))
        with Flows(flows) as running, run.measuring():
            changes.go_on(duration.ns / 1e9)
            time.sleep(1)  # successors of agents, and pauses that are due, have had their time
            before = [running.received_by(index) for index in range(3)]
            time.sleep(1)
            after = [running.received_by(index) for index in range(3)]
            running.stop_sending()
        counted = fabric.losses() or {}
        reports = running.reports
        run.figure("changes", dict(changes.done))
        run.figure("sent", [report.sent for report in reports])
        run.figure("lost", [report.lost for report in reports])
        run.figure("dropped, by reason", counted)
        run.claim("changes of each kind at least", min(changes.done.values()), at_least=1)
        run.claim("kinds of changes", len(changes.done), equals=6)
        run.claim("frames lost, beside those in a counter", fabric.core.flows.lost - sum(counted.values()), equals=0)
        run.claim("frames lost with links", counted.get("cable", 0), at_least=1)
        run.claim("other reasons", sorted(counted.keys() - BY_LINKS), equals=[])
        line = Duration.from_ns(duration.ns + 2 * 10**9) // Duration("1230400ns")
        run.claim(
            "frames that the fastest sent, of what its line takes", max(r.sent for r in reports), at_most=line + 250
        )
        run.claim(
            "frames received in the last second", min(b - a for a, b in zip(before, after, strict=True)), at_least=50
        )
        run.claim(
            "the receiver's line in that second, in frames", sum(after) - sum(before), at_least=780
        )  # receivers look every 20 ms, in which 16 come
        wait_for(lambda: not any(fabric.held(*range(8), by=(switch,)) for switch in fabric.buffers))
        groups = [fabric.group(name, priority) for name in fabric.names() for priority in range(8)]
        run.claim("cells in use in the end", sum(sum(group.used) for group in groups), equals=0)
        run.claim("impossible releases", sum(group.impossible_releases for group in groups), equals=0)
