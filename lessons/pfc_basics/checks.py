"""Lesson 1: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Name, Number, Seen, Step
from testbed.subjects.lessons.check import NotYet, every, require
from xoff import Duration, Rate

CASE = "yours"
LINE = Rate("10Gb/s")
SENDERS = ("h1", "h2")


def _rows(seen: Seen, case: str = CASE) -> list[dict[str, object]]:
    found = seen.figure(f"{case}: flows")
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise NotYet(f"the figure '{case}: flows' is not what the file reports; start anew")
    return found


def _overloads(seen: Seen) -> None:
    rows = [row for row in _rows(seen) if row["source"] in SENDERS and row["priority"] == 3]
    require(
        {row["source"] for row in rows} == set(SENDERS) and all(int(str(row["sent"])) >= 600 for row in rows),
        "h1 and h2 send 600 frames each with priority 3; a smaller load needs no PFC",
    )


def _nothing_lost(seen: Seen) -> None:
    _overloads(seen)
    ports = [port for port in seen.network(CASE).ports if 3 not in seen.lossless(CASE, port)]
    require(not ports, f"priority 3 is lossy at {every(ports)}")
    lost = sum(int(str(row["lost"])) for row in _rows(seen) if row["priority"] == 3)
    require(lost == 0, f"{lost} frames of priority 3 were lost")
    require(seen.count(CASE, "xoff_sent", priority=3), "no XOFF was sent, so nothing was congested")


def _others_go_on(seen: Seen) -> None:
    rows = [row for row in _rows(seen) if row["source"] == "h3" and row["priority"] == 0]
    require(rows, "no flow comes from h3 with priority 0")
    require(int(str(rows[0]["sent"])) >= 100, "h3 sends less than 100 frames, too few to see anything")
    extra = {priority for port in seen.network(CASE).ports for priority in seen.lossless(CASE, port)} - {3}
    require(not extra, f"priorities {every(map(str, extra))} are lossless too; h3's frames are to be lossy")
    require(float(str(rows[0]["goodput"])) >= 1_900_000_000, "h3 gets less than 2 Gb/s: is its rate given, and 2 Gb/s?")
    require(not seen.count(CASE, "queue_stopped", port="h3-eth0"), "h3's port was paused")


def _short_pauses(seen: Seen) -> None:
    quanta = [int(event.fields.get("quanta", 0)) for event in seen.events(CASE, "xoff_sent", "xoff_refreshed")]
    require(quanta, "no XOFF was sent")
    longest = LINE.time_for_quanta(max(quanta))
    require(longest <= Duration("5us"), "a single XOFF pauses a line of 10 Gb/s for more than 5 us")
    require(
        longest >= Duration("1us"),
        f"a single XOFF lasts {longest} only; 1us at least, so that there is time to repeat it",
    )


LESSON = Lesson(
    number=1,
    name="pfc_basics",
    title="PFC basics",
    minutes=60,
    summary="Frames are lost in an overloaded switch; make a priority lossless, and look at the pauses.",
    steps=(
        Step("h1 and h2 overload the port to r", _overloads),
        Step("no frame of priority 3 is lost", _nothing_lost),
        Step("h3 sends at 2 Gb/s with priority 0 and is not paused", _others_go_on),
        Step("one XOFF pauses for at most 5 us, and still nothing is lost", _short_pauses),
    ),
    questions=(
        Number(
            "dropped",
            "How many frames did the switch drop in the network without PFC?",
            lambda seen: seen.count("without PFC", "drop"),
            "count the drops of the first network alone: the report's table of drops has them by port, and so has "
            "events.jsonl",
        ),
        Name(
            "xoff_from",
            "Name a port that sent XOFF in your network.",
            lambda seen: {event.port for event in seen.events(CASE, "xoff_sent")} or {"-"},
            "XOFF is sent by the ingress port whose buffer is above its threshold, not by the overloaded port, and not "
            "by the one that obeys",
            form='a port, as in "s1-eth9"',
        ),
        Number(
            "frames_at_h1",
            "How many PFC frames with a pause (XOFF, first or repeated) did h1 receive in your network?",
            lambda seen: seen.count(CASE, "xoff_received", port="h1-eth0"),
            "look for xoff_received at h1-eth0 in events.jsonl, in your network, repetitions included",
        ),
        Number(
            "longest_pause",
            "For how long would one XOFF of 65535 quanta pause a line of 10 Gb/s?",
            lambda seen: LINE.time_for_quanta(65535).ns,
            "a quantum is 512 bit times, and a bit takes 100 ps at 10 Gb/s",
            unit=Duration,
            within=0.01,
        ),
        Choice(
            "who_is_paused",
            "What does a PFC frame for priority 3 stop at the port that receives it?",
            {
                "a": "everything that the port sends",
                "b": "the frames of the flow that caused the congestion",
                "c": "all frames of priority 3 that the port has to send, of any flow",
                "d": "frames of priority 3 that arrive at the port",
            },
            "c",
            "a PFC frame has priorities and times in it, and no address of a flow; its receiver is a sender of data",
        ),
    ),
    draws=(
        Draw(
            "cells of the buffer", "port=port, total={})", "1500", tuple(str(cells) for cells in range(1400, 1601, 10))
        ),
    ),
)
