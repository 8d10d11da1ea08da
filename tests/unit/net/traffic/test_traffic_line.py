"""The line of a port limits what its senders give it, and only where the port drops."""

from __future__ import annotations

import pytest

from testbed.net.traffic.transport import Line
from testbed.units import Rate, Size

FRAME, BUFFER = Size("1514B"), Size("256kB")
RATE = Rate("10Mb/s")
FRAME_NS = (1514 + 24) * 800
HELD = 256_000 // 2304
"""Frames in a full socket: the kernel counts 2304 octets for each."""


def line(*buffers: Size, batch: int = 32) -> Line:
    made = Line(RATE, [0])
    for buffer in buffers:
        made.share(buffer, FRAME, batch)
    return made


def dropped(limit: Line, until_ns: int, senders: int = 1, batch: int = 32, begin_ns: int = 0) -> list[int]:
    """Frames that each of some senders gives to a port that frees their sockets at once."""
    given, now = [0] * senders, [begin_ns] * senders
    while min(now) < until_ns:
        own = now.index(min(now))
        now[own] += limit.take(now[own], batch * limit.frame_ns(FRAME)) + 1000
        given[own] += batch
    return given


@pytest.mark.parametrize("senders", [1, 2, 8])
def test_a_port_that_drops_is_given_what_its_line_takes_and_what_sockets_hold(senders: int) -> None:
    """However many senders it has: 300 ms at 10 Mb/s are 244 frames."""
    given = dropped(line(*[BUFFER] * senders), 300_000_000, senders)
    assert 300_000_000 // FRAME_NS <= sum(given) <= 300_000_000 // FRAME_NS + senders * (HELD + 82)


def test_senders_have_their_turn_one_after_the_other() -> None:
    given = dropped(line(BUFFER, BUFFER, BUFFER), 60_000_000_000, 3)
    assert max(given) - min(given) <= 32


def test_a_long_pause_earns_a_sender_no_more_than_its_socket_holds() -> None:
    limit = line(BUFFER)
    before = sum(dropped(limit, 100_000_000))
    after = sum(dropped(limit, 60_100_000_000, begin_ns=60_000_000_000))
    assert after <= before


@pytest.mark.parametrize("senders", [1, 3])
@pytest.mark.parametrize("batch", [1, 32])
def test_a_port_that_sends_is_never_waited_for(senders: int, batch: int) -> None:
    """A port that is paused now and then, and sockets that are filled as soon as there is room in them."""
    limit = line(*[BUFFER] * senders, batch=batch)
    held, now, sent = [0] * senders, 0, 0
    while now < 5_000_000_000:
        for own in range(senders):
            while held[own] < HELD + 1:
                many = min(batch, HELD + 1 - held[own])
                assert limit.take(now, batch * limit.frame_ns(FRAME)) == 0
                limit.give_back((batch - many) * limit.frame_ns(FRAME))
                held[own] += many
        now += FRAME_NS
        if now // 400_000_000 % 3 != 1:
            held[sent % senders] -= 1
            sent += 1
    assert sent > 2500


def test_a_socket_has_the_kernels_least_buffer_whatever_it_asks_for() -> None:
    """The sender is not stopped before it has filled the buffer, which is two frames."""
    limit = line(Size("1B"), batch=1)
    for _ in range(2 + 2):
        assert limit.take(0, limit.frame_ns(FRAME)) == 0
