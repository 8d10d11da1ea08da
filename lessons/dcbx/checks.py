"""Lesson 4: what is looked at in a student's run."""

from testbed.subjects.lessons import Choice, Draw, Lesson, Number, Seen, Step
from testbed.subjects.lessons.check import require
from xoff import Duration

CASE = "yours"


def _oper(seen: Seen, host: str) -> list[int]:
    found = seen.figure("PFC in operation").get(host)
    return found if isinstance(found, list) else []


def _h1_takes_over(seen: Seen) -> None:
    require(_oper(seen, "h1") == [3], f"h1 operates with PFC on {_oper(seen, 'h1') or 'no priority'}")


def _shares(seen: Seen) -> None:
    share = seen.figure("ETS in operation at h1")[3]
    require(share >= 60, f"at h1 priority 3 has {share} % of the line, and 60 % are wanted")


def _lossless(seen: Seen) -> None:
    for host in ("h1", "h2"):
        require(_oper(seen, host) == [3], f"{host} operates with PFC on {_oper(seen, host) or 'no priority'}")
        lost = seen.figure("lost")[host]
        require(not lost, f"{lost} frames of {host} were lost")
    require(seen.count(CASE, "xoff_sent"), "no XOFF was sent, so nothing was congested")


def _defended(seen: Seen) -> None:
    require(_oper(seen, "h3") == [], "h3 has PFC; it is to stay as it is")
    require(seen.count(CASE, "defense_set", port="s1-eth3"), "the switch does not discard anything from h3")
    discarded, lost = seen.figure("frames of h3 discarded by defense"), seen.figure("lost")["h3"]
    require(discarded == lost and lost >= 180, "not all frames of h3 were discarded")


LESSON = Lesson(
    number=4,
    name="dcbx",
    title="DCBX",
    minutes=60,
    summary="A switch configures its hosts by DCBX: PFC, shares, and what to do with a host that does not take part.",
    steps=(
        Step("h1 operates with the switch's PFC", _h1_takes_over),
        Step("h1 gives priority 3 at least 60 % of its line, as the switch recommends", _shares),
        Step("h1 and h2 overload the port to r, and nothing is lost", _lossless),
        Step("the switch discards what h3 sends with the disputed priority", _defended),
    ),
    questions=(
        Number(
            "set_at_h1",
            "When did DCBX enable PFC at h1, counted from the start of the run? (the first pfc_set of its port)",
            lambda seen: next((event.t_ns for event in seen.events(CASE, "pfc_set", port="h1-eth0")), -1),
            "look for pfc_set with the port h1-eth0 in events.jsonl; t is in nanoseconds",
            unit=Duration,
            within=0.02,
        ),
        Number(
            "discarded",
            "How many frames of h3 did the switch discard?",
            lambda seen: seen.figure("frames of h3 discarded by defense"),
            "the run has a figure of it",
        ),
        Number(
            "rest",
            "What does h1 give to priority 0 now, in percent of its line?",
            lambda seen: seen.figure("ETS in operation at h1")[0],
            "the figure of ETS has a number for each of the eight classes",
        ),
        Choice(
            "both_willing",
            "Both ends of a link are willing, with different PFC settings. Who gives way?",
            {
                "a": "both: each takes the settings of the other",
                "b": "the one with the lower MAC address takes the settings of the other",
                "c": "the host; a switch never gives way",
                "d": "neither; PFC stays off",
            },
            "b",
            "the tie is broken by something that both ends have and that is never equal: see xoff run dcbx_willing",
        ),
        Choice(
            "recommendation",
            "By which TLV does a switch give a willing host its shares?",
            {
                "a": "its own ETS Configuration TLV",
                "b": "an ETS Recommendation TLV",
                "c": "the PFC TLV",
            },
            "b",
            "xoff export RESULT --ladder s1-eth1 h1-eth0 shows the TLVs of each frame",
        ),
    ),
    draws=(Draw("frames of h3", 'Flow("h3", "r", count={},', "200", tuple(map(str, range(180, 231, 5)))),),
)
