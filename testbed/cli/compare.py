"""`xoff compare`: what differs between two results or sweeps, and how far apart the engines are."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import testbed
from testbed.cli import console
from testbed.errors import UsageError
from testbed.lab import definition, engine_figures, engines_page, tolerances
from testbed.lab.comparison import compare_folders
from testbed.lab.engine_figures import Agreement
from testbed.lab.result import Exit
from testbed.lab.tolerances import Stated

ROOT = Path(testbed.__file__).parents[1]


def compare_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A", help="a result folder, or a sweep's")
    parser.add_argument("second", type=Path, metavar="B", help="another of the same kind")
    parser.add_argument(
        "--engines",
        action="store_true",
        help="A is of um and B of vm, each a result or a folder of results: are their figures as close as stated?",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help=f"with --engines: write what is as stated to {engines_page.FILE} and {engines_page.PAGE}",
    )


def compare(options: argparse.Namespace) -> int:
    """Show what differs between two results, or between the means of two sweeps. Exit code 1 if anything does; with
    --engines if anything differs more than is stated."""
    if options.engines:
        return _engines(options)
    if options.update:
        raise UsageError("--update is for --engines; `xoff verify --update` writes digests and figures")
    differences = compare_folders(options.first, options.second)
    if options.json:
        print(json.dumps([asdict(one) for one in differences], indent=1))
    else:
        for one in differences:
            console.stdout.print(f"{one.what}: {one.first} -> {one.second}", soft_wrap=True, markup=False)
        if not differences:
            console.say("no differences")
    return Exit.FAILED if differences else Exit.OK


def _engines(options: argparse.Namespace) -> int:
    um, vm = engine_figures.stored(options.first), engine_figures.stored(options.second)
    for case in definition.conformance():  # they are for um alone (decision 0290)
        um.pop(case.name, None)
    if alone := sorted(um.keys() ^ vm.keys()):
        raise UsageError(f"only one of {options.first} and {options.second} has a result of {', '.join(alone)}")
    stated = tolerances.read(ROOT)
    found = [engine_figures.compare(um[name], vm[name], stated.get(name, Stated())) for name in um]
    if options.json:
        report = {
            one.experiment: engine_figures.as_json(one) | {"faults": list(one.faults), "notes": list(one.notes)}
            for one in found
        }
        print(json.dumps(report, indent=1))
    else:
        for one in found:
            _show(one)
    if options.update:
        engines_page.update(ROOT, [one for one in found if not one.faults], stated)
    return Exit.FAILED if any(one.faults for one in found) else Exit.OK


def _show(agreement: Agreement) -> None:
    """A line, and one for each fault and note."""
    mark = "✗" if agreement.faults else "-" if agreement.degraded else "✓"
    more = [*agreement.faults, *(f"note: {one}" for one in agreement.notes)]
    for line in (f"{mark} {agreement.experiment:<24} {agreement}", *(f"    {one}" for one in more)):
        console.stdout.print(line, soft_wrap=True, markup=False)
