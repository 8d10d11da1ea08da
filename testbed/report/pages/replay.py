"""The part of a report's page that is about frames on cables: buttons, legend, and what is not shown."""

from __future__ import annotations

import base64
from typing import Any

from testbed.lab.results.folder import Folder
from testbed.report.pages.markup import text
from testbed.report.replay.hops import Fate
from testbed.report.replay.window import MOST_NODES, Replay, Replays, packed

STEPS = """<div class="steps" role="group" aria-label="Events of frames">
<button type="button" data-step="pauses before" aria-label="Previous pause event">❙◀ pause</button>
<button type="button" data-step="all before" aria-label="Previous frame event">◀ event</button>
<button type="button" data-step="all next" aria-label="Next frame event">event ▶</button>
<button type="button" data-step="pauses next" aria-label="Next pause event">pause ▶❙</button>
{windows}</div>"""
PACES = """<option value="slow1" selected>slow motion</option><option value="slow10">slow motion, 10 x</option><option
value="slow100">slow motion, 100 x</option>"""
_SWATCHES = (
    ("xoff", "M-8,-4L-4,-8H4L8,-4V4L4,8H-4L-8,4Z", "XOFF, with its priority"),
    ("xon", "M-7,-8L9,0L-7,8Z", "XON"),
)
_TUNNEL = ("tunnel-xoff", "M-12,-8H7L13,0L7,8H-12Z", "PFC frame in a tunnel")
_IN_TUNNEL = "M-6,-2L-3,-5H2L5,-2V2L2,5H-3L-6,2Z"
_ENDS = (
    (Fate.DROPPED, "dropped by buffers"),
    (Fate.LOST, "in no later capture: lost on a cable, or dropped when the log had ended"),
    (Fate.WAITS, "still waited at the end"),
)
_HELP = (
    "Behind a port is what waits to leave by it. With the drawing in focus: arrows go from event to event, with Shift "
    "from pause to pause, and Space plays."
)
_GATE = ("gate", "M-3,-8V8M3,-8V8", "a pause stops this lane")
_CROSS = ("cross", "M-6,-6L6,6M-6,6L6,-6", "dropped, or in no later capture")


def _steps(found: Replays) -> str:
    """Return the buttons that go from event to event, and those that show the times of which there are frames."""
    windows = "".join(
        f'<button type="button" data-start="{replay.start_ns}" data-end="{replay.end_ns}">'
        f"{text(f'Frames: {replay.network.title}' if len(found.found) > 1 else 'Frames', 50)}</button>\n"
        for replay in found.found
    )
    return STEPS.format(windows=windows)


def identity(number: int, replay: Replay) -> str:
    return f"frames-{number}-{replay.network.number}"


def data(number: int, found: Replays) -> dict[str, Any]:
    """Return what the script draws."""
    descriptions, stream = packed(found.found)
    return {
        "columns": base64.b64encode(stream).decode(),
        "networks": [
            one | {"id": identity(number, replay), "network": replay.network.number}
            for one, replay in zip(descriptions, found.found, strict=True)
        ],
    }


def markup(number: int, folder: Folder, found: Replays) -> list[str]:
    """Return what is below the drawing of a result's network."""
    state = f"state-{number}"
    if found.problem:
        return [f'<p class="bad">The frames on cables are not shown: {text(found.problem)}</p>']
    notes = [f'<p class="note">{text(note)}</p>' for note in found.notes]
    if not found.found:
        if not notes and any(len(network.nodes) <= MOST_NODES for network in folder.networks):
            words = "Frames on cables were not captured; xoff run NAME --capture captures them."
            notes.append(f'<p class="note">{words}</p>')
        return notes
    return [
        _steps(found),
        f'<p class="event" id="{state}-event" role="status"></p>',
        f'<p class="note queued" id="{state}-frames"></p>',
        *(_legend(number, replay, folder) for replay in found.found),
        *notes,
    ]


def _legend(number: int, replay: Replay, folder: Folder) -> str:
    flows = "".join(_flow(place, *flow) for place, flow in enumerate(replay.flows[:12], 1))
    more = f" and {len(replay.flows) - 12} more" if len(replay.flows) > 12 else ""
    counts = replay.counts()
    is_lossy = counts[Fate.DROPPED] + counts[Fate.LOST]
    swatches = (*_SWATCHES, *([_TUNNEL] if replay.has_tunnel else ()), _GATE, *([_CROSS] if is_lossy else ()))
    keys = "".join(
        f'<span class="key"><svg class="frame-key" viewBox="-15 -10 30 20" aria-hidden="true">'
        f"{_swatch(kind, shape)}</svg>{words}</span>"
        for kind, shape, words in swatches
    )
    shown = (
        f"{replay.inside:,} of {replay.captured:,} captured frames"
        if replay.left_out
        else f"All {replay.inside:,} captured frames"
    )
    window = f"{folder.span(replay.start_ns)} to {folder.span(replay.end_ns)}"
    left = f", and {replay.left_out:,} before and after are left out" if replay.left_out else ""
    ends = "".join(f" {counts[fate]:,} {words}." for fate, words in _ENDS if counts[fate])
    return (
        f'<div id="{identity(number, replay)}" class="frame-legend" hidden>'
        f'<p class="note"><span role="group" aria-label="Flows: follow one">{flows}</span>{text(more)} {keys}</p>'
        f'<p class="note">{text(f"{shown}, {window}{left}.{ends} {_HELP}")}</p></div>'
    )


def _swatch(kind: str, shape: str) -> str:
    inside = f'<path class="inside" d="{_IN_TUNNEL}"/>' if kind == _TUNNEL[0] else ""
    path = f'<path d="{shape}"/>{inside}'
    return f'<path class="{kind}" d="{shape}"/>' if kind in ("gate", "cross") else f'<g class="frame {kind}">{path}</g>'


def _flow(place: int, source: str, target: str, priority: int | None) -> str:
    of = "" if priority is None else f", priority {priority}"
    letter = chr(96 + place)
    return (
        f'<button type="button" class="flow" data-flow="{place}" aria-pressed="false">'
        f'<span class="letter f{min(place, 7)}">{letter}</span>{text(f"{source} to {target}{of}", 60)}</button>'
    )
