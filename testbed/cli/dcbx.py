"""`xoff agent` and `xoff dcbx`: DCBX on interfaces of this machine, outside of the lab."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from testbed.agent import control
from testbed.dcbx import show
from testbed.errors import UsageError
from testbed.lab.result import Exit


def agent_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("interface", nargs="+", metavar="IFACE", help="an Ethernet interface, as in eth0")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML, see docs/dcbx.md; without: willing to all")
    parser.add_argument("--log", type=Path, metavar="FILE", help="append every frame and event, a JSON object a line")


def agent(options: argparse.Namespace) -> int:
    """Run DCBX on interfaces of this machine until SIGINT or SIGTERM; SIGHUP and a changed FILE change its settings."""
    from testbed.agent.alone import Agent

    with ExitStack() as stack:
        log = None
        if options.log:
            try:
                log = stack.enter_context(options.log.open("a", encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"--log {options.log}: {error.strerror}") from None
        Agent(options.interface, options.config, _say, log).run()
    return Exit.OK


def dcbx_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("interface", nargs="?", metavar="IFACE", help="of an agent; all that run here, if not given")


def dcbx(options: argparse.Namespace) -> int:
    """Show what the agents of this network namespace negotiate: each port and TLV, local, operational and remote."""
    answers = control.ask(options.interface)
    if options.json:
        print(json.dumps(answers, indent=1))
        return Exit.OK
    sys.stdout.write(show.table({name: answer["port"] for name, answer in answers.items()}))
    for name, answer in answers.items():
        port = answer["port"]
        if port["link"] != "up":
            print(f"{name}: the link is {port['link']}" if port["link"] != "no carrier" else f"{name}: no carrier")
        print(f"{name}: {port['card']}")
    return Exit.OK


def _say(text: str) -> None:
    with suppress(OSError):  # an agent whose terminal has gone still has to tell its peers when it ends
        print(f"xoff: {text}", file=sys.stderr, flush=True)
