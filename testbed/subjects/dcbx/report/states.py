"""The states of DCBX over time, in rows of words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from testbed.lab.results.folder import Event, Folder
from testbed.report.pages.markup import readable
from testbed.report.timeline.states import Row
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.features.feature import Feature


def states(folder: Folder, _: list[Event]) -> Iterator[Row]:
    """Yield rows by port and TLV: what the port does, what its peer announces, and why."""
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


def _text(feature: Feature[Any, Any, Any], data: Any) -> str:
    """Return a feature's value as its words; one that is not as Xoff writes it is shown as it is."""
    try:
        return feature.text(data)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return str(data)
