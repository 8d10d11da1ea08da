"""The states of segment routing over time, in rows of words."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.lab.results.folder import Event, Folder
from testbed.report.pages.markup import readable
from testbed.report.timeline.states import Row


def states(_: Folder, facts: list[Event]) -> Iterator[Row]:
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
