"""The thresholds of a switch's buffer, before any frame is in it: how it is divided, and when PAUSE is sent.

A question is in sizes, as on the command line, by whose names errors call them; the answer is in cells. Every port of
the switch has the same lossless priorities. `xoff switch thresholds` and the calculator of the documentation site ask
here.

The threshold of a group depends on what others use. The answer is for n groups that fill together, a cell each in
turn: the first of them, which always has the most, holds T cells of the shared pool when it finds no more room. With a
dynamic threshold T is close to alpha / (1 + n alpha) of the pool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.switch.buffer.settings import (
    CELL_BYTES,
    PRIORITIES,
    BufferModelError,
    BufferSettings,
    Dynamic,
    GroupSettings,
    Static,
    Threshold,
)
from testbed.units import Size

MOST_PORTS = 1024
_WHOLE_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True)
class Asked:
    """A question in the words of the command line; None and the defaults are what is not said."""

    buffer: str
    ports: str = "32"
    lossless: str = "2"
    guaranteed: str = "0B"
    headroom: str = "0B"
    headroom_pool: str | None = None
    alpha: str | None = None
    static: str | None = None
    xon_offset: str = "0B"
    cell: str = str(CELL_BYTES)


@dataclass(frozen=True)
class Row:
    """The thresholds for one number of groups that are full, in cells of the shared pool."""

    groups: int
    xoff: int
    xon: int
    """The most cells with which a group that was paused resumes, while the others stay full."""


@dataclass(frozen=True)
class Answer:
    """The division of a buffer and its thresholds, in cells."""

    settings: BufferSettings
    threshold: Threshold
    groups: int
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def answer(asked: Asked) -> Answer:
    """Return the division and the thresholds; UsageError names the option that is wrong."""
    cell = _number("--cell", asked.cell, 1, 65535)
    ports = _number("--ports", asked.ports, 1, MOST_PORTS)
    lossless = _number("--lossless", asked.lossless, 1, len(PRIORITIES))
    if asked.alpha is not None and asked.static is not None:
        raise UsageError("--alpha is a dynamic threshold and --static one that does not change; give one of them")
    try:
        if asked.static is not None:
            threshold: Threshold = Static.of_bytes(_size("--static", asked.static).bytes, cell)
        else:
            threshold = Dynamic(asked.alpha or "1")
        pool = None if asked.headroom_pool is None else _cells("--headroom-pool", asked.headroom_pool, cell)
        offset = _cells("--xon-offset", asked.xon_offset, cell)
        group = GroupSettings(
            lossless=True,
            guaranteed=_cells("--guaranteed", asked.guaranteed, cell),
            threshold=threshold,
            xon_offset=offset,
            headroom=_cells("--headroom", asked.headroom, cell),
        )
        settings = BufferSettings(
            ports=tuple(range(1, ports + 1)),
            total=_size("--buffer", asked.buffer).bytes // cell,
            headroom_pool=pool,
            priorities=dict.fromkeys(range(lossless), group),
            cell_bytes=cell,
            overbook_headroom=pool is not None,
        )
    except BufferModelError as error:
        raise UsageError(_in_options(str(error))) from None
    groups = ports * lossless
    counts = [*_doubled(groups - 1), groups]
    rows = tuple(_row(count, settings.shared_cells, threshold, offset) for count in counts)
    return Answer(settings, threshold, groups, rows, tuple(_notes(settings, group)))


def as_json(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data."""
    settings = found.settings
    return {
        "cell": settings.cell_bytes,
        "total_cells": settings.total,
        "guaranteed_cells": settings.guaranteed_cells,
        "headroom_cells": settings.headroom_cells,
        "shared_cells": settings.shared_cells,
        "missing_headroom_cells": settings.missing_headroom,
        "groups": found.groups,
        "thresholds": [
            {
                "full_groups": row.groups,
                "xoff_cells": row.xoff,
                "xoff_bytes": row.xoff * settings.cell_bytes,
                "xon_cells": row.xon,
                "xon_bytes": row.xon * settings.cell_bytes,
            }
            for row in found.rows
        ],
        "notes": list(found.notes),
    }


def _row(groups: int, shared: int, threshold: Threshold, offset: int) -> Row:
    """Return the thresholds of groups that fill together."""
    low, high = 0, shared
    while low < high:  # the largest T for which the first group gets its T-th cell, when each other one has T - 1
        middle = (low + high + 1) // 2
        free = shared - groups * (middle - 1)
        if free > 0 and middle <= threshold.limit(free):
            low = middle
        else:
            high = middle - 1
    return Row(groups, low, _resumes(groups, low, shared, threshold, offset))


def _resumes(groups: int, full: int, shared: int, threshold: Threshold, offset: int) -> int:
    """Return the most cells with which one group resumes (D2), while the others hold `full` each."""
    low, high = 0, full
    while low < high:
        middle = (low + high + 1) // 2
        free = shared - (groups - 1) * full - middle
        if middle + offset <= threshold.limit(free):
            low = middle
        else:
            high = middle - 1
    return low


def _doubled(most: int) -> list[int]:
    """Return 1, 2, 4 and so on, up to `most`."""
    return [1 << power for power in range(most.bit_length())]


def _notes(settings: BufferSettings, group: GroupSettings) -> list[str]:
    useless = settings.without_effect()
    if not group.headroom:
        useless.append("without headroom, all that arrives after PAUSE is lost; --headroom is what the cable needs")
    if settings.missing_headroom:
        useless.append(
            f"headroom is overbooked by {settings.missing_headroom} cells: if many ports are paused at once, frames of "
            "lossless priorities are lost"
        )
    return useless


def _number(name: str, text: str, least: int, most: int) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise UsageError(f"{name}: {text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)


def _size(name: str, text: str) -> Size:
    try:
        return Size(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _cells(name: str, text: str, cell: int) -> int:
    return -(-_size(name, text).bytes // cell)


def _in_options(text: str) -> str:
    """Return an error of the settings with the options of the command line in place of their names."""
    names = {"xon_offset": "--xon-offset", "headroom_pool": "--headroom-pool", "total": "--buffer", "alpha": "--alpha"}
    return re.sub(r"\b(?:xon_offset|headroom_pool|total|alpha)\b", lambda word: names[word[0]], text)
