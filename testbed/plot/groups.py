"""The parts that a figure compares: networks of one or several results, each with a label of what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from testbed.errors import UsageError, listed, plain
from testbed.lab.results import tables
from testbed.lab.results.folder import Folder, Network, read
from testbed.plot.style import COLOURS
from testbed.report.timeline import series
from testbed.report.timeline.tracks import Track
from testbed.report.timeline.tracks import tracks as tracks_of_events

LONGEST_LABEL = 80
LABEL = "label"
"""The fact of a result that the user has given."""
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
    panels: str = ""
    """A parameter, "case" or "seed", for each value of which there is a panel; empty for one panel."""
    labels: tuple[str, ...] = ()
    """The user's own words for the results."""

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
    """What tells it apart from the other curves of its panel."""
    panel: str = ""
    """What tells its panel apart from others; empty if there is one."""
    pooled: tuple[Group, ...] = field(default=(), repr=False)
    """The same networks of results with other seeds."""

    @property
    def folder(self) -> Folder:
        return self.logs.folder

    @property
    def name(self) -> str:
        """A name for it in a sentence."""
        return ", ".join(filter(None, (self.panel, self.label))) or self.folder.name

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
    if choice.labels and len(choice.labels) != len(paths):
        raise UsageError(f"there are {len(choice.labels)} labels and {len(paths)} results; each result has one")
    groups = [
        group
        for place, path in enumerate(paths)
        for group in _of_result(read(path, choice.lab_time), choice, choice.labels[place] if choice.labels else "")
    ]
    titles = list(dict.fromkeys(group.facts["case"] for group in groups))
    if choice.case:
        groups = [group for group in groups if fnmatchcase(group.facts["case"], choice.case)]
        if not groups:
            raise UsageError(f"no network is called {choice.case!r}; there are {listed(map(plain, titles))}")
    return labelled(_pooled(groups) if choice.pool_seeds else groups, _fact_of_panels(groups, choice.panels))


def _of_result(folder: Folder, choice: Choice, label: str) -> Iterator[Group]:
    result = folder.result
    facts = {LABEL: label, "experiment": str(result.get("experiment", ""))}
    parameters = result.get("parameters")
    for name, value in parameters.items() if isinstance(parameters, dict) else ():
        facts[f"parameter {name}"] = f"{name}={value}"
    facts["seed"] = f"seed {result.get('seed')}"
    facts["engine"] = str((result.get("provenance") or {}).get("engine", ""))
    logs = Logs(folder)
    networks: list[Network | None] = [*folder.networks] or [None]
    for network in networks:
        yield Group(logs, network, choice, {**facts, "case": network.title if network else ""})


def _fact_of_panels(groups: Sequence[Group], panels: str) -> str:
    """Return the fact that a figure has panels of; UsageError if no result has it, or all have the same."""
    if not panels:
        return ""
    differing = _differing(groups)
    for name in (f"parameter {panels}", panels):
        if name in differing and name != LABEL:
            return name
    known = [name.removeprefix("parameter ") for name in differing if name != LABEL]
    raise UsageError(
        f"--panels {panels}: the results do not differ in it; "
        + (f"they do in {listed(known)}" if known else "they differ in nothing, so there is one panel")
    )


def _differing(groups: Sequence[Group]) -> list[str]:
    names = dict.fromkeys(name for group in groups for name in group.facts)
    return [name for name in names if len({group.facts.get(name) for group in groups}) > 1]


def labelled(groups: Sequence[Group], panels: str = "") -> list[Group]:
    """Return the groups with labels: what differs between them, or the folders' names where nothing else does.

    What `panels` names is the title of a panel, and panels are in the order of their titles. Labels of the user's stand
    for what differs, apart from the networks of a result.
    """
    given = any(group.facts[LABEL] for group in groups)
    if panels:
        groups = sorted(groups, key=lambda group: natural(group.facts.get(panels, "")))
    differing = [name for name in _differing(groups) if name != panels and (not given or name in (LABEL, "case"))]
    if given and LABEL not in differing:
        differing.insert(0, LABEL)
    labels = [", ".join(group.facts[name] for name in differing if group.facts.get(name)) for group in groups]
    titles = [short(group.facts.get(panels, "")) for group in groups]
    if len(set(zip(titles, labels, strict=True))) < len(labels):
        labels = [f"{group.folder.name} {label}".strip() for group, label in zip(groups, labels, strict=True)]
    return [
        replace(group, label=short(label), panel=title)
        for group, label, title in zip(groups, labels, titles, strict=True)
    ]


def require_told_apart(groups: Sequence[Group], most_panels: int) -> dict[str, list[Group]]:
    """Return the groups by panel; UsageError if one has more curves than an eye tells apart, with the way out."""
    panels: dict[str, list[Group]] = {}
    for group in groups:
        panels.setdefault(group.panel, []).append(group)
    if len(panels) > most_panels:
        raise UsageError(f"there would be {len(panels)} panels, and a figure has {most_panels}; give fewer results")
    curves = len({group.label for group in groups})
    if curves <= len(COLOURS):
        return panels
    ways = []
    for name in (name for name in _differing(groups) if name != LABEL):
        others = {tuple(fact for fact in group.facts.items() if fact[0] not in (name, LABEL)) for group in groups}
        many = len({group.facts.get(name) for group in groups})
        if len(others) <= len(COLOURS) and many <= most_panels:
            ways.append((many, name.removeprefix("parameter ")))
    advice = f"--panels {min(ways)[1]} makes {min(ways)[0]} panels of them" if ways else "give fewer results"
    raise UsageError(
        f"{curves} curves cannot be told apart: there are {len(COLOURS)} colours with dashes of their own; {advice}, "
        "and --case chooses networks"
    )


def look_of(panels: Mapping[str, Sequence[Group]]) -> dict[str, int]:
    """Return the number of each label's look, which is the same in all panels."""
    return {
        label: place for place, label in enumerate(dict.fromkeys(one.label for some in panels.values() for one in some))
    }


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
