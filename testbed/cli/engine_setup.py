"""Getting an engine ready for use, with what this machine needs for it."""

from __future__ import annotations

import argparse
import os

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.lab import forecast, prerequisites
from testbed.lab.engine import Kind, Ready, is_built, prepare
from testbed.lab.um import kernel

_ENGINE_HELP = {
    Kind.UM: "virtual time on User-Mode Linux, where the CPU's work is free",
    Kind.VM: "virtual time on QEMU, where an instruction takes a nanosecond",
    Kind.REALTIME: "the virtual machine in real time",
    Kind.HOST: "this machine, as root",
}


def engine_option(parser: argparse.ArgumentParser, default: Kind | None, *kinds: Kind) -> None:
    """Have a command take one of these engines; without a default, the one that is ready soonest."""
    told = "; ".join(f"{kind}: {_ENGINE_HELP[kind]}" for kind in kinds)
    parser.add_argument(
        "--engine",
        type=one_of("engine", kinds),
        default=default,
        metavar="E",
        help=f"{told} (default {default or 'um, or vm while um has to be built'})",
    )


def soonest() -> Kind:
    """`um`, unless its kernel has to be built first: the virtual machine is ready in a third of that time."""
    if kernel.current() is not None:
        return Kind.UM
    from testbed.cli import console  # not above: an import comes before rich is installed

    console.say("running on the engine vm; um is quicker, but its kernel has to be built first (5 to 15 minutes, by")
    console.say("xoff run, or here with --engine um)")
    return Kind.VM


def machine_packages(kind: Kind = Kind.VM, build: bool = True) -> list[prerequisites.Package]:
    """What building and running the lab takes; root needs no id mapping."""
    wanted = prerequisites.machine_packages(virtual_machine=kind is not Kind.UM, build=build)
    return [p for p in wanted if p.name != "uidmap" or os.geteuid() != 0]


def ready(kind: Kind) -> Ready:
    """The engine with everything that it needs, made or installed if it was not there."""
    from testbed.cli.ui import setting_up

    with setting_up() as report:
        if kind is not Kind.HOST:
            packages = machine_packages(kind, build=not is_built(kind))
            if forecast.SHOWN not in os.environ:  # by the front door
                sentence = forecast.for_engine(kind is not Kind.UM, packages)
                if sentence:
                    report(sentence)
            machine.require(packages, report)
        return prepare(kind, report)
