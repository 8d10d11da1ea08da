"""Batches of datagrams over a pair of sockets of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from testbed.linux.sockets import mmsg

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        yield one, other


@pytest.mark.parametrize("size", [16, 18, 22, 1472])
def test_each_datagram_of_a_batch_has_its_own_words(pair: Pair, size: int) -> None:
    sender, receiver = mmsg.Sender(pair[0], size, 4), mmsg.Receiver(pair[1], 4)
    for first in (7, 2**63):
        sender.write(0, range(first, first + 3), 3)
        sender.write(1, [99] * 3, 3)
        assert sender.send(3) == 3
        assert receiver.receive() == 3
        assert receiver.words(0, 3) == list(range(first, first + 3))
        assert receiver.words(1, 3) == [99] * 3
    assert receiver.receive() == 0


def test_a_datagram_is_as_long_as_asked_for(pair: Pair) -> None:
    sender = mmsg.Sender(pair[0], 21, 2)
    sender.write(0, [1, 2], 2)
    sender.send(2)
    assert [pair[1].recv(100) for _ in range(2)] == [bytes([number]) + bytes(20) for number in (1, 2)]


@pytest.mark.parametrize("values", [[1], [1, 2, 3]])
def test_a_word_takes_as_many_values_as_there_are_datagrams(pair: Pair, values: list[int]) -> None:
    sender = mmsg.Sender(pair[0], 16, 4)
    with pytest.raises(ValueError, match="different structures"):
        sender.write(0, values, 2)


def test_a_receiver_of_longer_datagrams_has_each_whole(pair: Pair) -> None:
    receiver = mmsg.Receiver(pair[1], 4, 200)
    sent = [bytes([number]) * (150 + number) for number in range(3)]
    mmsg.send_all(pair[0], sent)
    assert receiver.receive() == 3
    assert receiver.datagrams(3) == sent


def test_a_receiver_in_parts_has_each_part_of_all_together_and_each_datagram_whole(pair: Pair) -> None:
    receiver = mmsg.Receiver(pair[1], 4, 12, 100, 64)
    sent = [bytes([number]) * length for number, length in enumerate((3, 12, 60, 116), 1)]
    mmsg.send_all(pair[0], sent)
    assert receiver.receive() == 4
    assert receiver.lengths(4) == [3, 12, 60, 116]
    assert receiver.datagrams(4) == sent
    assert receiver.datagram(2, 60) == sent[2]
    assert receiver.part(0, 1, 4) == b"\2" * 12 + b"\3" * 12 + b"\4" * 12
    assert receiver.part(1, 3, 4) == b"\4" * 100
    assert receiver.part(2, 3, 4)[:4] == b"\4" * 4


def test_a_burst_goes_to_one_address_without_a_connection() -> None:
    datagrams = socket.AF_INET, socket.SOCK_DGRAM
    with socket.socket(*datagrams) as sender, socket.socket(*datagrams) as receiver:
        receiver.bind(("127.0.0.1", 0))
        burst = mmsg.Burst(sender, "127.0.0.1", receiver.getsockname()[1], (2, 3), 8)
        assert burst.send(2, b"fiag", b"rstain") == 2
        assert burst.send(1, b"th", b"ird") == 1
        assert [receiver.recv(10) for _ in range(3)] == [b"first", b"again", b"third"]
