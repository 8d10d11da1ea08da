"""The items that are installed on a router, as its notes and its reports to the controller have them: as JSON.

There is room for so much, in the notes and in a report. What would be more is refused before anything is changed, so
neither of the two can fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.subjects.srv6.session.messages import Item, ItemKey, item_as_json, item_from_json

MOST_ITEMS = 2048
"""The most items: each may have a SID, and a report has 4096 of these at most."""
MOST_OCTETS = 2 << 20
"""The most octets of all items: half of the longest message, since SIDs, links and counters are in a report too."""


@dataclass(frozen=True)
class SrNotes:
    """The notes that a successor has to know."""

    installed: tuple[bytes, ...]
    tables: Mapping[str, int]

    @property
    def items(self) -> list[Item]:
        return [item_from_json(json.loads(octets)) for octets in self.installed]


class Noted:
    """The items of one router, in the order in which they came."""

    def __init__(self, node: str, installed: Iterable[Item] = ()) -> None:
        self._node = node
        self._octets = {item.identity: _octets(item) for item in installed}
        self._total = sum(map(len, self._octets.values()))

    @property
    def octets(self) -> tuple[bytes, ...]:
        return tuple(self._octets.values())

    def weigh(self, item: Item) -> bytes:
        """Return an item as it is in the notes; UsageError if there is no room for it."""
        octets = _octets(item)
        others = len(self._octets) - (item.identity in self._octets)
        if others >= MOST_ITEMS:
            raise UsageError(f"{self._node} has {others} items, and there is room for {MOST_ITEMS}; remove some")
        taken = self._total - len(self._octets.get(item.identity, b""))
        if taken + len(octets) > MOST_OCTETS:
            raise UsageError(
                f"{self._node} has {others} items of {taken} octets, and there is room for {MOST_OCTETS}; {item} "
                f"has {len(octets)}: make it shorter, or remove others"
            )
        return octets

    def put(self, key: ItemKey, octets: bytes) -> None:
        self._total += len(octets) - len(self._octets.get(key, b""))
        self._octets[key] = octets

    def drop(self, key: ItemKey) -> None:
        self._total -= len(self._octets.pop(key, b""))


def _octets(item: Item) -> bytes:
    return json.dumps(item_as_json(item), separators=(",", ":")).encode()
