"""Replays and flushes of Link Layer Retry in a report: a table for each network that had some."""

from __future__ import annotations

from testbed.lab.results.folder import Folder
from testbed.report.pages.markup import folded, table

_WORDS = {"llr_replay": "replay", "llr_flush": "flush: given up"}
_HEAD = ("at", "port", "", "frames", "from sequence")


def section(folder: Folder) -> list[str]:
    """Return the tables of a result; none if no cable had LLR, or none replayed."""
    if not any(network.llr for network in folder.networks):
        return []
    found = [event for event in folder.events() if event.name in _WORDS]
    parts: list[str] = []
    for network in folder.networks:
        own = [event for event in found if network.start_ns <= event.t_ns <= network.end_ns]
        if not own:
            continue
        rows = [
            [
                folder.span(event.t_ns), event.port, _WORDS[event.name], _number(event.fields.get("frames")),
                _number(event.fields.get("sequence")),
            ]
            for event in own
        ]  # fmt: skip
        flushes = sum(event.name == "llr_flush" for event in own)
        about = f"replays: {len(own) - flushes}, flushes: {flushes}; with the frames that were not acknowledged"
        parts.append(folded(f"Replays: {network.title}", table("Replays", _HEAD, rows, most=500), about))
    return parts


def _number(value: object) -> str:
    return f"{value:,}" if type(value) is int else "-"
