"""The check that all ports of a path find the same priorities; where they do not, PFC fails without any other symptom.

It implements the caution at the end of "priority and queue mapping" in the PFC/ECN article: dot1p to local priority and
DSCP to dot1p have to be the same on all ports that frames are forwarded through. Ports are compared in pairs of
neighbours, an arriving and a leaving port of one switch as well as the two ends of a cable. What agrees with the same
agrees with each other, so a path is right if its pairs are; many paths cost as much as they have pairs.

Only what touches a priority with PFC on either port of a pair is reported: tables may differ as they like for the rest.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from testbed.switch.priority.settings import PRIORITIES, PriorityMap, Trust, check_priorities, named, require_trust


@dataclass(frozen=True)
class PathPort:
    """A port on a path: its name for messages, its settings, and the priorities with PFC."""

    name: str
    settings: PriorityMap
    enabled: Set[int] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "enabled", check_priorities(self.enabled, self.name))
        require_trust(self.settings, self.enabled, self.name)


class DisagreementKind(enum.StrEnum):
    """The subjects about which two neighbours can disagree."""

    PFC = "pfc"
    TRUST = "trust"
    PORT_PRIORITY = "port priority"
    DSCP_TO_DOT1P = "dscp to dot1p"
    DOT1P_TO_LOCAL = "dot1p to local"
    REWRITE = "rewrite"  # a port changes on the way what the next one looks at


@dataclass(frozen=True)
class Disagreement:
    """One difference, reported once: at the first place on the first path that has it."""

    kind: DisagreementKind
    port: str  # the first that differs
    before: str  # its neighbour before it on the path
    priorities: tuple[int, ...]  # with PFC, and not protected
    text: str
    elsewhere: tuple[tuple[str, str], ...] = ()  # (port, before) of more places with the same difference

    def __str__(self) -> str:
        more = len(self.elsewhere)
        return self.text + (f" (and so at {more} more place{'s' if more > 1 else ''})" if more else "")


def check_path(ports: Sequence[PathPort]) -> list[Disagreement]:
    """Return what is wrong along one path, from the sender's port to the receiver's; nothing if PFC works."""
    return check_paths([ports])


def check_paths(paths: Iterable[Sequence[PathPort]]) -> list[Disagreement]:
    """Return what is wrong along many paths. Each pair of neighbours is looked at once, in the direction met first."""
    found: dict[Hashable, tuple[_Difference, list[tuple[str, str]]]] = {}
    pairs: set[tuple[PathPort, PathPort]] = set()
    forwarding: set[PathPort] = set()
    for ports in paths:
        for number, (before, port) in enumerate(pairwise(ports), 1):
            differences: list[_Difference] = []
            if (before, port) not in pairs and (port, before) not in pairs:
                pairs.add((before, port))
                differences += _between(before, port)
            # The last port of a path forwards nothing, so it rewrites nothing; nor does the first.
            if number < len(ports) - 1 and port not in forwarding:
                forwarding.add(port)
                differences += _rewriting(port)
            for difference in differences:
                found.setdefault(difference.same, (difference, []))[1].append((port.name, before.name))
    return [
        Disagreement(first.kind, *places[0], tuple(sorted(first.priorities)), first.text, tuple(places[1:]))
        for first, places in found.values()
    ]


@dataclass(frozen=True)
class _Difference:
    kind: DisagreementKind
    priorities: Set[int]
    values: Hashable  # what differs, the same in both directions
    text: str

    @property
    def same(self) -> Hashable:
        """The key that is equal for the same difference in another place."""
        return self.kind, frozenset(self.priorities), self.values


def _between(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    """Yield what two neighbours do differently to a priority with PFC on either of them."""
    if before.enabled == port.enabled and (not port.enabled or before.settings == port.settings):
        return
    yield from _pfc(before, port)
    yield from _trust(before, port)
    if before.settings.trust is port.settings.trust:
        yield from _port_priority(before, port)
        if port.settings.trust is Trust.DSCP:
            yield from _dscp_tables(before, port)
    yield from _local_tables(before, port)


def _pfc(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    for has, lacks in ((port, before), (before, port)):
        if only := has.enabled - lacks.enabled:
            yield _Difference(
                DisagreementKind.PFC,
                only,
                None,
                f"PFC of {named(only)} is on at {has.name} and off at {lacks.name}, so nothing is lossless between "
                "them: switch it on at both, or off at both",
            )


def _trust(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    one, other = before.settings, port.settings
    if one.trust is not other.trust:
        enabled = before.enabled | port.enabled
        yield _Difference(
            DisagreementKind.TRUST,
            enabled,
            frozenset([_trusts(one), _trusts(other)]),
            f"{port.name} {_trusts(other)}, {before.name} {_trusts(one)}; {_fails(enabled)}: give both the same trust",
        )


def _port_priority(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    one, other = before.settings.port_priority, port.settings.port_priority
    hit = {one, other} & (before.enabled | port.enabled)
    if one != other and hit:
        trust = port.settings.trust
        frames = "untagged frames" if trust is Trust.DOT1P else "untagged frames that are not IP"
        yield _Difference(
            DisagreementKind.PORT_PRIORITY,
            hit,
            (trust, frozenset([one, other])),
            f"{port.name} takes {frames} for priority {other}, {before.name} for {one}; {_fails(hit)}: "
            "give both the same port priority",
        )


def _dscp_tables(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    enabled = before.enabled | port.enabled
    groups: dict[tuple[int, int], list[int]] = {}
    tables = zip(before.settings.dscp_to_dot1p, port.settings.dscp_to_dot1p, strict=True)
    for dscp, (one, other) in enumerate(tables):
        if one != other and {one, other} & enabled:
            groups.setdefault((one, other), []).append(dscp)
    for (one, other), dscps in groups.items():
        hit = {one, other} & enabled
        yield _Difference(
            DisagreementKind.DSCP_TO_DOT1P,
            hit,
            (tuple(dscps), frozenset([one, other])),
            f"{port.name} maps dscp {_ranges(dscps)} to dot1p {other}, {before.name} to {one}; {_fails(hit)}: "
            "give both the same table",
        )


def _local_tables(before: PathPort, port: PathPort) -> Iterator[_Difference]:
    """Compare the local priorities. A value without PFC matters too, if one of the two tables puts it in the queue of
    one with PFC.
    """
    enabled = before.enabled | port.enabled
    first, second = before.settings.dot1p_to_local, port.settings.dot1p_to_local
    for dot1p in PRIORITIES:
        one, other = first[dot1p], second[dot1p]
        hit = {with_pfc for with_pfc in enabled if first[with_pfc] == one or second[with_pfc] == other}
        if one != other and hit:
            yield _Difference(
                DisagreementKind.DOT1P_TO_LOCAL,
                hit,
                (dot1p, frozenset([one, other])),
                f"{port.name} puts dot1p {dot1p} into queue {other}, {before.name} into {one}; {_fails(hit)}: "
                "give both the same table",
            )


def _rewriting(port: PathPort) -> Iterator[_Difference]:
    """Yield rewritings of a port after which the next port finds another priority in frames."""
    settings = port.settings
    for dot1p in PRIORITIES:
        pcp, dscp = settings.rewrite_dot1p[dot1p], settings.rewrite_dscp[dot1p]
        changes = []
        if pcp is not None and settings.trust is not Trust.NONE:
            tagged = "" if settings.trust is Trust.DOT1P else " in tagged frames that are not IP"
            changes.append((pcp, f"dot1p {dot1p} to {pcp}{tagged}"))
        if dscp is not None and settings.trust is Trust.DSCP:
            becomes = settings.dscp_to_dot1p[dscp]
            changes.append((becomes, f"dot1p {dot1p} to dscp {dscp}, which is dot1p {becomes}"))
        for becomes, what in changes:
            hit = {dot1p, becomes} & port.enabled
            if becomes != dot1p and hit:
                yield _Difference(
                    DisagreementKind.REWRITE,
                    hit,
                    what,
                    f"{port.name} rewrites {what}; {_fails(hit)}: let such frames keep their priority on the way",
                )


def _trusts(settings: PriorityMap) -> str:
    if settings.trust is Trust.NONE:
        return "trusts nothing"
    untagged = f" and takes untagged frames for priority {settings.port_priority}"
    return f"trusts {settings.trust}{untagged if settings.trust is Trust.DOT1P else ''}"


def _fails(priorities: Iterable[int]) -> str:
    return f"PFC of {named(priorities)} would silently fail"


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers in order as text, as in "24-31 and 46"."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
