"""`xoff policy`: QoS policy files, in the RFC's XML and in OpenSM's block text. It needs no lab and no controller."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from testbed.cli.screen import streams
from testbed.errors import UsageError
from testbed.lab.results.result import Exit
from testbed.strict.problems import Severity
from testbed.subjects.qos import fabric
from testbed.subjects.qos.fabric import Fabric
from testbed.subjects.qos.groups import members
from testbed.subjects.qos.model import MatchRule, Policy
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.plan import plan
from testbed.subjects.qos.records import Found, PathRecordRequest, PathRecords, Wanted
from testbed.subjects.qos.setup import Tables
from testbed.subjects.qos.syntax.check import ReadPolicy, read
from testbed.subjects.qos.syntax.grammar import BLOCK, XML, Syntax
from testbed.subjects.qos.syntax.source import LARGEST, PolicyError, Problems
from testbed.subjects.qos.syntax.write import write
from testbed.units import Rate, Size

_NUMBER = re.compile("0x[0-9a-f]{1,32}|[0-9]{1,20}", re.ASCII | re.IGNORECASE)
_SYNTAXES = {"xml": XML, "block": BLOCK}


def options(parser: argparse.ArgumentParser) -> None:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("file", metavar="FILE", help="the policy, XML or block text; - for standard input")
    common.add_argument("--json", action="store_true", help="JSON on standard output, for scripts")
    what = parser.add_subparsers(metavar="WHAT", dest="what", required=True)

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = what.add_parser(name, help=summary, description=summary, parents=[common])
        return added

    fabric_help = "a file with nodes, links and partitions (docs/qos.md)"
    add("check", "what is wrong with a policy, line by line").add_argument("--fabric", type=Path, help=fabric_help)
    add("show", "groups, tables, levels and rules").add_argument("--fabric", type=Path, help=fabric_help)
    convert = add("convert", "the policy in the other syntax")
    convert.add_argument("--to", choices=list(_SYNTAXES), help="the syntax to write; the other one if not given")
    convert.add_argument("--approximate", action="store_true", help="write the nearest where a syntax lacks something")
    query = add("query", "the path record that a request gets")
    query.add_argument("--fabric", type=Path, required=True, help=fabric_help)
    query.add_argument("--from", dest="source", required=True, metavar="PORT", help="node, node/port, GUID or LID")
    query.add_argument("--to", dest="destination", required=True, metavar="PORT", help="likewise")
    for name, bits in (("service-id", 64), ("tclass", 8), ("qos-class", 12), ("pkey", 16), ("sl", 4)):
        query.add_argument(f"--{name}", metavar="N", type=Whole(name, bits), help=f"{bits} bits, decimal or 0x")
    query.add_argument("--mtu", metavar="M", help="exactly this, as in 1024B")
    query.add_argument("--rate", metavar="R", help="exactly this, as in 10Gb/s")


class Whole:
    """A reader of numbers of so many bits, whose error is one line."""

    def __init__(self, name: str, bits: int) -> None:
        self._name, self._bits = name, bits

    def __call__(self, text: str) -> int:
        value = int(text, 0 if text[:2].lower() == "0x" else 10) if _NUMBER.fullmatch(text) else -1
        if not 0 <= value < 1 << self._bits:
            most = (1 << self._bits) - 1
            raise UsageError(f"--{self._name} {text[:40]}: a number from 0 to {most} is expected, decimal or 0x")
        return value


def policy(options: argparse.Namespace) -> int:
    """Check, show and convert QoS policy files, and ask for the path record that a request gets."""
    reading = read(read_file(options.file))
    if options.what == "check":
        return _check(options, reading)
    if not reading.ok:
        raise PolicyError(options.file, reading.problems.errors, reading.problems.left_out)
    perform = {"show": _show, "convert": _convert, "query": _query}[options.what]
    return perform(options, reading)


def _word(syntax: Syntax) -> str:
    return next(word for word, known in _SYNTAXES.items() if known is syntax)


def read_file(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(LARGEST + 1)
        with Path(name).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def _fabric(path: Path) -> Fabric:
    return fabric.parse(read_file(str(path)), str(path))


def _check(options: argparse.Namespace, reading: ReadPolicy) -> int:
    from testbed.cli.screen.console import stdout

    problems = reading.problems
    findings = plan(reading.policy, _fabric(options.fabric)).findings if options.fabric and reading.ok else ()
    failed = not reading.ok or any(finding.severity is Severity.ERROR for finding in findings)
    if options.json:
        content = {
            "file": options.file,
            "syntax": _word(reading.syntax),
            "ok": not failed,
            "problems": [problem.as_json() for problem in (*problems.errors, *problems.warnings)],
            "left_out": problems.left_out,
            "fabric": [finding.as_json() for finding in findings],
        }
        print(json.dumps(content, indent=1))
        return Exit.USAGE if failed else Exit.OK
    for line in (*problems.errors, *problems.warnings, *findings):
        stdout.print(f"{options.file}:{line}", markup=False, highlight=False, soft_wrap=True)
    if problems.left_out:
        stdout.print(f"{options.file}: and {problems.left_out} more", markup=False, highlight=False, soft_wrap=True)
    policy = reading.policy
    if not failed:
        counts = (
            f"{len(policy.port_groups)} port groups, {len(policy.levels)} levels, "
            f"{len(policy.rules) + len(policy.ulps)} rules"
        )
        stdout.print(f"{options.file}: {reading.syntax.name}, {counts}: no errors", markup=False, soft_wrap=True)
    return Exit.USAGE if failed else Exit.OK


def _convert(options: argparse.Namespace, reading: ReadPolicy) -> int:
    other = BLOCK if reading.syntax is XML else XML
    syntax = _SYNTAXES[options.to] if options.to else other
    text = write(reading.policy, syntax, problems := Problems(), options.approximate)
    if problems.errors:
        raise PolicyError(options.file, problems.errors, problems.left_out)
    if options.json:
        print(json.dumps({"syntax": _word(syntax), "text": text, "problems": [p.as_json() for p in problems.warnings]}))
    else:
        from testbed.cli.screen.console import print_error

        for problem in problems.warnings:
            print_error(f"{options.file}:{problem}")
        streams.write_data(text)
    return Exit.OK


# Showing a policy


def _show(options: argparse.Namespace, reading: ReadPolicy) -> int:
    fabric = _fabric(options.fabric) if options.fabric else None
    tables = plan(reading.policy, fabric).tables if fabric is not None else None
    content = _policy_json(reading.policy, fabric)
    if fabric is not None and tables is not None:
        content |= _tables_json(tables)
    if options.json:
        print(json.dumps(content, indent=1))
        return Exit.OK
    from testbed.cli.screen.console import stdout

    if tables is not None:
        content["sl2vl"] = _sl2vl_lines(tables)
    for title, rows in content.items():
        if not rows:
            continue
        stdout.print(f"{title}:", style="dim", markup=False)
        for row in rows if isinstance(rows, list) else [rows]:
            text = (
                row if isinstance(row, str) else "  ".join(f"{name} {_value(v)}" for name, v in row.items() if v != "")
            )
            stdout.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
    return Exit.OK


def _value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _policy_json(policy: Policy, fabric: Fabric | None) -> dict[str, Any]:
    groups = []
    for group in policy.port_groups:
        row: dict[str, Any] = {"name": group.name, "use": group.use}
        if fabric is not None:
            row["ports"] = [f"{key.node}/{key.number}" for key in sorted(members(group, fabric))]
        groups.append(row)
    levels = []
    for level in policy.levels:
        row = {"name": level.name, "use": level.use, "sl": level.sl}
        optional = {
            "tclass": level.tclass,
            "mtu_limit": None if level.mtu_limit is None else f"{level.mtu_limit}B",
            "rate_limit": None if level.rate_limit is None else str(Rate.from_bps(level.rate_limit)),
            "path_bits": level.path_bits,
            "packet_life": level.packet_life,
            "pkeys": level.pkeys.text("#06x") or None,
        }
        levels.append(row | {name: value for name, value in optional.items() if value is not None})
    ulps = [f"{u.ulp}{f', {u.key} {u.values.text()}' if u.key else ''} : {u.sl}" for u in policy.ulps]
    defaults = {d.partition: d.level for d in policy.partition_defaults}
    return {
        "port_groups": groups,
        "levels": levels,
        "rules": [_rule_json(rule) for rule in policy.rules],
        "ulps": ulps,
        "default_level": policy.default_level or "",
        "partition_defaults": defaults,
    }


def _rule_json(rule: MatchRule) -> dict[str, Any]:
    criteria = {
        "sn": rule.sn,
        "use": rule.use or None,
        "source": list(rule.sources) or None,
        "destination": list(rule.destinations) or None,
        "service_id": rule.service_ids.text("#x") or None,
        "tclass": rule.tclasses.text() or None,
        "qos_class": rule.qos_classes.text() or None,
        "pkey": rule.pkeys.text("#06x") or None,
    }
    return {"level": rule.level} | {name: value for name, value in criteria.items() if value is not None}


def _sl2vl_lines(tables: Tables) -> list[str]:
    """Return a line for each table of a device, with the ports that have it."""
    inputs: dict[tuple[str, tuple[int, ...], int], list[int]] = {}
    for crossing, table in sorted(tables.sl2vl.items()):
        inputs.setdefault((crossing.node, table, crossing.output), []).append(crossing.input)
    outputs: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    for (node, table, output), numbers in inputs.items():
        # A port is no input for itself; with it, outputs that have all others in common are one line.
        together = Ranges.of((number, number) for number in {*numbers, *([output] if max(numbers) else [])})
        outputs.setdefault((node, table, together.text()), []).append(output)
    return [
        f"{node}  from {numbers}  to {Ranges.of((n, n) for n in ports).text()}  vls {','.join(map(str, table))}"
        for (node, table, numbers), ports in outputs.items()
    ]


def _tables_json(tables: Tables) -> dict[str, Any]:
    sl2vl = [
        {"node": crossing.node, "from": crossing.input, "to": crossing.output, "vls": list(table)}
        for crossing, table in sorted(tables.sl2vl.items())
    ]
    vlarb = [
        {
            "port": f"{key.node}/{key.number}",
            "high": [f"{vl}:{weight}" for vl, weight in arbitration.high or ()],
            "low": [f"{vl}:{weight}" for vl, weight in arbitration.low or ()],
            "high_limit": "" if arbitration.high_limit is None else arbitration.high_limit,
        }
        for key, arbitration in sorted(tables.vlarb.items())
    ]
    return {"sl2vl": sl2vl, "vlarb": vlarb, "findings": [str(finding) for finding in tables.findings]}


# A query


def _query(options: argparse.Namespace, reading: ReadPolicy) -> int:
    fabric = _fabric(options.fabric)
    records = PathRecords(reading.policy, fabric)
    source, destination = fabric.end_port(options.source), fabric.end_port(options.destination)
    answer = records.query(
        PathRecordRequest(
            sgid=source.gid,
            dgid=destination.gid,
            service_id=options.service_id,
            tclass=options.tclass,
            qos_class=options.qos_class,
            pkey=options.pkey,
            sl=options.sl,
            mtu=None if options.mtu is None else Wanted(Size(options.mtu).bytes),
            rate=None if options.rate is None else Wanted(Rate(options.rate).bps),
        )
    )
    found = isinstance(answer, Found)
    content = _found_json(answer, records) if isinstance(answer, Found) else answer._asdict()
    if options.json:
        print(json.dumps({"found": found} | content, indent=1))
    elif isinstance(answer, Found):
        from testbed.cli.screen.console import stdout

        for name, value in content.items():
            stdout.print(f"{name:<12}{value}", markup=False, highlight=False, soft_wrap=True)
    else:
        from testbed.cli.screen.console import print_error

        print_error(f"no path: {answer.message}")
    return Exit.OK if found else Exit.FAILED


def _found_json(found: Found, records: PathRecords) -> dict[str, Any]:
    rules = records.policy.rules
    rule = "none, the default" if found.rule is None else f"{found.rule + 1} of {len(rules)}"
    if found.rule is not None and rules[found.rule].use:
        rule += f" ({rules[found.rule].use})"
    return {
        "from": f"{found.source.key.node}/{found.source.key.number}",
        "to": f"{found.destination.key.node}/{found.destination.key.number}",
        "slid": found.slid,
        "dlid": found.dlid,
        "sl": found.sl,
        "mtu": f"{found.mtu}B",
        "rate": str(Rate.from_bps(found.rate)),
        "tclass": found.tclass,
        "pkey": f"0x{found.pkey:04x}",
        "packet_life": found.packet_life,
        "hops": found.hops,
        "level": found.level.name.strip('"'),
        "rule": rule,
    }
