"""The builder of a policy from sections and entries. It reads the values, and checks a section beyond its grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from testbed.strict.problems import Position, shown
from testbed.subjects.qos.model import (
    DEFAULT_NAME,
    MatchRule,
    PartitionDefault,
    Policy,
    PortGroup,
    QosLevel,
    Sl2VlScope,
    Ulp,
    UlpKey,
    UlpRule,
    VlArbScope,
    same,
)
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.syntax.grammar import BLOCK, Syntax, SyntaxNode
from testbed.subjects.qos.syntax.source import START, Problems, Source
from testbed.subjects.qos.syntax.values import (
    GUID_MOST,
    PACKET_LIFE_MOST,
    PATH_BITS_MOST,
    QOS_CLASS_MOST,
    SERVICE_ID_MOST,
    TCLASS_MOST,
    Reader,
)

T = TypeVar("T")
_ULP_KEYS = {
    Ulp.DEFAULT: (None,),
    Ulp.SDP: (None, UlpKey.PORT_NUM),
    Ulp.RDS: (None, UlpKey.PORT_NUM),
    Ulp.ISER: (None, UlpKey.PORT_NUM),
    Ulp.SRP: (UlpKey.TARGET_PORT_GUID,),
    Ulp.IPOIB: (None, UlpKey.PKEY),
    Ulp.ANY: tuple(key for key in UlpKey if key is not UlpKey.PORT_NUM),
}
_MOST = {UlpKey.PORT_NUM: 0xFFFF}


def build(root: SyntaxNode, source: Source, syntax: Syntax, problems: Problems) -> Policy:
    """Return the policy. It is usable only if `problems` has no error afterwards."""
    return _Builder(source, syntax, problems).policy(root)


class _Builder:
    def __init__(self, source: Source, syntax: Syntax, problems: Problems) -> None:
        self._source, self._syntax, self._problems = source, syntax, problems
        self._read = Reader(source, syntax, problems)

    def policy(self, root: SyntaxNode) -> Policy:
        levels = self._all(root, "qos-levels", "qos-level", self._level)
        ulps = self._all(root, "qos-ulps", "qos-ulp", self._ulp)
        setup = next((node for node in root.children if node.name == "qos-setup"), SyntaxNode("", 0))
        default = self._optional(root, "default-level", self._read.name)
        if default is None:
            default = next((level.name for level in levels if same(level.name) == same(DEFAULT_NAME)), None)
        return Policy(
            tuple(self._all(root, "port-groups", "port-group", self._port_group)),
            tuple(self._all(setup, "sl2vl-tables", "sl2vl-scope", self._sl2vl)),
            tuple(self._all(setup, "vlarb-tables", "vlarb-scope", self._vlarb)),
            tuple(levels),
            tuple(self._all(root, "qos-match-rules", "qos-match-rule", self._rule)),
            tuple(ulps),
            default,
            tuple(self._all(root, "partition-defaults", "partition-default", self._partition_default)),
            next((self._at(node) for node in root.children if node.name == "default-level"), START),
        )

    # Sections

    def _port_group(self, node: SyntaxNode) -> PortGroup | None:
        name = self._optional(node, "name", self._read.name)
        group = PortGroup(
            name or "",
            self._use(node),
            self._ranges(node, "port-guid", GUID_MOST),
            self._list(node, "port-name", self._read.port_names),
            self._list(node, "partition", self._read.names),
            self._pkeys(node),
            tuple(dict.fromkeys(self._list(node, "node-type", self._read.node_types))),
            self._at(node),
        )
        return group if name else None

    def _sl2vl(self, node: SyntaxNode) -> Sl2VlScope:
        table = self._optional(node, "sl2vl-table", self._read.sl2vl_table)
        across = self._list(node, "across", self._read.names)
        groups = self._list(node, "group", self._read.names)
        across_from = self._list(node, "across-from", self._read.names)
        across_to = self._list(node, "across-to", self._read.names)
        if self._syntax is BLOCK:
            across_from += across  # OpenSM's `across` is both
        across_to += across
        scope = Sl2VlScope(
            table or (), groups, across_from, across_to, self._ports(node, "from"), self._ports(node, "to"),
            self._use(node), self._at(node),
        )  # fmt: skip
        if not (groups or across_from or across_to):
            self._problems.error(self._at(node), f"{node.name} applies to nothing", "group or across")
        return scope  # without its table too: the groups that it names are looked up all the same

    def _vlarb(self, node: SyntaxNode) -> VlArbScope | None:
        groups = self._list(node, "group", self._read.names)
        across = self._list(node, "across", self._read.names)
        high = self._optional(node, "vlarb-high", self._read.vlarb_table)
        low = self._optional(node, "vlarb-low", self._read.vlarb_table)
        limit = self._optional(node, "vl-high-limit", lambda entry: self._read.number(entry, 255))
        if not (groups or across):
            self._problems.error(self._at(node), f"{node.name} applies to nothing", "group or across")
        if not any(child.name in ("vlarb-high", "vlarb-low", "vl-high-limit") for child in node.children):
            self._problems.error(self._at(node), f"{node.name} sets nothing", "vlarb-high, vlarb-low or vl-high-limit")
        return VlArbScope(groups, across, self._ports(node, "to"), high, low, limit, self._use(node), self._at(node))

    def _level(self, node: SyntaxNode) -> QosLevel | None:
        sn = self._optional(node, "sn", lambda entry: self._read.number(entry, 0xFFFF_FFFF))
        name = self._optional(node, "name", self._read.name)
        if not any(child.name in ("sn", "name") for child in node.children) and self._syntax is not BLOCK:
            self._problems.error(self._at(node), "<qos-level> has no <sn>", "<sn> or <name>")
        if sn is not None and name is not None:
            self._problems.error(self._at(node), "<qos-level> has both <sn> and <name>", "one of them")
        sl = self._optional(node, "sl", lambda entry: self._read.number(entry, 15))
        level = QosLevel(
            name or str(sn),
            sl or 0,
            self._use(node),
            self._number(node, "tclass", TCLASS_MOST),
            self._optional(node, "mtu-limit", self._read.mtu),
            self._optional(node, "rate-limit", self._read.rate),
            self._number(node, "path-bits", PATH_BITS_MOST),
            self._number(node, "packet-life", PACKET_LIFE_MOST),
            self._pkeys(node),
            self._at(node),
        )
        return level if sn is not None or name is not None else None

    def _rule(self, node: SyntaxNode) -> MatchRule:
        level = next((child for child in node.children if child.name == "qos-level-name"), None)
        return MatchRule(
            (self._read.name(level) or "") if level else "",
            self._number(node, "sn", 0xFFFF_FFFF),
            self._use(node),
            self._list(node, "source", self._read.names),
            self._list(node, "destination", self._read.names),
            self._ranges(node, "service-id", SERVICE_ID_MOST),
            self._ranges(node, "tclass", TCLASS_MOST),
            self._ranges(node, "qos-class", QOS_CLASS_MOST),
            self._pkeys(node),
            self._at(level or node),
        )

    def _ulp(self, node: SyntaxNode) -> UlpRule | None:
        entries = {child.name: child for child in node.children}
        sl = self._optional(node, "sl", lambda entry: self._read.number(entry, 15))
        word = entries.get("ulp")
        if word is None or sl is None:
            return None
        if word.text not in set(Ulp):
            self._read.error(word, f"{shown(word.text)} is not a protocol", f"one of {', '.join(Ulp)}")
            return None
        ulp, given = Ulp(word.text), [key for key in UlpKey if key in entries]
        key = given[0] if given else None
        allowed = _ULP_KEYS[ulp]
        if len(given) > 1 or key not in allowed:
            names = " or ".join("nothing" if k is None else k for k in allowed)
            self._read.error(word, f"{ulp} with {' and '.join(given) or 'nothing to select by'}", f"{ulp} with {names}")
            return None
        values = Ranges()
        if key is not None:
            entry = entries[key]
            values = (
                self._read.pkeys(entry) if key is UlpKey.PKEY else self._read.ranges(entry, _MOST.get(key, GUID_MOST))
            )
        return UlpRule(ulp, sl, key, values, self._at(node))

    def _partition_default(self, node: SyntaxNode) -> PartitionDefault | None:
        partition = self._optional(node, "partition", self._read.name)
        level = self._optional(node, "qos-level-name", self._read.name)
        return PartitionDefault(partition, level, self._at(node)) if partition and level else None

    # Entries

    def _at(self, node: SyntaxNode) -> Position:
        return self._source.position(node.offset)

    def _all(self, parent: SyntaxNode, section: str, name: str, read: Callable[[SyntaxNode], T | None]) -> list[T]:
        nodes = (
            child for top in parent.children if top.name == section for child in top.children if child.name == name
        )
        return [made for node in nodes if (made := read(node)) is not None]

    def _optional(self, node: SyntaxNode, name: str, read: Callable[[SyntaxNode], T | None]) -> T | None:
        entry = next((child for child in node.children if child.name == name), None)
        return None if entry is None else read(entry)

    def _list(self, node: SyntaxNode, name: str, read: Callable[[SyntaxNode], Iterable[T]]) -> tuple[T, ...]:
        return tuple(value for child in node.children if child.name == name for value in read(child))

    def _use(self, node: SyntaxNode) -> str:
        text = self._optional(node, "use", lambda entry: entry.text) or ""
        return " ".join(text.replace('"', "'").split())

    def _number(self, node: SyntaxNode, name: str, most: int) -> int | None:
        return self._optional(node, name, lambda entry: self._read.number(entry, most))

    def _ranges(self, node: SyntaxNode, name: str, most: int) -> Ranges:
        found = [self._read.ranges(child, most) for child in node.children if child.name == name]
        return Ranges.of(pair for ranges in found for pair in ranges)

    def _pkeys(self, node: SyntaxNode) -> Ranges:
        found = [self._read.pkeys(child) for child in node.children if child.name == "pkey"]
        return Ranges.of(pair for ranges in found for pair in ranges)

    def _ports(self, node: SyntaxNode, name: str) -> Ranges | None:
        lists = [self._read.ports(child) for child in node.children if child.name == name]
        if not lists or any(ports is None for ports in lists):
            return None
        return Ranges.of(pair for ports in lists if ports is not None for pair in ports)
