"""Unreliable connections, datagrams and shared receive queues, between RoCE endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.frames import roce, roce_cm
from testbed.frames.roce import Deth, Opcode, Packet, Service
from testbed.net.traffic import Flow
from testbed.net.traffic.roce import Roce
from testbed.roce.endpoint import Endpoint, Outgoing
from testbed.roce.memory import Buffer, Content, Scattered
from testbed.roce.nic import Nic, NicTiming, Recovery
from testbed.roce.queue_pair import QueuePair, State
from testbed.roce.rates.fixed import Fixed
from testbed.roce.services.receives import Receives
from testbed.roce.services.unreliable_responder import DatagramResponder, UnreliableResponder
from testbed.roce.settings import RoceError, Settings
from testbed.roce.source_port import from_number
from testbed.roce.work import AddressHandle, Operation, Work
from testbed.units import Duration
from tests.unit.roce.roce_link import LINE, SETTINGS, A, B, Link, Network, paced

MTU = SETTINGS.mtu
WRITE, SEND = Operation.WRITE, Operation.SEND
BOTH_VERSIONS = pytest.mark.parametrize("ends", [(A, B), ("fd00::1", "fd00::2")])


def ready(service: Service, network: Network | None = None, **more: Any) -> tuple[Link, QueuePair]:
    """Return a link with a connection, or queue pairs that know each other, and its far queue pair."""
    link = Link(network, service=service, **more)
    link.until(lambda: link.near.state is not State.CONNECTING)
    assert link.far is not None
    return link, link.far


def carry_out(link: Link, *works: Work) -> None:
    for work in works:
        link.near.post(work, link.now_ns)
    link.until(lambda: link.near.requester.idle)
    link.run(10_000_000)


def losing(*places: int, opcodes: Callable[[int], bool] = lambda opcode: opcode < Opcode.DATAGRAM) -> Network:
    """Return a network that loses the packets of data at these places."""
    count = iter(range(10_000))
    return Network(lose=lambda outgoing: opcodes(outgoing.datagram[0]) and next(count) in places)


def opcodes(link: Link) -> list[Opcode]:
    """Return the opcodes that were delivered, but for those of connection management."""
    packets = [roce.parse(one.datagram) for _, one in link.network.delivered]
    return [packet.opcode for packet in packets if packet.destination_qp != roce_cm.CM_QP]


@BOTH_VERSIONS
def test_an_unreliable_connection_carries_writes_and_sends_without_an_acknowledgement(ends: tuple[str, str]) -> None:
    link, far = ready(Service.UC, ends=ends)
    room, into, content = Buffer(3 * MTU), Buffer(1000), Content(1)
    far.responder.receive_into = into
    key = link.memory(room)
    carry_out(
        link,
        Work(WRITE, content, 3 * MTU, r_key=key),
        Work(SEND, content, 100, 7),
        Work(WRITE, content, MTU, r_key=key, immediate=5),
        Work(SEND, content, 2 * MTU, immediate=6),
    )
    assert opcodes(link) == [
        Opcode.UC_WRITE_FIRST, Opcode.UC_WRITE_MIDDLE, Opcode.UC_WRITE_LAST, Opcode.UC_SEND_ONLY,
        Opcode.UC_WRITE_ONLY_IMMEDIATE, Opcode.UC_SEND_FIRST, Opcode.UC_SEND_LAST_IMMEDIATE,
    ]  # fmt: skip
    assert room.octets == content.read(0, 3 * MTU)
    assert into.octets == (content.read(7, 100) + content.read(0, 2 * MTU)).ljust(1000, b"\0")
    assert [(one.octets, one.immediate) for one in far.responder.received] == [(100, None), (MTU, 5), (2 * MTU, 6)]
    assert (link.near.counters.completed, far.counters.messages) == (4, 4)


def test_a_gap_drops_the_rest_of_its_message_and_the_next_one_is_taken() -> None:
    link, far = ready(Service.UC, losing(1))
    into = far.responder.receive_into = Buffer(1000)
    content = Content(1)
    carry_out(link, Work(SEND, content, 4 * MTU), Work(SEND, content, MTU, 9))
    assert into.octets[:MTU] == content.read(9, MTU)
    assert (far.counters.incomplete, far.counters.dropped, far.counters.messages) == (1, 2, 1)
    assert link.near.counters.completed == 2
    assert link.near.counters.retransmitted == 0


@pytest.mark.parametrize(("lost", "dropped", "incomplete", "messages"), [(0, 2, 1, 2), (2, 0, 1, 2), (3, 0, 0, 2)])
def test_a_first_packet_a_last_one_and_a_whole_message_may_be_lost(
    lost: int, dropped: int, incomplete: int, messages: int
) -> None:
    link, far = ready(Service.UC, losing(lost))
    far.responder.receive_into = Buffer(5000)
    carry_out(link, Work(SEND, Content(1), 3 * MTU), Work(SEND, Content(1), 1), Work(SEND, Content(1), 3 * MTU))
    counters = far.counters
    assert (counters.dropped, counters.incomplete, counters.messages) == (dropped, incomplete, messages)


def test_a_write_over_uc_to_memory_that_is_not_there_is_dropped_with_its_reason() -> None:
    link, far = ready(Service.UC)
    key = link.memory(Buffer(MTU))
    carry_out(link, Work(WRITE, Content(1), 2 * MTU, r_key=key), Work(WRITE, Content(1), MTU, r_key=key))
    assert (far.counters.no_access, far.counters.dropped, far.counters.messages) == (1, 1, 1)
    assert (link.near.state, far.state) == (State.READY, State.READY)


@BOTH_VERSIONS
def test_a_datagram_goes_to_its_queue_pair_behind_room_for_a_global_routing_header(ends: tuple[str, str]) -> None:
    link, far = ready(Service.UD, ends=ends)
    into = far.responder.receive_into = Buffer(1000)
    content = Content(1)
    carry_out(link, Work(SEND, content, 100), Work(SEND, content, MTU, immediate=9))
    assert opcodes(link) == [Opcode.DATAGRAM, Opcode.DATAGRAM_IMMEDIATE]
    assert into.octets[:180] == bytes(40) + content.read(0, 100) + bytes(40)
    assert into.octets[180 : 180 + MTU] == content.read(0, MTU)
    received = [(one.octets, one.immediate, one.source_qp) for one in far.responder.received]
    assert received == [(140, None, link.near.number), (40 + MTU, 9, link.near.number)]


def test_each_datagram_may_go_to_another_queue_pair() -> None:
    third = Endpoint("10.0.0.3", LINE, SETTINGS)
    link, far = ready(Service.UD)
    far.responder.receive_into = Buffer(1000)
    other = third.join(A, 0, first=0, service=Service.UD, q_key=9)
    other.responder.receive_into = Buffer(1000)
    handle = AddressHandle("10.0.0.3", other.number, 9)
    for to in (None, handle, None, AddressHandle("10.0.0.3", other.number, 8)):
        link.near.post(Work(SEND, Content(1), 5, to=to), link.now_ns)
    sent: list[Outgoing] = []
    while not link.near.requester.idle:
        link.now_ns = max(link.now_ns, link.near.deadline_ns)
        sent += link.a.outgoing(link.now_ns)
    assert [one.to for one in sent] == [B, "10.0.0.3", B, "10.0.0.3"]
    for one in sent:
        port = from_number(link.near.number)
        (third if one.to == "10.0.0.3" else link.b).receive(one.datagram, 3, link.now_ns, port, A)
    assert (far.counters.messages, other.counters.messages, other.counters.other_keys) == (2, 1, 1)
    (notification,) = third.outgoing(link.now_ns)
    assert (notification.to, roce.parse(notification.datagram).destination_qp) == (A, link.near.number)


def test_datagrams_that_cannot_be_taken_are_dropped_with_their_reasons() -> None:
    link, far = ready(Service.UD)
    far.responder.receive_into = Buffer(40 + 100)

    def take(octets: int, key: int) -> None:
        packet = Packet(Opcode.DATAGRAM, far.number, 0, bytes(octets), deth=Deth(key, link.near.number))
        link.b.receive(link.near.path.seal(roce.encode(packet)), 0, link.now_ns)

    for octets, key in ((MTU + 4, roce_cm.DATAGRAM_KEY), (101, roce_cm.DATAGRAM_KEY), (8, 1)):
        take(octets, key)
    assert (far.counters.too_long, far.counters.other_keys, far.counters.messages) == (2, 1, 0)
    take(100, roce_cm.DATAGRAM_KEY)
    assert far.counters.messages == 1
    assert far.responder.answer(link.now_ns) is None


@pytest.mark.parametrize(
    ("service", "work", "said"),
    [
        (Service.UC, Work(Operation.READ, Buffer(8), 8), "UC has no read; it has write and send alone"),
        (Service.UC, Work(Operation.FETCH_ADD, Buffer(8), 8), "UC has no fetch and add; it has write and send alone"),
        (Service.UC, Work(SEND, Buffer(8), 8, invalidate=1), "UC has no send that invalidates memory"),
        (Service.UD, Work(WRITE, Buffer(8), 8), "UD has no write; it has send alone"),
        (Service.UD, Work(SEND, Content(1), 257), "a datagram of 257 octets; it is one packet, so it has up to 256"),
        (Service.UC, Work(SEND, Buffer(8), 8, to=AddressHandle(B, 1, 1)), "send over UC has no address handle"),
        (Service.RC, Work(SEND, Buffer(8), 8, to=AddressHandle(B, 1, 1)), "send over RC has no address handle"),
    ],
)
def test_a_work_that_a_service_does_not_have_is_refused_before_it_is_sent(
    service: Service, work: Work, said: str
) -> None:
    link, _ = ready(service)
    with pytest.raises(RoceError, match=said):
        link.near.post(work)


def test_a_connection_is_refused_where_another_service_listens() -> None:
    link = Link(service=Service.UC)
    other = link.a.connect(B, 5000, 0, service=Service.UD)
    reliable = link.a.connect(B, 5000, 0)
    link.until(lambda: State.CONNECTING not in (link.near.state, other.state, reliable.state))
    assert link.near.state is State.READY
    assert other.failure == "10.0.0.2 has no queue pair for datagrams of this service, status 1"
    assert reliable.failure == "10.0.0.2 refuses the connection, reason 8"


def test_a_packet_of_another_service_is_refused() -> None:
    link, far = ready(Service.RC)
    for opcode, deth in ((Opcode.UC_SEND_ONLY, None), (Opcode.DATAGRAM, Deth(roce_cm.DATAGRAM_KEY, 1))):
        packet = Packet(opcode, far.number, 0, deth=deth)
        link.b.receive(link.near.path.seal(roce.encode(packet)), 0, link.now_ns)
    assert link.b.refused == {"other_service": 2}
    assert far.counters.received_packets == 0


def nic(receives: int, limit: int = 0, takes: str = "10us", recovery: Recovery = Recovery.GO_BACK_N) -> NicTiming:
    shared = Nic(
        receives=receives, receive_takes=Duration(takes), shares_receives=True, receive_limit=limit,
        rnr_timer=Duration("10us"),
    )  # fmt: skip
    return NicTiming.of(shared, recovery, LINE.scale)


def test_a_shared_queue_tells_once_that_it_has_fewer_receives_than_its_limit() -> None:
    queue = Receives(nic(4, 2, "1us"))
    told = [queue.take(0) for _ in range(4)]
    assert told == [False, False, True, False]
    assert queue.free(0) == 0
    for _ in range(4):
        queue.post_again(0)
    assert [queue.free(at) for at in (0, 1, 10**6, 2 * 10**6 + 1, 4 * 10**6)] == [0, 0, 1, 2, 4]
    assert [queue.take(2 * 10**6 + 1), queue.take(4 * 10**6)] == [True, False]


def test_without_a_number_there_is_always_a_receive() -> None:
    queue = Receives(NicTiming())
    assert [(queue.free(0), queue.take(0)) for _ in range(3)] == [(1, False)] * 3


@pytest.mark.parametrize("service", [Service.RC, Service.UC, Service.UD])
def test_queue_pairs_share_receives_and_wait_or_drop_without_one(service: Service) -> None:
    link, first = ready(service, nic=nic(2, 1))
    pairs: list[QueuePair] = []
    link.b.listen(6000, lambda request, pair: pairs.append(pair) or b"", nic=nic(2, 1), service=service)
    second = link.a.connect(B, 6000, link.now_ns, service=service)
    link.until(lambda: second.state is State.READY)
    (other,) = pairs
    for pair in (first, other):
        pair.responder.receive_into = Buffer(10_000)
    for near in (link.near, second):
        for _ in range(8):
            near.post(Work(SEND, Content(1), 100), link.now_ns)
    link.until(lambda: link.near.requester.idle and second.requester.idle, 10**12)
    link.run(10**9)
    messages, dropped = (
        [getattr(pair.counters, name) for pair in (first, other)] for name in ("messages", "no_receive")
    )
    waited = link.near.counters.rnr_naks + second.counters.rnr_naks
    assert first.counters.limit_events + other.counters.limit_events >= 1
    if service is Service.RC:
        assert (messages, dropped) == ([8, 8], [0, 0])
        assert waited > 0
    else:
        assert [one + lost for one, lost in zip(messages, dropped, strict=True)] == [8, 8]
        assert sum(dropped) > 0
        assert waited == 0


def test_a_message_that_ends_badly_gives_its_receive_back() -> None:
    link, far = ready(Service.RC, losing(*range(1, 99)), nic=nic(1))
    far.responder.receive_into = Buffer(1000)
    assert far.responder._receives is not None
    link.near.post(Work(SEND, Content(1), 3 * MTU), link.now_ns)
    link.until(lambda: far.counters.received_packets == 1)
    assert far.responder._receives.free(link.now_ns) == 0
    far.fail("by hand")
    assert far.responder._receives.free(link.now_ns) == 1


@given(
    seed=st.integers(0, 2**32),
    service=st.sampled_from([Service.UC, Service.UD]),
    trouble=st.tuples(*[st.sampled_from([0.0, 0.02, 0.2])] * 3),
    packets=st.integers(1, 5),
    many=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_comes_whole_is_as_it_was_sent_and_the_rest_is_dropped(
    *, seed: int, service: Service, trouble: tuple[float, float, float], packets: int, many: int
) -> None:
    network = Network(seed=seed)
    link, far = ready(service, network, rate_control=paced)
    network.loss, network.doubling, network.reordering = trouble
    content, responder = Content(3), far.responder
    assert isinstance(responder, UnreliableResponder)
    message = MTU if service is Service.UD else packets * MTU - 10
    sink = responder.receive_into = Scattered(content)
    responder.place_by_number(message)
    for place in range(many):
        link.near.post(Work(SEND, content, message, place * message), link.now_ns)
    link.until(lambda: link.near.requester.idle)
    link.run(10**9)
    assert sink.is_as_expected
    assert sink.received == message * far.counters.messages
    if network.doubling == network.reordering == 0:
        assert far.counters.messages <= many
    if network.loss == network.reordering == network.doubling == 0:
        assert far.counters.messages == many
    assert isinstance(link.near.rate, Fixed)
    assert isinstance(responder, DatagramResponder) is (service is Service.UD)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"service": "XRC"}, "service is 'XRC'; RoCE has RC, UC, UD"),
        ({"service": "UC", "operation": "read"}, "operation is 'read', and service UC has write and send alone"),
        ({"service": "UC", "operation": "fetch and add"}, "'fetch and add', and service UC has write and send alone"),
        ({"service": "UD", "operation": "read"}, "operation is 'read', and service UD has send alone"),
        ({"service": "UD", "message": "1025B"}, "message is 1025B; over UD it is one packet, up to 1024B here"),
        ({"operation": "fetch and add", "message": "64kB"}, "message is 64kB; a fetch and add has 8B"),
    ],
)
def test_what_a_service_does_not_have_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Flow("h1", "r", count=1, transport=Roce(**given))


def test_a_datagram_is_a_full_packet_by_default() -> None:
    transport = Roce(service="UD", settings=Settings(mtu=4096))
    assert (transport.operation, transport.message.bytes) == ("send", 4096)
    assert (Roce().operation, Roce("fetch and add").message.bytes) == ("write", 8)
