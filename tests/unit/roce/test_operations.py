"""Atomic operations, and sends that invalidate memory, between two RoCE endpoints."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.frames import roce
from testbed.frames.roce import Opcode, Packet
from testbed.roce.endpoint import Outgoing
from testbed.roce.memory import Buffer, Content, Region, Words
from testbed.roce.nic import Nic, NicTiming, Recovery
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.settings import RoceError
from testbed.roce.work import Operation, Work
from tests.unit.roce.roce_link import LINE, Link, Network

ADD, SWAP = Operation.FETCH_ADD, Operation.COMPARE_SWAP


def ready(network: Network | None = None, nic: NicTiming | None = None) -> tuple[Link, QueuePair]:
    """Return a link with a connection, and its far queue pair."""
    link = Link(network) if nic is None else Link(network, nic=nic)
    link.until(lambda: link.near.state is not State.CONNECTING)
    assert link.far is not None
    return link, link.far


def carry_out(link: Link, *works: Work) -> None:
    for work in works:
        link.near.post(work, link.now_ns)
    link.until(lambda: link.near.requester.idle or link.near.state is State.FAILED)


def test_fetch_and_add_changes_the_word_and_brings_back_what_was_there() -> None:
    link, _ = ready()
    far, near = Buffer((5).to_bytes(8, "little") * 2), Buffer(24)
    key = link.memory(far)
    carry_out(link, *(Work(ADD, near, 8, 8 * at, 8, key, data=data) for at, data in enumerate((3, 2**64 - 1, 1 << 63))))
    assert [int.from_bytes(near.octets[at : at + 8], "little") for at in (0, 8, 16)] == [5, 8, 7]
    assert far.octets == (5).to_bytes(8, "little") + (7 + (1 << 63)).to_bytes(8, "little")


def test_compare_and_swap_changes_the_word_if_it_is_equal() -> None:
    link, _ = ready()
    far, near = Words(1), Words(3)
    key = link.memory(far)
    swaps = [(0, 9), (0, 11), (9, 12)]
    carry_out(
        link, *(Work(SWAP, near, 8, 8 * at, 0, key, compare=one, data=new) for at, (one, new) in enumerate(swaps))
    )
    assert (near.words, far.words) == ([0, 9, 9], [12])


@pytest.mark.parametrize(
    ("region", "address", "key", "said"),
    [
        (Words(2), 16, 0x1000, "remote access error"),
        (Words(2), 4, 0x1000, "invalid request"),
        (Content(1), 0, 0x1000, "remote access error"),
        (Words(2), 0, 0x2000, "remote access error"),
    ],
)
def test_an_atomic_operation_where_none_can_be_is_refused(region: Region, address: int, key: int, said: str) -> None:
    link, far = ready()
    link.memory(region)
    carry_out(link, Work(ADD, Words(1), 8, 0, address, key, data=1))
    assert link.near.failure.endswith(said)
    assert far.failure.startswith(f"an atomic operation at {address}")


def test_what_is_no_atomic_operation_is_refused_before_it_is_sent() -> None:
    with pytest.raises(RoceError, match="fetch and add of 16 octets; it has 8"):
        Work(ADD, Words(2), 16)
    with pytest.raises(RoceError, match="a compare and swap has no immediate data"):
        Work(SWAP, Words(2), 8, immediate=1)
    with pytest.raises(RoceError, match="only a send without immediate data invalidates memory"):
        Work(Operation.WRITE, Words(2), 8, invalidate=1)


def test_an_operation_whose_answer_is_lost_is_not_done_again_and_gets_the_same_answer() -> None:
    lost: list[Outgoing] = []

    def lose(outgoing: Outgoing) -> bool:
        is_answer = outgoing.datagram[0] == Opcode.ATOMIC_ACKNOWLEDGE
        if is_answer:
            lost.append(outgoing)
        return is_answer and len(lost) <= 2

    link, far = ready(Network(lose=lose))
    words, near = Words(1), Words(2)
    key = link.memory(words)
    carry_out(link, *(Work(ADD, near, 8, 8 * at, 0, key, data=7) for at in (0, 1)))
    assert (words.words, near.words) == ([14], [0, 7])
    assert (far.counters.messages, far.counters.duplicates, far.counters.retransmitted) == (2, 2, 2)
    assert [roce.parse(one.datagram).original for one in lost] == [0, 7, 0, 7]


def test_of_operations_that_are_long_done_the_answer_is_forgotten() -> None:
    link, far = ready()
    words = Words(1)
    key = link.memory(words)
    carry_out(link, *(Work(ADD, Words(1), 8, 0, 0, key, data=1) for _ in range(20)))
    again = [
        packet
        for _, outgoing in link.network.delivered
        if (packet := roce.parse(outgoing.datagram)).opcode == Opcode.FETCH_ADD
    ]

    def answered(packet: Packet) -> bool:
        far.responder.on_request(packet, link.now_ns)
        return far.responder.has_response and far.responder.response().original is not None

    assert [answered(packet) for packet in again] == [False] * 4 + [True] * 16
    assert words.words == [20]


def test_no_more_of_them_are_under_way_than_the_nic_has_reads() -> None:
    link, _ = ready(nic=NicTiming(reads=2))
    key = link.memory(Words(1))
    for _ in range(4):
        link.near.post(Work(ADD, Words(1), 8, 0, 0, key, data=1), link.now_ns)
    asked = [roce.parse(one).opcode for one in link.near.transmit(link.now_ns, 9)]
    assert asked == [Opcode.FETCH_ADD] * 2


@given(
    seed=st.integers(0, 2**32),
    recovery=st.sampled_from(list(Recovery)),
    trouble=st.tuples(*[st.sampled_from([0.0, 0.02, 0.15])] * 3),
    reads=st.sampled_from([1, 3, 16]),
    works=st.lists(st.sampled_from([ADD, SWAP, Operation.READ, Operation.WRITE]), min_size=1, max_size=30),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_operation_is_done_once_and_in_order_whatever_the_network_does(
    *, seed: int, recovery: Recovery, trouble: tuple[float, float, float], reads: int, works: list[Operation]
) -> None:
    network = Network(seed=seed)
    link, _ = ready(network, NicTiming.of(Nic(reads=reads), recovery, LINE.scale))
    network.loss, network.doubling, network.reordering = trouble
    words, near = Words(1), Words(len(works))
    key, others = link.memory(words), link.memory(Buffer(3000))
    count, expected = 0, [0] * len(works)
    for at, operation in enumerate(works):
        if operation in (ADD, SWAP):
            expected[at] = count
            work = Work(operation, near, 8, 8 * at, 0, key, data=1, compare=count)
            if operation is SWAP:
                work = Work(operation, near, 8, 8 * at, 0, key, data=count + 1, compare=count)
            count += 1
        else:
            work = Work(operation, Buffer(700), 700, 0, 0, others)
        link.near.post(work, link.now_ns)
    link.until(lambda: link.near.requester.idle or link.near.state is State.FAILED, 600 * 10**9)
    if link.near.state is State.FAILED:
        assert link.near.failure == "no acknowledgement after 7 retransmissions"
        assert network.loss > 0.02
        return
    assert (words.words, near.words) == ([count], expected)


def test_a_send_that_invalidates_memory_ends_its_use() -> None:
    link, far = ready()
    far.responder.receive_into = Buffer(700)
    kept, gone = link.memory(Buffer(8)), link.memory(Buffer(8))
    content = Content(1)
    carry_out(
        link,
        Work(Operation.WRITE, content, 8, r_key=gone),
        Work(Operation.SEND, content, 700, invalidate=gone),
        Work(Operation.WRITE, content, 8, r_key=kept),
    )
    assert link.near.state is State.READY
    assert Opcode.SEND_LAST_INVALIDATE in [outgoing.datagram[0] for _, outgoing in link.network.delivered]
    assert far.counters.received == 1
    carry_out(link, Work(Operation.WRITE, content, 8, r_key=gone))
    assert link.near.failure.endswith("remote access error")


def test_a_send_that_invalidates_what_is_no_memory_is_refused() -> None:
    link, far = ready()
    far.responder.receive_into = Buffer(8)
    carry_out(link, Work(Operation.SEND, Content(1), 8, invalidate=0x77))
    assert far.failure == "a send invalidates key 0x77, which no memory has"
    assert link.near.failure.endswith("remote access error")
