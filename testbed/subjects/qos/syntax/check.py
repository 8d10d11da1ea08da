"""Checks of a policy whose every value can be read: names of nothing, names given twice, and, as warnings, groups and
levels that are never used and rules that are never reached. Checks against a fabric are in
`testbed.subjects.qos.setup`.

The reader of a policy file in either syntax. Errors are collected, not raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from testbed.strict.problems import Position, shown
from testbed.subjects.qos.model import DEFAULT_NAME, MatchRule, Policy, Ulp, same
from testbed.subjects.qos.numbers import Ranges
from testbed.subjects.qos.syntax import block_text, rfc_xml
from testbed.subjects.qos.syntax.build import build
from testbed.subjects.qos.syntax.grammar import BLOCK, XML, Syntax
from testbed.subjects.qos.syntax.source import START, PolicyError, Problems, decode

_COMPARED = 500
"""The most rules that are compared each with each. Among more rules, one that hides another is found only if their
criteria are equal or it has none."""


def check(policy: Policy, syntax: Syntax, problems: Problems) -> None:
    groups = {same(group.name) for group in policy.port_groups}
    levels = {same(level.name) for level in policy.levels}
    _check_unique(((group.name, group.position) for group in policy.port_groups), "port group", problems)
    _check_unique(((level.name, level.position) for level in policy.levels), "level", problems)
    numbered = ((str(rule.sn), rule.position) for rule in policy.rules if rule.sn is not None)
    _check_unique(numbered, "match rule", problems)
    partitions = ((default.partition, default.position) for default in policy.partition_defaults)
    _check_unique(partitions, "default level of partition", problems)

    names = [group.name for group in policy.port_groups]
    for position, used in _groups_used(policy):
        if same(used) not in groups:
            problems.error(position, f"there is no port group {shown(used)}", _choice(used, names, "port group"))
    names = [level.name for level in policy.levels]
    for position, used in _levels_used(policy):
        if used and same(used) not in levels:
            problems.error(position, f"there is no level {shown(used)}", _choice(used, names, "level"))
    if problems.errors:
        return
    _doubt(policy, syntax, problems)


def _doubt(policy: Policy, syntax: Syntax, problems: Problems) -> None:
    used = {same(name) for _, name in _groups_used(policy)}
    for group in policy.port_groups:
        if same(group.name) not in used:
            problems.warning(group.position, f"port group {shown(group.name)} is used nowhere")
        if not (group.port_guids or group.port_names or group.partitions or group.pkeys or group.node_types):
            problems.warning(group.position, f"port group {shown(group.name)} names no ports")
    used = {same(name) for _, name in _levels_used(policy)}
    for level in policy.levels:
        if same(level.name) not in used:
            problems.warning(level.position, f"level {shown(level.name)} is never reached: no rule or default names it")
    for rule, hiding in _hidden(policy.rules):
        problems.warning(
            rule.position,
            f"this rule is never reached: that of line {hiding.position.line} matches whatever it matches",
        )
    if policy.rules and not any(_criteria(rule) for rule in policy.rules[-1:]) and policy.ulps:
        problems.warning(policy.rules[-1].position, "the last rule matches every request, so that no ULP is reached")
    numbers = [(rule.sn, rule.position) for rule in policy.rules if rule.sn is not None]
    for (one, _), (other, position) in pairwise(numbers):
        if other < one:
            problems.warning(
                position, f"rule {other} stands after rule {one}; rules are tried in the order of the file"
            )
            break
    has_default = policy.default_level is not None or any(rule.ulp is Ulp.DEFAULT for rule in policy.ulps)
    if syntax is BLOCK and not has_default:
        problems.warning(START, f"there is no level {DEFAULT_NAME}, and OpenSM refuses such a policy; "
                         "requests that no rule matches get SL 0 and no limits")  # fmt: skip


def _hidden(rules: tuple[MatchRule, ...]) -> Iterator[tuple[MatchRule, MatchRule]]:
    """Return the rules that are never reached, each with an earlier one that takes all of its requests."""
    first: dict[object, MatchRule] = {}
    for number, rule in enumerate(rules):
        criteria = _criteria(rule)
        hiding = first.get(()) or first.setdefault(criteria, rule)
        if hiding is rule and len(rules) <= _COMPARED:
            hiding = next((other for other in rules[:number] if _covers(other, rule)), rule)
        if hiding is not rule:
            yield rule, hiding


def _criteria(rule: MatchRule) -> tuple[object, ...]:
    """Return a rule's criteria. A rule that matches every request has none."""
    names = [frozenset(map(same, names)) for names in (rule.sources, rule.destinations)]
    given = (*names, rule.service_ids, rule.tclasses, rule.qos_classes, rule.pkeys)
    return given if any(given) else ()


def _covers(one: MatchRule, other: MatchRule) -> bool:
    """Return True if `one` matches all that `other` matches, as far as this can be decided without the fabric."""
    names = ((one.sources, other.sources), (one.destinations, other.destinations))
    for wide, narrow in names:
        if wide and not (narrow and {same(name) for name in narrow} <= {same(name) for name in wide}):
            return False
    values = (
        (one.service_ids, other.service_ids),
        (one.tclasses, other.tclasses),
        (one.qos_classes, other.qos_classes),
        (one.pkeys, other.pkeys),
    )
    return all(not wide or (bool(narrow) and _within(narrow, wide)) for wide, narrow in values)


def _within(narrow: Ranges, wide: Ranges) -> bool:
    if len(narrow.pairs) + len(wide.pairs) > 100:
        return False  # not worth the time for a warning
    return all(any(a <= low and high <= b for a, b in wide) for low, high in narrow)


def _groups_used(policy: Policy) -> Iterable[tuple[Position, str]]:
    for scope in policy.sl2vl:
        yield from ((scope.position, name) for name in (*scope.groups, *scope.across_from, *scope.across_to))
    for arb in policy.vlarb:
        yield from ((arb.position, name) for name in (*arb.groups, *arb.across))
    for rule in policy.rules:
        yield from ((rule.position, name) for name in (*rule.sources, *rule.destinations))


def _levels_used(policy: Policy) -> Iterable[tuple[Position, str]]:
    yield from ((rule.position, rule.level) for rule in policy.rules)
    yield from ((default.position, default.level) for default in policy.partition_defaults)
    if policy.default_level is not None:
        yield policy.default_position, policy.default_level


def _check_unique(named: Iterable[tuple[str, Position]], what: str, problems: Problems) -> None:
    first: dict[str, Position] = {}
    for name, position in named:
        if (earlier := first.setdefault(same(name), position)) is not position:
            problems.error(
                position, f"a second {what} {shown(name)}; the first is in line {earlier.line}", "another name"
            )


def _choice(given: str, names: list[str], what: str) -> str:
    near = get_close_matches(given, names[:1000], 1)
    if near:
        return shown(near[0])
    if not names:
        return f"a {what} of this policy, which has none"
    return "one of " + ", ".join(shown(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")


_SKIPPED = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r\n]+|#[^\n]*(?:\n|$))*+")


@dataclass(frozen=True)
class ReadPolicy:
    """The result of reading a file. Without errors the policy is whole."""

    policy: Policy
    syntax: Syntax
    problems: Problems

    @property
    def ok(self) -> bool:
        return not self.problems.errors


def syntax_of(content: bytes) -> Syntax:
    """Return the syntax of a file: XML begins with <, all other files are block text."""
    skipped = _SKIPPED.match(content)
    return XML if content[skipped.end() if skipped else 0 :][:1] == b"<" else BLOCK


def read(content: bytes, syntax: Syntax | None = None) -> ReadPolicy:
    """Read a file's bytes. If no syntax is given, the first character decides."""
    problems = Problems()
    syntax = syntax or syntax_of(content)
    source = decode(content, problems)
    root = (rfc_xml if syntax is XML else block_text).parse(source, problems)
    policy = build(root, source, syntax, problems)
    check(policy, syntax, problems)
    return ReadPolicy(policy, syntax, problems)


def load(content: bytes, name: str, syntax: Syntax | None = None) -> Policy:
    """Return the policy of a file without errors; PolicyError names all of them otherwise."""
    reading = read(content, syntax)
    if not reading.ok:
        raise PolicyError(name, reading.problems.errors, reading.problems.left_out)
    return reading.policy
