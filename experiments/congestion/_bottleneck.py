"""A packet-level model of one bottleneck in pure Python, which the lab is compared with. Not an experiment.

Sources with a rate control send full packets, one after the other at their present rates, into one queue. It marks a
packet by the ECN curve at the length that it finds, and sends at line rate. A marked packet is answered by a CNP, at
most one for a flow in `cnp_ns`, which is at its source after `feedback_ns`. There is no loss, no PFC, no host, and the
only thing shared with the lab is the rate control itself, which has unit tests of its own. As it computes with the
lab's rates and times, so does all of the model.
"""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.roce import rates
from testbed.roce.rates import Maker
from xoff import EcnCurve, Line, RateControl

NEVER = 1 << 62


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck, and the settings that are the same for all flows."""

    line: Line
    curve: EcnCurve | None
    rate_control: str | Maker = "dcqcn"
    wire_octets: int = 1106
    """A full packet of 1024 octets on the wire."""
    queue_octets: int = 1082
    """The same packet as the queue counts it."""
    cnp_ns: int = 50_000_000
    feedback_ns: int = 200_000
    seed: int = 0


@dataclass
class FlowResult:
    """The packets and notifications of one flow."""

    windows: list[int] = field(default_factory=list)
    """Packets that left the queue in each window."""
    cnps: int = 0


@dataclass
class Result:
    flows: list[FlowResult]
    longest_queue: int
    """The longest queue, in octets."""

    def rates_bps(self, wire_octets: int, window_ns: int) -> list[list[float]]:
        """Return the rate of each flow on the wire in each window."""
        return [[n * wire_octets * 8e9 / window_ns for n in flow.windows] for flow in self.flows]


class _Source:
    def __init__(self, control: RateControl, start_ns: int, stop_ns: int) -> None:
        self.control = control
        self.next_ns = start_ns
        self.stop_ns = stop_ns
        self.last_cnp_ns = -NEVER


def simulate(
    model: Bottleneck, starts_ns: Sequence[int], lasts_ns: int, window_ns: int, stops_ns: Sequence[int] = ()
) -> Result:
    """Run the model from 0 to `lasts_ns`, and return what came of each flow."""
    stops = list(stops_ns) or [NEVER] * len(starts_ns)
    sources = [
        _Source(rates.control(model.rate_control, model.line), start, stop)
        for start, stop in zip(starts_ns, stops, strict=True)
    ]
    dice = random.Random(model.seed)
    found = [FlowResult([0] * -(-lasts_ns // window_ns)) for _ in sources]
    service_ns = model.wire_octets * 8 * 10**9 / model.line.rate.bps
    queue: deque[tuple[int, bool, int]] = deque()
    notifications: list[tuple[int, int]] = []
    free_ns = 0.0
    longest = 0
    while True:
        send_ns = min(source.next_ns for source in sources)
        leave_ns = max(int(free_ns), queue[0][2]) if queue else NEVER
        cnp_ns = notifications[0][0] if notifications else NEVER
        control_ns = min(source.control.deadline_lab_ns for source in sources)
        now_ns = min(send_ns, leave_ns, cnp_ns, control_ns)
        if now_ns >= lasts_ns:
            return Result(found, longest)
        if control_ns == now_ns:
            for source in sources:
                if source.control.deadline_lab_ns <= now_ns:
                    source.control.on_deadline(now_ns)
        elif cnp_ns == now_ns:
            _, index = heapq.heappop(notifications)
            sources[index].control.on_cnp(now_ns)
        elif leave_ns == now_ns:
            index, is_marked, came_ns = queue.popleft()
            found[index].windows[now_ns // window_ns] += 1
            free_ns = max(free_ns, came_ns) + service_ns
            if is_marked and now_ns - sources[index].last_cnp_ns >= model.cnp_ns:
                sources[index].last_cnp_ns = now_ns
                found[index].cnps += 1
                heapq.heappush(notifications, (now_ns + model.feedback_ns, index))
        else:
            index = next(i for i, source in enumerate(sources) if source.next_ns == now_ns)
            source = sources[index]
            # A packet that is being sent has left the queue.
            waiting = len(queue) * model.queue_octets
            chance = model.curve.fraction(waiting) if model.curve else 0
            queue.append((index, chance > 0 and dice.random() < chance, now_ns))
            longest = max(longest, waiting + model.queue_octets)
            source.next_ns = now_ns + int(model.wire_octets * 8_000_000_000 / source.control.rate_lab_bps)
            source.control.on_sent(now_ns, model.wire_octets)
            if source.next_ns >= source.stop_ns:
                source.next_ns = NEVER
