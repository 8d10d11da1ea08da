"""Measure what rules of one's own cost: the kernel's interpreter, asked of many frames in a program of its own.

    python bench/marking.py [--times 10000000] [--rounds 3]

It takes a C compiler. A frame and hop of a lab's network takes some 3 us of CPU beside it.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments.switch_rules.l4s_dual_queue import Coupled
from experiments.switch_rules.rocc_fair_rate import FairRate
from experiments.switch_rules.safe_flowlets import SafeFlowlets
from testbed.bytecode.code import NO_ENTRY
from testbed.bytecode.values import Refusal
from testbed.switch.rules import way_code
from testbed.switch.rules.choosing import SwitchLine, WayRule
from testbed.switch.rules.hooks import OfferedFrame, PortRule
from testbed.switch.rules.marking import MarkingRule, PortLine, QueuedFrame
from testbed.switch.rules.rule_code import METHODS, RuleCode, code_of
from testbed.units import Rate, Scale

ROOT = Path(__file__).parents[1]
LINE = PortLine(Rate("10Mb/s"), Scale(1000), "s1-eth3", 1)


class Step(MarkingRule):
    """A step."""

    def on_arrival(self, frame: QueuedFrame) -> bool:
        return frame.queued_octets >= 40_000


class Average(MarkingRule):
    """The length of the queue on average and a random number, and what frames have waited on average."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.average = self.waited = 0.0

    def on_arrival(self, frame: QueuedFrame) -> bool:
        self.average += (frame.queued_octets - self.average) / 512
        return self.chance() * 120_000 < self.average - 40_000

    def on_departure(self, frame: QueuedFrame) -> bool:
        self.waited += (frame.waited_lab_ns - self.waited) / 512
        return False


class Short(PortRule):
    """A limit of a queue, with a count, and a weight by the queue's length."""

    def __init__(self, line: PortLine) -> None:
        super().__init__(line)
        self.refused = 0

    def on_admission(self, frame: OfferedFrame) -> int:
        if frame.is_lossless or frame.queued_octets < 40_000:
            return self.ADMIT
        self.refused += 1
        return self.TRIM

    def on_weight(self, frame: QueuedFrame) -> int:
        return 1 + min(8, frame.queued_octets // 10_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        loop = Path(folder) / "loop"
        sources = ROOT / "testbed/lab/um/linux"
        words = [
            "gcc",
            "-O2",
            "-ffp-contract=off",
            f"-I{sources}",
            "-o",
            str(loop),
            str(ROOT / "bench/jobs/marking_loop.c"),
        ]
        subprocess.run(words, check=True)
        for kind in (Step, Coupled, Average, Short, FairRate, SafeFlowlets):
            code = _code(kind)
            assert isinstance(code, RuleCode), code
            program = code.program
            head = struct.pack("=III7I", len(program.instructions), program.cells, program.more, *program.entries)
            given = head + program.octets + code.frame
            for event, method in enumerate(program.methods):
                if program.entries[event] == NO_ENTRY:
                    continue
                way = "ways" if program.methods != METHODS else "told" if event in (2, 3) else "asked"
                command = [str(loop), str(options.times), str(event), way]
                lines = [
                    subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True)
                    for _ in range(options.rounds)
                ]
                ns = min(float(one.stdout.split()[0]) for one in lines)
                print(f"{kind.__name__}.{method}: {ns:.1f} ns a frame")
    return 0


def _code(kind: type[MarkingRule] | type[WayRule]) -> RuleCode | Refusal:
    if issubclass(kind, WayRule):
        return way_code.code_of(kind(SwitchLine(LINE.rate, LINE.scale, "leaf1", 1)))
    return code_of(kind(LINE))


if __name__ == "__main__":
    sys.exit(main())
