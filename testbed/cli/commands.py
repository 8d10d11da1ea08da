"""The tree of commands: groups, names, a line of help each, and the module that performs it. Subjects add theirs.

A command's module is imported when the command is used, so that `xoff --help` does not wait for all of them.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from testbed import subject


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
        module = importlib.import_module(self.module)
        perform = getattr(module, self.perform)
        parser.description = perform.__doc__
        parser.set_defaults(perform=perform)
        if self.options:
            getattr(module, self.options)(parser)
        if self.installs:
            parser.add_argument("--yes", action="store_true", help="install packages that are missing without asking")
        if self.has_json:
            parser.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")


_IMAGE = {
    "build": Command("build the image anew", "testbed.cli.house.image", "build", "", True, True),
    "info": Command("its digest, and the version of every package", "testbed.cli.house.image", "info", "", True),
    "export": Command(
        "the lab in one file, for a machine that has only Python",
        "testbed.cli.house.image",
        "export",
        "export_options",
        True,
        True,
    ),
    "import": Command(
        "put the lab of such a file into the cache", "testbed.cli.house.lab_file", "import_", "import_options", True
    ),
    "clean": Command(
        "remove images, snapshots and kernels, or all of the cache", "testbed.cli.house.image", "clean", "clean_options"
    ),
    "lock": Command(
        "a lock file of packages, for run --with and --with-deb", "testbed.cli.house.packages", "lock", "lock_options"
    ),
    "reference": Command(
        "write the versions of the reference image",
        "testbed.cli.house.image",
        "reference",
        "reference_options",
        True,
        True,
        hidden=True,
    ),
}

FIRST_STEPS, SWITCHES = "first steps", "switches, policies, DCBX"
CONTROLLER = Command("query the controller of a WAN, or change its policies")
"""The command that asks a controller; its parts are those of subjects with a service of it."""
GROUPS: Mapping[str, Mapping[str, Command]] = {
    FIRST_STEPS: {
        "demo": Command(
            "show what Xoff does, in a minute", "testbed.cli.first_steps.run", "demo", "demo_options", True, True
        ),
        "list": Command(
            "list experiments, topologies and rate controls", "testbed.cli.first_steps.listing", "list_", has_json=True
        ),
        "run": Command("run experiments", "testbed.cli.first_steps.run", "run", "experiment_options", True, True),
        "report": Command("one HTML page from results", "testbed.cli.first_steps.report", "make", "options"),
        "serve": Command(
            "a live network, or results to replay, in the browser",
            "testbed.cli.first_steps.serve",
            "serve",
            "options",
            installs=True,
        ),
        "new": Command("a file of your own to begin with", "testbed.cli.first_steps.new", "new", "options"),
    },
    "look closer": {
        "shell": Command(
            "Mininet's command line in the lab, or a script's",
            "testbed.cli.look.shell",
            "open_shell",
            "shell_options",
            installs=True,
        ),
        "path": Command(
            "which way a flow takes, and why: hashes, hop by hop", "testbed.cli.look.path", "path", "options", True
        ),
        "nics": Command(
            "settings of NICs by product, each with its source", "testbed.cli.look.nics", "nics", "options", True
        ),
        "decode": Command(
            "the frames of captures in words; a dissector for Wireshark",
            "testbed.cli.look.decode",
            "decode",
            "options",
            True,
        ),
        "sql": Command(
            "a query over a run: events, flows, pauses, frames", "testbed.cli.look.sql", "ask", "options", True
        ),
        "plot": Command("figures of results for papers and slides", "testbed.cli.look.plot", "draw", "options"),
        "export": Command(
            "a result as a table, a trace, a ladder diagram", "testbed.cli.look.export", "export", "options"
        ),
    },
    "studies": {
        "sweep": Command(
            "an experiment over a grid of parameters",
            "testbed.cli.studies.sweep",
            "run_sweep",
            "sweep_options",
            True,
            True,
        ),
        "workload": Command(
            "a load of flows over a topology: completion times, slowdown",
            "testbed.cli.studies.workload",
            "workload",
            "options",
            True,
            True,
        ),
        "benchmark": Command(
            "a benchmark for AI training fabrics, after an IETF draft",
            "testbed.cli.studies.benchmark",
            "benchmark",
            "options",
            True,
            True,
        ),
        "compare": Command(
            "what differs between two results, sweeps or benchmarks",
            "testbed.cli.studies.compare",
            "compare",
            "compare_options",
            True,
        ),
        "artifact": Command(
            "results with all that makes them again, for an artifact evaluation",
            "testbed.cli.studies.artifact",
            "artifact",
            "options",
            True,
        ),
        "verify": Command(
            "compare this machine's results with the repository's",
            "testbed.cli.studies.verify",
            "verify",
            "verify_options",
            True,
            True,
        ),
    },
    SWITCHES: {},
    "this machine": {
        "doctor": Command("check this machine", "testbed.cli.house.doctor", "doctor", "doctor_options", True, True),
        "image": Command("what Xoff keeps: build it, carry it elsewhere, remove it", parts=_IMAGE),
        "help": Command("more about a command or a topic", "testbed.cli.house.help", "help_", "options"),
    },
    "work on Xoff": {
        "test": Command("run Xoff's own tests", "testbed.cli.house.tests", "test", "test_options", installs=True),
        "docs": Command("build the documentation site", "testbed.cli.house.site", "docs", "docs_options"),
    },
}
"""The commands of the core."""


def groups() -> dict[str, dict[str, Command]]:
    """Return the groups of all commands, the core's and those of subjects. A command of parts may be of several."""
    found = {title: dict(group) for title, group in GROUPS.items()}
    for of_subject in subject.loaded("commands"):
        for title, group in of_subject.items():
            own = found.setdefault(title, {})
            for name, command in group.items():
                parts = {**own[name].parts, **command.parts} if name in own else command.parts
                own[name] = command._replace(parts=parts)
    return found


def by_name() -> dict[str, Command]:
    """Return all commands by their names."""
    return {name: command for group in groups().values() for name, command in group.items()}


def declare(subparsers: Any, commands: Mapping[str, Command], wanted: Sequence[str]) -> None:
    """Declare all of these commands, and the options of those that are `wanted`."""
    for name, command in commands.items():
        shown = {} if command.hidden else {"help": command.summary}
        parser = subparsers.add_parser(name, **shown)
        if name in wanted:
            command.declare(parser, wanted)


def overview() -> str:
    """Return all groups with their commands, for people."""
    found = groups()
    width = max(len(name) for group in found.values() for name in group) + 2
    lines = []
    for title, group in found.items():
        lines += [f"{title}:", *(f"  {name:<{width}}{command.summary}" for name, command in group.items()), ""]
    return "\n".join(lines)
