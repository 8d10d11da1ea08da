"""The items that every router should have, each with the intents that need it: one item may serve several intents.

When one intent changes, `put` changes its items and nothing else, and returns the places to plan again.
"""

from __future__ import annotations

from collections.abc import Iterable

from testbed.srv6.session.items import Item, ItemKey
from testbed.srv6.session.policy import Key

User = Key | str
"""An intent: the key of a policy, or the name of a VPN."""
Place = tuple[str, ItemKey]
"""A router, and the identity of an item there."""


class Desired:
    """Items by router and identity, in the order in which they were put."""

    def __init__(self) -> None:
        self.items: dict[str, dict[ItemKey, Item]] = {}
        self._places: dict[User, list[Place]] = {}
        self._users: dict[Place, dict[User, Item]] = {}

    def put(self, user: User, items: Iterable[Item]) -> list[Place]:
        """Put the items of an intent in place of its earlier ones, and return the places of both."""
        before = self._places.pop(user, [])
        for place in before:
            users = self._users[place]
            del users[user]
            if users:
                self.items[place[0]][place[1]] = next(iter(users.values()))
            else:
                del self._users[place]
                del self.items[place[0]][place[1]]
        now = dict[Place, None]()
        for item in items:
            place = (item.node, item.identity)
            self._users.setdefault(place, {}).setdefault(user, item)
            self.items.setdefault(item.node, {}).setdefault(item.identity, item)
            now[place] = None
        if now:
            self._places[user] = list(now)
        return list(dict.fromkeys([*before, *now]))

    def users(self, place: Place) -> Iterable[User]:
        """Return the intents that need an item."""
        return self._users.get(place, {}).keys()
