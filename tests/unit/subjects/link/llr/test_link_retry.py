"""Link Layer Retry of two ends against each other: the cases of SONiC's Scale-Up Test Standard, random histories."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from testbed.subjects.link.llr.cable import Cable
from testbed.subjects.link.llr.end import EndSettings, Receiver, Sender
from testbed.subjects.link.llr.line import LineSettings, Wait
from testbed.subjects.link.llr.ordered_set import SEQUENCES
from testbed.switch.link.errors import BitErrors, FecErrors, threshold
from testbed.switch.link.jam import Jam, LineFate, LineUnit
from testbed.switch.link.retry import LlrAction

BPS = 200 * 10**9
LATER = 10**9


def _line(**given: Any) -> LineSettings:
    return LineSettings(**{"bps": BPS, "delay_ns": 25} | given)


def _end(**given: Any) -> EndSettings:
    chosen = {"frames": 61, "octets": 31_184, "replay_timer_ns": 5000, "replay_count": 255, "spacing": 2048}
    return EndSettings(**chosen | given)


def _cable(there: LineSettings | None = None, back: LineSettings | None = None, **given: Any) -> Cable:
    cable = Cable((there or _line(), back or _line()), (_end(**given), _end(**given)))
    cable.advance(200)
    return cable


def _send(cable: Cable, count: int, length: int = 496, first_ns: int = 200, number: int = 0) -> int:
    """Offer frames at the line's rate; return when the last one was."""
    gap_ns = cable.ends[number].line.time_ns(length + 24)
    for place in range(count):
        cable.offer(number, place, length, first_ns + place * gap_ns)
    return first_ns + count * gap_ns


def _passed(cable: Cable, number: int = 0) -> list[Any]:
    return [content for _, content in cable.outcomes[number].passed]


def _counters(cable: Cable, number: int, **names: int) -> dict[str, int]:
    found = cable.ends[number].counters
    return {name: found[f"LLR_{name}"] for name in names}


def test_a_cable_begins_with_init_and_its_echo_both_ways() -> None:
    cable = _cable()
    for end in cable.ends:
        assert (end.state, end.receiver) == (Sender.ADVANCE, Receiver.SEND_ACKS)
        assert {name: count for name, count in end.counters.items() if count} == {
            f"LLR_{way}_{name}_CTL_OS": 1 for way in ("TX", "RX") for name in ("INIT", "INIT_ECHO")
        }


def test_llr_01_frames_are_numbered_acknowledged_and_counted_at_both_ends() -> None:
    cable = _cable()
    _send(cable, 100)
    cable.advance(LATER)
    assert _passed(cable) == list(range(100))
    assert _counters(cable, 0, TX_OK=0, TX_REPLAY=0) == {"TX_OK": 100, "TX_REPLAY": 0}
    assert _counters(cable, 1, RX_OK=0, RX_EXPECTED_SEQ_GOOD=0, RX_DUPLICATE_SEQ=0) == {
        "RX_OK": 100, "RX_EXPECTED_SEQ_GOOD": 100, "RX_DUPLICATE_SEQ": 0,
    }  # fmt: skip
    assert cable.ends[0].counters["LLR_RX_ACK_CTL_OS"] == cable.ends[1].counters["LLR_TX_ACK_CTL_OS"] > 0
    assert not cable.ends[0].kept


def test_llr_02_a_lost_frame_is_asked_for_once_and_replayed_once() -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 50),)))
    _send(cable, 100)
    cable.advance(LATER)
    assert _passed(cable) == list(range(100))
    assert _counters(cable, 0, RX_NACK_CTL_OS=0, TX_REPLAY=0) == {"RX_NACK_CTL_OS": 1, "TX_REPLAY": 1}
    assert cable.outcomes[0].lost == []


@pytest.mark.parametrize("what", ["blocked", "frozen"])
def test_llr_03_after_the_last_replay_without_an_acknowledgement_the_buffer_is_flushed(what: str) -> None:
    from_first = 1 if what == "blocked" else 4
    cable = _cable(
        back=_line(jams=(Jam(LineUnit.ACK, LineFate.LOST, from_first, 10**6),)), replay_count=3, re_init=False
    )
    _send(cable, 100)
    cable.advance(LATER)
    assert cable.ends[0].state is Sender.FLUSH
    assert cable.ends[0].counters["LLR_TX_REPLAY"] == 3
    assert cable.ends[0].counters["LLR_TX_DISCARD"] > 0
    assert _passed(cable) == list(range(100))  # the rest without a number: best effort


@pytest.mark.parametrize("fate", [LineFate.DAMAGED, LineFate.LOST])
def test_llr_04_a_damaged_frame_or_a_gap_makes_one_nack_and_one_replay(fate: LineFate) -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, fate, 500),)))
    _send(cable, 1000)
    cable.advance(LATER)
    assert _passed(cable) == list(range(1000))
    is_bad = int(fate is LineFate.DAMAGED)
    assert _counters(cable, 1, RX_BAD=0, RX_EXPECTED_SEQ_BAD=0, TX_NACK_CTL_OS=0, RX_REPLAY=0) == {
        "RX_BAD": is_bad, "RX_EXPECTED_SEQ_BAD": is_bad, "TX_NACK_CTL_OS": 1, "RX_REPLAY": 1,
    }  # fmt: skip


def test_llr_05_a_poisoned_frame_is_not_asked_for_again() -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.POISONED, 50),)))
    _send(cable, 100)
    cable.advance(LATER)
    assert _counters(cable, 1, RX_EXPECTED_SEQ_POISONED=0, TX_NACK_CTL_OS=0, RX_REPLAY=0, RX_OK=0) == {
        "RX_EXPECTED_SEQ_POISONED": 1, "TX_NACK_CTL_OS": 0, "RX_REPLAY": 0, "RX_OK": 99,
    }  # fmt: skip
    assert _counters(cable, 0, TX_POISONED=0, TX_OK=0) == {"TX_POISONED": 1, "TX_OK": 99}
    assert cable.outcomes[0].lost == [49]
    assert _passed(cable) == [*range(49), *range(50, 100)]


def test_llr_06_a_buffer_of_four_frames_replays_four() -> None:
    jams = (Jam(LineUnit.ACK, LineFate.LOST, 1, 10**6),)
    cable = _cable(back=_line(jams=jams), frames=4, replay_count=1, re_init=False, flush_action=LlrAction.DISCARD)
    _send(cable, 100)
    cable.advance(LATER)
    assert cable.ends[0].state is Sender.FLUSH
    assert cable.ends[0].counters["LLR_TX_OK"] == 4 + 4
    assert cable.ends[0].counters["LLR_TX_DISCARD"] == 100
    assert _passed(cable) == [0, 1, 2, 3]
    assert cable.outcomes[0].lost == list(range(4, 100))


@pytest.mark.parametrize("length", [60, 1514, 9212])
def test_llr_07_a_cable_of_500_m_carries_its_rate_with_the_buffer_that_is_computed(length: int) -> None:
    from testbed.switch.link.retry import needed
    from testbed.units import Duration, Rate

    frames, octets = needed(Rate(f"{BPS}b/s"), Duration("2500ns"), 9198)
    line = _line(delay_ns=2500)
    cable = Cable((line, line), (_end(frames=frames, octets=octets, replay_timer_ns=65_535),) * 2)
    cable.advance(20_000)
    _send(cable, 3000, length, 20_000)
    cable.advance(LATER)
    assert len(_passed(cable)) == 3000
    assert cable.ends[0].counters["LLR_TX_REPLAY"] == 0
    moments = [at_ns for at_ns, _ in cable.outcomes[0].passed]
    gap_ns = cable.ends[0].line.time_ns(length + 24)
    assert moments[-1] - moments[0] <= 2999 * gap_ns + 70  # no ordered set is sent this way, and nothing waits
    short = Cable((line, line), (_end(frames=frames // 3, octets=octets // 3, replay_timer_ns=65_535),) * 2)
    short.advance(20_000)
    _send(short, 3000, length, 20_000)
    short.advance(LATER)
    late = [at_ns for at_ns, _ in short.outcomes[0].passed]
    assert late[-1] - late[0] > 2 * (moments[-1] - moments[0])


def test_llr_08_a_sender_that_has_flushed_begins_again_and_the_link_recovers() -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 10, 40),)), replay_count=1)
    last_ns = _send(cable, 20)
    cable.advance(last_ns + 50_000)
    assert cable.ends[0].flushes >= 1
    assert cable.ends[0].state is Sender.ADVANCE
    before = len(_passed(cable))
    _send(cable, 100, first_ns=last_ns + 60_000)
    cable.advance(LATER)
    assert len(_passed(cable)) == before + 100
    assert cable.ends[1].counters["LLR_RX_INIT_CTL_OS"] == 1 + cable.ends[0].flushes


def test_llr_09_frames_of_all_sizes_pass() -> None:
    cable = _cable(octets=64_000)
    sizes = [size + x for size in (64, 128, 256, 512, 1518, 2048, 4096, 9216) for x in (-1, 0, 1)][1:-1]
    now_ns = 200
    for size in sizes:
        cable.offer(0, size, size - 4, now_ns)
        now_ns += cable.ends[0].line.time_ns(size + 20)
    cable.advance(LATER)
    assert _passed(cable) == sizes


def test_llr_10_frames_without_a_number_pass_and_only_they_are_lost_to_errors() -> None:
    for threshold_of_slots in (0, threshold(0.01)):
        cable = _cable(_line(slot_octets=640, slot_threshold=threshold_of_slots, seed=3))
        gap_ns = cable.ends[0].line.time_ns(496 + 24)
        for place in range(2000):
            cable.offer(0, place, 496, 200 + place * gap_ns, eligible=place % 4 > 0)
        cable.advance(LATER)
        lost = cable.outcomes[0].lost
        assert bool(lost) == bool(threshold_of_slots)
        assert all(one % 4 == 0 for one in lost)
        assert sorted([*_passed(cable), *lost]) == list(range(2000))
        numbered = [one for one in _passed(cable) if one % 4]
        assert numbered == sorted(numbered)


def test_the_sequence_number_wraps_without_a_false_duplicate() -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 52),)), first_sequence=SEQUENCES - 50)
    _send(cable, 100)
    cable.advance(LATER)
    assert _passed(cable) == list(range(100))
    assert cable.ends[1].expected == 50
    assert cable.ends[1].counters["LLR_RX_DUPLICATE_SEQ"] == 0


def test_a_replay_without_an_acknowledgement_begins_exactly_after_the_timer() -> None:
    cable = _cable(back=_line(jams=(Jam(LineUnit.ACK, LineFate.LOST, 1),)))
    cable.offer(0, 0, 496, 1000)
    end_ns = cable.ends[0].line.free_ns
    cable.advance(end_ns + 4999)
    assert cable.ends[0].counters["LLR_TX_REPLAY"] == 0
    cable.advance(end_ns + 5000)
    assert cable.ends[0].counters["LLR_TX_REPLAY"] == 1
    cable.advance(LATER)
    assert cable.ends[1].counters["LLR_RX_DUPLICATE_SEQ"] == 1
    assert not cable.ends[0].kept


def test_what_a_replay_and_ordered_sets_take_is_charged_to_the_line() -> None:
    """A frame that comes during a replay leaves when that is over, and the port is stopped meanwhile."""
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.DAMAGED, 1),)))
    frame_ns = cable.ends[0].line.time_ns(1520)
    cable.offer(0, 0, 1496, 1000)
    cable.advance(1000 + frame_ns + 25 + 1 + 25)  # there and damaged; the NACK takes 320 ps
    assert cable.ends[0].state is Sender.ADVANCE  # the whole replay is on the line
    assert cable.ends[0].counters["LLR_TX_REPLAY"] == 1
    cable.offer(0, 1, 1496, cable.now_ns + 1)
    cable.offer(0, 2, 1496, cable.now_ns + 1)
    assert cable.ends[0].is_stopped
    cable.advance(LATER)
    moments = [at_ns for at_ns, _ in cable.outcomes[0].passed]
    assert [later - earlier for earlier, later in pairwise(moments)] == [frame_ns, frame_ns]
    assert not cable.ends[0].is_stopped


@pytest.mark.parametrize(
    ("init_action", "passed", "lost"),
    [("discard", [2], [0, 1]), ("best_effort", [0, 1, 2], []), ("block", [0, 1, 2], [])],
)
def test_frames_before_the_echo_are_discarded_sent_or_held(
    init_action: str, passed: list[int], lost: list[int]
) -> None:
    ends = (_end(init_action=LlrAction(init_action)),) * 2
    cable = Cable((_line(), _line()), ends)
    for place in (0, 1):
        cable.offer(0, place, 60, 10 + place * 10)
    assert cable.ends[0].state is Sender.INIT
    cable.offer(0, 2, 60, 1000)
    cable.advance(LATER)
    assert (_passed(cable), cable.outcomes[0].lost) == (passed, lost)
    assert cable.ends[0].counters["LLR_TX_OK"] == (3 if init_action == "block" else 1)


def test_frames_that_grow_too_old_flush_the_buffer() -> None:
    cable = _cable(back=_line(jams=(Jam(LineUnit.ACK, LineFate.LOST, 1, 10**6),)), age_ns=20_000, re_init=False)
    cable.offer(0, 0, 496, 1000)
    cable.advance(20_999)
    assert cable.ends[0].state in (Sender.ADVANCE, Sender.REPLAY)
    cable.advance(21_000)
    assert cable.ends[0].state is Sender.FLUSH


class Event(NamedTuple):
    """A frame that a port gives, or other settings of its end."""

    number: int
    content: int
    length: int
    at_ns: int
    is_eligible: bool = True
    settings: EndSettings | None = None


def history(seed: int, gives_up: bool = False, switches: bool = False) -> tuple[Cable, list[Event]]:
    """Let both ends send at random times and sizes over a cable that loses frames and damages all.

    With `gives_up` senders flush, and some frames have no sequence number. With `switches` LLR is switched on and off.
    """
    dice = random.Random(seed)
    errors = dice.choice((None, BitErrors("1e-6"), BitErrors("3e-5"), FecErrors("1e-3", 4), FecErrors("0.02")))
    bps = dice.choice((10**8, 10**9, 25 * 10**9, BPS, 3 * 10**9))
    byte_ns = 8e9 / bps
    delay_ns = dice.choice((0, 25, 2500, 10**5))
    fates = (LineFate.LOST, LineFate.DAMAGED, *((LineFate.POISONED,) if gives_up else ()))

    def jam() -> Jam:
        what = dice.choice(list(LineUnit))
        frozen = (LineFate.FROZEN,) if what is LineUnit.ACK else ()
        fate = dice.choice(fates if what is LineUnit.FRAME else (LineFate.LOST, LineFate.DAMAGED, *frozen))
        return Jam(what, fate, dice.randrange(1, 40), dice.choice((1, 1, 5, 500 if gives_up else 5)))

    jams = tuple(jam() for _ in range(dice.randrange(4)))
    lines = [
        LineSettings(
            bps, delay_ns, dice.choice(list(Wait)), loss=threshold(dice.choice((0, 0, 0.01, 0.2))),
            slot_octets=errors.slot_octets if errors else 0,
            slot_threshold=threshold(errors.probability) if errors else 0, seed=seed * 2 + number, jams=jams,
        )
        for number in (0, 1)
    ]  # fmt: skip
    timer_ns = round(2 * delay_ns + byte_ns * dice.choice((5000, 50_000))) + 10
    end = EndSettings(
        frames=dice.choice((1, 4, 61, 1000)), octets=dice.choice((1600, 31_184, 10**6)), replay_timer_ns=timer_ns,
        replay_count=dice.choice((0, 1, 3)) if gives_up else 255, spacing=dice.choice((400, 2048, 16_384)),
        init_action=dice.choice(list(LlrAction)) if gives_up else LlrAction.BLOCK,
        flush_action=dice.choice(list(LlrAction)) if gives_up else LlrAction.BLOCK,
        re_init=dice.random() < 0.7, age_ns=dice.choice((0, timer_ns // 2, 3 * timer_ns)) if gives_up else 0,
        first_sequence=dice.choice((0, SEQUENCES - 30)),
    )  # fmt: skip
    ends = (end, None if gives_up and dice.random() < 0.1 and not switches else end)
    cable = Cable(lines, ends)
    counts = [dice.randrange(60), dice.randrange(60)]
    sent, now_ns, events = [0, 0], [0.0, 0.0], []
    while sent != counts:
        number = min((one for one in (0, 1) if sent[one] < counts[one]), key=lambda one: now_ns[one])
        length = dice.choice((60, 60, 496, 1514))
        now_ns[number] += byte_ns * (length + 24) * dice.choice((1, 1, 1, 3))
        at_ns = max(round(now_ns[number]), cable.now_ns)
        if switches and dice.random() < 0.1:
            sends, receives, is_unnumbered = (dice.random() < share for share in (0.6, 0.7, 0.2))
            mode = replace(end, sends=sends, receives=receives, is_unnumbered=is_unnumbered)
            events.append(Event(number, 0, 0, at_ns, settings=mode))
            cable.change(number, mode, at_ns)
        events.append(Event(number, sent[number], length, at_ns, not gives_up or dice.random() < 0.9))
        cable.offer(number, sent[number], length, at_ns, events[-1].is_eligible)
        sent[number] += 1
    # Without an echo a sender asks for ever: there is an end to that
    cable.advance(cable.now_ns + 300 * timer_ns)
    return cable, events


@pytest.mark.parametrize("block", range(10))
def test_in_a_hundred_random_histories_nothing_is_lost_doubled_or_out_of_order(block: int) -> None:
    replays = 0
    for seed in range(block * 100, block * 100 + 100):
        cable, events = history(seed)
        for number in (0, 1):
            sent = [event.content for event in events if event.number == number]
            assert _passed(cable, number) == sent, seed
            assert cable.outcomes[number].lost == []
            assert not cable.ends[number].kept and not cable.ends[number].held
            assert cable.ends[number].state is Sender.ADVANCE
            replays += cable.ends[number].counters["LLR_TX_REPLAY"]
    assert replays > 100


def test_a_sender_that_is_switched_off_gives_up_what_it_keeps_and_begins_anew_when_it_is_switched_on() -> None:
    cable = _cable(back=_line(jams=(Jam(LineUnit.ACK, LineFate.LOST, 1, 5),)))
    end = cable.ends[0]
    assert end.settings is not None
    end_ns = _send(cable, 5)
    cable.advance(end_ns + 500)
    kept = len(end.kept)
    cable.change(0, replace(end.settings, sends=False), end_ns + 500)
    assert (end.state, kept, len(end.kept)) == (Sender.OFF, 5, 0)
    assert _counters(cable, 0, TX_DISCARD=5) == {"TX_DISCARD": 5}
    cable.offer(0, 5, 496, end_ns + 600)
    cable.change(0, replace(end.settings, sends=True), end_ns + 2000)
    assert end.state is Sender.INIT
    cable.advance(end_ns + 3000)
    assert end.state is Sender.ADVANCE
    cable.offer(0, 6, 496, end_ns + 3000)
    cable.advance(LATER)
    assert _passed(cable) == [0, 1, 2, 3, 4, 5, 6]  # what was given up had arrived
    assert _counters(cable, 0, TX_INIT_CTL_OS=2, RX_INIT_CTL_OS=1) == {"TX_INIT_CTL_OS": 2, "RX_INIT_CTL_OS": 1}


def test_an_end_that_does_not_receive_by_llr_has_no_echo_and_the_other_one_sends_as_its_action_says() -> None:
    ends = _end(), _end(receives=False)
    cable = Cable((_line(), _line()), ends)
    cable.advance(200)
    assert [end.state for end in cable.ends] == [Sender.INIT, Sender.ADVANCE]
    assert [end.receiver for end in cable.ends] == [Receiver.SEND_ACKS, Receiver.OFF]
    _send(cable, 3)
    cable.advance(50_000)
    assert _passed(cable) == [0, 1, 2]
    assert cable.ends[0].counters["LLR_TX_OK"] == 0


def test_unnumbered_frames_are_not_replayed() -> None:
    cable = _cable(there=_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 1),)), is_unnumbered=True)
    _send(cable, 3)
    cable.advance(LATER)
    assert (_passed(cable), cable.ends[0].counters["LLR_TX_OK"]) == ([0, 1, 2], 0)
