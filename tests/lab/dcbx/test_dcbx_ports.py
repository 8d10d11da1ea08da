"""The settings that a node's speaker puts on its ports, also after it was killed and started again."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.frames.dcbx.values import Ets, EtsRecommendation, Tsa
from testbed.frames.mac_control import LONGEST_PAUSE, PfcFrame
from testbed.lab import Run, experiment
from testbed.subjects.dcbx.settings import DcbxSettings, EtsAdmin, Recommend
from testbed.units import Duration, Rate
from xoff import configure_dcbx, dcbx_state

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


ALL_ETS = (int(Tsa.ETS),) * 8


def speaker_of(fabric: Any, node: str) -> int:
    """Return the process of a node's speaker: that beside the agent, of the same parent and in the same network
    namespace.
    """
    agent = Path(f"/proc/{fabric.core.agents.pid(node)}")

    def parent(process: Path) -> str:
        return (process / "stat").read_text().rpartition(")")[2].split()[1]

    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_beside = process != agent and parent(process) == parent(agent)
            if is_beside and (process / "ns/net").readlink() == (agent / "ns/net").readlink():
                return int(process.name)
        except OSError:
            continue
    return 0


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def ets_while_it_runs(run: Run) -> None:
    """A host's port and a switch's, which were made without ETS, are asked to run it."""
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from topologies.incast import Incast

    with network(Incast(n=1, port=Port().with_dcbx())) as net:
        table = EtsAdmin(Ets(tuple(range(8)), (100,) + (0,) * 7, ALL_ETS))
        for port in ("h1-eth0", "s1-eth1"):
            configure_dcbx(net.fabric, port, DcbxSettings(ets=table))
            run.claim(
                f"{port} runs it", dcbx_state(net.fabric, port)["features"]["ets"]["oper"] is not None, equals=True
            )


@experiment(_in_lab_time=True, timeout="60s", files=("jobs/looking.py",))
def test_a_speaker_killed_while_queues_drain_leaves_no_priority_in_a_class_that_it_left(run: Run) -> None:
    """Priority 3 leaves the class that it had with 1, and the speaker is killed before the old queue counts as empty:
    until then a pause of 3 stops that queue too, and later it does not.
    """
    from testbed.net.build.network import network
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.port import Port
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flow, Flows

    port = Port().with_pfc(1, 3).with_dcbx(ets=True)
    assert isinstance(port.dcbx, DcbxSettings)
    together = Ets((0, 1, 2, 1, 4, 5, 6, 7), (0, 100, 0, 0, 0, 0, 0, 0), ALL_ETS)
    apart = EtsRecommendation((0, 50, 0, 50, 0, 0, 0, 0), tuple(range(8)), ALL_ETS)
    host = replace(port, dcbx=replace(port.dcbx, ets=EtsAdmin(together, willing=True)))
    switch = replace(port, dcbx=replace(port.dcbx, ets=EtsAdmin(together)))
    recommending = replace(port.dcbx, ets=EtsAdmin(together, recommend=Recommend(apart)))

    class Line(LosslessTopo):
        def build(self) -> None:
            self.addSwitch("s1")
            self.addLink(self.addHost("h1", port=host), "s1", settings2=switch)
            self.addLink(self.addHost("r"), "s1")

    with (
        network(Line(scale=1, rate="10Mb/s", port=Port().with_pfc(1, 3)), run, autoStaticArp=True) as net,
        RawPort(net["s1"], "s1-eth1", past_queues=True) as wire,
    ):
        fabric = net.fabric
        mac = fabric.port("s1-eth1").mac
        flows = [Flow(net["h1"], net["r"], priority, rate=Rate("2Mb/s")) for priority in (1, 3)]
        with Flows(flows, settle=Duration("5s")) as running:

            def sent_in_a_pause_of_3() -> int:
                wire.send(PfcFrame.of(mac, {3: LONGEST_PAUSE}).encode())
                time.sleep(0.1)
                before = running.received_by(0)
                time.sleep(0.3)
                sent = running.received_by(0) - before
                wire.send(PfcFrame.xon(mac, [3]).encode())
                time.sleep(0.1)
                return sent

            time.sleep(4)
            run.claim("in one class: sent by 1 while 3 is paused", sent_in_a_pause_of_3(), equals=0)
            configure_dcbx(fabric, "s1-eth1", recommending)
            time.sleep(0.5)
            run.claim("just parted: sent by 1 while 3 is paused", sent_in_a_pause_of_3(), equals=0)
            killed = speaker_of(fabric, "h1")
            os.kill(killed, signal.SIGKILL)
            another = wait_for(lambda: speaker_of(fabric, "h1") not in (0, killed))
            run.claim("another speaker", another, equals=True)
            time.sleep(4)
            run.claim("drained: sent by 1 while 3 is paused", sent_in_a_pause_of_3(), at_least=40)
        run.claim("lost", [report.lost for report in running.reports], equals=[0, 0])


def test_ets_begins_while_a_port_runs(run: Runner) -> None:
    run(ets_while_it_runs).check()
