"""InfiniBand's tables and limits in both endpoints: timers, retries, MTUs, numbers that wrap, the longest message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.frames import roce
from testbed.frames.roce import MAXIMUM_MESSAGE, Aeth, Opcode, Packet
from testbed.linux import roce_device
from testbed.linux.roce_device import C, ends
from testbed.roce import rates
from testbed.roce.memory import Content, Sink
from testbed.roce.nic import Nic, NicTiming, Recovery
from testbed.roce.queue_pair import State
from testbed.roce.settings import MTUS, Settings
from testbed.roce.work import Operation, Work
from testbed.units import Line, Rate
from tests.unit.roce.roce_link import Link

from .both import ADDRESSES, KEYS, SCALE, SEEDS, Both, Compiled, load

pytestmark = pytest.mark.engines("um")
LINE = Line(Rate("100Mb/s"), SCALE)
NIC = NicTiming.of(Nic(), Recovery.GO_BACK_N, SCALE)
FIRST, FAR_FIRST = 0xFFFFF0, 5
"""The first PSNs: one wraps soon."""
RNR_MS = (
    655.36, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.32, 0.48, 0.64, 0.96, 1.28, 1.92, 2.56, 3.84, 5.12,
    7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
)  # fmt: skip
"""InfiniBand's times of an RNR NAK in milliseconds, by their codes (table 45)."""
NOW_NS = 10**9


@pytest.fixture(scope="module")
def library(library_file: Path) -> Any:
    return load(library_file)


def both_ends(
    library: Any,
    settings: Settings | None = None,
    nic: NicTiming | None = None,
    addresses: tuple[str, str] = ADDRESSES[0],
) -> tuple[Both, Both]:
    """Return two ends of a connection, each in Python and in C."""
    given = settings or Settings(), LINE
    one, other = (Both(library, at, addresses, *given, choice="fixed", nic=nic or NIC) for at in (0, 1))
    one.start(FIRST, FAR_FIRST)
    other.start(FAR_FIRST, FIRST)
    return one, other


def sent(end: Both, now_ns: int) -> list[bytes]:
    """Post a send, and return its packet."""
    end.post(Work(Operation.SEND, end.content, 8), 0, now_ns)
    return end.transmit(now_ns, 1)


def rnr_nak(end: Both, far: Both, code: int, now_ns: int) -> None:
    """Let an end have an RNR NAK for its oldest packet."""
    packet = Packet(Opcode.ACKNOWLEDGE, end.pair.number, FIRST, aeth=Aeth(0, rnr=code))
    end.receive(far.pair.path.seal(roce.encode(packet)), 0, now_ns)


def exchange(ends: tuple[Both, Both], now_ns: int) -> None:
    """Carry all packets, each 10 us after it was sent, until nothing is under way."""
    while not all(end.pair.requester.idle and end.pair.deadline_ns > now_ns for end in ends):
        now_ns = max(now_ns, min(end.pair.deadline_ns for end in ends))
        for end, far in (ends, ends[::-1]):
            for datagram in end.transmit(now_ns, 64):
                far.receive(datagram, 0, now_ns + 10_000)
        now_ns += 10_000


def test_both_wait_after_an_rnr_nak_as_long_as_each_code_says(library: Any) -> None:
    for code, time_ms in enumerate(RNR_MS):
        end, far = both_ends(library)
        sent(end, NOW_NS)
        rnr_nak(end, far, code, NOW_NS)
        assert end.compiled.deadline_ns == end.pair.deadline_ns == NOW_NS + round(time_ms * 1e6) * 1000


@pytest.mark.parametrize("retries", range(8))
def test_both_fail_after_so_many_rnr_naks_in_a_row_and_with_seven_never(library: Any, retries: int) -> None:
    end, far = both_ends(library, nic=replace(NIC, rnr_retries=retries))
    sent(end, NOW_NS)
    count, now_ns = 0, NOW_NS
    while end.pair.state is not State.FAILED and count < 50:
        rnr_nak(end, far, 1, now_ns)
        count += 1
        now_ns = min(end.pair.deadline_ns, now_ns + 10**9)
        end.transmit(now_ns, 1)
    assert count == (50 if retries == 7 else retries + 1)


@pytest.mark.parametrize("code", range(32))
def test_both_send_again_after_the_time_of_each_ack_timeout_and_never_with_0(library: Any, code: int) -> None:
    end, _ = both_ends(library, Settings(ack_timeout=code))
    sent(end, NOW_NS)
    wait_ns = end.pair.deadline_ns - NOW_NS
    assert wait_ns == end.compiled.deadline_ns - NOW_NS
    if code:
        assert wait_ns == 4096 * 2**code * 1000
        end.transmit(NOW_NS + wait_ns, 1)
        assert (end.pair.counters.timeouts, end.pair.counters.retransmitted) == (1, 1)
    else:
        assert wait_ns > 10**9 * 3600 * 24 * 365


@pytest.mark.parametrize("retries", range(8))
def test_both_send_again_as_often_as_retries_say_before_they_fail(library: Any, retries: int) -> None:
    end, _ = both_ends(library, Settings(retries=retries))
    sent(end, NOW_NS)
    while end.pair.state is not State.FAILED:
        end.transmit(end.pair.deadline_ns, 1)
    assert (end.pair.counters.timeouts, end.pair.counters.retransmitted) == (retries, retries)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("mtu", MTUS)
def test_each_mtu_carries_messages_of_each_length_over_the_end_of_psns(library: Any, mtu: int, version: int) -> None:
    near, far = both = both_ends(library, Settings(mtu=mtu), addresses=ADDRESSES[version == 6])
    done = 0
    for length in (0, 1, mtu - 1, mtu, mtu + 1, 40 * mtu + 3):
        near.post(Work(Operation.WRITE, near.content, length, done, done, KEYS[1]), 0, NOW_NS)
        done += length
    near.post(Work(Operation.READ, near.sink, 50 * mtu + 1, 0, 0, KEYS[0]), 1, NOW_NS)
    near.post(Work(Operation.FETCH_ADD, near.words, 8, 0, 8, KEYS[2], data=7), 2, NOW_NS)
    exchange(both, NOW_NS)
    assert near.pair.state is far.pair.state is State.READY
    assert (far.sink.received, far.sink.is_as_expected) == (done, True)
    assert (near.sink.received, near.sink.is_as_expected) == (50 * mtu + 1, True)
    assert far.words.words[1] == 7
    assert near.pair.requester.oldest == FIRST + 47 + 51 + 1 > 1 << 24  # packets of the writes, the read, the atomic


class Alone:
    """One end in C alone, without a comparison after each packet."""

    def __init__(self, library: Any, place: int, settings: Settings) -> None:
        near, far = ADDRESSES[0][place], ADDRESSES[0][1 - place]
        firsts = (FIRST, FAR_FIRST) if place == 0 else (FAR_FIRST, FIRST)
        kind = rates.control("fixed", LINE).in_kernel()
        assert kind is not None
        self.content = Content(SEEDS[0])
        given = C.xr_add(
            number=0x100 + place, far_number=0x101 - place, first=firsts[0], far_first=firsts[1], **ends(near, far),
            port=0xC100 + place, far_port=0xC101 - place, content=self.content.start, line_bps=LINE.rate.bps,
            rate=roce_device.rate(*kind), nic=C.xr_nic(**NIC.numbers()),
        )  # fmt: skip
        self.compiled = Compiled(library, settings, given, None)


@pytest.mark.slow
def test_a_message_of_2_gib_arrives_whole_in_c(library: Any) -> None:
    near, far = (Alone(library, place, Settings(mtu=4096, ack_every=64)) for place in (0, 1))
    assert near.compiled.post(Work(Operation.WRITE, near.content, MAXIMUM_MESSAGE, 0, 0, KEYS[1]), 0, NOW_NS)
    now_ns, both = NOW_NS, (near.compiled, far.compiled)
    while near.compiled.state()[0].packets:
        now_ns = max(now_ns, min(end.deadline_ns for end in both))
        for end, other in (both, both[::-1]):
            for datagram in end.transmit(now_ns, 64):
                assert other.receive(datagram, 0, now_ns) is None
    report = far.compiled.state()[0]
    assert (report.received, bool(report.as_expected)) == (MAXIMUM_MESSAGE, True)
    assert report.counters.received_packets == MAXIMUM_MESSAGE // 4096


@pytest.mark.slow
def test_a_message_of_2_gib_arrives_whole_in_python() -> None:
    link = Link(settings=Settings(mtu=4096, ack_every=64))
    sink = Sink(content=Content(1))
    key = link.memory(sink)
    link.until(lambda: link.near.state is State.READY)
    near, far = link.near, link.far
    assert far is not None
    near.post(Work(Operation.WRITE, Content(1), MAXIMUM_MESSAGE, r_key=key))
    now_ns = link.now_ns
    while not near.requester.idle:
        now_ns = max(now_ns, min(near.deadline_ns, far.deadline_ns))
        while (run := near.transmit_run(now_ns)) is not None:
            assert far.receive_run(run) == len(run)
        for end, other in ((near, link.b), (far, link.a)):
            for datagram in end.transmit(now_ns, 1):
                other.receive(datagram, 0, now_ns)
    assert (sink.received, sink.is_as_expected) == (MAXIMUM_MESSAGE, True)
