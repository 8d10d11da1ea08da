"""The measurement of a port's headroom: two machines on a link that may do anything to frames, and forged frames.

The link is in memory. Each end has a clock with an offset of its own, so nothing here holds by accident.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise, product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.frames import FieldError, Mac
from testbed.frames.headroom import MeasurementReason, MeasurementRequest, Response, parse
from testbed.switch.headroom.calculation import HeadroomError, HeadroomPort, adaptive
from testbed.switch.headroom.exchange import Ignored, Points, Settings
from testbed.switch.headroom.measurement import Measurer, Output, Phase, readable
from testbed.switch.headroom.samples import Measurement, Sample
from testbed.units import Duration, Rate, Scale, hardware_times

A, B = Mac.parse("02:00:00:00:00:0a"), Mac.parse("02:00:00:00:00:0b")
MS, SECOND = 10**6, 10**9
QUICK = Settings(
    samples=4, enough=2, most_requests=12, interval_ns=MS, timeout_ns=100 * MS, repeat_ns=None, retry_ns=SECOND
)


def measurer(mac: Mac = A, settings: Settings = QUICK, key: bytes = b"", **more: Any) -> Measurer:
    """Return the measurer of a port whose link is up and whose peer can measure too."""
    port = Measurer("s1-eth1", mac, b"seed of " + mac.octets, settings, key, **more)
    port.link(True, 0)
    port.announced(True, True, 0)
    return port


def asked(output: Output, key: bytes = b"") -> MeasurementRequest:
    """Return the one request in an output."""
    (octets,) = output.frames
    message = parse(octets, key)
    assert isinstance(message, MeasurementRequest)
    return message


def answer(request: MeasurementRequest, t2_ns: int = 0, t3_ns: int = 0, key: bytes = b"", source: Mac = B) -> bytes:
    return Response.to(request, source, t2_ns, t3_ns).encode(key)


def ignored(port: Measurer) -> dict[str, int]:
    return {reason: count for reason, count in port.snapshot()["ignored"].items() if count}


# A link in memory


@dataclass
class End:
    """One station: its measurer, the offset of its clock, and the times that it takes to react and to answer."""

    machine: Measurer
    offset_ns: int = 0
    reaction_ns: int = 0  # from a frame's arrival to when it is handed in
    answering_ns: int = 0  # from then to the poll that sends
    step_ns: int = 0  # by how much its clock is set,
    step_at_ns: int = 0  # and when
    sent: list[tuple[int, bytes]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    received: int = 0  # frames, whatever became of them
    poll_at_ns: int | None = None  # true time

    def clock(self, true_ns: int) -> int:
        return true_ns + self.offset_ns + (self.step_ns if true_ns >= self.step_at_ns else 0)


class Link:
    """Two ends and a cable. `fates` gives for each frame after which delays copies of it arrive: none is a loss."""

    def __init__(self, ends: tuple[End, End], fates: Callable[[int, bytes], list[int]]) -> None:
        self._ends = ends
        self._fates = fates
        self._now_ns = 0
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def run(self, until_ns: int) -> None:
        """Let true time pass; an end that has nothing planned by then waits for the next call."""
        for number in range(2):
            self._plan(number)
        while self._coming and self._coming[0][0] <= until_ns:
            self._now_ns, order, happen = heapq.heappop(self._coming)
            assert order < 100_000, "the two never come to rest"
            happen()
        self._now_ns = until_ns

    def _after(self, ns: int, happen: Callable[[], None]) -> None:
        heapq.heappush(self._coming, (self._now_ns + ns, next(self._order), happen))

    def _receive(self, number: int, octets: bytes, arrived_ns: int) -> None:
        end = self._ends[number]
        end.received += 1
        end.machine.receive(octets, end.clock(self._now_ns), end.clock(arrived_ns))
        self._plan(number)

    def _plan(self, number: int) -> None:
        """Plan a poll at the deadline; a poll that comes before it is made too."""
        end = self._ends[number]
        if (due := end.machine.deadline()) is None:
            return
        left = due - end.clock(self._now_ns)
        at_ns = self._now_ns + (left if left > 0 else end.answering_ns)
        if end.poll_at_ns is None or at_ns < end.poll_at_ns:
            end.poll_at_ns = at_ns
            self._after(at_ns - self._now_ns, partial(self._poll, number, at_ns))

    def _poll(self, number: int, at_ns: int) -> None:
        end = self._ends[number]
        if at_ns != end.poll_at_ns:
            return  # an earlier one was planned since
        end.poll_at_ns = None
        output = end.machine.poll(end.clock(self._now_ns))
        if output.status is not None:
            end.statuses.append(output.status.text)
        for octets in output.frames:
            end.sent.append((self._now_ns, octets))
            for delay_ns in self._fates(number, octets):
                reaction_ns = self._ends[1 - number].reaction_ns
                handing_in = partial(self._receive, 1 - number, octets, self._now_ns + delay_ns)
                self._after(delay_ns + reaction_ns, handing_in)
        self._plan(number)


def measured(port: Measurer) -> Measurement:
    found = port.status.measurement
    assert found is not None, port.status.text
    return found


# The exchange itself


def test_a_request_carries_t1_and_the_answer_t2_and_t3_and_x_is_the_proposals() -> None:
    asking, answering = measurer(A), measurer(B)
    answering.poll(5_000)  # its own first request, of no interest here
    request = asking.poll(1_000).frames[0]
    assert parse(request) == MeasurementRequest(A, parse(request).session, 0, t1_ns=1_000)
    assert answering.receive(request, now_ns=700_000) is None
    (response,) = answering.poll(703_000).frames
    assert parse(response) == Response(B, parse(request).session, 0, 1_000, t2_ns=700_000, t3_ns=703_000)
    assert asking.receive(response, now_ns=54_000, arrived_ns=14_000) is None
    for number in range(1, 4):
        following = asked(asking.poll(number * MS + 1_000))
        asking.receive(answer(following, 7, 10), number * MS + 9_000)
    asking.poll(4 * MS)
    found = measured(asking)
    assert found.samples[0] == Sample(1_000, 700_000, 703_000, 14_000)
    assert (found.samples[0].round_trip_ns, found.samples[0].response_ns) == (10_000, 3_000)


def test_the_response_goes_to_the_station_that_asked_and_repeats_its_numbers() -> None:
    answering = measurer(B)
    answering.poll(0)
    answering.receive(MeasurementRequest(A, 99, 3, 1234).encode(), 50)
    (response,) = answering.poll(60).frames
    assert parse(response) == Response(B, 99, 3, 1234, 50, 60)


def test_t2_can_be_where_the_frame_arrived_as_time_synchronisation_has_it() -> None:
    for points, t2 in ((Points.PFC, 5_000), (Points.WIRE, 2_000)):
        answering = measurer(B, replace(QUICK, points=points))
        answering.poll(0)
        answering.receive(MeasurementRequest(A, 99, 0, 0).encode(), now_ns=5_000, arrived_ns=2_000)
        message = parse(answering.poll(9_000).frames[0])
        assert isinstance(message, Response)
        assert (message.t2_ns, message.t3_ns) == (t2, 9_000)


def test_a_measurement_over_a_quiet_link_is_exact_and_feeds_the_calculation() -> None:
    ends = (End(measurer(A), 10**15, reaction_ns=300, answering_ns=7_000), End(measurer(B), 0, 500, 9_000))
    Link(ends, lambda number, octets: [250_000]).run(SECOND)
    here, there = (measured(end.machine) for end in ends)
    assert (here.shortest, here.longest) == (Duration("500.5us"), Duration("500.5us"))  # two cables, B's reaction
    assert (there.shortest, there.longest) == (Duration("500.3us"), Duration("500.3us"))
    assert (here.response(), there.response()) == (Duration("9us"), Duration("7us"))
    assert adaptive(HeadroomPort(Rate("100Gb/s")), here.longest).terms[0].bits == 50_050_000
    assert ends[0].statuses == [
        "s1-eth1: headroom is being measured; until then the configured default stays",
        "s1-eth1: round trip 500.5us to 500.5us in 4 samples, 0 lost; the peer took up to 9us to answer",
    ]
    assert ignored(ends[0].machine) == ignored(ends[1].machine) == {}


# Any loss, delay, order, duplication, and any two clocks


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0, 10, 50, 95]),
    longest_ns=st.sampled_from([1, 5_000, 3 * MS, 150 * MS]),
    offsets=st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)),
    habits=st.tuples(*[st.tuples(st.integers(0, MS), st.integers(0, 5 * MS))] * 2),
)
def test_whatever_the_link_does_samples_are_true_and_every_frame_is_accounted_for(
    seed: int,
    loss: int,
    longest_ns: int,
    offsets: tuple[int, int],
    habits: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    delivered: dict[tuple[int, type, int], list[int]] = {}  # delays by sender, kind and T1
    randomness = random.Random(seed)

    def fates(number: int, octets: bytes) -> list[int]:
        if randomness.randrange(100) < loss:
            return []
        delays = [randomness.randrange(longest_ns) for _ in range(1 + (randomness.randrange(4) == 0))]
        message = parse(octets, b"both")
        delivered[number, type(message), message.t1_ns] = delays
        return delays

    ends = tuple(
        End(measurer(mac, key=b"both"), offset, reaction, answering)
        for mac, offset, (reaction, answering) in zip((A, B), offsets, habits, strict=True)
    )
    Link((ends[0], ends[1]), fates).run(3 * SECOND)
    for number, (end, peer) in enumerate(((ends[0], ends[1]), (ends[1], ends[0]))):
        snapshot = end.machine.snapshot()
        assert snapshot["received"] + sum(snapshot["ignored"].values()) == end.received
        assert set(ignored(end.machine)) <= {"late", "duplicate", "replayed", "rate_limited"}
        requests = [at for at, octets in end.sent if isinstance(parse(octets, b"both"), MeasurementRequest)]
        gaps = [later - earlier for earlier, later in pairwise(requests)]
        assert all(gap >= QUICK.interval_ns for gap in gaps)
        found = end.machine.status.measurement
        if loss == 0 and longest_ns <= 3 * MS:
            assert found is not None
        if found is None:
            assert end.machine.status.phase in (Phase.MEASURING, Phase.UNANSWERED)
            continue
        assert QUICK.enough <= len(found.samples) <= QUICK.samples
        assert found.asked <= QUICK.most_requests
        for sample in found.samples:
            there, back = (number, MeasurementRequest, sample.t1_ns), (1 - number, Response, sample.t1_ns)
            ways = product(delivered[there], delivered[back])
            assert sample.round_trip_ns in {out + peer.reaction_ns + home for out, home in ways}
            assert 0 <= sample.response_ns <= peer.answering_ns


def test_lost_requests_and_responses_are_replaced_and_counted() -> None:
    dice = random.Random(1)
    ends = (End(measurer(A)), End(measurer(B), 77))
    Link(ends, lambda number, octets: [] if dice.randrange(3) == 0 else [1_000]).run(SECOND)
    for end in ends:
        found = measured(end.machine)
        assert len(found.samples) == 4
        assert found.lost == found.asked - 4 > 0
        assert {sample.round_trip_ns for sample in found.samples} == {2_000}


def test_a_dead_link_is_given_up_reported_and_tried_again() -> None:
    end, other = End(measurer(A, replace(QUICK, retry_ns=SECOND))), End(measurer(B))
    Link((end, other), lambda number, octets: []).run(3 * SECOND)
    assert end.statuses[-1] == (
        "s1-eth1: headroom cannot be measured: 0 answers to 12 requests, and 2 are needed; the configured default stays"
    )
    requests = [at for at, _ in end.sent]
    assert len(requests) == 12 * 3  # three series by now
    assert requests[12] - requests[11] == QUICK.timeout_ns + SECOND


def test_a_later_series_without_answers_leaves_the_measurement_before_it() -> None:
    works = [True]
    end, other = End(measurer(A, replace(QUICK, repeat_ns=SECOND))), End(measurer(B))
    link = Link((end, other), lambda number, octets: [1_000] if works[0] else [])
    link.run(SECOND // 2)
    works[0] = False
    link.run(3 * SECOND)
    assert end.statuses[-1] == (
        "s1-eth1: headroom cannot be measured: 0 answers to 12 requests, and 2 are needed; 2us, measured before, stays"
    )
    assert measured(end.machine).longest == Duration("2us")


# The capability


@pytest.mark.parametrize(
    ("ours", "theirs", "phase", "text"),
    [
        (
            True, False, Phase.OFF_THERE,
            "headroom is not measured, since the peer does not announce it; the configured default stays",
        ),
        (
            False, True, Phase.OFF_HERE,
            "headroom is not measured, since this end does not announce it; the configured default stays",
        ),
        (
            False, False, Phase.OFF_HERE,
            "headroom is not measured, since this end does not announce it; the configured default stays",
        ),
    ],
)  # fmt: skip
def test_unless_both_ends_announce_it_nothing_is_sent_and_the_status_has_the_reason(
    ours: bool, theirs: bool, phase: Phase, text: str
) -> None:
    port = Measurer("s1-eth1", A, b"seed", QUICK)
    port.link(True, 0)
    port.announced(ours, theirs, 0)
    output = port.poll(10)
    assert output.frames == ()
    assert output.status is not None
    assert (output.status.phase, output.status.measurement, output.status.text) == (phase, None, f"s1-eth1: {text}")
    assert port.receive(MeasurementRequest(B, 1, 0, 0).encode(), 20) is Ignored.NOT_AGREED
    assert port.poll(20) == Output((), None, None)
    assert port.deadline() is None


def test_when_both_ends_announce_it_a_request_is_sent_at_once() -> None:
    port = Measurer("s1-eth1", A, b"seed", QUICK)
    port.link(True, 0)
    port.announced(True, False, 0)
    assert port.poll(5).frames == ()
    port.announced(True, True, 100)
    assert port.deadline() == 100
    assert asked(port.poll(100)).t1_ns == 100


def test_a_peer_that_takes_its_announcement_back_stops_the_procedure_and_the_measurement() -> None:
    ends = (End(measurer(A)), End(measurer(B)))
    Link(ends, lambda number, octets: [1_000]).run(SECOND)
    port = ends[0].machine
    measured(port)
    port.announced(True, False, SECOND)
    status = port.poll(SECOND).status
    assert status is not None
    assert (status.phase, status.measurement) == (Phase.OFF_THERE, None)
    assert port.deadline() is None


def test_an_answer_that_is_due_when_the_agreement_ends_is_not_sent() -> None:
    port = measurer(B)
    port.poll(0)
    port.receive(MeasurementRequest(A, 1, 0, 0).encode(), 10)
    port.announced(True, False, 20)
    assert port.poll(30).frames == ()
    port.announced(True, True, 40)
    assert answers(port, 50) == 0  # nor when there is another


# Repeating


def test_it_measures_again_on_schedule_and_the_old_figure_holds_meanwhile() -> None:
    delay = [1_000]
    ends = (End(measurer(A, replace(QUICK, repeat_ns=SECOND))), End(measurer(B)))
    link = Link(ends, lambda number, octets: [delay[0]])
    link.run(SECOND // 2)
    delay[0] = 10_000
    link.run(SECOND)
    assert measured(ends[0].machine).longest == Duration("2us")
    link.run(2 * SECOND)
    assert measured(ends[0].machine).longest == Duration("20us")
    assert [text.partition(" to ")[0] for text in ends[0].statuses[1:]] == [
        "s1-eth1: round trip 2us", "s1-eth1: round trip 20us",
    ]  # fmt: skip


def test_a_reading_is_converted_to_another_clock_with_its_line_of_text() -> None:
    ends = (End(measurer(A)), End(measurer(B)))
    Link(ends, lambda number, octets: [1_000]).run(SECOND)
    port = ends[0].machine
    reading = port.status.reading()
    assert readable(reading)["text"] == port.status.text
    assert port.status.text.startswith("s1-eth1: round trip 2us to 2us in 4 samples, 0 lost; the peer took up to ")
    assert (reading["round_trip_ns"], reading["longest_ns"], reading["median_ns"]) == (2000, 2000, 2000)
    found = readable(hardware_times(reading, Scale(1000)))
    assert (found["round_trip_ns"], found["text"].partition(" in ")[0]) == (2, "s1-eth1: round trip 2ns to 2ns")
    port.link(False, SECOND)
    nothing = readable(port.status.reading())
    assert nothing["text"] == "s1-eth1: the link is down; the configured default stays"
    assert nothing["round_trip_ns"] is None


def test_a_changed_link_is_measured_at_once_and_the_old_figure_is_gone() -> None:
    ends = (End(measurer(A)), End(measurer(B)))
    link = Link(ends, lambda number, octets: [1_000])
    link.run(SECOND)
    port = ends[0].machine
    port.link(False, SECOND)
    assert port.status.text == "s1-eth1: the link is down; the configured default stays"
    assert port.deadline() == SECOND  # to say so
    assert port.poll(SECOND).frames == ()
    assert port.deadline() is None
    port.link(True, 2 * SECOND)
    assert (port.status.phase, port.status.measurement) == (Phase.MEASURING, None)
    assert asked(port.poll(2 * SECOND)).sequence == 0


def test_the_last_answer_makes_a_poll_due_which_ends_the_series() -> None:
    port = measurer(A)
    for number in range(4):
        request = asked(port.poll(number * MS))
        assert port.deadline() == (number + 1) * MS if number < 3 else QUICK.timeout_ns
        port.receive(answer(request), number * MS + 5)
    assert port.deadline() == 3 * MS + 5
    assert port.status.phase is Phase.MEASURING
    status = port.poll(3 * MS + 5).status
    assert status is not None
    assert status.phase is Phase.MEASURED
    assert port.deadline() is None


def test_a_measurement_can_be_started_at_any_time() -> None:
    ends = (End(measurer(A)), End(measurer(B)))
    Link(ends, lambda number, octets: [1_000]).run(SECOND)
    port = ends[0].machine
    assert port.deadline() is None  # no schedule
    port.measure(SECOND)
    assert port.deadline() == SECOND
    assert asked(port.poll(SECOND)).t1_ns == SECOND
    assert measured(port).longest == Duration("2us")


def test_sessions_differ_from_series_to_series_from_port_to_port_and_from_seed_to_seed() -> None:
    seen = set()
    for mac, seed in ((A, b"one"), (A, b"two"), (B, b"one")):
        port = Measurer("p", mac, seed, QUICK)
        port.link(True, 0)
        port.announced(True, True, 0)
        for number in range(50):
            seen.add(asked(port.poll(number)).session)
            port.link(True, number)
    assert len(seen) == 150


# What has no effect


def ready_to_be_fooled(key: bytes = b"") -> tuple[Measurer, MeasurementRequest]:
    """Return a port that waits for the answer to one request, sent at 0."""
    port = measurer(A, key=key)
    return port, asked(port.poll(0), key)


def test_a_second_answer_is_a_duplicate() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(answer(request), 100) is None
    assert port.receive(answer(request, 5, 9), 200) is Ignored.DUPLICATE
    assert ignored(port) == {"duplicate": 1}


def test_an_answer_after_the_timeout_is_late() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(answer(request), QUICK.timeout_ns - 1) is None
    port, request = ready_to_be_fooled()
    assert port.receive(answer(request), QUICK.timeout_ns) is Ignored.LATE
    assert port.receive(answer(request), QUICK.timeout_ns + 5) is Ignored.LATE


def test_an_answer_to_nothing_is_stray() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(answer(replace(request, sequence=1)), 100) is Ignored.STRAY
    assert port.receive(answer(replace(request, session=request.session ^ 1)), 100) is Ignored.STRAY


def test_an_answer_from_a_series_that_is_over_is_replayed_if_it_was_answered_and_else_late() -> None:
    port, request = ready_to_be_fooled()
    second = asked(port.poll(MS))
    port.receive(answer(request), MS + 5)
    port.link(True, 2 * MS)  # a new series
    assert asked(port.poll(2 * MS)).session != request.session
    assert port.receive(answer(request), 2 * MS) is Ignored.REPLAYED
    assert port.receive(answer(second), 2 * MS) is Ignored.LATE
    assert port.receive(answer(replace(request, t1_ns=1)), 2 * MS) is Ignored.FORGED
    assert port.receive(answer(replace(request, sequence=2)), 2 * MS) is Ignored.STRAY  # the first that was not sent
    assert port.receive(answer(replace(request, sequence=40)), 2 * MS) is Ignored.STRAY


def test_an_answer_with_another_t1_is_forged() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(answer(replace(request, t1_ns=17)), 100) is Ignored.FORGED
    assert port.receive(answer(request), 100) is None  # and the true one still counts


def test_an_answer_without_the_key_is_refused_and_the_true_one_counts() -> None:
    port, request = ready_to_be_fooled(b"secret")
    assert port.receive(answer(request, key=b"guess"), 50) is MeasurementReason.WRONG_TAG
    assert port.receive(answer(request), 60) is MeasurementReason.WRONG_TAG
    assert port.receive(answer(request, key=b"secret"), 100) is None
    assert ignored(port) == {"wrong_tag": 2}


def test_a_request_that_comes_back_is_our_own() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(request.encode(), 100) is Ignored.OWN
    assert port.receive(answer(request, source=A), 100) is Ignored.OWN


def test_foreign_frames_are_counted_under_the_codecs_reasons() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(request.encode()[:59], 10) is MeasurementReason.TOO_SHORT
    assert port.receive(request.encode(opcode=0x0101), 10) is MeasurementReason.OTHER_OPCODE
    assert ignored(port) == {"too_short": 1, "other_opcode": 1}


@settings(max_examples=200, deadline=None)
@given(
    octets=st.lists(
        st.one_of(
            st.binary(max_size=70),
            st.builds(
                lambda *fields: Response(*fields).encode(b"wrong"),
                st.just(B), st.integers(0, 2**32 - 1), st.integers(0, 5), *[st.integers(0, 2**40)] * 3,
            ),
            st.builds(
                lambda *fields: Response(*fields).encode(b"right"),
                st.just(B), st.integers(0, 2**32 - 1), st.integers(0, 5), *[st.integers(0, 2**40)] * 3,
            ),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_nothing_that_was_not_asked_for_changes_a_measurement(octets: list[bytes]) -> None:
    port, request = ready_to_be_fooled(b"right")
    before = port.status
    for number, data in enumerate(octets):
        assert port.receive(data, 100 + number) is not None
    assert port.status == before
    assert sum(ignored(port).values()) == len(octets)
    assert port.receive(answer(request, key=b"right"), 1_000) is None


# The answering side


def answers(port: Measurer, now_ns: int) -> int:
    return sum(isinstance(parse(octets), Response) for octets in port.poll(now_ns).frames)


def test_each_request_is_answered_once() -> None:
    port = measurer(B)
    assert port.receive(MeasurementRequest(A, 1, 0, 0).encode(), 10) is None
    assert answers(port, 11) == 1
    assert port.receive(MeasurementRequest(A, 1, 0, 0).encode(), 20) is Ignored.DUPLICATE
    assert port.receive(MeasurementRequest(A, 1, 5, 0).encode(), 20) is None  # 1 to 4 may still come
    assert port.receive(MeasurementRequest(A, 1, 2, 0).encode(), 20) is None
    assert answers(port, 21) == 2


def test_what_was_not_sent_at_its_moment_is_taken_back_and_given_anew() -> None:
    one, other = measurer(A), measurer(B)
    request = asked(one.poll(0))
    other.receive(request.encode(), 10)
    for moment_ns in (20, 30):
        (late,) = (output := other.poll(moment_ns)).answers
        assert other.deadline() != moment_ns, "the answer is out of the way"
        other.take_back(output)
    (octets,) = other.poll(40).answers
    assert octets != late
    response = parse(octets, b"")
    assert isinstance(response, Response)
    assert (response.t2_ns, response.t3_ns) == (10, 40)
    assert other.snapshot()["sent"]["responses"] == 1

    output = one.poll(2 * MS)
    one.take_back(output)
    assert one.deadline() == 2 * MS
    again = asked(one.poll(3 * MS))
    assert (again.sequence, again.t1_ns) == (asked(output).sequence, 3 * MS)
    assert one.snapshot()["sent"]["requests"] == 2


def test_a_session_that_is_over_cannot_be_replayed() -> None:
    port = measurer(B)
    for session in range(4):
        assert port.receive(MeasurementRequest(A, session, 0, 0).encode(), 10) is None
    assert port.receive(MeasurementRequest(A, 0, 1, 0).encode(), 20) is Ignored.REPLAYED
    assert port.receive(MeasurementRequest(A, 3, 1, 0).encode(), 20) is None


def test_a_peer_that_sends_requests_without_end_gets_answers_at_a_limited_rate() -> None:
    port = measurer(B, replace(QUICK, answer_interval_ns=MS, answer_burst=5))
    given_, limited = 0, 0
    for number in range(1000):  # one every 0.1 ms, for 100 ms
        now = number * MS // 10
        taken = port.receive(MeasurementRequest(A, 7, number, 0).encode(), now)
        limited += taken is Ignored.RATE_LIMITED
        given_ += answers(port, now)
    assert (given_, limited) == (5 + 99, 1000 - 104)
    assert ignored(port) == {"rate_limited": limited}


def test_what_is_remembered_is_bounded_whatever_comes() -> None:
    port = measurer(B, replace(QUICK, answer_burst=5))
    for number in range(3000):  # no poll
        port.receive(MeasurementRequest(A, number, 0, 0).encode(), number * 10 * MS)
    assert answers(port, 10**12) == 5
    for number in range(100):
        port.receive(MeasurementRequest(A, 4000 + number, 0, 0).encode(), 10**12 + number * MS)
        port.poll(10**12 + number * MS)
    assert len(port._responder._sessions) == 8
    assert port.receive(MeasurementRequest(A, 5000, 1024, 0).encode(), 10**12) is Ignored.STRAY
    for number in range(100):
        port.link(True, 2 * 10**12 + number)
        port.poll(2 * 10**12 + number)
    assert len(port._past) == 8


# Clocks


def test_an_answer_with_impossible_stamps_is_ignored_and_a_better_one_counts() -> None:
    port, request = ready_to_be_fooled()
    assert port.receive(answer(request, t2_ns=9, t3_ns=8), 100) is Ignored.CLOCK_STEP  # the far clock went back
    assert port.receive(answer(request, t2_ns=0, t3_ns=101), 100) is Ignored.CLOCK_STEP  # longer than it was away
    assert port.receive(answer(request, t2_ns=0, t3_ns=100), 100) is None


def test_an_arrival_stamp_of_a_clock_that_was_set_is_ignored() -> None:
    port, request = ready_to_be_fooled()
    lag = QUICK.stamp_lag_ns
    for now, arrived in ((50 * MS, 50 * MS + 1), (50 * MS, 50 * MS - lag - 1)):
        assert port.receive(answer(request), now, arrived) is Ignored.CLOCK_STEP
    assert port.receive(answer(request), 50 * MS, 50 * MS - lag) is None


def test_a_clock_that_goes_back_starts_the_series_anew() -> None:
    port = measurer(A)
    first = asked(port.poll(5 * SECOND))
    port.receive(answer(first), 5 * SECOND + 10)
    again = asked(port.poll(SECOND))
    assert again.session != first.session
    assert again.sequence == 0
    assert port.snapshot()["clock_went_back"] == 1
    for number in range(3):
        port.receive(answer(again, 1, 1), SECOND + number * MS + 10)
        again = asked(port.poll(SECOND + (number + 1) * MS))
    port.receive(answer(again, 1, 1), SECOND + 3 * MS + 10)
    port.poll(SECOND + 4 * MS)
    assert {sample.round_trip_ns for sample in measured(port).samples} == {10}


def test_a_responders_clock_that_goes_back_neither_stops_answers_nor_the_limit() -> None:
    port = measurer(B, replace(QUICK, answer_interval_ns=MS, answer_burst=2))
    for sequence in range(2):
        port.receive(MeasurementRequest(A, 1, sequence, 0).encode(), 10 * SECOND)
    assert port.receive(MeasurementRequest(A, 1, 2, 0).encode(), SECOND) is Ignored.RATE_LIMITED
    assert answers(port, SECOND) == 0  # T2 of the two is of another time
    assert port.receive(MeasurementRequest(A, 1, 3, 0).encode(), SECOND + MS) is None
    assert answers(port, SECOND + MS) == 1


@settings(max_examples=150, deadline=None)
@given(
    step_ns=st.integers(-SECOND, SECOND),
    at_ns=st.integers(0, 20 * MS),
    cable_ns=st.integers(0, 10 * MS),
    answering_ns=st.integers(0, 2 * MS),
)
@example(step_ns=1701, at_ns=7_503_906, cable_ns=503_865, answering_ns=1_492_229)
@example(step_ns=100_000, at_ns=7_503_906, cable_ns=503_865, answering_ns=1_492_229)
def test_a_far_clock_that_is_set_makes_no_headroom_short(
    step_ns: int, at_ns: int, cable_ns: int, answering_ns: int
) -> None:
    here = End(measurer(A, replace(QUICK, samples=8)), 3)
    there = End(measurer(B), 5 * SECOND, answering_ns=answering_ns, step_ns=step_ns, step_at_ns=at_ns)
    Link((here, there), lambda number, octets: [cable_ns]).run(SECOND)
    found = measured(here.machine)
    assert 2 * cable_ns <= found.longest.ns <= 2 * cable_ns + answering_ns
    assert 2 * cable_ns <= found.needed.ns <= found.longest.ns


# What a series shows


def test_headroom_needs_the_slowest_way_there_and_the_quickest_back_whatever_the_far_clock_shows() -> None:
    ways = [(100, 40), (130, 20), (110, 50), (120, 60)]
    for offset in (0, -(10**9), 10**12):
        samples = tuple(
            Sample(at, at + there + offset, at + there + 7 + offset, at + there + 7 + back)
            for at, (there, back) in zip(range(0, 4000, 1000), ways, strict=True)
        )
        found = Measurement(samples, asked=4, finished_ns=0)
        assert found.needed.ns == 150 + 1, "and the least allowance for drift"
    assert (found.shortest.ns, found.longest.ns) == (140, 180)


def test_without_a_way_there_after_a_way_back_the_longest_round_trip_is_needed() -> None:
    """A forward step of the far clock, between T2 and T3 of all samples, would make the way back look short."""
    samples = tuple(Sample(at, at + 500, at + 1500, at + 2000 + at) for at in (0, 100, 200))
    assert Measurement(samples, asked=3, finished_ns=0).needed == Measurement(samples, asked=3, finished_ns=0).longest


def test_the_allowance_for_drift_is_200_ppm_of_how_long_the_series_lasted_and_no_more_than_what_was_seen() -> None:
    def lasting(ns: int) -> int:
        samples = (Sample(0, 1000, 1000, 9_000_000), Sample(ns - 2000, ns - 1000, ns - 1000, ns))
        return Measurement((*samples, samples[1], samples[1]), asked=4, finished_ns=0).needed.ns

    assert lasting(10_000_000) == 2000 + 2000  # 200 millionths of 10 ms
    assert lasting(10_000_001) == 2000 + 2001  # a part of a nanosecond is one more
    assert lasting(10_000_000_000) == 2000 + 2_000_000
    assert lasting(10**12) == 9_000_000  # the longest round trip


def test_percentiles_are_samples_by_nearest_rank() -> None:
    times = [50, 10, 40, 20, 30]
    found = Measurement(tuple(Sample(0, 0, ns // 10, ns + ns // 10) for ns in times), asked=7, finished_ns=0)
    assert [found.percentile(p).ns for p in (0, 1, 20, 21, 50, 80, 81, 99, 100)] == [10, 10, 10, 20, 30, 40, 50, 50, 50]
    assert (found.shortest.ns, found.longest.ns, found.lost) == (10, 50, 2)
    assert (found.response().ns, found.response(50).ns) == (5, 3)
    with pytest.raises(HeadroomError) as caught:
        found.percentile(101)
    assert str(caught.value) == "percentile 101 does not exist; there are 0, the least, to 100, the most"


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.integers(0, 100), st.integers(0, 100))
def test_percentiles_rise_and_stay_within_the_samples(times: list[int], one: int, other: int) -> None:
    found = Measurement(tuple(Sample(0, 0, 0, ns) for ns in times), len(times), 0)
    low, high = (found.percentile(p).ns for p in sorted((one, other)))
    assert low <= high
    assert {low, high} <= set(times)


def test_half_of_the_shortest_round_trip_is_802_1qcc_s_tx_propagation_delay() -> None:
    found = Measurement((Sample(0, 0, 0, 1001), Sample(0, 0, 0, 2000)), 2, 0)
    assert found.tx_propagation_delay_ns == 501


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 0}, "samples is 0; it is a whole number from 1 to 1024"),
        ({"enough": 17}, "enough is 17; it is a whole number from 1 to 16"),
        ({"most_requests": 15}, "most_requests is 15; it is a whole number from 16 to 1024"),
        ({"interval_ns": 0.5}, "interval_ns is 0.5; it is a whole number from 1 to 1000000000000000000"),
        ({"repeat_ns": 0}, "repeat_ns is 0; it is a whole number from 1 to 1000000000000000000"),
        ({"opcode": 65536}, "opcode is 65536; it is a whole number from 0 to 65535"),
    ],
)
def test_invalid_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadroomError) as caught:
        Settings(**changes)
    assert str(caught.value) == message


def test_a_port_needs_a_seed_and_a_key_that_fits() -> None:
    with pytest.raises(HeadroomError) as caught:
        Measurer("s1-eth1", A, b"")
    assert str(caught.value) == "port s1-eth1: a seed has 1 to 32 octets, not 0; draw it at random"
    with pytest.raises(FieldError):
        Measurer("s1-eth1", A, b"seed", key=bytes(33))
