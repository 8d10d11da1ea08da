"""`xoff test`: Xoff's own tests."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import testbed
from testbed.cli import machine
from testbed.cli.ready import machine_packages, ready
from testbed.errors import UsageError
from testbed.lab import cores, needs
from testbed.lab.engine import Kind
from testbed.lab.result import Exit


def test_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unit", action="store_true", help="only what needs no lab and no second of its own")
    parser.add_argument("--all", action="store_true", help="also those that take more than five minutes")
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="a test file, or a word of test names")


def test(options: argparse.Namespace) -> int:
    """Run Xoff's own tests: --unit on this machine and within a minute, else those with the lab too."""
    root = Path(testbed.__path__[0]).parent
    if not (root / "tests").is_dir():
        raise UsageError("the tests come with the source: clone the repository and use ./xoff test there")
    command = [sys.executable, "-m", "pytest"]
    places = ["tests/unit"] if options.unit else ["tests/unit", "tests/lab"]
    if options.pattern and (root / options.pattern.partition("::")[0]).exists():
        places = [options.pattern]
    elif options.pattern:
        command += ["-k", options.pattern]
    elif not options.all:
        command += ["-m", "not long and not slow" if options.unit else "not long"]
    if not options.unit:
        from testbed.cli.ui import setting_up

        with setting_up() as report:
            machine.require([*machine_packages(), *needs.test_packages()], report)
        ready(Kind.UM)
        if not options.pattern:  # or the tests themselves say, if they need it, what is being made
            ready(Kind.VM)
    if not (options.unit and options.pattern):  # a few are done before the others have started
        # A lab takes a core of its own; tests side by side get different ones.
        command += ["-n", str(len(cores.available())), "--dist", "worksteal"]
    return subprocess.run([*command, *places], cwd=root, check=False).returncode and Exit.FAILED
