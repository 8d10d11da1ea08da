"""Lesson 6: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Name, Number, Seen, Step
from testbed.subjects.lessons.check import require
from xoff import Duration

CASE, WITHOUT = "yours", "without"


def _pressed_back(seen: Seen) -> None:
    require(seen.count(CASE, "tunnel_xoff"), "r3 sent no XOFF into a tunnel")
    require(seen.count(CASE, "tunnel_received", port="r1-eth1"), "no PFC frame came out of a tunnel at r1")


def _learned(seen: Seen) -> None:
    _pressed_back(seen)
    require(seen.count(CASE, "tunnel_learned"), "the tunnels were set up beforehand; r3 is to find r1 from the data")


def _long(seen: Seen) -> None:
    lengths = [
        float(cable["hardware_length_m"])
        for cable in seen.network(CASE).cables
        if all(node.startswith("r") for node in cable["nodes"])
    ]
    require(
        min(lengths) >= 30_000, f"the cables between the routers have {min(lengths) / 1000:g} km, and 30 are wanted"
    )


def _nothing_lost(seen: Seen) -> None:
    _pressed_back(seen)
    _long(seen)
    sent, lost = seen.figure(f"{CASE}: sent and lost by a1")
    require(not lost, f"{lost} of {sent} frames of a1 were lost at 30 km: what arrives after XOFF has left r3?")
    used, has = (seen.figure(f"{CASE}: {name} headroom at r3") for name in ("most cells in", "cells of"))
    require(has <= 3 * used, f"r3 has {has} cells of headroom, more than three times what was used")


LESSON = Lesson(
    number=6,
    name="wan",
    title="PFC across an SRv6 WAN",
    minutes=75,
    summary="Two data centres and a WAN without PFC between: press back through a reverse tunnel, near and far.",
    steps=(
        Step("r3 presses back on r1 through a reverse tunnel", _pressed_back),
        Step("r3 learns the tunnel from the data", _learned),
        Step("the cables between the routers have 30 km each", _long),
        Step("nothing of a1 is lost there, with headroom that is not wasted", _nothing_lost),
    ),
    questions=(
        Number(
            "lost_without",
            "How many frames of a1 were lost without back-pressure?",
            lambda seen: seen.figure(f"{WITHOUT}: sent and lost by a1")[1],
            "the second number of the first network's figure",
        ),
        Number(
            "round_trip",
            "How long is the round trip of a ping from a1 to b1 in your network?",
            lambda seen: seen.figure(f"{CASE}: round trip of a ping"),
            "the run has a figure of it",
            unit=Duration,
            within=0.01,
        ),
        Number(
            "xoffs",
            "How many XOFF did r3 send into the tunnel, repetitions not counted?",
            lambda seen: seen.count(CASE, "tunnel_xoff"),
            "count tunnel_xoff in your network; tunnel_refresh is a repetition",
        ),
        Name(
            "stopped",
            "Which port's queue do the PFC frames from the tunnel stop?",
            lambda seen: {event.port for event in seen.events(CASE, "tunnel_received")} or {"-"},
            "it is the port that the congested traffic leaves r1 by",
            form='a port, as in "r2-eth9"',
        ),
        Choice(
            "middle",
            "What does r2 do with the PFC frame in the tunnel?",
            {
                "a": "it obeys it and passes it on",
                "b": "it forwards an IPv6 packet with a segment list; PFC has no part in that",
                "c": "it discards it, because it has no PFC",
            },
            "b",
            "which SID of r2 is in the list of the reverse tunnel, and what does that behaviour do?",
        ),
    ),
    draws=(
        Draw(
            "cells of headroom without back-pressure",
            '"none", "10km", {})',
            "1437",
            tuple(map(str, range(1300, 1551, 25))),
        ),
    ),
)
