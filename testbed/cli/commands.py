"""The table of commands: a name, a line of help, and where it is.

A command's module is imported when the command is used, so that `xoff --help` does not wait for all of them.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple


class Command(NamedTuple):
    """One command. `perform` and `options` are functions of `module`, by name."""

    summary: str
    module: str
    perform: str
    options: str = ""
    has_json: bool = False
    installs: bool = False
    """Whether it installs Debian packages that are missing."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Give its parser what it takes and what it does."""
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


COMMANDS = {
    "demo": Command("show what Xoff does, in a minute", "run", "demo", "demo_options", True, True),
    "test": Command("run Xoff's own tests", "suite", "test", "test_options", installs=True),
    "list": Command("list experiments and topologies", "listing", "list_", has_json=True),
    "new": Command("a file of your own to begin with", "new", "new", "options"),
    "run": Command("run experiments", "run", "run", "experiment_options", True, True),
    "sweep": Command("run an experiment over a grid of parameters", "sweep", "run_sweep", "sweep_options", True, True),
    "compare": Command("what differs between two results or sweeps", "compare", "compare", "compare_options", True),
    "verify": Command(
        "compare this machine's results with the repository's", "verify", "verify", "verify_options", True, True
    ),
    "shell": Command(
        "Mininet's command line in the lab, or a script's",
        "shell",
        "open_shell",
        "shell_options",
        installs=True,
    ),
    "lesson": Command("guided labs that check your work", "lesson", "lesson", "options"),
    "lock": Command("lock Python packages for run --with", "packages", "lock", "lock_options"),
    "headroom": Command("what headroom a port needs", "headroom", "headroom", "options", True),
    "switch": Command(
        "SONiC's config_db.json: check it, and run traffic over such switches", "switch", "switch", "options"
    ),
    "conformance": Command("SONiC's PFC test plans on a switch", "conformance", "conformance", "options", True, True),
    "policy": Command("QoS policy files: check, show, convert, query", "policy", "policy", "options"),
    "report": Command("one HTML file from result folders", "report", "make", "options"),
    "serve": Command(
        "a running lab with controls, or results to replay, in browsers", "serve", "serve", "options", installs=True
    ),
    "qos": Command("ask the controller for path records, or put a QoS policy", "qos", "qos", "options"),
    "export": Command("a result as a Perfetto trace or a table", "export", "export", "options"),
    "plot": Command("a figure of a result, for papers", "plot", "plot", "options"),
    "decode": Command("the frames of captures in words", "decode", "decode", "options", True),
    "dissector": Command("Wireshark's dissector for Xoff's private formats", "dissector", "dissector", "options"),
    "ladder": Command("a diagram of DCBX on a link, from a run's log", "ladder", "draw", "options"),
    "agent": Command("DCBX on an interface of this machine", "dcbx", "agent", "agent_options"),
    "dcbx": Command("what such agents negotiate", "dcbx", "dcbx", "dcbx_options", True),
    "docs": Command("build the documentation site", "site", "docs", "docs_options"),
    "doctor": Command("check this machine", "doctor", "doctor", "doctor_options", True, True),
    "image": Command("the lab image", "image", "image_", "image_options", True, True),
    "clean": Command("remove everything that Xoff keeps in its cache", "image", "clean"),
    "sr": Command("query the SR policy controller, or change its policies", "sr", "sr", "options"),
    "completion": Command("print shell completion", "completion", "completion", "completion_options"),
}


def add(subparsers: Any, wanted: Sequence[str]) -> None:
    """Declare every command, and the options of those that are `wanted`."""
    for name, command in COMMANDS.items():
        parser = subparsers.add_parser(name, help=command.summary)
        if name in wanted:
            command.declare(parser)
