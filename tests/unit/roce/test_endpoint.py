"""Two endpoints against each other: connections, writes, reads and sends, loss, marks, and what strangers send."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.frames import roce, roce_cm
from testbed.frames.roce import Opcode
from testbed.frames.roce_run import PacketRun
from testbed.roce.endpoint import DatagramKind, Outgoing
from testbed.roce.memory import Buffer, Content, MemoryFault, Sink
from testbed.roce.queue_pair import State
from testbed.roce.rates import Fixed
from testbed.roce.rates.base import RateControl
from testbed.roce.sequence import psn, sequence
from testbed.roce.settings import CnpModeration, CnpScope, RoceError, Settings
from testbed.roce.work import Operation, Work
from testbed.units import Duration, Rate
from tests.unit.roce.roce_link import ECT_0, LINE, MOVES, PORT, SETTINGS, A, B, Link, Network, paced


def opcode(outgoing: Outgoing) -> int:
    return outgoing.datagram[0]


def written(link: Link, length: int, **more: Any) -> Work:
    """A write of octets that are all different in place, to memory that is as large."""
    key = link.memory(Buffer(length))
    return Work(Operation.WRITE, Content(1), length, r_key=key, **more)


def test_a_connection_carries_private_data_both_ways_and_is_ready_at_both_ends() -> None:
    link = Link(answer=lambda pair: b"welcome")
    link.until(lambda: link.near.state is State.READY)
    assert link.near.reply.startswith(b"welcome")
    assert link.far is not None
    assert link.far.state is State.READY


def test_hosts_with_addresses_of_both_versions_speak_over_that_of_the_address_they_are_given() -> None:
    link = Link(ends=("fd00::1", "fd00::2"))
    over_ipv4 = link.a.connect(B, PORT, 0)
    keys = [link.memory(Buffer(700)) for _ in range(2)]
    for pair, key in zip((link.near, over_ipv4), keys, strict=True):
        pair.post(Work(Operation.WRITE, Content(1), 700, r_key=key))
    link.until(lambda: link.near.requester.idle and over_ipv4.requester.idle)
    assert (link.near.far_address, over_ipv4.far_address) == ("fd00::2", B)
    assert {one.to for _, one in link.network.delivered} == {"fd00::1", "fd00::2", A, B}
    assert not link.a.refused + link.b.refused


def test_a_host_without_an_address_of_a_peers_version_says_so() -> None:
    with pytest.raises(RoceError, match=r"10\.0\.0\.1 is no IPv6 address, and fd00::2 is one"):
        Link().a.connect("fd00::2", PORT)


def test_each_end_begins_with_the_psn_that_the_other_end_asks_for() -> None:
    """REQ and REP of the CM say where the peer begins; a peer with a choice of its own is followed."""
    link = Link()
    target = Buffer(256 * 3)
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 3, r_key=link.memory(target)))
    link.near.requester.connected(1, 0xABCDE0)  # as a reply with another PSN does, after works have been posted
    assert link.near.requester.oldest == 0xABCDE0
    link.until(lambda: link.near.state is State.READY and link.near.requester.idle)
    assert target.octets == Content(1).read(0, 256 * 3)
    assert link.far is not None
    assert link.far.first == link.near.first == link.near.responder.expected


def test_a_datagram_from_another_port_than_the_rule_says_is_taken_if_its_port_is_known() -> None:
    link = Link()
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    path = roce.Path("10.0.0.2", "10.0.0.1", 50_000)
    cnp = path.seal(roce.encode(roce.Packet.cnp(link.near.number)))
    assert link.a.receive(cnp, 0, 0) is None
    assert link.a.refused == {"bad_icrc": 1}
    assert link.a.receive(cnp, 0, 0, source_port=50_000) is link.near


def test_a_request_that_is_lost_is_sent_again_and_a_reply_that_is_lost_too() -> None:
    lost: list[int] = []

    def lose(outgoing: Outgoing) -> bool:
        lost.append(1)
        return len(lost) in (1, 3)  # the first request, the first reply

    link = Link(Network(lose=lose))
    link.until(lambda: link.near.state is State.READY)
    assert len(link.b.queue_pairs) == 1


def test_a_connection_that_nothing_answers_fails_after_five_requests() -> None:
    sent: list[int] = []
    link = Link(Network(lose=lambda outgoing: not sent.append(link.now_ns)))
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure == "10.0.0.2 does not answer 5 requests"
    wait_ns = LINE.scale.lab(Duration("4ms")).ns
    assert sent == [0, wait_ns, 3 * wait_ns, 7 * wait_ns, 15 * wait_ns]
    assert link.now_ns == 31 * wait_ns
    assert link.a.is_settled


def test_ends_are_settled_when_each_message_of_a_connection_has_its_answer() -> None:
    link = Link(Network(delay_ns=1000))
    assert not link.a.is_settled
    assert link.b.is_settled
    link.until(lambda: link.near.state is State.READY)
    assert not link.a.is_settled  # its last message has not been sent
    assert not link.b.is_settled
    link.until(lambda: link.b.is_settled)
    assert link.a.is_settled
    assert link.now_ns == 3000


def test_an_answer_that_does_not_come_keeps_an_end_from_being_settled_for_some_time() -> None:
    count: list[int] = []
    link = Link(Network(lose=lambda outgoing: not count.append(1) and len(count) == 3))
    link.until(lambda: len(count) == 3)
    begin_ns = link.now_ns
    link.until(lambda: link.b.is_settled)
    assert link.a.is_settled
    delay_ns = link.network.delay_ns
    assert link.now_ns == begin_ns - delay_ns + 4 * LINE.scale.lab(Duration("4ms")).ns


def test_a_request_that_was_sent_again_too_early_keeps_both_ends_until_all_its_answers_have_come() -> None:
    wait_ns = LINE.scale.lab(Duration("4ms")).ns
    link = Link(Network(delay_ns=wait_ns))
    link.until(lambda: link.near.state is State.READY)
    assert link.now_ns == 2 * wait_ns  # the second request left after half of that
    link.until(lambda: link.a.is_settled and link.b.is_settled)
    assert link.now_ns == 4 * wait_ns  # REQ, REP, and RTU of the second
    assert len(link.b.queue_pairs) == 1


def test_few_connections_are_asked_for_at_a_time() -> None:
    sent: list[int] = []
    link = Link(Network(delay_ns=1000, lose=lambda outgoing: bool(sent.append(link.now_ns))))
    others = [link.a.connect(B, PORT) for _ in range(99)]
    link.until(lambda: link.a.is_settled and link.b.is_settled)
    assert all(one.state is State.READY for one in others)
    assert [one.number for one in others] == list(range(others[0].number, others[0].number + 99))
    assert link.now_ns == 4 * 2000 + 1000  # the first, whose moment is named, is one of the first 32
    assert sent.count(0) == 32


def test_a_service_that_refuses_and_one_that_is_not_there_fail_the_connection() -> None:
    link = Link(answer=lambda pair: None)
    other = link.a.connect("10.0.0.2", 1, 0)
    link.until(lambda: link.near.state is other.state is State.FAILED)
    assert link.near.failure == "10.0.0.2 refuses the connection, reason 28"
    assert other.failure == "10.0.0.2 refuses the connection, reason 8"


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 5000])
@pytest.mark.parametrize("operation", MOVES)
def test_each_operation_moves_every_octet(operation: Operation, length: int) -> None:
    link = Link()
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    far, near = Buffer(bytes(length) or b""), Buffer(length)
    content = Content(5).read(0, length)
    if operation is Operation.READ:
        far.octets[:] = content
    else:
        near.octets[:] = content
    link.far.responder.receive_into = far
    key = link.memory(far)
    number = link.near.post(Work(operation, near, length, r_key=key))
    link.until(lambda: link.near.requester.idle)
    (completed,) = link.near.requester.take_completed()
    assert completed.number == number
    assert far.octets == near.octets == content
    assert link.near.counters.retransmitted == 0


def test_immediate_data_and_sends_are_reported_to_the_receiver() -> None:
    link = Link()
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    link.far.responder.receive_into = Sink()
    link.near.post(Work(Operation.SEND, Content(1), 600))
    link.near.post(Work(Operation.SEND, Content(1), 3, immediate=77))
    link.near.post(written(link, 700, immediate=88))
    link.near.post(written(link, 700))
    link.until(lambda: link.near.requester.idle)
    assert [(one.octets, one.immediate) for one in link.far.responder.received] == [(600, None), (3, 77), (700, 88)]


def test_one_packet_in_four_and_the_last_ask_for_an_acknowledgement_and_each_gets_one() -> None:
    link = Link(rate_control=paced)
    link.near.post(written(link, 256 * 10))
    link.until(lambda: link.near.requester.idle)
    kinds = [opcode(one) for _, one in link.network.delivered if one.kind is DatagramKind.DATA]
    assert kinds.count(Opcode.ACKNOWLEDGE) == 3
    assert len(kinds) == 13


def test_a_slow_sender_asks_for_acknowledgements_before_its_timer_ends() -> None:
    slow = Rate("100kb/s")  # 27 ms for a packet: 64 of them take longer than the timer's second
    settings = Settings(mtu=256, ack_every=64)
    link = Link(settings=settings, rate_control=lambda line: Fixed(line, slow))
    link.near.post(written(link, 256 * 60))
    link.until(lambda: link.near.requester.idle)
    assert link.near.counters.timeouts == link.near.counters.retransmitted == 0


def test_packets_go_one_after_the_other_at_the_rate() -> None:
    link = Link(rate_control=paced)
    link.near.post(written(link, 256 * 40))
    link.until(lambda: link.near.requester.idle)
    times = [now_ns for now_ns, one in link.network.delivered if opcode(one) == Opcode.WRITE_MIDDLE]
    gaps = {after - before for before, after in itertools.pairwise(times)}
    # 12 of BTH, 256, 4 of ICRC and 66 around, at 50 Mb/s
    assert gaps == {338 * 8 * 20}


def test_at_line_rate_the_port_is_given_packets_ahead_and_never_more_than_it_sends_in_six_milliseconds() -> None:
    link = Link()
    link.near.post(written(link, 256 * 400))
    link.until(lambda: link.near.requester.idle)
    times = [now_ns for now_ns, one in link.network.delivered if opcode(one) == Opcode.WRITE_MIDDLE]
    gap_ns = 338 * 8 * 10
    ahead = [number - (now_ns - times[0]) / gap_ns for number, now_ns in enumerate(times)]
    assert 16 <= max(ahead) <= 64
    assert max(ahead) * gap_ns <= 6_000_000


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.SEND])
def test_packets_that_are_made_and_taken_together_are_those_made_and_taken_one_by_one(operation: Operation) -> None:
    together, single = Link(settings=Settings(mtu=256)), Link(settings=Settings(mtu=256))
    sinks = []
    for link in (together, single):
        link.until(lambda link=link: link.near.state is State.READY)  # type: ignore[misc]
        assert link.far is not None
        sinks.append(Sink())
        link.far.responder.receive_into = sinks[-1]
        link.near.post(Work(operation, Content(7), 256 * 40 + 9, r_key=link.memory(sinks[-1])))
    now_ns = together.now_ns + 10**9
    (first,) = together.near.transmit(now_ns, 1)
    run = together.near.transmit_run(now_ns)
    assert run is not None
    assert len(run) == 39
    assert together.near.transmit_run(now_ns) is None, "the last packet is another one"
    made = [first, *run.datagrams(), *together.near.transmit(now_ns, 9)]
    assert made == single.near.transmit(now_ns, 64)
    for name in ("counters", "deadline_ns"):
        assert getattr(together.near, name) == getattr(single.near, name)
    assert together.far is not None
    assert single.far is not None
    together.b.receive(made[0], ECT_0, now_ns)
    assert together.far.receive_run(run) == 39
    together.b.receive(made[-1], ECT_0, now_ns)
    for datagram in made:
        single.b.receive(datagram, ECT_0, now_ns)
    assert sinks[0].digest == sinks[1].digest == Content(7).digest(256 * 40 + 9)
    assert together.far.transmit(now_ns, 9) == single.far.transmit(now_ns, 9)
    assert (together.far.counters.received_packets, together.far.counters.received_octets) == (41, 256 * 40 + 9)


def run_of(datagrams: list[bytes]) -> PacketRun:
    heads, payload, icrcs = ([one[part] for one in datagrams] for part in (slice(12), slice(12, -4), slice(-4, None)))
    return PacketRun(256, b"".join(heads), b"".join(payload), b"".join(icrcs))


def changed(octets: bytes, place: int) -> bytes:
    return octets[:place] + bytes([octets[place] ^ 1]) + octets[place + 1 :]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_run_ends_where_a_packet_is_missing_damaged_or_another_one(is_known: bool) -> None:
    damages: list[tuple[int, Callable[[list[bytes]], object]]] = [
        (39, lambda run: None),
        (0, lambda run: run.pop(0)),
        (5, lambda run: run.pop(5)),
        (5, lambda run: run.insert(5, run[4])),
        (5, lambda run: run.insert(5, run[30])),
        *[
            (5, lambda run, at=at: run.__setitem__(5, changed(run[5], at)))
            for at in (0, 2, 7, 8, 9, 11, 12, 267, 268, 271)
        ],
        (0, lambda run: run.__setitem__(0, changed(run[0], 100))),
    ]
    for taken, damage in damages:
        link = Link(settings=Settings(mtu=256))
        sink = Sink(content=Content(1) if is_known else None)
        link.near.post(Work(Operation.WRITE, Content(1), 256 * 40 + 9, r_key=link.memory(sink)))
        link.until(lambda link=link: link.near.state is State.READY)  # type: ignore[misc]
        now_ns = link.now_ns + 10**9
        (first,) = link.near.transmit(now_ns, 1)
        made = link.near.transmit_run(now_ns)
        assert made is not None
        assert link.far is not None
        assert link.far.receive_run(made) == 0, "the first packet is missing"
        link.b.receive(first, ECT_0, now_ns)
        datagrams = made.datagrams()
        damage(datagrams)
        assert link.far.receive_run(run_of(datagrams)) == taken
        assert link.far.counters.received_packets == 1 + taken
        assert sink.received == 256 * (1 + taken)
        assert sink.digest == Content(1).digest(sink.received)


def test_one_lost_packet_costs_one_nak_and_what_was_sent_after_it() -> None:
    count = 0

    def lose(outgoing: Outgoing) -> bool:
        nonlocal count
        count += opcode(outgoing) == Opcode.WRITE_MIDDLE
        return opcode(outgoing) == Opcode.WRITE_MIDDLE and count == 3

    link = Link(Network(lose=lose))
    target = Buffer(256 * 30)
    key = link.memory(target)
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 30, r_key=key))
    link.until(lambda: link.near.requester.idle)
    assert target.octets == Content(1).read(0, 256 * 30)
    assert (link.near.counters.went_back, link.near.counters.timeouts) == (1, 0)
    naks = [one for _, one in link.network.delivered if opcode(one) == Opcode.ACKNOWLEDGE and one.datagram[12] == 0x60]
    assert len(naks) == 1
    assert link.far is not None
    assert link.near.counters.retransmitted == link.far.counters.out_of_order + 1


def test_the_last_packet_lost_is_sent_again_by_the_timer() -> None:
    lost: list[int] = []

    def lose(outgoing: Outgoing) -> bool:
        if opcode(outgoing) == Opcode.WRITE_LAST and not lost:
            lost.append(1)
            return True
        return False

    link = Link(Network(lose=lose), rate_control=paced)
    link.near.post(written(link, 2560))
    link.until(lambda: link.near.requester.idle)
    assert (link.near.counters.timeouts, link.near.counters.retransmitted) == (1, 2), "from the last acknowledged on"


def test_a_queue_pair_without_answers_fails_after_its_retries() -> None:
    link = Link(settings=Settings(mtu=256, retries=2))
    link.until(lambda: link.near.state is State.READY)
    link.network.loss = 1.0
    link.near.post(written(link, 100))
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure == "no acknowledgement after 2 retransmissions"
    assert link.near.requester.outstanding == 1


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (Work(Operation.WRITE, Content(1), 10, r_key=0x9999), "remote access error"),
        (Work(Operation.READ, Buffer(10), 10, r_key=0x9999), "remote access error"),
        (Work(Operation.WRITE, Content(1), 10, r_key=0x1000, remote_address=1), "remote access error"),
        (Work(Operation.SEND, Content(1), 10), "invalid request"),
    ],
)
def test_what_the_far_end_does_not_allow_fails_both_ends(work: Work, why: str) -> None:
    link = Link()
    assert link.memory(Buffer(10)) == 0x1000
    link.near.post(work)
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure.endswith(why)
    assert link.far is not None
    assert link.far.state is State.FAILED


def test_a_fault_of_the_far_memory_is_an_operational_error() -> None:
    link = Link()
    key = link.memory(Sink())
    link.near.post(Work(Operation.WRITE, Content(1), 10, remote_address=5, r_key=key))
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure.endswith("remote operational error")


@given(
    st.integers(0, 2**32),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.3),
    st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 6000)), min_size=1, max_size=6),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_octet_arrives_once_and_in_order_whatever_the_network_does(
    seed: int, loss: float, doubling: float, reordering: float, wanted: list[tuple[Operation, int]]
) -> None:
    link = Link(Network(seed=seed))
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    link.network.loss, link.network.doubling, link.network.reordering = loss, doubling, reordering
    sent, received = Content(3), Sink()
    link.far.responder.receive_into = received
    sends, checks = 0, []
    for operation, length in wanted:
        if operation is Operation.SEND:
            link.near.post(Work(operation, sent, length, local_address=sends))
            sends += length
        elif operation is Operation.WRITE:
            target = Buffer(length)
            link.near.post(Work(operation, sent, length, r_key=link.memory(target)))
            checks.append((target, length))
        else:
            target = Buffer(length)
            link.near.post(Work(operation, target, length, r_key=link.memory(Content(3))))
            checks.append((target, length))
    link.until(lambda: link.near.requester.idle or link.near.state is State.FAILED, 600 * 10**9)
    if link.near.state is State.FAILED:  # seven times in a row, which a loss of a fifth can bring about
        assert link.near.failure == "no acknowledgement after 7 retransmissions"
        assert loss > 0.02
        return
    assert (received.received, received.digest) == (sends, sent.digest(sends))
    for target, length in checks:
        assert target.octets == sent.read(0, length)
    assert [one.number for one in link.near.requester.take_completed()] == list(range(len(wanted)))


def test_marked_data_are_answered_by_at_most_one_cnp_in_each_interval() -> None:
    class Counting(RateControl):
        times: list[int] = []  # noqa: RUF012

        def on_cnp(self, now_ns: int) -> None:
            self.times.append(now_ns)

    link = Link(Network(marks=lambda now_ns: True), rate_control=Counting)
    link.near.post(written(link, 256 * 4000))
    link.until(lambda: link.near.requester.idle)
    assert link.far is not None
    assert link.far.counters.marked == 4000
    assert link.near.counters.cnps_received == link.far.counters.cnps_sent == len(Counting.times)
    gaps = [after - before for before, after in zip(Counting.times, Counting.times[1:], strict=False)]
    assert len(gaps) >= 1
    assert min(gaps) >= 50_000_000, "50 us at a scale of 1000"


@pytest.mark.parametrize(
    ("moderation", "cnps"), [(CnpModeration.FLOW, 2), (CnpModeration.ADDRESS, 1), (CnpModeration.NIC, 1)]
)
def test_an_interval_of_cnps_is_that_of_a_queue_pair_a_sender_or_the_nic(moderation: CnpModeration, cnps: int) -> None:
    link = Link(Network(marks=lambda now_ns: True), replace(SETTINGS, cnp_moderation=moderation))
    pairs = [link.near, link.a.connect(B, PORT, 0)]
    for pair in pairs:
        pair.post(written(link, 256))
    link.until(lambda: all(pair.requester.idle for pair in pairs))
    assert sum(pair.counters.cnps_received for pair in pairs) == cnps
    marked = roce.Packet(roce.Opcode.SEND_ONLY, 0, 0)
    both = [link.b.connect(address, PORT, 0) for address in (A, "10.0.0.3")]
    later_ns = link.now_ns + 10**9
    for pair in both:
        pair.receive(marked, True, later_ns)
    notified = [pair.notification(later_ns) is not None for pair in both]
    assert notified == [True, moderation is not CnpModeration.NIC]


@pytest.mark.parametrize(("scope", "slowed"), [(CnpScope.FLOW, [0]), (CnpScope.PRIORITY, [0, 1])])
def test_a_cnp_slows_its_flow_down_or_all_of_its_priority(scope: CnpScope, slowed: list[int]) -> None:
    link = Link(settings=replace(SETTINGS, cnp_scope=scope), rate_control="dcqcn")
    pairs = [link.near, *(link.a.connect(B, PORT, 0, rate_control="dcqcn") for _ in range(2))]
    pairs[2].priority = 4
    link.until(lambda: all(pair.state is State.READY for pair in pairs))
    assert link.near.far_path is not None
    cnp = link.near.far_path.seal(roce.encode(roce.Packet.cnp(link.near.number)))
    link.a.receive(cnp, 0, link.now_ns)
    assert [place for place, pair in enumerate(pairs) if pair.rate.rate_lab_bps < 100e6] == slowed


def test_the_reader_notifies_of_marked_responses_and_the_server_slows_down() -> None:
    link = Link(Network(marks=lambda now_ns: True))
    key = link.memory(Content(1))
    link.near.post(Work(Operation.READ, Buffer(100_000), 100_000, r_key=key))
    link.until(lambda: link.near.requester.idle)
    assert link.far is not None
    assert link.near.counters.cnps_sent == link.far.counters.cnps_received >= 1


def test_a_round_trip_is_measured_from_the_packet_that_asks_to_its_acknowledgement() -> None:
    class Listening(RateControl):
        found: list[int] = []  # noqa: RUF012

        def on_round_trip(self, now_lab_ns: int, round_trip_lab_ns: int) -> None:
            self.found.append(round_trip_lab_ns)

    link = Link(rate_control=Listening)
    link.near.post(written(link, 256 * 8))
    link.until(lambda: link.near.requester.idle)
    assert Listening.found[0] == 2 * 10_000


@pytest.mark.slow
def test_damaged_datagrams_change_nothing_but_counters() -> None:
    """Damage that the ICRC detects."""
    link, seeds = traffic_to_damage()
    dice = random.Random(16)
    target = Buffer(3000)
    link.near.post(Work(Operation.WRITE, Content(1), 3000, r_key=link.memory(target)))
    whole = {without_variant_bits(seed) for seed in seeds}
    for number in range(100_000):
        octets = damaged(dice, seeds)
        while without_variant_bits(octets) in whole:
            octets = damaged(dice, seeds)
        link.b.receive(octets, dice.randrange(256), link.now_ns)
        if number % 10_000 == 0:
            link.step()
    link.until(lambda: link.near.requester.idle)
    assert target.octets == Content(1).read(0, 3000)
    assert sum(link.b.refused.values()) == 100_000
    assert len(link.b.queue_pairs) == 1


@pytest.mark.slow
def test_damaged_datagrams_with_a_right_icrc_raise_nothing_and_fill_nothing() -> None:
    """Datagrams that a broken or hostile peer can send."""
    dice = random.Random(17)
    counted = 0
    while counted < 20_000:
        link, seeds = traffic_to_damage()
        assert link.far is not None and link.far.far_path is not None
        for _ in range(500):
            octets = link.far.far_path.seal(damaged(dice, seeds)[:-4])
            link.b.receive(octets, dice.randrange(256), link.now_ns)
            link.a.receive(octets, dice.randrange(256), link.now_ns)
            link.now_ns += 1000
            assert len(link.b.outgoing(link.now_ns)) < 200
            link.a.outgoing(link.now_ns)
            counted += 1
        assert len(link.b.queue_pairs) == 1


def traffic_to_damage() -> tuple[Link, list[bytes]]:
    """A link that is at rest, and one datagram of each kind that went over it."""
    link = Link(Network(marks=lambda now_ns: True))
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    link.far.responder.receive_into = Sink()
    memory = Buffer(4000)
    key = link.memory(memory)
    link.near.post(Work(Operation.WRITE, Content(1), 1000, r_key=key))
    link.near.post(Work(Operation.READ, Buffer(1000), 1000, r_key=key))
    link.near.post(Work(Operation.SEND, Content(1), 1000, immediate=1))
    link.until(lambda: link.near.requester.idle)
    return link, list({opcode(one): one.datagram for _, one in link.network.delivered}.values())


def without_variant_bits(octets: bytes) -> bytes:
    """Return the octets that the ICRC covers."""
    return octets[:4] + octets[5:]


def damaged(dice: random.Random, seeds: list[bytes]) -> bytes:
    octets = bytearray(dice.choice(seeds))
    for _ in range(dice.choice((1, 1, 2, 4))):
        place = dice.randrange(len(octets))
        match dice.randrange(4):
            case 0:
                octets[place] ^= 1 << dice.randrange(8)
            case 1:
                octets[place] = (octets[place] + dice.randrange(1, 256)) % 256
            case 2 if len(octets) > 8:
                del octets[dice.randrange(len(octets)) :][: dice.randrange(1, 9)]
                octets = octets or bytearray(1)
            case _:
                octets += dice.randbytes(dice.randrange(1, 40))
    return bytes(octets)


@given(st.integers(0, 2**40), st.integers(-(2**22), 2**22))
def test_a_psn_means_the_number_nearest_to_what_is_expected(near: int, distance: int) -> None:
    assert sequence(psn(near + distance), near) == near + distance


def test_psns_wrap_within_a_connection() -> None:
    link = Link()
    link.until(lambda: link.near.state is State.READY)
    assert link.far is not None
    requester = link.near.requester
    last = 2**24 - 3
    requester._oldest = requester._next = requester._highest = requester._end = last
    link.far.responder.expect(last)
    target = Buffer(256 * 9)
    link.near.post(Work(Operation.WRITE, Content(1), 256 * 9, r_key=link.memory(target)))
    link.until(lambda: requester.idle)
    assert target.octets == Content(1).read(0, 256 * 9)


@pytest.mark.parametrize("change", [{"mtu": 1000}, {"ack_every": 0}, {"retries": 255}, {"window": 0}])
def test_settings_that_cannot_be_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(RoceError, match=f"{next(iter(change))} is"):
        Settings(**change)  # type: ignore[arg-type]


def test_an_ack_timeout_is_a_code_for_the_retransmission_timer() -> None:
    assert Settings(ack_timeout=14) == replace(Settings(), ack_timeout=14)
    assert Settings(ack_timeout=1).retransmit_after.ns == 8192
    with pytest.raises(RoceError, match="ack_timeout is 32; InfiniBand has codes from 0 to 31"):
        Settings(ack_timeout=32)
    with pytest.raises(RoceError, match=r"ack_timeout is 3, which is .*, and retransmit_after 1ms; set one of them"):
        Settings(ack_timeout=3, retransmit_after=Duration("1ms"))


def test_a_request_for_a_connection_tells_the_timers_code_and_the_retries() -> None:
    asked: list[roce_cm.Request] = []
    link = Link(settings=replace(SETTINGS, retransmit_after=Settings().retransmit_after, ack_timeout=9, retries=3))
    link.until(lambda: link.near.state is State.READY)
    for _, outgoing in link.network.delivered:
        message, _ = roce_cm.parse(roce.parse(outgoing.datagram).payload)
        asked += [message] if isinstance(message, roce_cm.Request) else []
    assert [(one.ack_timeout, one.retries, one.rnr_retries) for one in asked] == [(9, 3, 7)]


def test_works_that_cannot_be_are_refused() -> None:
    with pytest.raises(RoceError, match="the local memory has 5"):
        Work(Operation.WRITE, Buffer(5), 6)
    with pytest.raises(RoceError, match="no immediate data"):
        Work(Operation.READ, Buffer(5), 5, immediate=1)


def test_a_sink_takes_octets_in_order_and_content_is_read_only() -> None:
    knowing = Sink(content=Content(1))
    knowing.write(0, Content(1).read(0, 100_000))
    assert (knowing.is_as_expected, knowing.digest) == (True, Content(1).digest(100_000))
    knowing.write(100_000, b"other")
    assert (knowing.is_as_expected, knowing.digest) == (False, "")
    sink = Sink()
    sink.write(0, b"ab")
    with pytest.raises(MemoryFault, match="2 is next"):
        sink.write(0, b"ab")
    with pytest.raises(MemoryFault, match="only read"):
        Content(1).write(0, b"a")
    assert Content(1).read(65_520, 200_000)[:3] == Content(1).read(65_520, 3)
    assert roce.PORT == 4791
    assert SETTINGS.mtu == 256


def rest_of(outgoing: Outgoing, octets: int) -> bytes:
    """Return what a switch leaves of a datagram."""
    return outgoing.datagram[:octets]


def test_a_rest_with_a_dscp_of_rests_counts_for_its_queue_pair_and_any_other_damage_does_not() -> None:
    link = Link()
    link.b.rests = frozenset({48})
    link.near.post(written(link, 1024))
    link.until(lambda: link.near.requester.idle)
    first, second, *_ = [one for _, one in link.network.delivered if opcode(one) in roce.WRITES]
    acknowledgement = next(one for _, one in link.network.delivered if opcode(one) == Opcode.ACKNOWLEDGE)
    assert link.far is not None
    received = link.far.counters.received_packets
    for octets in (12, 22, 86):  # no RETH, not all of it, some data
        link.b.receive(rest_of(first, octets), 48 << 2 | ECT_0, link.now_ns)
    link.b.receive(rest_of(second, 86), 48 << 2, link.now_ns)
    assert (link.far.counters.trimmed, dict(link.b.refused)) == (4, {"trimmed": 4})
    link.b.receive(second.datagram, 48 << 2, link.now_ns)  # one that was no longer than a rest
    assert (link.far.counters.trimmed, link.far.counters.received_packets) == (4, received + 1)
    link.b.receive(rest_of(second, 86), 26 << 2, link.now_ns)
    link.b.receive(rest_of(first, 11), 48 << 2, link.now_ns)  # no whole BTH: nobody knows whose it is
    link.a.rests = frozenset({48})
    link.a.receive(rest_of(acknowledgement, 14), 48 << 2, link.now_ns)  # no packet of data
    assert (link.far.counters.trimmed, link.near.counters.trimmed) == (4, 0)
    assert link.b.refused["bad_icrc"] + link.b.refused["bad_padding"] + link.b.refused["too_short"] == 2
