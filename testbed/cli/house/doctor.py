"""`xoff doctor`: what this machine has, what it lacks, and the remedy for each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.lab.engines import table
from testbed.lab.engines.engine import Engine
from testbed.lab.host.checks import Check
from testbed.lab.results.result import Exit

_ALL = "all"
_OK, _WEAKER, _MISSING = "[green]ok[/green]     ", "[yellow]weaker[/yellow] ", "[red]missing[/red]"
"""The outcomes of a check: the thing is there, or labs run without it and are less confined, or labs do not run."""


def install(engines: Sequence[Engine]) -> None:
    """Install what is missing of Debian's packages, and what else engines need."""
    from testbed.cli.screen.console import say

    machine.require(list({package.name: package for e in engines for package in e.installable()}.values()), say)
    for engine in engines:
        engine.install(say)


def as_json(checks: list[Check]) -> list[dict[str, object]]:
    return [asdict(check) for check in checks]


def doctor_options(parser: argparse.ArgumentParser) -> None:
    choices = (*table.ENGINES, _ALL)
    what = f"what must work: {', '.join(choices)} (default {table.DEFAULT})"
    parser.add_argument("--engine", type=one_of("engine", choices), default=table.DEFAULT, metavar="E", help=what)
    parser.add_argument("--install", action="store_true", help="install what is missing, then check")


def doctor(options: argparse.Namespace) -> int:
    """Check this machine for what an engine needs, and show a remedy for what is missing."""
    from testbed.cli.screen.console import stdout

    engines = list(table.ENGINES.values()) if options.engine == _ALL else [table.find(options.engine)]
    if options.install:
        install(engines)
    checks = [check for engine in engines for check in engine.checks()]
    missing = [check for check in checks if not check.ok and not check.optional]
    if options.json:
        print(json.dumps(as_json(checks), indent=1))
        return Exit.MACHINE if missing else Exit.OK
    width = max((len(check.engine) for check in checks), default=0)
    for check in checks:
        mark = _OK if check.ok else _WEAKER if check.optional else _MISSING
        stdout.print(f"{mark} {check.engine:<{width}}  {check.what}  [dim]{check.found}[/dim]", soft_wrap=True)
        if check.remedy:
            stdout.print(f"        -> {check.remedy}", soft_wrap=True)
    if missing:
        stdout.print(f"{len(missing)} of {len(checks)} missing; `xoff doctor --install` gets what can be installed")
        return Exit.MACHINE
    weaker = [check.what for check in checks if not check.ok]
    stdout.print(f"all there; a lab is less confined without {' and '.join(weaker)}" if weaker else "all there")
    return Exit.OK
