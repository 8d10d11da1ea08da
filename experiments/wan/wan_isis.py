"""A WAN whose routers speak IS-IS: a controller has their SIDs from it, and lists lead through routers of FRR alone."""

import time
from typing import Any

from experiments.wan._overload import overload
from xoff import Duration, Fabric, Run, Size, SrController, Srv6Wan, experiment, network

LOSSLESS = 3
CABLE = "10km"
CUT = "r2-eth1"
"""r2's port to r5, on the way between the edges; the way round is by r3 and r4."""
EXPIRES = Duration("4ms")
"""Longer than a pause lasts that nobody ends: 65535 quanta of r1's port of 10 Gb/s are 3.4 ms."""
EDGES = ("r1", "r5")
ROUND = ["r1", "r2", "r3", "r4", "r5"]


@experiment(timeout="300s", debs=["trixie:frr"], free_cpu=True)
def wan_isis(run: Run) -> None:
    """See whether back-pressure crosses a WAN of legacy routers, whose SIDs only IS-IS knows, and follows its paths.

    The five routers of the End.X.PFC draft's figure 2 run FRR's IS-IS with SRv6 locators. r2, r3 and r4 have nothing
    else: no agent, no session with the controller. The controller reads the database of r1's IS-IS, has End SIDs of all
    routers from there, and makes the policies and reverse tunnels of a1's traffic to b1, which b2 overloads. Nothing is
    lost. Then the cable between r2 and r5 is pulled: routes of IS-IS and lists of the controller go by r3 and r4, and
    back-pressure with them. The controller is quicker than IS-IS, so what r5 sends meanwhile to end a pause is lost,
    and the pause ends by its own time.
    """
    with SrController() as controller:
        topo = Srv6Wan(figure=2, wan=CABLE, controller=controller, igp=True)
        with network(topo) as net, controller.following(net["r1"], net.routing.routers):
            run.figure("IS-IS: from its start to all routes", net.converged("30s"))
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy, tunnel and rule is installed")
            fabric = net.fabric
            _known(run, controller)
            with overload(net, LOSSLESS, Size("1300B")) as flows:
                with run.measuring():
                    net.sleep("2ms")
                run.claim("XOFF sent into the tunnel", _count(fabric, "tunnel_xoff"), at_least=1)
                run.claim("XOFF received from it", _count(fabric, "tunnel_received"), at_least=1)
                run.claim("dropped", fabric.dropped(), equals=0)
                begin_ns = time.monotonic_ns()
                fabric.cabling.pull(CUT)
                routes = net.converged("30s", since_ns=begin_ns)
                run.figure("a cut: until the last route of IS-IS", routes)
                controller.wait(lambda: _active(controller)["routers"] == ROUND, "the path is another one")
                controller.wait(controller.installed, "it is installed")
                took_ms = (time.monotonic_ns() - begin_ns) // 10**6  # by the clock of the script, so not in ns
                run.figure("a cut: until the last new list", Duration.from_ns(took_ms * 10**6))
                net.sleep(EXPIRES)
                xoffs, received = _count(fabric, "tunnel_xoff"), _count(fabric, "tunnel_received")
                with run.measuring():
                    net.sleep("2ms")
                run.claim("a cut: XOFF over the way round", _count(fabric, "tunnel_xoff") - xoffs, at_least=1)
                run.claim("a cut: received from it", _count(fabric, "tunnel_received") - received, at_least=1)
                run.claim("a cut: dropped by the edges", _dropped(fabric, "r1", "r5"), equals=0)
                flows.stop_sending()
            run.figure("a cut: segments", _active(controller)["segments"])
            lost = [report.lost for report in flows.reports]
            run.figure("sent", [report.sent for report in flows.reports])
            run.figure("lost with the cable, and no more than it and r2's queue held", lost[0])
            run.claim("lost of the flow inside the data centre", lost[1], equals=0)
            net.sleep("10us")  # the last frame holds its cells for its time on the line
            run.claim("cells in use at the edges in the end", fabric.held(LOSSLESS, by=("r1", "r5")), equals=0)


def _count(fabric: Fabric, kind: str) -> int:
    return sum(event.kind == kind for event in fabric.events())


def _known(run: Run, controller: SrController) -> None:
    """Claim that the controller knows all routers, and report of which SIDs its lists are."""
    routers = controller.ask("GET", "/topology")["routers"]
    able = {router["name"]: router["pfc_capable"] for router in routers}
    run.claim("routers, and whether they have End.X.PFC", able, equals={name: name in EDGES for name in ROUND})
    run.figure("segments", _active(controller)["segments"])
    tunnels = controller.ask("GET", "/policies/r1:100:r5/reverse")["tunnels"]
    run.figure("segments of reverse tunnels", [tunnel["segments"] for tunnel in tunnels])


def _active(controller: SrController) -> dict[str, Any]:
    """Return the path of the policy from r1 to r5; one over no routers while there is none."""
    found: dict[str, Any] | None = controller.ask("GET", "/policies/r1:100:r5")["active"]
    return found or {"routers": []}


def _dropped(fabric: Fabric, *routers: str) -> int:
    ports = [port.name for port in fabric.ports.values() if port.node.name in routers]
    return sum(sum(fabric.group(port, priority).dropped_frames) for port in ports for priority in range(8))
