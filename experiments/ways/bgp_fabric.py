"""A leaf-spine fabric of routers with BGP: a cable fails near the sender, and one fails beyond the next router."""

import time

from xoff import Bgp, Bird, Duration, Flow, Frr, Network, RoutedLeafSpine, Run, experiment, flowing, network, ping

LEAVES, SPINES = 3, 2
SOURCE, TARGET = "h1", f"h{LEAVES}"
NEAR, PREFIX = "leaf1", f"10.{LEAVES}.1.0/30"
LINE, FRAME, RATE = "100Mb/s", "226B", "20Mb/s"
INTERVAL, LASTS, BEFORE = Duration("100us"), Duration("500ms"), Duration("100ms")
"""The time between two frames of the flow, how long it sends, and how long it has sent when its cable fails."""
SOURCE_PORT = 50_000


@experiment(timeout="120s", debs=["frr", "bird2"], free_cpu=True)
def bgp_fabric(run: Run) -> None:
    """Measure how long a BGP fabric needs after a failure, and how many frames that costs.

    FRR, and in another network BIRD, runs on each of five routers, with eBGP over cables without addresses, and equal
    ways. A flow between two leaves loses its cable. If that is its own leaf's uplink, the leaf's kernel uses the other
    one at once, before its daemons know. If it is the spine's cable to the far leaf, the spine has to withdraw its
    route, and the frames that come to it until then are lost. Control cases: no failure, and the far failure with
    static routes, which loses all further frames.
    """
    for software in (Frr(Bgp()), Bird(Bgp())):
        name, begin_ns = type(software).__name__.upper(), time.monotonic_ns()
        with network(_fabric(software), case=name) as net:
            run.figure(f"{name}: from the start to all routes", net.converged("30s", since_ns=begin_ns))
            with flowing(_flow()) as flow:
                flow.wait()
            run.claim(f"{name}, no failure: lost", flow.lost, equals=0)
            for failure, is_near in (("own uplink", True), ("far cable", False)):
                case = f"{name}, {failure}"
                lost, moved, last = _failure(net, _cable(net, is_near))
                run.figure(f"{case}: until the sender's leaf has moved", moved)
                run.figure(f"{case}: until the last route", last)
                run.figure(f"{case}: lost", lost)
                silent = 0 if is_near else moved // INTERVAL
                run.claim(f"{case}: lost beyond those of the silent time", lost - silent, at_least=-1, at_most=2)
            run.claim(f"{case}: until the last route", last, at_most=Duration("500ms"))
    with network(_fabric(None), case="static routes") as net:
        for spine in range(1, SPINES + 1):  # so that it counts what it drops
            net[f"spine{spine}"].cmd("sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1")
        ping(net[SOURCE], net[TARGET])
        cable = _cable(net, is_near=False)
        with flowing(_flow()) as flow:
            net.sleep(BEFORE)
            pulled_ns = time.monotonic_ns()
            net.fabric.cabling.pull(cable)
            flow.wait()
    after = (flow.reports[0].begin_lab_ns + LASTS.ns - pulled_ns) // INTERVAL.ns
    run.claim("static routes, far cable: lost beyond all that came after", flow.lost - after, at_least=-2, at_most=2)
    run.claim("static routes, far cable: lost", flow.lost, at_least=3500)


def _fabric(routing: Frr | Bird | None) -> RoutedLeafSpine:
    return RoutedLeafSpine(LEAVES, SPINES, 1, routing=routing, scale=1, rate=LINE, delay="1us")


def _flow() -> Flow:
    return Flow(SOURCE, TARGET, rate=RATE, frame=FRAME, duration=LASTS, source_port=SOURCE_PORT)


def _cable(net: Network, is_near: bool) -> str:
    """Return the port at the first cable between routers that the flow takes, or at the second."""
    leaf, spine, _ = net.path(SOURCE, TARGET, transport="udp", source_port=SOURCE_PORT).hops
    chosen = (leaf if is_near else spine).chosen
    assert chosen is not None
    return chosen.port


def _failure(net: Network, cable: str) -> tuple[int, Duration, Duration]:
    """Pull a cable while the flow sends, and plug it in again after it.

    Returns the frames that were lost, and the times from the failure until the sender's leaf had its other way, and
    until the last route of all.
    """
    with flowing(_flow()) as flow:
        net.sleep(BEFORE)
        pulled_ns = time.monotonic_ns()
        net.fabric.cabling.pull(cable)
        last = net.converged("30s", since_ns=pulled_ns)
        flow.wait()
    moved = [one.lab_ns for one in net.routing.changes(NEAR) if one.route == PREFIX and one.lab_ns >= pulled_ns]
    net.fabric.cabling.plug(cable)
    net.converged("60s")
    return flow.lost, Duration.from_ns(moved[0] - pulled_ns), last
