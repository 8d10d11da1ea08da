"""Lesson 5: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Number, Seen, Step
from testbed.subjects.lessons.check import require
from xoff import Rate

OFFERED = Rate("4Gb/s")
INNOCENT = Rate("2Gb/s")
LINE = Rate("10Gb/s")


def _victim(seen: Seen) -> None:
    goodput = seen.figure("your victim: goodput")
    require(goodput >= OFFERED.bps * 98 // 100, f"the victim has {goodput / 1e9:.2f} of the 4 Gb/s that it sends")
    priority = seen.figure("your victim: priority")
    require(priority in seen.lossless("your victim", "s1-eth1"), f"priority {priority} is lossy")
    require(not seen.figure("your victim: lost"), "frames were lost")


def _ring(seen: Seen) -> None:
    moving = seen.figure("a ring: received in the second half")
    require(moving >= 400, f"in the second half {moving} frames arrived: the ring stands still")
    left = seen.figure("a ring: not received in the end")
    require(not left, f"{left} frames did not arrive in the end")


def _storm(seen: Seen) -> None:
    goodput = seen.figure("a storm: goodput of the flow to h2")
    require(goodput >= INNOCENT.bps * 95 // 100, f"in the storm the flow to h2 has {goodput / 1e9:.2f} of its 2 Gb/s")
    found = seen.count("a storm", "storm_detected")
    require(
        found == 1,
        f"the watchdog found {found} storms; the first pause of 300 us is an ordinary one, the second is a storm",
    )
    require(not seen.figure("a storm: lost by the flow to h2"), "the flow to h2 lost frames")


LESSON = Lesson(
    number=5,
    name="pathologies",
    title="What goes wrong with PFC",
    minutes=90,
    summary="Head-of-line blocking, a deadlock, a storm and unfairness: see each, and end those that can be ended.",
    steps=(
        Step("the victim gets what it sends, on a lossless priority", _victim),
        Step("the ring goes on, and everything arrives", _ring),
        Step("a watchdog ends the storm, and leaves the ordinary pause alone", _storm),
    ),
    questions=(
        Number(
            "victims_goodput",
            "What goodput had the victim in the first network?",
            lambda seen: seen.figure("a victim: goodput"),
            "the figure of the network 'a victim'",
            unit=Rate,
            within=0.02,
        ),
        Number(
            "jain",
            "What is Jain's index of h1 to h4 on the road: (sum)^2 / (4 x sum of squares)?",
            lambda seen: _jain(seen.figure("a road: goodput of h1 to h4")),
            "the index is 1 for equal rates and 1/4 if one has all",
            within=0.01,
        ),
        Number(
            "last_one",
            "Which part of the line had h4, which joins last, in percent?",
            lambda seen: 100 * seen.figure("a road: goodput of h1 to h4")[3] / LINE.bps,
            "each switch divides its line evenly between its two ports; the line has 10 Gb/s",
            within=0.04,
        ),
        Choice(
            "deadlock",
            "In the deadlock, how many frames does a switch drop?",
            {
                "a": "those that find the buffer full",
                "b": "none: everything waits, and the buffers are as full as when it began",
                "c": "all that are older than a pause",
            },
            "b",
            "set CLOCKWISE to True once more: what do the figures say of frames that did not arrive, and the drops?",
        ),
        Choice(
            "price",
            "What does the watchdog cost in the storm?",
            {
                "a": "nothing",
                "b": "the frames for r that wait or come meanwhile are dropped: the priority is lossy for a while",
                "c": "the flow to h2 is dropped",
            },
            "b",
            "look at the drops of the flow from h1 to r in the report",
        ),
    ),
    draws=(
        Draw(
            "what h1 sends to r1",
            '"r1", priority=3, rate="{}"',
            "5Gb/s",
            tuple(f"{rate}Mb/s" for rate in range(4500, 5001, 50)),
        ),
    ),
)


def _jain(rates: list[int]) -> float:
    return float(sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates)))
