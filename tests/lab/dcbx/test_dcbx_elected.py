"""Behaviour towards a peer that a port has only if it is set to: it holds its transmission back while the peer may
discard it, and sizes its buffer by the peer's traffic classes."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.frames.dcbx.values import DcbxVersion, Ets, Tsa, mask
from testbed.lab import Run, experiment
from testbed.subjects.dcbx.settings import DcbxSettings, EtsAdmin, PfcAdmin
from testbed.units import Duration, Rate
from xoff import configure_dcbx, dcbx_state

if TYPE_CHECKING:
    from tests.lab.conftest import Runner

DISPUTED, OTHER = 3, 5
COUNT = 300
LOSSLESS = (1, 2, 3, 4)
CLASSES = 2
HEADROOM = 50
"""The headroom cells of each lossless priority."""
IN_CLASSES = Ets((0, 0, 0, 1, 1, 0, 0, 0), (50, 50, 0, 0, 0, 0, 0, 0), (int(Tsa.ETS),) * 8)
"""An ETS table with priorities 1 and 2 in one class, 3 and 4 in another."""


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def holds(run: Run) -> None:
    """A switch has its defenses on as long as it does not know its peer, and discards what a host sends.

    With `hold` the host waits until the switch shows that they are off.
    """
    for hold in (False, True):
        _hold(run, hold)


def _hold(run: Run, hold: bool) -> None:
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flow, Flows

    case = "hold" if hold else "no hold"
    admin = PfcAdmin(mask([DISPUTED]), hold=hold)
    host = Port(dcbx=DcbxSettings(DcbxVersion.DRAFT, pfc=admin))
    defending = DcbxSettings(DcbxVersion.DRAFT, pfc=PfcAdmin(mask([DISPUTED]), defense=True))

    class Line(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1", port=host), "s1", settings2=Port(dcbx=defending))
            self.addLink(self.addHost("r"), "s1")

    with network(Line(scale=1, rate="10Mb/s"), run, autoStaticArp=True) as net:
        fabric, agents = net.fabric, net.fabric.core.agents
        assert agents is not None

        def held() -> Any:
            return dcbx_state(fabric, "h1-eth0")["features"]["pfc"].get("held")

        def discarded() -> int:
            return int(fabric.sent("s1-eth1").defended_frames[DISPUTED])

        configure_dcbx(fabric, "s1-eth1", None)
        wait_for(lambda: dcbx_state(fabric, "h1-eth0")["features"]["pfc"]["remote"] is None)
        time.sleep(3)  # until a port that was disabled may start again
        before = discarded()
        flows = [Flow(net["h1"], net["r"], DISPUTED, rate=Rate("4Mb/s"), count=COUNT)]
        flows.append(Flow(net["h1"], net["r"], OTHER, rate=Rate("1Mb/s"), count=COUNT // 4))
        with Flows(flows, settle=Duration("3s")) as running, run.measuring():
            time.sleep(0.3)
            run.claim(f"{case}: held without a peer", held() or [], equals=[DISPUTED] if hold else [])
            run.claim(f"{case}: frames that arrive without a peer", running.received_by(0), equals=0)
            run.claim(f"{case}: frames of another priority", running.received_by(1), at_least=1)
            if hold:
                agent = agents.pid("h1")
                os.kill(agent, signal.SIGKILL)
                wait_for(lambda: agents.pid("h1") not in (0, agent))
                time.sleep(0.1)
                run.claim(f"{case}: frames after the agent was killed", running.received_by(0), equals=0)
            configure_dcbx(fabric, "s1-eth1", defending)
            wait_for(lambda: dcbx_state(fabric, "s1-eth1")["features"]["pfc"]["remote"] == [DISPUTED])
            wait_for(lambda: not held())
            running.wait()
        lost = discarded() - before
        run.claim(f"{case}: discarded by the peer's defense", lost, **({"equals": 0} if hold else {"at_least": 1}))
        run.claim(f"{case}: frames that arrived", running.reports[0].received, equals=COUNT - lost)
        masks = [event.priorities for event in fabric.events() if event.kind == "hold_set"]
        run.claim(f"{case}: holds in the log", masks[-2:], equals=[(DISPUTED,), ()] if hold else [])


def test_a_port_that_holds_sends_nothing_that_its_peers_defense_discards(run: Runner) -> None:
    assert run(holds).check().passed


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def sizes(run: Run) -> None:
    """A router is an end station to its bridge, which has two traffic classes for four lossless priorities."""
    for by_classes in (False, True):
        _size(run, by_classes)


def _size(run: Run, by_classes: bool) -> None:
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows

    case = "by classes" if by_classes else "for all"
    pfc = PfcAdmin(mask(LOSSLESS))
    bridge = DcbxSettings(traffic_classes=CLASSES, ets=EtsAdmin(IN_CLASSES), pfc=pfc)
    station = DcbxSettings(pfc=pfc, buffer_by_classes=by_classes)
    plain = Port().with_pfc(*LOSSLESS)

    class Behind(LosslessTopo):
        """The topology h1, h2 - bridge s1 - router r1 - r, with a slower cable to r."""

        def build(self) -> None:
            self.addSwitch("s1", port=plain)
            self.addRouter("r1", ip=None, buffer=Buffer(total=4000, headroom=HEADROOM), port=plain)
            for number in (1, 2):
                host = self.addHost(f"h{number}", ip=f"10.1.0.{number}/24", defaultRoute="via 10.1.0.254", port=plain)
                self.addLink(host, "s1")
            end = self.addHost("r", ip="10.2.0.1/24", defaultRoute="via 10.2.0.254", port=plain)
            self.addLink(
                "s1", "r1", params2={"ip": "10.1.0.254/24"},
                settings1=replace(plain, dcbx=bridge), settings2=replace(plain, dcbx=station),
            )  # fmt: skip
            self.addLink(end, "r1", cable=Cable(Rate("5Mb/s")), params2={"ip": "10.2.0.254/24"})

    with network(Behind(scale=1, rate="10Mb/s"), run, autoStaticArp=True) as net:
        fabric = net.fabric
        wait_for(lambda: dcbx_state(fabric, "r1-eth0")["features"]["traffic_classes"]["remote"] == CLASSES)
        wait_for(lambda: dcbx_state(fabric, "s1-eth3")["features"]["pfc"]["remote"] == list(LOSSLESS))
        headroom = fabric.buffer("r1").size[2]
        flows = [Flow(net[f"h{n}"], net["r"], priority, count=150) for n in (1, 2) for priority in LOSSLESS]
        with Flows(flows, settle=Duration("3s")) as running, run.measuring():
            running.wait()
        run.claim(f"{case}: frames lost", sum(report.lost for report in running.reports), equals=0)
        run.claim(f"{case}: frames dropped", fabric.dropped(), equals=0)
        used = fabric.buffer("r1").high_water[2]
        run.claim(f"{case}: headroom was used", used, at_least=1, at_most=headroom)
        paused = [event for event in fabric.events() if event.port == "r1-eth0" and event.kind == "xoff_sent"]
        run.claim(f"{case}: pauses that the router sent its bridge", len(paused), at_least=1)
        configure_dcbx(fabric, "s1-eth3", None)
        wait_for(lambda: dcbx_state(fabric, "r1-eth0")["features"]["traffic_classes"]["remote"] is None)
        wait_for(lambda: fabric.buffer("r1").size[2] == 2 * len(LOSSLESS) * HEADROOM)
        spared = (len(LOSSLESS) - CLASSES) * HEADROOM if by_classes else 0
        run.claim(f"{case}: headroom with the bridge as peer", headroom, equals=2 * len(LOSSLESS) * HEADROOM - spared)
        run.claim(f"{case}: headroom without a peer", fabric.buffer("r1").size[2], equals=2 * len(LOSSLESS) * HEADROOM)


def test_an_end_station_reserves_one_headroom_for_each_class_of_its_bridge_and_loses_nothing(run: Runner) -> None:
    assert run(sizes).check().passed
