"""Three data centres round an SRv6 ring, all congested at once: back-pressure in a circle, and no deadlock.

Each data centre sends to the next one, to a host that is overloaded from inside its data centre. So each edge router
presses back on the one before it, while it is pressed itself. PFC from switch to switch round such a circle can
deadlock (experiment `deadlock`). Here a tunnel stops what enters the WAN at its far end, and nothing that leaves
it there, so no buffer waits for the next one in a circle.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from testbed.net.traffic import WINDOW_NS
from xoff import (
    Between,
    Duration,
    Flow,
    Flows,
    Length,
    Network,
    Rate,
    Report,
    Run,
    Size,
    Srv6Ring,
    experiment,
    network,
    ping,
    wan_state,
)

LOSSLESS = 3
FRAME = Size("1400B")
"""The headers of the tunnel, 96 octets, have to fit into the WAN's frames as well."""
ROUND = (("a1", "b1"), ("b1", "c1"), ("c1", "a1"))
OVERLOAD = (("b2", "b1"), ("c2", "c1"), ("a2", "a1"))
"""The rate of the flow from inside each data centre to the host that the ring's traffic is for."""
SETTLED = Duration("500us")
WINDOW = Duration("500us")
EDGES = ["r1", "r3", "r5"]


@dataclass(frozen=True)
class Seen:
    """The goodput and the pauses of some flows that began and ended together."""

    lost: int
    goodput: list[Rate]
    """The goodput of each flow in the time in which the rates are steady."""
    least: list[int]
    """Frames of each that arrived in the worst window."""
    pressing: list[str]
    """Edges that sent XOFF into a tunnel."""
    pressed: list[str]
    """Edges that obeyed what came out of one."""


@experiment(timeout="240s")
def wan_ring(
    run: Run,
    wan: Annotated[Length, Between("1km", "100km")] = Length("10km"),
    rate: Annotated[Rate, Between("2Gb/s", "10Gb/s")] = Rate("5Gb/s"),
    lasts: Annotated[Duration, Between("1ms", "20ms")] = Duration("3ms"),
) -> None:
    """Three overloaded destinations: nothing is lost, and all flows continue. One: the other flows are not affected.

    First the flows round the ring are alone, which is what the next case is compared with: one destination overloaded.
    Then all are. In the end every buffer is empty and nothing is stopped. Without End.X.PFC each edge drops.
    """
    with network(Srv6Ring(wan=wan, rate=rate)) as net:
        alone = _case(run, net, "alone", ROUND, lasts)
        one = _case(run, net, "one overloaded", ROUND + OVERLOAD[:1], lasts)
        every = _case(run, net, "all overloaded", ROUND + OVERLOAD, lasts)
        dropped, cells, stopped = net.fabric.dropped(), *_left(net)
    run.claim("standalone: edges that press back", alone.pressing, equals=[])
    run.claim("one overloaded: edges that press back", one.pressing, equals=["r3"])
    run.claim("one overloaded: edges that are pressed", one.pressed, equals=["r1"])
    run.claim("one overloaded: lost", one.lost, equals=0)
    for place in (1, 2):
        part = round(float(one.goodput[place] / alone.goodput[place]), 4)
        name = f"one overloaded: goodput {_name(ROUND[place])}, part of what it has alone"
        run.claim(name, part, at_least=0.99, at_most=1.01)
    part = round(float(one.goodput[0] / alone.goodput[0]), 4)
    run.claim(f"one overloaded: goodput {_name(ROUND[0])}, part of what it has alone", part, at_most=0.8)
    run.claim("all overloaded: edges that press back", every.pressing, equals=EDGES)
    run.claim("all overloaded: edges that are pressed", every.pressed, equals=EDGES)
    run.claim("all overloaded: lost", every.lost, equals=0)
    for place, pair in enumerate(ROUND + OVERLOAD):
        run.claim(f"all overloaded: frames {_name(pair)} in the worst window", every.least[place], at_least=1)
    run.claim("dropped by any buffer", dropped, equals=0)
    run.claim("in the end: cells in use", cells, equals=0)
    run.claim("in the end: what is stopped", stopped, equals=[])
    with network(Srv6Ring(wan=wan, rate=rate, back="none")) as net:
        none = _case(run, net, "no back-pressure", ROUND + OVERLOAD, lasts)
        drops = [sum(net.fabric.group(port, LOSSLESS).dropped_frames) for port in ("r1-eth2", "r3-eth1", "r5-eth1")]
    for edge, dropped in zip(EDGES, drops, strict=True):
        run.claim(f"no back-pressure: dropped at {edge}", dropped, at_least=10)
    run.claim("no back-pressure: all that was lost was dropped there", none.lost, equals=sum(drops))


def _name(pair: tuple[str, str]) -> str:
    return "from {} to {}".format(*pair)


def _case(run: Run, net: Network, name: str, pairs: Sequence[tuple[str, str]], lasts: Duration) -> Seen:
    """Run all of these flows as fast as they can."""
    for source, target in pairs:
        ping(net[source], net[target])  # finds the neighbours' addresses
    wanted = [Flow(source, target, LOSSLESS, FRAME) for source, target in pairs]
    trip = max(port.cable.delay for port in net.fabric.ports.values()) * 4
    settled, window = SETTLED + trip * 2, WINDOW + trip * 2
    with Flows(wanted) as flows:
        begin_lab_ns = time.monotonic_ns()
        net.sleep(lasts + settled * 2)
        end_lab_ns = time.monotonic_ns()
        flows.stop_sending()
    events = [event for event in net.fabric.events() if event.lab_ns >= begin_lab_ns]
    settled_lab_ns = begin_lab_ns + net.lab_ns(settled)
    found = Seen(
        lost=flows.lost,
        goodput=[
            report.goodput_between(settled_lab_ns, settled_lab_ns + net.lab_ns(lasts)) for report in flows.reports
        ],
        least=[_least(report, end_lab_ns, net.lab_ns(window)) for report in flows.reports],
        pressing=_nodes(events, "tunnel_xoff"),
        pressed=_nodes(events, "tunnel_received"),
    )
    run.figure(f"{name}: sent", [report.sent for report in flows.reports])
    run.figure(f"{name}: lost", found.lost)
    run.figure(f"{name}: goodput", found.goodput)
    run.figure(f"{name}: frames in the worst {window}", found.least)
    return found


def _nodes(events: Sequence[Any], kind: str) -> list[str]:
    return sorted({event.port.partition("-")[0] for event in events if event.kind == kind})


def _least(report: Report, end_lab_ns: int, window_lab_ns: int) -> int:
    """Return the frames in the window that had the fewest, from the first frame to the end of sending."""
    each = window_lab_ns // WINDOW_NS
    whole = (end_lab_ns - report.first_lab_ns) // (each * WINDOW_NS)
    return min(sum(report.windows[number * each : (number + 1) * each]) for number in range(whole))


def _left(net: Network) -> tuple[int, list[str]]:
    """Return what buffers hold, and which ports and tunnels are stopped, when the last XON had the time to come."""
    net.sleep("1ms")
    fabric = net.fabric
    cells = fabric.held(LOSSLESS)
    ports = [name for name in fabric.names() if fabric.pfc(name, LOSSLESS)["paused_until_ns"] is not None]
    tunnels = [
        f"{edge} to {tunnel['to']}"
        for edge in EDGES
        for tunnel in wan_state(fabric, edge)["tunnels"]
        if tunnel["stopped"]
    ]
    return cells, ports + tunnels
