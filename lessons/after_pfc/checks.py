"""Lesson 7: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Number, Seen, Step
from testbed.subjects.lessons.check import require
from xoff import Rate

DAMAGED, LONG = Rate("100Gb/s"), Rate("10Gb/s")
MOST_BEYOND = 1.1


def _full(seen: Seen) -> None:
    lost = seen.figure("full: lost")
    require(seen.figure("full: rests") > 0, "no frame was trimmed: what the buffer has no room for is dropped")
    require(not lost, f"{lost} frames were lost; look at the drops of rests in the report")


def _damaged(seen: Seen) -> None:
    again = seen.figure("damaged: sent again by RoCE")
    require(not again, f"RoCE sent {again} packets again: the cables do not repair what they damage")
    goodput = seen.figure("damaged: goodput")
    require(
        goodput >= DAMAGED.bps * 9 // 10,
        f"RoCE has {goodput / 1e9:.1f} of 100 Gb/s: a sender whose replay buffer is full waits for acknowledgements",
    )


def _credits(seen: Seen) -> None:
    goodput = seen.figure("credits: goodput")
    require(goodput >= LONG.bps * 99 // 100, f"the line carries {goodput / 1e9:.2f} of 10 Gb/s: it waits for credits")
    require(not seen.figure("credits: lost"), "frames were lost")
    cells, used = seen.figure("credits: cells"), seen.figure("credits: most that were out")
    require(cells <= used * MOST_BEYOND, f"{cells} cells are kept, and no more than {used} were ever out")


LESSON = Lesson(
    number=7,
    name="after_pfc",
    title="After PFC",
    minutes=60,
    summary="Trimming, Link Layer Retry and credits: what PFC does not do, and what each of them costs.",
    steps=(
        Step("a full buffer loses nothing, and stops nobody", _full),
        Step("damaged cables repair themselves, at the rate of the line", _damaged),
        Step("a long cable with credits never waits, and keeps no cell too many", _credits),
    ),
    questions=(
        Number(
            "rests",
            "How many frames arrived as rests?",
            lambda seen: seen.figure("full: rests"),
            "the figure of the network 'full', or the counters of trimming in the report",
            within=0,
        ),
        Number(
            "replays",
            "How often did h1 replay?",
            lambda seen: seen.figure("damaged: replays of the first cable"),
            "TX_REPLAY at h1-eth0, in the report's table of retries",
            within=0,
        ),
        Choice(
            "stopped",
            "Which of the mechanisms can stop a flow to an idle port?",
            {
                "a": "PFC and credits: both stop a priority of a cable",
                "b": "PFC alone",
                "c": "all three of this lesson",
            },
            "a",
            "what do gates and paused queues do to all frames of their priority?",
        ),
        Choice(
            "headroom",
            "Why do credits need no headroom?",
            {
                "a": "the cable is shorter with them",
                "b": "frames are cut when the buffer is full",
                "c": "no frame leaves for which there is no cell, so none is on its way when the buffer is full",
            },
            "c",
            "what does PFC's headroom hold, and until when?",
        ),
    ),
    draws=(
        Draw("how many frames each host sends", "count={})", "400", tuple(str(count) for count in range(380, 421, 4))),
    ),
)
