"""Lesson 3: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Number, Seen, Step
from testbed.subjects.lessons.check import require
from xoff import Rate

CASE, ALONE = "yours", "PFC alone"
LINE = Rate("10Gb/s")


def _marks(seen: Seen) -> None:
    require(seen.figure(f"{CASE}: marked packets"), "no packet was marked: does the queue ever reach Kmin?")


def _answers(seen: Seen) -> None:
    _marks(seen)
    require(sum(seen.figure(f"{CASE}: CNPs received, by host")), "no sender received a CNP")
    rates = seen.figure(f"{CASE}: goodput in the second half, by host")
    alone = seen.figure(f"{CASE}: pauses") or 0
    require(sum(rates) < LINE.bps * 99 // 100 or not alone, "the senders receive CNPs and go on at full rate")


def _few_pauses(seen: Seen) -> None:
    before, now = seen.figure(f"{ALONE}: pauses"), seen.figure(f"{CASE}: pauses")
    require(now * 10 <= before, f"{now} pauses, and {before} with PFC alone; at most a tenth of that is wanted")
    require(seen.lossless(CASE, "s1-eth1"), "PFC is off; it is to stay as the safety net")
    require(not seen.figure(f"{CASE}: lost or sent twice"), "packets were lost or sent again")


def _full(seen: Seen) -> None:
    _answers(seen)
    rates = seen.figure(f"{CASE}: goodput in the second half, by host")
    part = sum(rates) / LINE.bps
    require(
        part >= 0.85, f"the line is filled to {part:.0%}, and 85 % are wanted: is Pmax too large, or Kmin too small?"
    )
    index = sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))
    require(index >= 0.9, f"Jain's index of the flows is {index:.2f}, and 0.9 is wanted")


LESSON = Lesson(
    number=3,
    name="congestion",
    title="ECN and DCQCN",
    minutes=75,
    summary="Four RoCE flows share a port by pauses alone; have the switch mark and the senders slow down instead.",
    steps=(
        Step("the switch marks packets", _marks),
        Step("the senders receive CNPs and slow down", _answers),
        Step("at most a tenth of the pauses of PFC alone, nothing lost, and PFC still on", _few_pauses),
        Step("the line is filled to 85 % or more, and evenly", _full),
    ),
    questions=(
        Number(
            "pauses_alone",
            "How many pauses were there with PFC alone?",
            lambda seen: seen.figure(f"{ALONE}: pauses"),
            "the run has a figure of it",
        ),
        Number(
            "marked",
            "Which part of the packets received in your network was marked, in percent?",
            lambda seen: (
                100 * seen.figure(f"{CASE}: marked packets") / max(1, seen.figure(f"{CASE}: packets received"))
            ),
            "marked packets divided by packets received, of your network",
            within=0.02,
        ),
        Number(
            "most_cnps",
            "How many CNPs did the host receive that got most of them?",
            lambda seen: max(seen.figure(f"{CASE}: CNPs received, by host")),
            "the run has a figure of it, by host",
        ),
        Number(
            "first_cut",
            "To which rate does the first CNP slow down a flow that sends at 10 Gb/s? (alpha is 1 at the start)",
            lambda seen: LINE.bps // 2,
            "the new rate is the rate times (1 - alpha / 2)",
            unit=Rate,
            within=0.01,
        ),
        Choice(
            "order",
            "Why has Kmin to be below the XOFF threshold?",
            {
                "a": "otherwise PFC keeps the queue shorter than Kmin: no packet is marked, and no sender slows down",
                "b": "otherwise the switch marks packets that it has dropped before",
                "c": "it makes no difference as long as both are below the size of the buffer",
            },
            "a",
            "what does the queue do when it reaches the lower one of the two thresholds?",
        ),
    ),
    draws=(Draw("XOFF threshold of PFC alone, in cells", '"fixed", {})', "800", tuple(map(str, range(700, 901, 10)))),),
)
