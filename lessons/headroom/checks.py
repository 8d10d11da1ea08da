"""Lesson 2: what is looked at in a student's run."""

from fractions import Fraction

from testbed.subjects.lessons import Choice, Draw, Lesson, Number, Seen, Step
from testbed.subjects.lessons.check import NotYet, require
from xoff import Duration

CASE, DEFAULT = "yours", "default"
FAR, NEAR = "s1-eth1", "s1-eth2"
PERIOD = 5


def _by_host(seen: Seen, name: str, case: str = CASE) -> dict[str, int]:
    found = seen.figure(f"{case}: {name}")
    if not isinstance(found, dict):
        raise NotYet(f"the figure '{case}: {name}' is not what the file reports; start anew")
    return found


def _nothing_lost(seen: Seen) -> None:
    lost = _by_host(seen, "lost")
    require(not lost["h1"], f"{lost['h1']} frames of h1 were lost, which is 10 km away; what arrives after XOFF?")
    require(not lost["h2"], f"{lost['h2']} frames of h2 were lost")
    require(sum(_by_host(seen, "pauses").values()), "no port was paused: is there still an overload?")


def _not_too_much(seen: Seen) -> None:
    _nothing_lost(seen)
    has = int(seen.group(CASE, FAR, 3)["headroom_cells"])
    used = _by_host(seen, "most cells in headroom")["h1"]
    require(has <= used * 5 // 4, f"the port has {has} cells of headroom, more than five quarters of what was used")


def _half(seen: Seen) -> None:
    group = seen.group(CASE, NEAR, 3)
    require("alpha" in group, "the threshold is static; a dynamic one is wanted")
    part = Fraction(group["alpha"]) / (1 + Fraction(group["alpha"]))
    require(part == Fraction(1, 2), f"with this alpha one congested port settles at {float(part):.0%} of the pool")


def _fewer_pauses(seen: Seen) -> None:
    _nothing_lost(seen)
    before, now = (sum(_by_host(seen, "pauses", case).values()) for case in (DEFAULT, CASE))
    require(now * PERIOD <= before, f"{now} pauses, and {before} with the default; at most a fifth of that is wanted")
    goodput = seen.figure(f"{CASE}: goodput of both")
    require(goodput >= 9_900_000_000, "the port to r is no longer full: the senders are resumed too late")


def _round_trip(seen: Seen) -> float:
    cable = next(cable for cable in seen.network(CASE).cables if "h1" in cable["nodes"])
    return 2.0 * float(cable["hardware_delay_ns"])


def _settled(seen: Seen, groups: int) -> Fraction:
    alpha = Fraction(seen.group(CASE, NEAR, 3).get("alpha", "0"))
    return alpha / (1 + groups * alpha)


LESSON = Lesson(
    number=2,
    name="headroom",
    title="Buffers and headroom",
    minutes=75,
    summary="A cable of 10 km loses frames although PFC is on; find the headroom, the threshold and the resume point.",
    steps=(
        Step("nothing is lost, from near and from far", _nothing_lost),
        Step("and headroom is not much more than what is used", _not_too_much),
        Step("one congested port alone may hold half of the shared pool", _half),
        Step("at most a fifth of the pauses, with the port to r still full", _fewer_pauses),
    ),
    questions=(
        Number(
            "lost_by_default",
            "How many frames of h1 were lost with the default settings?",
            lambda seen: _by_host(seen, "lost", DEFAULT)["h1"],
            "the figure of the first network, not of yours",
        ),
        Number(
            "on_the_cable",
            "How long is the round trip in h1's long cable?",
            _round_trip,
            "light takes 5 ns for a metre of fibre; there and back",
            unit=Duration,
            within=0.02,
        ),
        Number(
            "used",
            "What is the most that lay in the headroom of h1's port in your network, in cells?",
            lambda seen: _by_host(seen, "most cells in headroom")["h1"],
            "the run has a figure of it",
        ),
        Number(
            "share_of_two",
            "With your alpha, which part of the pool does each of two congested ports settle at, in percent?",
            lambda seen: float(100 * _settled(seen, 2)),
            "n groups that stay full have alpha / (1 + n alpha) each",
            within=0.02,
        ),
        Choice(
            "small_frames",
            "The far end sends frames of 64 octets instead of 1514. What happens to the headroom that is needed?",
            {
                "a": "less is needed, because the frames are smaller",
                "b": "the same: the cable holds the same octets",
                "c": "more is needed: the cable holds about the same octets, but each frame fills a cell",
            },
            "c",
            "how many cells of 208 octets do 64 octets fill, and how many of these frames are on a full cable?",
        ),
    ),
    draws=(
        Draw(
            "the length of h1's cable",
            '("h1", "{}")',
            "10km",
            tuple(f"{metres}m" for metres in range(9000, 10501, 100)),
        ),
        Draw("cells of the buffer", "Buffer(total={},", "5000", tuple(str(cells) for cells in range(4800, 5201, 40))),
    ),
)
