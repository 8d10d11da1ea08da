"""SONiC's Scale-Up Test Standard (draft 0.4), 4.1: the ten cases of LLR, against the model of a cable with it.

The DUT is the end that the row names; the tester is the other end, and disturbs the line by `Jam`. Counters have
SONiC's names. RETRY_COUNT of the standard is the number of replays that the sender's other end has seen begin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.lab.studies.plan_rows import near
from testbed.subjects.link.commands.rows import Rows
from testbed.subjects.link.llr.cable import Cable
from testbed.subjects.link.llr.end import EndSettings, Sender
from testbed.subjects.link.llr.line import LineSettings
from testbed.switch.link.errors import threshold
from testbed.switch.link.jam import Jam, LineFate, LineUnit
from testbed.switch.link.retry import LlrAction, needed
from testbed.units import Duration, Rate

MODEL = "model: two ends with LLR on an exact cable"
_BPS, _LATER, _LENGTH = 200 * 10**9, 10**9, 496
_NO_ACKS = (Jam(LineUnit.ACK, LineFate.LOST, 1, 10**6),)


def _line(**given: Any) -> LineSettings:
    return LineSettings(**{"bps": _BPS, "delay_ns": 25} | given)


def _cable(there: LineSettings | None = None, back: LineSettings | None = None, **given: Any) -> Cable:
    chosen = {"frames": 61, "octets": 31_184, "replay_timer_ns": 5000, "replay_count": 255, "spacing": 2048} | given
    cable = Cable((there or _line(), back or _line()), (EndSettings(**chosen),) * 2)
    cable.advance(20_000)
    return cable


def _send(cable: Cable, count: int, length: int = _LENGTH) -> None:
    """Offer frames at the line's rate, from the model's time on."""
    gap_ns, first_ns = cable.ends[0].line.time_ns(length + 24), cable.now_ns
    for place in range(count):
        cable.offer(0, place, length, first_ns + place * gap_ns)


def _passed(cable: Cable) -> list[Any]:
    return [content for _, content in cable.outcomes[0].passed]


def _counter(rows: Rows, cable: Cable, end: int, name: str, expected: int, **more: object) -> None:
    whose = ("Tx", "Rx")[end]
    rows.equal(cable, f"LLR_{name} on the {whose} port", expected, cable.ends[end].counters[f"LLR_{name}"], **more)


def _in_order(rows: Rows, cable: Cable, count: int, **more: object) -> None:
    passed = _passed(cable)
    found = len(passed), passed == list(range(count))
    rows.equal(cable, "frames passed on, all in order", (count, True), found, **more)


def acknowledged(rows: Rows) -> None:
    cable = _cable()
    rows.equal(cable, "state of both ends", ["ADVANCE"] * 2, [end.state.name for end in cable.ends])
    _send(cable, 100)
    cable.advance(_LATER)
    _in_order(rows, cable, 100)
    _counter(rows, cable, 1, "RX_OK", 100)
    _counter(rows, cable, 0, "TX_OK", 100)
    sent = cable.ends[1].counters["LLR_TX_ACK_CTL_OS"]
    _counter(rows, cable, 0, "RX_ACK_CTL_OS", sent, notes="as many as the Rx port has sent")


def asked_for(rows: Rows) -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 50),)))
    _send(cable, 100)
    cable.advance(_LATER)
    _counter(rows, cable, 0, "RX_NACK_CTL_OS", 1)
    _counter(rows, cable, 1, "RX_REPLAY", 1, notes="RETRY_COUNT")
    _in_order(rows, cable, 100)


def timed_out(rows: Rows) -> None:
    for fate, name in ((LineFate.LOST, "scenario A: ACKs blocked"), (LineFate.FROZEN, "scenario B: ACKs frozen")):
        jams = (Jam(LineUnit.ACK, fate, 1, 10**6),)
        cable = _cable(back=_line(jams=jams), replay_count=3, re_init=False, flush_action=LlrAction.DISCARD)
        more = {"settings": f"{name}, REPLAY_COUNT_MAX 3"}
        _send(cable, 100)
        cable.advance(_LATER)
        rows.equal(cable, "state of the sender", Sender.FLUSH.name, cable.ends[0].state.name, **more)
        _counter(rows, cable, 0, "TX_REPLAY", 3, notes="retries", **more)
        came = cable.ends[0].counters["LLR_RX_ACK_CTL_OS"]
        expected = "1 or more" if fate is LineFate.FROZEN else "0"
        rows.add(cable, "ACKs that came", expected, came, passed=bool(came) is (fate is LineFate.FROZEN), **more)
        lost = len(cable.outcomes[0].lost)
        rows.add(cable, "packets dropped", "1 or more", lost, passed=lost > 0, **more)


def nack(rows: Rows) -> None:
    for fate, name in ((LineFate.DAMAGED, "a bad CRC"), (LineFate.LOST, "a gap of sequence")):
        cable, more = _cable(_line(jams=(Jam(LineUnit.FRAME, fate, 500),))), {"settings": name}
        _send(cable, 1000)
        cable.advance(_LATER)
        if fate is LineFate.DAMAGED:
            _counter(rows, cable, 1, "RX_EXPECTED_SEQ_BAD", 1, **more)
        _counter(rows, cable, 1, "TX_NACK_CTL_OS", 1, **more)
        _counter(rows, cable, 1, "RX_REPLAY", 1, **more)
        _in_order(rows, cable, 1000, **more)


def poisoned(rows: Rows) -> None:
    cable = _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.POISONED, 50),)))
    _send(cable, 100)
    cable.advance(_LATER)
    for name, expected in (("RX_EXPECTED_SEQ_POISONED", 1), ("TX_NACK_CTL_OS", 0), ("RX_REPLAY", 0), ("RX_OK", 99)):
        _counter(rows, cable, 1, name, expected)
    _counter(rows, cable, 0, "TX_OK", 99)


def outstanding(rows: Rows) -> None:
    cable = _cable(back=_line(jams=_NO_ACKS), frames=4, replay_count=1, re_init=False, flush_action=LlrAction.DISCARD)
    more = {"settings": "OUTSTANDING_FRAMES_MAX 4, one replay"}
    _send(cable, 100)
    cable.advance(_LATER)
    replayed = cable.ends[0].counters["LLR_TX_OK"] - 4
    rows.equal(cable, "frames replayed before FLUSH", 4, replayed, notes="TX_OK less those sent first", **more)
    rows.equal(cable, "state of the sender", Sender.FLUSH.name, cable.ends[0].state.name, **more)


def capacity(rows: Rows) -> None:
    frames, octets = needed(Rate(f"{_BPS}b/s"), Duration("2500ns"), 9198)
    line = _line(delay_ns=2500)
    for length in (9212, 60):
        for parts in (1, 3):
            cable = _cable(line, line, frames=frames // parts, octets=octets // parts, replay_timer_ns=65_535)
            _send(cable, 3000, length)
            cable.advance(_LATER)
            moments = [at_ns for at_ns, _ in cable.outcomes[0].passed]
            share = 2999 * cable.ends[0].line.time_ns(length + 24) / (moments[-1] - moments[0])
            more = {
                "frame": length + 4,
                "settings": f"500 m there and back, {frames // parts} frames, {octets // parts} B",
            }
            if parts == 1:
                rows.share(cable, "throughput", 1.0, share, **more)
                _in_order(rows, cable, 3000, **more)
            else:
                note = "not in the standard: a case has to be able to fail"
                rows.add(cable, "control: throughput with a third of the buffer", "less than 0.95", f"{share:.4f}",
                         passed=share < 0.95, notes=note, **more)  # fmt: skip


def recovered(rows: Rows) -> None:
    cable, more = (
        _cable(_line(jams=(Jam(LineUnit.FRAME, LineFate.LOST, 10, 40),)), replay_count=1),
        {"settings": "RE_INIT_ON_FLUSH"},
    )
    _send(cable, 20)
    cable.advance(cable.now_ns + 50_000)
    end = cable.ends[0]
    rows.add(cable, "flushes", "1 or more", end.flushes, passed=end.flushes > 0, **more)
    rows.equal(cable, "state of the sender afterwards", Sender.ADVANCE.name, end.state.name, **more)
    _counter(rows, cable, 1, "RX_INIT_CTL_OS", 1 + end.flushes, **more)
    before = len(_passed(cable))
    _send(cable, 100)
    cable.advance(_LATER)
    rows.equal(cable, "frames passed on of 100 afterwards", 100, len(_passed(cable)) - before, **more)


def sizes(rows: Rows) -> None:
    for base in (64, 128, 256, 512, 1518, 2048, 4096, 9216):
        for length in (base - 1, base, base + 1):
            if 64 <= length <= 9216:
                cable = _cable(octets=64_000)
                _send(cable, 100, length - 4)
                cable.advance(_LATER)
                _in_order(rows, cable, 100, frame=length)


def mixed(rows: Rows) -> None:
    for loss, name in ((0, "no errors"), (threshold(0.01), "uncorrectable codewords")):
        cable, more = _cable(_line(slot_octets=640, slot_threshold=loss, seed=3)), {"settings": name}
        gap_ns, first_ns = cable.ends[0].line.time_ns(_LENGTH + 24), cable.now_ns
        for place in range(2000):
            cable.offer(0, place, _LENGTH, first_ns + place * gap_ns, eligible=place % 4 > 0)
        cable.advance(_LATER)
        gone = cable.outcomes[0].lost
        rows.equal(cable, "LLR frames lost", 0, sum(one % 4 > 0 for one in gone), **more)
        others, expected = sum(one % 4 == 0 for one in gone), "1 or more" if loss else "0"
        rows.add(cable, "other frames lost", expected, others, passed=bool(others) == bool(loss), **more)
        if not loss:
            passed = cable.outcomes[0].passed
            means = []
            for is_llr in (True, False):
                delays = [at_ns - first_ns - one * gap_ns for at_ns, one in passed if (one % 4 > 0) is is_llr]
                means.append(sum(delays) / len(delays))
            what, shown = "mean latency of LLR frames and of others in ns", f"{means[0]:.1f}, {means[1]:.1f}"
            rows.add(cable, what, "less than 5 % apart", shown, passed=near(*means), **more)


CASES: tuple[tuple[str, Callable[[Rows], None]], ...] = (
    ("100 LLR frames: no loss, RX_OK and TX_OK are 100, both ends agree", acknowledged),
    ("One frame is dropped: RX_NACK_CTL_OS 1, RETRY_COUNT 1, no loss", asked_for),
    ("REPLAY_COUNT_MAX 3, ACKs blocked or frozen: after 3 retries FLUSH", timed_out),
    ("A bad CRC, or a gap of sequence: one NACK, one replay, no loss, in order", nack),
    ("One poisoned frame: EXPECTED_SEQ_POISONED 1, no NACK, no replay", poisoned),
    ("OUTSTANDING_FRAMES_MAX 4, ACKs dropped: 4 frames replayed, then FLUSH", outstanding),
    ("500 m of round trip at line rate, longest and shortest frames: no loss, full rate", capacity),
    ("RE_INIT_ON_FLUSH: INIT by itself, the link recovers", recovered),
    ("All frame sizes: no abnormal drops", sizes),
    ("LLR and other frames together, without and with FEC errors", mixed),
)
