"""The two ends of a RoCE flow in their processes: what is posted, taken, counted and sampled."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from testbed.net.traffic.flow import Flow
from testbed.net.traffic.report import WINDOW_NS
from testbed.net.traffic.roce import Given, Roce, Taken
from testbed.roce import rates
from testbed.roce.memory import Content, Region, Sink
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.rates import Fixed, Maker
from testbed.roce.rates.base import NEVER
from testbed.roce.requester import Operation, Work

_UNDER_WAY = 2
KEY = struct.Struct("!I")
"""Private data of a reply: the key of the memory."""


def transport_of(flow: Flow) -> Roce:
    assert isinstance(flow.transport, Roce)
    return flow.transport


def maker_of_source(flow: Flow) -> Maker:
    """The rate control of a flow's source."""
    if flow.rate is not None:
        return lambda line: Fixed(line, flow.rate)
    return rates.maker_of(flow.rate_control or "fixed")


class Source:
    """The data of one flow at its source."""

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow, self.index = flow, index
        self.content = Content(index)
        self.pair: QueuePair | None = None
        self.samples: list[dict[str, Any]] = []
        sample = transport_of(flow).sample
        self.sample_ns = sample.ns if sample else 0
        self.next_sample_ns = NEVER
        self.end_ns = NEVER
        self.has_reported = False

    def begin(self, begin_ns: int) -> None:
        """When the flows begin."""
        if self.sample_ns:
            self.next_sample_ns = begin_ns
        if self.flow.duration is not None:
            self.end_ns = begin_ns + self.flow.start.ns + self.flow.duration.ns

    def given(self) -> Given:
        pair = self.pair
        if pair is None:
            return Given(failure="no connection was made")
        requester = pair.requester
        return Given(
            requester.retransmitted,
            requester.went_back,
            requester.timeouts,
            pair.cnps_received,
            pair.failure,
            tuple(self.samples),
        )

    def has_served(self, now_ns: int, may_send: bool) -> bool:
        """Has the target read all that it may?"""
        assert self.pair is not None
        if self.flow.size is not None and self.pair.sent_octets >= self.flow.size.bytes:
            return not self.pair.responder.has_response
        is_late = self.flow.duration is not None and now_ns >= self.end_ns
        return (is_late or not may_send) and not self.pair.responder.has_response

    def take_sample(self, now_ns: int) -> None:
        """The rate control's state at the moments of the interval that have passed."""
        while self.next_sample_ns <= now_ns:
            if self.pair is not None:
                self.pair.rate.on_deadline(self.next_sample_ns)
                state = self.pair.rate.state()
                self.samples.append({"t_ns": self.next_sample_ns, "sent": self.pair.sent_octets, **state})
            self.next_sample_ns += self.sample_ns


class Target:
    """The data of one flow at its target."""

    def __init__(self, flow: Flow, index: int) -> None:
        self.flow, self.index = flow, index
        self.sink = Sink()
        self.pair: QueuePair | None = None
        self.packets = self.frame_octets = 0
        self.ecn = [0] * 4
        self.first_ns = self.last_ns = 0
        self._window_end_ns = 0
        self.windows: list[int] = []

    def count(self, octets: int, ecn: int, at_ns: int) -> None:
        """A packet of data was taken."""
        self.packets += 1
        self.frame_octets += octets
        if at_ns >= self._window_end_ns:
            if not self.first_ns:
                self.first_ns = self._window_end_ns = at_ns
            while at_ns >= self._window_end_ns:
                self._window_end_ns += WINDOW_NS
                self.windows.append(0)
        self.windows[-1] += 1
        self.last_ns = at_ns
        self.ecn[ecn] += 1

    def taken(self) -> Taken:
        pair = self.pair
        if pair is None:
            return Taken(failure="no connection was made")
        octets = self.sink.received
        return Taken(
            self.packets,
            octets,
            self.frame_octets,
            self.sink.digest,
            Content(self.index).digest(octets),
            pair.responder.duplicates,
            pair.responder.out_of_order,
            tuple(self.ecn),
            self.first_ns,
            self.last_ns,
            tuple(self.windows),
            pair.cnps_sent,
            pair.failure,
        )


class Asker:
    """Posts the messages of one flow at the end that asks: the source, or the target of reads."""

    def __init__(
        self, flow: Flow, pair: QueuePair, local: Region, begin_ns: int, waits_for: Sequence[Target] = ()
    ) -> None:
        transport = transport_of(flow)
        self.flow, self.pair, self._local = flow, pair, local
        self._operation = Operation(transport.operation)
        self._message = transport.message.bytes
        self._waits_for, self._lag = waits_for, transport.lag
        self._begin_ns = begin_ns + flow.start.ns
        self._end_ns = self._begin_ns + flow.duration.ns if flow.duration else NEVER
        self._left = flow.size.bytes if flow.size else NEVER
        self._messages = flow.count if flow.count is not None else NEVER
        self._posted = 0
        self.is_over = False

    @property
    def deadline_ns(self) -> int:
        return NEVER if self._posted or self.is_over else self._begin_ns

    def post(self, now_ns: int, may_send: bool) -> None:
        """Keep two messages under way, until the flow has been sent."""
        pair = self.pair
        if pair.state is State.FAILED:
            self.is_over = True
            return
        if now_ns < self._begin_ns or pair.state is not State.READY:
            if not may_send:
                self.is_over = True
            return
        while pair.requester.outstanding < _UNDER_WAY and self._may_post():
            length = min(self._message, self._left)
            if not length or not self._messages or now_ns >= self._end_ns or not may_send:
                break
            (key,) = KEY.unpack_from(pair.reply.ljust(KEY.size, b"\0"))
            pair.post(Work(self._operation, self._local, length, self._posted, self._posted, key))
            self._posted += length
            self._left -= length
            self._messages -= 1
        # A flow that waits for others has more to send, unless all has been posted.
        waits = bool(self._left and self._messages and now_ns < self._end_ns and may_send and not self._may_post())
        self.is_over = pair.requester.idle and not waits
        pair.requester.take_completed()

    def _may_post(self) -> bool:
        """Has the next block come from every flow that this one waits for?"""
        needed = self._posted + (1 - self._lag) * self._message
        for target in self._waits_for:
            size = target.flow.size
            if target.sink.received < (needed if size is None else min(needed, size.bytes)):
                return False
        return True
