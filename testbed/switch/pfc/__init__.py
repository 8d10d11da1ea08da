"""PFC at one port: settings, decisions (`port`, `watchdog`), prepared frames (`wire`), events and counters (`record`).

Here is only what all of them need. A set of priorities is an int, bit n for priority n, as in the frame's class
enable vector: one instruction then does for eight priorities what it does for one.
"""

from __future__ import annotations

from collections.abc import Iterable

PRIORITIES_IN = tuple(tuple(priority for priority in range(8) if mask >> priority & 1) for mask in range(256))
"""The priorities of each set, lowest first."""


def mask_of(priorities: Iterable[int]) -> int:
    """Return the set of these priorities."""
    mask = 0
    for priority in priorities:
        mask |= 1 << priority
    return mask
