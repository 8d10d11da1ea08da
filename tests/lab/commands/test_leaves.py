"""Leaves, switches with Open vSwitch: an incast through them, with a controller and without, and their faults.

h1 ---s1---s2--- h3     h3's port is wanted by h1, h2 and h4. The leaves are the controller's, or learn by themselves.
h2 ---+     +--- h4
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.experiment.fidelity import Verdict
from testbed.lab import Run, experiment
from testbed.units import Size

if TYPE_CHECKING:
    from testbed.subjects.srv6.lab.controller import SrController
    from tests.lab.conftest import Runner

CASES = {
    "test_the_controllers_rules_make_frames_lossless_that_the_ports_would_drop": [
        {"library": "os-ken"},
        {"library": "ryu"},
    ]
}


LOSSLESS = 3
FRAME = Size("1400B")
LOSSY = 5
"""The priority that the leaves' ports give DSCP 24, unless a controller makes it the lossless one."""
COUNT = 800
SENDERS, TARGET = ("h1", "h2", "h4"), "h3"


@experiment(_in_lab_time=True, timeout="180s", files=("jobs/select_groups.py",))
def controlled(run: Run, library: str = "os-ken") -> None:
    """Run an incast with PFC and the controller's rules: nothing is lost, though the ports' own mapping is lossy."""
    from jobs.select_groups import equal_ways

    from testbed.net.build.network import network
    from testbed.subjects.srv6.lab.controller import SrController

    with SrController(library) as controller:
        for name, lossless in (("PFC", True), ("no PFC", False)):
            begun_ns = run.lab_ns
            with network(topology(controller, lossless, LOSSY), run) as net:
                run.figure(f"{name}: ns until the network runs", run.lab_ns - begun_ns)
                seen_by(run, controller, name)
                lost = incast(run, net, name)
                counts(run, net, name, lost, lossless)
                sent = net.fabric.sent("s2-eth2")
                run.claim(f"{name}: frames with the rule's priority", sent.steered_frames[LOSSLESS], at_least=COUNT)
                run.claim(f"{name}: frames with the ports' own", sent.sent_frames[LOSSY], equals=0)
                if lossless:
                    run.claim(f"{name}: all got it", sent.sent_frames[LOSSLESS], equals=len(SENDERS) * COUNT)
            controller.wait(lambda: not leaves(controller), "the leaves are gone")
        equal_ways(run, controller)


@experiment(_in_lab_time=True, timeout="120s")
def alone(run: Run) -> None:
    """Run it without a controller: Open vSwitch learns by itself, and by the ports' own mapping the frames are
    lossy.
    """
    from testbed.net.build.network import network

    for name, lossless, priority in (("PFC", True, LOSSLESS), ("no PFC", False, LOSSLESS), ("lossy", True, LOSSY)):
        with network(topology(None, lossless, priority), run) as net:
            lost = incast(run, net, name)
            counts(run, net, name, lost, lossless and priority == LOSSLESS)
            sent = net.fabric.sent("s2-eth2")
            run.claim(f"{name}: frames with a controller's priority", sum(sent.steered_frames), equals=0)
            run.claim(f"{name}: frames with the ports' own", sent.sent_frames[priority], at_least=COUNT)


@experiment(_in_lab_time=True, timeout="120s")
def wan(run: Run) -> None:
    """Send between the data centres of a WAN with leaves that learn: a pause crosses the WAN, and nothing is lost."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows, ping
    from topologies.srv6_wan import Srv6Wan

    with network(Srv6Wan(wan="10km", leaves="openflow"), run) as net:
        fabric = net.fabric
        for source in ("a1", "b2"):
            ping(net[source], net["b1"])
        wanted = [Flow(net[source], net["b1"], LOSSLESS, FRAME) for source in ("a1", "b2")]
        with Flows(wanted) as flows, run.measuring():
            time.sleep(4)
            flows.stop_sending()
        run.claim("lost", [report.lost for report in flows.reports], equals=[0, 0])
        run.claim("dropped", fabric.dropped(), equals=0)
        crossed = sum(event.kind == "tunnel_received" for event in fabric.events())
        run.claim("pauses and resumes that crossed the WAN", crossed, at_least=2)
        run.claim("pauses that a leaf sent to a1", fabric.pfc("s1-eth2", LOSSLESS)["xoff_sent"], at_least=1)
        used = {name: fabric.held(LOSSLESS, by=[name]) for name in ("s1", "s2", "r1", "r3")}
        run.claim("cells in use in the end", used, equals=dict.fromkeys(used, 0))


@experiment(_in_lab_time=True, timeout="180s")
def controller_and_daemon_die(run: Run, library: str = "os-ken") -> None:
    """Kill the controller and then a leaf's daemon under load, and set links down and up; nothing is left behind."""
    from mininet.net import Mininet

    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.srv6.lab.controller import SrController

    def overload(net: Mininet, seconds: float, fault: Callable[[], None] | None = None) -> int:
        """Send as much as h1 and h4 can, and return how many frames were lost."""
        wanted = [Flow(net[sender], net[TARGET], LOSSLESS, FRAME) for sender in ("h1", "h4")]
        with Flows(wanted) as flows:
            time.sleep(0.5)
            if fault:
                fault()
            time.sleep(seconds)
            flows.stop_sending()
        return sum(report.lost for report in flows.reports)

    before = ours()
    with SrController(library) as controller:
        with network(topology(controller, True, LOSSLESS), run) as net:
            seen_by(run, controller, "start")
            s1 = net["s1"].vswitch
            run.claim("processes of the leaves", len(ours()) - len(before), equals=4)
            run.claim("start: lost", overload(net, 0.5), equals=0)

            run.claim("the controller is killed: lost", overload(net, 1, controller.kill), equals=0)
            run.claim("without it: of 3 pings between new stations", pings(net, "h2", "h4"), equals=3)
            controller.start()
            seen_by(run, controller, "the next controller")
            run.claim("the next controller: lost", overload(net, 0.5), equals=0)

            old = s1.pid
            lost = overload(net, 2, lambda: os.kill(old, signal.SIGKILL))
            run.figure("the daemon is killed: lost", lost)
            run.claim("the daemon is killed: lost, in frames of a second at most", lost, at_most=840)
            run.claim("the daemon is killed: how often it was started again", s1.restarts, equals=1)
            run.claim("the daemon is killed: it is another one", s1.pid != old and alive(s1.pid), equals=True)
            run.claim("the daemon is back: lost", overload(net, 1), equals=0)

            net.configLinkStatus("h1", "s1", "down")
            controller.wait(lambda: "s1-eth2" in down(controller), "the controller has a link as down")
            run.claim("a link is down: hosts at s1", len(hosts(controller, "s1")), at_most=1)
            net.configLinkStatus("h1", "s1", "up")
            controller.wait(lambda: not down(controller), "the controller has it as up")
            run.claim("a link is back: of 3 pings", pings(net, "h1", "h3"), equals=3)
            run.claim("a link is back: lost", overload(net, 0.5), equals=0)
            net.fabric.cabling.pull("s1-eth1")
            controller.wait(lambda: down(controller) == {"s1-eth1", "s2-eth1"}, "the cable between leaves is pulled")
            net.fabric.cabling.plug("s1-eth1")
            controller.wait(lambda: not down(controller), "it is plugged in again")
            run.claim("the cable is back: of 3 pings", pings(net, "h1", "h3"), equals=3)
            run.claim("the cable is back: lost", overload(net, 0.5), equals=0)
            used = {leaf: net.fabric.held(LOSSLESS, by=[leaf]) for leaf in ("s1", "s2")}
            run.claim("cells in use in the end", used, equals={"s1": 0, "s2": 0})
            folders = [net[leaf].vswitch.folder for leaf in ("s1", "s2")]
        run.claim("processes that the network has left", sorted(ours() - before), equals=[])
        run.claim("folders that it has left", [str(folder) for folder in folders if folder.exists()], equals=[])


def ours() -> set[tuple[int, str]]:
    """Return the processes of Open vSwitch."""
    found = ((int(place.parent.name), place.read_text().strip()) for place in Path("/proc").glob("[0-9]*/comm"))
    return {(pid, name) for pid, name in found if name.startswith("ovs")}


def alive(pid: int) -> bool:
    return any(pid == known for known, _ in ours())


def pings(net: Any, source: str, target: str) -> int:
    return int(re.search(r"(\d+) received", net[source].cmd(f"ping -c 3 -i 0.2 -W 2 {net[target].IP()}"))[1])  # type: ignore[index]


def down(controller: Any) -> set[str]:
    return {port["name"] for leaf in leaves(controller) for port in leaf["ports"] if not port["up"]}


def hosts(controller: Any, leaf: str) -> list[Any]:
    return next(known["hosts"] for known in leaves(controller) if known["name"] == leaf)


def topology(controller: SrController | None, lossless: bool, priority: int) -> Any:
    from testbed.net.build.topo import LosslessTopo
    from testbed.net.fabric.cable import Cable
    from testbed.net.fabric.port import Port
    from testbed.switch.priority.settings import PriorityMap, Trust

    class Two(LosslessTopo):
        mismatch = "ignore"  # type: ignore[assignment] # hosts and leaves differ on purpose

        def build(self) -> None:
            port = Port(priorities=PriorityMap(Trust.DSCP, dscp_to_dot1p={8 * LOSSLESS: priority}))
            for leaf in ("s1", "s2"):
                self.addLeaf(leaf, controller, port=port if lossless else port.without_pfc())
            self.addLink("s1", "s2", cable=Cable("10Gb/s", "5m"))
            for leaf, hosts in (("s1", ("h1", "h2")), ("s2", ("h3", "h4"))):
                for host in hosts:
                    self.addLink(self.addHost(host), leaf)

    return Two()


def leaves(controller: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = controller.ask("GET", "/topology")["leaves"]
    return found


def seen_by(run: Run, controller: Any, name: str) -> None:
    """Wait until the controller knows the leaves and their link."""
    controller.wait(lambda: len(leaves(controller)) == 2, "both leaves are here")
    controller.wait(lambda: all(leaf["links"] for leaf in leaves(controller)), "their link is known")
    found = {leaf["name"]: [(link["port"], link["leaf"]) for link in leaf["links"]] for leaf in leaves(controller)}
    run.claim(f"{name}: links that the controller sees", found, equals={"s1": [(1, "s2")], "s2": [(1, "s1")]})


def incast(run: Run, net: Any, name: str) -> int:
    """Send from three hosts to one, and return how many frames were lost."""
    from testbed.net.traffic import Flow, Flows, ping

    for sender in SENDERS:
        ping(net[sender], net[TARGET])
    wanted = [Flow(net[sender], net[TARGET], LOSSLESS, FRAME, count=COUNT) for sender in SENDERS]
    with Flows(wanted) as flows, run.measuring():
        flows.wait()
    time.sleep(0.002)  # the last frame holds its cells until its last bit has left
    run.figure(f"{name}: out of order", [report.out_of_order for report in flows.reports])
    return sum(report.lost for report in flows.reports)


def counts(run: Run, net: Any, name: str, lost: int, lossless: bool) -> None:
    fabric = net.fabric
    pauses = sum(fabric.pfc(port, LOSSLESS)["xoff_sent"] for port in ("s1-eth2", "s1-eth3", "s2-eth3"))
    if lossless:
        run.claim(f"{name}: lost", lost, equals=0)
        run.claim(f"{name}: pauses that leaves sent to hosts", pauses, at_least=3)
    else:
        run.claim(f"{name}: lost", lost, at_least=100)
        run.claim(f"{name}: pauses that leaves sent to hosts", pauses, equals=0)
    run.claim(f"{name}: dropped by the buffers", fabric.dropped(), equals=lost)
    used = {leaf: fabric.held(LOSSLESS, LOSSY, by=[leaf]) for leaf in ("s1", "s2")}
    run.claim(f"{name}: cells in use in the end", used, equals={"s1": 0, "s2": 0})
    missed = {leaf: net[leaf].vswitch.missed for leaf in ("s1", "s2")}
    run.claim(f"{name}: frames that Open vSwitch had no room for", missed, equals={"s1": 0, "s2": 0})


def test_the_controllers_rules_make_frames_lossless_that_the_ports_would_drop(
    run: Runner, case: Mapping[str, Any]
) -> None:
    result = run(controlled, **case).check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_without_a_controller_the_ports_mapping_holds(run: Runner) -> None:
    result = run(alone).check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_the_wan_has_such_leaves_too(run: Runner) -> None:
    result = run(wan).check()
    assert result.passed and result.fidelity.verdict is Verdict.KEPT


def test_a_dead_controller_loses_nothing_a_dead_daemon_little_and_all_recovers(run: Runner) -> None:
    run(controller_and_daemon_die).check()  # a daemon that starts keeps the CPU busy: fidelity may be degraded
