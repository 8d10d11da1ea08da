"""Prepare an engine for use, with what this machine needs for it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.cli.house import lab_file as lab_files
from testbed.lab.engines import forecast, prebuilt, table
from testbed.lab.engines.engine import Engine, PreparedEngine


def engines(wanted: Callable[[Engine], bool] = lambda _: True) -> list[Engine]:
    """Return the engines that a command offers."""
    return [engine for engine in table.ENGINES.values() if wanted(engine)]


def engine_option(
    parser: argparse.ArgumentParser, offered: Iterable[Engine], default: str | None = table.DEFAULT
) -> None:
    """Add the option `--engine`, which takes one of these engines; without a default it is the one that is ready
    soonest."""
    by_name = {engine.name: engine for engine in offered}
    read = one_of("engine", list(by_name))
    told = "; ".join(f"{engine}: {engine.summary}" for engine in by_name.values())
    parser.add_argument(
        "--engine",
        type=lambda text: by_name[read(text)],
        default=table.find(default) if default is not None else None,
        metavar="E",
        help=f"{told} (default {default or 'um, or vm while um has to be built'})",
    )


def soonest() -> Engine:
    """Return `um`, unless its kernel has to be built first: the virtual machine is ready in a third of that time."""
    usual = table.find(table.DEFAULT)
    if prebuilt.is_named() or forecast.Step.KERNEL not in usual.forecast():
        return usual
    from testbed.cli.screen import console  # not above: an import comes before rich is installed

    console.say("running on the engine vm; um is quicker, but its kernel has to be built first (5 to 15 minutes, by")
    console.say("xoff run, or here with --engine um)")
    return table.find("vm")


def ready(engine: Engine | str) -> PreparedEngine:
    """Prepare an engine, with everything that it needs made or installed if it was not there."""
    from testbed.cli.screen.console import say
    from testbed.cli.screen.progress import setting_up

    if isinstance(engine, str):
        engine = table.find(engine)
    if prebuilt.is_named() and not engine.is_built():
        taken = lab_files.take()
        if not engine.is_built():
            say(f"the lab of XOFF_LAB is for {' and '.join(taken.engines)}; that of {engine.name} is set up here")
    steps = engine.forecast()
    with setting_up(steps) as report:
        packages = engine.requirements(building=not engine.is_built())
        if forecast.SHOWN not in os.environ:  # by the front door
            sentence = forecast.sentence(steps, packages)
            if sentence:
                say(sentence)
        machine.require(packages, report)
        return engine.prepare(report)
