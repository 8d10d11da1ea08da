"""Two partitions on one network: each has its own service level, and none sees the other."""

import socket
import struct
import time
from typing import Any

from experiments.qos._qos import setup_of
from testbed.frames.path_record import dscp_of
from testbed.linux.process import kernel
from testbed.subjects.qos.lab.partitions import Partitions
from testbed.subjects.qos.rfc_clients import BroadcastGroup, IpoibInterface, NotConnected, asking
from testbed.switch.priority.classify import read
from xoff import (
    Flow,
    Incast,
    Network,
    Port,
    PortKey,
    QosPartition,
    Rate,
    RawPort,
    Run,
    Size,
    SubnetManager,
    Tap,
    experiment,
    load_policy,
    network,
)

FRAMES = 150
GBIT = 10**9


@experiment(timeout="120s")
def qos_partitions(run: Run) -> None:
    """Two partitions on one network have an SL, an MTU and a rate each, and do not reach each other.

    h1 and h2 are in the partition red, h1 and h3 in blue; each has a broadcast group. The policy gives each partition's
    requests its level. Traffic in a partition has the SL of its group, packets of its MTU and its rate. h3 gets no path
    in red, and frames that are sent to it in red's VLAN do not arrive. In the control case both partitions have all
    hosts: then they do.
    """
    h1, h2, h3 = (PortKey(name, 1) for name in ("h1", "h2", "h3"))
    red = QosPartition("red", 0x0011, frozenset({h1, h2}), sl=3, mtu=1024, rate=5 * GBIT)
    blue = QosPartition("blue", 0x0022, frozenset({h1, h3}), sl=4, mtu=512, rate=10 * GBIT)
    _tenants(run, "two partitions", red, blue, apart=True)
    both = frozenset({h1, h2, h3})
    red = QosPartition("red", 0x0011, both, sl=3, mtu=1024, rate=5 * GBIT)
    blue = QosPartition("blue", 0x0022, both, sl=4, mtu=512, rate=10 * GBIT)
    _tenants(run, "all in both", red, blue, apart=False)


def _tenants(run: Run, case: str, red: Any, blue: Any, *, apart: bool) -> None:
    text = (
        "<qos-policy><port-groups><port-group><name>all</name><node-type>ALL</node-type></port-group></port-groups>"
        f"{setup_of({sl: sl for sl in range(8)})}<qos-levels>"
        "<qos-level><name>red</name><sl>3</sl></qos-level><qos-level><name>blue</name><sl>4</sl></qos-level>"
        "</qos-levels><partition-defaults>"
        "<partition-default><partition>red</partition><match-level>red</match-level></partition-default>"
        "<partition-default><partition>blue</partition><match-level>blue</match-level></partition-default>"
        "</partition-defaults></qos-policy>"
    )
    groups = {partition.pkey: BroadcastGroup.of(partition) for partition in (red, blue)}
    with (
        network(Incast(n=3, port=Port().with_vls())) as net,
        SubnetManager(net.fabric, load_policy(text.encode(), "the policy"), (red, blue)) as manager,
    ):
        tenants = Partitions(net.fabric, (red, blue))
        ask = asking(manager.records())
        gids = {port.key.node: port.gid for port in manager.subnet.end_ports}
        for partition, peer in ((red, "h2"), (blue, "h3")):
            name = f"{case}: {partition.name}"
            interface = IpoibInterface(gids["h1"], partition.pkey, groups.__getitem__, ask)
            vector = interface.neighbour(gids[peer])
            found = [vector.sl, vector.mtu, vector.rate // GBIT]
            due = [partition.sl, partition.mtu, partition.rate // GBIT]
            run.claim(f"{name}: SL, MTU and Gb/s", found, equals=due)
            one, other = tenants.member(partition.name, net["h1"]), tenants.member(partition.name, net[peer])
            _send(run, net, name, vector, (one, other))
        try:
            IpoibInterface(gids["h1"], red.pkey, groups.__getitem__, ask).neighbour(gids["h3"])
            answer = "found"
        except NotConnected as error:
            answer = str(error).partition(":")[0]
        run.claim(
            f"{case}: path from h1 to h3 in red", answer, equals="IPoIB gets no path (pkey)" if apart else "found"
        )
        received = _intrude(net, red)
        run.claim(f"{case}: frames of red that h3 received", received, equals=0 if apart else FRAMES)


def _send(run: Run, net: Network, name: str, vector: Any, ends: tuple[Any, Any]) -> None:
    """Send datagrams in a partition, and return what they look like on the wire."""
    one, other = ends
    frame = Size.from_bytes(vector.mtu + 14)
    rate = Rate.from_bps(vector.rate) if vector.rate < 10 * GBIT else None
    tap = Tap(net["s1"], "s1-eth1")
    running = net.run(Flow(one, other, 0, frame, rate, dscp=dscp_of(vector.sl), count=FRAMES))
    frames = [found for found in tap.frames() if len(found) > 300]
    tap.close()
    marks = sorted(
        {(read(found).dscp, read(found).pcp, int.from_bytes(found[14:16], "big") & 0xFFF) for found in frames}
    )
    due = [(dscp_of(vector.sl), vector.sl, one.partition.pkey & 0xFFF)]
    run.claim(f"{name}: DSCP, PCP and VLAN of its frames", marks, equals=due)
    run.claim(f"{name}: octets of a packet", sorted({len(found) - 18 for found in frames}), equals=[vector.mtu])
    run.claim(f"{name}: datagrams received", running.reports[0].received, equals=FRAMES)


def _intrude(net: Network, red: Any) -> int:
    """Send frames in red's VLAN to h3, made by hand, and return how many reach a socket there."""
    target = net["h3"]
    with kernel.in_network_of(target.pid):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("", 7777))
        udp.setblocking(False)
    address = target.cmd("ip -4 -o address show").split("10.128.1.")
    own = f"10.128.1.{address[1].split('/')[0]}" if len(address) > 1 else target.IP()
    header = _ipv4("10.128.1.1", own, 108) + bytes.fromhex("1e611e61") + (88).to_bytes(2, "big") + bytes(2)
    tag = b"\x81\x00" + (3 << 13 | red.pkey & 0xFFF).to_bytes(2, "big")
    to, origin = (bytes.fromhex(net[name].MAC().replace(":", "")) for name in ("h3", "h1"))
    with RawPort(net["h1"], "h1-eth0") as raw:
        for _ in range(FRAMES):
            raw.send(to + origin + tag + b"\x08\x00" + header + bytes(80))
    time.sleep(0.5)
    received = 0
    while True:
        try:
            udp.recv(2048)
        except BlockingIOError:
            break
        received += 1
    udp.close()
    return received


def _ipv4(source: str, target: str, length: int) -> bytes:
    """Return a header for UDP with the DSCP of SL 3, and its checksum."""
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    header = struct.pack("!BBHHHBBH", 0x45, 24 << 2, length, 0, 0, 64, 17, 0) + ends
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + header[12:]
