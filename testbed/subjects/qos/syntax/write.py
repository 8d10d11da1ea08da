"""The writer of policies in either syntax. A written file is read back as an equal policy.

Each syntax lacks something: block text has no TClass, no default level for a partition, and limits only as codes. A
part that cannot be written is an error, unless the nearest equivalent is asked for; then it is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from xml.sax.saxutils import escape

from testbed.strict.problems import shown
from testbed.subjects.qos.model import (
    DEFAULT_NAME,
    MatchRule,
    Policy,
    PortGroup,
    QosLevel,
    Sl2VlScope,
    Ulp,
    UlpRule,
    VlArbScope,
    VlWeight,
    same,
)
from testbed.subjects.qos.numbers import (
    MTU_CODES,
    RATE_CODES,
    Ranges,
    exact_mtu_code,
    exact_rate_code,
    mtu_code,
    rate_code,
)
from testbed.subjects.qos.syntax.grammar import BLOCK, XML, Syntax
from testbed.subjects.qos.syntax.source import START, Problems
from testbed.units import Rate

Entries = list[tuple[str, str]]
Tree = tuple[str, "list[Tree] | Entries"]


def write(policy: Policy, syntax: Syntax, problems: Problems, approximate: bool = False) -> str:
    """Return the text. Parts that the syntax cannot express go to `problems`."""
    if syntax is BLOCK:
        policy = _for_block(policy, problems, approximate)
    sections = list(_sections(policy, syntax))
    if syntax is XML:
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<qos-policy>", *_xml(sections, 1), "</qos-policy>"]
    else:
        lines = [*_block(sections, 0)]
    return "\n".join(lines) + "\n"


def _xml(tree: Iterable[tuple[str, object]], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, content in tree:
        spelled = XML.spell(name)
        if isinstance(content, str):
            yield f"{indent}<{spelled}>{escape(content)}</{spelled}>"
        elif isinstance(content, list):
            yield f"{indent}<{spelled}>"
            yield from _xml(content, depth + 1)
            yield f"{indent}</{spelled}>"


def _block(tree: Iterable[tuple[str, object]], depth: int) -> Iterator[str]:
    indent = "    " * depth
    for name, content in tree:
        if isinstance(content, str):
            yield f"{indent}{name}: {content}"
        elif isinstance(content, list) and name == "qos-ulp":
            yield indent + _ulp_line(dict(content))
        elif isinstance(content, list):
            yield f"{indent}{name}"
            yield from _block(content, depth + 1)
            yield f"{indent}end-{name}"


def _ulp_line(entries: dict[str, str]) -> str:
    key = "".join(f", {name} {values}" for name, values in entries.items() if name not in ("ulp", "sl"))
    return f"{entries['ulp']}{key} : {entries['sl']}"


# Parts of both syntaxes


def _sections(policy: Policy, syntax: Syntax) -> Iterator[tuple[str, object]]:
    if policy.port_groups:
        yield "port-groups", [("port-group", _port_group(group, syntax)) for group in policy.port_groups]
    setup: list[tuple[str, object]] = []
    if policy.sl2vl:
        setup.append(("sl2vl-tables", [("sl2vl-scope", _sl2vl(scope, syntax)) for scope in policy.sl2vl]))
    if policy.vlarb:
        setup.append(("vlarb-tables", [("vlarb-scope", _vlarb(scope, syntax)) for scope in policy.vlarb]))
    if setup:
        yield "qos-setup", setup
    if policy.levels:
        yield "qos-levels", [("qos-level", _level(level, syntax)) for level in policy.levels]
    if policy.rules:
        yield "qos-match-rules", [("qos-match-rule", _rule(rule, syntax)) for rule in policy.rules]
    if policy.ulps:
        yield "qos-ulps", [("qos-ulp", _ulp(rule)) for rule in policy.ulps]
    if policy.default_level is not None and not _is_named_default(policy.default_level):
        yield "default-level", policy.default_level
    if policy.partition_defaults:
        yield (
            "partition-defaults",
            [
                ("partition-default", [("partition", default.partition), ("qos-level-name", default.level)])
                for default in policy.partition_defaults
            ],
        )


def _is_named_default(name: str) -> bool:
    return same(name) == same(DEFAULT_NAME)


def _use(text: str, syntax: Syntax) -> Entries:
    if not text:
        return []
    return [("use", f'"{text}"' if syntax is BLOCK else text)]


def _many(name: str, values: Iterable[str]) -> Entries:
    return [(name, value) for value in values]


def _ranges(name: str, ranges: Ranges, form: str) -> Entries:
    return [(name, ranges.text(form))] if ranges else []


def _port_group(group: PortGroup, syntax: Syntax) -> Entries:
    kinds = ["HCA" if syntax is XML and kind == "CA" else str(kind) for kind in group.node_types]
    return [
        ("name", group.name),
        *_use(group.use, syntax),
        *_ranges("port-guid", group.port_guids, "#018x"),
        *_many("port-name", group.port_names),
        *_many("partition", group.partitions),
        *_ranges("pkey", group.pkeys, "#06x"),
        *([("node-type", ",".join(kinds))] if kinds else []),
    ]


def _ports(name: str, ports: Ranges | None) -> Entries:
    return [(name, "*" if ports is None else ports.text())]


def _sl2vl(scope: Sl2VlScope, syntax: Syntax) -> Entries:
    across_to = "across" if syntax is XML else "across-to"
    return [
        *_use(scope.use, syntax),
        *_many("group", scope.groups),
        *_many("across-from", scope.across_from),
        *_many(across_to, scope.across_to),
        *_ports("from", scope.from_ports),
        *_ports("to", scope.to_ports),
        ("sl2vl-table", ",".join(map(str, scope.table))),
    ]


def _vlarb(scope: VlArbScope, syntax: Syntax) -> Entries:
    def table(name: str, entries: tuple[VlWeight, ...] | None) -> Entries:
        return [] if entries is None else [(name, ",".join(f"{vl}:{weight}" for vl, weight in entries))]

    return [
        *_use(scope.use, syntax),
        *_many("group", scope.groups),
        *_many("across", scope.across),
        *_ports("to", scope.to_ports),
        *table("vlarb-high", scope.high),
        *table("vlarb-low", scope.low),
        *([] if scope.high_limit is None else [("vl-high-limit", str(scope.high_limit))]),
    ]


def _level(level: QosLevel, syntax: Syntax) -> Entries:
    numbered = syntax is XML and level.name.isascii() and level.name.isdecimal() and str(int(level.name)) == level.name
    entries = [("sn" if numbered else "name", level.name), *_use(level.use, syntax), ("sl", str(level.sl))]
    if level.tclass is not None:
        entries.append(("tclass", str(level.tclass)))
    if level.mtu_limit is not None:
        code = exact_mtu_code(level.mtu_limit)
        entries.append(("mtu-limit", str(code) if syntax is BLOCK else f"{level.mtu_limit}B"))
    if level.rate_limit is not None:
        code = exact_rate_code(level.rate_limit)
        entries.append(("rate-limit", str(code) if syntax is BLOCK else str(Rate.from_bps(level.rate_limit))))
    entries += [("path-bits", str(level.path_bits))] if level.path_bits is not None else []
    entries += [("packet-life", str(level.packet_life))] if level.packet_life is not None else []
    return entries + _ranges("pkey", level.pkeys, "#06x")


def _rule(rule: MatchRule, syntax: Syntax) -> Entries:
    return [
        *([("sn", str(rule.sn))] if rule.sn is not None and syntax is XML else []),
        *_use(rule.use, syntax),
        *_many("source", rule.sources),
        *_many("destination", rule.destinations),
        *_ranges("service-id", rule.service_ids, "#018x"),
        *_ranges("tclass", rule.tclasses, "d"),
        *_ranges("qos-class", rule.qos_classes, "d"),
        *_ranges("pkey", rule.pkeys, "#06x"),
        ("qos-level-name", rule.level),
    ]


def _ulp(rule: UlpRule) -> Entries:
    form = "d" if rule.key == "port-num" else "#x"
    key = [(str(rule.key), rule.values.text(form))] if rule.key is not None else []
    return [("ulp", str(rule.ulp)), *key, ("sl", str(rule.sl))]


# Parts that block text lacks


def _for_block(policy: Policy, problems: Problems, approximate: bool) -> Policy:
    """Return the policy with the nearest equivalents of all that block text cannot express."""
    lost = problems.warning if approximate else problems.error
    way_out = "" if approximate else "a policy without it, or the nearest equivalent (--approximate)"
    levels = []
    for level in policy.levels:
        where, name = level.position, shown(level.name)
        if level.tclass is not None:
            lost(where, f"level {name}: OpenSM's levels have no TClass; {level.tclass} is left out", way_out)
        if (mtu := level.mtu_limit) is not None and exact_mtu_code(mtu) is None:
            mtu = MTU_CODES[max(mtu_code(mtu), 1)]
            lost(where, f"level {name}: an MTU of {level.mtu_limit}B has no code; {mtu}B is written", way_out)
        if (rate := level.rate_limit) is not None and exact_rate_code(rate) is None:
            rate = RATE_CODES[rate_code(rate) or 2]
            asked, nearest = Rate.from_bps(level.rate_limit or 0), Rate.from_bps(rate)
            lost(where, f"level {name}: a rate of {asked} has no code; {nearest} is written", way_out)
        levels.append(replace(level, tclass=None, mtu_limit=mtu, rate_limit=rate))
    rules = []
    for rule in policy.rules:
        if rule.tclasses:
            text = f"OpenSM's rules have no TClass; {rule.tclasses.text()} is written as qos-class"
            lost(rule.position, text, way_out)
            if rule.qos_classes:
                problems.error(rule.position, "this rule has both TClass and QoS class", "one of them")
        rules.append(replace(rule, sn=None, tclasses=Ranges(), qos_classes=rule.qos_classes or rule.tclasses))
    for default in policy.partition_defaults:
        text = f"partition {shown(default.partition)}: block text has no default level for a partition; it is left out"
        lost(default.position, text, way_out)
    default_level, ulps = policy.default_level, policy.ulps
    has_default = any(_is_named_default(level.name) for level in levels)
    if default_level is not None and not _is_named_default(default_level):
        if has_default:
            problems.error(
                START, f"a level {DEFAULT_NAME} is there and not the default", f"{DEFAULT_NAME} as the default"
            )
        named = next((level for level in levels if same(level.name) == same(default_level)), None)
        if named is not None:
            levels.append(replace(named, name=DEFAULT_NAME))
    elif default_level is None and not any(rule.ulp is Ulp.DEFAULT for rule in ulps):
        levels.append(QosLevel(DEFAULT_NAME, 0))  # OpenSM refuses a policy without one
    return replace(
        policy, levels=tuple(levels), rules=tuple(rules), ulps=ulps, partition_defaults=(), default_level=None
    )
