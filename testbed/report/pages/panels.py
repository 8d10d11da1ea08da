"""The panels of a report: which tracks are drawn together, with which thresholds and words, and which come first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from testbed import subject
from testbed.lab.results.folder import Folder, Network
from testbed.report.pages.axes import key
from testbed.report.pages.markup import readable, text
from testbed.report.timeline.derived import POOL, RECORDED, THRESHOLD, far_ends, group_of, line_rate, node_of
from testbed.report.timeline.series import LOAD, MARKED, PREFIX, RATES
from testbed.report.timeline.tracks import (
    ASSERTED,
    DROPS,
    MARKS,
    OCCUPANCY,
    PAUSED,
    STORM,
    TUNNEL,
    Track,
    Tracks,
    natural,
)

_MOST_ROWS = 400
"""The most rows of one panel of lanes or of a heat map."""
_MOST_LINES = 6
"""The most lines that an eye keeps apart in one chart; more are rows of a heat map."""
FIRST = 3
"""The most panels that a report shows before anything is opened."""
_KEYS = {
    PAUSED: "paused (XOFF received)",
    ASSERTED: "far end above XOFF, sends XOFF",
    STORM: "storm, PFC off",
    TUNNEL: "sends XOFF into a tunnel",
}


@dataclass
class Panel:
    """A panel: lanes of intervals and marks, a chart of values, or a heat map with a row for each track."""

    identity: str
    title: str
    about: str
    view: str
    tracks: list[int] = field(default_factory=list)
    lanes: list[tuple[str, list[int]]] = field(default_factory=list)
    lines: list[tuple[Any, ...]] = field(default_factory=list)
    """Levels: a label and a value, and the start and end of where it holds if that is not everywhere."""
    keys: list[tuple[str, str]] = field(default_factory=list)
    """The legend: a class that has the colour, and the words beside it."""
    limits: list[int] = field(default_factory=list)
    """The tracks of a chart that are thresholds and drawn as such."""
    full: float = 0
    """The value of a heat map's darkest colour; 0: the highest value of its tracks."""
    grows: bool = False
    """True if the values of a heat map are counters, whose growth is shown."""
    rank: int = 0
    """The place among the panels that a report shows at first; 0: it is folded."""
    group: str = ""
    """The title under which it is folded; empty: its own."""

    def as_json(self) -> dict[str, Any]:
        if self.view == "lanes":
            lanes = [{"label": readable(label, 80), "tracks": tracks} for label, tracks in self.lanes]
            return {"id": self.identity, "view": self.view, "lanes": lanes}
        if self.view == "heat":
            rows = [{"label": readable(label, 80), "tracks": tracks} for label, tracks in self.lanes]
            return {"id": self.identity, "view": "heat", "lanes": rows, "full": self.full, "grows": self.grows}
        limits = {"limits": self.limits} if self.limits else {}
        return {"id": self.identity, "view": self.view, "tracks": self.tracks, "lines": self.lines, **limits}

    def described(self) -> dict[str, Any]:
        """Return the panel for a page that draws it itself."""
        keys = [[kind, readable(words, 60)] for kind, words in self.keys]
        return self.as_json() | {"title": readable(self.title, 80), "about": readable(self.about, 200), "keys": keys}

    def markup(self) -> str:
        keys = "".join(key(kind, words) for kind, words in self.keys)
        label = text(f"{self.title}. {self.about}".strip(), 300)
        return (
            f'<figure><figcaption>{text(self.title)} <span class="about">{text(self.about)}</span>'
            f'<br>{keys}<span class="scale" hidden></span></figcaption>'
            f'<div class="panel" id="{self.identity}"><canvas role="img" aria-label="{label}"></canvas>'
            '<div class="line"></div><div class="choice" hidden></div></div>'
            '<p class="readout" aria-hidden="true"></p></figure>'
        )


def panels(number: int, folder: Folder, found: Tracks) -> list[Panel]:
    """Return all panels of a result, with the ones that matter most first."""
    made = [panel for makes in (*MAKERS, *subject.loaded("panels")) for panel in makes(folder, found)]
    for at, panel in enumerate(made):
        panel.identity = f"panel-{number}-{at}"
    return made


def first(made: list[Panel], most: int = FIRST) -> list[Panel]:
    """Return the panels that a report shows before anything is opened."""
    ranked = sorted((panel for panel in made if panel.rank), key=lambda panel: panel.rank)
    return ranked[:most] or made[:1]


def folds(made: list[Panel], at_first: list[Panel]) -> list[tuple[str, list[Panel]]]:
    """Return the other panels with the titles under which they are folded."""
    shown = {panel.identity for panel in at_first}
    found: dict[str, list[Panel]] = {}
    for panel in made:
        if panel.identity not in shown:
            found.setdefault(panel.group or panel.title, []).append(panel)
    return list(found.items())


def _pauses(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the panel of pauses: a lane for each cable's direction and priority, with the port that is paused and the
    far end that pauses it."""
    far = far_ends(folder.networks)
    paused = {(track.port, track.label) for track in found.in_panel(PAUSED)}
    lanes: dict[tuple[str, str], list[int]] = {}
    kinds: dict[str, None] = {}
    order = list(_KEYS)
    for at, track in enumerate(found.tracks):
        if track.panel in _KEYS:
            key = track.port, track.label
            if track.panel == ASSERTED and (far.get(track.port), track.label) in paused:
                key = far[track.port], track.label
            lanes.setdefault(key, []).append(at)
            kinds[track.panel] = None
    rows = [
        (
            f"{port} {label.replace('priority ', 'p')}",
            sorted(lanes[port, label], key=lambda at: order.index(found.tracks[at].panel)),
        )
        for port, label in sorted(lanes, key=lambda key: (natural(key[0]), key[1]))
    ]
    keys = [(f"k-{kind}", _KEYS[kind]) for kind in _KEYS if kind in kinds]
    return _in_parts("Pauses", "by the port that has to wait, and priority", rows, keys, rank=1)


def _marks(folder: Folder, found: Tracks) -> list[Panel]:
    rows = [(track.port or "run", [at]) for at, track in enumerate(found.tracks) if track.panel == MARKS]
    return _in_parts("Events", "of agents, DCBX, headroom and tunnels", rows, [])


def _in_parts(
    title: str, about: str, rows: list[tuple[str, list[int]]], keys: list[tuple[str, str]], rank: int = 0
) -> list[Panel]:
    parts = [rows[at : at + _MOST_ROWS] for at in range(0, len(rows), _MOST_ROWS)]
    return [
        Panel(
            "",
            title if len(parts) == 1 else f"{title}, part {n} of {len(parts)}",
            about,
            "lanes",
            lanes=part,
            keys=keys,
            rank=rank if n == 1 else 0,
            group=title,
        )
        for n, part in enumerate(parts, 1)
    ]


def _occupancy(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the panels of buffers: one of all switches together, and one for each."""
    by_node: dict[str, list[int]] = {}
    for at, track in enumerate(found.tracks):
        if track.panel == OCCUPANCY:
            by_node.setdefault(node_of(folder, track.port), []).append(at)
    out = _pools(found)
    single, is_alone = len(by_node) == 1, not out
    most = {node: max(max(found.tracks[at].values, default=0) for at in tracks) for node, tracks in by_node.items()}
    fullest = max(most, key=lambda node: most[node], default="")
    for node, tracks in sorted(by_node.items(), key=lambda item: natural(item[0])):
        recorded = [at for at in tracks if found.tracks[at].label.endswith(RECORDED)]
        panel = _buffer(folder, found, node, recorded or tracks, bool(recorded))
        panel.group = f"Buffer of {node}" if single else f"Buffers of {len(by_node)} nodes"
        if node == fullest and is_alone:
            panel.rank = 2
        out.append(panel)
    return out


def _pools(found: Tracks) -> list[Panel]:
    """Return the chart of the use of shared pools, if there are several switches whose buffers were recorded."""
    pools = [at for at, track in enumerate(found.tracks) if track.panel == POOL]
    if len(pools) < 2:
        return []
    pools.sort(key=lambda at: -max(found.tracks[at].values, default=0))
    few = pools[:_MOST_LINES]
    of = "" if len(few) == len(pools) else f", of the {len(few)} switches with most of {len(pools)}"
    panel = _chart("Use of shared pools", f"all ports of a switch together{of}", found, few)
    panel.keys = [(kind, found.tracks[at].port) for (kind, _), at in zip(panel.keys, few, strict=True)]
    panel.rank = 2
    return [panel]


def _buffer(folder: Folder, found: Tracks, node: str, tracks: list[int], is_recorded: bool) -> Panel:
    lines, words = _thresholds(folder, found, tracks)
    limits = [at for at, track in enumerate(found.tracks) if track.panel == THRESHOLD and track.port == node]
    about = "shared cells by ingress port and priority"
    if len(tracks) > _MOST_LINES:
        rows = [(_lane_name(found.tracks[at]), [at]) for at in tracks]
        return Panel("", f"Buffer of {node}", f"{about}{words}", "heat", lanes=rows[:_MOST_ROWS])
    about += ", as recorded" if is_recorded else "; known at the dots, where XOFF or XON was crossed"
    panel = _chart(f"Buffer of {node}", f"{about}{words}", found, tracks, lines)
    panel.limits = limits
    panel.keys = [(kind, words.removesuffix(RECORDED)) for kind, words in panel.keys]
    panel.keys += [("limit", found.tracks[at].label) for at in limits]
    return panel


def _lane_name(track: Track) -> str:
    return f"{track.port} {track.label.removesuffix(RECORDED).replace('priority ', 'p')}".strip()


def _thresholds(folder: Folder, found: Tracks, tracks: list[int]) -> tuple[list[tuple[Any, ...]], str]:
    """Return static thresholds as lines, and alpha in words, because its threshold moves with the free cells."""
    levels: dict[tuple[str, int], dict[int, Network]] = {}
    alphas: dict[str, None] = {}
    for at in tracks:
        for network in folder.networks:
            group = group_of(network, found.tracks[at])
            if group is None:
                continue
            xoff, offset = group.get("xoff_cells"), group.get("xon_offset_cells")
            if type(xoff) is int and type(offset) is int and 0 <= xoff < 2**31 and 0 <= offset <= xoff:
                for level in ((f"XOFF {xoff}", xoff), (f"XON {xoff - offset}", xoff - offset)):
                    levels.setdefault(level, {})[network.number] = network
            elif isinstance(group.get("alpha"), str):
                alphas[f"XOFF at {group['alpha']} of the free cells, XON {offset} below"] = None
    lines: list[tuple[Any, ...]] = []
    for level, networks in levels.items():
        if len(networks) == len(folder.networks):
            lines.append(level)
        else:
            lines += [(*level, one.start_ns, one.end_ns) for one in networks.values()]
    return lines[:16], "".join(f"; {words}" for words in list(alphas)[:2])


def _drops(folder: Folder, found: Tracks) -> list[Panel]:
    tracks = [at for at, track in enumerate(found.tracks) if track.panel == DROPS]
    if not tracks:
        return []
    made = _values("Drops", "frames dropped so far, by ingress port and reason", found, tracks, grows=True)
    made.rank = 3
    return [made]


def _loads(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the heat map of loads: a row for each direction of a cable, those from hosts first."""
    tracks = [at for at, track in enumerate(found.tracks) if track.panel == LOAD]
    if not tracks:
        return []
    names: dict[str, tuple[int, str]] = {}
    rates: set[int] = set()
    for network in folder.networks:
        names |= _ways(network)
        rates |= {rate for cable in network.cables if (rate := line_rate(cable))}
    rows = sorted(
        ((*names.get(found.tracks[at].port, (3, found.tracks[at].port)), at) for at in tracks),
        key=lambda row: (row[0], natural(row[1])),
    )
    full = max(rates, default=0) / (folder.scale.k if folder.lab_time else 1)
    about = "a row for each direction of a cable with load: from hosts, between switches, to hosts"
    lanes = [(name, [at]) for _, name, at in rows[:_MOST_ROWS]]
    return [Panel("", "Load of links", about, "heat", lanes=lanes, full=full, rank=5)]


def _ways(network: Network) -> dict[str, tuple[int, str]]:
    """Return for each port the kind of its cable's direction (from a host, between switches, to one), and its name."""
    found = {}
    many: dict[frozenset[str], int] = {}
    for cable in network.cables:
        key = frozenset(cable["nodes"])
        many[key] = many.get(key, 0) + 1
    for cable in network.cables:
        is_one = many[frozenset(cable["nodes"])] == 1
        for end in (0, 1):
            source, target = cable["nodes"][end], cable["nodes"][1 - end]
            kind = 0 if network.nodes.get(source) == "host" else 2 if network.nodes.get(target) == "host" else 1
            found[cable["ends"][end]] = kind, f"{source} to {target}" if is_one else f"{cable['ends'][end]} to {target}"
    return found


def _series(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the panels of time series: one for each name of a series and unit."""
    charts: dict[str, list[int]] = {}
    for at, track in enumerate(found.tracks):
        if track.panel.startswith(PREFIX) and track.panel != LOAD:
            charts.setdefault(track.panel, []).append(at)
    out = []
    for panel, tracks in sorted(charts.items()):
        name = panel.removeprefix(PREFIX)
        unit = found.tracks[tracks[0]].unit
        about = f"in {unit}, recorded" if unit else "recorded"
        if panel == MARKED:
            about = "packets that each port has marked so far"
        made = _values(name[:1].upper() + name[1:], about, found, tracks, grows=panel == MARKED)
        if panel == RATES:
            made.rank = 4
            _add_cnps(folder, found, made)
        out.append(made)
    return out


def _add_cnps(folder: Folder, found: Tracks, panel: Panel) -> None:
    """Write the CNPs that a flow's sender received beside the name of its rate."""
    cnps: dict[str, int] = {}
    for flow in folder.flows() if folder.result else ():  # a live view has no log of flows
        name = f"{flow.texts['source']} to {flow.texts['target']} p{flow.numbers['priority']}"
        cnps[name] = cnps.get(name, 0) + int(flow.numbers["cnps"] or 0)
    if not any(cnps.values()):
        return

    def named(words: str, track: Track) -> str:
        many = cnps.get(track.name, 0)
        return f"{words}: {many} CNP{'' if many == 1 else 's'}" if many else words

    panel.about += "; with the CNPs that each sender received"
    panel.keys = [
        (kind, named(words, found.tracks[at])) for (kind, words), at in zip(panel.keys, panel.tracks, strict=False)
    ]
    panel.lanes = [(words, at) if not at else (named(words, found.tracks[at[0]]), at) for words, at in panel.lanes]


def _values(title: str, about: str, found: Tracks, tracks: list[int], grows: bool = False) -> Panel:
    """Return a chart of few tracks, and a heat map of many."""
    if len(tracks) <= _MOST_LINES:
        return _chart(title, about, found, tracks)
    rows = [(_lane_name(found.tracks[at]), [at]) for at in tracks[:_MOST_ROWS]]
    many = "" if len(tracks) <= _MOST_ROWS else f"; the first {_MOST_ROWS} of {len(tracks)}"
    return Panel("", title, f"{about}{many}", "heat", lanes=rows, grows=grows)


def _chart(
    title: str, about: str, found: Tracks, tracks: list[int], lines: list[tuple[Any, ...]] | None = None
) -> Panel:
    keys = [(f"s{n % _MOST_LINES + 1}", found.tracks[at].name) for n, at in enumerate(tracks)]
    return Panel("", title, about, "chart", tracks=tracks, lines=lines or [], keys=keys)


MAKERS: list[Callable[[Folder, Tracks], list[Panel]]] = [_pauses, _occupancy, _drops, _loads, _series, _marks]
"""The functions that make the core's panels, in the order of a report; those of subjects follow."""
