"""A whole cable with Link Layer Retry: two ends and two lines, as the kernel has them in one place.

What happens at one moment happens in an order: what arrives before what is due, the first end before the other.

Runs in C: testbed/lab/um/linux/xoff_line_rules.h.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testbed.subjects.link.llr.end import Carried, End, EndSettings, Frame
from testbed.subjects.link.llr.line import Line, LineSettings
from testbed.switch.link.jam import LineFate


@dataclass
class Outcome:
    """The outcome of the frames of one direction."""

    passed: list[tuple[int, Any]]
    """Those that were passed on, with the moments."""
    lost: list[Any]
    """Those that were not and never will be."""


class Cable:
    """Two ends with a line each; the first has frames for the second, and the other way round."""

    def __init__(self, lines: Sequence[LineSettings], ends: Sequence[EndSettings | None]) -> None:
        self.now_ns = 0
        self.outcomes = [Outcome([], []), Outcome([], [])]
        self._wires: list[deque[Carried]] = [deque(), deque()]
        self.ends = [End(Line(line), settings, self) for line, settings in zip(lines, ends, strict=True)]
        for end in self.ends:
            if end.settings and end.settings.sends:
                end.start(0)

    # What ends do

    def carry(self, end: End, carried: Carried) -> None:
        frame = carried.frame
        if frame is not None and carried.fate in (LineFate.CAME, LineFate.POISONED):
            frame.flying += 1
        elif carried.fate is not LineFate.CAME and (
            frame is None or frame.sequence is None or carried.fate is LineFate.LOST
        ):
            if frame is not None and frame.sequence is None:
                self.give_up(end, frame)
            return
        wire = self._wires[self.ends.index(end)]
        place = len(wire)
        while place and wire[place - 1].at_ns > carried.at_ns:
            place -= 1
        wire.insert(place, carried)

    def give_up(self, end: End, frame: Frame) -> None:
        frame.is_given_up = True
        self._settle(self.ends.index(end), frame)

    def _settle(self, number: int, frame: Frame) -> None:
        """Note a frame as lost if it was not passed on, and comes no more."""
        if frame.is_given_up and not frame.flying and not frame.is_settled:
            frame.is_settled = True
            self.outcomes[number].lost.append(frame.content)

    # Time

    def offer(self, number: int, content: Any, length: int, now_ns: int, eligible: bool = True) -> None:
        """Give an end a frame of its port, of so many octets without FCS."""
        self.advance(now_ns)
        self.ends[number].offer(Frame(content, length), now_ns, eligible)

    def change(self, number: int, settings: EndSettings | None, now_ns: int) -> None:
        """Give an end other settings, as management does."""
        self.advance(now_ns)
        self.ends[number].change(settings, now_ns)

    def advance(self, until_ns: int) -> None:
        """Let happen what is due until a moment."""
        while True:
            due_ns = [end.deadline_ns for end in self.ends]
            at_ns = min([*(wire[0].at_ns for wire in self._wires if wire), *due_ns])
            if at_ns > until_ns:
                break
            self.now_ns = max(at_ns, self.now_ns)
            self._step(due_ns)
        self.now_ns = until_ns

    def _step(self, due_ns: Sequence[int]) -> None:
        """Let one thing happen now, of what arrives and of what the ends have due."""
        for number, wire in enumerate(self._wires):
            if wire and wire[0].at_ns <= self.now_ns:
                self._arrive(number, wire.popleft())
                return
        for end, end_due_ns in zip(self.ends, due_ns, strict=True):
            if end_due_ns <= self.now_ns:
                end.poll(self.now_ns)
                return

    def _arrive(self, number: int, carried: Carried) -> None:
        receiver, frame = self.ends[number ^ 1], carried.frame
        if frame is None:
            receiver.receive_set(carried.what, carried.sequence, carried.data, self.now_ns)
            return
        frame.flying -= carried.fate is not LineFate.DAMAGED
        if frame.sequence is not None and not receiver.receive_frame(frame.sequence, carried.fate, self.now_ns):
            self._settle(number, frame)
        elif carried.fate is LineFate.POISONED:
            frame.is_given_up = True
            self._settle(number, frame)
        else:
            frame.is_settled = True
            self.outcomes[number].passed.append((self.now_ns, frame.content))
