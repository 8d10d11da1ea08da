"""The port program finds the priorities that the reference finds, in real frames, and makes the same of these."""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from testbed.frames.path_record import SLS, sl_of
from testbed.lab import Run, experiment
from testbed.linux.port_program import OWN_FRAMES, PortTables
from testbed.switch.priority.applications import About
from testbed.switch.priority.classify import TAG_TYPES, Source, classify, read, rewrite
from testbed.switch.priority.lanes import LANES, lane
from testbed.switch.priority.marking import mark
from testbed.switch.priority.settings import PriorityMap, Trust

if TYPE_CHECKING:
    from tests.lab.conftest import Runner


PORTS = range(4790, 4796)
_TRANSPORTS = 6, 17, 132, 33, 1
_OF_THE_LINK = bytes.fromhex("0180c2000000"), bytes.fromhex("0180c200000e")


# Frames at random


def random_frame(chance: random.Random, target: bytes, source: bytes, own: bool = False) -> bytes:
    """Draw any frame that a port may meet, or that a host may send on its own."""
    tags = [random_tag(chance) for _ in range(chance.choice([0, 0, 0, 1, 1, 2, 3]))]
    kinds = [ipv4, ipv4, ipv6, other]
    if not own:  # its own would be its agent's
        kinds.append(control if tags else lldp)
    frame = target + source + b"".join(tags) + chance.choice(kinds)(chance)
    if chance.random() < 0.15:
        frame = frame[: chance.randint(14, len(frame))]
    # Linux loses a frame whose outermost tag is not followed by a type and two octets: no program sees it.
    # A host may add a tag.
    return frame.ljust(20 if frame[12:14] in TAG_TYPES else 16 if own else 14, b"\0")


def random_tag(chance: random.Random) -> bytes:
    return chance.choice(TAG_TYPES) + chance.randbytes(2)


def ipv4(chance: random.Random) -> bytes:
    """Draw an IPv4 header of any length, right or wrong, whole or a fragment; the checksum is mostly wrong."""
    length = chance.choice([5, 5, 5, 6, 15, chance.randrange(16)])
    version = 4 if chance.random() < 0.9 else chance.randrange(16)
    header = bytes([version << 4 | length, random_ds_field(chance)])
    rest = bytearray(chance.randbytes(chance.randint(0, 90)))
    if len(rest) > 8 and chance.random() < 0.5:
        rest[4:6] = b"\x40\x00" if chance.random() < 0.8 else b"\x20\x00"  # whole; the first fragment
        rest[7] = chance.choice(_TRANSPORTS)
        put_ports(chance, rest, 4 * length - 2)
    return b"\x08\x00" + header + rest


def put_ports(chance: random.Random, packet: bytearray, at: int) -> None:
    """Put two of the few ports where a transport has them, if the packet is long enough."""
    if 0 <= at <= len(packet) - 4:
        packet[at : at + 4] = struct.pack("!HH", chance.choice(PORTS), chance.choice(PORTS))


def ipv6(chance: random.Random) -> bytes:
    version = 6 if chance.random() < 0.9 else chance.randrange(16)
    word = version << 28 | random_ds_field(chance) << 20 | chance.getrandbits(20)
    rest = bytearray(chance.randbytes(chance.randint(0, 90)))
    if len(rest) > 3:
        rest[2] = chance.choice([*_TRANSPORTS, 0, 43])
        put_ports(chance, rest, 36)
    return b"\x86\xdd" + word.to_bytes(4, "big") + rest


def random_ds_field(chance: random.Random) -> int:
    """Draw a DS field, often without a DSCP: only then does a host set one."""
    return chance.randrange(256) if chance.random() < 0.6 else chance.randrange(4)


def other(chance: random.Random) -> bytes:
    """Draw ARP, MPLS, LLC, SNAP, or any other type."""
    kind = chance.choice(
        [b"\x08\x06", b"\x88\x47", b"\x00\x26\xaa\xaa\x03\x00\x00\x00\x08\x00", b"\x00\x03\x42\x42\x03"]
    )
    return kind + chance.randbytes(chance.randint(0, 60))


def control(chance: random.Random) -> bytes:
    """Draw a frame that would be MAC control without a tag before it."""
    return chance.choice([b"\x88\x08\x01\x01", lldp(chance)]) + chance.randbytes(44)


def lldp(chance: random.Random) -> bytes:
    """Draw an LLDP frame to one station, so that switches forward it."""
    return b"\x88\xcc" + chance.randbytes(chance.randint(0, 60))


def random_map(chance: random.Random, rewriting: bool, dei: bool = False) -> PriorityMap:
    def table(length: int, values: int) -> dict[int, int]:
        return {number: chance.randrange(values) for number in range(length) if chance.random() < 0.5}

    return PriorityMap(
        chance.choice(list(Trust)),
        chance.randrange(8),
        dscp_to_dot1p=table(64, 8),
        dot1p_to_local=table(8, 8),
        rewrite_dot1p=table(8, 8) if rewriting else {},
        rewrite_dscp=table(8, 64) if rewriting else {},
        dei_to_dot1p=table(8, 8) if dei else {},
    )


def random_applications(chance: random.Random) -> dict[tuple[About, int], int]:
    """Draw entries for half of the ports and types that are in such frames."""
    if chance.random() < 0.4:
        return {}
    kinds: dict[About, Sequence[int]] = {about: PORTS for about in (About.TCP, About.UDP, About.SCTP, About.DCCP)}
    kinds |= {About.DSCP: range(64), About.TYPE: (0x0800, 0x86DD, 0x0806, 0x8847), About.ANYTHING_ELSE: (0,)}
    return {
        (about, protocol): chance.randrange(8)
        for about, protocols in kinds.items()
        if chance.random() < 0.6
        for protocol in protocols
        if chance.random() < 0.5
    }


class Pair:
    """Two hosts and a switch, whose ports get other tables again and again."""

    def __init__(self, net: Any) -> None:
        self.fabric = net.fabric
        self.host, self.peer = net["h1"], net["h2"]
        self.out, self.into = self.fabric.between("h1", "s1"), self.fabric.between("s1", "h1")
        self.leaving = self.fabric.between("s1", "h2")
        self.arriving = self.fabric.between("h2", "s1")

    def configure(self, port: Any, priorities: PriorityMap) -> None:
        name = port.node.name
        self.fabric.core.program.set_port(
            port.slot,
            PortTables(
                self.fabric.core.numbers[name],
                self.fabric.core.numbers[name] if name in self.fabric.buffers else None,
                port.queues.control,
                port.queues.arrange().sockets,
                priorities.tables(),
            ),
        )
        if self.fabric.core.program.dei:
            self.fabric.core.program.set_drop_eligible(port.slot, priorities.dei_to_dot1p)

    def admitted(self) -> list[tuple[int, int]]:
        """Return frames and cells by priority, of those that came in from h1."""
        groups = [self.fabric.group(self.into.name, priority) for priority in range(8)]
        return [(group.admitted_frames, group.admitted_cells) for group in groups]

    def queued(self, port: Any) -> list[tuple[int, int]]:
        """Return frames and octets by local priority, of those that went out."""
        found = self.fabric.sent(port.name)
        return list(zip(found.sent_frames, found.sent_bytes, strict=True))


def grown(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(b[0] - a[0], b[1] - a[1]) for a, b in zip(before, after, strict=True)]


def tally(sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return (number of frames, sum of sizes) by priority, from (priority, size) of each."""
    found = [(0, 0)] * 8
    for priority, size in sizes:
        found[priority] = found[priority][0] + 1, found[priority][1] + size
    return found


def network_of_two(dei: bool = False) -> Any:
    from testbed.net.build.network import network
    from testbed.net.fabric.port import Port
    from topologies.incast import Incast

    class Two(Incast):
        def build(self, n: int = 2) -> None:
            self.addSwitch("s1")
            for number in range(1, n + 1):
                self.addLink(self.addHost(f"h{number}"), "s1")

    port = Port(priorities=PriorityMap(Trust.DSCP, dei_to_dot1p={0: 7} if dei else {})).without_pfc()
    return network(Two(scale=100, port=port))


@experiment(timeout="300s")
def forwards_as_the_reference(run: Run, maps: int = 120, batch: int = 40, dei: bool = False) -> None:
    """Frames of all kinds through a switch: their group, their queue, their cells, and what comes out; with `dei` by
    tables of their own for tags whose DEI is set.
    """
    from testbed.net.shell.wire import RawPort, Tap

    chance = random.Random(run.seed)
    differences: list[str] = []
    kinds: Counter[str] = Counter()
    with network_of_two(dei) as net:
        pair = Pair(net)
        cells = net.fabric.buffers["s1"].cells
        tap = Tap(pair.peer, pair.arriving.name)
        raw = RawPort(pair.host, pair.out.name, past_queues=True)
        for number in range(maps):
            settings = random_map(chance, True, dei)
            pair.configure(pair.into, settings)
            before, queued = pair.admitted(), pair.queued(pair.leaving)
            frames = [random_frame(chance, pair.arriving.mac.octets, pair.out.mac.octets) for _ in range(batch)]
            raw.send_all(frames)
            wait_for(lambda: pair.fabric.buffer("s1").used == (0, 0, 0))
            found = [classify(frame, settings) for frame in frames]
            kinds.update(f"{settings.trust}, by {one.source}" for one in found)
            kinds["by DEI"] += sum(
                one.source is Source.PCP and read(frame).dei and settings.looks_at_dei
                for frame, one in zip(frames, found, strict=True)
            )
            kinds.update(f"rewritten {what}" for frame in frames for what in changed(frame, rewrite(frame, settings)))
            sizes = list(zip(found, frames, strict=True))
            for what, wanted, counted in (
                ("groups", tally([(one.dot1p, cells(len(f))) for one, f in sizes]), grown(before, pair.admitted())),
                ("queues", tally([(one.local, len(f)) for one, f in sizes]), grown(queued, pair.queued(pair.leaving))),
            ):
                if wanted != counted:
                    differences.append(f"{what} of map {number}: wanted {wanted}, counted {counted}")
            # Queues overtake each other; within one the order stays.
            out = [(one.local, rewrite(frame, settings)) for one, frame in sizes]
            differences += unlike(f"map {number}, {settings}", out, list(tap.frames()))
        raw.close()
        tap.close()
        report(run, net.fabric, kinds, differences)


@experiment(timeout="300s")
def marks_as_the_reference(run: Run, maps: int = 120, batch: int = 25) -> None:
    """Frames of a host's own, from sockets of all priorities: what is on the wire, and the queue they took."""
    from testbed.net.shell.wire import RawPort, Tap

    chance = random.Random(run.seed)
    differences: list[str] = []
    kinds: Counter[str] = Counter()
    with network_of_two() as net:
        pair = Pair(net)
        tap = Tap(net["s1"], pair.into.name)
        raw = RawPort(pair.host, pair.out.name)
        applications: dict[tuple[About, int], int] = {}
        for number in range(maps):
            settings = random_map(chance, rewriting=chance.random() < 0.3)
            pair.configure(pair.out, settings)
            old, applications = applications, random_applications(chance)
            net.fabric.core.program.set_applications(pair.out.slot, old, applications)
            before = pair.queued(pair.out)
            wanted = []
            for _ in range(batch):
                target = pair.arriving.mac.octets if chance.random() < 0.9 else chance.choice(_OF_THE_LINK)
                frame = random_frame(chance, target, pair.out.mac.octets, own=True)
                priority = chance.choice([*range(8), 8, 15, 0x10003])
                raw.set_priority(priority)
                raw.send(frame)
                wanted.append(mark(frame, priority, settings, applications))
                kinds["by application"] += wanted[-1] != mark(frame, priority, settings)
                kinds.update(f"{settings.trust}: {what}" for what in changed(frame, wanted[-1].frame))
                kinds[f"{settings.trust}: carried" if wanted[-1].carried else f"{settings.trust}: not carried"] += 1
            time.sleep(0.005)
            queues = tally([(one.local, len(one.frame)) for one in wanted])
            if queues != grown(before, pair.queued(pair.out)):
                differences.append(f"queues of map {number}: {queues}, {grown(before, pair.queued(pair.out))}")
            out = [(one.local, one.frame) for one in wanted]
            differences += unlike(f"map {number}, {settings}", out, list(tap.frames()))
        raw.close()
        tap.close()
        report(run, net.fabric, kinds, differences)


@experiment(timeout="300s")
def chooses_lanes_as_the_reference(run: Run, maps: int = 120, batch: int = 40) -> None:
    """Frames of all kinds with a table of VLs on their way, from the host or through the switch: what comes out, from
    which queue, and what is dropped."""
    from testbed.net.shell.wire import RawPort, Tap

    chance = random.Random(run.seed)
    differences: list[str] = []
    kinds: Counter[str] = Counter()
    with network_of_two() as net:
        pair, program = Pair(net), net.fabric.core.program
        for own in (False, True):
            node, out, source = (pair.host, pair.out, OWN_FRAMES) if own else (net["s1"], pair.leaving, pair.into.slot)
            tap = Tap(*((net["s1"], pair.into.name) if own else (pair.peer, pair.arriving.name)))
            raw = RawPort(pair.host, pair.out.name, past_queues=not own)
            old: dict[int, tuple[int, ...]] = {}
            for number in range(maps):
                settings = random_map(chance, rewriting=False)
                pair.configure(pair.out if own else pair.into, settings)
                lanes = tuple(chance.randrange(16 if chance.random() < 0.2 else LANES) for _ in SLS)
                new = {source: lanes} if chance.random() < 0.9 else {source + 2: lanes} if not own else {}
                program.set_lanes(out.slot, old, new)
                old = new
                queued, dropped = pair.queued(out), net.fabric.sent(out.name).vl15_frames
                wanted, gone = [], [0] * len(SLS)
                for _ in range(batch):
                    frame = random_frame(chance, pair.arriving.mac.octets, pair.out.mac.octets, own)
                    with suppress(OSError):  # what the kernel answers where a host's own frame is dropped
                        raw.send(frame)
                    if own:
                        marked = mark(frame, 0, settings)
                        frame, local = marked.frame, marked.local
                    else:
                        local = classify(frame, settings).local
                    chosen = lane(frame, new.get(source))
                    kinds[f"{'own' if own else 'forwarded'}: {shown(chosen.frame, frame)}"] += 1
                    if chosen.frame is None:
                        gone[sl_of(read(frame).dscp or 0)] += 1
                    else:
                        wanted.append((local if chosen.vl is None else chosen.vl, chosen.frame, len(frame)))
                wait_for(lambda: pair.fabric.buffer("s1").used == (0, 0, 0))
                time.sleep(0.005)
                for what, due, counted in (
                    ("queues", tally([(queue, size) for queue, _, size in wanted]), grown(queued, pair.queued(out))),
                    (
                        "drops",
                        gone,
                        [n - o for n, o in zip(net.fabric.sent(out.name).vl15_frames, dropped, strict=True)],
                    ),
                ):
                    if due != counted:
                        differences.append(f"{node.name}, {what} of {number}: wanted {due}, counted {counted}")
                due_frames = [(queue, frame) for queue, frame, _ in wanted]
                differences += unlike(f"{node.name}, {number}, {settings}", due_frames, list(tap.frames()))
            program.set_lanes(out.slot, old, {})
            raw.close()
            tap.close()
        report(run, net.fabric, kinds, differences)


def shown(after: bytes | None, before: bytes) -> str:
    return "dropped" if after is None else ", ".join(changed(before, after)) or "unchanged"


def changed(before: bytes, after: bytes) -> list[str]:
    """Return the changes of a frame in words."""
    if before == after:
        return []
    if len(after) > len(before):
        return ["tag added"]
    pcp = before[12:14] in TAG_TYPES and before[14] != after[14]
    return ["pcp"] * pcp + ["dscp"] * (before[15:] != after[15:])


def unlike(what: str, wanted: list[tuple[int, bytes]], came: list[bytes]) -> list[str]:
    """Return in words how the frames differ from those that were wanted, in each queue in that order; nothing if
    equal.
    """
    queue_of = {frame: queue for queue, frame in wanted}
    odd = [frame.hex() for frame in came if frame not in queue_of][:3]
    missing = [frame.hex() for frame in queue_of if frame not in came][:3]
    if odd or missing:
        return [f"{what}: came but were not wanted {odd}, were wanted but did not come {missing}"]
    in_order = all(
        [frame for frame in came if queue_of[frame] == queue] == [frame for number, frame in wanted if number == queue]
        for queue in range(8)
    )
    return [] if in_order else [f"{what}: doubled, or not in order"]


def wait_for(is_true: Any) -> None:
    deadline = time.monotonic() + 5
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.002)


def report(run: Run, fabric: Any, kinds: Counter[str], differences: list[str]) -> None:
    run.figure("kinds", dict(sorted(kinds.items())))
    run.figure("differences", differences[:10])
    run.claim("differences", len(differences), equals=0)
    impossible = sum(
        fabric.group(port, priority).impossible_releases for port in fabric.names() for priority in range(8)
    )
    run.claim("impossible releases", impossible, equals=0)


def test_forwarded_frames_have_the_group_the_queue_and_the_octets_of_the_reference(run: Runner) -> None:
    result = run(forwards_as_the_reference).check()
    kinds = result.figure("kinds")
    sources = ["dscp, by dscp", "dscp, by pcp", "dscp, by port", "dot1p, by pcp", "dot1p, by port", "none, by port"]
    assert all(kinds[kind] > 300 for kind in [*sources, "rewritten pcp", "rewritten dscp"]), kinds


def test_frames_whose_dei_is_set_have_the_group_and_the_queue_of_the_reference(run: Runner) -> None:
    kinds = run(forwards_as_the_reference, dei=True).check().figure("kinds")
    assert kinds["by DEI"] > 300, kinds


def test_a_hosts_own_frames_are_marked_as_by_the_reference(run: Runner) -> None:
    kinds = run(marks_as_the_reference).check().figure("kinds")
    changes = ["dot1p: pcp", "dot1p: tag added", "dscp: dscp"]
    assert all(kinds[kind] > 100 for kind in [*changes, "dscp: carried", "dscp: not carried", "by application"]), kinds


def test_a_table_of_vls_gives_frames_the_tag_and_the_queue_of_the_reference_or_drops_them(run: Runner) -> None:
    kinds = run(chooses_lanes_as_the_reference).check().figure("kinds")
    for way in ("forwarded", "own"):
        assert all(kinds[f"{way}: {what}"] > 100 for what in ("pcp", "tag added", "dropped", "unchanged")), kinds
