"""NICs with each way of recovery, with delays and few receives: every octet arrives, and settings do what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from testbed.frames.roce import Opcode, parse
from testbed.roce.endpoint import DatagramKind, Outgoing
from testbed.roce.memory import Buffer, Content, Sink
from testbed.roce.nic import Jitter, Nic, NicTiming, Recovery, recovery_named
from testbed.roce.queue_pair import State
from testbed.roce.rates import Fixed
from testbed.roce.selective import MOST_BITS, bitmap, numbers
from testbed.roce.settings import RoceError, Settings
from testbed.roce.work import Operation, Work
from testbed.units import Duration, Rate
from tests.unit.roce.roce_link import LINE, MOVES, SETTINGS, Link, Network, paced

SELECTIVE = Recovery.SELECTIVE_REPEAT


def timing(nic: Nic | None = None, recovery: Recovery = SELECTIVE, seed: int = 1) -> NicTiming:
    return NicTiming.of(nic or Nic(), recovery, LINE.scale, seed)


def finish(link: Link) -> None:
    link.until(lambda: link.near.requester.idle or link.near.state is State.FAILED)


def kinds(link: Link) -> list[int]:
    return [one.datagram[0] for _, one in link.network.delivered]


nics = st.builds(
    Nic,
    cnp_delay=st.sampled_from(["0s", "55us"]),
    ack_delay=st.sampled_from(["0s", "2us"]),
    doorbell_delay=st.sampled_from(["0s", "3us"]),
    jitter=st.sampled_from(["0s", "1us"]),
    reads=st.sampled_from([1, 3, 16]),
    reorder_packets=st.sampled_from([1, 8, 128]),
    receives=st.sampled_from([None, 1, 3]),
    receive_takes=st.sampled_from(["0s", "20us"]),
    rnr_timer=st.sampled_from(["10us", "60us"]),
    bdp_packets=st.sampled_from([2, 16, 128]),
    low_packets=st.sampled_from([0, 3]),
)


@given(
    seed=st.integers(0, 2**32),
    recovery=st.sampled_from(list(Recovery)),
    nic=nics,
    waits=st.booleans(),
    trouble=st.tuples(*[st.sampled_from([0.0, 0.02, 0.15])] * 3),
    window=st.sampled_from([4, 64]),
    works=st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 3000)), min_size=1, max_size=8),
)  # fmt: skip
@example(  # a send that was kept and then refused, for lack of a receive, had been reported as there
    seed=35,
    recovery=Recovery.SELECTIVE_REPEAT,
    nic=Nic(
        reads=1,
        reorder_packets=1,
        receives=1,
        receive_takes=Duration("20us"),
        rnr_timer=Duration("10us"),
        bdp_packets=2,
        low_packets=0,
    ),
    waits=False,
    trouble=(0.0, 0.0, 0.15),
    window=4,
    works=[(Operation.SEND, 1025), (Operation.SEND, 1)],
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_octet_arrives_as_it_was_sent_whatever_happens_to_the_packets(
    *,
    seed: int,
    recovery: Recovery,
    nic: Nic,
    waits: bool,
    trouble: tuple[float, float, float],
    window: int,
    works: list[tuple[Operation, int]],
) -> None:
    if waits and recovery is not Recovery.GO_BACK_0:
        nic = replace(nic, reorder_time=Duration("50us"))
    loss, doubling, reordering = trouble
    network = Network(seed=seed, loss=loss, doubling=doubling, reordering=reordering)
    link = Link(network, replace(SETTINGS, window=window, retries=7), nic=timing(nic, recovery, seed))
    link.until(lambda: link.near.state is not State.CONNECTING)
    if link.near.state is State.FAILED or link.far is None:
        return  # five requests can be lost
    octets = Content(7).read(0, 40_000)
    sent, read, written, received = Buffer(octets), Buffer(40_000), Buffer(40_000), Buffer(40_000)
    link.far.responder.receive_into = received
    keys = link.memory(written), link.memory(Buffer(octets))
    done, sends = 0, 0
    for operation, length in works:
        if operation is Operation.READ:
            link.near.post(Work(operation, read, length, done, done, keys[1]), link.now_ns)
        elif operation is Operation.WRITE:
            link.near.post(Work(operation, sent, length, done, done, keys[0]), link.now_ns)
        else:
            link.near.post(Work(operation, sent, length, sends), link.now_ns)
            sends += length
        done += length
    finish(link)
    if link.near.state is State.FAILED:
        assert "no acknowledgement after 7" in link.near.failure
        return
    assert [one.number for one in link.near.requester.take_completed()] == list(range(len(works)))
    done = 0
    for operation, length in works:
        place = {Operation.READ: read, Operation.WRITE: written, Operation.SEND: None}[operation]
        if place is not None:
            assert place.octets[done : done + length] == octets[done : done + length]
        done += length
    assert received.octets[:sends] == octets[:sends]
    assert len(link.far.responder.received) == sum(operation is Operation.SEND for operation, _ in works)
    if recovery is not Recovery.SELECTIVE_REPEAT:
        assert Opcode.SELECTIVE_ACKNOWLEDGE not in kinds(link)


@given(expected=st.integers(0, 2**24), behind=st.sets(st.integers(0, 3 * MOST_BITS), min_size=1), data=st.data())
def test_a_bitmap_names_the_packets_to_the_furthest_or_to_the_one_that_came_last(
    expected: int, behind: set[int], data: st.DataObject
) -> None:
    kept = {expected + 1 + place for place in behind}
    latest = data.draw(st.sampled_from(sorted(kept)))
    made = bitmap(expected, kept, latest, max(kept))
    assert len(made) % 4 == 0 and len(made) <= 4 + MOST_BITS // 8
    told = numbers(expected, made)
    assert latest in told
    assert told == [one for one in sorted(kept) if told[0] <= one <= told[-1]]
    if max(behind) < MOST_BITS:
        assert set(told) == kept


@pytest.mark.slow
def test_losses_further_apart_than_an_acknowledgement_tells_are_found_within_one_round_trip() -> None:
    """Ten of 5000 packets, each 500 behind another: the last is sent again as soon as its NAK is there."""
    delay_ns = 200_000_000
    network = lost_once(*range(40, 5000, 500))
    network.delay_ns = delay_ns
    nic = Nic(bdp_packets=8000, timeout_low=Duration("10ms"), timeout_high=Duration("10ms"))
    link = Link(network, replace(SETTINGS, window=8000), rate_control=paced, nic=timing(nic))
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 5000, r_key=link.memory(Sink(content=Content(1)))))
    link.until(lambda: link.near.requester.idle)
    requester = link.near.requester
    assert (requester.counters.retransmitted, requester.counters.timeouts) == (10, 0)
    # The connection, all packets at half of 100 Mb/s, and two round trips: the NAK, and what is sent again.
    assert link.now_ns < 2 * delay_ns + 5000 * (256 + 16 + 66) * 160 + 4 * delay_ns


@pytest.mark.parametrize("rate", ["1Gb/s", "200Mb/s", "10Mb/s"])
def test_no_timer_ends_at_a_low_rate_without_a_loss(rate: str) -> None:
    """Requests for acknowledgements go by the timer that waits for them."""
    link = Link(nic=timing(), settings=Settings(), rate_control=lambda line: Fixed(line, line.scale.lab(Rate(rate))))
    link.near.post(Work(Operation.WRITE, Content(1), 1024 * 400, r_key=link.memory(Sink(content=Content(1)))))
    link.until(lambda: link.near.requester.idle, most_ns=10**12)
    assert (link.near.counters.retransmitted, link.near.counters.timeouts) == (0, 0)


def lost_once(*places: int) -> Network:
    """A network that loses these packets of data, counted from 0 as they are sent."""
    seen: list[int] = []

    def lose(outgoing: Outgoing) -> bool:
        if outgoing.kind is not DatagramKind.DATA or outgoing.datagram[0] > Opcode.WRITE_ONLY:
            return False
        seen.append(1)
        return len(seen) - 1 in places

    return Network(lose=lose)


@pytest.mark.parametrize(
    ("recovery", "again"),
    [(Recovery.GO_BACK_0, 32), (Recovery.GO_BACK_N, 2), (Recovery.SELECTIVE_REPEAT, 1)],
)
def test_each_way_of_recovery_sends_again_what_it_says(recovery: Recovery, again: int) -> None:
    link = Link(lost_once(30), rate_control=paced, nic=timing(recovery=recovery))
    key = link.memory(Sink(content=Content(1)))
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 60, r_key=key))
    link.until(lambda: link.near.requester.idle)
    assert link.near.counters.timeouts == 0
    assert link.near.counters.retransmitted == again


def test_a_selective_acknowledgement_has_the_private_opcode_a_nak_and_what_has_come() -> None:
    link = Link(lost_once(30, 33), rate_control=paced, nic=timing())
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 60, r_key=link.memory(Sink())))
    link.until(lambda: link.near.requester.idle)
    naks = [parse(one.datagram) for _, one in link.network.delivered if one.datagram[0] == 0xD1]
    assert naks[0].aeth is not None
    assert naks[0].aeth.syndrome == 0x60
    assert naks[0].payload == bytes([0, 0, 0, 0, 0x80, 0, 0, 0])
    # The packet that was sent again before the second loss has place 32.
    assert {one.psn - naks[0].psn for one in naks} == {0, 2}


@pytest.mark.slow
def test_a_message_longer_than_what_is_sent_between_two_losses_never_arrives_by_go_back_0() -> None:
    count = [0]

    def every_fiftieth(outgoing: Outgoing) -> bool:
        count[0] += outgoing.kind is DatagramKind.DATA and outgoing.datagram[0] <= Opcode.WRITE_ONLY
        return count[0] % 50 == 49

    for recovery in Recovery:
        count[0] = 0
        link = Link(Network(lose=every_fiftieth), nic=timing(recovery=recovery))
        key = link.memory(sink := Sink(content=Content(1)))
        for message in range(20):
            place = message * 256 * 80
            link.near.post(Work(Operation.WRITE, Content(1), 256 * 80, place, place, key))
        link.run(10**8)
        assert link.far is not None
        assert sink.is_as_expected
        assert (link.far.counters.messages == 0) is (recovery is Recovery.GO_BACK_0)
        assert link.near.state is State.READY


def test_a_receiver_that_waits_asks_for_nothing_while_packets_are_only_late() -> None:
    network = Network(seed=3, reordering=0.2)  # up to 1 ms of the lab late
    for wait, is_asked in (("2us", False), ("0s", True)):
        network = Network(seed=3, reordering=0.2)
        link = Link(network, rate_control=paced, nic=timing(Nic(reorder_time=Duration(wait)), Recovery.GO_BACK_N))
        link.near.post(Work(Operation.WRITE, Content(1), 256 * 60, r_key=link.memory(Sink())))
        finish(link)
        naks = [one for _, one in network.delivered if one.datagram[0] == Opcode.ACKNOWLEDGE and one.datagram[12] >= 96]
        assert bool(naks) is is_asked
        assert bool(link.near.counters.retransmitted) is is_asked


def test_a_packet_that_stays_away_is_asked_for_when_the_time_is_over_or_many_have_come_behind_it() -> None:
    for nic, least_ns, most_ns in (
        (Nic(reorder_time=Duration("20us")), 20_000_000, 20_100_000),
        (Nic(reorder_time=Duration("20us"), reorder_packets=4), 150_000, 170_000),
    ):
        link = Link(lost_once(10), rate_control=paced, nic=timing(nic, Recovery.GO_BACK_N))
        link.near.post(Work(Operation.WRITE, Content(1), 256 * 600, r_key=link.memory(Sink())))
        finish(link)
        times = {one.datagram[0]: now_ns for now_ns, one in link.network.delivered if one.datagram[12] == 0x60}
        came = [now_ns for now_ns, one in link.network.delivered if one.datagram[0] <= Opcode.WRITE_ONLY]
        assert least_ns <= times[Opcode.ACKNOWLEDGE] - came[10] - 10_000 <= most_ns


def sends(nic: Nic, many: int = 6, settings: Settings = SETTINGS) -> Link:
    link = Link(settings=settings, nic=timing(nic, Recovery.GO_BACK_N))
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    link.far.responder.receive_into = Sink()
    for _ in range(many):
        link.near.post(Work(Operation.SEND, Content(1), 100), link.now_ns)
    finish(link)
    return link


def test_a_sender_waits_as_an_rnr_nak_says_when_no_receive_is_posted() -> None:
    nic = Nic(receives=2, receive_takes=Duration("100us"), rnr_timer=Duration("60us"))
    link = sends(nic)
    assert link.near.state is State.READY
    assert link.near.counters.rnr_naks == 7  # at 0, 60, 120, 180, 240, 300 and 360 us
    assert link.near.counters.timeouts == 0
    assert sends(replace(nic, receives=6)).near.counters.rnr_naks == 0


def test_a_sender_gives_up_after_the_retries_that_are_set() -> None:
    link = sends(Nic(receives=1, receive_takes=Duration("10ms"), rnr_timer=Duration("10us"), rnr_retries=2))
    assert link.near.failure.startswith("the far end has no receive for packet")
    assert link.near.failure.endswith("after 2 retries")


def test_delays_are_of_acknowledgements_notifications_and_the_doorbell() -> None:
    def moments(nic: Nic) -> tuple[int, int, int]:
        link = Link(Network(marks=lambda now_ns: True), rate_control=paced, nic=timing(nic, Recovery.GO_BACK_N))
        link.until(lambda: link.near.state is State.READY)
        begin_ns = link.now_ns
        link.near.post(Work(Operation.WRITE, Content(1), 100, r_key=link.memory(Sink())), begin_ns)
        link.until(lambda: link.near.requester.idle)
        link.run(10**8)
        found = {one.datagram[0]: now_ns - begin_ns - 10_000 for now_ns, one in link.network.delivered}
        written_ns = found[Opcode.WRITE_ONLY]
        return written_ns, found[Opcode.ACKNOWLEDGE] - written_ns - 10_000, found[Opcode.CNP] - written_ns - 10_000

    assert moments(Nic()) == (0, 0, 0)
    nic = Nic(doorbell_delay=Duration("1us"), ack_delay=Duration("2us"), cnp_delay=Duration("55us"))
    assert moments(nic) == (1_000_000, 2_000_000, 55_000_000)
    shaken = moments(replace(nic, jitter=Duration("500ns")))
    assert shaken == moments(replace(nic, jitter=Duration("500ns")))
    assert all(0 <= late - one <= 500_000 for late, one in zip(shaken, moments(nic), strict=True))
    assert shaken != moments(nic)


def test_jitter_is_that_of_the_seed() -> None:
    rows = [[Jitter(seed, 1000).delay(10) for _ in range(1)] for seed in range(50)]
    assert len({row[0] for row in rows}) > 40
    one = Jitter(0, 9)
    drawn = [one.delay(5) for _ in range(200)]
    assert set(drawn) == set(range(5, 15))
    assert Jitter(0, 9).delay(0) == 0


def test_reads_under_way_are_as_many_as_set() -> None:
    for reads in (1, 4):
        link = Link(Network(delay_ns=10**6), rate_control=paced, nic=timing(Nic(reads=reads), Recovery.GO_BACK_N))
        key = link.memory(Content(1))
        for _ in range(6):
            link.near.post(Work(Operation.READ, Buffer(2560), 2560, r_key=key))
        finish(link)
        opcodes = [one for one in kinds(link) if one in (Opcode.READ_REQUEST, Opcode.READ_RESPONSE_LAST)]
        first = opcodes.index(Opcode.READ_RESPONSE_LAST)
        assert opcodes[:first].count(Opcode.READ_REQUEST) == reads


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reads": 0}, "reads=0"),
        ({"receives": 0}, "receives=0"),
        ({"rnr_timer": Duration("70us")}, "the nearest is 60us"),
        ({"bdp_packets": 1}, "from 2 to 1048576"),
        ({"timeout_low": Duration("1ms")}, "above timeout_high"),
        ({"timeout_low": Duration("0s")}, "sends for ever"),
        ({"cnp_delay": "soon"}, "cnp_delay"),
    ],
)
def test_values_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RoceError, match=message):
        Nic(**settings)


def test_a_way_of_recovery_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(RoceError, match="'go-back-N', 'go-back-0', 'selective repeat'"):
        recovery_named("sack")


def test_settings_without_effect_are_named() -> None:
    found = Nic(jitter=Duration("1us"), bdp_packets=64, reorder_packets=3, reads=2, receives=3).without_effect(
        Recovery.GO_BACK_N, "write"
    )
    assert [one.split(":")[0] for one in found] == ["jitter", "bdp_packets", "reorder_packets", "reads", "receives"]
    assert Nic(receives=3).without_effect(Recovery.GO_BACK_N, "send") == [
        "receives: receive_takes is 0, so a receive is always posted"
    ]
    assert not Nic(receives=3, receive_takes=Duration("1us")).without_effect(Recovery.GO_BACK_N, "send")
