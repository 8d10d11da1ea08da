"""A WAN that its controller sets up: how long that takes, a crash of the controller, and a cable cut in a pause."""

import time
from typing import Annotated

from experiments.wan._overload import overload
from xoff import Duration, Fabric, Network, OneOf, Run, Size, SrController, Srv6Wan, experiment, network, wan_state

LOSSLESS = 3
CABLE = "10km"
LEAVES = {"s1": 3, "s2": 3}
"""The switches of the data centres, and how many ports they have."""
CUT = "r2-eth1"
"""r2's port to r5, on the way between the edges; the way round is by r3 and r4."""


@experiment(timeout="300s")
def wan_controller(run: Run, library: Annotated[str, OneOf("os-ken", "ryu")] = "os-ken") -> None:
    """Under the SR policy controller a1 sends to b1 over r1, r2 and r5 of the draft's figure 2; b2 overloads b1.

    The controller learns the routers, and from the request for a VPN and two policies it makes lists of segments and
    the reverse tunnels for PFC. It is killed while a pause lasts, and another one takes its place: nothing is lost and
    nothing changes. Then the cable between r2 and r5 is pulled while a pause lasts. What is in it is lost; the policy
    goes by r3 and r4 within half a second of the lab, its tunnels too, and from then on nothing is lost, though the
    way is longer. When the cable is back so is the path. In the end no queue is stopped.

    The controller is a program, which is not slowed down as lines and cables are. So the times of its work are the
    lab's.
    """
    with SrController(library) as controller:
        topo = Srv6Wan(figure=2, wan=CABLE, controller=controller)
        with network(topo) as net:
            begun_ns = run.lab_ns
            controller.request(*topo.intents())
            controller.wait(controller.installed, "every policy and tunnel is installed")
            took = Duration.from_ns(run.lab_ns - begun_ns)
            run.claim("lab time from the last router to the last tunnel", took, at_most=Duration("2s"))
            controller.wait(controller.settled, "the leaves have their rules")
            fabric = net.fabric
            # The headers of five segments, 128 octets, have to fit into the WAN's frames as well.
            with overload(net, LOSSLESS, Size("1300B")) as flows:
                with run.measuring():
                    net.sleep("1ms")
                changes = _changes(fabric)
                run.claim("a crash: XOFF sent into the tunnel before", _count(fabric, "tunnel_xoff"), at_least=1)
                _wait_for_pause(net, "r5-eth1", "r5-eth2")
                controller.kill()
                with run.measuring():
                    net.sleep("1ms")
                controller.start()
                controller.wait(lambda: controller.ask("GET", "/topology")["settled"], "it has learned all anew")
                # The leaves are back later, which ask once a second.
                controller.wait(controller.settled, "it has learned every policy and tunnel")
                time.sleep(0.5)  # they look through their rules, which takes the lab's CPU for some time
                run.claim("a crash: what routers had to change", _changes(fabric) - changes, equals=0)
                run.claim("a crash: dropped", fabric.dropped(), equals=0)
                run.claim("a crash: path", _path(controller), equals=["r1", "r2", "r5"])

                _wait_for_pause(net, "r5-eth1", "r5-eth2")
                cut_ns = run.lab_ns
                fabric.cabling.pull(CUT)
                controller.wait(lambda: _path(controller) == ["r1", "r2", "r3", "r4", "r5"], "the path is another one")
                controller.wait(controller.installed, "it is installed")
                took = Duration.from_ns(run.lab_ns - cut_ns)
                run.claim("a cut: lab time until the last new list", took, at_most=Duration("500ms"))
                run.figure("a cut: segments", controller.ask("GET", "/policies/r1:100:r5")["active"]["segments"])
                xoffs, sent = _count(fabric, "tunnel_xoff"), flows.sent_by()
                with run.measuring():
                    net.sleep("2ms")
                run.claim("a cut: XOFF over the way round", _count(fabric, "tunnel_xoff") - xoffs, at_least=1)
                run.claim("a cut: frames that a1 has sent over it", flows.sent_by() - sent, at_least=200)
                run.claim("a cut: dropped by the edges", _dropped(fabric, "r1", "r5"), equals=0)

                fabric.cabling.plug(CUT)
                controller.wait(lambda: _path(controller) == ["r1", "r2", "r5"], "the path is back")
                controller.wait(controller.settled, "it is installed")
                with run.measuring():
                    net.sleep("1ms")
                flows.stop_sending()
            _leaves(run, controller, net, flows.received)
            lost = [report.lost for report in flows.reports]
            run.figure("frames sent", [report.sent for report in flows.reports])
            run.figure("dropped by each router", {name: _dropped(fabric, name) for name in topo.graph.routers})
            # Nothing, if r1 has stopped for the pause before the cut and what was in the cable has arrived.
            run.claim("lost with the cable, and no more than it and r2's queue held", lost[0], at_most=150)
            run.claim("lost of the flow inside the data centre", lost[1], equals=0)
            run.claim("cells in use at the edges in the end", fabric.held(LOSSLESS, by=("r1", "r5")), equals=0)
            stopped = [tunnel["stopped"] for name in ("r1", "r5") for tunnel in wan_state(fabric, name)["tunnels"]]
            run.claim("tunnels that still stop something in the end", sum(map(bool, stopped)), equals=0)
            run.claim("J is paused in the end", bool(fabric.pfc("r1-eth1", LOSSLESS)["paused_until_ns"]), equals=False)


def _leaves(run: Run, controller: SrController, net: Network, received: int) -> None:
    """Claim that the data centres' switches are Open vSwitch's, and have the controller's rules for lossless frames."""
    run.claim("leaves that the controller has, and ports that are up", _ports_up(controller), equals=LEAVES)
    steered = net.fabric.sent(net.port("s2", "b1")).steered_frames[LOSSLESS]
    run.claim("frames to b1 with the priority that its rules give", steered, equals=received)


def _ports_up(controller: SrController) -> dict[str, int]:
    """Return the number of ports that are up of each leaf that the controller has."""
    leaves = controller.ask("GET", "/topology")["leaves"]
    return {leaf["name"]: sum(port["up"] for port in leaf["ports"]) for leaf in leaves}


def _path(controller: SrController) -> list[str]:
    """Return the routers that the policy goes by; none while it has no path."""
    policy = controller.ask("GET", "/policies/r1:100:r5")
    found: list[str] = policy["active"]["routers"] if policy["active"] else []
    return found


def _count(fabric: Fabric, kind: str) -> int:
    return sum(event.kind == kind for event in fabric.events())


def _changes(fabric: Fabric) -> int:
    return _count(fabric, "sr_installed") + _count(fabric, "sr_removed")


def _dropped(fabric: Fabric, *routers: str) -> int:
    ports = [port.name for port in fabric.ports.values() if port.node.name in routers]
    return sum(sum(fabric.group(port, priority).dropped_frames) for port in ports for priority in range(8))


def _wait_for_pause(net: Network, *ports: str) -> None:
    """Wait until the far edge's buffer is over its threshold for what comes in by one of these ports."""
    deadline_lab_ns = time.monotonic_ns() + net.lab_ns("10ms")
    while time.monotonic_ns() < deadline_lab_ns:
        if any(net.fabric.group(port, LOSSLESS).xoff for port in ports):
            return
        net.sleep("2us")
