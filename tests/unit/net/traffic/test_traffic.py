"""Pings that fail say so, and losses are compared with counters; without a network."""

from __future__ import annotations

from typing import Any, cast

import pytest

from testbed.experiment.run import Run
from testbed.net.traffic import PingError, ping, probe
from testbed.net.watch.description import account_for_losses
from testbed.units import Duration

ANSWER = "PING 10.0.0.2\n64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=1503 ms\n"
NONE = "PING 10.0.0.2\nFrom 10.0.0.1 icmp_seq=1 Destination Host Unreachable\n"


class Host:
    """A node whose pings have these outcomes, the last one for ever."""

    pid = 1

    def __init__(self, name: str, *answers: str) -> None:
        self._name, self._answers = name, list(answers)
        self.asked = 0

    def cmd(self, *words: str) -> str:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def IP(self) -> str:
        return "10.0.0.2"

    def __str__(self) -> str:
        return self._name


def test_a_ping_without_an_answer_is_an_error_that_names_both_ends_and_what_was_said() -> None:
    message = "a1 gets no answer from b1 (10.0.0.2) within 20ms: From 10.0.0.1 icmp_seq=1 Destination Host Unreachable"
    with pytest.raises(PingError) as raised:
        ping(Host("a1", NONE), Host("b1", NONE), Duration("20ms"))
    assert str(raised.value) == message


def test_a_ping_goes_on_when_the_kernel_gives_up_sooner() -> None:
    host = Host("a1", NONE, NONE, ANSWER)
    assert ping(host, Host("b1", "")) == Duration("1503ms")
    assert host.asked == 3


def test_a_probe_is_one_ping_with_or_without_an_answer() -> None:
    host = Host("a1", NONE)
    assert probe(host, Host("b1", "")) is None
    assert host.asked == 1
    assert probe(Host("a1", ANSWER), Host("b1", "")) == Duration("1503ms")


class Book:
    def __init__(self) -> None:
        self.claims: dict[str, tuple[Any, Any]] = {}

    def figure_of_each(self, name: str, value: Any) -> None: ...

    def claim(self, name: str, measured: Any, *, equals: Any) -> None:
        self.claims[name] = measured, equals


@pytest.mark.parametrize(
    ("lost", "counted", "unexplained"),
    [
        (10, {"buffer: headroom": 4, "cable": 5}, 1),
        (10, {"buffer: headroom": 10}, 0),
        (10, {"buffer: threshold": 12}, 0),
        (10, {}, 10),
        (0, {}, None),
        (10, None, None),
    ],
)
def test_what_no_counter_explains_is_claimed_to_be_nothing(
    lost: int, counted: dict[str, int] | None, unexplained: int | None
) -> None:
    book = Book()
    account_for_losses(cast(Run, book), lost, lambda: counted)
    claims = {} if unexplained is None else {"lost, and in no counter": (unexplained, 0)}
    assert book.claims == claims
