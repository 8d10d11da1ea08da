"""A rule that chooses among ways as code: its method, with the cells in which it finds the frame and the ways.

Runs in C: `testbed/lab/um/linux/xoff_control_vm.c`.
"""

from __future__ import annotations

from typing import ClassVar

from testbed.bytecode import code
from testbed.bytecode.lowering import Lowering
from testbed.bytecode.values import BOOL, INT, Num, Record, Refusal, Rows, Series, Value
from testbed.switch.rules.choosing import MOST_WAYS, ForwardedFrame, WayLoad, WayRule
from testbed.switch.rules.rule_code import ANSWER, NOW, RuleCode, made_of

FIXED = (
    "now_lab_ns", "octets", "hash", "since_lab_ns", "last", "", "source_port", "destination_port", "protocol",
    "queue_pair", "flow_label",
)  # fmt: skip
"""The facts about a frame that a rule is given, in cells from NOW on; the one without a name has the number of ways."""
MORE = ("source", "destination", "group")
"""The other facts that a rule is given, in cells of which the program says where they are."""
_WAYS = Rows((INT, INT, BOOL), WayLoad, MOST_WAYS, varies=True)


class WayLowering(Lowering):
    """The lowering of rules that choose."""

    control: WayRule
    kind = "rule"
    methods: ClassVar = ("choose",)
    inputs = range(NOW, code.FIRST)

    def _arrays(self) -> int:
        self.more = self._new(len(MORE) + len(_WAYS.kinds) * MOST_WAYS)
        self.given.add(self.more + len(MORE))
        return 0

    def _is_told(self, name: str) -> bool:
        return True

    def _event(self, name: str) -> None:
        fields = {field: Num(NOW + place, INT) for place, field in enumerate(FIXED)}
        many = fields.pop("")
        fields |= {field: Num(self.more + place, INT) for place, field in enumerate(MORE)}
        assert fields.keys() == ForwardedFrame.__dataclass_fields__.keys()
        ways: Value = Series(self.more + len(MORE), _WAYS, many)
        answer = self._method(name, [Record(dict(fields), "a frame"), ways])
        self._move(Num(ANSWER, INT), self._number(answer, INT))
        self._emit("RET")


def code_of(rule: WayRule) -> RuleCode | Refusal:
    """Return a rule as code, or what cannot be lowered and where."""
    return made_of(WayLowering, rule)
