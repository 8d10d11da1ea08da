"""A subnet manager that looks by itself: a cable goes while frames flow, and they go another way."""

from __future__ import annotations

import time
from typing import Any

from testbed.lab import Run, experiment

POLICY = (
    b"<qos-policy><port-groups><port-group><name>all</name><node-type>ALL</node-type></port-group></port-groups>"
    b"<qos-levels><qos-level><name>DEFAULT</name><sl>0</sl></qos-level></qos-levels></qos-policy>"
)


@experiment(_in_lab_time=True, timeout="120s")
def test_a_cable_that_is_pulled_under_load_is_followed(run: Run) -> None:
    from experiments.qos._qos import flow
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from testbed.net.traffic import Flows
    from testbed.subjects.qos.lab.from_controller import FollowingManager
    from testbed.subjects.srv6.lab.controller import SrController
    from topologies.leaf_spine import LeafSpine

    topology = LeafSpine(length="100m", ways="host number", port=Port().with_vls())
    with SrController() as controller, network(topology, run, autoStaticArp=True) as net:
        uplinks = [port for port in net.fabric.names() if is_uplink(net, port)]
        with FollowingManager(net.fabric, controller.client) as manager:
            manager.sa.put_policy(POLICY)
            manager.wait()
            with Flows([flow("h1", "h3", 0, rate="2Mb/s", duration="3s")]) as running:
                used = max(uplinks, key=lambda port: sent_in(net, port, 0.3))
                net.fabric.cabling.pull(used)
                time.sleep(0.5)  # five sweeps
                moved = {port: sent_in(net, port, 0.5) for port in uplinks}
                net.fabric.cabling.plug(used)
                time.sleep(0.5)
                manager.wait()
        report = running.reports[0]
        run.figure("frames sent, lost", [report.sent, report.lost])
        run.claim("frames at the port whose cable is gone", moved.pop(used), equals=0)
        # 2 Mb/s in frames of 1538 octets on the line are some 80 in half a second.
        run.claim("frames at another port of the leaf", max(moved.values()), at_least=70)
        run.claim("frames lost, of 82 in half a second", report.lost, at_most=40)


def is_uplink(net: Any, port: str) -> bool:
    far = net.fabric.far_end(net.fabric.port(port)).node.name
    return port.startswith("leaf1-") and str(far).startswith("spine")


def sent_in(net: Any, port: str, seconds: float) -> int:
    """Return the number of frames that a port sends within some time."""
    before = sum(net.fabric.sent(port).sent_frames)
    time.sleep(seconds)
    return int(sum(net.fabric.sent(port).sent_frames) - before)
