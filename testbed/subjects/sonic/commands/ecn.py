"""`xoff switch ecn`: which share of packets a marking curve marks, at which queue. It needs no lab."""

from __future__ import annotations

import argparse
import json

from testbed.lab.results.result import Exit
from testbed.switch.ecn import question
from testbed.switch.ecn.question import Asked


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kmin", required=True, metavar="S", help="queue at which marking begins, as in 100kB")
    parser.add_argument("--kmax", required=True, metavar="S", help="queue from which on every packet is marked")
    parser.add_argument(
        "--pmax", default=Asked.pmax, metavar="P", help="share just below kmax, as in 20%% (default 100%%)"
    )
    parser.add_argument("--queue", metavar="S", help="a queue in question")
    parser.add_argument("--xoff", metavar="S", help="queue at which PAUSE is sent: whether marking begins before it")


def ecn(options: argparse.Namespace) -> int:
    """Compute which share of packets a switch marks, by the length of a queue, and whether marking begins before
    PAUSE."""
    answer = question.answer(Asked(**{name: getattr(options, name) for name in Asked.__dataclass_fields__}))
    if options.json:
        print(json.dumps(question.as_json(answer), indent=1))
        return Exit.OK
    print("     queue  marked")
    for queue, share in answer.points:
        print(f"{queue:>8} B  {question.readable(share)}")
    for note in answer.notes:
        print(f"note: {note}")
    return Exit.OK
