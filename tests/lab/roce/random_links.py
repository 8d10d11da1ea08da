"""Random works on links of RoCE queue pairs, through a network that loses, doubles, delays, marks, cuts and trims."""

from __future__ import annotations

import heapq
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from testbed.frames import roce
from testbed.frames.roce import Service
from testbed.linux.roce_device import C
from testbed.roce.memory import UNLIMITED, Words
from testbed.roce.nic import Nic, NicTiming, Recovery
from testbed.roce.queue_pair import State
from testbed.roce.rates.base import RateControl
from testbed.roce.rates.dcqcn import PAPER, Dcqcn
from testbed.roce.rates.fixed import Fixed
from testbed.roce.services.receives import Receives
from testbed.roce.settings import Settings
from testbed.roce.work import AddressHandle, Operation, Work
from testbed.units import NEVER, Duration, Line, Rate, Size

from .both import ADDRESSES, KEYS, Q_KEY, RESTS, SCALE, WORDS, Both

MOVES = (Operation.WRITE, Operation.READ, Operation.SEND)
"""The operations that move octets."""


def quick(line: Line) -> RateControl:
    """DCQCN with a small byte counter, so that all of its stages come in a short time."""
    return Dcqcn(line, replace(PAPER, byte_counter=Size("20kB"), increase_interval=Duration("20us")))


class OwnDcqcn(Dcqcn):
    """One that the kernel does not know, and that says of what it was told."""

    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.told: list[tuple[Any, ...]] = []

    def on_loss(self, now_ns: int) -> None:
        self.told.append((now_ns,))


RATES: list[Any] = [
    "fixed", "dcqcn", "dcqcn-mlx", "timely", quick, lambda line: Fixed(line, line.rate // 3), OwnDcqcn, "swift", "hpcc",
]  # fmt: skip


WITHOUT_ANSWERS = RATES[:7]
"""Those that an unreliable service can have, though some are never told of a round trip."""


def any_nic(dice: random.Random) -> Nic:
    """A NIC without anything special, or one with all that there is."""
    if dice.random() < 0.3:
        return Nic()
    receives = dice.choice([None, 1, 4])
    shares = receives is not None and dice.random() < 0.5
    return Nic(
        shares_receives=shares, receive_limit=dice.randrange(1 + (receives or 0)) if shares else 0,
        cnp_delay=Duration(dice.choice(["0s", "0s", "3us", "55us"])), ack_delay=Duration(dice.choice(["0s", "2us"])),
        doorbell_delay=Duration(dice.choice(["0s", "1us"])), jitter=Duration(dice.choice(["0s", "700ns"])),
        reads=dice.choice([1, 3, 16]), reorder_time=Duration(dice.choice(["0s", "1us", "30us"])),
        reorder_packets=dice.choice([1, 5, 128]), receives=receives,
        receive_takes=Duration(dice.choice(["0s", "5us", "40us"])), rnr_timer=Duration(dice.choice(["10us", "60us"])),
        rnr_retries=dice.choice([0, 3, 7, 7]), bdp_packets=dice.choice([2, 7, 64, 600, 3000]),
        low_packets=dice.choice([0, 3]),
    )  # fmt: skip


@dataclass
class Weather:
    """The probabilities of what can happen to a datagram."""

    loss: float
    doubling: float
    delay: float
    mark: float
    damage: float
    trimming: float
    flying: list[tuple[int, int, int, bytes, int]] = field(default_factory=list)


@dataclass
class Done:
    """The result of a run of random works."""

    events: int = 0
    packets: int = 0
    """The datagrams that were sent."""
    messages: dict[str, int] = field(default_factory=dict)
    """Those that came whole, by their service."""


def any_links(library: Any, dice: random.Random, seed: int) -> tuple[list[tuple[Both, Both]], int]:
    """Return one to three links between two hosts, of any services, and their MTU. Their queue pairs share receives
    if their NICs do."""
    mtu = dice.choice([256, 256, 1024, 4096])
    settings = Settings(mtu=mtu, ack_every=dice.choice([1, 4, 16]), window=dice.choice([2, 16, 64, 4096]),
                        retries=dice.choice([2, 7, 7]))  # fmt: skip
    line = Line(dice.choice([Rate("10Mb/s"), Rate("100Mb/s"), Rate("1Gb/s")]), SCALE)
    nic = NicTiming.of(any_nic(dice), dice.choice(list(Recovery)), SCALE, seed)
    shared = [(Receives(nic), C.xr_receives()) if nic.shares_receives else None for _ in (0, 1)]
    links = []
    for _ in range(dice.choice([1, 1, 2, 3])):
        service = dice.choice([Service.RC, *Service])
        message = 0
        if service is not Service.RC:
            longest = mtu if service is Service.UD else 5 * mtu
            message = dice.choice([1, mtu - 3, mtu, longest, dice.randrange(1, longest)])
        choices = RATES if service is Service.RC else WITHOUT_ANSWERS
        near, far = (
            Both(library, place, ADDRESSES[seed % 2], settings, line, choice=dice.choice(choices), nic=nic,
                 service=service, message=message, shared=shared[place])
            for place in (0, 1)
        )  # fmt: skip
        firsts = [dice.choice([0, 5, 0xFFFFF0, 0x7FFFFF, dice.randrange(1 << 24)]) for _ in (0, 1)]
        near.writes, far.writes = (service is Service.UC and dice.random() < 0.5 for _ in (0, 1))
        near.start(*firsts)
        far.start(*reversed(firsts))
        links.append((near, far))
    return links, mtu


def run_both(library: Any, seed: int, events: int, done: Done | None = None) -> Done:
    """Let queue pairs talk through a network that changes its weather, until so many events more have happened."""
    dice, done = random.Random(seed), done or Done()
    links, mtu = any_links(library, dice, seed)
    pairs = [end for link in links for end in link]
    quiet = dice.random() < 0.4
    weather = Weather(*((0.0, 0.0, 0.0, dice.choice([0.0, 0.1]), 0.0, 0.0) if quiet else
                        (dice.choice([0, 0.01, 0.1]), dice.choice([0, 0.02]), dice.choice([0, 0.05]),
                         dice.choice([0, 0.05, 0.5]), dice.choice([0, 0.01]), dice.choice([0, 0.02]))))  # fmt: skip
    feeds = [feed_of(link, place, dice.choice(MOVES), mtu) for link in links for place in (0, 1)]
    now_ns, event = 1_000_000_000, 0
    while event < events and not all(end.pair.state is State.FAILED for end in pairs):
        event += 1
        next_ns = min(*(end.pair.deadline_ns for end in pairs), weather.flying[0][0] if weather.flying else NEVER)
        is_idle = next_ns > now_ns + 50_000_000
        if is_idle or dice.random() < 0.02:
            dice.choice(feeds).post(dice, now_ns)
            if is_idle and dice.random() < 0.5:
                now_ns = min(next_ns, now_ns + dice.randrange(1, 30_000_000))
        now_ns = max(now_ns, min(next_ns, now_ns + 50_000_000)) + (
            dice.randrange(300_000) if dice.random() < 0.1 else 0
        )
        if weather.flying and weather.flying[0][0] <= now_ns:
            _, _, place, datagram, ds_field = heapq.heappop(weather.flying)
            pairs[place].receive(datagram, ds_field, now_ns)
        if dice.random() < 0.002:
            pairs[0].pair.rate.on_cnp(now_ns)  # of another queue pair of its priority
            pairs[0].compiled.cnp(now_ns)
        for place, end in enumerate(pairs):
            if end.pair.deadline_ns <= now_ns:
                for datagram in end.transmit(now_ns, dice.choice([1, 1, 2, 4, 64])):
                    done.packets += 1
                    strangers = [at for at, one in enumerate(pairs) if one.service is not end.service]
                    to = dice.choice(strangers) if strangers and dice.random() < 0.002 else place ^ 1
                    send(weather, dice, datagram, now_ns=now_ns, count=done.packets, place=to)
    for end in pairs:
        end.compare()
        assert end.sink.is_as_expected or end.service is Service.RC
        end.compiled.end()
        of = str(end.service)
        done.messages[of] = done.messages.get(of, 0) + end.pair.counters.messages
    done.events += event
    return done


def any_atomic(dice: random.Random, words: Words) -> Work:
    """Return an atomic operation on a word of the far end, mostly one that can be done."""
    operation, place = dice.choice([Operation.COMPARE_SWAP, Operation.FETCH_ADD]), 8 * dice.randrange(WORDS)
    key = KEYS[2]
    if dice.random() < 0.005:
        place, key = dice.choice([(place + 4, key), (8 * WORDS, key), (place, KEYS[0]), (place, 77)])
    compare = dice.randrange(3) if operation is Operation.COMPARE_SWAP else 0
    data = dice.choice([0, 1, 2, (1 << 64) - 1])
    return Work(operation, words, 8, 8 * dice.randrange(WORDS), place, key, data=data, compare=compare)


class Feed:
    """The source of octets for the sink of one end: its own reads, or the far end's writes or sends. A sink takes
    octets in their order, so it is one of these."""

    def __init__(self, end: Both, far: Both, operation: Operation, mtu: int) -> None:
        self._end, self._far, self._operation, self._mtu = end, far, operation, mtu
        self._done = 0

    def post(self, dice: random.Random, now_ns: int) -> None:
        """Post a work, mostly one that can be carried out."""
        mtu, done = self._mtu, self._done
        length = dice.choice([0, 1, mtu - 1, mtu, mtu + 4, 3 * mtu, dice.randrange(20 * mtu), 16 * mtu])
        if dice.random() < 0.3:
            self._end.post(any_atomic(dice, self._end.words), 2, now_ns)
        elif dice.random() < 0.003:  # what the far end refuses
            place, key = dice.choice([UNLIMITED, 8]), dice.choice([KEYS[0], 77])
            self._end.post(Work(Operation.WRITE, self._end.content, mtu, 0, place, key), 0, now_ns)
        elif self._operation is Operation.READ:
            work = Work(Operation.READ, self._end.sink, length, done, done, KEYS[0])
            self._done += length if self._end.post(work, 1, now_ns) else 0
        else:
            immediate, invalidate = dice.choice([None, 7]), None
            if self._operation is Operation.SEND and immediate is None and dice.random() < 0.02:
                invalidate = dice.choice(KEYS[3:])
            work = Work(self._operation, self._far.content, length, done, done, KEYS[1], immediate,
                        invalidate=invalidate)  # fmt: skip
            self._done += length if self._far.post(work, 0, now_ns) else 0


class UnreliableFeed:
    """The messages that fill the memory of one end over an unreliable service: all of one length, each at its place."""

    def __init__(self, end: Both, far: Both) -> None:
        self._end, self._far = end, far
        self._posted = 0

    def post(self, dice: random.Random, now_ns: int) -> None:
        """Post a work, mostly one that can be carried out."""
        end, far = self._end, self._far
        message, place = end.message, self._posted * end.message
        immediate, to = dice.choice([None, None, 7]), None
        operation = Operation.SEND
        if end.service is Service.UD:
            near, number = end.pair.path.source, end.pair.number
            to = dice.choice([
                None, None, None, AddressHandle(near, number, Q_KEY), AddressHandle(near, number, 3),
                AddressHandle(ADDRESSES[":" in near][1], 0x1234, 0xFFFFFFFF),
            ])  # fmt: skip
        elif end.writes:
            operation = Operation.WRITE
        if dice.random() < 0.02:
            far.post(self._odd(dice), 2, now_ns)
            return
        for _ in range(dice.choice([1, 1, 4, 10])):
            work = Work(operation, far.content, message, place, place, KEYS[1], immediate, to=to)
            if not far.post(work, 0, now_ns):
                break
            self._posted += 1
            place += message

    def _odd(self, dice: random.Random) -> Work:
        """Return a work that the service does not have, or a write that the far end drops."""
        end, content = self._end, self._far.content
        odd = [
            Work(Operation.READ, end.words, 8, 0, 0, KEYS[0]), any_atomic(dice, end.words),
            Work(Operation.SEND, content, 9, invalidate=KEYS[3]),
        ]  # fmt: skip
        if end.service is Service.UD:
            odd.append(Work(Operation.SEND, content, 10_000))
        elif end.writes:
            odd += [Work(Operation.WRITE, end.words, 4, 0, UNLIMITED, KEYS[1]), Work(Operation.WRITE, end.words, 8)]
        return dice.choice(odd)


def feed_of(link: Sequence[Both], place: int, operation: Operation, mtu: int) -> Feed | UnreliableFeed:
    end, far = link[place], link[1 - place]
    return Feed(end, far, operation, mtu) if end.service is Service.RC else UnreliableFeed(end, far)


def send(weather: Weather, dice: random.Random, datagram: bytes, *, now_ns: int, count: int, place: int) -> None:
    if dice.random() < weather.loss:
        return
    if dice.random() < weather.damage:
        at = dice.randrange(len(datagram))
        datagram = datagram[:at] + bytes([datagram[at] ^ 1 << dice.randrange(8)]) + datagram[at + 1 :]
        if dice.random() < 0.3:
            datagram = datagram[: dice.randrange(len(datagram))]
    datagram = stamped(dice, datagram, now_ns)
    for _ in range(2 if dice.random() < weather.doubling else 1):
        late_ns = dice.randrange(2_000_000) if dice.random() < weather.delay else 0
        arrives_ns = now_ns + 10_000 + late_ns
        ds_field = 3 if dice.random() < weather.mark else 2
        if dice.random() < weather.trimming:  # one that is no longer than a rest may be stays whole
            ds_field |= dice.choice(RESTS) << 2
            datagram = datagram[: dice.choice([2, 22, 44, 86, 250])]
        heapq.heappush(weather.flying, (arrives_ns, count, place, datagram, ds_field))


def stamped(dice: random.Random, datagram: bytes, now_ns: int) -> bytes:
    """Return a datagram with the stamp of a port, if it collects stamps and has room."""
    at = roce.BTH_OCTETS
    if (
        len(datagram) < at + 84
        or not datagram[8] & 0x40
        or datagram[at] != 0x11
        or datagram[at + 2] >= datagram[at + 1]
    ):
        return datagram
    place, head = at + 4 + 16 * datagram[at + 2], bytes([datagram[at + 2] + 1])
    stamp = struct.pack("!4I", now_ns % (1 << 32), dice.randrange(100_000), now_ns // 80 % (1 << 32), 100_000)
    return datagram[: at + 2] + head + datagram[at + 3 : place] + stamp + datagram[place + 16 :]
