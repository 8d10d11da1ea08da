"""Scenario 2 of the draft with its own forward list, {R1.End.X.PFC, R2.End, R3.End.X}, and its own reverse list.

The list has no VPN SID (decision 0140). What comes of it depends on the End.X at its end: a plain one, as at r3's port
to the WAN, drops what ends there; one that decapsulates (USD, RFC 8986, 4.16.3) and leads to a host of data centre 2
delivers. Linux has the second one as End.DX4. Either way r3 learns the tunnel from the first data packet.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from testbed.lab import Run, experiment
from testbed.net.build import node_commands
from testbed.subjects.srv6.lab import routers as srv6
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.sid import Adjacency, Sid
from testbed.subjects.srv6.protocol.tunnel_learning import LearnerSettings
from testbed.units import Size
from xoff import wan_state

if TYPE_CHECKING:
    pass


LOSSLESS = 3
FRAME = Size("1400B")
TO_B1 = srv6.STRUCTURE.sid(srv6.locator(3), 0x2B)


@experiment(_in_lab_time=True, timeout="200s")
def test_the_drafts_literal_lists_teach_a_tunnel_and_deliver_where_the_last_segment_decapsulates(
    run: Run, seconds: int = 3
) -> None:
    """Check that r3 learns from the literal list, and that back-pressure loses nothing where its End.X delivers."""
    from testbed.net.build.network import network
    from testbed.net.traffic import ping, probe
    from topologies.srv6_wan import Srv6Wan

    topo = Srv6Wan(wan="10km", back="learned")
    place, leg = topo.graph.leg("r3", "r2")
    plain = srv6.end_x_sid("r3", place, leg)
    to_b1 = Sid("r3", TO_B1, behaviours.END_X, adjacencies=(Adjacency("r3-eth0", srv6.link_address(99, 1)),))
    _advertise(topo, to_b1, plain)
    near, leg1 = topo.graph.leg("r1", "r2")
    to_pause = srv6.end_x_pfc_sid("r1", near, leg1)
    reverse = [str(sid.address) for sid in (plain, srv6.end_sid("r2"), to_pause)]
    with network(topo, run) as net:
        r1, r3, fabric = net["r1"], net["r3"], net.fabric
        site = srv6.Site("red", srv6.FIRST_TABLE, "r1-eth0", srv6.vpn_sid("r1"))
        for sid in (plain, to_b1):
            forward = [one.address for one in (to_pause, srv6.end_sid("r2"), sid)]
            node_commands.send(r1, site.route("10.2.0.0/16", forward, leg1.interface))
            if sid is plain:
                lost = probe(net["a1"], net["b1"])
                run.claim("R3.End.X to the WAN: data arrive", lost is not None, equals=False)
                run.claim("R3.End.X to the WAN: learned", _tunnels(fabric), equals=[reverse])
        commands = (
            "ip route add 10.2.0.1/32 dev r3-eth0",
            f"ip -6 route add {TO_B1}/128 encap seg6local action End.DX4 nh4 10.2.0.1 dev {leg.interface}",
        )
        run.claim("refused", [r3.cmd(command) for command in commands], equals=["", ""])
        for source in ("a1", "b2"):
            ping(net[source], net["b1"])
        _flows(run, net, seconds)
        run.claim("tunnels, the same for both lists", _tunnels(fabric), equals=[reverse])


def _advertise(topo: Any, sid: Sid, first: Sid) -> None:
    """Advertise another SID of r3, and let r3's reverse tunnels start with its End.X, as in the draft."""
    for router in ("r1", "r3"):
        mine = topo.nodeInfo(router)["wan"]
        plan = replace(mine.plan, directory=(*mine.plan.directory, sid))
        if router == "r3":
            plan = replace(plan, learner=LearnerSettings(first, srv6.DOMAIN))
        topo.nodeInfo(router)["wan"] = replace(mine, plan=plan)


def _tunnels(fabric: Any) -> list[list[str]]:
    return [tunnel["segments"] for tunnel in wan_state(fabric, "r3")["tunnels"]]


def _flows(run: Run, net: Any, seconds: int) -> None:
    """Return flows of a1 and b2, each of which wants all of the port to b1."""
    from testbed.net.traffic import Flow, Flows

    fabric = net.fabric
    with Flows([Flow(net[source], net["b1"], LOSSLESS, FRAME) for source in ("a1", "b2")]) as flows:
        time.sleep(seconds)
        flows.stop_sending()
    time.sleep(1)
    kinds = [event.kind for event in fabric.events()]
    run.claim("R3.End.X to b1: sent by a1", flows.reports[0].sent, at_least=100)
    run.claim("R3.End.X to b1: lost", [report.lost for report in flows.reports], equals=[0, 0])
    run.claim("R3.End.X to b1: dropped by any buffer", fabric.dropped(), equals=0)
    run.claim("R3.End.X to b1: XOFF into the learned tunnel", kinds.count("tunnel_xoff"), at_least=2)
    run.claim("R3.End.X to b1: r1 stopped its port", fabric.pfc("r1-eth1", LOSSLESS)["xoff_received"], at_least=2)
