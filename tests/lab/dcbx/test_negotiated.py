"""Ports that speak DCBX, under load, and when something ends."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from jobs.looking import wait_for

from testbed.lab import Run, experiment
from testbed.switch.buffer.settings import Static
from testbed.switch.priority.negotiation import Negotiation
from xoff import configure_dcbx, dcbx_state

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


PORTS = ("h1-eth0", "h2-eth0", "s1-eth1", "s1-eth2", "s1-eth3", "r-eth0")


def incast(run: Run, **options: Any) -> Any:
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from topologies.incast import Incast

    return network(Incast(n=2, **{"port": Port().with_dcbx(ets=True)} | options), run)


def enabled(fabric: Any) -> dict[str, list[int]]:
    """Return the priorities with PFC that each agent has."""
    found = {}
    for node in ("h1", "h2", "s1", "r"):
        for name, port in fabric.snapshot(node)["ports"].items():
            found[name] = [one["priority"] for one in port["priorities"] if one["enabled"]]
    return found


def everywhere(*priorities: int) -> dict[str, list[int]]:
    return {name: list(priorities) for name in PORTS}


def with_pfc(settings: Negotiation | None, *priorities: int) -> Negotiation:
    assert settings is not None
    return settings.with_lossless(frozenset(priorities))


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_changes_under_load_lose_nothing_that_stays_lossless(run: Run) -> None:
    """PFC of other priorities and the shares change again and again, at one port after the other, while two senders
    overload a port. Nothing of what is lossless all the time is lost.
    """
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows

    buffer = Buffer(total=3000, xoff=Static(60), xon_offset=16, headroom=200)
    tables = [Port(shares=shares).with_dcbx(ets=True).dcbx for shares in ({3: 60, 5: 20}, {3: 10, 5: 70}, {})]
    with incast(run, buffer=buffer) as net:
        fabric = net.fabric
        wait_for(lambda: not dcbx_state(fabric, "r-eth0")["features"]["pfc"]["pending"])
        flows = Flows([Flow(net[name], net["r"], priority) for name in ("h1", "h2") for priority in (3, 5)])
        with flows, run.measuring():
            wait_for(lambda: fabric.group("s1-eth1", 3).xoffs > 2)
            for number in range(6):
                sets = ((3, 4), (3, 4, 6), (3,))
                for name in PORTS:
                    configure_dcbx(fabric, name, with_pfc(tables[number % 3], *sets[number % 3]))
                wait_for(lambda: enabled(fabric) == everywhere(*sets[number % 3]))  # noqa: B023
                time.sleep(0.1)
            xoffs = fabric.group("s1-eth1", 3).xoffs
            time.sleep(0.5)
            run.claim("pauses go on", fabric.group("s1-eth1", 3).xoffs - xoffs, at_least=2)
            flows.stop_sending()
        lossless = [report for number, report in enumerate(flows.reports) if number % 2 == 0]
        run.claim("lost of priority 3", [report.lost for report in lossless], equals=[0, 0])
        run.claim("doubled of priority 3", [report.doubled for report in lossless], equals=[0, 0])
        run.figure("received, by flow", [report.received for report in flows.reports])
        run.claim("received of priority 3", min(report.received for report in lossless), at_least=200)
        groups = [fabric.group(name, 3) for name in ("s1-eth1", "s1-eth2")]
        run.figure("most headroom used", max(group.high_water[2] for group in groups))
        run.claim("dropped of priority 3", [sum(group.dropped_frames) for group in groups], equals=[0, 0])
        run.claim("cells in use", fabric.held(3), equals=0)
        run.claim("PFC in the end", enabled(fabric), equals=everywhere(3))
        changes = sum(event.kind == "ets_set" for event in fabric.events())
        run.claim("changes of shares", changes, at_least=30)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_what_was_negotiated_outlives_speakers_and_agents(run: Run) -> None:
    """Speakers and agents are killed: what was negotiated stays, nothing is lost, and the next change is made."""
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows

    buffer = Buffer(total=2000, xoff=Static(60), xon_offset=16, headroom=200)
    tell, follow = Port().with_pfc(4).with_dcbx(), Port().without_pfc().with_dcbx(willing=True)
    with incast(run, buffer=buffer, port=tell) as net:
        fabric = net.fabric
        assert tell.dcbx and follow.dcbx
        for name in ("h1-eth0", "h2-eth0", "r-eth0"):
            configure_dcbx(fabric, name, follow.dcbx)
        wait_for(lambda: enabled(fabric) == everywhere(4))
        run.claim("adopted", enabled(fabric), equals=everywhere(4))
        with Flows([Flow(net[name], net["r"], 4, count=700) for name in ("h1", "h2")]) as flows:
            wait_for(lambda: fabric.group("s1-eth1", 4).xoffs > 2)
            for node, speaker in [("s1", True), ("h1", True), ("s1", False), ("h1", False), ("r", True), ("s1", True)]:
                before = fabric.core.agents.pid(node, speaker)
                os.kill(before, signal.SIGKILL)
                wait_for(lambda: fabric.core.agents.pid(node, speaker) not in (0, before))  # noqa: B023
                time.sleep(0.1)
                run.claim("kept", enabled(fabric), equals=everywhere(4))
            flows.wait()
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])
        run.claim("died", sum(event.kind == "agent_died" for event in fabric.events()), equals=6)
        configure_dcbx(fabric, "s1-eth1", with_pfc(tell.dcbx, 4, 6))
        wait_for(lambda: enabled(fabric)["h1-eth0"] == [4, 6])
        wanted = everywhere(4) | {"h1-eth0": [4, 6], "s1-eth1": [4, 6]}
        run.claim("adopted by the successor", enabled(fabric), equals=wanted)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def test_links_and_neighbours_come_and_go(run: Run) -> None:
    """A link goes down and up, and DCBX is switched off and on: a willing host falls back to its own settings, and
    adopts again.
    """
    from testbed.net.fabric.port import Port

    tell, follow = Port().with_pfc(4).with_dcbx(), Port().with_pfc(2).with_dcbx(willing=True)
    with incast(run, port=tell) as net:
        fabric = net.fabric
        configure_dcbx(fabric, "h1-eth0", follow.dcbx)
        run.claim("adopted", wait_for(lambda: enabled(fabric)["h1-eth0"] == [4]), equals=True)
        net.configLinkStatus("s1", "h1", "down")
        run.claim("standalone: its own", wait_for(lambda: enabled(fabric)["h1-eth0"] == [2]), equals=True)
        run.claim("neighbours of a link that is down", dcbx_state(fabric, "s1-eth1")["neighbours"], equals=[])
        up_ns = time.monotonic_ns()
        net.configLinkStatus("s1", "h1", "up")
        run.claim("adopted again", wait_for(lambda: enabled(fabric)["h1-eth0"] == [4]), equals=True)
        run.figure("ms from carrier to adoption", (time.monotonic_ns() - up_ns) / 1e6)
        # On a scale of 1000 that many virtual ms are ms of a network at full speed, and 3 s are allowed.
        run.claim(
            "us of protocol time from carrier to adoption", (time.monotonic_ns() - up_ns) // 10**6, at_most=3 * 10**6
        )
        configure_dcbx(fabric, "s1-eth1", None)
        run.claim("the switch said goodbye", wait_for(lambda: enabled(fabric)["h1-eth0"] == [2]), equals=True)
        run.claim("off", dcbx_state(fabric, "s1-eth1")["running"], equals=False)


@experiment(_in_lab_time=True, timeout="120s", files=("jobs/looking.py",))
def too_small(run: Run) -> None:
    """A buffer that has cells for one lossless priority at each port, and is asked for two: what it has it keeps."""
    from testbed.net.fabric.port import Buffer, Port
    from testbed.net.traffic import Flow, Flows

    buffer = Buffer(total=900, xoff=Static(60), xon_offset=16, headroom=200)
    settings = Port().with_dcbx().dcbx
    assert settings
    with incast(run, buffer=buffer, port=Port().with_dcbx()) as net:
        fabric = net.fabric
        for name in PORTS:
            configure_dcbx(fabric, name, with_pfc(settings, 3, 4))
        wait_for(lambda: dcbx_state(fabric, "s1-eth3")["refused"])
        refused = {name: dcbx_state(fabric, name)["refused"] for name in PORTS}
        run.figure("refused", refused)
        run.claim("refused", [name for name, why in refused.items() if why], equals=["s1-eth2", "s1-eth3"])
        with Flows([Flow(net[name], net["r"], 3, count=300) for name in ("h1", "h2")]) as flows:
            flows.wait()
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])
        for name in PORTS:
            configure_dcbx(fabric, name, with_pfc(settings, 4))
        wait_for(lambda: not any(dcbx_state(fabric, name)["refused"] for name in PORTS))
        run.claim("refused", [name for name in PORTS if dcbx_state(fabric, name)["refused"]], equals=[])


def test_a_buffer_that_is_too_small_refuses_and_keeps_what_it_has(run: Runner) -> None:
    refused = run(too_small).check().figure("refused")
    assert "cells are missing" in refused["s1-eth2"], refused
