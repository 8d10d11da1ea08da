"""The interface of marking rules: classes that decide which frames of a port's queues are marked. What all rules of
switches have in common is here too.

On `um` qdisc red asks the rule's code of each frame (`testbed.switch.rules.rule_code`), in place of its curve. The
class itself runs in unit tests, alone or at the port of `testbed.switch.rules.model`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from testbed.bytecode import sources
from testbed.errors import UsageError
from testbed.units import Line

_WORD = 0xFFFF_FFFF


class RuleError(UsageError):
    """A rule that cannot be used where it is given."""


@dataclass(frozen=True)
class PortLine(Line):
    """The line of a switch's port, as a rule knows it."""

    port: str = ""
    """The port's name, as in s1-eth2."""
    seed: int = 1
    """The seed of the run."""


@dataclass(frozen=True, slots=True)
class QueuedFrame:
    """A frame at a queue, and what waits there beside it. Times are those of the lab."""

    now_lab_ns: int
    """The moment by the lab's clock, which never goes backwards."""
    queue: int
    """The queue's number, which is the frame's local priority."""
    octets: int
    """The octets of the frame from its destination address on, without FCS."""
    ecn: int
    """The ECN field: 0 is Not-ECT, 1 is ECT(1), 2 is ECT(0), 3 is CE."""
    queued_octets: int
    """The octets that wait in the queue, this frame not counted."""
    queued_frames: int
    """The frames that wait in the queue, this frame not counted."""
    waited_lab_ns: int = 0
    """The time that the frame has waited in the queue, when it departs."""


class Rule:
    """A rule of one's own in a switch."""

    is_interface: ClassVar = True
    """True in a class that says which methods there are, and has none of a rule's own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        sources.keep(getattr(sys.modules.get(cls.__module__), "__file__", None))

    def _draw_from(self, seed: int, name: str) -> None:
        self._random = zlib.crc32(f"{seed} {name}".encode()) or 1

    def state(self) -> dict[str, float]:
        """Return at most eight numbers, by name, that the network's `fabric` shows."""
        return {}

    def chance(self) -> float:
        """Return the next random number of this port or switch, evenly from 0 to 1 and below it."""
        word = self._random
        word ^= word << 13 & _WORD
        word ^= word >> 17
        word ^= word << 5 & _WORD
        self._random = word
        return word / (_WORD + 1)

    def has(self, method: str) -> bool:
        """Return True if the rule has a method of its own, and not the one of the interface."""
        owner = next((kind for kind in type(self).__mro__ if method in vars(kind)), Rule)
        return "is_interface" not in vars(owner)


class MarkingRule(Rule):
    """A rule that decides which frames are marked in the queues of a port. An object of it serves one port.

    What a method assigns to `self` stays from frame to frame, and is the same for all queues of the port. A rule can
    mark frames, and nothing else: it drops, delays and reorders none. Frames that are not ECN-capable stay as they are.
    """

    is_interface: ClassVar = True

    def __init__(self, line: PortLine) -> None:
        self.line = line
        self._draw_from(line.seed, line.port)

    def on_arrival(self, frame: QueuedFrame) -> bool:
        """Return True to mark a frame that comes to its queue."""
        return False

    def on_departure(self, frame: QueuedFrame) -> bool:
        """Return True to mark a frame that leaves its queue for the line."""
        return False


sources.keep(__file__)

BESIDE_MARKS = ("on_admission", "on_stamp", "on_weight")
"""The methods that a PortRule has beside those of a marking rule."""
RuleMaker = Callable[[PortLine], MarkingRule]


@dataclass(frozen=True)
class Marking:
    """The rule of a port, and the queues whose frames it is asked of."""

    rule: RuleMaker
    """A subclass of MarkingRule or PortRule, or a function that makes a rule of a PortLine."""
    queues: frozenset[int]
    hooks: bool = False
    """True if the rule may have the methods of a PortRule, too."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", frozenset(self.queues))
        if not callable(self.rule):
            raise RuleError(
                f"the marking rule is {self.rule!r}; give a subclass of MarkingRule, or a function of a PortLine"
            )

    def made(self, line: PortLine) -> MarkingRule:
        """Return the rule of a port."""
        made = self.rule(line)
        if not isinstance(made, MarkingRule):
            raise RuleError(f"{line.port}: {self.rule!r} makes {made!r}; a marking rule is a subclass of MarkingRule")
        if not self.hooks and (beside := [name for name in BESIDE_MARKS if made.has(name)]):
            raise RuleError(
                f"{line.port}: {type(made).__name__} has {beside[0]}(), which a rule that marks is not asked; write "
                f"with_rule({type(made).__name__}) in place of with_marking()"
            )
        return made
