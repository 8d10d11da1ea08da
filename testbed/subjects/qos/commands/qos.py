"""`xoff controller qos`: path records and the QoS policy of a controller, by its REST (docs/qos.md)."""

from __future__ import annotations

import argparse
import json
from typing import Any

from testbed.cli import controller
from testbed.cli.screen import streams
from testbed.lab.results.result import Exit
from testbed.rest.client import Client, ControllerError
from testbed.subjects.qos.commands.policy import Whole, read_file
from testbed.units import Rate, Size


def options(parser: argparse.ArgumentParser) -> None:
    common = controller.options()
    what = parser.add_subparsers(metavar="WHAT", dest="what", required=True)

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = what.add_parser(name, help=summary, description=summary, parents=[common])
        return added

    path = add("path", "the path record that a request gets")
    path.add_argument("--from", dest="source", required=True, metavar="PORT", help="node, node/port, GUID or LID")
    path.add_argument("--to", dest="destination", required=True, metavar="PORT", help="likewise")
    for name, bits in (("service-id", 64), ("tclass", 8), ("qos-class", 12), ("pkey", 16), ("sl", 4)):
        path.add_argument(f"--{name}", metavar="N", type=Whole(name, bits), help=f"{bits} bits, decimal or 0x")
    path.add_argument("--mtu", metavar="M", help="exactly this, as in 1024B")
    path.add_argument("--rate", metavar="R", help="exactly this, as in 10Gb/s")
    add("status", "the policy's revision, the fabric, warnings, and what the subnet manager reported")
    add("policy", "the policy in force, as it was put")
    put = add("put", "check a policy, and put it in force")
    put.add_argument("file", metavar="FILE", help="XML or block text; - for standard input")


def qos(options: argparse.Namespace) -> int:
    """Ask the controller for path records, or put a QoS policy in force."""
    client = controller.client(options)
    perform = {"path": _path, "status": _status, "policy": _policy, "put": _put}[options.what]
    try:
        return perform(client, options)
    except (LookupError, TypeError, AttributeError) as error:
        raise ControllerError(
            f"what answers is not a controller, or one of another version: {type(error).__name__}: {error}"
        ) from error


def _path(client: Client, options: argparse.Namespace) -> int:
    query = {
        "from": options.source,
        "to": options.destination,
        "service_id": None if options.service_id is None else hex(options.service_id),
        "tclass": options.tclass,
        "qos_class": options.qos_class,
        "pkey": options.pkey,
        "sl": options.sl,
        "mtu": None if options.mtu is None else Size(options.mtu).bytes,
        "rate": None if options.rate is None else Rate(options.rate).bps,
    }
    answer = client.ask("POST", "/qos/path-record", {name: value for name, value in query.items() if value is not None})
    found: bool = answer["found"]
    if options.json:
        print(json.dumps(answer, indent=1))
    elif found:
        path = answer["path"]
        shown = {"mtu": f"{path['mtu']}B", "rate": Rate.from_bps(path["rate"]), "pkey": f"0x{path['pkey']:04x}"}
        shown["rule"] = "none, the default" if path["rule"] is None else path["rule"]
        _lines(path | shown)
    else:
        from testbed.cli.screen.console import print_error

        print_error(f"no path: {answer['message']}")
    return Exit.OK if found else Exit.FAILED


def _status(client: Client, options: argparse.Namespace) -> int:
    answer = client.ask("GET", "/qos/status")
    if options.json:
        print(json.dumps(answer, indent=1))
        return Exit.OK
    _lines({name: answer[name] for name in ("revision", "nodes", "ports")})
    report = answer["report"]
    if report is not None:
        _lines({"drift": "; ".join(report["drift"]) or "none", "dropped": report["dropped"] or "nothing"})
    _findings(answer["findings"])
    return Exit.OK


def _policy(client: Client, options: argparse.Namespace) -> int:
    answer = client.ask("GET", "/qos/policy")
    streams.write_data(f"{json.dumps(answer, indent=1)}\n" if options.json else answer["text"])
    return Exit.OK


def _put(client: Client, options: argparse.Namespace) -> int:
    answer = client.ask("PUT", "/qos/policy", read_file(options.file), "text/plain")
    if options.json:
        print(json.dumps(answer, indent=1))
        return Exit.OK
    _findings(answer["warnings"])
    _lines({name: answer[name] for name in ("revision", "syntax", "port_groups", "levels", "rules")})
    return Exit.OK


def _findings(findings: list[dict[str, Any]]) -> None:
    from testbed.cli.screen.console import stdout

    for one in findings:
        where = f"{one['line']}:{one['column']}: " if one["line"] else ""
        stdout.print(f"{where}{one['severity']}: {one['message']}", markup=False, highlight=False, soft_wrap=True)


def _lines(values: dict[str, Any]) -> None:
    from testbed.cli.screen.console import stdout

    for name, value in values.items():
        stdout.print(f"{name:<12}{value}", markup=False, highlight=False, soft_wrap=True)
