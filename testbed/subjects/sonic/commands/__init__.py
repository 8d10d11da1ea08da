"""The commands of `xoff switch`."""

from __future__ import annotations

from testbed.cli.commands import SWITCHES, Command

_HERE = "testbed.subjects.sonic.commands"
_SWITCH = {
    "check": Command(
        "what is wrong, contradictory, risky or not modelled in files", f"{_HERE}.config_db", "check", "check_options"
    ),
    "run": Command(
        "traffic over the switches, in the lab: losses, pauses and watermarks",
        f"{_HERE}.config_db",
        "run",
        "run_options",
        True,
        True,
    ),
    "conformance": Command(
        "SONiC's PFC and RoCEv2 test plans, on the switch of a file or on Xoff's own",
        f"{_HERE}.conformance",
        "conformance",
        "options",
        True,
        True,
    ),
    "incident": Command(
        "a victim of PFC, a storm, a flapping link or a wrong DSCP map, on the switch of a file",
        f"{_HERE}.incident",
        "incident",
        "options",
        True,
        True,
    ),
    "counters": Command(
        "PFC counters of a real switch, beside the lab's", f"{_HERE}.counters", "counters", "options", True
    ),
    "diff": Command(
        "what two files have different, and what follows for pools and headroom",
        f"{_HERE}.diff",
        "diff",
        "options",
        True,
    ),
    "fit": Command(
        "whether a cable fits a port of a file, and what makes it fit", f"{_HERE}.fit", "fit", "options", True
    ),
    "headroom": Command(
        "the headroom that a port needs, term by term", f"{_HERE}.headroom", "headroom", "options", True
    ),
    "credits": Command(
        "the buffer that credits (CBFC) need for a cable, and PFC beside it",
        f"{_HERE}.credits",
        "credits",
        "options",
        True,
    ),
    "replay": Command(
        "the replay buffer that LLR needs for a cable, and SONiC's beside it",
        f"{_HERE}.replay",
        "replay",
        "options",
        True,
    ),
    "thresholds": Command(
        "how a buffer is divided, and when PAUSE is sent", f"{_HERE}.thresholds", "thresholds", "options", True
    ),
    "ecn": Command("which share of packets a curve marks", f"{_HERE}.ecn", "ecn", "options", True),
}
COMMANDS = {
    SWITCHES: {
        "switch": Command("SONiC's config_db.json: check it, run traffic or test plans; headroom", parts=_SWITCH)
    }
}
