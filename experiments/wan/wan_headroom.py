"""Headroom at the far edge of a WAN, measured through the reverse tunnel that PFC frames take."""

import time
from typing import Annotated, Any

from experiments.wan._overload import overload
from xoff import Between, Length, Run, Srv6Wan, experiment, network, wan_state

LOSSLESS = 3
PORT = "r3-eth1"
"""The port by which frames of r1 come in."""
TOO_FEW = 400
"""Cells that the far edge is configured with: enough for its own cable, not for the way to r1 and back."""


@experiment(timeout="240s")
def wan_headroom(run: Run, wan: Annotated[Length, Between("8km", "50km")] = Length("10km")) -> None:
    """r3 measures how long it takes to pause r1, two cables away, and its buffer is divided by what comes out.

    Requests go where PFC frames go, into the reverse tunnel by r2, which has neither; responses come back by the same
    routers. The configured headroom is for r3's own cable only: it holds until the first measurement. Then the cable
    between r2 and r3 is replaced by a longer one, and the next measurement finds that. Under an overload, as in
    wan_read, nothing is lost. The control case keeps what is configured, and loses.
    """
    measured = _congest(run, wan, measure=True)
    for name, delay in zip(("short cables", "a longer one"), measured["delays"], strict=True):
        beyond_ns, cells = measured["trips"].pop(0) - 2 * delay.ns, measured["cells"].pop(0)
        run.figure(f"{name}: cells of headroom", cells)
        # How long it takes r1 to obey is a part of it, the longest that it ever took.
        run.claim(f"{name}: ns of the round trip beyond the cables'", round(beyond_ns, 3), at_least=0, at_most=4000)
        run.claim(f"{name}: cells", cells, at_least=2 * TOO_FEW)
    run.figure("ns from a threshold that is passed until XOFF is sent, at most", measured["reaction"])
    run.claim("measured: lost", measured["lost"], equals=[[0, 0], [0, 0]])
    run.claim("measured: dropped by any buffer", measured["dropped"], equals=0)
    run.claim(
        "measured: cells of headroom that were used, more than was configured", measured["used"], at_least=TOO_FEW
    )
    configured = _congest(run, wan, measure=False)
    run.claim("as configured: cells", configured["cells"], equals=[TOO_FEW, TOO_FEW])
    run.claim("as configured: lost by a1", min(lost[0] for lost in configured["lost"]), at_least=10)
    run.claim("as configured: all that was lost was dropped for want of headroom at r3",
              sum(lost[0] for lost in configured["lost"]), equals=configured["dropped"])  # fmt: skip


def _congest(run: Run, wan: Length, measure: bool) -> dict[str, Any]:
    topo = Srv6Wan(wan=wan, headroom=TOO_FEW, measure=measure)
    longer = topo.delay * 3 // 2
    found: dict[str, Any] = {"trips": [], "cells": [], "lost": []}
    found["delays"] = [topo.delay * 2, topo.delay + longer]
    with network(topo) as net:
        fabric = net.fabric
        for cable, delay in zip((topo.delay, longer), found["delays"], strict=True):
            if cable != topo.delay:
                fabric.cabling.change_delay(PORT, cable)
            if measure:
                # It is measured every ten seconds of the lab, which takes some round trips.
                time.sleep(12 + 8 * net.lab_ns(delay) / 1e9)
                found["trips"].append(wan_state(fabric, "r3")["headroom"][0]["round_trip_ns"])
            found["cells"].append(fabric.limits(PORT, LOSSLESS).headroom)
            with overload(net, LOSSLESS) as flows:
                net.sleep("2ms")
                flows.stop_sending()
            found["lost"].append([report.lost for report in flows.reports])
        found["reaction"] = wan_state(fabric, "r3")["headroom"][0]["reaction_ns"] if measure else None
        found["dropped"] = fabric.dropped()
        found["used"] = fabric.group(PORT, LOSSLESS).high_water[2]
    return found
