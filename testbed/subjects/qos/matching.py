"""The rule that a path record request matches (QoS RFC section 9, 3.2.1): by a search in order, and compiled.

The compiled form gives the same result. Each field's values are cut into intervals in which the same rules accept it; a
request's rules are the intersection of one set for each field, a bit for each rule, and the first is its lowest bit.
Rules are compiled in blocks, so that neither time nor memory grows with the square of their number.

Upper-layer protocols: their Service-IDs (QoS RFC sections 4 to 8), and the short form `qos-ulps` as groups, levels
and rules. The rules of the short form come after the policy's own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from testbed.subjects.qos.fabric import DEFAULT_PKEY
from testbed.subjects.qos.model import MatchRule, Policy, PortGroup, QosLevel, Ulp, UlpKey, UlpRule, same
from testbed.subjects.qos.numbers import Ranges

SDP = 0x0000000000010000
"""The Service-ID of SDP without its port: 0x000000000001PPPP, PPPP the TCP port to connect to (section 6)."""
CMA_PREFIX = 0x0000000001000000
"""The Service-ID of the CMA without its port space and port (section 5)."""
TCP_PORT_SPACE, UDP_PORT_SPACE = 0x06, 0x11
RDS_PORT, ISER_PORT = 18634, 3260


def cma_service_id(port: int, port_space: int = TCP_PORT_SPACE) -> int:
    """Return the Service-ID that the CMA makes of a port space and a port."""
    return CMA_PREFIX | port_space << 16 | port


def sdp_service_id(port: int) -> int:
    return SDP | port


def iser_service_id(port: int = ISER_PORT) -> int:
    """Return the Service-ID of iSER, which section 8 leaves open: the CMA's for the target's TCP port (decision
    0126).
    """
    return cma_service_id(port)


def expanded(policy: Policy) -> Policy:
    """Return the same policy without the short form. The new names have a quote in them, as no name in a file has."""
    groups, levels, rules = list(policy.port_groups), dict[str, QosLevel](), list(policy.rules)
    default = policy.default_level
    for number, ulp in enumerate(policy.ulps):
        level = QosLevel(f'"sl {ulp.sl}"', ulp.sl, position=ulp.position)
        levels[level.name] = level
        if ulp.ulp is Ulp.DEFAULT:
            default = default or level.name
            continue
        rule = MatchRule(level.name, use=f"{ulp.ulp} of the short form", position=ulp.position)
        group = f'"ulp {number}"'
        if ulp.key in (UlpKey.TARGET_PORT_GUID, UlpKey.SOURCE_PORT_GUID, UlpKey.SOURCE_TARGET_PORT_GUID):
            groups.append(PortGroup(group, port_guids=ulp.values, position=ulp.position))
            if ulp.key is not UlpKey.TARGET_PORT_GUID:
                rule = replace(rule, sources=(group,))
            if ulp.key is not UlpKey.SOURCE_PORT_GUID:
                rule = replace(rule, destinations=(group,))
        elif ulp.ulp is Ulp.IPOIB or ulp.key is UlpKey.PKEY:
            rule = replace(rule, pkeys=ulp.values or Ranges(((DEFAULT_PKEY, DEFAULT_PKEY),)))
        else:
            rule = replace(rule, service_ids=_service_ids(ulp))
        rules.append(rule)
    return replace(
        policy,
        port_groups=tuple(groups),
        levels=(*policy.levels, *levels.values()),
        rules=tuple(rules),
        ulps=(),
        default_level=default,
    )


def _service_ids(ulp: UlpRule) -> Ranges:
    if ulp.key is UlpKey.SERVICE_ID:
        return ulp.values
    if ulp.ulp is Ulp.SDP:
        ports = ulp.values or Ranges(((0, 0xFFFF),))
        return Ranges.of((sdp_service_id(low), sdp_service_id(high)) for low, high in ports)
    usual = RDS_PORT if ulp.ulp is Ulp.RDS else ISER_PORT
    ports = ulp.values or Ranges(((usual, usual),))
    return Ranges.of((cma_service_id(low), cma_service_id(high)) for low, high in ports)


_BLOCK = 1024


class Fields(NamedTuple):
    """The fields of a request that rules are compared with; None is one whose component mask bit is off."""

    source: int  # index of an end port
    destination: int
    service_id: int | None = None
    tclass: int | None = None
    qos_class: int | None = None
    pkey: int | None = None  # without the membership bit


Groups = Mapping[str, frozenset[int]]
"""The end ports, by index, of each group; the names are as `same` gives them."""


def matches(rule: MatchRule, fields: Fields, groups: Groups) -> bool:
    """Return True if every criterion of the rule matches. One whose mask bit is off in the request does not."""
    return (
        _in_groups(fields.source, rule.sources, groups)
        and _in_groups(fields.destination, rule.destinations, groups)
        and _in_ranges(fields.service_id, rule.service_ids)
        and _in_ranges(fields.tclass, rule.tclasses)
        and _in_ranges(fields.qos_class, rule.qos_classes)
        and _in_ranges(fields.pkey, rule.pkeys)
    )


def sequential(rules: Sequence[MatchRule], fields: Fields, groups: Groups) -> int | None:
    """Return the number of the first rule that matches; the reference for `Rules`."""
    return next((number for number, rule in enumerate(rules) if matches(rule, fields, groups)), None)


def _in_groups(port: int, names: tuple[str, ...], groups: Groups) -> bool:
    return not names or any(port in groups[same(name)] for name in names)


def _in_ranges(value: int | None, ranges: Ranges) -> bool:
    return not ranges or (value is not None and value in ranges)


class Rules:
    """Rules compiled for one set of groups."""

    def __init__(self, rules: Sequence[MatchRule], groups: Groups, ports: int) -> None:
        blocks = range(0, len(rules), _BLOCK)
        self._blocks = [(first, _Block(rules[first : first + _BLOCK], groups, ports)) for first in blocks]

    def first(self, fields: Fields) -> int | None:
        """Return the number of the first rule that matches."""
        for first, block in self._blocks:
            if found := block.matching(fields):
                return first + (found & -found).bit_length() - 1
        return None


class _Block:
    """A block of rules. A set of them is an integer with a bit for each."""

    def __init__(self, rules: Sequence[MatchRule], groups: Groups, ports: int) -> None:
        self._sources = _by_port([rule.sources for rule in rules], groups, ports)
        self._destinations = _by_port([rule.destinations for rule in rules], groups, ports)
        self._service_ids = _Field(rule.service_ids for rule in rules)
        self._tclasses = _Field(rule.tclasses for rule in rules)
        self._qos_classes = _Field(rule.qos_classes for rule in rules)
        self._pkeys = _Field(rule.pkeys for rule in rules)

    def matching(self, fields: Fields) -> int:
        source, destination, service_id, tclass, qos_class, pkey = fields
        rules = self._sources[source] & self._destinations[destination]
        if rules:
            rules &= self._service_ids.accepting(service_id)
        if rules:
            rules &= self._tclasses.accepting(tclass) & self._qos_classes.accepting(qos_class)
        return rules and rules & self._pkeys.accepting(pkey)


class _Field:
    """The rules that accept each value of one field."""

    def __init__(self, ranges_of_rules: Iterable[Ranges]) -> None:
        changes: dict[int, int] = {}
        self._unasked = 0  # the rules that do not have this criterion
        for number, ranges in enumerate(ranges_of_rules):
            bit = 1 << number
            if not ranges:
                self._unasked |= bit
            for low, high in ranges:  # of one rule they neither overlap nor touch
                changes[low] = changes.get(low, 0) ^ bit
                changes[high + 1] = changes.get(high + 1, 0) ^ bit
        accepting = self._unasked
        self._starts: list[int] = []
        self._sets = [accepting]  # below the first start
        for start in sorted(changes):
            accepting ^= changes[start]
            self._starts.append(start)
            self._sets.append(accepting)

    def accepting(self, value: int | None) -> int:
        if value is None or not self._starts:
            return self._unasked
        return self._sets[bisect_right(self._starts, value)]


def _by_port(names_of_rules: list[tuple[str, ...]], groups: Groups, ports: int) -> list[int]:
    """Return the rules that accept each port."""
    unasked = 0
    rules_of: dict[str, int] = {}
    for number, names in enumerate(names_of_rules):
        if not names:
            unasked |= 1 << number
        for name in names:
            rules_of[same(name)] = rules_of.get(same(name), 0) | 1 << number
    accepting = [unasked] * ports
    for name, rules in rules_of.items():
        for port in groups[name]:
            accepting[port] |= rules
    return accepting
