"""The report: one HTML file with everything in it, which opens without a network.

A content security policy admits the style and the script of the page by their digests and nothing else: no address,
no inline style, no other script. Text of results goes through `markup.text`, and data is JSON in which `<` is written
as an escape. Tables are complete without scripts; scripts draw the panels.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import testbed
from testbed.lab.results.folder import Folder, read
from testbed.report.pages import conformance_page, ladders, panels, sweep_page, tables, topology
from testbed.report.pages.document import asset, digest, script_json
from testbed.report.pages.headroom_budget import budget
from testbed.report.pages.markup import folded, heading, readable, text
from testbed.report.timeline import columns, series, states
from testbed.report.timeline.tracks import Tracks, tracks

_SCRIPTS = ("data.js", "draw.js", "network.js", "page.js")
_CONTROLS = """
<div class="controls" id="controls" role="group" aria-label="Time" hidden>
<button id="play" type="button">Play</button>
<input id="cursor" type="range" min="0" max="1" value="0" aria-label="Time of the drawings">
<output id="now" for="cursor"></output>
<label>Speed <select id="pace"><option value="0">window in 10 s</option><option value="1">1 x</option><option
value="0.1">0.1 x</option><option value="0.01">0.01 x</option><option value="0.001">0.001 x</option></select></label>
<button id="in" type="button" aria-label="Zoom in">+</button>
<button id="out" type="button" aria-label="Zoom out">&minus;</button>
<button id="left" type="button" aria-label="Earlier">←</button>
<button id="right" type="button" aria-label="Later">→</button>
<button id="all" type="button">All</button>
{cases}
<span class="note">Window: <span id="window"></span></span>
</div>
<p class="note">Drag over a panel to zoom, click to set the time, double-click for all; Ctrl and the wheel zoom, Shift
and the wheel move. All panels have one window of time.</p>
"""
_HARDWARE = "Rates and times are those of the modelled hardware; xoff report --lab-time shows the lab's."
_LAB = "Rates and times are the lab's."


def report(paths: list[Path], budget: int = columns.BUDGET, lab_time: bool = False) -> str:
    """Return the report of one or more result folders, of a sweep, or of a conformance run.

    Its rates and times are those of the modelled hardware, or with `lab_time` the lab's; so they are where results have
    different scales, since all panels have one axis.
    """
    if len(paths) == 1 and sweep_page.is_sweep(paths[0]):
        name = paths[0].resolve().name
        return _document(name, sweep_page.body(paths[0]), with_script=False)
    if len(paths) == 1 and conformance_page.is_conformance(paths[0]):
        return _document("Conformance", conformance_page.body(paths[0]), with_script=False)
    folders = [read(path, lab_time) for path in paths]
    if len({folder.scale.k for folder in folders}) > 1:
        folders = [read(path, True) for path in paths]
    is_lab = any(folder.lab_time for folder in folders)
    title = ", ".join(dict.fromkeys(folder.result["experiment"] for folder in folders))
    articles = [
        _article(number, folder, budget // len(folders), len(folders) == 1) for number, folder in enumerate(folders)
    ]
    cases = "".join(_case_button(network, folder, folders) for folder in folders for network in folder.networks[:12])
    body = [
        f"<header><h1>{text(title, 200)}</h1>",
        f'<p class="note">Report of {len(folders)} result{"s" if len(folders) > 1 else ""} by Xoff '
        f"{text(testbed.__version__)}. {_LAB if is_lab else _HARDWARE}</p></header>",
        "<main>",
        tables.summary(folders),
        tables.comparison(folders) if len(folders) > 1 else "",
        _CONTROLS.format(cases=cases),
        '<p id="problem" role="alert" hidden></p>',
        "<noscript><p>A script draws the panels, and this browser runs none. The tables are complete.</p></noscript>",
        '<div class="results">',
        *articles,
        "</div></main>",
    ]
    return _document(title, "\n".join(body))


def _case_button(network: Any, folder: Folder, folders: list[Folder]) -> str:
    name = network.title if len(folders) == 1 else f"{folder.name}: {network.title}"
    return (
        f'<button type="button" data-start="{network.start_ns}" data-end="{network.end_ns}">{text(name, 40)}</button>\n'
    )


def _claims(folder: Folder, alone: bool) -> list[str]:
    """Return the claims of a result; beside other results they are folded, because the comparison has them."""
    both = tables.claims_table(folder) + tables.figures_table(folder)
    return [heading(3, "Claims"), both] if alone else [folded("Claims and figures", both)]


def _article(number: int, folder: Folder, budget: int, alone: bool) -> str:
    found = tracks(folder)
    found.tracks += series.tracks(folder)
    given = panels.panels(number, folder, found)
    descriptions, stream = columns.packed(found.tracks, folder.end_ns, budget)
    envelopes = [track.name for track, one in zip(found.tracks, descriptions, strict=True) if "bin_ns" in one]
    start, end = panels.active(folder, found)
    rows = states.states(folder, found.facts)
    data = {
        "end_ns": folder.end_ns,
        "scale": folder.units.k,
        "start": start,
        "stop": end,
        "state": f"state-{number}",
        "networks": [
            {"id": f"network-{number}-{one.number}", "start_ns": one.start_ns, "end_ns": one.end_ns}
            for one in folder.networks
        ],
        "marks": found.marks,
        "states": rows,
        "panels": [panel.as_json() for panel in given],
        "tracks": [one | {key: readable(one[key]) for key in ("port", "label", "unit")} for one in descriptions],
        "columns": base64.b64encode(stream).decode(),
    }
    parts = [
        f'<article aria-label="{text(folder.name)}">',
        heading(2, folder.name),
        f"<p>{tables.outcome(folder)}</p>",
        f'<p class="bad">{text(folder.result.get("reason"))}</p>' if folder.result.get("reason") else "",
        *_claims(folder, alone),
        *_drawings(number, folder, bool(rows), any(track.panel == series.LOAD for track in found.tracks)),
        *(panel.markup() for panel in given),
        _envelope_note(envelopes),
        *_tables(folder, found),
        f'<script type="application/json" class="data">{script_json(data)}</script>',
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def _drawings(number: int, folder: Folder, has_states: bool, has_loads: bool) -> list[str]:
    out: list[str] = [heading(3, "Network")] if folder.networks else []
    for network in folder.networks:
        hidden = "" if network is folder.networks[0] else " hidden"
        drawing = topology.drawing(network, f"topology-{number}-{network.number}")
        out.append(f'<div id="network-{number}-{network.number}"{hidden}><p>{text(network.title)}</p>{drawing}</div>')
    out.append(f'<p class="note">At this time: <span id="state-{number}"></span></p>')
    if folder.networks and not has_loads:
        out.append('<p class="note">Loads of links were not recorded; xoff run NAME --series 10us records them.</p>')
    if has_states:
        head = '<th scope="col">DCBX and segment routing</th><th scope="col">at this time</th>'
        table = f'<table><thead><tr>{head}</tr></thead><tbody id="state-{number}-rows"></tbody></table>'
        region = 'class="wide states" tabindex="0" role="region" aria-label="DCBX and segment routing"'
        out.append(f"<div {region}>{table}</div>")
    return out


def _tables(folder: Folder, found: Tracks) -> list[str]:
    out: list[str] = [heading(3, "Pauses in numbers"), tables.pause_totals(folder, found)]
    out += [heading(3, "Drops"), tables.drops_table(found)]
    for network in folder.networks:
        if network.buffers:
            out.append(folded(f"Buffers and headroom: {network.title}", tables.buffers_table(network)))
            if found_budget := budget(network, found):
                out.append(folded(f"Headroom budget: {network.title}", found_budget))
    if found.facts:
        out += [heading(3, "Headroom, tunnels and policies"), tables.facts_table(folder, found)]
    out += ladders.ladders(folder)
    out += [heading(3, "Fidelity"), tables.fidelity(folder)]
    out += [folded("Events by kind", tables.events_table(found))]
    out += [heading(3, "Provenance"), tables.provenance(folder)]
    out += [heading(3, "Make it again"), f"<pre>{text(tables.command(folder), 4000)}</pre>"]
    if folder.damage:
        out.append(f'<p class="bad">{text(folder.damage)}</p>')
    return out


def _envelope_note(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f'<p class="note">{len(names)} rows have too many events to be in this file one by one, and are envelopes of '
        f"{columns.BINS:,} equal parts of the run, with lowest and highest value or the covered time of each: "
        f"{text(', '.join(names))}</p>"
    )


def _document(title: str, body: str, with_script: bool = True) -> str:
    style = asset("testbed.report", "report.css")
    script = "(() => {\n'use strict';\n" + "\n".join(asset("testbed.report", name) for name in _SCRIPTS) + "\n})();"
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title, 100)} - Xoff report</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n{body}\n{f'<script>{script}</script>' if with_script else ''}\n</body>\n</html>\n"
    )
