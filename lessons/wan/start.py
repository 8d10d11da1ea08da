"""Lesson 6: PFC across an SRv6 WAN. Edit the first part; run it with `xoff run FILE --report`."""

from xoff import Flow, Flows, Run, Srv6Wan, experiment, network, ping, wan_state

# ---- Your part -------------------------------------------------------------------------------------------------------

BACK = "none"
"""Steps 1 and 2: how r3 presses back on r1: "none", "planned" (tunnels set up beforehand), "learned" (from data)."""

WAN = "10km"
"""Step 3: the length of each of the two cables between the routers."""

HEADROOM = 1437
"""Step 4: cells of headroom at the edges, of 208 octets."""


# ---- Keep this part --------------------------------------------------------------------------------------------------


@experiment(timeout="240s")
def wan(run: Run) -> None:
    """a1 sends to b1 over r1, r2 and r3; b2 overloads b1's port. Without back-pressure, and as you set it."""
    _read(run, "without", "none", "10km", 1437)
    _read(run, "yours", BACK, WAN, HEADROOM)


def _read(run: Run, case: str, back: str, length: str, cells: int) -> None:
    topology = Srv6Wan(back=back, wan=length, headroom=cells)
    with network(topology, case=case) as net:
        for source in ("a1", "b2"):
            ping(net[source], net["b1"])
        trip = ping(net["a1"], net["b1"])
        flows = [Flow("a1", "b1", frame="1400B"), Flow("b2", "b1", frame="1400B")]
        with Flows(flows) as running:
            net.sleep("6ms")
            running.stop_sending()
        at_r3 = net.fabric.group("r3-eth1", 3)
        cells = net.fabric.limits("r3-eth1", 3).headroom
        tunnels = wan_state(net.fabric, "r3")["tunnels"] if back != "none" else []
    run.figure(f"{case}: sent and lost by a1", [running.reports[0].sent, running.reports[0].lost])
    run.figure(f"{case}: round trip of a ping", trip)
    run.figure(f"{case}: most cells in headroom at r3", at_r3.high_water[2])
    run.figure(f"{case}: cells of headroom at r3", cells)
    run.figure(f"{case}: reverse tunnels at r3", len(tunnels))
