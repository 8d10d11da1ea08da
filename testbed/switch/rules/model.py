"""A port whose queues a marking rule marks, as a model: frames go in with their times, and come out in their order.

The line sends one frame after the other, and takes the queues in turn. There are no pauses and no limits. It is the
reference for what qdisc red asks a rule, and a place for unit tests of a class.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from testbed.switch.rules.marking import MarkingRule, QueuedFrame
from testbed.units import Size

_OVERHEAD = 24
"""The octets of preamble, FCS and gap, which frames at queues are counted without."""
_CE, _NOT_ECT = 3, 0


@dataclass(frozen=True, slots=True)
class SentFrame:
    """A frame that has left the port."""

    arrived_lab_ns: int
    departed_lab_ns: int
    """The moment at which its first bit is on the line."""
    queue: int
    octets: int
    ecn: int
    """The ECN field with which it leaves."""


class MarkedPort:
    """The port."""

    def __init__(self, rule: MarkingRule) -> None:
        self.rule = rule
        self.sent: list[SentFrame] = []
        """The frames that have left, in their order."""
        self._queues: list[deque[SentFrame]] = [deque() for _ in range(8)]
        self._octets = [0] * 8
        self._turn = 0
        self._free_lab_ns = 0

    def queued_octets(self, queue: int) -> int:
        """Return the octets that wait in a queue."""
        return self._octets[queue]

    def arrive(self, now_lab_ns: int, queue: int, octets: int, ecn: int = 2) -> None:
        """Let a frame come to a queue at a moment, after all before it; it is ECT(0) if nothing else is given."""
        self.run(now_lab_ns)
        waiting = self._queues[queue]
        told = QueuedFrame(now_lab_ns, queue, octets, ecn, self._octets[queue], len(waiting))
        waiting.append(SentFrame(now_lab_ns, now_lab_ns, queue, octets, _marked(ecn, self.rule.on_arrival(told))))
        self._octets[queue] += octets
        self.run(now_lab_ns)

    def run(self, until_lab_ns: int) -> None:
        """Send what the line has time for until a moment."""
        while any(self._queues):
            queue = next(one % 8 for one in range(self._turn, self._turn + 8) if self._queues[one % 8])
            departs_lab_ns = max(self._free_lab_ns, self._queues[queue][0].arrived_lab_ns)
            if departs_lab_ns > until_lab_ns:
                return
            self._depart(queue, departs_lab_ns)

    def _depart(self, queue: int, now_lab_ns: int) -> None:
        frame = self._queues[queue].popleft()
        self._octets[queue] -= frame.octets
        waits, waited_lab_ns = self._octets[queue], now_lab_ns - frame.arrived_lab_ns
        told = QueuedFrame(now_lab_ns, queue, frame.octets, frame.ecn, waits, len(self._queues[queue]), waited_lab_ns)
        ecn = _marked(frame.ecn, self.rule.on_departure(told))
        self.sent.append(replace(frame, departed_lab_ns=now_lab_ns, ecn=ecn))
        self._turn = queue + 1
        self._free_lab_ns = now_lab_ns + self.rule.line.rate.time_for(Size.from_bytes(frame.octets + _OVERHEAD)).ns


def _marked(ecn: int, marks: bool) -> int:
    return _CE if marks and ecn != _NOT_ECT else ecn
