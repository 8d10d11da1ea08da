"""Programs that use verbs, over the kernel's Soft-RoCE: perftest, rping and others, on hosts with `rdma=True`."""

from __future__ import annotations

import hashlib
import json
import mmap
import re
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise, product
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING, Annotated, Any

from experiments.roce._verbs import printed
from testbed import lab
from testbed.experiment.parameters import Between
from testbed.frames import roce
from testbed.lab import Run, experiment
from testbed.lab.results import tables
from testbed.lab.results.folder import read
from testbed.net.build.topo import LosslessTopo
from testbed.net.fabric.port import Port
from testbed.net.fabric.ports import address_of
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce, RoceReport
from testbed.roce import in_kernel, rates
from testbed.roce.endpoint import FIRST_QP, Endpoint
from testbed.roce.memory import Buffer, Content, content_block
from testbed.roce.nic import PLAIN
from testbed.roce.queue_pair import QueuePair
from testbed.roce.rates import Line
from testbed.roce.settings import Settings
from testbed.roce.source_port import from_both
from testbed.roce.work import Operation, Work
from testbed.switch.ecn.curve import EcnCurve
from testbed.units import NEVER, Duration, Rate, Scale, Size

if TYPE_CHECKING:
    from testbed.lab.engines.engine import PreparedEngine
    from testbed.net.traffic.roce_connections import Way
    from tests.lab.conftest import Runner

LOSSLESS = 3
CNP = 0x81
WIRE_OCTETS = 1024 + 16 + 66
"""A full packet in the middle of a message on the wire."""
LATE_NS = 1000
"""A packet that goes so much later than it may has waited for something else, such as an acknowledgement."""
ROCE = b"\x12\xb7"
"""UDP port 4791."""
_BANDWIDTH = "ib_send_bw -F -x 1 --tclass=96 -s 65536 -n 12"


def started(node: Any, command: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = node.popen(command.split(), stderr=subprocess.STDOUT)
    return process


def half_a_line_each(run: Run, hosts: Sequence[Any], target: Any, commands: Sequence[str]) -> None:
    """Run a command at each host and at the target, and claim that each host gets half of the line."""
    servers = [started(target, command) for command in commands]
    time.sleep(0.01)
    clients = [started(host, f"{command} {target.IP()}") for host, command in zip(hosts, commands, strict=True)]
    for host, client in zip(hosts, clients, strict=True):
        rate = last_row(printed(client))[3]
        run.claim(f"{host.name}: payload in MB/s, half a line is 5.5", rate, at_least=5.2, at_most=5.8)
    for server in servers:
        printed(server)


def last_row(text: str) -> list[float]:
    """Return the numbers of the row that perftest prints at its end."""
    return [float(word) for word in re.findall(r"[\d.]+", text.strip().rstrip("-").strip().splitlines()[-1])]


def has_right_icrc(frame: bytes) -> bool:
    """Check the ICRC of a RoCEv2 frame over IPv4 as Xoff's own RoCE does, which takes identification 0."""
    source, destination = (str(IPv4Address(frame[place : place + 4])) for place in (26, 30))
    return roce.Path(source, destination, int.from_bytes(frame[34:36])).intact(frame[42:])


def has_right_icrc_over_ipv6(frame: bytes) -> bool:
    source, destination = (str(IPv6Address(frame[place : place + 16])) for place in (22, 38))
    return roce.Path(source, destination, int.from_bytes(frame[54:56])).intact(frame[62:])


@experiment(debs=["perftest"], timeout="30s")
def verbs(run: Run) -> None:
    """Two senders share a line, some programs measure latency, and one talks by the connection manager."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from topologies.incast import Incast

    places = Path("/sys/class/infiniband"), Path("/dev/infiniband")
    before = [sorted(each.name for each in place.iterdir()) for place in places]
    with network(Incast(2, rate="100Gb/s", xoff=150, rdma=True), run) as net:
        h1, h2, r = net.hosts
        run.claim("devices that h1 sees", h1.cmd(f"ls {places[0]}").split(), equals=["rxe-h1-eth0"])
        with Tap(r, "r-eth0") as tap, run.measuring():
            commands = [f"{_BANDWIDTH} -p {port}" for port in (18515, 18516)]
            half_a_line_each(run, (h1, h2), r, commands)
            frames = [frame for frame in tap.frames() if frame[23] == 17 and frame[36:38] == ROCE]
        run.figure("RoCE frames", len(frames))
        run.claim("wrong ICRCs", sum(not has_right_icrc(frame) for frame in frames), equals=0)
        run.claim("DSCPs", sorted({frame[15] >> 2 for frame in frames}), equals=[24])
        run.claim("packets of 12 messages and each way", len(frames) >= 2 * 12 * 64, equals=True)
        paused = [net.fabric.pfc(net.port("s1", host.name), LOSSLESS)["xoff_sent"] for host in (h1, h2)]
        run.claim("senders that were paused", sum(map(bool, paused)), equals=2)
        dropped = [net.fabric.group(f"s1-eth{number}", LOSSLESS).dropped_frames for number in (1, 2)]
        run.claim("frames dropped", sum(map(sum, dropped)), equals=0)

        for program in ("send", "write"):  # the second looks at memory, and not for completions
            command = f"ib_{program}_lat -F -x 1 --tclass=96 -s 64 -n 20"
            server = started(r, command)
            time.sleep(0.01)
            latency = last_row(printed(started(h1, f"{command} {r.IP()}")))
            run.claim(f"{program}: typical latency in us of the lab", latency[4], at_least=5, at_most=50)
            printed(server)

        for kind, way in product(("rc", "ud"), ("", "-e")):  # by polling, and by events
            command = f"ibv_{kind}_pingpong -g 1 -n 20 -s 1024 {way}"
            server = started(r, command)
            time.sleep(0.01)
            said = printed(started(h1, f"{command} {r.IP()}"))
            run.claim(f"{kind} {way}: us there and back", float(said.split()[-2]), at_least=85, at_most=120)
            printed(server)

        sent = net.fabric.sent("h1-eth0").sent_frames
        server = started(r, f"rping -s -C 5 -a {r.IP()}")
        time.sleep(0.01)
        printed(started(h1, f"rping -c -C 5 -a {r.IP()}"))
        printed(server)
        by_priority = [now - then for then, now in zip(sent, net.fabric.sent("h1-eth0").sent_frames, strict=True)]
        run.claim("priorities of rping with RoCE packets", by_priority[LOSSLESS] > 20, equals=True)
    after = [sorted(each.name for each in place.iterdir()) for place in places]
    run.claim("devices that are left", after, equals=before)


@experiment(debs=["perftest"], timeout="30s")
def verbs_over_ipv6(run: Run) -> None:
    """Two senders share a line, one by the GID of each IP version, and programs talk over IPv6 alone."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from topologies.incast import Incast

    with network(Incast(2, rate="100Gb/s", xoff=150, rdma=True, ipv6=True), run) as net, run.measuring():
        h1, h2, r = net.hosts
        with Tap(r, "r-eth0") as tap:
            commands = [_BANDWIDTH.replace("-x 1", f"-x {gid}") + f" -p {18514 + gid}" for gid in (1, 2)]
            half_a_line_each(run, (h1, h2), r, commands)
            over_ipv6 = [frame for frame in tap.frames() if frame[12:14] == b"\x86\xdd" and frame[20] == 17]
        run.claim("packets over IPv6, of 12 messages", len(over_ipv6), equals=12 * 64)
        run.claim(
            "traffic classes", sorted({int.from_bytes(frame[14:16]) >> 4 & 0xFC for frame in over_ipv6}), equals=[96]
        )
        icrcs = [has_right_icrc_over_ipv6(frame) for frame in over_ipv6]
        run.claim("wrong ICRCs", icrcs.count(False), equals=0)
        for kind in ("rc", "uc", "ud", "srq"):
            command = f"ibv_{kind}_pingpong -g 2 -n 20 -s 1024"
            server = started(r, command)
            time.sleep(0.01)
            said = printed(started(h1, f"{command} {r.IP()}"))
            run.claim(f"{kind}: us there and back", float(said.split()[-2]), at_least=5, at_most=130)
            printed(server)
        server = started(r, f"rping -s -C 5 -a {address_of(r, 6)}")
        time.sleep(0.01)
        printed(started(h1, f"rping -c -C 5 -a {address_of(r, 6)}"))
        printed(server)


_PERFTEST = "-F --tclass=96 -x"
PROGRAMS = {
    "MB/s of ib_write_bw, a line is 11": ("ib_write_bw -s 65536 -n 12", 3, (10.5, 11.5)),
    "us of ib_send_lat": ("ib_send_lat -s 64 -n 20", 4, (5, 20)),
    "MB/s of fetch and add by ib_atomic_bw": ("ib_atomic_bw -A FETCH_AND_ADD -n 40", 3, (0.6, 1)),
    "MB/s of compare and swap by ib_atomic_bw": ("ib_atomic_bw -A CMP_AND_SWAP -n 40", 3, (0.6, 1)),
}
"""Programs of perftest, and the place in their last row of a number that is within these limits."""


@experiment(debs=["perftest"], timeout="60s")
def each_program(run: Run, ip_version: int = 4) -> None:
    """Each program runs between two hosts, over one version of IP."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    gid = {4: 1, 6: 2}[ip_version]
    with network(Incast(1, rate="100Gb/s", xoff=150, rdma=True, ipv6=True), run) as net, run.measuring():
        h1, r = net.hosts
        to = address_of(r, ip_version)
        for name, (command, place, (least, most)) in PROGRAMS.items():
            row = last_row(both_ends(r, h1, f"{command} {_PERFTEST} {gid}", r.IP()))
            run.claim(name, row[place], at_least=least, at_most=most)
        for kind in ("rc", "uc", "ud", "srq"):
            said = both_ends(r, h1, f"ibv_{kind}_pingpong -g {gid} -n 20 -s 1024", r.IP())
            run.claim(f"ibv_{kind}_pingpong: us there and back", float(said.split()[-2]), at_least=5, at_most=130)
        server = started(r, f"rping -s -V -C 5 -a {to}")
        time.sleep(0.01)
        printed(started(h1, f"rping -c -V -C 5 -a {to}"))
        printed(server)
        dropped = net.fabric.group(net.port("s1", "h1"), LOSSLESS).dropped_frames
        run.claim("frames dropped", sum(dropped), equals=0)


def both_ends(server: Any, client: Any, command: str, to: str) -> str:
    """Run a command at the server, and at a client with the server's address; return what the client prints."""
    process = started(server, command)
    time.sleep(0.01)
    said = printed(started(client, f"{command} {to}"))
    printed(process)
    return said


class Peer:
    """Xoff's own RoCE at a host, with what rping does: it is the other end of that program."""

    PORT = 7174
    ADVERTISED = struct.Struct("!QII")
    """The content of rping's sends: address, key and length of memory."""

    def __init__(self, node: Any, address: str) -> None:
        from testbed.linux.process import kernel
        from testbed.net.traffic.roce_connections import open_listener

        self._node, self._is_ipv6 = node, ":" in address
        self.host = Endpoint(address, Line(Rate("100Mb/s"), Scale(1000)))
        self.host.listen(self.PORT, self._accept)
        self.accepted: list[QueuePair] = []
        self._ways: dict[int, Way] = {}
        with kernel.in_network_of(node.pid):
            self._listener = open_listener(is_ipv6=self._is_ipv6)

    def connect(self, address: str) -> QueuePair:
        pair = self.host.connect(address, self.PORT, time.monotonic_ns(), traffic_class=LOSSLESS << 5)
        self._accept(None, pair)
        return pair

    def _accept(self, _: object, pair: QueuePair) -> bytes:
        pair.responder.receive_into = Buffer(4 * self.ADVERTISED.size)
        self.accepted.append(pair)
        return b""

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Serve the endpoint until a condition holds."""
        end_ns = time.monotonic_ns() + 10**9
        while not holds():
            now_ns = time.monotonic_ns()
            if now_ns > end_ns:
                raise RuntimeError(f"{what} did not come; {dict(self.host.refused)}")
            for one in self.host.outgoing(now_ns):
                self._way(one.source_port).send([one])
            try:
                datagram, _, _, address = self._listener.recvmsg(4096, 64)
            except BlockingIOError:
                time.sleep(20e-6)
            else:
                self.host.receive(datagram, 0, now_ns, source_port=address[1])

    def _way(self, source_port: int) -> Way:
        from testbed.linux.process import kernel
        from testbed.net.traffic.roce_connections import Way

        if source_port not in self._ways:
            with kernel.in_network_of(self._node.pid):
                self._ways[source_port] = Way(source_port, LOSSLESS, LOSSLESS << 5, 1 << 20, is_ipv6=self._is_ipv6)
        return self._ways[source_port]

    def ask(self, pair: QueuePair, work: Work) -> None:
        """Post a work and wait for its end."""
        number = pair.post(work, time.monotonic_ns())
        self.until(f"the end of a {work.operation}", lambda: number in [one.number for one in pair.requester.completed])

    def advertise(self, pair: QueuePair, region: Buffer) -> None:
        """Send the address, the key and the size of memory."""
        content = Buffer(self.ADVERTISED.pack(0, self.host.register(region), region.size))
        self.ask(pair, Work(Operation.SEND, content, content.size))

    def told(self, pair: QueuePair, number: int) -> tuple[int, int, int]:
        """Wait for so many sends in all, and return what the last one advertises."""
        self.until("a send", lambda: len(pair.responder.received) >= number)
        into = pair.responder.receive_into
        assert into is not None
        found: tuple[int, int, int] = self.ADVERTISED.unpack(into.read(16 * (number - 1), 16))
        return found


class Mixed(LosslessTopo):
    """A host of programs with verbs, and one with Xoff's own RoCE."""

    def build(self) -> None:
        self.addSwitch("s1")
        self.addLink(self.addHost("verbs", rdma=True), "s1")
        self.addLink(self.addHost("own"), "s1")


@experiment(debs=["perftest"], timeout="30s")
def with_rping(run: Run, ip_version: int = 4) -> None:
    """A write, a send and a read both ways between Soft-RoCE and Xoff's own RoCE, by rping's protocol."""
    from testbed.net.build.network import network

    octets = 20_000
    with network(Mixed(rate="100Gb/s", ipv6=True), run) as net, run.measuring():
        verbs, own = net["verbs"], net["own"]
        its, ours = (address_of(node, ip_version) or "" for node in (verbs, own))
        peer = Peer(own, ours)
        rping = f"rping -V -C 1 -S {octets} -p {Peer.PORT}"

        server = started(verbs, f"{rping} -s -a {its}")
        time.sleep(0.01)
        pair = peer.connect(its)
        text = Buffer(b"x" * (octets - 1) + b"\0")
        into = Buffer(octets)
        peer.advertise(pair, text)  # it reads this
        peer.told(pair, 1)
        run.claim("packets that Soft-RoCE was given, a send and those of a read", pair.counters.fresh, equals=1 + 20)
        peer.advertise(pair, into)  # and writes that
        peer.told(pair, 2)
        run.claim("what Soft-RoCE read it has written", into.octets == text.octets, equals=True)
        server.terminate()

        client = started(verbs, f"{rping} -c -a {ours}")
        peer.until("a connection", lambda: len(peer.accepted) == 2)
        pair = peer.accepted[1]
        address, key, length = peer.told(pair, 1)
        read = Buffer(length)
        peer.ask(pair, Work(Operation.READ, read, length, remote_address=address, r_key=key))
        peer.advertise(pair, read)
        address, key, length = peer.told(pair, 2)
        peer.ask(pair, Work(Operation.WRITE, read, length, remote_address=address, r_key=key))
        peer.advertise(pair, read)
        printed(client)  # it compares what came back with what it had
        run.claim("octets that Xoff's RoCE read", read.octets.startswith(b"rdma-ping-0"), equals=True)
        run.claim("refused, beside DREQ", dict(peer.host.refused - Counter(["attribute_not_known"])), equals={})
        run.claim("sent again", [one.counters.retransmitted for one in peer.accepted], equals=[0, 0])


@experiment(debs=["perftest"], files=("jobs/verbs_peer.py",), timeout="5s")
def with_kernel(run: Run, ip_version: int = 4) -> None:
    """Each operation both ways between Soft-RoCE and the queue pairs that the lab's kernel serves.

    These have no connection management: the process of a host does it for them. Here both ends are told the numbers.
    """
    from testbed.linux import roce_device
    from testbed.linux.flow_device import NOWHERE
    from testbed.linux.process import kernel
    from testbed.net.build.network import network
    from testbed.net.traffic.roce_connections import open_listener

    octets, message, psn, far_psn, line = 60_000, 20_000, 0xFFFFF0, 5, Line(Rate("100Mb/s"), Scale(1000))
    counts = 40
    kinds = (
        roce_device.WRITE, roce_device.SEND, roce_device.READ, roce_device.FETCH_ADD, roce_device.COMPARE_SWAP,
        roce_device.WRITE, roce_device.SEND, roce_device.SEND,
    )  # fmt: skip
    many, immediate, with_immediate = len(kinds), 0x01234567, (5, 6)
    source, target, asker = roce_device.IS_SOURCE, roce_device.IS_TARGET, roce_device.IS_ASKER
    content = Content(0).read(0, octets)
    Path("content").write_bytes(content)
    rate = roce_device.rate(*(rates.control("fixed", line).in_kernel() or (0, {})))
    with network(Mixed(rate="100Gb/s", ipv6=True), run) as net, run.measuring():
        verbs, own = net["verbs"], net["own"]
        far_address, address = (address_of(node, ip_version) or "" for node in (verbs, own))
        told = {
            "far": FIRST_QP, "psn": psn, "far_psn": far_psn, "address": address, "traffic_class": LOSSLESS << 5,
            "message": message, "far_key": roce_device.FIRST_KEY, "counts": counts,
        }  # fmt: skip
        program = Path(__file__).with_name("jobs") / "verbs_peer.py"
        peer = verbs.popen(["python3", program, json.dumps(told)], stdin=subprocess.PIPE, stderr=None, text=True)
        its = json.loads(peer.stdout.readline())
        with kernel.in_network_of(own.pid):
            listener = open_listener(is_ipv6=ip_version == 6)
            settings = roce_device.C.xr_settings(
                mtu=1024, ack_every=16, window=4096, retries=7, retransmit_ns=1_000_000_000, cnp_ns=50_000_000
            )
            device = roce_device.RoceDevice(
                listener,
                2 * many,
                settings,
                content_block(),
                mmap.mmap(-1, mmap.PAGESIZE),
                first=FIRST_QP,
                is_per_priority=False,
                moderation=0,
            )
            for place, (far_number, far_key) in enumerate(zip(its["numbers"], its["keys"], strict=True)):
                kind = kinds[place % many]
                is_atomic, begins = kind >= roce_device.COMPARE_SWAP, place < many
                gives = (kind == roce_device.READ) is not begins
                device.add(roce_device.C.xr_add(
                    number=FIRST_QP + place, far_number=far_number, first=far_psn, far_first=psn,
                    **roce_device.ends(address, far_address), flow_label=0x12345, port=0xC100 + place,
                    far_port=from_both(far_number, FIRST_QP + place),
                    priority=LOSSLESS, ds_field=LOSSLESS << 5, cnp_priority=6, cnp_ds_field=0xC0, buffer=32_000,
                    roles=(source if gives else target) | asker * begins, region=place, operation=kind,
                    far_key=far_key, message=8 if is_atomic else message,
                    left=8 * counts if is_atomic else octets, messages=NEVER, immediate=immediate,
                    has_immediate=place in with_immediate,
                    begin_ns=time.monotonic_ns(), end_ns=NEVER, line_bps=line.rate.bps,
                    nic=roce_device.C.xr_nic(**PLAIN.numbers()), rate=rate, sent_at=NOWHERE, received_at=NOWHERE,
                ))  # fmt: skip
        said: dict[str, list[Any]] = {}
        for _ in ("it posts its works", "it says what it holds"):
            print(file=peer.stdin, flush=True)
            said = json.loads(peer.stdout.readline())
            device.look()
            while not all(device.has_ended(FIRST_QP + place) for place in range(many)):
                time.sleep(0.001)
                device.look()
        reports = [device.report(FIRST_QP + place) for place in range(2 * many)]
        peer.communicate("\n")
        device.close()
        listener.close()
    originals = b"".join(number.to_bytes(8, "little") for number in range(counts))
    counted, fetched = counts.to_bytes(8, "little").ljust(octets, b"\0"), originals.ljust(octets, b"\0")
    held = [content] * 3 + [counted] * 2 + [content] * 6 + [fetched] * 2 + [content] * 3
    run.claim("contents that Soft-RoCE holds", said["held"], equals=[hashlib.sha256(one).hexdigest() for one in held])
    got = [(one.octets, one.is_as_expected) for one in reports if one.octets]
    run.claim(
        "contents that the kernel got",
        got,
        equals=[(octets, True)] * 3 + [(8 * counts, True)] * 2 + [(octets, True)] * 3,
    )
    messages = octets // message
    run.claim("immediate data that Soft-RoCE got", said["immediates"], equals=[immediate] * 2 * messages)
    run.claim(
        "receives that the kernel used for a write and for sends with them, and for sends",
        [one.counters.received for one in reports[-3:]],
        equals=[1, messages, messages],
    )
    refused = in_kernel.failure(reports[-1].failure)
    last_key = roce_device.FIRST_KEY + 2 * many - 1
    run.claim(
        "what Soft-RoCE asked for behind a send that invalidates the key",
        refused,
        equals=f"a write of 8 octets at {octets} with key {last_key:#x}",
    )
    run.claim("other failures", [one.failure[0] for one in reports[:-1]], equals=[0] * (2 * many - 1))
    run.claim(
        "sent again, and by mistake",
        [(one.counters.went_back, one.counters.duplicates) for one in reports],
        equals=[(0, 0)] * 2 * many,
    )


class SlowEnd(LosslessTopo):
    """Hosts that send to r, whose line has half the rate of theirs."""

    def build(self, n: int = 1) -> None:
        self.addSwitch("s1")
        for number in range(1, n + 1):
            self.addLink(self.addHost(f"h{number}"), "s1")
        self.addLink(self.addHost("r"), "s1", rate="50Gb/s")


def gaps(moments: list[int]) -> list[int]:
    return [later - earlier for earlier, later in pairwise(moments)]


def paced(sends: list[int], line: Line) -> list[int]:
    """Return the packets behind those that waited in the host's queue when the first CNP came: these go at the line's
    rate, which the first CNP halves.
    """
    at_line_ns = WIRE_OCTETS * 8_000_000_000 / line.rate.bps
    return sends[next(place for place, gap in enumerate(gaps(sends)) if gap > 1.5 * at_line_ns) + 1 :]


def predicted(cnps: list[int], sends: list[int], line: Line) -> list[int]:
    """Return the moments from which on DCQCN's model lets each packet go, with these CNPs and the packets before it."""
    model, found, due_ns = rates.control("dcqcn", line), list[int](), sends[0]
    waiting = iter([*cnps, NEVER])
    cnp_ns = next(waiting)
    for sent_ns in sends:
        while cnp_ns <= max(due_ns, sent_ns):
            model.on_cnp(cnp_ns)
            cnp_ns = next(waiting)
        model.on_deadline(sent_ns)
        found.append(due_ns)
        gap_ns = int(WIRE_OCTETS * 8_000_000_000 / model.rate_lab_bps)
        model.on_sent(sent_ns, WIRE_OCTETS)
        due_ns = max(due_ns, sent_ns) + gap_ns
    return found


AS_SOFT_ROCE = Roce(message=Size("64KiB"), settings=Settings(window=128, ack_every=64))
"""Messages of ib_write_bw, and what bounds Soft-RoCE beside its rate."""


@experiment(debs=["perftest"], timeout="60s")
def dcqcn_of_verbs(run: Run, n: Annotated[int, Between(1, 8)] = 2) -> None:
    """Programs with verbs slow down by CNPs: each packet goes when DCQCN's model has it go, and flows are as fast."""
    from testbed.net.build.network import network
    from testbed.net.shell.wire import Tap
    from testbed.net.watch.readings import soft_roce

    messages = 80 // n
    marking = Port(ecn={LOSSLESS: EcnCurve("5kB", "40kB", "20%")})
    fabric: dict[str, Any] = {"rate": "100Gb/s", "port": marking, "total": 60_000, "xoff": 8000}
    of_verbs = list[list[int]]()
    with network(SlowEnd(n, **fabric, rdma=True), run) as net:
        hosts, r = net.hosts[:-1], net["r"]
        taps = [(Tap(host, f"{host.name}-eth0", outgoing=True), Tap(host, f"{host.name}-eth0")) for host in hosts]
        with run.measuring():
            commands = [
                f"ib_write_bw -F -x 1 --tclass=96 -s 65536 -n {messages} -u 20 -p {18515 + at}" for at in range(n)
            ]
            servers = [started(r, command) for command in commands]
            time.sleep(0.01)
            clients = [started(host, f"{command} {r.IP()}") for host, command in zip(hosts, commands, strict=True)]
            for process in (*clients, *servers):
                printed(process)
        line = Line(Rate("100Mb/s"), Scale(1000))
        handled = 0
        for host, (outgoing, incoming) in zip(hosts, taps, strict=True):
            cnps = [at_ns for at_ns, frame in incoming.arrivals() if frame[36:38] == ROCE and frame[42] == CNP]
            sends = [at_ns for at_ns, frame in outgoing.arrivals() if frame[36:38] == ROCE and len(frame) > 1000]
            handled += len(cnps)
            of_verbs.append(sends)
            run.claim(
                f"{host.name}: CNPs", soft_roce(net.fabric, f"{host.name}-eth0")["rp_cnp_handled"], equals=len(cnps)
            )
            slowed = paced([at_ns for at_ns in sends if at_ns > cnps[0]], line)
            late = [sent - due for sent, due in zip(slowed, predicted(cnps, slowed, line), strict=True)]
            at_its_time = [(one, gap) for one, gap in zip(late[1:], gaps(slowed), strict=True) if one < LATE_NS]
            run.claim(f"{host.name}: earliest packet against the model in ns", min(late[1:]), at_least=0)
            run.claim(f"{host.name}: packets at the model's time", len(at_its_time) / len(late), at_least=0.6)
            rate = 1 - sum(one for one, _ in at_its_time) / sum(gap for _, gap in at_its_time)
            run.claim(f"{host.name}: rate of these, of the model's", rate, at_least=0.999, at_most=1)
        counters = soft_roce(net.fabric, "r-eth0")
        run.claim("CNPs sent", counters["np_cnp_sent"], equals=handled)
        run.claim("marked packets", counters["np_ecn_marked_roce_packets"], at_least=handled)

    with network(SlowEnd(n, **fabric), run) as net:
        taps_of_own = [Tap(host, f"{host.name}-eth0", outgoing=True) for host in net.hosts[:-1]]
        begin_ns = min(sends[0] for sends in of_verbs)
        flows = net.run(*[
            Flow(f"h{at}", "r", LOSSLESS, transport=AS_SOFT_ROCE, rate_control="dcqcn", count=messages,
                 start=line.scale.real(Duration.from_ns(sends[0] - begin_ns)), buffer="150kB")
            for at, sends in enumerate(of_verbs, 1)
        ])  # fmt: skip
        cnps_of_flows = [one.cnps_received for one in flows.reports_of(RoceReport)]
        run.figure("CNPs of flows", cnps_of_flows)
        own = [[at_ns for at_ns, frame in tap.arrivals() if len(frame) > 1000] for tap in taps_of_own]
    # Marks are drawn at random, so one sender or another gets a CNP more than the others of its kind. Of two the slower
    # one is compared: a CNP more or less makes 5 %, so that is the tolerance.
    times_ns = [median_high(sends[-1] - sends[0] for sends in senders) for senders in (of_verbs, own)]
    run.figure(
        "octets a second of a sender, of verbs and of flows", [round(messages * 65536e9 / ns) for ns in times_ns]
    )
    run.claim("rate of verbs, of that of flows", times_ns[1] / times_ns[0], at_least=0.95, at_most=1.05)


@experiment
def without_rdma(run: Run) -> None:
    """The namespace of hosts without `rdma=True`."""
    from testbed.net.build.network import network
    from topologies.incast import Incast

    with network(Incast(1), run) as net:
        run.claim("devices", net["h1"].cmd("ls /sys/class/infiniband").split(), equals=[])
        run.claim("library", net["h1"].cmd("echo ${LD_PRELOAD-none}").split(), equals=["none"])


def test_ib_write_bw_gets_half_a_line_with_pfc_and_loses_frames_without(ready: PreparedEngine, tmp_path: Path) -> None:
    lab.run("verbs_incast", on=ready, out=tmp_path).check()


def test_programs_with_verbs_share_a_line_without_a_loss(run: Runner) -> None:
    run(verbs).check()


def test_soft_roce_and_our_own_speak_with_each_other(run: Runner) -> None:
    for version in (4, 6):
        run(with_rping, ip_version=version).check()


def test_soft_roce_and_queue_pairs_of_the_kernel_speak_with_each_other(run: Runner) -> None:
    for version in (4, 6):
        run(with_kernel, ip_version=version).check()


def test_programs_with_verbs_speak_over_ipv6_by_their_gids_and_by_the_connection_manager(run: Runner) -> None:
    first, second = (run(verbs_over_ipv6).check() for _ in range(2))
    assert first.digest == second.digest


def test_each_program_with_verbs_runs_over_each_version_of_ip_and_twice_the_same(run: Runner) -> None:
    for version in (4, 6):
        first, second = (run(each_program, ip_version=version).check() for _ in range(2))
        assert first.digest == second.digest


def test_programs_with_verbs_send_at_the_rate_of_the_model(run: Runner) -> None:
    for flows in (1, 2, 8):
        result = run(dcqcn_of_verbs, n=flows).check()
    assert result.folder is not None
    counted = tables.soft_roce(read(result.folder))
    assert [row["port"] for row in counted] == [f"h{number}-eth0" for number in range(1, 9)] + ["r-eth0"]
    assert counted[-1]["np_cnp_sent"] == sum(row["rp_cnp_handled"] for row in counted[:-1]) > 0
    page = (Path(__file__).parents[3] / "docs/reference/counters.md").read_text()
    assert [name for name in counted[0].keys() - set(tables.SOFT_ROCE) if f"`{name}`" not in page] == []


def test_other_hosts_have_neither_device_nor_library(run: Runner) -> None:
    run(without_rdma).check()
