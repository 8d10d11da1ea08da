"""Connections between machines of one network: who may have one, and messages that are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.lab.partition import link
from testbed.lab.partition.link import Channel, LinkError, Listener, Membership, call

KEY, ALIKE = b"k" * 32, b"a" * 32


def member(number: int, key: bytes = KEY, alike: bytes = ALIKE) -> Membership:
    return Membership(key, number, alike)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def listener(said: list[str]) -> Iterator[Listener]:
    with closing(Listener("127.0.0.1", member(0), said.append)) as made:
        yield made


@pytest.fixture
def meeting(listener: Listener) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def pair() -> tuple[Channel, Channel]:
    ours, theirs = socket.socketpair()
    return Channel(1, ours, b"one", b"other"), Channel(0, theirs, b"other", b"one")


def test_two_machines_with_one_key_talk_in_both_directions(listener: Listener, meeting: ThreadPoolExecutor) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    calling = call(member(1), 0, listener.address)
    answering = answered.result()[1]
    calling.send(b"to you")
    answering.send(b"and back")
    assert (answering.receive(), calling.receive()) == (b"to you", b"and back")
    calling.close()
    with pytest.raises(LinkError, match="the other end has closed the connection"):
        answering.receive()


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(200), b"xoff parts 9\n" + bytes(200)])
def test_whoever_is_no_machine_of_the_run_is_refused_in_a_line_and_the_run_goes_on(
    first: bytes, listener: Listener, said: list[str], meeting: ThreadPoolExecutor
) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    with socket.create_connection(listener.address) as stranger:
        stranger.sendall(first)
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(5)
        with suppress(ConnectionResetError):  # as what it sent was not all read
            assert stranger.recv(1) == b""
    call(member(1), 0, listener.address).close()
    assert [*answered.result()] == [1]
    assert len(said) == 1
    assert said[0].startswith("a connection from 127.0.0.1:")
    assert "\n" not in said[0]


def test_a_machine_with_another_key_is_refused_on_both_sides(
    listener: Listener, said: list[str], meeting: ThreadPoolExecutor
) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    with pytest.raises(LinkError, match="the other end does not know the key of this run"):
        call(member(1, b"x" * 32), 0, listener.address)
    call(member(1), 0, listener.address).close()
    answered.result()
    assert [line.partition(" was refused: ")[2] for line in said] == ["the other end has closed the connection"]


def test_who_knows_no_key_and_goes_on_is_refused(
    listener: Listener, said: list[str], meeting: ThreadPoolExecutor
) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    with socket.create_connection(listener.address) as stranger:
        stranger.sendall(link._hello(member(1), 0) + bytes(32))
        stranger.settimeout(5)
        with suppress(ConnectionResetError):
            while stranger.recv(1000):
                pass
    call(member(1), 0, listener.address).close()
    answered.result()
    assert [line.partition(" was refused: ")[2] for line in said] == ["it does not know the key of this run"]


def test_another_version_with_the_key_ends_the_run_with_the_reason(
    listener: Listener, meeting: ThreadPoolExecutor
) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    with pytest.raises(LinkError, match="machine 0 of the run has another Xoff or another lab than machine 1"):
        call(member(1, alike=b"b" * 32), 0, listener.address)
    with pytest.raises(LinkError, match="machine 1 of the run has another Xoff or another lab than machine 0"):
        answered.result()


def test_a_machine_that_does_not_call_is_named(listener: Listener) -> None:
    with pytest.raises(LinkError, match=r"machine 1, 2 of the run has not called within 0\.05 s"):
        listener.await_([1, 2], 0.05)


def test_a_port_that_is_closed_is_named(listener: Listener) -> None:
    listener.close()
    with pytest.raises(LinkError, match=rf"127\.0\.0\.1 port {listener.address[1]} cannot be reached: "):
        call(member(1), 0, listener.address, 0.5)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 50))
@settings(max_examples=30, deadline=None)
def test_messages_come_whole_and_in_order_however_their_octets_do(messages: list[bytes], step: int) -> None:
    sending, receiving = pair()
    recorded, wire = socket.socketpair()
    sending.socket.close()
    sending.socket = recorded
    for message in messages:
        sending.send(message)
    recorded.shutdown(socket.SHUT_WR)
    octets = wire.makefile("rb").read()
    feeding, receiving.socket = socket.socketpair()

    def feed() -> None:
        for at in range(0, len(octets), step):
            feeding.sendall(octets[at : at + step])
        feeding.close()

    thread = threading.Thread(target=feed)
    thread.start()
    assert [receiving.receive() for _ in messages] == messages
    thread.join()
    for one in (recorded, wire, receiving.socket):
        one.close()


@given(st.binary(min_size=1, max_size=400))
@settings(max_examples=50, deadline=None)
def test_garbage_is_never_a_message(garbage: bytes) -> None:
    ours, receiving = pair()
    ours.socket.sendall(garbage)
    ours.socket.close()
    with pytest.raises(LinkError):
        receiving.receive()
    receiving.close()


@given(st.integers(0, 27), st.integers(1, 255))
@settings(max_examples=30, deadline=None)
def test_a_message_with_another_octet_is_refused(place: int, change: int) -> None:
    sending, receiving = pair()
    middle, wire = socket.socketpair()
    kept, sending.socket = sending.socket, middle
    sending.send(b"8 octets")
    octets = bytearray(wire.recv(100))
    octets[place] ^= change
    kept.sendall(octets)
    kept.close()
    with pytest.raises(LinkError):
        receiving.receive()
    for one in (middle, wire, receiving.socket):
        one.close()


def test_a_message_that_comes_twice_is_refused() -> None:
    sending, receiving = pair()
    sending.send(b"once")
    assert receiving.receive() == b"once"
    sending._sent = 0
    sending.send(b"once")
    with pytest.raises(LinkError, match="changed on its way"):
        receiving.receive()


def test_what_the_other_end_does_not_take_at_once_follows() -> None:
    sending, receiving = pair()
    large = bytes(range(256)) * (1 << 14)
    for _ in range(3):
        sending.send(large)  # no one receives yet, and it does not wait
    assert [receiving.receive() for _ in range(3)] == [large] * 3
    sending.close()
    receiving.close()
