"""Connections between machines of one network: who may have one, and messages that are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress

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
        stranger.settimeout(5)
        with suppress(OSError):  # as what it sent was not all read
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(100):
                pass
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
    assert [line.partition(" was refused: ")[2] for line in said] == ["it does not know the key of this run"]


def test_who_repeats_what_a_machine_said_and_proves_nothing_is_refused(
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


def test_a_hello_is_good_for_one_connection(listener: Listener, said: list[str], meeting: ThreadPoolExecutor) -> None:
    answered = meeting.submit(listener.await_, [1], 5.0)
    hello = link._hello(member(1), 0)
    with socket.create_connection(listener.address) as first, socket.create_connection(listener.address) as second:
        for stranger in (first, second):
            stranger.sendall(hello)
            assert len(link.exactly(stranger, len(hello) + 32)) == len(hello) + 32
        call(member(1), 0, listener.address).close()
        answered.result()
    assert [line.partition(" was refused: ")[2] for line in said] == [
        "it repeats what a machine of this run has said",
        "it had not proved the key when the wait was over",
    ]


@pytest.mark.parametrize("say", [b"", b"x"])
def test_strangers_who_are_silent_or_slow_take_no_place(
    say: bytes, listener: Listener, said: list[str], meeting: ThreadPoolExecutor
) -> None:
    answered = meeting.submit(listener.await_, [1, 2], 60.0)
    with ExitStack() as strangers:

        def come(many: int) -> None:
            for _ in range(many):
                strangers.enter_context(socket.create_connection(listener.address)).sendall(say)

        come(link._MOST_STRANGERS)
        early = call(member(1), 0, listener.address)
        come(3 * link._MOST_STRANGERS)
        late = call(member(2), 0, listener.address)
        assert sorted(answered.result()) == [1, 2]
        early.close()
        late.close()
    assert said[0].endswith("others called, and it had said nothing with the key of this run")
    assert said[link._MOST_LINES :] == [f"{4 * link._MOST_STRANGERS - link._MOST_LINES} more connections were refused"]


def test_a_caller_that_says_octet_by_octet_has_one_time_in_all(
    listener: Listener, said: list[str], meeting: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_PROVES_WITHIN_S", 0.2)
    answered = meeting.submit(listener.await_, [1], 60.0)
    with socket.create_connection(listener.address) as stranger:
        stranger.settimeout(0.005)
        for octet in link._hello(member(1), 0)[:-1]:
            with suppress(OSError):
                stranger.send(bytes([octet]))
                if stranger.recv(1) == b"":
                    break
        else:
            pytest.fail("it was heard to its end")
    call(member(1), 0, listener.address).close()
    answered.result()
    assert [line.partition(" was refused: ")[2] for line in said] == ["it has not proved the key within 0.2 s"]


def test_a_caller_that_was_closed_unheard_calls_again(meeting: ThreadPoolExecutor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> Channel:
            for _ in range(2):
                door.accept()[0].close()
            taken = Listener("127.0.0.1", member(0), lambda _: None)
            taken._server.close()
            taken._server = door
            door.setblocking(False)
            return taken.await_([1], 5.0)[1]

        answered = meeting.submit(answer)
        calling = call(member(1), 0, door.getsockname())
        calling.send(b"at last")
        assert answered.result().receive() == b"at last"
        calling.close()
        answered.result().close()


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
