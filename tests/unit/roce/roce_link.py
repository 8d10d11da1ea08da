"""Two RoCE endpoints and a network between them that delays, loses, doubles, reorders and marks as it is asked to."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed.frames.roce import Service
from testbed.roce.endpoint import DatagramKind, Endpoint, Outgoing
from testbed.roce.memory import Region
from testbed.roce.nic import PLAIN, NicTiming
from testbed.roce.queue_pair import QueuePair
from testbed.roce.rates import Fixed
from testbed.roce.rates.base import Maker, RateControl
from testbed.roce.settings import Settings
from testbed.roce.work import Operation
from testbed.units import Duration, Line, Rate, Scale

A, B = "10.0.0.1", "10.0.0.2"
PORT = 5000
LINE = Line(Rate("100Mb/s"), Scale(1000))
SETTINGS = Settings(mtu=256, ack_every=4, window=64, retransmit_after=Duration("1ms"))
ECT_0, CE = 0b10, 0b11
MOVES = (Operation.WRITE, Operation.READ, Operation.SEND)
"""The operations that move octets."""


@dataclass
class Network:
    """The probabilities of a datagram's fates, and the time that one takes."""

    seed: int = 0
    delay_ns: int = 10_000
    loss: float = 0.0
    doubling: float = 0.0
    reordering: float = 0.0
    marks: Callable[[int], bool] = lambda now_ns: False
    lose: Callable[[Outgoing], bool] = lambda outgoing: False
    delivered: list[tuple[int, Outgoing]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)


def paced(line: Line) -> RateControl:
    """Half of the line, so that each packet is sent at its own time."""
    return Fixed(line, line.rate // 2)


class Link:
    """Both endpoints, and the time."""

    def __init__(
        self,
        network: Network | None = None,
        settings: Settings = SETTINGS,
        rate_control: str | Maker = "fixed",
        answer: Callable[[QueuePair], bytes | None] = lambda pair: b"",
        nic: NicTiming = PLAIN,
        *,
        ends: tuple[str, str] = (A, B),
        service: Service = Service.RC,
    ) -> None:
        self.network = network or Network()
        self.now_ns = 0
        self.a, self.b = (Endpoint((one, other), LINE, settings) for one, other in zip(ends, (A, B), strict=True))
        self._flying: list[tuple[int, int, Outgoing, int]] = []
        self._count = 0
        self.far: QueuePair | None = None

        def on_request(request: object, pair: QueuePair) -> bytes | None:
            self.far = pair
            return answer(pair)

        self.b.listen(PORT, on_request, nic=nic, service=service)
        self.near = self.a.connect(
            ends[1], PORT, 0, rate_control=rate_control, private=b"hello", nic=nic, service=service
        )

    def memory(self, region: Region) -> int:
        return self.b.register(region)

    def until(self, done: Callable[[], bool], most_ns: int = 200 * 10**9) -> None:
        """Run until something has come about; AssertionError if it does not."""
        end_ns = self.now_ns + most_ns
        while not done():
            assert self.now_ns < end_ns, "it has not come about"
            if not self.step():
                break
        assert done(), "nothing happens any more, and it has not come about"

    def run(self, for_ns: int) -> None:
        end_ns = self.now_ns + for_ns
        while self._next_ns() <= end_ns:
            self.step()
        self.now_ns = end_ns

    def step(self) -> bool:
        """Carry out the next event; return False if there is none."""
        next_ns = self._next_ns()
        if next_ns >= 1 << 62:
            return False
        self.now_ns = max(self.now_ns, next_ns)
        for end in (self.a, self.b):
            for outgoing in end.outgoing(self.now_ns, 1):
                self._send(outgoing)
        while self._flying and self._flying[0][0] <= self.now_ns:
            _, _, outgoing, ecn = heapq.heappop(self._flying)
            self.network.delivered.append((self.now_ns, outgoing))
            (self.b if outgoing.to in self.b.addresses else self.a).receive(outgoing.datagram, ecn, self.now_ns)
        return True

    def _next_ns(self) -> int:
        flying_ns = self._flying[0][0] if self._flying else 1 << 62
        return min(self.a.deadline_ns, self.b.deadline_ns, flying_ns)

    def _send(self, outgoing: Outgoing) -> None:
        network = self.network
        dice = network.dice
        if network.lose(outgoing) or dice.random() < network.loss:
            return
        for _ in range(2 if dice.random() < network.doubling else 1):
            late_ns = dice.randrange(20) * 50_000 if dice.random() < network.reordering else 0
            ecn = CE if outgoing.kind is DatagramKind.DATA and network.marks(self.now_ns) else ECT_0
            self._count += 1
            arrival_ns = self.now_ns + network.delay_ns + late_ns
            heapq.heappush(self._flying, (arrival_ns, self._count, outgoing, ecn))
