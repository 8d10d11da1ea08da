"""`xoff switch diff`: what two config_db.json files have different, and what follows for pools and headroom. No lab."""

from __future__ import annotations

import argparse
import json

from testbed.cli.arguments import whole_number
from testbed.lab.results.result import Exit
from testbed.subjects.sonic.check import CELL
from testbed.subjects.sonic.compare import Difference, configured, derived
from testbed.subjects.sonic.lab.settings import read_octets
from testbed.subjects.sonic.read import read


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", help="config_db.json of a switch")
    parser.add_argument("after", metavar="B", help="the one to compare it with")
    parser.add_argument(
        "--cell", type=whole_number(1, CELL), default=CELL, metavar="N", help=f"bytes of a buffer cell (default {CELL})"
    )


def diff(options: argparse.Namespace) -> int:
    """Print what two files have different in the tables that Xoff reads, and what follows for pools and headroom.

    The exit code is 0 if there is nothing.
    """
    before, after = (read(read_octets(name)).require(name) for name in (options.before, options.after))
    differences = {"configured": configured(before, after), "follows": derived(before, after, options.cell)}
    if options.json:
        print(json.dumps({name: [vars(one) for one in some] for name, some in differences.items()}, indent=1))
    else:
        _show(differences, f"{options.before} and {options.after}")
    return Exit.FAILED if any(differences.values()) else Exit.OK


def _show(found: dict[str, list[Difference]], names: str) -> None:
    for title, some in (("", found["configured"]), ("what follows:", found["follows"])):
        if some and title:
            print(title)
        for one in some:
            print(one)
    if not any(found.values()):
        print(f"{names} are alike in all that is read")
