"""The times at which packets of a queue pair were sent, for rate controls that count acknowledgements."""

from __future__ import annotations

from collections import deque

from testbed.frames.roce import Packet
from testbed.roce.rates.base import Acknowledgement
from testbed.roce.requester import Requester


class Acknowledged:
    """The packets under way that were sent once: a packet that was sent twice has no round trip (Karn)."""

    def __init__(self) -> None:
        self._sent: deque[tuple[int, int]] = deque()  # number and moment, in the order of numbers
        self._highest = -1

    def sent(self, number: int, now_ns: int) -> None:
        """A packet was sent, for the first time or again."""
        while self._sent and self._sent[-1][0] >= number:
            self._sent.pop()
        if number > self._highest:
            self._sent.append((number, now_ns))
            self._highest = number

    def told(self, requester: Requester, before: int, packet: Packet, now_ns: int) -> Acknowledgement:
        """Return what an acknowledgement has brought; `before` is the oldest packet under way until then."""
        until, newest = requester.oldest, None
        while self._sent and self._sent[0][0] < until:
            newest = self._sent.popleft()
        is_known = newest is not None and newest[0] == until - 1
        return Acknowledgement(
            until - before,
            until,
            requester.next,
            now_ns - newest[1] if newest is not None and is_known else None,
            packet.telemetry.stamps if packet.telemetry is not None else (),
        )
