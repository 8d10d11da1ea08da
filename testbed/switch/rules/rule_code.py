"""A marking rule as code: its two methods, with the cells in which they find what they are asked of.

Runs in C: `testbed/lab/um/linux/xoff_control_vm.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bytecode import code
from testbed.bytecode.code import NO_ENTRY, Program
from testbed.bytecode.lowering import Lowering
from testbed.bytecode.sharing import frame_of, lowered_of
from testbed.bytecode.values import BOOL, INT, Num, Record, Refusal, Value
from testbed.switch.rules.marking import MarkingRule, QueuedFrame

METHODS = ("on_arrival", "on_departure")
"""The methods that are entries of a program, in the order of their numbers."""
ANSWER, NOW, QUEUE, OCTETS, ECN, QUEUED_OCTETS, QUEUED_FRAMES, WAITED = range(8)
"""The fixed cells: what a rule answers, then what it is told of a frame."""
_FIELDS = {
    "now_lab_ns": NOW,
    "queue": QUEUE,
    "octets": OCTETS,
    "ecn": ECN,
    "queued_octets": QUEUED_OCTETS,
    "queued_frames": QUEUED_FRAMES,
    "waited_lab_ns": WAITED,
}
MOST_OCTETS = 60_000
"""The octets of code and state that fit into a message to the kernel."""
_INSTRUCTION, _CELL = 8, 8


@dataclass(frozen=True)
class RuleCode:
    """A rule as code: the program of its class, and its own frame at the start."""

    name: str
    program: Program
    frame: bytes

    @property
    def cost(self) -> str:
        """The instructions that a frame takes at most, where no loop repeats them."""
        counts = {
            method: _reached(self.program, entry)
            for method, entry in zip(METHODS, self.program.entries, strict=False)
            if entry != NO_ENTRY
        }
        return " and ".join(
            f"{count} instructions for a frame that {'arrives' if method == METHODS[0] else 'departs'}"
            for method, count in counts.items()
        )


class RuleLowering(Lowering):
    """The lowering of marking rules."""

    control: MarkingRule
    kind = "marking rule"
    methods = METHODS
    inputs = range(NOW, code.FIRST)

    def _is_told(self, name: str) -> bool:
        return getattr(type(self.control), name) is not getattr(MarkingRule, name)

    def _event(self, name: str) -> None:
        assert _FIELDS.keys() == QueuedFrame.__dataclass_fields__.keys()
        frame: Value = Record({field: Num(cell, INT) for field, cell in _FIELDS.items()}, "a frame at a queue")
        answer = self._method(name, [frame])
        is_bool = isinstance(answer, Num) and answer.kind == BOOL
        self._move(Num(ANSWER, BOOL), answer if is_bool else self._truth_of(answer))
        self._emit("RET")


def code_of(rule: MarkingRule) -> RuleCode | Refusal:
    """Return a rule as code, or what cannot be lowered and where."""
    made = lowered_of(RuleLowering, rule)
    if isinstance(made, Refusal):
        return made
    size = _INSTRUCTION * len(made.program.instructions) + _CELL * made.program.cells
    if size > MOST_OCTETS:
        return Refusal(f"{size} octets of code and state; a rule has at most {MOST_OCTETS}")
    return RuleCode(type(rule).__name__, made.program, bytes(frame_of(made, rule)))


def _reached(program: Program, entry: int) -> int:
    """Return how many instructions the longest way from an entry to its end has, without going back."""
    longest: dict[int, int] = {}
    last = next(at for at in range(entry, len(program.instructions)) if program.instructions[at].operation == "RET")
    for at in range(last, entry - 1, -1):
        one = program.instructions[at]
        after = [] if one.operation in ("RET", "FAIL") else [at + 1]
        if code.FORMS[one.operation][0] == "t":
            after = [one.dst] if one.operation == "JMP" else [at + 1, one.dst]
        longest[at] = 1 + max((longest.get(target, 0) for target in after), default=0)
    return longest[entry]
