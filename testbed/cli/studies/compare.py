"""`xoff compare`: what differs between two results, sweeps or benchmarks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from testbed.cli.screen import console
from testbed.lab.results.result import Exit
from testbed.lab.studies.comparison import compare_folders, not_comparable


def compare_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A", help="a result folder, a sweep's or a benchmark's")
    parser.add_argument("second", type=Path, metavar="B", help="another of the same kind")


def compare(options: argparse.Namespace) -> int:
    """Show what differs between two results, the means of two sweeps, or the KPIs of two benchmarks. Exit code
    1 if anything does."""
    differences = compare_folders(options.first, options.second)
    for why in not_comparable(options.first, options.second):
        console.say(f"side by side, and not compared directly (comparability set of the draft -06, 3.2.3): {why}")
    if options.json:
        print(json.dumps([asdict(one) for one in differences], indent=1))
    else:
        for one in differences:
            console.stdout.print(f"{one.what}: {one.first} -> {one.second}", soft_wrap=True, markup=False)
        if not differences:
            console.say("no differences")
    return Exit.FAILED if differences else Exit.OK
