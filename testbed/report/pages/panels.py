"""The panels of a report: which tracks are drawn together, with which thresholds and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from testbed.lab.results.folder import Folder
from testbed.report.pages.markup import readable, text
from testbed.report.timeline.series import PREFIX
from testbed.report.timeline.tracks import (
    ASSERTED,
    DROPS,
    MARKS,
    OCCUPANCY,
    PAUSED,
    STORM,
    TUNNEL,
    Shape,
    Track,
    Tracks,
    natural,
)

_MOST_LANES = 60
_SERIES_COLOURS = 6
_KEYS = {
    PAUSED: "paused (XOFF received)",
    ASSERTED: "ingress above XOFF, sends XOFF",
    STORM: "storm, PFC off",
    TUNNEL: "sends XOFF into a tunnel",
}


@dataclass
class Panel:
    """A panel: lanes of intervals and marks, or a chart of values."""

    identity: str
    title: str
    about: str
    view: str
    tracks: list[int] = field(default_factory=list)
    lanes: list[tuple[str, list[int]]] = field(default_factory=list)
    lines: list[tuple[str, int]] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    """The legend: a class that has the colour, and the words beside it."""

    def as_json(self) -> dict[str, Any]:
        if self.view == "lanes":
            lanes = [{"label": readable(label, 80), "tracks": tracks} for label, tracks in self.lanes]
            return {"id": self.identity, "view": self.view, "lanes": lanes}
        return {"id": self.identity, "view": self.view, "tracks": self.tracks, "lines": self.lines}

    def described(self) -> dict[str, Any]:
        """Return the panel for a page that draws it itself."""
        keys = [[kind, readable(words, 60)] for kind, words in self.keys]
        return self.as_json() | {"title": readable(self.title, 80), "about": readable(self.about, 200), "keys": keys}

    def markup(self) -> str:
        swatch = '<svg viewBox="0 0 14 10" aria-hidden="true"><rect class="{}" width="14" height="10"/></svg>'
        keys = "".join(f'<span class="key">{swatch.format(kind)}{text(words, 60)}</span>' for kind, words in self.keys)
        label = text(f"{self.title}. {self.about}".strip(), 300)
        return (
            f'<figure><figcaption>{text(self.title)} <span class="about">{text(self.about)}</span>'
            f"<br>{keys}</figcaption>"
            f'<div class="panel" id="{self.identity}"><canvas role="img" aria-label="{label}"></canvas>'
            '<div class="line"></div><div class="choice" hidden></div></div>'
            '<p class="readout" aria-hidden="true"></p></figure>'
        )


def panels(number: int, folder: Folder, found: Tracks) -> list[Panel]:
    """Return all panels of a result, with the ones that matter most first."""
    made = [panel for makes in MAKERS for panel in makes(folder, found)]
    for at, panel in enumerate(made):
        panel.identity = f"panel-{number}-{at}"
    return made


def active(folder: Folder, found: Tracks) -> tuple[int, int]:
    """Return the part of the run in which something happened at ports, with a margin."""
    shown = [track for track in found.tracks if track.panel != MARKS and len(track.t_ns)]
    if not shown:
        return 0, folder.end_ns
    first, last = min(track.t_ns[0] for track in shown), max(_end(track) for track in shown)
    margin = max(1, (last - first) // 40)
    return max(0, first - margin), min(folder.end_ns, last + margin)


def _end(track: Track) -> int:
    if track.panel in _KEYS:
        return track.values[-1]
    is_reset = track.shape is Shape.STEPS and track.values[-1] == 0  # at the end of the network
    return track.t_ns[-2] if is_reset and len(track.t_ns) > 1 else track.t_ns[-1]


def _pauses(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the panel of pauses: a lane for each port and priority, which several kinds of intervals share."""
    lanes: dict[tuple[str, str], list[int]] = {}
    kinds: dict[str, None] = {}
    for at, track in enumerate(found.tracks):
        if track.panel in _KEYS:
            lanes.setdefault((track.port, track.label), []).append(at)
            kinds[track.panel] = None
    rows = [
        (f"{port} {label.replace('priority ', 'p')}", lanes[port, label])
        for port, label in sorted(lanes, key=lambda key: (natural(key[0]), key[1]))
    ]
    keys = [(f"k-{kind}", _KEYS[kind]) for kind in _KEYS if kind in kinds]
    return _in_parts("Pauses", "by port and priority", rows, keys)


def _marks(folder: Folder, found: Tracks) -> list[Panel]:
    rows = [(track.port or "run", [at]) for at, track in enumerate(found.tracks) if track.panel == MARKS]
    return _in_parts("Events", "of agents, DCBX, headroom and tunnels", rows, [])


def _in_parts(title: str, about: str, rows: list[tuple[str, list[int]]], keys: list[tuple[str, str]]) -> list[Panel]:
    parts = [rows[at : at + _MOST_LANES] for at in range(0, len(rows), _MOST_LANES)]
    return [
        Panel(
            "",
            title if len(parts) == 1 else f"{title}, part {n} of {len(parts)}",
            about,
            "lanes",
            lanes=part,
            keys=keys,
        )
        for n, part in enumerate(parts, 1)
    ]


def _occupancy(folder: Folder, found: Tracks) -> list[Panel]:
    """Return a chart for each node: cells of the shared pool by ingress port and priority when thresholds were
    crossed."""
    by_node: dict[str, list[int]] = {}
    for at, track in enumerate(found.tracks):
        if track.panel == OCCUPANCY:
            by_node.setdefault(_node_of(folder, track.port), []).append(at)
    out = []
    for node, tracks in sorted(by_node.items(), key=lambda item: natural(item[0])):
        lines, words = _thresholds(folder, found, tracks)
        recorded = any(found.tracks[at].shape is Shape.STEPS for at in tracks)
        about = "cells of the shared pool at each crossing of XOFF or XON"
        about += f"{', and as recorded' if recorded else ''}{words}"
        out.append(_chart(f"Buffer of {node}", about, found, tracks, lines))
    return out


def _thresholds(folder: Folder, found: Tracks, tracks: list[int]) -> tuple[list[tuple[str, int]], str]:
    """Return static thresholds as lines, and alpha in words, because its threshold moves with the free cells."""
    lines: dict[tuple[str, int], None] = {}
    alphas: dict[str, None] = {}
    for at in tracks:
        track = found.tracks[at]
        for network in folder.networks:
            groups = network.ports.get(track.port, {}).get("groups")
            priority = track.label.removeprefix("priority ").partition(",")[0]
            group = groups.get(priority) if isinstance(groups, dict) else None
            if not isinstance(group, dict):
                continue
            xoff, offset = group.get("xoff_cells"), group.get("xon_offset_cells")
            if type(xoff) is int and type(offset) is int and 0 <= xoff < 2**31 and 0 <= offset <= xoff:
                lines[f"XOFF {xoff}", xoff] = None
                lines[f"XON {xoff - offset}", xoff - offset] = None
            elif isinstance(group.get("alpha"), str):
                alphas[f"XOFF at {group['alpha']} of the free cells, XON {offset} below"] = None
    return list(lines)[:8], "".join(f"; {words}" for words in list(alphas)[:2])


def _drops(folder: Folder, found: Tracks) -> list[Panel]:
    tracks = [at for at, track in enumerate(found.tracks) if track.panel == DROPS]
    return [_chart("Drops", "frames dropped so far, by ingress port and reason", found, tracks)] if tracks else []


def _series(folder: Folder, found: Tracks) -> list[Panel]:
    """Return the charts of time series: one for each name of a series and unit."""
    charts: dict[str, list[int]] = {}
    for at, track in enumerate(found.tracks):
        if track.panel.startswith(PREFIX):
            charts.setdefault(track.panel.removeprefix(PREFIX), []).append(at)
    return [
        _chart(
            name[:1].upper() + name[1:],
            f"in {found.tracks[tracks[0]].unit}, recorded" if found.tracks[tracks[0]].unit else "",
            found,
            tracks,
        )
        for name, tracks in sorted(charts.items())
    ]


def _chart(
    title: str, about: str, found: Tracks, tracks: list[int], lines: list[tuple[str, int]] | None = None
) -> Panel:
    keys = [(f"s{n % _SERIES_COLOURS + 1}", found.tracks[at].name) for n, at in enumerate(tracks[:24])]
    if len(tracks) > 24:
        keys.append(("s6", f"and {len(tracks) - 24} more"))
    return Panel("", title, about, "chart", tracks=tracks, lines=lines or [], keys=keys)


def _node_of(folder: Folder, port: str) -> str:
    for network in folder.networks:
        if port in network.ports:
            return network.node_of(port)
    return port.rpartition("-")[0] or port


MAKERS: list[Callable[[Folder, Tracks], list[Panel]]] = [_pauses, _occupancy, _drops, _series, _marks]
"""The functions that make panels, in the order of a report. A new kind of panel is a function and an entry here."""
