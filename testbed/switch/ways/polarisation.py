"""Polarisation: switches that choose by the hash by which a switch before them has chosen already.

A switch sends frames with some hashes to the switch behind it. If that one hashes the same fields with the same seed,
it sees the same hashes, and those that would choose its other ways never come. The check follows, for each station,
which hashes can come to which switch. It knows nothing of how many flows there are: a way that can carry a frame may
still be idle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from math import lcm

from testbed.switch.ways.network import Switch, Way
from testbed.switch.ways.settings import HashField

_Key = tuple[HashField, int, bool]
_MOST_HASHES = 1 << 16
"""The hashes that are followed at most. All tables repeat after the least common multiple of their sizes."""


@dataclass(frozen=True)
class Polarisation:
    """Ways that no frame can take, because an earlier switch has chosen by the same hash."""

    switches: tuple[str, ...]
    """The switches that have such ways."""
    before: str
    """The switch that has chosen before the first of them."""
    ways: int
    """The ways among which these switches choose."""
    carrying: int
    """Those of them that a frame can take."""

    def __str__(self) -> str:
        first, *others = self.switches
        and_others = f" and {len(others)} other{'s' if len(others) > 1 else ''}" if others else ""
        hash_, their = ("hash", "their") if others else ("hashes", "its")
        carrying = f"{self.carrying} of {their} {self.ways} ways can carry frames and the others none"
        return (
            f"the ways are polarised: {first}{and_others} {hash_} the same fields with the same seed as a switch "
            f"before, {self.before}, so that {carrying}; leave seed out, and each switch has its own, or give the "
            "tiers different seeds or fields"
        )


@dataclass(frozen=True)
class _Coming:
    """Hashes that can come to a switch, by key, each as a bit, with the switch that chose by it; all where none is."""

    hashes: Mapping[_Key, tuple[int, str]]

    def joined(self, other: _Coming | None) -> _Coming:
        """Return what can come if this or the other can."""
        if other is None:
            return self
        both = self.hashes.keys() & other.hashes.keys()
        return _Coming({key: (self.hashes[key][0] | other.hashes[key][0], self.hashes[key][1]) for key in both})


def has_same_keys(switches: Collection[Switch]) -> bool:
    """Report whether two switches hash alike; without that nothing is polarised."""
    keys = [switch.key for switch in switches if switch.hashes]
    return len(keys) > len(set(keys))


def polarisation(switches: Mapping[str, Switch], entries: Collection[str]) -> Polarisation | None:
    """Return what is polarised in a network whose stations are at the switches `entries`, or None."""
    if not has_same_keys(switches.values()):
        return None
    sizes: set[int] = set()
    for switch in switches.values():
        if switch.hashes:
            sizes |= {len(switch.table(ways)) for ways in set(switch.ways.values()) if len(ways) > 1}
    checker = _Checker(switches, entries, min(lcm(*sizes - {0}), _MOST_HASHES))
    for station in _unlike(switches):
        checker.follow(station)
    return checker.found()


def _unlike(switches: Mapping[str, Switch]) -> list[str]:
    """Return one station of each group that all switches reach alike, but for the last cable."""
    found: dict[tuple[tuple[str, tuple[Way, ...]], ...], str] = {}
    for station in dict.fromkeys(station for switch in switches.values() for station in switch.ways):
        alike = tuple(
            (name, tuple(way for way in switch.ways.get(station, ()) if way.neighbour in switches))
            for name, switch in switches.items()
        )
        found.setdefault(alike, station)
    return list(found.values())


class _Checker:
    """The check over all stations: which of the ways among which switches choose can carry a frame."""

    def __init__(self, switches: Mapping[str, Switch], entries: Collection[str], hashes: int) -> None:
        self._switches, self._entries, self._hashes = switches, entries, hashes
        self._patterns: dict[tuple[tuple[int, ...], int, bool], int] = {}
        self._possible: dict[tuple[str, str], None] = {}
        self._carrying: set[tuple[str, str]] = set()
        self._before: dict[str, str] = {}

    def follow(self, station: str) -> None:
        """Follow what can be sent to a station."""
        coming: dict[str, _Coming] = {name: _Coming({}) for name in self._entries}
        for name in self._in_order(station):
            if name not in coming:
                continue
            for way, leaving in self._leaving(name, self._switches[name].ways[station], coming[name]):
                if way.neighbour in self._switches:
                    coming[way.neighbour] = leaving.joined(coming.get(way.neighbour))

    def _in_order(self, station: str) -> list[str]:
        """Return the switches that reach a station, those before others first."""
        depth: dict[str, int] = {}

        def depth_of(name: str) -> int:
            if name not in depth:
                depth[name] = 0  # in a circle, which a topology's own ways can make
                ways = self._switches[name].ways.get(station, ())
                nexts = [depth_of(way.neighbour) for way in ways if way.neighbour in self._switches]
                depth[name] = 1 + max(nexts, default=0)
            return depth[name]

        reaching = [name for name, switch in self._switches.items() if station in switch.ways]
        return sorted(reaching, key=depth_of, reverse=True)

    def _leaving(self, name: str, ways: tuple[Way, ...], coming: _Coming) -> list[tuple[Way, _Coming]]:
        """Return what can leave by each way of a switch, for ways by which anything can."""
        switch = self._switches[name]
        if len(ways) == 1 or not switch.hashes:
            return [(way, coming) for way in ways]
        table, found = switch.table(ways), []
        if switch.by_range:
            table = tuple(sorted(table))
        everything = (1 << self._hashes) - 1
        hashes, before = coming.hashes.get(switch.key, (everything, ""))
        for member, way in enumerate(ways):
            if not way.is_there:
                continue
            self._possible[name, way.port] = None
            left = hashes & self._pattern(table, member, switch.by_range)
            if left:
                self._carrying.add((name, way.port))
                found.append((way, _Coming({**coming.hashes, switch.key: (left, name)})))
            else:
                self._before.setdefault(name, before)
        return found

    def _pattern(self, table: tuple[int, ...], member: int, by_range: bool) -> int:
        """Return the hashes, each as a bit, by which a table has this member."""
        if (table, member, by_range) not in self._patterns:
            places = [place for place, one in enumerate(table) if one == member]
            if by_range:
                bounds = [place * self._hashes // len(table) for place in range(len(table) + 1)]
                pattern = sum((1 << bounds[place + 1]) - (1 << bounds[place]) for place in places)
            else:
                once = sum(1 << place for place in places)
                pattern = reduce(int.__or__, (once << start for start in range(0, self._hashes, len(table))), 0)
            self._patterns[table, member, by_range] = pattern & (1 << self._hashes) - 1
        return self._patterns[table, member, by_range]

    def found(self) -> Polarisation | None:
        starved = {name for name, port in self._possible if (name, port) not in self._carrying}
        if not starved:
            return None
        names = tuple(name for name in self._switches if name in starved)
        ways = [one for one in self._possible if one[0] in starved]
        carrying = sum(one in self._carrying for one in ways)
        return Polarisation(names, self._before[names[0]], len(ways), carrying)
