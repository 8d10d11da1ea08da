"""Faults of rate controls in Python: each ends its queue pair alone, and names what happened and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.roce.memory import Buffer, Content, Sink
from testbed.roce.queue_pair import State
from testbed.roce.rates.base import RateControl
from testbed.roce.work import Operation, Work
from testbed.units import Line
from tests.unit.roce.roce_link import Link, Network


class Divides(RateControl):
    def on_sent(self, now_lab_ns: int, octets: int) -> None:
        self.rate_lab_bps /= 0  # division


class HasNoAttribute(RateControl):
    def on_cnp(self, now_lab_ns: int) -> None:
        self.rate_lab_bps = self.halved()  # type: ignore[attr-defined]  # attribute


class IsWrongAtItsDeadline(RateControl):
    deadlines: tuple[int, ...] = (1,)

    @property
    def deadline_lab_ns(self) -> int:
        return self.deadlines[1]  # deadline


class StandsStill(RateControl):
    deadline_lab_ns = 0


class HasNoRate(RateControl):
    def on_round_trip(self, now_lab_ns: int, round_trip_lab_ns: int) -> None:
        self.rate_lab_bps = float("nan")


class HasNoRateFromTheBegin(RateControl):
    def __init__(self, line: Line) -> None:
        super().__init__(line)
        self.rate_lab_bps = 0


class HasNoWindow(RateControl):
    counts_acknowledgements = True

    def on_loss(self, now_lab_ns: int) -> None:
        self.window = 0


def place(of: str) -> str:
    """Return the file and line of what is marked here by a comment, or of a method in this class."""
    lines = Path(__file__).read_text().splitlines()
    return f"{Path(__file__).name}:{next(number for number, line in enumerate(lines, 1) if of in line)}"


@pytest.mark.parametrize(("control", "fault", "at"), [
    (Divides, "a division by 0", "# division"),
    (HasNoAttribute, "AttributeError: 'HasNoAttribute' object has no attribute 'halved'", "# attribute"),
    (IsWrongAtItsDeadline, "an index outside its sequence", "# deadline"),
    (HasNoRate, "rate_lab_bps is not above 0", "def on_round_trip(self"),
    (HasNoWindow, "window is neither None nor 1 or more", "def on_loss(self"),
])  # fmt: skip
def test_a_fault_ends_the_queue_pair_with_its_words_and_its_line(
    control: type[RateControl], fault: str, at: str
) -> None:
    lost: list[int] = []

    def lose_one(outgoing: object) -> bool:
        lost.append(1)
        return control is HasNoWindow and len(lost) == 8

    link = Link(Network(marks=lambda now_ns: True, lose=lose_one), rate_control=control)
    content, sink = Content(1), Sink(content=Content(1))
    key = link.memory(sink)
    link.until(lambda: link.near.state is not State.CONNECTING)
    if link.near.state is State.READY:
        link.near.post(Work(Operation.WRITE, content, 20_000, 0, 0, key), link.now_ns)
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure == f"its rate control has a fault: {fault}, at {place(at)}"
    link.run(10**9)
    assert link.near.deadline_ns >= 1 << 62, "it wants nothing more"


@pytest.mark.parametrize(("control", "fault"), [
    (StandsStill, "deadline_lab_ns stays where it is, at base.py:"),
    (HasNoRateFromTheBegin, "rate_lab_bps is not above 0, at test_informed.py:"),
])  # fmt: skip
def test_a_fault_before_any_packet_ends_it_too(control: type[RateControl], fault: str) -> None:
    link = Link(rate_control=control)
    link.until(lambda: link.near.state is State.FAILED)
    assert link.near.failure.startswith(f"its rate control has a fault: {fault}")


def test_another_queue_pair_of_the_same_host_goes_on() -> None:
    link = Link(rate_control=Divides)
    other = link.a.connect("10.0.0.2", 5000, 0, rate_control="fixed", private=b"hello")
    sink = Buffer(2000)
    key = link.memory(sink)
    for pair in (link.near, other):
        pair.post(Work(Operation.WRITE, Content(1), 2000, 0, 0, key), 0)
    link.until(lambda: link.near.state is State.FAILED and other.requester.idle)
    assert (other.state, other.counters.completed) == (State.READY, 1)
