"""The report: one HTML file with everything in it, which opens without a network.

A content security policy admits the style and the script of the page by their digests and nothing else: no address,
no inline style, no other script. Text of results goes through `markup.text`, and data is JSON in which `<` is written
as an escape. Tables are complete without scripts; scripts draw the panels.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import testbed
from testbed import subject
from testbed.lab.results.folder import Folder, Network, read
from testbed.report.pages import attachments, claims, link_loads, panels, replay, tables, topology
from testbed.report.pages.claims import question
from testbed.report.pages.flow_charts import FEW, FlowCharts, flow_charts, flow_ways
from testbed.report.pages.headroom_budget import budget
from testbed.report.pages.markup import asset, digest, folded, heading, readable, script_json, text
from testbed.report.replay.window import Replays, replays
from testbed.report.studies import benchmark_page, conformance_page, sweep_page
from testbed.report.timeline import columns, series, states
from testbed.report.timeline.derived import active, derived, moment, ratios
from testbed.report.timeline.tracks import Tracks, tracks

_SCRIPTS = ("data.js", "draw.js", "network.js", "frames.js", "page.js", "attachments.js")
_CELL_BUDGET, _CELL_BINS = 200_000, 1 << 11
"""The most octets of compressed columns in the cell of a notebook, and the parts of an envelope there."""
_CONTROLS = """
<div class="controls" id="controls" role="group" aria-label="Time" hidden>
<button id="play" type="button">Play</button>
<input id="cursor" type="range" min="0" max="1" value="0" aria-label="Time of the drawings">
<output id="now" for="cursor"></output>
<label>Speed <select id="pace">{paces}<option value="0">window in 10 s</option><option value="1">1 x</option><option
value="0.1">0.1 x</option><option value="0.01">0.01 x</option><option value="0.001">0.001 x</option></select></label>
<button id="in" type="button" aria-label="Zoom in">+</button>
<button id="out" type="button" aria-label="Zoom out">&minus;</button>
<button id="left" type="button" aria-label="Earlier">←</button>
<button id="right" type="button" aria-label="Later">→</button>
<button id="all" type="button">All</button>
{cases}
<span class="note">Window: <span id="window"></span>. Exactly <output id="exact" for="cursor"></output>,
<a id="moment" href="#t=0ns">link to this moment</a></span>
</div>
"""
_BODY = ("<body>", '<body class="alone">')
"""The begin of a page's body: of a report, and of one that shows its replay alone."""
_HELP = (
    "Drag over a panel to zoom, click to set the time, double-click for all; Ctrl and the wheel zoom, Shift and the "
    "wheel move. All panels have one window of time, and the drawing of the network shows the time of the slider."
)
_HARDWARE = "Rates and times are those of the modelled hardware; xoff report --lab-time shows the lab's."
_LAB = "Rates and times are the lab's."


def report(paths: list[Path], budget: int = columns.BUDGET, lab_time: bool = False, only_replay: bool = False) -> str:
    """Return the report of result folders, of benchmarks, of a sweep, or of a conformance run.

    With `only_replay` it shows the network and its time alone, and plays at once, for a frame in another page.

    Its rates and times are those of the modelled hardware, or with `lab_time` the lab's; so they are where results have
    different scales, since all panels have one axis.
    """
    if all(map(benchmark_page.is_benchmark, paths)):
        return document("Benchmark", benchmark_page.body(paths), scripts=())
    if len(paths) == 1 and sweep_page.is_sweep(paths[0]):
        name = paths[0].resolve().name
        return document(name, sweep_page.body(sweep_page.read(paths[0])), scripts=())
    if len(paths) == 1 and conformance_page.is_conformance(paths[0]):
        return document("Conformance", conformance_page.body(paths[0]), scripts=())
    folders = [read(path, lab_time) for path in paths]
    if len({folder.scale.k for folder in folders}) > 1:
        folders = [read(path, True) for path in paths]
    for folder in folders:
        folder.show_own_names()
    is_lab = any(folder.lab_time for folder in folders)
    title = ", ".join(dict.fromkeys(folder.result["experiment"] for folder in folders))
    alone = len(folders) == 1
    made = [_article(number, folder, budget // len(folders), alone) for number, folder in enumerate(folders)]
    paces = replay.PACES if any(one.has_frames for one in made) else ""
    cases = "".join(_case_button(network, folder, folders) for folder in folders for network in folder.networks[:12])
    body = [
        f"<header><h1>{text(title, 200)}</h1>",
        *([question(folders[0]), tables.facts(folders[0])] if alone else []),
        "</header>",
        "<main>",
        *([] if alone else [tables.summary(folders), tables.comparison(folders)]),
        _CONTROLS.format(cases=cases, paces=paces),
        '<p id="problem" role="alert" hidden></p>',
        "<noscript><p>A script draws the panels, and this browser runs none. The tables are complete.</p></noscript>",
        '<div class="results">',
        *(one.markup for one in made),
        "</div>",
        f'<p class="note">{_HELP} {_LAB if is_lab else _HARDWARE} Report of {len(folders)} '
        f"result{'' if alone else 's'} by Xoff {text(testbed.__version__)}.</p></main>",
    ]
    return document(title, "\n".join(body), only_replay=only_replay)


def cell(folder: Folder) -> str:
    """Return the page of a result for the cell of a notebook: its networks with the slider, and its panels.

    It is as a report, without claims and tables, and smaller: a long run is drawn in fewer parts. It takes part in
    the conversation that `framed.js` describes.
    """
    folder.show_own_names()
    cases = "".join(_case_button(network, folder, [folder]) for network in folder.networks[:12])
    article = _article(0, folder, _CELL_BUDGET, True, in_cell=True)
    body = [
        "<main>",
        _CONTROLS.format(cases=cases, paces=replay.PACES if article.has_frames else ""),
        '<p id="problem" role="alert" hidden></p>',
        '<div class="results">',
        article.markup,
        "</div></main>",
    ]
    return document(folder.result["experiment"], "\n".join(body), (*_SCRIPTS[:-1], "framed.js"))


def _case_button(network: Any, folder: Folder, folders: list[Folder]) -> str:
    name = network.title if len(folders) == 1 else f"{folder.name}: {network.title}"
    return (
        f'<button type="button" data-start="{network.start_ns}" data-end="{network.end_ns}">{text(name, 40)}</button>\n'
    )


class _Article(NamedTuple):
    """A result on the page."""

    markup: str
    has_frames: bool


def _article(number: int, folder: Folder, budget: int, alone: bool, in_cell: bool = False) -> _Article:
    bins = _CELL_BINS if in_cell else columns.BINS
    found = tracks(folder)
    frames = replays(folder, found)
    found.tracks += series.tracks(folder)
    found.tracks += derived(folder, found)
    made = panels.panels(number, folder, found)
    ends = [network.end_ns for network in folder.networks]
    descriptions, stream = columns.packed(found.tracks, folder.end_ns, budget, ends, bins)
    envelopes = [track.name for track, one in zip(found.tracks, descriptions, strict=True) if "bin_ns" in one]
    start, end = active(folder, found)
    rows = states.states(folder, found.facts)
    drawings, charts = _Drawings(number, folder, 2 if alone else 3, frames), flow_charts(folder)
    at_first = panels.first(made, panels.FIRST - 1 if charts.many >= FEW else panels.FIRST)
    data = {
        "end_ns": folder.end_ns,
        "scale": folder.units.k,
        "start": start,
        "stop": end,
        "cursor": frames.moment() if frames.found else moment(found, start, end),
        "state": f"state-{number}",
        "networks": [
            {
                "id": drawings.of(one),
                "number": one.number,
                "title": readable(one.title, 60) if one.case or len(folder.networks) > 1 else "",
                "start_ns": one.start_ns,
                "end_ns": one.end_ns,
            }
            for one in folder.networks
        ],
        "marks": found.marks,
        "states": rows,
        "panels": [panel.as_json() for panel in made],
        "tracks": [one | {key: readable(one[key]) for key in ("port", "label", "unit")} for one in descriptions],
        "columns": base64.b64encode(stream).decode(),
    } | ({"frames": replay.data(number, frames)} if frames.found else {})
    has_loads = any(track.panel == series.LOAD for track in found.tracks)
    script = f'<script type="application/json" class="data">{script_json(data)}</script>'
    if in_cell:
        others = [folded(title, "".join(one.markup() for one in some)) for title, some in panels.folds(made, at_first)]
        pictures = [*drawings.markup(has_loads, bool(rows)), *(panel.markup() for panel in at_first), *others]
        markup = "\n".join(["<article>", *pictures, _envelope_note(envelopes, bins), script, "</article>"])
        return _Article(markup, bool(frames.found))
    reason = folder.result.get("reason")
    answer = [
        '<section aria-label="Claims">',
        heading(2 if alone else 3, "Claims"),
        claims.answer(folder),
        "</section>",
    ]
    drawn = drawings.markup(has_loads, bool(rows))
    parts = [
        f'<article aria-label="{text(folder.name)}">',
        "" if alone else f"{heading(2, folder.name)}<p>{tables.outcome(folder)}</p>",
        f'<p class="bad">{text(reason)}</p>' if reason else "",
        *(f'<p class="bad">{text(one.name)}: {text(one.value)}</p>' for one in folder.figures if one.is_remedy),
        '<div class="first">',
        *(drawn + answer if frames.found else answer + drawn),  # frames are what a reader of theirs looks for
        "</div>",
        *link_loads.markup(folder, found, 2 if alone else 3),
        *flow_ways(folder, 2 if alone else 3),
        charts.pictures if charts.many >= FEW else "",
        *(panel.markup() for panel in at_first),
        attachments.markup(number, folder, found.events.total()),
        *_folds(folder, found, panels.folds(made, at_first), charts, envelopes),
        script,
        "</article>",
    ]
    return _Article("\n".join(part for part in parts if part), bool(frames.found))


class _Drawings:
    """The drawings of a result's networks: networks with the same nodes and cables share one."""

    def __init__(self, number: int, folder: Folder, level: int, frames: Replays) -> None:
        self._number, self._folder, self._level, self._frames = number, folder, level, frames
        self._first = {str((one.nodes, one.cables, one.buffers)): one for one in reversed(folder.networks)}

    def of(self, network: Network) -> str:
        """Return the identity of a network's drawing."""
        same = self._first[str((network.nodes, network.cables, network.buffers))]
        return f"network-{self._number}-{same.number}"

    def markup(self, has_loads: bool, has_states: bool) -> list[str]:
        folder, state = self._folder, f"state-{self._number}"
        if not folder.networks:
            return [f'<p class="note" id="{state}"></p>']
        out = ['<section aria-label="Network">', heading(self._level, "Network")]
        for network in folder.networks:
            identity = self.of(network)
            if identity == f"network-{self._number}-{network.number}":
                hidden = "" if network is folder.networks[0] else " hidden"
                name = f"topology-{self._number}-{network.number}"
                drawing = topology.drawing(network, name, has_frames=bool(self._frames.found))
                out.append(f'<div id="{identity}"{hidden}>{drawing}</div>')
        out.append(f'<p class="note state" id="{state}"></p>')
        out += replay.markup(self._number, folder, self._frames)
        out.append(topology.legend(has_loads))
        if has_states:
            head = '<th scope="col">protocols</th><th scope="col">at this time</th>'
            table = f'<table><thead><tr>{head}</tr></thead><tbody id="{state}-rows"></tbody></table>'
            region = 'class="wide states" tabindex="0" role="region" aria-label="protocols"'
            out.append(f"<div {region}>{table}</div>")
        return [*out, "</section>"]


def _folds(
    folder: Folder,
    found: Tracks,
    rest: list[tuple[str, list[panels.Panel]]],
    charts: FlowCharts,
    envelopes: list[str],
) -> list[str]:
    """Return all that is folded; each title says what is inside."""
    many = len(folder.claims)
    out: list[str] = [
        folded(
            "All claims and figures",
            tables.claims_table(folder) + tables.figures_table(folder),
            f"{many} claim{'' if many == 1 else 's'} with what was expected, {len(folder.figures)} figures, exactly",
        )
    ]
    if published := folder.published():
        about = f"{len(published)} values that others have published, beside what was measured, with sources"
        out.append(folded("What was published", tables.published_table(published), about))
    if charts.many or charts.numbers.startswith("<div"):
        content = charts.numbers if charts.many >= FEW else charts.pictures + charts.numbers
        cnps = f", {charts.cnps} CNPs in all" if charts.cnps else ""
        out.append(folded("Flows", content, f"each flow with its completion time, slowdown and CNPs{cnps}"))
    for title, some in rest:
        about = some[0].about if len(some) == 1 else f"{len(some)} panels over time"
        out.append(folded(title, "".join(panel.markup() for panel in some), about))
    out.append(_envelope_note(envelopes, columns.BINS))
    paused = ratios(folder, found)
    totals = tables.pause_totals(folder, found, paused)
    out.append(folded("Pause ratio of each link", totals, tables.most_paused(folder, paused)))
    frames = sum(found.dropped.values())
    out.append(folded("Drops by reason", tables.drops_table(found), f"{frames:,} frames dropped by buffers"))
    for network in folder.networks:
        if network.buffers:
            content = tables.buffers_table(network) + budget(network, found)
            about = "thresholds, headroom, and what each lossless priority has reserved it for"
            out.append(folded(f"Buffers and headroom: {network.title}", content, about))
    for network in folder.networks:
        if network.soft_roce:
            about = f"what the devices of {len(network.soft_roce)} ports have counted, by the names of drivers"
            out.append(
                folded(f"Soft-RoCE: {network.title}", tables.counters_table("Soft-RoCE", network.soft_roce), about)
            )
        if network.llr:
            about = f"what {len(network.llr)} ports have counted of their cables, by SONiC's names"
            counted = tables.counters_table("Link Layer Retry", network.llr)
            out.append(folded(f"Link Layer Retry: {network.title}", counted, about))
    if found.facts:
        facts = tables.facts_table(folder, found)
        out.append(folded("Headroom, tunnels and policies", facts, f"{len(found.facts)} events of agents"))
    out += [html for section in subject.loaded("section") for html in section(folder)]
    out.append(folded("Events by kind", tables.events_table(found), f"{sum(found.events.values()):,} events"))
    verdict = folder.result["fidelity"].get("verdict", "unknown")
    out.append(folded("Fidelity", tables.fidelity(folder), f"{verdict}: whether the machine kept up with the lab"))
    out.append(folded("Provenance", tables.provenance(folder), "engine, kernel, versions and digests"))
    again = f"<pre>{text(tables.command(folder), 4000)}</pre>"
    out.append(folded("Make it again", again, "the command, with all parameters and the seed"))
    if folder.damage:
        out.append(f'<p class="bad">{text(folder.damage)}</p>')
    return out


def _envelope_note(names: list[str], bins: int) -> str:
    if not names:
        return ""
    return (
        f'<p class="note">{len(names)} rows have too many events to be in this file one by one, and are envelopes of '
        f"{bins:,} equal parts of the run, with lowest and highest value or the covered time of each: "
        f"{text(', '.join(names))}</p>"
    )


def document(title: str, body: str, scripts: Sequence[str] = _SCRIPTS, only_replay: bool = False) -> str:
    """Return a page of HTML with the style of reports and some of their scripts."""
    style = asset("testbed.report", "report.css")
    script = "(() => {\n'use strict';\n" + "\n".join(asset("testbed.report", name) for name in scripts) + "\n})();"
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title, 100)} - Xoff report</title>\n<style>{style}</style>\n</head>\n"
        f"{_BODY[only_replay]}\n{body}\n"
        f"{f'<script>{script}</script>' if scripts else ''}\n</body>\n</html>\n"
    )
