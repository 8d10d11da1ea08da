"""Prepare an engine for use, with what this machine needs for it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from testbed.cli.arguments import one_of
from testbed.lab.engines import words
from testbed.lab.engines.words import DEFAULT, EngineWord

if TYPE_CHECKING:
    from testbed.lab.engines.engine import Engine, PreparedEngine


def engine_option(
    parser: argparse.ArgumentParser, offered: Iterable[EngineWord] | None = None, default: str | None = DEFAULT
) -> None:
    """Add the option `--engine`, which takes one of these engines; without a default it is the one that is ready
    soonest."""
    offered = words.WORDS if offered is None else tuple(offered)
    told = "; ".join(f"{engine.name}: {engine.summary}" for engine in offered)
    read = one_of("engine", [engine.name for engine in offered])
    parser.add_argument(
        "--engine",
        type=lambda text: _engine(read(text)),
        default=default,  # a text, which becomes an engine when a command line is read
        metavar="E",
        help=f"{told} (default {default or 'um, or vm while um has to be built'})",
    )


def _engine(name: str) -> Engine:
    from testbed.lab.engines import table  # takes importing all engines, which the help and completion do without

    return table.find(name)


def soonest() -> Engine:
    """Return `um`, unless its kernel has to be built first: the virtual machine is ready in a third of that time."""
    from testbed.lab.engines import forecast

    usual = _engine(DEFAULT)
    _take_prebuilt(usual)
    if forecast.Step.KERNEL not in usual.forecast():
        return usual
    from testbed.cli.screen import console  # not above: an import comes before rich is installed

    console.say("running on the engine vm; um is quicker, but its kernel has to be built first (5 to 15 minutes, by")
    console.say("xoff run, or here with --engine um)")
    return _engine("vm")


def ready(engine: Engine | str) -> PreparedEngine:
    """Prepare an engine, with everything that it needs made or installed if it was not there."""
    from testbed.cli import machine
    from testbed.cli.screen.console import say
    from testbed.cli.screen.progress import setting_up
    from testbed.lab.engines import forecast

    if isinstance(engine, str):
        engine = _engine(engine)
    _take_prebuilt(engine)
    steps = engine.forecast()
    with setting_up(steps) as report:
        packages = engine.requirements(building=not engine.is_built())
        if sentence := forecast.sentence(steps, packages):
            say(sentence)
        machine.require(packages, report)
        return engine.prepare(report)


def _take_prebuilt(engine: Engine) -> None:
    """Take the lab that the user names, or that the package index has, if there is none for this engine yet."""
    from testbed.lab.host import distribution

    if engine.runs_image:
        distribution.require_labs()
    if engine.is_built():
        return
    from testbed.cli.house import lab_file
    from testbed.cli.screen.console import say
    from testbed.lab.engines import prebuilt

    if prebuilt.is_named():
        taken = lab_file.take()
        if not engine.is_built():
            say(f"the lab of XOFF_LAB is for {' and '.join(taken.engines)}; that of {engine.name} is set up here")
    elif engine.name == DEFAULT:
        lab_file.take_from_index()
