"""The headroom budget of a network: the reserved cells of each lossless priority of a port, and their uses.

The parts are those of the headroom proposal's sum (`testbed.switch.headroom.calculation`) for the cable's round trip,
in cells in the worst filling. What is left is for the response of both ends; a port whose parts exceed what it has
reserved can lose frames. Only ports whose cable the result describes are in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from testbed.errors import XoffError
from testbed.lab.results.folder import Network
from testbed.report.pages.axes import key
from testbed.report.pages.markup import Html, table, verdict
from testbed.report.timeline.tracks import Tracks, natural
from testbed.switch.headroom.calculation import Headroom, HeadroomPort, adaptive
from testbed.units import Duration, Rate

_FRAME, _FCS, _BAR = 1518, 4, 200
_USED = "series:headroom in use"
_KEYS = (
    ("s1", "round trip of the cable"),
    ("s2", "frames under way"),
    ("s3", "PFC frame"),
    ("s5", "left for response"),
)


def budget(network: Network, found: Tracks) -> Html:
    """Return the table, or an empty text if there is nothing in it."""
    rows = list(_rows(network, found))
    if not rows:
        return Html("")
    keys = "".join(key(kind, words) for kind, words in _KEYS)
    head = ("ingress port", "", "reserved", "round trip", "frames", "PFC", "left", "most in use", "")
    return Html(
        f"<p>{keys}</p>" + table(f"Headroom budget, {network.title}", head, rows)
        + '<p class="note">Cells. Most in use: as recorded, where it was.</p>'
    )  # fmt: skip


def _rows(network: Network, found: Tracks) -> Iterator[list[object]]:
    cables = {end: cable for cable in network.cables for end in cable["ends"]}
    used = {(track.port, track.label): max(track.values, default=0) for track in found.in_panel(_USED)}
    for port in sorted(network.ports, key=natural):
        cell = network.buffers.get(network.node_of(port), {}).get("cell_bytes")
        groups = network.ports[port].get("groups")
        for priority, group in groups.items() if isinstance(groups, dict) else ():
            sum_ = _sum(cables.get(port), cell)
            reserved = group.get("headroom_cells") if isinstance(group, dict) and group.get("lossless") else None
            if sum_ is None or type(reserved) is not int or not 0 <= reserved < 2**31:
                continue
            parts = [ceil(term.bits * sum_.alpha / 8 / sum_.cell_bytes) for term in sum_.terms]
            left = reserved - sum_.cells
            label = f"priority {priority}"
            spent = used.get((port, label), "-")
            short = verdict(False, "", f"{-left} missing") if left < 0 else _bar([*parts, left])
            yield [port, label, reserved, *parts, max(0, left), spent, short]


def _sum(cable: Any, cell: Any) -> Headroom | None:
    if cable is None or type(cell) is not int:
        return None
    try:
        port = HeadroomPort(Rate.from_bps(cable["lab_rate_bps"]), _FRAME, cell_bytes=cell, not_kept=_FCS)
        return adaptive(port, Duration.from_ns(2 * cable["lab_delay_ns"]))
    except (XoffError, KeyError, TypeError, ValueError):
        return None


def _bar(parts: list[int]) -> Html:
    whole, x, out = max(1, sum(parts)), 0.0, []
    for part, (kind, _) in zip(parts, _KEYS, strict=True):
        width = part * _BAR / whole
        out.append(f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" height="10"/>')
        x += width
    size = f'width="{_BAR}" height="10" viewBox="0 0 {_BAR} 10"'
    return Html(f'<svg class="bar" {size} aria-hidden="true">{"".join(out)}</svg>')
