"""Getting an engine ready for use, with what this machine needs for it."""

from __future__ import annotations

import argparse
import os

from testbed.cli import machine
from testbed.cli.arguments import one_of
from testbed.lab import needs
from testbed.lab.engine import Kind, Ready, prepare

_ENGINE_HELP = {
    Kind.UM: "virtual time and native speed, where the CPU's work is free",
    Kind.VM: "virtual time",
    Kind.REALTIME: "the virtual machine in real time",
    Kind.HOST: "this machine, as root",
}


def engine_option(parser: argparse.ArgumentParser, default: Kind, *kinds: Kind) -> None:
    """Have a command take one of these engines."""
    told = "; ".join(f"{kind}: {_ENGINE_HELP[kind]}" for kind in kinds)
    parser.add_argument(
        "--engine", type=one_of("engine", kinds), default=default, metavar="E", help=f"{told} (default {default})"
    )


def machine_packages(kind: Kind = Kind.VM) -> list[needs.Package]:
    """What building and running the lab takes; root needs no id mapping."""
    wanted = needs.machine_packages(virtual_machine=kind is not Kind.UM)
    return [p for p in wanted if p.name != "uidmap" or os.geteuid() != 0]


def ready(kind: Kind) -> Ready:
    """The engine with everything that it needs, made or installed if it was not there."""
    from testbed.cli.ui import setting_up

    with setting_up() as report:
        if kind is not Kind.HOST:
            machine.require(machine_packages(kind), report)
        return prepare(kind, report)
