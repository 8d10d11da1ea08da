"""The items on every router: those that it has, those that are on their way, and those that are still to be sent.

A router's report lists the items that it has. `plan` compares them with the desired ones and returns the commands to
send; each is a transaction that the router answers. For one item there is at most one transaction at a time, so the
last answer has the truth. An item that a router has refused is not tried again until something else is wanted, or the
router reports anew. The items of a router that is away are remembered; it gets the changes in its next session.

The caller decides whether an item may be sent or removed now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from testbed.subjects.srv6.session.intents import Key
from testbed.subjects.srv6.session.messages import Command, Install, Item, ItemKey, Remove

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


ItemsByRouter = Mapping[str, Mapping[ItemKey, Item]]
"""The items that each router should have."""


State = Literal["installed", "installing", "refused", "away"]
"""The state of an item that should be installed."""


@dataclass
class _Node:
    is_here: bool = False
    installed: dict[ItemKey, Item] = field(default_factory=dict)
    pending: dict[int, Command] = field(default_factory=dict)
    busy: dict[ItemKey, Command] = field(default_factory=dict)  # the same commands
    refused: dict[ItemKey, tuple[Command, str]] = field(default_factory=dict)


class Deployment:
    """The items on all routers."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._last = 0
        self.waits_to_remove = False
        """True if an item is installed that should go, and may not go yet."""

    # Reports and answers

    def reported(self, node: str, items: Iterable[Item]) -> None:
        """Take in a router's list of all that it has."""
        known = self._nodes.setdefault(node, _Node())
        known.is_here = True
        known.installed = {item.identity: item for item in items}
        known.refused.clear()

    def session_ended(self, node: str) -> None:
        """Take in that a session is over. Items on their way may have arrived or not: the router's next report
        tells.
        """
        known = self._nodes.setdefault(node, _Node())
        known.is_here = False
        known.pending.clear()
        known.busy.clear()

    def forget(self, node: str) -> None:
        """Forget a router that is no longer in the network."""
        self._nodes.pop(node, None)

    def answered(self, node: str, transaction: int, refusal: str | None = None) -> Command | None:
        """Take in an ack, or a nack with its reason. Return its command, or None if there is no such command."""
        known = self._nodes.setdefault(node, _Node())
        command = known.pending.pop(transaction, None)
        if command is None:
            return None
        key = command.item.identity
        known.busy.pop(key, None)
        if refusal is not None:
            known.refused[key] = (command, refusal)
            return command
        known.refused.pop(key, None)
        if isinstance(command, Install):
            known.installed[key] = command.item
        else:
            known.installed.pop(key, None)
        return command

    # States of items

    def is_here(self, node: str) -> bool:
        return node in self._nodes and self._nodes[node].is_here

    def installed(self, node: str, key: ItemKey) -> Item | None:
        known = self._nodes.get(node)
        return known.installed.get(key) if known else None

    def is_going(self, node: str, key: ItemKey) -> bool:
        """Return True if the item's removal was sent to the router, and not answered yet."""
        known = self._nodes.get(node)
        return known is not None and isinstance(known.busy.get(key), Remove)

    def all_installed(self) -> Iterable[Item]:
        """Return all installed items, in the order of routers."""
        for _, known in sorted(self._nodes.items()):
            yield from known.installed.values()

    def refusal(self, item: Item) -> str | None:
        """Return the reason why the router has refused exactly this item, or None if it has not."""
        known = self._nodes.get(item.node)
        command, why = (known and known.refused.get(item.identity)) or (None, None)
        return why if isinstance(command, Install) and command.item == item else None

    def has_refused(self, node: str, key: ItemKey) -> bool:
        """Return True if the router's last answer about this item was a refusal."""
        return node in self._nodes and key in self._nodes[node].refused

    def state(self, item: Item) -> State:
        if self.installed(item.node, item.identity) == item:
            return "installed"
        if self.refusal(item) is not None:
            return "refused"
        return "installing" if self.is_here(item.node) else "away"

    def is_settled(self, item: Item) -> bool:
        """Return True if it is of no use to wait for the item: it is installed, or will not be."""
        return self.state(item) != "installing"

    @property
    def pending(self) -> int:
        """The number of transactions without an answer."""
        return sum(len(known.pending) for known in self._nodes.values())

    # Planning

    def plan(
        self,
        desired: ItemsByRouter,
        may_install: Callable[[Item], bool],
        may_remove: Callable[[Item], bool],
        places: Iterable[tuple[str, ItemKey]] | None = None,
    ) -> list[Command]:
        """Return the commands to send now, in a fixed order. They count as sent.

        With `places` only these are compared. `waits_to_remove` is True if `may_remove` keeps an item.
        """
        by_node: dict[str, dict[ItemKey, None]] | None = None
        if places is not None:
            by_node = {}
            for node, key in places:
                by_node.setdefault(node, {})[key] = None
        else:
            self.waits_to_remove = False
        commands: list[Command] = []
        for name in sorted(self._nodes if by_node is None else by_node.keys() & self._nodes.keys()):
            known = self._nodes[name]
            if known.is_here:
                commands += self._plan_node(
                    known, desired.get(name, {}), None if by_node is None else by_node[name], may_install, may_remove
                )
        return commands

    def _plan_node(
        self,
        known: _Node,
        wanted: Mapping[ItemKey, Item],
        keys: Iterable[ItemKey] | None,
        may_install: Callable[[Item], bool],
        may_remove: Callable[[Item], bool],
    ) -> list[Command]:
        commands: list[Command] = []
        for key in wanted if keys is None else [key for key in keys if key in wanted]:
            item = wanted[key]
            if key in known.busy or known.installed.get(key) == item or self.refusal(item) is not None:
                continue
            if may_install(item):
                commands.append(self._begin(known, Install, item))
        for key in list(known.installed) if keys is None else [key for key in keys if key in known.installed]:
            if key in wanted or key in known.busy:
                continue
            item = known.installed[key]
            if not may_remove(item):
                self.waits_to_remove = True
                continue
            refused = known.refused.get(key)
            if refused is None or not isinstance(refused[0], Remove):
                commands.append(self._begin(known, Remove, item))
        return commands

    def _begin(self, known: _Node, kind: type[Command], item: Item) -> Command:
        self._last += 1
        command = kind(self._last, item)
        known.pending[command.transaction] = command
        known.busy[item.identity] = command
        return command
