"""A packet-level model of one bottleneck for rate controls with a window, in pure Python. Not an experiment.

Sources with a window and a pace send full packets. A packet is `before_ns` on its way to the queue, which is served at
line rate. From the moment at which the line begins with it, as in the lab, it takes `behind_ns` until its
acknowledgement is at the source. The queue writes what a port with telemetry writes, when the packet comes. There is no
loss, no PFC and no host, and the only thing shared with the lab is the rate control itself, which has unit tests of its
own. As it computes with the lab's rates and times, so does all of the model.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.roce import rates
from testbed.roce.rates import Maker
from xoff import Acknowledgement, Line, RateControl, Stamp

_SEND, _COME, _LEAVE, _ACKNOWLEDGED = range(4)


@dataclass(frozen=True)
class Queue:
    """The bottleneck, and the settings that are the same for all flows."""

    line: Line
    rate_control: str | Maker
    before_ns: int
    behind_ns: int
    wire_octets: int = 1106
    """A full packet on the wire."""
    frame_octets: int = 1082
    """The same packet as a port counts it."""


@dataclass
class Flow:
    """One source, and what has become of its packets."""

    control: RateControl
    windows: list[int]
    """Packets that left the queue in each window."""
    sent_ns: deque[int] = field(default_factory=deque)
    """The moments at which the packets under way were sent."""
    first: int = 0
    """The packets that were acknowledged."""
    next_ns: int = 0
    is_waiting: bool = False

    @property
    def next(self) -> int:
        return self.first + len(self.sent_ns)

    @property
    def may_send(self) -> bool:
        return self.control.window is None or len(self.sent_ns) < self.control.window


@dataclass
class Found:
    """The outcome of all flows."""

    flows: list[Flow]
    longest_queue: int
    """The longest queue, in octets of frames."""
    queues: list[int]
    """The longest queue in each window."""


def simulate(model: Queue, starts_ns: Sequence[int], lasts_ns: int, window_ns: int) -> Found:
    """Run the model from 0 to `lasts_ns`, and return what came of each flow."""
    windows = -(-lasts_ns // window_ns)
    flows = [Flow(rates.control(model.rate_control, model.line), [0] * windows) for _ in starts_ns]
    service_ns = model.wire_octets * 8 * 10**9 // model.line.rate.bps
    events: list[tuple[int, int, int, int, tuple[Stamp, ...]]] = []
    count = 0

    def at(time_ns: int, what: int, flow: int, stamps: tuple[Stamp, ...] = ()) -> None:
        nonlocal count
        count += 1
        heapq.heappush(events, (time_ns, count, what, flow, stamps))

    for number, start_ns in enumerate(starts_ns):
        at(start_ns, _SEND, number)
    queue: deque[tuple[int, tuple[Stamp, ...]]] = deque()
    is_busy, sent_octets, longest, queues = False, 0, 0, [0] * windows

    def serve(now_ns: int) -> None:
        nonlocal is_busy, sent_octets
        is_busy = bool(queue)
        if queue:
            sent_octets += model.frame_octets  # a packet that is being sent has left the queue
            number, stamps = queue.popleft()
            flows[number].windows[now_ns // window_ns] += 1
            at(now_ns + model.behind_ns, _ACKNOWLEDGED, number, stamps)
            at(now_ns + service_ns, _LEAVE, number)

    while events and events[0][0] < lasts_ns:
        now_ns, _, what, number, stamps = heapq.heappop(events)
        flow = flows[number]
        if what == _SEND:
            flow.is_waiting = not flow.may_send
            if flow.may_send:
                flow.sent_ns.append(now_ns)
                flow.control.on_sent(now_ns, model.wire_octets)
                at(now_ns + model.before_ns, _COME, number)
                flow.next_ns = now_ns + int(model.wire_octets * 8_000_000_000 / flow.control.rate_lab_bps)
                at(flow.next_ns, _SEND, number)
        elif what == _COME:
            waiting = len(queue) * model.frame_octets
            longest = max(longest, waiting)
            queues[now_ns // window_ns] = max(queues[now_ns // window_ns], waiting)
            queue.append((number, (Stamp(now_ns, waiting, sent_octets, model.line.rate.bps // 1000),)))
            if not is_busy:
                serve(now_ns)
        elif what == _LEAVE:
            serve(now_ns)
        else:
            round_trip_ns = now_ns - flow.sent_ns.popleft()
            flow.first += 1
            flow.control.on_acknowledged(now_ns, Acknowledgement(1, flow.first, flow.next, round_trip_ns, stamps))
            if flow.is_waiting and flow.may_send:
                flow.is_waiting = False
                at(max(now_ns, flow.next_ns), _SEND, number)
    return Found(flows, longest, queues)
