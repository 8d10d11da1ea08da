"""Jobs that compare the port program's equal ways with their reference, choice by choice and frame by frame."""

from __future__ import annotations

import random
import struct
from unittest.mock import patch

from experiments.ways import ecmp_collisions, flowlets
from testbed.linux.port_program import PortProgram
from testbed.net.fabric import switch_ways
from testbed.net.fabric.switch_ways import CODES
from testbed.switch.ways.frame import fields_of
from testbed.switch.ways.model import Fields, Group, table
from testbed.switch.ways.settings import By, HashField
from xoff import (
    Clos,
    Duration,
    Flow,
    LeafSpine,
    LosslessTopo,
    Nic,
    RawPort,
    Roce,
    RoceReport,
    Run,
    Ways,
    experiment,
    flowing,
    network,
)

_NO_MEMBER = 255
_FIELDS = [
    "source", "destination", "protocol", "source port", "destination port", "flow label", "queue pair", "source MAC",
    "destination MAC",
]  # fmt: skip
_SLOTS = 2000
"""Slots that no port has: nothing waits there."""


@experiment(timeout="1800s")
def choices(run: Run, many: int = 20_000) -> None:
    """Let the port program and the reference choose for random frames, with members that leave and come back."""
    chance, program, differences = run.rng, PortProgram(), 0
    for by in (one for one in By if one not in {By.HOST_NUMBER, By.RULE}):
        for _ in range(8):
            settings = Ways(by, tuple(chance.sample(_FIELDS, chance.randint(1, 9))), buckets=chance.choice([64, 200]))
            members = chance.randint(1, 16)
            weights = [chance.choice([1, 1, 1, 2, 5]) for _ in range(members)]
            seed, gap_ns, half_life_ns = chance.getrandbits(32), chance.randint(1, 3000), chance.randint(1, 3000)
            slots = [_SLOTS + number for number in range(members)]
            number = program.ways.add(CODES[by], int(settings.mask), seed, (gap_ns, half_life_ns), slots)
            program.ways.set_table(number, table(settings, weights, [True] * members), slots)
            group, now_ns = Group(settings, seed, weights, gap_ns, half_life_ns), 0
            for _ in range(many // 56):
                now_ns += chance.choice([0, 1, chance.randint(0, 5000)])
                words, length = [chance.getrandbits(32) for _ in range(15)], chance.randint(60, 9000)
                if chance.random() < 0.6:
                    words[:11] = [7] * 11  # a flow that is seen again
                if chance.random() < 0.02:
                    group.set_there(chance.randrange(members), chance.random() < 0.5)
                    there = [slot if one.is_there else None for slot, one in zip(slots, group.members, strict=True)]
                    program.ways.set_table(number, group.table, there)
                wanted = group.choose(words, now_ns, length)
                chosen, hashed = program.ways.choose(number, words, now_ns, length)
                differences += chosen != (_NO_MEMBER if wanted is None else wanted) or hashed != group.hash(words)
            counted = program.ways.counters(number)
            differences += [(one.frames, one.octets) for one in counted] != [
                (one.frames, one.octets) for one in group.members
            ]
            differences += program.ways.flowlets(number) != group.flowlets
    program.close()
    run.claim("differences", differences, equals=0)


def _frame(chance: random.Random, source: bytes, destination: bytes) -> bytes:
    """Return a random frame: tags, IPv4 or IPv6 or neither, fragments, tunnels, ports, RoCE; or a part of one."""
    octets = destination + source
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        octets += struct.pack("!HH", chance.choice([0x8100, 0x88A8]), chance.getrandbits(12) | 3 << 13)
    kind, packet = chance.choice(
        [(0x0800, _ipv4(chance, 0)), (0x86DD, _ipv6(chance, 0)), (0x88B5, chance.randbytes(40))]
    )
    octets += struct.pack("!H", kind) + packet
    return octets[: chance.choice([len(octets)] * 5 + [chance.randint(22, len(octets))])].ljust(60, b"\0")


def _inside(chance: random.Random, depth: int) -> tuple[int, bytes]:
    """Return a protocol and what it carries."""
    ports = struct.pack("!HH", chance.getrandbits(16), chance.choice([4791, chance.getrandbits(16)]))
    choices = [(6, ports + chance.randbytes(30)), (17, ports + chance.randbytes(30)), (1, chance.randbytes(30))]
    if depth < 2:
        choices += [(4, _ipv4(chance, depth + 1)), (41, _ipv6(chance, depth + 1))]
    return chance.choice(choices)


def _ipv4(chance: random.Random, depth: int) -> bytes:
    protocol, payload = _inside(chance, depth)
    words, flags = chance.choice([5, 5, 6]), chance.choice([0, 0, 0x4000, 0x2000, 1])
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, words * 4 + len(payload), 0, flags, 64, protocol, 0)
    return head + chance.randbytes(8) + bytes(4 * (words - 5)) + payload


def _ipv6(chance: random.Random, depth: int) -> bytes:
    protocol, payload = _inside(chance, depth)
    if chance.random() < 0.3:
        segments = chance.randint(1, 3)
        payload = struct.pack("!BBBBI", protocol, 2 * segments, 4, 0, 0) + chance.randbytes(16 * segments) + payload
        protocol = 43
    return (
        struct.pack("!IHBB", 6 << 28 | chance.getrandbits(20), len(payload), protocol, 64)
        + chance.randbytes(32)
        + payload
    )


@experiment
def frames(run: Run, many: int = 600) -> None:
    """Send random frames over four spines, and compare the way of each with the reference's."""
    chance, differences, ways_used = run.rng, 0, set()
    for fields in (("source", "destination", "protocol", "source port", "destination port"), (*_FIELDS, "inner")):
        settings = Ways(fields=fields, seed=11)
        with network(LeafSpine(2, 4, 1, ways=settings)) as net:
            own, other = (bytes.fromhex(net[host].MAC().replace(":", "")) for host in ("h1", "h2"))
            group = Group(settings, 11, [1] * 4, 1, 1)
            with RawPort(net["h1"], "h1-eth0", past_queues=True) as port:
                for _ in range(many):
                    frame = _frame(chance, own, other)
                    wanted = group.choose(fields_of(frame, HashField.INNER in settings.mask).words(), 0, len(frame))
                    before = [one.frames for one in net.ways("leaf1")]
                    port.send(frame)
                    net.sleep("20us")
                    after = [one.frames for one in net.ways("leaf1")]
                    moved = [new - old for old, new in zip(before, after, strict=True)]
                    differences += moved != [int(place == wanted) for place in range(4)]
                    ways_used.add(wanted)
    run.claim("differences", differences, equals=0)
    run.claim("ways that were used", sorted(ways_used), equals=[0, 1, 2, 3])


@experiment
def a_lost_way(run: Run, by: str = "resilient") -> None:
    """Pull one of four uplinks while sixteen flows use them, and look when their frames go elsewhere."""
    with network(LeafSpine(2, 4, 16, delay="1us", ways=Ways(by, seed=3, gone_after="50us"))) as net:
        uplink = net.ways("leaf1")[1].port
        flows = [
            Flow(
                f"h{number}",
                f"h{number + 16}",
                rate="100Mb/s",
                duration="3ms",
                frame="200B",
                source_port=50_000 + number,
            )
            for number in range(1, 17)
        ]
        with flowing(*flows) as running:
            net.sleep("1ms")
            net.fabric.cabling.pull(uplink)
            net.sleep("40us")
            run.claim("there before 50 us", net.ways("leaf1")[1].is_there, equals=True)
            net.sleep("20us")
            run.claim("there after 50 us", net.ways("leaf1")[1].is_there, equals=False)
            net.sleep("440us")
            before = net.ways("leaf1")[1].frames
            net.sleep("500us")
            run.claim("frames to the lost way", net.ways("leaf1")[1].frames - before, equals=0)
        run.figure("lost", running.lost)
        run.figure("frames", [one.frames for one in net.ways("leaf1")])


@experiment
def a_way_back(run: Run) -> None:
    """Pull an uplink, and plug it in again: its frames go over it at once, and the log has both."""
    with network(LeafSpine(2, 2, 1, delay="1us", ways=Ways("spray", gone_after="50us"))) as net:
        uplink = net.ways("leaf1")[0].port
        with flowing(Flow("h1", "h2", rate="1Gb/s", duration="4ms", frame="500B")):
            net.fabric.cabling.pull(uplink)
            net.sleep("1ms")
            run.claim("gone", net.ways("leaf1")[0].is_there, equals=False)
            net.fabric.cabling.plug(uplink)
            net.sleep("100us")
            run.claim("back", net.ways("leaf1")[0].is_there, equals=True)
        logged = [one for one in net.fabric.events() if one.kind == "equal_ways" and one.port == uplink]
        run.claim("changes in the log", [one.detail["change"] for one in logged], equals=["left", "is back in"])


@experiment
def permutation(run: Run, ways: str = "spray") -> None:
    """Send from each host of a leaf-spine network to one of another leaf, at line rate."""
    pairs = [(f"h{number}", f"h{(number + 7) % 16 + 1}") for number in range(1, 17)]
    with network(LeafSpine(4, 4, 4, ways=ways)) as net:
        numbered = enumerate(pairs, 50_000)  # a kernel that is built anew draws other ports
        flows = net.run(*[Flow(one, other, duration="500us", source_port=port) for port, (one, other) in numbered])
        run.figure("frames", [[one.frames for one in net.ways(f"leaf{leaf}")] for leaf in range(1, 5)])
    run.claim("lost", flows.lost, equals=0)


@experiment
def without_effect(run: Run, ways: str = "hash") -> None:
    """Set equal ways where there is one way to each host."""
    with network(LeafSpine(2, 1, 1, ways=ways)):
        pass


@experiment
def in_order_alone(
    run: Run, ways: str = "random", recovery: str = "go-back-N", waits: Duration = Duration("0s")
) -> None:
    """Send RoCE flows over ways that change the order of packets, or do not."""
    transport = Roce(recovery=recovery, nic=Nic(reorder_time=waits))
    with network(LeafSpine(2, 4, 2, delay="1us", ways=ways)) as net:
        flows = net.run(*(Flow(one, "h3", transport=transport, size="100kB") for one in ("h1", "h2")))
    run.figure("packets sent again", sum(report["retransmitted"] for report in flows.log))


@experiment
def of_one_switch(run: Run) -> None:
    """Set equal ways at a switch that has none, beside one that has some, and settings of a fabric that polarise."""

    class Pair(LosslessTopo):
        def build(self) -> None:
            for number in (1, 2):
                self.addSwitch(f"s{number}", **({"ways": "spray"} if number == 1 else {}))
                self.addLink(self.addHost(f"h{number}"), f"s{number}")
            self.addLink("s1", "s2")

    with network(Pair()):
        pass
    with network(Clos(2, 1, 2, 1, "0.5", ways=Ways(seed=7))):
        pass
    with network(LeafSpine(2, 1, 1)):  # by default, so nobody is told
        pass


@experiment
def odd_settings(run: Run, which: str = "") -> None:
    """Set equal ways in a way that cannot work."""
    wrong = {
        "gap": Ways("flowlet", gap="1us"),
        "weights": Ways(weights={"spine1": 200, "spine2": 100}),
        "neighbour": Ways(weights={"spin1": 2}),
        "buckets": Ways("resilient", buckets=1),
    }
    with network(LeafSpine(2, 2, 1, ways=wrong[which])):
        pass


@experiment
def at_a_leaf(run: Run) -> None:
    """Set equal ways at a switch that Open vSwitch forwards for."""

    class Pair(LosslessTopo):
        def build(self) -> None:
            self.addLeaf("s1")
            for host in ("h1", "h2"):
                self.addLink(self.addHost(host), "s1")

    with network(Pair(ways="hash")):
        pass


@experiment
def seeds(run: Run, many: int = 5) -> None:
    """Send flows of different lengths over four uplinks, and compare what each uplink gets with the reference."""
    for seed in range(1, many + 1):
        settings = Ways(seed=seed)
        with network(LeafSpine(2, 4, 8, ways=settings)) as net:
            flows = [
                Flow(f"h{one}", f"h{one + 8}", count=20 + one, source_port=50_000 + turn)
                for turn in range(2)
                for one in range(1, 9)
            ]
            net.run(*flows)
            group = Group(settings, seed, [1] * 4, 1, 1)
            for place, flow in enumerate(flows):
                source, target = (net[name].IP() for name in (flow.source, flow.target))
                assert isinstance(flow.source_port, int)
                packet = Fields(source, target, 17, flow.source_port, 20_000 + place)
                for _ in range(flow.count or 0):
                    group.choose(packet.words())
            found = [one.frames for one in net.ways("leaf1")]
        run.claim(f"seed {seed}: frames of uplinks", found, equals=[one.frames for one in group.members])


@experiment(timeout="120s")
def hashing_in_place_of_spraying(run: Run) -> None:
    """Run an experiment in which a switch that should spray hashes."""
    with patch.dict(switch_ways.CODES, {By.SPRAY: CODES[By.HASH]}):
        ecmp_collisions.ecmp_collisions(run)


@experiment(timeout="120s")
def no_silence_is_looked_for(run: Run) -> None:
    """Run an experiment in which flowlets are as hashed flows."""
    with patch.dict(switch_ways.CODES, {By.ADAPTIVE_FLOWLET: CODES[By.HASH]}):
        flowlets.flowlets(run)


@experiment
def sprayed_octets(run: Run, many: int = 20) -> None:
    """Spray two flows to one host by the chance of many seeds, with PFC and selective repeat.

    All octets must be as they were sent, though packets overtake each other and are sent again.
    """
    orders = set()
    for seed in range(1, many + 1):
        with network(LeafSpine(2, 4, 2, ways=Ways("random", seed=seed), xoff=60), case=f"seed {seed}") as net:
            flows = net.run(
                *(Flow(one, "h3", size="100kB", transport=Roce(recovery="selective repeat")) for one in ("h1", "h2"))
            )
            pauses = sum(net.fabric.pfc(net.port("leaf2", f"spine{spine}"), 3)["xoff_sent"] for spine in range(1, 5))
            dropped = net.fabric.dropped()
        reports = flows.reports_of(RoceReport)
        run.claim(
            f"seed {seed}: octets as sent", [one.size.bytes for one in reports if one.intact], equals=[100_000] * 2
        )
        run.claim(f"seed {seed}: dropped", dropped, equals=0)
        run.claim(f"seed {seed}: pauses", pauses, at_least=1)
        late = tuple((one.out_of_order, one.retransmitted) for one in reports)
        run.claim(f"seed {seed}: out of order", sum(one.out_of_order for one in reports), at_least=1)
        orders.add(late)
    run.claim("seeds that differ in what was late and sent again", len(orders), at_least=many * 3 // 4)
