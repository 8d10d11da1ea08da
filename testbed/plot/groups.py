"""The parts that a figure compares: networks of one or several results, each with a label of what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from testbed.errors import UsageError, listed, plain
from testbed.lab.results import tables
from testbed.lab.results.folder import Folder, Network, read
from testbed.report.timeline import series
from testbed.report.timeline.tracks import Track
from testbed.report.timeline.tracks import tracks as tracks_of_events

LONGEST_LABEL = 80
Steps = tuple[list[float], list[float]]
"""Times in ns since the network's first flow began, and the value from each on."""


@dataclass(frozen=True)
class Choice:
    """Which parts of results a figure is of."""

    case: str = ""
    """A pattern of the networks' titles; empty for all."""
    only: str = ""
    """A pattern of flows ("h1 to *") or ports ("s1-*"); empty for all."""
    begin_ns: float = 0.0
    end_ns: float | None = None
    pool_seeds: bool = False
    lab_time: bool = False

    def has(self, name: str) -> bool:
        return not self.only or fnmatchcase(name, self.only)


class Logs:
    """The logs of a result, each of which is read once."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @cached_property
    def flows(self) -> list[tables.Row]:
        return tables.flows(self.folder)

    @cached_property
    def series(self) -> list[Track]:
        return series.tracks(self.folder)

    @cached_property
    def events(self) -> list[Track]:
        return tracks_of_events(self.folder).tracks


@dataclass(frozen=True, eq=False)
class Group:
    """One network of a result, or all flows of a result without the description of a network."""

    logs: Logs
    network: Network | None
    choice: Choice
    facts: dict[str, str]
    label: str = ""
    pooled: tuple[Group, ...] = field(default=(), repr=False)
    """The same networks of results with other seeds."""

    @property
    def folder(self) -> Folder:
        return self.logs.folder

    @cached_property
    def start_ns(self) -> int:
        """The begin of the network's first flow by the lab's clock, or that of the network without flows."""
        begun = [row["lab_ns"] for row in self.logs.flows if self._has(row["lab_ns"])]
        return min(begun, default=self.network.start_ns if self.network else 0)

    def flows(self) -> list[tables.Row]:
        """Return the flows of the network, and of those that are pooled with it."""
        own = [
            row
            for row in self.logs.flows
            if self._has(row["lab_ns"]) and self.choice.has(f"{row['source']} to {row['target']}")
        ]
        return own + [row for other in self.pooled for row in other.flows()]

    def steps(self, panel: str, *, of_events: bool = False) -> dict[str, Steps]:
        """Return the tracks of a panel while the network ran, by name, those that are zero throughout left out.

        They are those of time series, or of the event log.
        """
        found: dict[str, Steps] = {}
        for track in self.logs.events if of_events else self.logs.series:
            if track.panel == panel and self.choice.has(track.port or track.label):
                times, values = self._within(track)
                if any(values):
                    found[track.name] = times, values
        return dict(sorted(found.items(), key=lambda one: natural(one[0])))

    def intervals(self, *panels: str) -> dict[str, list[tuple[str, float, float]]]:
        """Return the panel, begin and end of each interval in the network, by port and priority."""
        found: dict[str, list[tuple[str, float, float]]] = {}
        k, start_ns = self.folder.units.k, self.start_ns
        for track in self.logs.events:
            if track.panel not in panels or not self.choice.has(track.port):
                continue
            for since, until in zip(track.t_ns, track.values, strict=True):
                low, high = (since - start_ns) / k, (until - start_ns) / k
                if self._has(since) and high >= self.choice.begin_ns and low <= self.until_ns:
                    found.setdefault(track.name, []).append(
                        (track.panel, max(low, self.choice.begin_ns), min(high, self.until_ns))
                    )
        return dict(sorted(found.items(), key=lambda one: natural(one[0])))

    @property
    def until_ns(self) -> float:
        """The end of what is drawn: that of the choice, or of the network."""
        if self.choice.end_ns is not None:
            return self.choice.end_ns
        end_ns = self.network.end_ns if self.network else self.folder.end_ns
        return (end_ns - self.start_ns) / self.folder.units.k

    def _within(self, track: Track) -> Steps:
        k, start_ns = self.folder.units.k, self.start_ns
        factor = 1 / track.parts
        if self.choice.lab_time and track.unit == "b/s":
            factor /= self.folder.scale.k
        times, values, before = list[float](), list[float](), 0.0
        for t_ns, value in zip(track.t_ns, track.values, strict=True):
            if not self._has(t_ns):
                continue
            time = (t_ns - start_ns) / k
            if time > self.until_ns:
                break
            if time < self.choice.begin_ns:
                before = value * factor
                continue
            if not times and before:
                times.append(self.choice.begin_ns)
                values.append(before)
            times.append(time)
            values.append(value * factor)
        return (times, values) if times or not before else ([self.choice.begin_ns], [before])

    def _has(self, lab_ns: int) -> bool:
        return self.network is None or self.network.start_ns <= lab_ns <= self.network.end_ns


def groups_of(paths: Sequence[Path], choice: Choice) -> list[Group]:
    """Return the networks of results, with labels of what differs; UsageError if the pattern of cases fits none."""
    found = [group for path in paths for group in _of_result(read(path, choice.lab_time), choice)]
    titles = list(dict.fromkeys(group.facts["case"] for group in found))
    if choice.case:
        found = [group for group in found if fnmatchcase(group.facts["case"], choice.case)]
        if not found:
            raise UsageError(f"no network is called {choice.case!r}; there are {listed(map(plain, titles))}")
    return labelled(_pooled(found) if choice.pool_seeds else found)


def _of_result(folder: Folder, choice: Choice) -> Iterator[Group]:
    result = folder.result
    facts = {"experiment": str(result.get("experiment", ""))}
    parameters = result.get("parameters")
    for name, value in parameters.items() if isinstance(parameters, dict) else ():
        facts[f"parameter {name}"] = f"{name}={value}"
    facts["seed"] = f"seed {result.get('seed')}"
    facts["engine"] = str((result.get("provenance") or {}).get("engine", ""))
    logs = Logs(folder)
    networks: list[Network | None] = [*folder.networks] or [None]
    for network in networks:
        yield Group(logs, network, choice, {**facts, "case": network.title if network else ""})


def labelled(groups: Sequence[Group]) -> list[Group]:
    """Return the groups with labels: what differs between them, or the folders' names where nothing else does."""
    names = list(dict.fromkeys(name for group in groups for name in group.facts))
    differing = [name for name in names if len({group.facts.get(name) for group in groups}) > 1]
    labels = [", ".join(group.facts[name] for name in differing if group.facts.get(name)) for group in groups]
    if len(set(labels)) < len(labels):
        labels = [f"{group.folder.name} {label}".strip() for group, label in zip(groups, labels, strict=True)]
    return [replace(group, label=short(label)) for group, label in zip(groups, labels, strict=True)]


def _pooled(groups: Sequence[Group]) -> list[Group]:
    """Return one group for all that differ in their seeds alone."""
    found: dict[tuple[tuple[str, str], ...], list[Group]] = {}
    for group in groups:
        key = tuple(one for one in group.facts.items() if one[0] != "seed")
        found.setdefault(key, []).append(group)
    return [
        replace(first, pooled=tuple(rest), facts={name: fact for name, fact in first.facts.items() if name != "seed"})
        for first, *rest in found.values()
    ]


def natural(text: str) -> tuple[tuple[str, int], ...]:
    """Return a key by which s2 is before s10."""
    found, letters, digits = list[tuple[str, int]](), "", ""
    for sign in f"{text}\0":
        if sign.isascii() and sign.isdigit():
            digits += sign
            continue
        if digits:
            found.append((letters, int(digits[:18])))
            letters = digits = ""
        letters += sign
    return (*found, (letters, 0))


def short(text: str, most: int = LONGEST_LABEL) -> str:
    """Return a name as a figure can have it: one line without what is not printable, and not too long."""
    line = plain(text).replace("\n", " ").replace("\t", " ")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def provenance(groups: Sequence[Group]) -> list[str]:
    """Return a line about each result: its folder, digest and version."""
    found: dict[str, None] = {}
    for one in (one for first in groups for one in (first, *first.pooled)):
        result = one.folder.result
        made_with = result.get("provenance") or {}
        digest = str(result.get("digest", "unknown"))[:16]
        found[short(f"{one.folder.name}: digest {digest}, xoff {made_with.get('xoff', '?')}", 120)] = None
    return list(found)
