"""All parts of Xoff in one run, for `xoff demo`: from bare links to a lossless read across a WAN, step by step."""

from dataclasses import replace
from typing import Annotated, Any

from experiments.headroom._headroom import wait_until_measured
from experiments.wan._overload import long, overload
from xoff import (
    Between,
    Duration,
    Length,
    Network,
    OneOf,
    Port,
    Rate,
    Run,
    SrController,
    Srv6Wan,
    dcbx_state,
    experiment,
    network,
)

LOSSLESS = 3
LASTS = Duration("3ms")
CELL = 208


@experiment(timeout="240s")
def cross_dc(
    run: Run,
    wan: Annotated[Length, Between("1km", "300km")] = Length("10km"),
    library: Annotated[str, OneOf("os-ken", "ryu")] = "os-ken",
) -> None:
    """Two data centres over an SRv6 WAN without PFC: a1 sends to b1, and b2 overloads b1's port.

    Links settle by DCBX and measure their headroom. A controller learns the routers and, from the request for a VPN,
    makes policies and reverse tunnels for PFC frames. Then the same overload is met without End.X.PFC and with it.
    """
    print("1  The WAN without End.X.PFC: a stock SRv6 network.")
    without = _without(run, wan)
    print(f"   a1 has lost {without['lost']} of {without['sent']} frames.\n")
    found = _with(run, wan, library)
    print("\n" + _table(without, found))
    run.claim("without End.X.PFC: lost", without["lost"], at_least=100)
    run.claim("with End.X.PFC: lost", found["lost"], equals=0)
    run.claim("with End.X.PFC: pauses that crossed the WAN", found["pauses"], at_least=1)


def _without(run: Run, wan: Length) -> dict[str, Any]:
    with network(Srv6Wan(wan=wan, back="none"), case="without End.X.PFC") as net:
        return _overload(run, net)


def _with(run: Run, wan: Length, library: str) -> dict[str, Any]:
    settings = replace(Port().measurement, samples=4, enough=4)
    port = replace(Port(), measurement=settings).with_dcbx(headroom=True)
    with SrController(library) as controller:
        topo = Srv6Wan(wan=wan, measure=True, controller=controller, port=port)
        with network(topo, case="with End.X.PFC") as net:
            fabric = net.fabric
            links = ["s1-eth2", "s1-eth3", "s2-eth2", "s2-eth3"]
            print("2  Links settle by DCBX, and measure how much headroom each needs.")
            wait_until_measured(fabric, links)
            for name in links:
                seen = dcbx_state(fabric, name)
                trip, cells = Duration.nearest_ns(seen["measured"]["round_trip_ns"]), seen["measured"]["cells"]
                print(f"   {name}: PFC agreed for priority {LOSSLESS}; round trip {trip}, headroom {cells} cells")
            print("3  The controller learns the routers. A VPN and a policy each way are requested.")
            begun_lab_ns = run.lab_ns
            controller.request(*topo.intents())
            controller.wait(controller.settled, "every policy and tunnel is installed")
            took = Duration.from_ns((run.lab_ns - begun_lab_ns) // 10**6 * 10**6)
            for policy in controller.ask("GET", "/policies")["policies"]:
                print(f"   policy {policy['id']} by {', '.join(policy['active']['segments'])}")
                for tunnel in controller.ask("GET", f"/policies/{policy['id']}/reverse")["tunnels"]:
                    if tunnel["direction"] == "back":
                        way = ", ".join(tunnel["segments"])
                        print(f"   reverse tunnel: {tunnel['router']} pauses {tunnel['pauses']} by {way}")
            controller.wait(lambda: len(_leaves(controller)) == 2, "the leaves have their rules")
            leaves = _leaves(controller)
            run.claim("leaves that have their ways and priorities from the controller", leaves, equals=["s1", "s2"])
            print(f"   {' and '.join(leaves)} are Open vSwitch, with ways and priorities by its OpenFlow rules")
            print(f"   all of it {took} of the lab after the first router was here")
            print("4  Headroom at the far edge is measured through the tunnel.")
            before = fabric.limits("r3-eth1", LOSSLESS).headroom
            controller.wait(lambda: fabric.limits("r3-eth1", LOSSLESS).headroom != before, "it is measured", 20)
            print(f"   r3: {fabric.limits('r3-eth1', LOSSLESS).headroom} cells, for as long as r1 takes to stop")
            print("5  The same overload, with End.X.PFC.")
            found = _overload(run, net)
            print(f"   a1 has lost {found['lost']} of {found['sent']} frames.")
            return found


def _leaves(controller: Any) -> list[str]:
    """Return the leaves that the controller has set up."""
    return sorted(leaf["name"] for leaf in controller.ask("GET", "/topology")["leaves"])


def _overload(run: Run, net: Network) -> dict[str, Any]:
    fabric = net.fabric
    with overload(net, LOSSLESS) as flows:
        net.sleep(LASTS + long(net, "r3-eth1", LOSSLESS))
        flows.stop_sending()
    report = flows.reports[0]
    edge = fabric.group("r3-eth1", LOSSLESS).high_water
    return {
        "sent": report.sent,
        "lost": report.lost,
        "goodput": report.goodput,
        "pauses": sum(event.kind == "tunnel_received" for event in fabric.events()),
        "edge": sum(edge) * CELL,
        "pause": Duration.from_ns(int(fabric.pfc("r1-eth1", LOSSLESS)["paused_ns"]) // 1000 * 1000),
    }


def _table(without: dict[str, Any], found: dict[str, Any]) -> str:
    both = (without, found)
    rows: list[tuple[str, ...]] = [("", "without", "with End.X.PFC")]
    rows.append(("frames of a1 lost", *(str(one["lost"]) for one in both)))
    rows.append(("goodput of a1", *(str(Rate.from_bps(one["goodput"].bps // 10**6 * 10**6)) for one in both)))
    rows.append(("PFC frames through the WAN", *(str(one["pauses"]) for one in both)))
    rows.append(("r1's WAN port paused", *(str(one["pause"]) for one in both)))
    rows.append(("most in r3's buffer", *(f"{one['edge'] / 1000:.0f} kB" for one in both)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "   " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )
