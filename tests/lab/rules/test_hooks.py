"""Rules of ports beside marks, and rules that choose among ways: what they decide, and what a run says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.bytecode.values import Refusal
from testbed.errors import UsageError
from testbed.lab import Run, experiment
from testbed.linux.port_program import PortProgram
from testbed.linux.queue_rule import RuleDevice
from testbed.net.fabric.rules.at_ports import program_of
from testbed.net.fabric.rules.at_switches import way_rule
from testbed.switch.rules import way_code
from testbed.switch.rules.choosing import ForwardedFrame, SwitchLine, WayLoad, WayRule, of_numbers
from testbed.switch.ways.model import Group, table
from testbed.units import Rate, Scale
from xoff import (
    Flow,
    Incast,
    LeafSpine,
    OfferedFrame,
    PfcSettings,
    Port,
    PortLine,
    PortRule,
    QueuedFrame,
    StampedPacket,
    Ways,
    flowing,
    network,
)

MARKS = {"*": [("engines", "um")]}
LOSSY = Port().without_pfc()
FROM = 20_000
_NO_MEMBER = 255
_SLOTS = 2000
"""Slots that no port has: nothing waits there."""


class Short(PortRule):
    """A queue that takes no frame from 20 kB on."""

    answer = PortRule.DROP

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.offered = self.refused = self.longest = 0

    def on_admission(self, frame: OfferedFrame) -> int:
        self.offered += 1
        if frame.queued_octets < FROM:
            self.longest = max(self.longest, frame.queued_octets + frame.octets)
            return self.ADMIT
        self.refused += 1
        return self.answer

    def state(self) -> dict[str, float]:
        return {"offered": self.offered, "refused": self.refused, "longest": self.longest}


class Cutting(Short):
    """The same, and what it refuses is cut."""

    answer = PortRule.TRIM


class Dividing(PortRule):
    """A fault at the 100th frame."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.left = 100

    def on_admission(self, frame: OfferedFrame) -> int:
        self.left -= 1
        return self.DROP if 100 // self.left < 0 else self.ADMIT


class Wrong(PortRule):
    """An answer that does not exist."""

    def on_admission(self, frame: OfferedFrame) -> int:
        return 3


class Weighing(PortRule):
    """A queue that has four times the share of the other, and a fault at its 1000th frame."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.seen = 0

    def on_weight(self, frame: QueuedFrame) -> int:
        if frame.queue != 3:
            return 1
        self.seen += 1
        return 4 if self.seen < 1000 else 60 // (1000 - self.seen)


class Rows(WayRule):
    """Each frame takes the way behind that of the last one, and none that has left."""

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.turn = 0

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        self.turn += 1
        return self.turn % len(ways)

    def state(self) -> dict[str, float]:
        return {"turn": self.turn}


class Outside(WayRule):
    """A way that is not there from the 50th frame on."""

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.turn = 0

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        self.turn += 1
        return 0 if self.turn < 50 else len(ways)


class Loads(WayRule):
    """A choice that depends on all that is told."""

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.sum = 0

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        self.sum = (self.sum * 3 + frame.hash + frame.source_port + frame.destination_port + frame.protocol) % 1_000_003
        self.sum += (
            frame.queue_pair % 7 + frame.flow_label % 5 + frame.source % 11 + frame.destination % 13 + frame.group
        )
        if frame.last >= 0 and frame.since_lab_ns < 1000:
            return frame.last
        best = self.sum % len(ways)
        for place in range(len(ways)):
            if ways[place].is_there and ways[place].given_octets + ways[place].queued_octets < frame.octets:
                best = place
        return best


def _two_flows(port: Port) -> tuple[int, int, dict[str, int], dict[str, float], str]:
    """Return what two hosts' 400 frames have lost, what was trimmed, the counters' losses, and the rule's reading."""
    hosts = Port(pfc=port.pfc)
    with network(Incast(2, port=port, hopts={"port": hosts}, total=4000)) as net:
        flows = net.run(*(Flow(host, "r", count=200) for host in ("h1", "h2")))
        read = net.fabric.marking("s1-eth3")
        losses = net.fabric.losses() or {}
        trimmed = net.fabric.trimmed("s1-eth3").frames
        assert net.fabric.held(3) == 0
        groups = [net.fabric.group(f"s1-eth{number}", 3) for number in (1, 2)]
        assert all(one.admitted_cells == one.released_cells and not one.impossible_releases for one in groups)
        assert sum(one.ruled_frames for one in groups) == losses.get("rule of a port", 0)
    return flows.lost, trimmed, losses, read.state, read.fault


@experiment
def test_a_rule_drops_what_its_counters_have(run: Run) -> None:
    lost, _, losses, state, _ = _two_flows(LOSSY.with_rule(Short, 3))
    run.claim("frames that were offered", state["offered"], equals=400)
    run.claim("lost", lost, at_least=100)
    run.claim("refused, and counted", [state["refused"], losses["rule of a port"]], equals=[lost, lost])
    run.claim("longest queue", state["longest"], at_most=FROM + 1514)


@experiment
def test_a_rule_has_frames_cut_and_none_is_lost(run: Run) -> None:
    lost, trimmed, losses, state, _ = _two_flows(LOSSY.with_trimming(3).with_rule(Cutting, 3))
    run.claim("refused by the rule, and cut", trimmed, equals=state["refused"])
    run.claim("some are", trimmed, at_least=100)
    run.claim("lost", [lost, losses], equals=[0, {}])


@experiment
def test_what_no_port_trims_is_dropped(run: Run) -> None:
    lost, trimmed, losses, state, _ = _two_flows(LOSSY.with_rule(Cutting, 3))
    run.claim("cut, lost and counted", [trimmed, lost], equals=[0, state["refused"]])
    run.claim("counted", losses, equals={"rule of a port": lost})


@experiment
def test_a_rule_that_drops_in_a_lossless_class_is_named_by_the_counters(run: Run) -> None:
    lost, _, losses, _, _ = _two_flows(Port().with_rule(Short, 3))
    run.claim("lost", lost, at_least=1)
    run.claim("counted", losses, equals={"rule of a port": lost})


@experiment
def test_after_a_fault_the_buffer_alone_admits(run: Run) -> None:
    lost, _, _, _, fault = _two_flows(Port().with_rule(Dividing, 3))
    run.claim("lost", lost, equals=0)
    run.claim("fault", fault.partition(":")[0], equals="a division by 0, at test_hooks.py")


@experiment
def test_an_answer_that_does_not_exist_is_a_fault(run: Run) -> None:
    lost, _, _, _, fault = _two_flows(Port().with_rule(Wrong, 3))
    run.claim("lost", lost, equals=0)
    run.claim("fault", fault.partition(", at ")[0], equals="an answer that is none of those that the method may give")


@experiment
def test_a_queue_has_the_weight_that_a_rule_gives_it_until_a_fault(run: Run) -> None:
    port = Port(pfc=PfcSettings(enabled=frozenset({3, 4})))
    topology = Incast(2, port=port.with_rule(Weighing, 3, 4), hopts={"port": port}, total=4000)
    gone = list[list[int]]()
    with network(topology) as net, flowing(Flow("h1", "r", 3, duration="3ms"), Flow("h2", "r", 4, duration="3ms")):
        for pause in ("400us", "400us", "1600us", "400us"):
            net.sleep(pause)
            port_counts = net.fabric.sent("s1-eth3")
            gone.append([port_counts.sent_bytes[queue] - port_counts.queued_bytes[queue] for queue in (3, 4)])
        fault = net.fabric.marking("s1-eth3").fault
    first, last = (
        (after[0] - before[0]) / (after[1] - before[1]) for before, after in ((gone[0], gone[1]), (gone[2], gone[3]))
    )
    run.claim("queue 3 over queue 4, by the rule", round(first, 2), at_least=3.5, at_most=4.5)
    run.claim("queue 3 over queue 4, after its fault", round(last, 2), at_least=0.9, at_most=1.1)
    run.claim("fault", fault.partition(":")[0], equals="a division by 0, at test_hooks.py")


class Stamping(PortRule):
    """A stamp, where the port has none to write."""

    def on_stamp(self, packet: StampedPacket) -> int:
        return packet.line_kbps // 2


class Unbounded(WayRule):
    """State that has no code."""

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.seen: dict[int, int] = {}

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        self.seen[frame.hash] = 1
        return 0


class Floating(WayRule):
    """A way that is no whole number."""

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        return len(ways) / 2  # type: ignore[return-value]


def _refusal(make: Callable[[], object]) -> str:
    try:
        make()
    except UsageError as error:
        return str(error)
    return ""


@experiment
def test_what_cannot_work_is_refused_before_the_network_starts(run: Run) -> None:
    def leafs(rule: type[WayRule]) -> None:
        with network(LeafSpine(2, 2, 1, ways=Ways(rule=rule))):
            pass

    said = [
        _refusal(lambda: _two_flows(Port().with_rule(Stamping, 3))),
        _refusal(lambda: _two_flows(Port(strict=frozenset({3})).with_rule(Weighing, 3))),
        _refusal(lambda: leafs(Unbounded)),
        _refusal(lambda: leafs(Floating)),
    ]
    for number, words in enumerate(
        (
            "s1-eth1: Stamping has on_stamp(), and the port stamps nothing; write Port(telemetry=True)",
            "s1-eth1: Weighing has on_weight(), and queue 3 is strict",
            "leaf1: the rule Unbounded has no code: test_hooks.py:",
            "leaf1: the rule Floating has no code: ",
        )
    ):
        run.figure(f"refusal {number}", said[number])
        run.claim(f"as expected {number}", said[number].startswith(words), equals=True)


@experiment
def test_the_port_program_asks_a_rule_as_the_reference_does(run: Run, many: int = 3000) -> None:
    chance, program, device, differences = run.rng, PortProgram(rules=True), RuleDevice(), 0
    line = SwitchLine(Rate("10Mb/s"), Scale(1000), "leaf1", 7)
    for _ in range(6):
        code = way_code.code_of(Loads(line))
        assert not isinstance(code, Refusal), code
        settings, members = Ways(rule=Loads), chance.choice([1, 2, 5, 64])
        seed, half_life_ns = chance.getrandbits(32), chance.randint(1, 3000)
        slots = [_SLOTS - 20 + number for number in range(members)]
        number = program.ways.add(
            6, int(settings.mask), seed, (1, half_life_ns), slots, rule=device.add(program_of(code))
        )
        weights = [1] * members
        program.ways.set_table(number, table(settings, weights, [True] * members), slots)
        group, now_ns = Group(settings, seed, weights, 1, half_life_ns, rule=of_numbers(Loads(line)), number=number), 0
        for _ in range(many // 6):
            now_ns += chance.choice([0, 1, chance.randint(0, 5000)])
            words, length = [chance.getrandbits(32) for _ in range(15)], chance.randint(60, 9000)
            if chance.random() < 0.6:
                words[:11] = [7] * 11  # a flow that is seen again
            if chance.random() < 0.02:
                group.set_there(chance.randrange(members), chance.random() < 0.5)
                there = [slot if one.is_there else None for slot, one in zip(slots, group.members, strict=True)]
                program.ways.set_table(number, group.table, there)
            wanted = group.choose(words, now_ns, length)
            chosen, _ = program.ways.choose(number, words, now_ns, length)
            differences += chosen != (_NO_MEMBER if wanted is None else wanted)
        differences += program.ways.flowlets(number) != group.flowlets
    device.close()
    program.close()
    run.claim("differences", differences, equals=0)


@experiment
def test_frames_leave_by_the_ways_that_a_rule_chooses_but_not_by_a_lost_one(run: Run) -> None:
    with network(LeafSpine(2, 4, 4, delay="1us", ways=Ways(rule=Rows, gone_after="10us"))) as net:
        uplink = net.ways("leaf1")[1].port
        net.run(Flow("h1", "h5", count=400))
        run.claim("frames", [one.frames for one in net.ways("leaf1")], equals=[100] * 4)
        net.fabric.cabling.pull(uplink)
        net.sleep("50us")
        flows = net.run(Flow("h1", "h6", count=400))
        run.claim("lost", flows.lost, equals=0)
        frames = [one.frames for one in net.ways("leaf1")]
        run.claim("frames of the lost way", frames[1], equals=100)
        run.claim("frames in all", sum(frames), equals=800)
        run.claim("asked", way_rule(net.fabric, "leaf1").asked, equals=800)


@experiment
def test_a_way_that_does_not_exist_is_a_fault_and_the_hash_chooses_from_then_on(run: Run) -> None:
    with network(LeafSpine(2, 4, 4, ways=Ways(rule=Outside, seed=3))) as net:
        flows = net.run(Flow("h1", "h5", count=400, source_port=50_000))
        frames = [one.frames for one in net.ways("leaf1")]
        fault = way_rule(net.fabric, "leaf1").fault
    run.claim("lost", flows.lost, equals=0)
    run.claim("fault", fault.partition(", at ")[0], equals="an answer that is none of those that the method may give")
    run.claim("all frames", sum(frames), equals=400)
    run.claim("frames of the rule", frames[0], at_least=49)
