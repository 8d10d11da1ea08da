"""A rule of a port as code: its methods, with the cells in which they find what they are asked of.

Runs in C: `testbed/lab/um/linux/xoff_control_vm.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bytecode import code
from testbed.bytecode.code import NO_ENTRY, Program
from testbed.bytecode.lowering import Lowering
from testbed.bytecode.sharing import frame_of, lowered_of
from testbed.bytecode.values import BOOL, INT, Num, Record, Refusal, Value
from testbed.switch.rules.marking import MarkingRule, QueuedFrame, Rule

METHODS = ("on_arrival", "on_departure", "on_admission", "on_stamp", "on_weight")
"""The methods that are entries of a program, in the order of their numbers."""
_MARKS = METHODS[:2]
_ASKED = (
    "that arrives",
    "that departs",
    "that is to be admitted",
    "that is stamped",
    "at whose queue a weight is asked",
)
"""The frame of which each method is asked, in words."""
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
_TOLD = {
    "on_admission": (
        *("now_lab_ns", "queue", "octets", "ecn", "queued_octets"),
        *("dscp", "cells", "group_cells", "free_cells", "is_lossless"),
    ),
    "on_stamp": ("now_lab_ns", "queue", "octets", "line_kbps", "queued_octets"),
}
"""The facts about a frame that the port program gives a rule, in the order of the cells from NOW on."""
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
        methods = self.program.methods
        asked = _ASKED if methods == METHODS else ("that has several ways",)
        counts = {
            words: _reached(self.program, entry)
            for words, entry in zip(asked, self.program.entries, strict=False)
            if entry != NO_ENTRY
        }
        return " and ".join(f"{count} instructions for a frame {words}" for words, count in counts.items())


class RuleLowering(Lowering):
    """The lowering of rules of ports."""

    control: MarkingRule
    kind = "rule"
    methods = METHODS
    inputs = range(NOW, code.FIRST)

    def _is_told(self, name: str) -> bool:
        return self.control.has(name)

    def _event(self, name: str) -> None:
        assert _FIELDS.keys() == QueuedFrame.__dataclass_fields__.keys()
        if name in _TOLD:
            kinds = {"is_lossless": BOOL}
            told = {field: Num(NOW + place, kinds.get(field, INT)) for place, field in enumerate(_TOLD[name])}
            self._answer(self._method(name, [Record(dict(told), "a frame")]))
            return
        frame: Value = Record({field: Num(cell, INT) for field, cell in _FIELDS.items()}, "a frame at a queue")
        answer = self._method(name, [frame])
        if name not in _MARKS:
            self._answer(answer)
            return
        is_bool = isinstance(answer, Num) and answer.kind == BOOL
        self._move(Num(ANSWER, BOOL), answer if is_bool else self._truth_of(answer))
        self._emit("RET")

    def _answer(self, answer: Value) -> None:
        self._move(Num(ANSWER, INT), self._number(answer, INT))
        self._emit("RET")


def code_of(rule: MarkingRule) -> RuleCode | Refusal:
    """Return a rule as code, or what cannot be lowered and where."""
    return made_of(RuleLowering, rule)


def made_of(kind: type[Lowering], rule: Rule) -> RuleCode | Refusal:
    """Return a rule as code by the lowering of its kind, or what cannot be lowered and where."""
    made = lowered_of(kind, rule)
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
