"""Every client of the RFC gets its path record from the controller, and its traffic has the SL, MTU and rate of it."""

import time
from collections import Counter
from typing import Any

from testbed.frames.path_record import dscp_of
from testbed.linux.port_program import OWN_FRAMES
from testbed.subjects.qos.fabric import LINK_LOCAL
from testbed.subjects.qos.lab.discovery import eui64
from testbed.subjects.qos.lab.from_controller import FollowingManager, flow
from testbed.subjects.qos.rfc_clients import (
    AddressVector,
    Cma,
    IoController,
    IpoibInterface,
    IserInitiator,
    MpiJob,
    SdpSocket,
    ServiceEntry,
    SocketAddress,
    SrpInitiator,
)
from testbed.switch.priority.classify import read
from xoff import Incast, Mac, Network, Port, PortKey, QosPartition, Run, SrController, Tap, experiment, network

GBIT = 10**9
TABLE = (0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0)
"""The VL of each SL, at all ports."""
LEVELS = {
    # SL, MTU, rate; the Service-IDs of the rule that picks it
    "CMA": (1, 1024, 10 * GBIT, "0x01060050"),
    "SDP": (10, 1024, 5 * GBIT, "0x11f90"),
    "iSER": (11, 512, 10 * GBIT, "0x01060cbc"),
    "SRP": (4, 512, 5 * GBIT, "0x7000"),
}
IPOIB, MPI = 14, 13
"""SLs of the partition's default level, and of the default level."""
PKEY = 1
_HANDSHAKES = 16
"""At most so many segments go back before both of iperf3's connections have a DSCP; 5 to 8 on `um`."""


def _policy() -> bytes:
    def level(name: str, sl: int, mtu: int = 0, rate: int = 0) -> str:
        limits = f"<mtu_limit>{mtu}</mtu_limit><rate_limit>{rate // GBIT}Gb/s</rate_limit>" if mtu else ""
        return f"<qos-level><name>{name}</name><sl>{sl}</sl>{limits}</qos-level>"

    levels = [level(name, *given[:3]) for name, given in LEVELS.items()]
    levels += [level("IPoIB", IPOIB), level("MPI", MPI)]
    rules = [
        f"<qos_match_rule><service>{given[3]}</service><match-level>{name}</match-level></qos_match_rule>"
        for name, given in LEVELS.items()
    ]
    table = ",".join(map(str, TABLE))
    return (
        "<qos-policy><port-groups><port-group><name>all</name><node-type>ALL</node-type></port-group></port-groups>"
        "<qos-setup><sl2vl-tables><sl2vl-scope><group>all</group><from>*</from><to>*</to>"
        f"<sl2vl-table>{table}</sl2vl-table></sl2vl-scope></sl2vl-tables></qos-setup>"
        f"<qos-levels>{''.join(levels)}</qos-levels><qos_match_rules>{''.join(rules)}</qos_match_rules>"
        "<default-level>MPI</default-level><partition-defaults><partition-default><partition>Part1</partition>"
        "<match-level>IPoIB</match-level></partition-default></partition-defaults></qos-policy>"
    ).encode()


@experiment(timeout="240s")
def qos_clients(run: Run) -> None:
    """CMA, SDP, iSER, SRP, MPI and IPoIB ask the controller for their paths; their frames are read off the wire.

    SDP and iSER are TCP connections, IPoIB is UDP, CMA, SRP and MPI are RoCE connections. SL (as DSCP), VL (as PCP),
    longest packet and rate of each are those of its path record. In the control case no policy is put: all have SL 0.
    At the end a table of a port is changed by hand: the subnet manager repairs it and reports it to the controller.
    """
    ends = frozenset({PortKey("h1", 1), PortKey("r", 1)})
    partition = QosPartition("Part1", PKEY, ends, sl=IPOIB, mtu=1024, rate=5 * GBIT)
    without = QosPartition("Part1", PKEY, ends, mtu=1500)
    for case, policy, tenant in (("with a policy", _policy(), partition), ("without", b"", without)):
        with SrController() as controller, network(Incast(n=1, port=Port().with_vls())) as net:
            source, target = net.hosts
            with FollowingManager(net.fabric, controller.client, [tenant]) as manager:
                if policy:
                    manager.sa.put_policy(policy)
                    manager.wait()
                vectors = _vectors(manager.sa, source, target, MPI if policy else 0)
                for name, (vector, transport) in vectors.items():
                    _measure(run, net, (case, name), vector, transport)
                if policy:
                    _meddle(run, net, controller)
                dropped = net.fabric.dropped()
        run.claim(f"{case}: frames dropped", dropped, equals=0)
        found = {name: [vector.sl, vector.mtu, vector.rate // GBIT] for name, (vector, _) in vectors.items()}
        plain = {name: [0, 1500, 10] for name in found} | {"IPoIB": [0, 1500, 10]}
        due = {name: [given[0], given[1], given[2] // GBIT] for name, given in LEVELS.items()}
        due |= {"MPI": [MPI, 1500, 10], "IPoIB": [IPOIB, 1024, 5]}
        run.claim(f"{case}: SL, MTU and Gb/s of path records", found, equals=due if policy else plain)


def _meddle(run: Run, net: Network, controller: Any) -> None:
    """Change a table past the subnet manager; claim that it is repaired, and that the controller has an event of it."""
    program, slot = net.fabric.core.program, net.fabric.port("h1-eth0").slot
    assert program is not None
    table = program.lanes(slot, OWN_FRAMES)
    assert table is not None
    program.set_lanes(slot, {OWN_FRAMES: table}, {OWN_FRAMES: (3,) * 16})
    time.sleep(0.5)
    run.claim("drift: the table of h1 is repaired", program.lanes(slot, OWN_FRAMES) == table, equals=True)
    events = [one for one in controller.ask("GET", "/events?follow=false")["events"] if one["kind"] == "qos-drift"]
    run.claim("drift: events at the controller", [one["text"].partition(",")[0] for one in events], equals=["h1/1"])


def _vectors(sa: Any, source: Any, target: Any, mpi: int) -> dict[str, tuple[AddressVector, str]]:
    """Return the address vector of each client's connection, and the transport that stands for it."""
    own, other = (LINK_LOCAL | eui64(Mac.parse(host.MAC())) for host in (source, target))
    cma = Cma(own, sa.ask)
    srp = SrpInitiator(own, sa.ask, sa.class_port_info())
    return {
        "CMA": (cma.connect(SocketAddress(other, 80)), "roce"),
        "SDP": (SdpSocket(cma, priority=5).connect(SocketAddress(other, 8080)), "tcp"),
        "iSER": (IserInitiator(cma).login(other), "tcp"),
        "SRP": (srp.connect(IoController(other, [ServiceEntry(0x7000, "SRP.T10")])), "roce"),
        "MPI": (MpiJob([own, other], mpi, sa.ask).queue_pair(0, 1), "roce"),
        "IPoIB": (IpoibInterface(own, PKEY, sa.join, sa.ask).neighbour(other), "udp"),
    }


def _measure(run: Run, net: Network, what: tuple[str, str], vector: AddressVector, transport: str) -> None:
    """Return the SL, MTU and rate of one client's traffic as it passes the switch's port."""
    case, name = what
    source, target = net.hosts
    time.sleep(0.3)  # the flow before has ended, but for its last segments
    tap, back = Tap(net["s1"], "s1-eth1"), Tap(net["s1"], "s1-eth1", outgoing=True)
    lasts = {"size": "400kB"} if transport == "tcp" else {"duration": "400us"}
    running = net.run(flow(vector, source, target, transport, **lasts))
    data = [frame for frame in tap.frames() if len(frame) > 300]
    if transport == "tcp" and vector.sl:  # what is left without a mark is of iperf3's control connection
        data = [frame for frame in data if read(frame).dscp]
    replies = Counter(read(frame).dscp for frame in back.frames())
    tap.close()
    back.close()
    if transport == "tcp" and vector.sl:
        run.claim(f"{case}: {name}: ACKs with its DSCP", replies.pop(dscp_of(vector.sl), 0), at_least=len(data) // 2)
        run.claim(f"{case}: {name}: ACKs without it, of handshakes", replies.total(), at_most=_HANDSHAKES)
    marks = sorted({(read(frame).dscp, read(frame).pcp) for frame in data})
    vl = TABLE[vector.sl] if case == "with a policy" else vector.sl % 8
    run.claim(f"{case}: {name}: DSCP and PCP of its frames", marks, equals=[(dscp_of(vector.sl), vl)])
    longest = max(len(frame) for frame in data) - 18
    run.claim(f"{case}: {name}: its longest packet", longest, at_most=vector.mtu + (60 if transport == "roce" else 0))
    run.claim(f"{case}: {name}: its longest packet is no shorter than it can be", longest, at_least=vector.mtu * 2 // 3)
    (report,) = running.reports
    rate, limit = round(report.goodput.bps / 10**6, 2), vector.rate / 10**6
    run.claim(f"{case}: {name}: goodput in Mb/s", rate, at_least=limit * 0.75, at_most=limit * 1.02)
