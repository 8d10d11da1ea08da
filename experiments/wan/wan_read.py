"""A data centre reads from another over an SRv6 WAN whose way out is congested, with End.X.PFC and without.

a1 sends to b1 over r1, r2 and r3; b2 sends to b1 too, so that the port to b1 is overloaded, s2 pauses r3, and r3's
buffer fills. r2 between has no PFC. Then r3 has to stop r1, by a frame in a reverse tunnel.
"""

import time
from typing import Annotated, Any

from experiments.wan._overload import long, overload
from xoff import Between, Duration, Length, Rate, Report, Run, Srv6Wan, experiment, network, wan_state

LOSSLESS = 3


@experiment(timeout="240s")
def wan_read(
    run: Run,
    wan: Annotated[Length, Between("1km", "100km")] = Length("10km"),
    lasts: Annotated[Duration, Between("1ms", "20ms")] = Duration("4ms"),
) -> None:
    """Loss, goodput and back-pressure for tunnels set up beforehand, tunnels learned from the data, and none."""
    found = {back: _read(run, back, wan, lasts) for back in ("planned", "learned", "none")}
    for back in ("planned", "learned"):
        one = found[back]
        run.claim(f"{back}: lost", one["lost"], equals=[0, 0])
        run.claim(f"{back}: dropped by any buffer", one["dropped"], equals=0)
        run.claim(f"{back}: XOFF sent into the tunnel", one["xoff"], at_least=2)
        run.claim(f"{back}: pauses and resumes received through it", one["obeyed"], equals=one["told"])
        run.claim(f"{back}: XOFF sent by r1 to its data centre", one["r1 xoff"], at_least=1)
        run.claim(f"{back}: headroom used at r3, in cells", one["headroom used"], at_most=one["headroom"])
        run.claim(f"{back}: queues that r2 has stopped", one["r2 stopped"], equals=0)
        # The first frame that does not fit below the threshold; a frame takes seven cells.
        limit = one["threshold"]
        run.claim(f"{back}: cells below the threshold at the first XOFF", one["cells at XOFF"],
                  at_least=limit - 7, at_most=limit)  # fmt: skip
        run.claim(f"{back}: of the port to b1, both flows had", one["share of the port"], at_least=0.97)
    run.claim("learned: tunnels", found["learned"]["tunnels"], equals=1)
    run.claim("none: lost", found["none"]["lost"][0], at_least=100)
    run.claim("none: lost of the flow inside the data centre", found["none"]["lost"][1], equals=0)
    run.claim("none: all that was lost was dropped at r3", found["none"]["dropped"], equals=found["none"]["lost"][0])


def _read(run: Run, back: str, wan: Length, lasts: Duration) -> dict[str, Any]:
    with network(Srv6Wan(back=back, wan=wan)) as net:
        fabric = net.fabric
        with overload(net, LOSSLESS) as flows:
            net.sleep(lasts + long(net, "r3-eth1", LOSSLESS) * 2)
            stop_lab_ns = time.monotonic_ns()
            flows.stop_sending()
        events = fabric.events()
        count = {kind: sum(event.kind == kind for event in events) for kind in (
            "tunnel_xoff", "tunnel_xon", "tunnel_refresh", "tunnel_received")}  # fmt: skip
        tunnels = wan_state(fabric, "r3")["tunnels"] if back != "none" else []
        sent, at_r3 = fabric.sent("s2-eth2"), fabric.group("r3-eth1", LOSSLESS)
        found = {
            "sent": [report.sent for report in flows.reports],
            "received": [report.received for report in flows.reports],
            "lost": [report.lost for report in flows.reports],
            "dropped": fabric.dropped(),
            "xoff": count["tunnel_xoff"],
            "told": sum(count.values()) - count["tunnel_received"],
            "obeyed": count["tunnel_received"],
            "r1 xoff": fabric.group("r1-eth0", LOSSLESS).xoffs,
            "r2 stopped": sum(event.kind == "queue_stopped" and event.port.startswith("r2") for event in events),
            "threshold": fabric.limits("r3-eth1", LOSSLESS).static,
            "cells at XOFF": next(
                (
                    e.detail["shared_cells"]
                    for e in events
                    if (e.kind, e.port, e.priorities) == ("threshold", "r3-eth1", (LOSSLESS,))
                ),
                None,
            ),
            "headroom": fabric.limits("r3-eth1", LOSSLESS).headroom,
            "headroom used": at_r3.high_water[2],
            "tunnels": len(tunnels),
            "share of the port": _filled(flows.reports, stop_lab_ns, fabric.port("s2-eth2").cable.rate),
            "frames to b1": sent.sent_frames[LOSSLESS],
        }
        for name, value in found.items():
            run.figure(f"{back}: {name}", value)
        return found


def _filled(reports: list[Report], stop_lab_ns: int, line: Rate) -> float:
    """Return the part of the line to b1 that was used from the first frame of all until both senders were stopped."""
    begin_lab_ns = min(report.first_lab_ns for report in reports)
    return round(sum(float(report.goodput_between(begin_lab_ns, stop_lab_ns) / line) for report in reports), 4)
