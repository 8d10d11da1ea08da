"""The states of DCBX, segment routing and agents over time, in rows of words: [time, subject, words].

A subject has its words until its next row; empty words mean that there is nothing of it any more. The page of a report
shows those of the time that its slider is at, and a live view those of now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from testbed.lab.results.folder import Event, Folder
from testbed.report.pages.markup import readable
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.feature import Feature

Row = tuple[int, str, str]
MOST = 3000


def states(folder: Folder, facts: list[Event]) -> list[Row]:
    """Return the rows of a result, in the order of time; `facts` are the events of agents that tables show."""
    rows = [*_of_dcbx(folder), *_of_facts(facts)]
    rows.sort(key=lambda row: row[0])
    return rows[:MOST]


def _of_dcbx(folder: Folder) -> Iterator[Row]:
    for line in folder.dcbx():
        what, port = line["what"], readable(line["port"], 60)
        if (feature := features.of_event(what)) is not None and feature.event_field:
            words = [f"oper {_text(feature, line.get(feature.event_field))}"]
            if line.get("remote") is not None:
                words.append(f"peer {_text(feature, line['remote'])}")
            why = f". {line['why']}" if "why" in line else ""
            yield line["t_ns"], f"{port} {feature.head}", readable(f"{'; '.join(words)}{why}", 300)
        elif what == "not_lossless":
            yield line["t_ns"], f"{port} refused", readable(line.get("why", ""), 300)
        elif what == "headroom":
            yield line["t_ns"], f"{port} measured headroom", readable(line.get("text", ""), 300)


def _of_facts(facts: list[Event]) -> Iterator[Row]:
    """Yield rows about segment routing: tunnels that routers have learned, and what their controller has installed."""
    tunnels: dict[str, int] = {}
    installed: dict[tuple[str, str], int] = {}
    for event in facts:
        node = event.port.rpartition("-")[0] or event.port
        if event.name == "tunnel_learned":
            tunnels[event.port] = tunnels.get(event.port, 0) + 1
            yield event.t_ns, f"{event.port or node} tunnels", f"{tunnels[event.port]} learned from data packets"
        elif event.name in ("sr_installed", "sr_removed"):
            what = str(event.fields.get("what", ""))
            installed[node, what] = installed.get((node, what), 0) + (1 if event.name == "sr_installed" else -1)
            count = installed[node, what]
            yield event.t_ns, f"{node or 'router'} {readable(what, 40)}", f"{count} installed" if count else ""


def _text(feature: Feature[Any, Any, Any], data: Any) -> str:
    """Return a feature's value as its words; one that is not as Xoff writes it is shown as it is."""
    try:
        return feature.text(data)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return str(data)
