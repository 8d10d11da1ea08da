"""The SL2VL and VL arbitration tables of every port of a fabric, by the policy's scopes, and the errors in them (QoS
RFC section 9, 3.1).

Tables are computed, not written to anything. Where several scopes apply to one port, the last one counts. Port numbers
in `from` and `to` are those of the device that has the table (decision 0175).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from testbed.strict.problems import Position, Severity, shown
from testbed.subjects.qos.fabric import Fabric, Node, PortKey
from testbed.subjects.qos.groups import members, naming_nothing, unnamed
from testbed.subjects.qos.model import DROP_VL, SLS, Policy, Sl2VlScope, VlArbScope, VlWeight, same
from testbed.subjects.qos.numbers import Ranges

_MOST_LISTED = 8
"""The most names in one message."""


class FindingKind(enum.StrEnum):
    """The subject of a finding."""

    UNNAMED_NODE = "unnamed-node"
    NOTHING_NAMED = "nothing-named"
    NO_TARGET = "no-target"
    NO_SUCH_PORT = "no-such-port"
    UNSUPPORTED_VL = "unsupported-vl"
    TABLE_TOO_LONG = "table-too-long"
    UNSERVED_VL = "unserved-vl"
    WEIGHTS_NOT_KEPT = "weights-not-kept"


@dataclass(frozen=True)
class Finding:
    """A warning or an error about policy and fabric together."""

    kind: FindingKind
    severity: Severity
    message: str
    position: Position | None = None  # of the statement in the policy, if it is about one
    node: str | None = None

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        return f"{where}{self.severity}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        at = {"line": self.position.line, "column": self.position.column} if self.position else {}
        return at | {"kind": self.kind, "severity": self.severity, "message": self.message, "node": self.node}


class Crossing(NamedTuple):
    """A way through a device, from input to output port. The input of an adapter's own packets is 0."""

    node: str
    input: int
    output: int


@dataclass
class Arbitration:
    """The VL arbitration of an output port; None is not set by the policy."""

    high: tuple[VlWeight, ...] | None = None
    low: tuple[VlWeight, ...] | None = None
    high_limit: int | None = None


@dataclass
class Tables:
    """The tables that a policy sets. A port that is not in here keeps its own."""

    sl2vl: dict[Crossing, tuple[int, ...]] = field(default_factory=dict)
    vlarb: dict[PortKey, Arbitration] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def vls(self, crossing: Crossing, fabric: Fabric) -> tuple[int, ...]:
        """Return the SL2VL table that is in force for a way through a device."""
        port = fabric.nodes[crossing.node].ports.get(crossing.output)
        return self.sl2vl.get(crossing) or default_sl2vl(port.vls if port else len(SLS))


def inputs(node: Node) -> list[int]:
    """Return the input ports of a node's tables. 0 is for packets of its own, and an adapter has no other."""
    return [0, *node.ports] if node.is_switch else [0]


def default_sl2vl(vls: int) -> tuple[int, ...]:
    """Return the table of a port without a setting, which spreads the SLs over its VLs (decision 0176)."""
    return tuple(sl % min(vls, DROP_VL) for sl in SLS)


def setup(policy: Policy, fabric: Fabric) -> Tables:
    """Compute all tables, with all findings."""
    groups = {same(group.name): members(group, fabric) for group in policy.port_groups}
    return _Setup(policy, fabric, groups).tables()


class _Setup:
    def __init__(self, policy: Policy, fabric: Fabric, groups: Mapping[str, frozenset[PortKey]]) -> None:
        self._policy, self._fabric, self._groups = policy, fabric, groups
        self._tables = Tables()

    def tables(self) -> Tables:
        for name in unnamed(self._policy.port_groups, self._fabric):
            message = f"node {name} is in the fabric and in no port group of the policy"
            self._tables.findings.append(Finding(FindingKind.UNNAMED_NODE, Severity.WARNING, message, None, name))
        for group in self._policy.port_groups:
            if names := naming_nothing(group, self._fabric):
                message = f"port group {shown(group.name)} names {_listed(names)}; the fabric has no such port"
                self._tables.findings.append(
                    Finding(FindingKind.NOTHING_NAMED, Severity.WARNING, message, group.position)
                )
        for scope in self._policy.sl2vl:
            self._sl2vl(scope)
        for arb in self._policy.vlarb:
            self._vlarb(arb)
        return self._tables

    def _find(
        self,
        kind: FindingKind,
        severity: Severity,
        scope: Sl2VlScope | VlArbScope,
        message: str,
        node: str | None = None,
    ) -> None:
        self._tables.findings.append(Finding(kind, severity, message, scope.position, node))

    # SL2VL

    def _sl2vl(self, scope: Sl2VlScope) -> None:
        crossings = sorted(set(self._crossings(scope)))
        failed = self._check_numbers(scope, "from", scope.from_ports, {c.node for c in crossings}, inputs)
        failed |= self._check_numbers(scope, "to", scope.to_ports, {c.node for c in crossings}, self._outputs)
        chosen = [c for c in crossings if _among(c.input, scope.from_ports) and _among(c.output, scope.to_ports)]
        if not chosen and not failed:
            self._find(
                FindingKind.NO_TARGET, Severity.WARNING, scope, f"{_named('sl2vl-scope', scope)} matches no port"
            )
        missing: dict[tuple[str, int], set[int]] = {}
        for crossing in chosen:
            vls = self._fabric.nodes[crossing.node].ports[crossing.output].vls
            unsupported = {vl for vl in scope.table if vls <= vl < DROP_VL}
            if unsupported:
                missing.setdefault((crossing.node, vls), set()).update(unsupported)
            self._tables.sl2vl[crossing] = tuple(vl if vl < vls else DROP_VL for vl in scope.table)
        for (node, vls), unsupported in sorted(missing.items()):
            sls = ", ".join(str(sl) for sl in SLS if scope.table[sl] in unsupported)
            message = (
                f"sl2vl-table uses VL {', '.join(map(str, sorted(unsupported)))}, and ports of {node} have {vls}; "
                f"VL 15 is set instead, so packets of SL {sls} are dropped"
            )
            self._find(FindingKind.UNSUPPORTED_VL, Severity.ERROR, scope, message, node)

    def _crossings(self, scope: Sl2VlScope) -> Iterator[Crossing]:
        for key in self._members(scope.groups):
            node = self._fabric.nodes[key.node]
            for output in self._own(key):
                yield from (Crossing(node.name, number, output) for number in inputs(node) if number != output)
        for key in self._peers(scope.across_to):
            node = self._fabric.nodes[key.node]
            yield from (Crossing(node.name, number, key.number) for number in inputs(node) if number != key.number)
        for key in self._peers(scope.across_from):
            node = self._fabric.nodes[key.node]
            if node.is_switch:  # an adapter forwards nothing from its ports
                outputs = (number for number in node.ports if number != key.number)
                yield from (Crossing(node.name, key.number, number) for number in outputs)

    # VL arbitration

    def _vlarb(self, scope: VlArbScope) -> None:
        own = {PortKey(key.node, n) for key in self._members(scope.groups) for n in self._own(key)}
        ports = sorted(own | set(self._peers(scope.across)))
        failed = self._check_numbers(scope, "to", scope.to_ports, {key.node for key in ports}, self._outputs)
        chosen = [key for key in ports if _among(key.number, scope.to_ports)]
        if not chosen and not failed:
            self._find(
                FindingKind.NO_TARGET, Severity.WARNING, scope, f"{_named('vlarb-scope', scope)} matches no port"
            )
        too_long: dict[tuple[str, str, int, int], list[int]] = {}
        unsupported: dict[tuple[str, int], set[int]] = {}
        for key in chosen:
            port = self._fabric.nodes[key.node].ports[key.number]
            arbitration = self._tables.vlarb.setdefault(key, Arbitration())
            for name, table, room in (("high", scope.high, port.arb_high), ("low", scope.low, port.arb_low)):
                if table is None:
                    continue
                if len(table) > room:
                    too_long.setdefault((key.node, name, len(table), room), []).append(key.number)
                    continue
                if beyond := {entry.vl for entry in table if entry.vl >= port.vls}:
                    unsupported.setdefault((key.node, port.vls), set()).update(beyond)
                setattr(arbitration, name, table)
            if scope.high_limit is not None:
                arbitration.high_limit = scope.high_limit
        for (node, name, length, room), numbers in sorted(too_long.items()):
            message = (
                f"vlarb-{name} has {length} entries, and port {', '.join(map(str, numbers))} of {node} has room for "
                f"{room}; the table is not set there"
            )
            self._find(FindingKind.TABLE_TOO_LONG, Severity.ERROR, scope, message, node)
        for (node, vls), beyond in sorted(unsupported.items()):
            listed = ", ".join(map(str, sorted(beyond)))
            message = f"VL arbitration names VL {listed}, and ports of {node} have {vls}; the entry is never served"
            self._find(FindingKind.UNSUPPORTED_VL, Severity.WARNING, scope, message, node)

    # Targets

    def _members(self, names: Iterable[str]) -> Iterator[PortKey]:
        for name in names:
            yield from self._groups[same(name)]

    def _own(self, key: PortKey) -> list[int]:
        """Return the ports with cables that a member stands for: a switch's port 0 for all of them."""
        node = self._fabric.nodes[key.node]
        return list(node.ports) if key.number == 0 else [key.number]

    def _peers(self, names: Iterable[str]) -> Iterator[PortKey]:
        for key in self._members(names):
            for number in self._own(key):
                if (far := self._fabric.links.get(PortKey(key.node, number))) is not None:
                    yield far

    def _outputs(self, node: Node) -> list[int]:
        return list(node.ports)

    def _check_numbers(
        self,
        scope: Sl2VlScope | VlArbScope,
        name: str,
        numbers: Ranges | None,
        nodes: set[str],
        exist: Callable[[Node], list[int]],
    ) -> bool:
        """Find port numbers that a target does not have."""
        failed = False
        for node_name in sorted(nodes) if numbers is not None else ():
            there = set(exist(self._fabric.nodes[node_name]))
            beyond = [n for low, high in numbers or () for n in range(low, high + 1) if n not in there]
            if beyond:
                failed = True
                message = (
                    f"{name} names port {Ranges.of((n, n) for n in beyond).text()}, which {node_name} does not have"
                )
                self._find(FindingKind.NO_SUCH_PORT, Severity.ERROR, scope, message, node_name)
        return failed


def _among(number: int, numbers: Ranges | None) -> bool:
    return numbers is None or number in numbers


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more


def _named(what: str, scope: Sl2VlScope | VlArbScope) -> str:
    across = (*scope.across_from, *scope.across_to) if isinstance(scope, Sl2VlScope) else scope.across
    return f"{what} of {', '.join(map(shown, dict.fromkeys((*scope.groups, *across))))}"
