"""The complete setup of every output port of a fabric under a policy: a VL for each input port and SL, and the shares
of the line. The difference of two plans is the effect of a change of policy or topology; the difference between a plan
and the reports of ports is what has drifted.

`setup` gives what the policy names; here the rest is filled in (decision 0176). A VL that no arbitration table serves
never leaves its port, so packets of an SL that is mapped to it are dropped: it becomes VL 15 (decision 0182).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from testbed.strict.problems import Severity
from testbed.subjects.qos.fabric import Fabric, PortCapabilities, PortKey
from testbed.subjects.qos.model import DROP_VL, SLS, Policy
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.setup import Arbitration, Crossing, Finding, FindingKind, Tables, inputs, setup
from testbed.subjects.qos.shares import Shares, equal_shares, shares

CLOSE = Fraction(1, 200)
"""The largest difference of shares that count as equal: a port has them as whole numbers of bytes."""


@dataclass(frozen=True)
class PortSetup:
    """The setup of one output port. `sl2vl` has a table of 16 VLs for each input port; 0 is the node itself."""

    sl2vl: Mapping[int, tuple[int, ...]]
    shares: Shares

    def as_json(self) -> dict[str, Any]:
        return {
            "sl2vl": {str(number): list(table) for number, table in sorted(self.sl2vl.items())},
            "strict": list(self.shares.strict),
            "weighted": {str(vl): round(float(part), 4) for vl, part in sorted(self.shares.weighted.items())},
        }


@dataclass(frozen=True)
class Plan:
    """The setup of all output ports that have a cable."""

    ports: Mapping[PortKey, PortSetup] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    """The SL2VL tables that differ from the default, by which path records go."""
    findings: tuple[Finding, ...] = ()


class What(enum.StrEnum):
    """The part of a port's setup that is different."""

    PORT = "port"
    SL2VL = "sl2vl"
    ARBITRATION = "arbitration"


@dataclass(frozen=True)
class Difference:
    """A difference at one port, between two plans or between plan and port."""

    port: PortKey
    what: What
    message: str
    input: int | None = None  # of an SL2VL table

    def __str__(self) -> str:
        way = f", from port {self.input}" if self.input is not None else ""
        return f"{self.port.node}/{self.port.number}{way}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        port = f"{self.port.node}/{self.port.number}"
        return {"port": port, "what": self.what, "input": self.input, "message": self.message}


def plan(policy: Policy, fabric: Fabric) -> Plan:
    """Return the plan for a policy, with all that is wrong with it on this fabric."""
    tables = setup(policy, fabric)
    findings, ports, in_force = list(tables.findings), dict[PortKey, PortSetup](), dict(tables.sl2vl)
    dropping: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for key in sorted(fabric.links):
        node = fabric.nodes[key.node]
        port = node.ports[key.number]
        line = _shares(key, port, tables.vlarb.get(key), findings)
        sl2vl, unserved = {}, set[int]()
        for number in inputs(node):
            if number == key.number:
                continue
            crossing = Crossing(key.node, number, key.number)
            table = tables.vls(crossing, fabric)
            unserved |= set(table) & set(line.unserved)
            sl2vl[number] = tuple(DROP_VL if vl in line.unserved else vl for vl in table)
            if sl2vl[number] != table:
                in_force[crossing] = sl2vl[number]
        if unserved:
            dropping.setdefault((key.node, tuple(sorted(unserved))), []).append(key.number)
        ports[key] = PortSetup(sl2vl, line)
    findings += [_unserved(node, numbers, vls) for (node, vls), numbers in dropping.items()]
    return Plan(ports, replace(tables, sl2vl=in_force, findings=findings), tuple(findings))


def _shares(key: PortKey, port: PortCapabilities, arbitration: Arbitration | None, findings: list[Finding]) -> Shares:
    if arbitration is None or not (arbitration.high or arbitration.low):
        return equal_shares(port.vls)
    line = shares(arbitration, port.mtu, port.vls)
    if line.warning:
        message = f"port {key.number} of {key.node}: {line.warning}"
        findings.append(Finding(FindingKind.WEIGHTS_NOT_KEPT, Severity.WARNING, message, None, key.node))
    return line


def _unserved(node: str, numbers: list[int], vls: tuple[int, ...]) -> Finding:
    ports = Ranges.of((number, number) for number in numbers).text()
    message = (
        f"VL {Ranges.of((vl, vl) for vl in vls).text()} of port {ports} of {node} has SLs mapped to it and no weight "
        "in either arbitration table; VL 15 is set instead, so packets of these SLs are dropped"
    )
    return Finding(FindingKind.UNSERVED_VL, Severity.WARNING, message, None, node)


def differences(before: Mapping[PortKey, PortSetup], after: Mapping[PortKey, PortSetup]) -> list[Difference]:
    """Return the differences in `after`, which is a later plan, or the reports of ports."""
    return list(_differences(before, after))


def _differences(before: Mapping[PortKey, PortSetup], after: Mapping[PortKey, PortSetup]) -> Iterator[Difference]:
    for key in sorted(before.keys() | after.keys()):
        if key not in after:
            yield Difference(key, What.PORT, "the port has no cable any more")
        elif key not in before:
            yield Difference(key, What.PORT, "the port is new")
        else:
            yield from _of_port(key, before[key], after[key])


def _of_port(key: PortKey, before: PortSetup, after: PortSetup) -> Iterator[Difference]:
    for number in sorted(before.sl2vl.keys() | after.sl2vl.keys()):
        old, new = before.sl2vl.get(number), after.sl2vl.get(number)
        if old == new:
            continue
        if old is None or new is None:
            yield Difference(key, What.SL2VL, "there is no table" if new is None else "the table is new", number)
            continue
        changed = ", ".join(f"SL {sl}: VL {old[sl]}, now {new[sl]}" for sl in SLS if old[sl] != new[sl])
        yield Difference(key, What.SL2VL, changed, number)
    if not _same_shares(before.shares, after.shares):
        message = f"shares were {before.shares}, now {after.shares}"
        yield Difference(key, What.ARBITRATION, message)


def _same_shares(one: Shares, other: Shares) -> bool:
    """Return True if `other` gives the VLs of `one` the same shares. Other VLs do not count: nothing is mapped
    to them.
    """
    if one.strict != other.strict:
        return False
    total = sum((other.weighted.get(vl, Fraction(0)) for vl in one.weighted), Fraction(0))
    return all(
        abs(part * total - other.weighted.get(vl, 0)) <= CLOSE * total for vl, part in one.weighted.items()
    ) and (total > 0 or not one.weighted)
