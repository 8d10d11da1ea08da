"""The kernel's RoCE against that of Python: the same packets at the same nanosecond, whatever happens to them."""

from __future__ import annotations

import ctypes
import heapq
import random
import struct
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from testbed.frames import roce
from testbed.lab.results.result import Status
from testbed.linux import roce_device
from testbed.linux.roce_device import C, ends
from testbed.roce import in_kernel, rates
from testbed.roce.memory import UNLIMITED, Content, Sink, Words, content_block
from testbed.roce.nic import Nic, NicTiming, Recovery
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.rates.base import RateControl
from testbed.roce.rates.dcqcn import PAPER, Dcqcn
from testbed.roce.rates.fixed import Fixed
from testbed.roce.settings import Settings, Timing
from testbed.roce.source_port import from_number
from testbed.roce.work import Operation, Work
from testbed.units import NEVER, Duration, Line, Rate, Scale, Size

from ..conftest import Runner
from . import own_rate

JOBS = Path(__file__).parents[1] / "jobs" / "roce.py"

ADDRESSES = (("10.0.0.1", "10.0.0.2"), ("fd00::1", "2001:db8::2"))
SCALE = Scale(1000)
RESTS = (48, 63)
"""The DSCPs of rests."""
KEYS = tuple(range(roce_device.FIRST_KEY, roce_device.FIRST_KEY + 4))
"""The keys of the content, of the sink, of words, and of memory that is there to be invalidated."""
WORDS = 8
SEEDS = 1, 2
OPERATIONS = {
    Operation.WRITE: roce_device.WRITE, Operation.READ: roce_device.READ, Operation.SEND: roce_device.SEND,
    Operation.COMPARE_SWAP: roce_device.COMPARE_SWAP, Operation.FETCH_ADD: roce_device.FETCH_ADD,
}  # fmt: skip


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
    "fixed", "dcqcn", "dcqcn-mlx", "timely", quick, lambda line: Fixed(line, line.rate // 3), "swift", "hpcc", OwnDcqcn,
]  # fmt: skip


def any_nic(dice: random.Random) -> Nic:
    """A NIC without anything special, or one with all that there is."""
    if dice.random() < 0.3:
        return Nic()
    return Nic(
        cnp_delay=Duration(dice.choice(["0s", "0s", "3us", "55us"])), ack_delay=Duration(dice.choice(["0s", "2us"])),
        doorbell_delay=Duration(dice.choice(["0s", "1us"])), jitter=Duration(dice.choice(["0s", "700ns"])),
        reads=dice.choice([1, 3, 16]), reorder_time=Duration(dice.choice(["0s", "1us", "30us"])),
        reorder_packets=dice.choice([1, 5, 128]), receives=dice.choice([None, 1, 4]),
        receive_takes=Duration(dice.choice(["0s", "5us", "40us"])), rnr_timer=Duration(dice.choice(["10us", "60us"])),
        rnr_retries=dice.choice([0, 3, 7, 7]), bdp_packets=dice.choice([2, 7, 64, 600, 3000]),
        low_packets=dice.choice([0, 3]),
    )  # fmt: skip


class Compiled:
    """A queue pair of the library."""

    def __init__(self, library: Any, settings: Settings, given: Any, own: RateControl | None) -> None:
        self._library, self._own = library, own
        self._told = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(C.xr_event))(self._tell)
        self._error: BaseException | None = None
        kept = C.xr_settings(**in_kernel.settings(settings, Timing.of(settings, SCALE), RESTS))
        self._block = ctypes.create_string_buffer(content_block() * 2, 2 * len(content_block()))
        self._pair = ctypes.c_void_p(library.xl_new(ctypes.byref(kept), ctypes.byref(given), self._block, self._told))
        self._rate = C.xr_rate.from_address(library.xl_rate(self._pair))
        self._room = ctypes.create_string_buffer(512 * 4200)
        self._lengths = (ctypes.c_uint32 * 512)()

    def _tell(self, pair: int, event: Any) -> None:
        assert self._own is not None
        try:
            own_rate.tell(self._own, told := event.contents, self._rate, stamps_of(told))
        except BaseException as error:  # ctypes would only print it
            self._error = error

    def transmit(self, now_ns: int, most: int) -> list[bytes]:
        """Datagrams, or with `most` 0 the notification."""
        many = self._library.xl_transmit(self._pair, ctypes.c_int64(now_ns), most, self._room, self._lengths)
        found, at = [], 0
        octets = ctypes.string_at(self._room, sum(self._lengths[:many]))
        for length in self._lengths[:many]:
            found.append(octets[at : at + length])
            at += length
        return found

    def receive(self, datagram: bytes, ds_field: int, now_ns: int) -> str | None:
        refused = self._library.xl_receive(self._pair, datagram, len(datagram), ds_field, ctypes.c_int64(now_ns))
        return in_kernel.REFUSALS[refused - 1] if refused else None

    def post(self, work: Work, region: int, now_ns: int) -> bool:
        immediate, invalidate = (-1 if one is None else one for one in (work.immediate, work.invalidate))
        u64 = ctypes.c_uint64
        return bool(
            self._library.xl_post(
                self._pair, OPERATIONS[work.operation], u64(work.length), u64(work.local_address),
                u64(work.remote_address), work.r_key, region, ctypes.c_int64(immediate),
                ctypes.c_int64(invalidate), u64(work.data), u64(work.compare), ctypes.c_int64(now_ns),
            )
        )  # fmt: skip

    def cnp(self, now_ns: int) -> None:
        self._library.xl_cnp(self._pair, ctypes.c_int64(now_ns))

    @property
    def deadline_ns(self) -> int:
        found: int = self._library.xl_deadline(self._pair)
        return found

    def state(self) -> tuple[Any, tuple[float, ...], list[int]]:
        """Return the report, rate, target, alpha and gradient, and the words."""
        if self._error is not None:
            raise self._error
        report, rate, words = C.xr_report(), (ctypes.c_double * 4)(), (ctypes.c_uint64 * WORDS)()
        self._library.xl_state(self._pair, ctypes.byref(report), rate, words)
        return report, tuple(rate), list(words)

    def end(self) -> None:
        self._library.xl_end(self._pair)


class Both:
    """One end of a connection, in Python and in C, of which everything is compared."""

    def __init__(
        self,
        library: Any,
        place: int,
        addresses: tuple[str, str],
        settings: Settings,
        line: Line,
        *,
        choice: Any,
        nic: NicTiming,
    ) -> None:
        near, far = addresses[place], addresses[1 - place]
        number, far_number = 0x100 + place, 0x101 - place
        self.content, self.sink = Content(SEEDS[0]), Sink(content=Content(SEEDS[0]))
        self.words = Words(WORDS)
        self._arguments = library, number, far_number, near, far, settings, line, choice, nic

    def start(self, first: int, far_first: int) -> None:
        library, number, far_number, near, far, settings, line, choice, nic = self._arguments
        rate = rates.control(choice, line)
        self.pair = QueuePair(
            number, far, roce.Path(near, far, from_number(number)), first=first, settings=settings,
            timing=Timing.of(settings, SCALE), rate=rate, nic=nic,
            memory=dict(zip(KEYS, (self.content, self.sink, self.words, Content(0, 0)), strict=True)),
        )  # fmt: skip
        self.pair.responder.receive_into = self.sink
        self.pair.established(far_number, first, far_first, roce.Path(far, near, from_number(far_number)))
        self.own = None if rate.in_kernel() else rates.control(choice, line)
        kind = rate.in_kernel() or (own_rate.KIND, own_rate.numbers(rate))
        self.compiled = Compiled(library, settings, C.xr_add(
            number=number, far_number=far_number, first=first, far_first=far_first, **ends(near, far),
            port=from_number(number), far_port=from_number(far_number),
            content=self.content.start, line_bps=line.rate.bps, rate=roce_device.rate(*kind),
            nic=C.xr_nic(**nic.numbers()),
        ), self.own)  # fmt: skip

    def transmit(self, now_ns: int, most: int) -> list[bytes]:
        notification = self.pair.notification(now_ns)
        found = [notification] if notification else []
        assert self.compiled.transmit(now_ns, 0) == found
        data = self.pair.transmit(now_ns, most)
        assert self.compiled.transmit(now_ns, most) == data
        self.compare()
        return found + data

    def receive(self, datagram: bytes, ds_field: int, now_ns: int) -> None:
        refused: str | None = None
        try:
            packet = roce.parse(datagram)
            if packet.opcode == roce.Opcode.DATAGRAM:
                return  # connection management, which the kernel leaves to the process
            if self.pair.state is State.FAILED:
                refused = "queue_pair_not_ready"
            elif self.pair.far_path is None or not self.pair.far_path.intact(datagram):
                refused = roce.RoceReason.BAD_ICRC
            else:
                self.pair.receive(packet, ds_field & 3 == 3, now_ns)
        except roce.RocePacketError as error:
            refused = error.reason
        if refused is not None and ds_field >> 2 in RESTS and self.pair.takes_rest(datagram):
            refused = roce.RoceReason.TRIMMED
        assert self.compiled.receive(datagram, ds_field, now_ns) == refused
        self.compare()

    def post(self, work: Work, region: int, now_ns: int) -> bool:
        """Post a work in both; False if there are as many as a flow has."""
        if self.pair.requester.outstanding >= 64:
            return False
        self.pair.post(work, now_ns)
        assert self.compiled.post(work, region, now_ns)
        return True

    def compare(self) -> None:
        pair, rate = self.pair, self.pair.rate
        report, numbers, words = self.compiled.state()
        assert words == self.words.words
        assert report.counters.values() == asdict(pair.counters)
        assert report.received == self.sink.received
        assert bool(report.as_expected) is self.sink.is_as_expected
        assert report.packets == pair.requester.outstanding
        assert in_kernel.failure((report.failure.why, *getattr(report.failure, "with"))) == pair.failure
        assert bool(report.failure.why) is (pair.state is State.FAILED)
        assert numbers[0] == rate.rate_lab_bps
        if self.own is not None:
            assert {**vars(self.own), "line": 0} == {**vars(rate), "line": 0}
        elif isinstance(rate, Dcqcn):
            assert numbers[1:3] == (rate.target_lab_bps, rate.alpha)
        assert self.compiled.deadline_ns == pair.deadline_ns
        pair.requester.completed.clear()


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


def run_both(library: Any, seed: int, events: int) -> int:
    """Let two queue pairs talk through a network that changes its weather; how many events there were."""
    dice = random.Random(seed)
    mtu = dice.choice([256, 256, 1024, 4096])
    settings = Settings(mtu=mtu, ack_every=dice.choice([1, 4, 16]), window=dice.choice([2, 16, 64, 4096]),
                        retries=dice.choice([2, 7, 7]))  # fmt: skip
    line = Line(dice.choice([Rate("10Mb/s"), Rate("100Mb/s"), Rate("1Gb/s")]), SCALE)
    nic = NicTiming.of(any_nic(dice), dice.choice(list(Recovery)), SCALE, seed)
    addresses = ADDRESSES[seed % 2]
    pairs = [Both(library, place, addresses, settings, line, choice=dice.choice(RATES), nic=nic) for place in (0, 1)]
    firsts = [dice.choice([0, 5, 0xFFFFF0, 0x7FFFFF, dice.randrange(1 << 24)]) for _ in pairs]
    pairs[0].start(*firsts)
    pairs[1].start(*reversed(firsts))
    quiet = dice.random() < 0.4
    weather = Weather(*((0.0, 0.0, 0.0, dice.choice([0.0, 0.1]), 0.0, 0.0) if quiet else
                        (dice.choice([0, 0.01, 0.1]), dice.choice([0, 0.02]), dice.choice([0, 0.05]),
                         dice.choice([0, 0.05, 0.5]), dice.choice([0, 0.01]), dice.choice([0, 0.02]))))  # fmt: skip
    feeds = [Feed(pairs[place], pairs[1 - place], dice.choice(MOVES), mtu) for place in (0, 1)]
    now_ns, count, event = 1_000_000_000, 0, 0
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
                    count += 1
                    send(weather, dice, datagram, now_ns=now_ns, count=count, place=1 - place)
    for end in pairs:
        end.compare()
        end.compiled.end()
    return event


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
    """What fills the sink of one end: its own reads, or what the far end writes or sends. A sink takes octets in their
    order, so it is one of these."""

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


def stamps_of(event: Any) -> bytes:
    return ctypes.string_at(event.stamps, 16 * event.stamps_count) if event.stamps else b""


def load(file: Path) -> Any:
    found = ctypes.CDLL(str(file))
    found.xl_new.restype = found.xl_rate.restype = ctypes.c_void_p
    found.xl_deadline.restype = ctypes.c_int64
    return found


@pytest.fixture(scope="module")
def library(library_file: Path) -> Any:
    """The library that is built with the kernel of `um`."""
    return load(library_file)


@pytest.mark.engines("um")
@pytest.mark.parametrize("seed", range(30))
def test_both_do_the_same(library: Any, seed: int) -> None:
    run_both(library, seed, 1500)


@pytest.mark.engines("um")
@pytest.mark.long
def test_both_do_the_same_in_a_million_events(library: Any) -> None:
    done, seed = 0, 1000
    while done < 1_000_000:
        done += run_both(library, seed, 4000)
        seed += 1


@pytest.mark.engines("um")
def test_the_kernel_serves_rate_controls_that_have_code_and_python_all_others(run: Runner) -> None:
    result = run("roce:who_serves")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    assert result.provenance.rate_controls == {
        "Dcqcn": "code in the kernel", "Swift": "code in the kernel", "Plain": "code in the kernel, Python",
        "Logarithm": "Python",
    }  # fmt: skip


@pytest.mark.engines("um")
@pytest.mark.parametrize("job", ["faulty", "faulty_in_python"])
def test_a_fault_of_a_rate_control_ends_its_flow_and_names_its_line(run: Runner, job: str) -> None:
    result = run(f"roce:{job}")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
    line = next(number for number, text in enumerate(JOBS.read_text().splitlines(), 1) if "1e12 / max" in text)
    (failure,) = (figure.value for figure in result.figures if figure.name == "failure")
    assert failure == f"its rate control has a fault: a division by 0, at roce.py:{line}"


@pytest.mark.engines("um")
def test_the_kernel_refuses_code_that_could_reach_outside_its_frame(run: Runner) -> None:
    result = run("roce:refused_programs")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]


@pytest.mark.engines("um")
def test_a_killed_process_ends_its_queue_pairs_and_leaves_nothing(run: Runner) -> None:
    result = run("roce:killed")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]


@pytest.mark.engines("um")
def test_packets_above_the_mtu_are_an_error_that_says_so(run: Runner) -> None:
    result = run("roce:too_long")
    assert result.status is Status.ERROR
    assert "its packets are too long for the MTU of the port" in result.reason


@pytest.mark.engines("um")
def test_a_notification_concerns_a_flow_or_all_of_its_priority(run: Runner) -> None:
    result = run("roce:notified_by_priority")
    assert result.status is Status.OK, result.reason
    assert result.passed, [claim for claim in result.claims if not claim.passed]
