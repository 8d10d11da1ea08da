"""The tree of commands: groups, names, a line of help each, and the module that performs it.

A command's module is imported when the command is used, so that `xoff --help` does not wait for all of them.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command. `perform` and `options` are functions of `module`, by name; a command of parts has no module."""

    summary: str
    module: str = ""
    perform: str = ""
    options: str = ""
    has_json: bool = False
    installs: bool = False
    """True if it installs Debian packages that are missing."""
    parts: Mapping[str, Command] = MappingProxyType({})
    hidden: bool = False
    """True if neither help nor messages name it."""

    def declare(self, parser: argparse.ArgumentParser, wanted: Sequence[str]) -> None:
        """Give the command's parser its options, or its parts and the options of those that are `wanted`."""
        if self.parts:
            parser.description = f"{self.summary[:1].upper()}{self.summary[1:]}."
            declare(parser.add_subparsers(metavar="WHAT", dest="part", required=True), self.parts, wanted)
            return
        module = importlib.import_module(f"testbed.cli.{self.module}")
        perform = getattr(module, self.perform)
        parser.description = perform.__doc__
        parser.set_defaults(perform=perform)
        if self.options:
            getattr(module, self.options)(parser)
        if self.installs:
            parser.add_argument("--yes", action="store_true", help="install packages that are missing without asking")
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")


_SWITCH = {
    "check": Command(
        "what is wrong, contradictory, risky or not modelled in files", "switches.config_db", "check", "check_options"
    ),
    "run": Command(
        "traffic over the switches, in the lab: losses, pauses and watermarks",
        "switches.config_db",
        "run",
        "run_options",
        True,
        True,
    ),
    "conformance": Command(
        "SONiC's PFC and RoCEv2 test plans, on the switch of a file or on Xoff's own",
        "switches.conformance",
        "conformance",
        "options",
        True,
        True,
    ),
    "incident": Command(
        "a victim of PFC, a storm, a flapping link or a wrong DSCP map, on the switch of a file",
        "switches.incident",
        "incident",
        "options",
        True,
        True,
    ),
    "counters": Command(
        "PFC counters of a real switch, beside the lab's", "switches.counters", "counters", "options", True
    ),
    "diff": Command(
        "what two files have different, and what follows for pools and headroom",
        "switches.diff",
        "diff",
        "options",
        True,
    ),
    "fit": Command(
        "whether a cable fits a port of a file, and what makes it fit", "switches.fit", "fit", "options", True
    ),
    "headroom": Command(
        "the headroom that a port needs, term by term", "switches.headroom", "headroom", "options", True
    ),
}
_CONTROLLER = {
    "sr": Command("SR policies, VPNs, slices, SIDs, and the topology", "switches.sr", "sr", "options"),
    "qos": Command("path records, and the QoS policy in force", "switches.qos", "qos", "options"),
}
_DCBX = {
    "agent": Command("run DCBX on interfaces", "switches.dcbx", "agent", "agent_options"),
    "show": Command("show what the agents of this machine negotiate", "switches.dcbx", "show", "show_options", True),
    "metrics": Command("what the agents count, for Prometheus", "switches.dcbx", "metrics", "metrics_options"),
    "forget": Command("have the agents forget their neighbours", "switches.dcbx", "forget", "show_options", True),
}
_IMAGE = {
    "build": Command("build the image anew", "house.image", "build", "", True, True),
    "info": Command("its digest, and the version of every package", "house.image", "info", "", True),
    "export": Command(
        "the lab in one file, for a machine that has only Python", "house.image", "export", "export_options", True, True
    ),
    "import": Command("put the lab of such a file into the cache", "house.lab_file", "import_", "import_options", True),
    "clean": Command(
        "remove images, snapshots and kernels, or all of the cache", "house.image", "clean", "clean_options"
    ),
    "lock": Command("a lock file of packages, for run --with and --with-deb", "house.packages", "lock", "lock_options"),
    "reference": Command(
        "write the versions of the reference image",
        "house.image",
        "reference",
        "reference_options",
        True,
        True,
        hidden=True,
    ),
}

GROUPS: Mapping[str, Mapping[str, Command]] = {
    "first steps": {
        "demo": Command("show what Xoff does, in a minute", "first_steps.run", "demo", "demo_options", True, True),
        "list": Command(
            "list experiments, topologies and rate controls", "first_steps.listing", "list_", has_json=True
        ),
        "run": Command("run experiments", "first_steps.run", "run", "experiment_options", True, True),
        "report": Command("one HTML page from results", "first_steps.report", "make", "options"),
        "serve": Command(
            "a live network, or results to replay, in the browser",
            "first_steps.serve",
            "serve",
            "options",
            installs=True,
        ),
        "new": Command("a file of your own to begin with", "first_steps.new", "new", "options"),
        "lesson": Command("guided labs that check your work", "first_steps.lesson", "lesson", "options"),
    },
    "look closer": {
        "shell": Command(
            "Mininet's command line in the lab, or a script's",
            "look.shell",
            "open_shell",
            "shell_options",
            installs=True,
        ),
        "path": Command("which way a flow takes, and why: hashes, hop by hop", "look.path", "path", "options", True),
        "decode": Command(
            "the frames of captures in words; a dissector for Wireshark", "look.decode", "decode", "options", True
        ),
        "plot": Command("figures of results for papers and slides", "look.plot", "draw", "options"),
        "export": Command("a result as a table, a trace, a ladder diagram", "look.export", "export", "options"),
    },
    "studies": {
        "sweep": Command(
            "an experiment over a grid of parameters", "studies.sweep", "run_sweep", "sweep_options", True, True
        ),
        "workload": Command(
            "a load of flows over a topology: completion times, slowdown",
            "studies.workload",
            "workload",
            "options",
            True,
            True,
        ),
        "benchmark": Command(
            "a benchmark for AI training fabrics, after an IETF draft",
            "studies.benchmark",
            "benchmark",
            "options",
            True,
            True,
        ),
        "compare": Command(
            "what differs between two results, sweeps or benchmarks",
            "studies.compare",
            "compare",
            "compare_options",
            True,
        ),
        "artifact": Command(
            "results with all that makes them again, for an artifact evaluation",
            "studies.artifact",
            "artifact",
            "options",
            True,
        ),
        "verify": Command(
            "compare this machine's results with the repository's",
            "studies.verify",
            "verify",
            "verify_options",
            True,
            True,
        ),
    },
    "switches, policies, DCBX": {
        "switch": Command("SONiC's config_db.json: check it, run traffic or test plans; headroom", parts=_SWITCH),
        "policy": Command("QoS policy files: check, show, convert, query", "switches.policy", "policy", "options"),
        "controller": Command("query the controller of a WAN, or change its policies", parts=_CONTROLLER),
        "dcbx": Command("DCBX on interfaces of this machine", parts=_DCBX),
    },
    "this machine": {
        "doctor": Command("check this machine", "house.doctor", "doctor", "doctor_options", True, True),
        "image": Command("what Xoff keeps: build it, carry it elsewhere, remove it", parts=_IMAGE),
        "help": Command("more about a command or a topic", "house.help", "help_", "options"),
    },
    "work on Xoff": {
        "test": Command("run Xoff's own tests", "house.tests", "test", "test_options", installs=True),
        "docs": Command("build the documentation site", "house.site", "docs", "docs_options"),
    },
}
COMMANDS: Mapping[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}


def declare(subparsers: Any, commands: Mapping[str, Command], wanted: Sequence[str]) -> None:
    """Declare all of these commands, and the options of those that are `wanted`."""
    for name, command in commands.items():
        shown = {} if command.hidden else {"help": command.summary}
        parser = subparsers.add_parser(name, **shown)
        if name in wanted:
            command.declare(parser, wanted)


def overview() -> str:
    """Return all groups with their commands, for people."""
    width = max(map(len, COMMANDS)) + 2
    lines = []
    for title, group in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:<{width}}{command.summary}" for name, command in group.items()), ""]
    return "\n".join(lines)
