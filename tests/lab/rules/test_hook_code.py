"""Rules of ports and of switches as code, beside marks: the kernel's interpreter against the classes, bit for bit."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments.switch_rules.rocc_fair_rate import FairRate
from experiments.switch_rules.safe_flowlets import SafeFlowlets
from testbed.bytecode.lowering import Lowering, lower
from testbed.bytecode.sharing import frame_of
from testbed.switch.rules import rule_code, way_code
from testbed.switch.rules.choosing import ForwardedFrame, SwitchLine, WayLoad, WayRule
from testbed.switch.rules.hooks import OfferedFrame, PortRule, StampedPacket
from testbed.switch.rules.marking import PortLine, QueuedFrame, Rule
from testbed.switch.rules.rule_code import METHODS, RuleLowering
from testbed.switch.rules.way_code import WayLowering
from testbed.switch.ways.settings import MEMBERS
from testbed.units import Rate, Scale
from tests.lab.roce.interpreted import struct_of, value_of

LINE = PortLine(Rate("10Mb/s"), Scale(1000), "s1-eth2", 7)
SWITCH = SwitchLine(Rate("10Mb/s"), Scale(1000), "leaf1", 7)
BAD_ANSWER = 14

pytestmark = pytest.mark.engines("um")


class Everything(PortRule):
    """All methods of a port, with state that they share."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.offered = self.refused = 0
        self.average = 0.0
        self.by_queue = [0] * 8

    def on_arrival(self, frame: QueuedFrame) -> bool:
        return self.average > 30_000 and self.chance() < 0.5

    def on_admission(self, frame: OfferedFrame) -> int:
        self.offered += frame.cells
        self.average += (frame.queued_octets - self.average) / 8
        self.by_queue[frame.queue] += 1
        if frame.is_lossless or frame.group_cells < 20 or frame.free_cells * 2 > frame.group_cells:
            return self.ADMIT
        self.refused += 1
        return self.TRIM if frame.dscp in (10, 26) or frame.ecn else self.DROP

    def on_stamp(self, packet: StampedPacket) -> int:
        return max(1, packet.line_kbps - packet.queued_octets // 100 - int(self.average / 1000))

    def on_weight(self, frame: QueuedFrame) -> int:
        return 1 + min(99, self.by_queue[frame.queue] * frame.queued_frames // 100)

    def state(self) -> dict[str, float]:
        return {"offered": self.offered, "refused": self.refused, "average": self.average}


class Steered(WayRule):
    """A choice that reads all of a frame, and keeps a list."""

    def __init__(self, line: SwitchLine) -> None:
        super().__init__(line)
        self.frames = [0] * 16
        self.gone = 0

    def choose(self, frame: ForwardedFrame, ways: Sequence[WayLoad]) -> int:
        known = frame.source_port ^ frame.destination_port + frame.protocol + frame.queue_pair + frame.flow_label
        place = (known + frame.source // 3 + frame.destination + frame.group + frame.hash) % len(ways)
        for turn in range(len(ways)):
            if ways[place].is_there and ways[place].queued_octets < 50_000 + turn:
                break
            place = (place + 1) % len(ways)
        self.gone += not ways[place].is_there
        total = 0
        for way in ways:
            total += way.given_octets
        if total > 1_000_000 and frame.last >= 0 and frame.since_lab_ns < 1000:
            place = frame.last
        self.frames[place % 16] += frame.octets
        return place

    def state(self) -> dict[str, float]:
        return {"gone": self.gone, "first": self.frames[0]}


class Interpreted:
    """A rule as code, in the library of the kernel."""

    def __init__(self, library: Any, kind: type[Lowering], rule: Rule) -> None:
        self._library = library
        self.made = lower(kind, rule)
        self._program = struct_of(self.made.program)
        self._program.more = self.made.program.more
        assert library.xc_fits(ctypes.byref(self._program))
        self.frame = frame_of(self.made, rule)
        self._cells = (ctypes.c_char * len(self.frame)).from_buffer(self.frame)

    def tell_ways(self, more: Sequence[int], ways: Sequence[WayLoad]) -> None:
        rows = [[int(way[column]) for way in ways] + [0] * (MEMBERS - len(ways)) for column in range(3)]
        words = (ctypes.c_int64 * (3 * MEMBERS))(*(number for row in rows for number in row))
        numbers = (ctypes.c_int64 * len(more))(*more)
        self._library.xs_tell_ways(ctypes.byref(self._program), self._cells, numbers, words, len(ways))

    def asked(self, event: int, told: Sequence[int]) -> int:
        """Return the answer to what is told."""
        answer, stopped = ctypes.c_int64(), ctypes.c_uint32()
        numbers = (ctypes.c_int64 * len(told))(*(int(number) for number in told))
        fault = self._library.xs_told(
            ctypes.byref(self._program), event, self._cells, numbers, len(told), ctypes.byref(answer),
            ctypes.byref(stopped),
        )  # fmt: skip
        assert not fault, self.made.program.fault(fault, stopped.value)
        return answer.value

    def differences(self, rule: Rule) -> list[str]:
        """Return the names of state that differs from that of the class."""
        states = self.made.states.items()
        return [name for name, storage in states if value_of(storage, self.frame) != getattr(rule, name)]


def compare_ports(library: Any, kind: type[PortRule], events: int, seed: int) -> int:
    """Ask a class and its code of the same random frames; return how many answers were not the usual one."""
    rule, own, dice = kind(LINE), Interpreted(library, RuleLowering, kind(LINE)), random.Random(seed)
    now_lab_ns, others = 10**9, 0
    for _ in range(events):
        now_lab_ns += dice.choice((0, 1, 800_000, 50_000_000))
        queue, octets, ecn = dice.choice((3, 4)), dice.randrange(60, 4200), dice.randrange(4)
        waits = dice.choice((0, dice.randrange(200_000)))
        offered = OfferedFrame(
            now_lab_ns, queue, octets, ecn, waits, dice.choice((0, 10, 26, 46)), -(-octets // 80),
            dice.randrange(300), dice.randrange(200), dice.random() < 0.2,
        )  # fmt: skip
        stamped = StampedPacket(now_lab_ns, queue, octets, 10_000, waits)
        queued = QueuedFrame(now_lab_ns, queue, octets, ecn, waits, -(-waits // 1100))
        told: dict[str, OfferedFrame | StampedPacket | QueuedFrame] = {
            "on_admission": offered, "on_stamp": stamped, "on_weight": queued,
        }  # fmt: skip
        method = dice.choice([name for name in told if rule.has(name)])
        fields = [getattr(told[method], name) for name in type(told[method]).__dataclass_fields__]
        wanted = getattr(rule, method)(told[method])
        assert own.asked(METHODS.index(method), fields) == wanted, (method, told[method])
        assert not own.differences(rule), (own.differences(rule), method, told[method])
        others += wanted not in (0, 1, 10_000)
    return others


def compare_ways(library: Any, kind: type[WayRule], events: int, seed: int) -> int:
    """Ask a class and its code of the same random frames; return how often the way was not that of the hash."""
    rule, own, dice = kind(SWITCH), Interpreted(library, WayLowering, kind(SWITCH)), random.Random(seed)
    now_lab_ns, others = 10**9, 0
    for _ in range(events):
        now_lab_ns += dice.choice((0, 1, 800_000, 50_000_000))
        many = dice.choice((1, 2, 4, 16, MEMBERS))
        loads = (0, dice.randrange(100_000))
        ways = [WayLoad(dice.choice(loads), dice.choice(loads), dice.random() < 0.9) for _ in range(many)]
        frame = ForwardedFrame(
            now_lab_ns, dice.randrange(60, 4200), dice.getrandbits(32), dice.choice((0, 900, 10**7)),
            dice.randrange(-1, many), dice.getrandbits(16), dice.getrandbits(16), dice.choice((6, 17)),
            dice.getrandbits(24), dice.getrandbits(20), dice.getrandbits(32), dice.getrandbits(32), dice.randrange(9),
        )  # fmt: skip
        own.tell_ways([getattr(frame, name) for name in way_code.MORE], ways)
        wanted = rule.choose(frame, ways)
        fields = [getattr(frame, name) if name else many for name in way_code.FIXED]
        assert own.asked(0, fields) == wanted, (frame, ways)
        assert not own.differences(rule), (own.differences(rule), frame)
        others += wanted != frame.hash % many
    return others


@pytest.mark.parametrize("kind", [Everything, FairRate])
def test_what_a_port_decides_is_equal_bit_for_bit(library_file: Path, kind: type[PortRule]) -> None:
    assert compare_ports(ctypes.CDLL(str(library_file)), kind, 20_000, 3) > 1000


@pytest.mark.parametrize("kind", [Steered, SafeFlowlets])
def test_ways_that_are_chosen_are_equal_bit_for_bit(library_file: Path, kind: type[WayRule]) -> None:
    assert compare_ways(ctypes.CDLL(str(library_file)), kind, 20_000, 5) > 1000


@pytest.mark.long
@pytest.mark.parametrize("kind", [Everything, FairRate])
def test_what_a_port_decides_is_equal_in_half_a_million_events(library_file: Path, kind: type[PortRule]) -> None:
    assert compare_ports(ctypes.CDLL(str(library_file)), kind, 500_000, 11) > 10_000


def test_what_is_told_is_what_the_interface_says() -> None:
    for method, told in (("on_admission", OfferedFrame), ("on_stamp", StampedPacket)):
        assert rule_code._TOLD[method] == tuple(told.__dataclass_fields__)
    assert {*way_code.FIXED, *way_code.MORE} - {""} == ForwardedFrame.__dataclass_fields__.keys()
