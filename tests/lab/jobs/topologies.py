"""Jobs that build the topologies that come with Xoff, and follow the frames in them."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_interface
from itertools import permutations
from typing import Any

from testbed.lab import Run, experiment
from testbed.units import Rate

_TYPE = 0x88B5  # EtherType for local experiments
_ROUND = 25


@experiment(_in_lab_time=True, timeout="600s")
def work(run: Run, wanted: str = "incast,3") -> None:
    """Check each of these topologies: hosts reach each other, broadcasts arrive once, nothing is lost or goes on."""
    from testbed.net.build.network import network
    from testbed.net.shell.topologies import build

    for one in wanted.split():
        with network(build(one), run) as net:
            works(run, net, one)


@experiment(_in_lab_time=True)
def rests(run: Run, wanted: str = "incast,8") -> None:
    """Run a network in which nothing happens for two seconds, without marking what is measured."""
    from testbed.net.build.network import network
    from testbed.net.shell.topologies import build

    begin_ns = run.lab_ns
    with network(build(wanted), run):
        run.figure("set up in", (run.lab_ns - begin_ns) / 1e6, "ms")
        time.sleep(2)


def works(run: Run, net: Any, name: str) -> None:
    from testbed.net.traffic import Flow, flowing

    hosts = [host for host in net.hosts if not getattr(host, "forwards", False)]
    silent = [
        f"{a.name} -> {b.name}"
        for a, b in permutations(hosts, 2)
        if "1 received" not in a.cmd("ping", "-c", "1", "-W", "10", b.IP())  # a round trip may take a second
    ]
    run.claim(f"{name}: pairs without an answer", silent, equals=[])

    with listening(hosts) as ears:
        for host in hosts:
            send_broadcast(host)
        time.sleep(5)
        heard = {host.name: sorted(ears(host)) for host in hosts}
    networks = {host.name: ip_interface(f"{host.IP()}/{host.defaultIntf().prefixLen}").network for host in hosts}
    near = {
        one: sorted(other for other in networks if other != one and networks[other] == networks[one])
        for one in networks
    }
    run.claim(f"{name}: whose broadcasts each host heard, each once", heard, equals=near)

    flows = [
        Flow(host, hosts[(number + 1) % len(hosts)], count=_ROUND, rate=Rate("1Mb/s"))
        for number, host in enumerate(hosts)
    ]
    with flowing(*flows) as running:
        running.wait()
    reports = [[r.sent, r.received, r.doubled, r.out_of_order] for r in running.reports]
    good = [[_ROUND, _ROUND, 0, 0]] * len(flows)
    run.claim(f"{name}: each flow: sent, received, doubled, out of order", reports, equals=good)
    run.claim(f"{name}: frames dropped", net.fabric.dropped(), equals=0)

    time.sleep(20)  # hosts ask each other now and then whether their addresses are still right
    ports = net.fabric.names()
    before = {port: frames(net, port) for port in ports}
    time.sleep(2)
    run.claim(f"{name}: ports where frames still pass", [p for p in ports if frames(net, p) != before[p]], equals=[])
    run.figure(f"{name}: buffers that wait for each other in a circle", circle(net))


@experiment(_in_lab_time=True)
def refused(run: Run) -> None:
    """Record the messages for arguments that make no sense."""
    from testbed.errors import UsageError
    from testbed.net.shell.topologies import build

    for wanted in (
        "incast,0",
        "dumbbell,-1",
        "chain,1",
        "parking-lot,n=1.5",
        "ring,1",
        "ring,4,clockwise=no",
        "leaf-spine,2,0",
        "clos,2,2,4,3",
        "rail,4,4,0",
        "three-links,3",
        "incast,4,5,6",
        "incast,foo=1",
        "incast,3,lenght=5m",
        "incast,3,n=4",
        "star,x",
        "dc1-wan-dc2,two",
        "dc1-wan-dc2,figure=1",
        "chain,length=5kg",
    ):
        try:
            build(wanted)
        except UsageError as error:
            run.figure(wanted, str(error))


@experiment(_in_lab_time=True, timeout="600s")
def ways(run: Run, wanted: str = "ring,4;h2;h1") -> None:
    """Record the cables between switches that a flow uses in each of these (topology;source;target)."""
    from testbed.net.build.network import network
    from testbed.net.shell.topologies import build

    for one in wanted.split():
        topology, source, target = one.split(";")
        with network(build(topology), run) as net:
            run.figure(one, sorted(way(net, source, target)))


def way(net: Any, source: str, target: str) -> Iterator[str]:
    from testbed.net.traffic import Flow, flowing

    before = {port: frames(net, port) for port in net.fabric.names()}
    with flowing(Flow(net[source], net[target], count=_ROUND, rate=Rate("1Mb/s"))) as running:
        running.wait()
    for port in net.fabric.ports.values():
        far = net.fabric.far_end(port).node
        if frames(net, port.name) - before[port.name] >= _ROUND and far in net.switches and port.node in net.switches:
            yield f"{port.node.name} -> {far.name}"


def frames(net: Any, port: str) -> int:
    """Return how many frames were put into a port's queues."""
    return int(sum(net.fabric.sent(port).sent_frames))


def send_broadcast(host: Any) -> None:
    from testbed.net.shell.wire import RawPort

    intf = host.defaultIntf()
    head = b"\xff" * 6 + bytes.fromhex(intf.MAC().replace(":", "")) + _TYPE.to_bytes(2)
    with RawPort(host, intf.name) as port:
        port.send((head + host.name.encode()).ljust(60, b"\0"))


@contextmanager
def listening(hosts: Any) -> Iterator[Any]:
    """Yield for each host the senders of the broadcasts that it received."""
    from testbed.linux.process import kernel

    sockets = {}
    with ExitStack() as opened:
        for host in hosts:
            with kernel.in_network_of(host.pid):
                sockets[host.name] = ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_TYPE))
            opened.enter_context(ear)
            ear.setblocking(False)

        def heard(host: Any) -> Iterator[str]:
            while True:
                try:
                    frame, address = sockets[host.name].recvfrom(2048)
                except BlockingIOError:
                    return
                if address[2] != socket.PACKET_OUTGOING:
                    yield frame[14:].rstrip(b"\0").decode()

        yield heard


def circle(net: Any) -> list[str]:
    """Return cables between switches whose buffers can wait for each other in a circle, by the switches' tables.

    Frames that came by one cable and leave by the next, one of the equal ways, wait in the buffer at the end of the
    first for room in that of the second. PFC can deadlock only if such pairs close a circle.
    """
    from testbed.net.fabric.routes import Graph

    graph = Graph.of(net.fabric.cabling.links)
    switches = {switch.name for switch in net.switches}
    if not graph.has_loop():
        return []
    far = {port: other for switch in switches for port, other in graph.neighbours[switch]}
    by_number = {switch: {host: (port,) for host, port in graph.next_hops(switch).items()} for switch in switches}
    table = {
        switch.name: by_number[switch.name] | (graph.equal_ways(switch.name) if _chooses(switch) else {})
        for switch in net.switches
    }
    waits: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for host in {host for ways in table.values() for host in ways}:
        for first in switches:
            for second in {far[port] for port in table[first][host]} & switches:
                for third in {far[port] for port in table[second][host]} & switches:
                    waits.setdefault((first, second), set()).add((second, third))
    waiting = dict(waits)
    while free := [cable for cable, next_ones in waiting.items() if not any(n in waiting for n in next_ones)]:
        for cable in free:
            del waiting[cable]
    return sorted(f"{one} -> {other}" for one, other in waiting)


def _chooses(switch: Any) -> bool:
    ways = switch.params.get("ways")
    return ways is not None and ways.by != "host number"


@experiment(_in_lab_time=True, timeout="60s")
def neighbours(run: Run) -> None:
    """Check that with `autoStaticArp` each host has exactly the others as permanent neighbours at the right port."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(3), run, autoStaticArp=True) as net:
        for host in net.hosts:
            entries = [line.split() for line in host.cmd("ip -4 neigh show").splitlines()]
            run.claim(
                f"{host.name}: neighbours",
                sorted([address, interface, mac, state] for address, _, interface, _, mac, state in entries),
                equals=sorted(
                    [other.IP(), f"{host.name}-eth0", other.MAC(), "PERMANENT"]
                    for other in net.hosts
                    if other is not host
                ),
            )
        h1 = net["h1"]
        h1.cmd("ip address flush dev h1-eth0")
        net.staticArp()
        run.claim("neighbours of a host without a route", h1.cmd("ip -4 neigh show").strip(), equals="")
