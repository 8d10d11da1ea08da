"""Two tenants over one SRv6 WAN: what is congested at one tenant's far end holds up only this tenant.

Red reads from a1 to b1, whose port red's own b2 and b3 want too: red is congested in the far data centre. Blue
sends from c1 to d1 at a steady rate over the same routers and cables, and has done nothing wrong.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

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
    SrController,
    Srv6Wan,
    experiment,
    network,
    ping,
)

LOSSLESS = 3
"""The priority of both tenants; in the WAN the queue of red's slice is 3 and that of blue's is 4."""
FRAME = Size("1400B")
"""The headers of the tunnel, 96 octets, have to fit into the WAN's frames as well."""
BLUE_RATE = Rate("4Gb/s")
"""Less than blue's share of the WAN's 10 Gb/s."""
SHARES = (20, 60)
"""Shares of red's and blue's slice: a quarter and three quarters, if both want more."""
CROWD = ("b2", "b3")
RED = (("a1", "b1"), *((host, "b1") for host in CROWD))
SETTLED = Duration("500us")
DIVIDED = Duration("1ms")
"""The time in which both tenants want all of the WAN."""
J = "r1-eth2"
"""The port that End.X.PFC of r1 pauses."""


@dataclass(frozen=True)
class Seen:
    """The flows of a case in which blue sends at its rate, and red as much as it can."""

    lost: dict[str, int]
    blue: Rate
    """The goodput of blue at d1."""


@experiment(timeout="240s")
def wan_tenants(
    run: Run,
    wan: Annotated[Length, Between("5km", "100km")] = Length("10km"),
    lasts: Annotated[Duration, Between("1ms", "20ms")] = Duration("3ms"),
) -> None:
    """With a slice each, red is paused alone; in one queue blue is held up as well; without pauses red loses.

    What blue gets is compared with what it had before red sent anything. Then both tenants want more of r1's port to
    the WAN than it has, and nothing else is congested: each slice gets its share of the line.
    """
    many = 1 + len(CROWD)
    with SrController() as controller, _under(controller, run, many, wan) as net:
        before = _blue_and(run, net, "before red sends", (), lasts)
        slices = _blue_and(run, net, "slices", RED, lasts)
        at_j = [event for event in net.fabric.events() if event.port == J]
        told = [event for event in at_j if event.kind == "tunnel_received"]
        run.claim("slices: lost", slices.lost, equals={"red": 0, "blue": 0})
        run.claim("slices: dropped by any buffer", net.fabric.dropped(), equals=0)
        run.claim("slices: pauses and resumes that reached J through the tunnel", len(told), at_least=4)
        run.claim("slices: queues that they were for", _queues(told), equals=[3])
        stopped = [event for event in at_j if event.kind == "queue_stopped"]
        run.claim("slices: queues that stopped at J", _queues(stopped), equals=[3])
        part = _part(slices, before)
        run.claim("slices: blue's goodput, part of what it had before", part, at_least=0.99, at_most=1.01)
        quarter = _division(run, net, "slices")
        run.claim("slices, both want the WAN: red's part of it", quarter, at_least=0.24, at_most=0.26)

    with network(Srv6Wan(n=many, tenants=2, wan=wan, blind=True)) as net:
        blind = _blue_and(run, net, "one queue", RED, lasts)
        run.claim("one queue: lost", blind.lost, equals={"red": 0, "blue": 0})
        run.claim("one queue: blue's goodput, part of what it had before", _part(blind, before), at_most=0.8)
        half = _division(run, net, "one queue")
        run.claim("one queue, both want the WAN: red's part of it", half, at_least=0.4, at_most=0.6)

    with network(Srv6Wan(n=many, tenants=2, wan=wan, back="none")) as net:
        none = _blue_and(run, net, "no back-pressure", RED, lasts)
        run.claim("no back-pressure: lost of red", none.lost["red"], at_least=100)
        run.claim("no back-pressure: lost of blue", none.lost["blue"], equals=0)
        run.claim("no back-pressure: all of it was dropped by a buffer", net.fabric.dropped(), equals=none.lost["red"])


@contextmanager
def _under(controller: SrController, run: Run, n: int, wan: Length) -> Iterator[Any]:
    """Start the network with a slice each; its switches, VPNs, policies and tunnels are the controller's."""
    topo = Srv6Wan(n=n, tenants=2, wan=wan, shares=SHARES, controller=controller)
    with network(topo) as net:
        controller.request(*topo.intents())
        controller.wait(controller.settled, "every policy and tunnel is installed")
        yield net


def _part(one: Seen, other: Seen) -> float:
    return round(float(one.blue / other.blue), 4)


def _queues(events: list[Any]) -> list[int]:
    return sorted({priority for event in events for priority in event.priorities})


def _blue_and(run: Run, net: Network, name: str, others: Sequence[tuple[str, str]], lasts: Duration) -> Seen:
    """Run blue at its rate, and these flows as fast as they can."""
    flows = [Flow("c1", "d1", LOSSLESS, FRAME, BLUE_RATE)]
    flows += [Flow(source, target, LOSSLESS, FRAME) for source, target in others]
    reports, begin_lab_ns = _sent(net, flows, lasts)
    blue, *red = reports
    lost = {"red": sum(report.lost for report in red), "blue": blue.lost}
    found = Seen(lost, blue.goodput_between(begin_lab_ns, begin_lab_ns + net.lab_ns(lasts)))
    run.figure(f"{name}: blue sent, and red by sender", [report.sent for report in reports])
    run.figure(f"{name}: lost", found.lost)
    run.figure(f"{name}: blue's goodput", found.blue)
    run.figure(f"{name}: blue's longest way, in us", blue.worst_delay.ps // 10**6)
    return found


def _division(run: Run, net: Network, name: str) -> float:
    """Return red's part of what crosses the WAN if both tenants send there as fast as they can."""
    flows = [Flow(source, target, LOSSLESS, FRAME) for source, target in (("a1", "b1"), ("c1", "d1"))]
    reports, begin_lab_ns = _sent(net, flows, DIVIDED)
    end_lab_ns = begin_lab_ns + net.lab_ns(DIVIDED)
    red, blue = (report.goodput_between(begin_lab_ns, end_lab_ns) for report in reports)
    run.figure(f"{name}, both want the WAN: goodput of red and blue", [red, blue])
    run.figure(f"{name}, both want the WAN: lost", [report.lost for report in reports])
    return round(float(red / (red + blue)), 4)


def _sent(net: Network, wanted: Sequence[Flow], lasts: Duration) -> tuple[list[Report], int]:
    """Run flows, and return their reports and the moment at which they had settled.

    From then on they last for this time.
    """
    for flow in wanted:
        ping(flow.source, flow.target)
    settled = SETTLED + max(port.cable.delay for port in net.fabric.ports.values()) * 8
    with Flows(wanted) as flows:
        begin_lab_ns = time.monotonic_ns() + net.lab_ns(settled)
        net.sleep(lasts + settled * 2)
        flows.stop_sending()
    return flows.reports, begin_lab_ns
