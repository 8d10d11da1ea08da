"""Where a network is cut: the nodes of each part, and the cables between parts.

A cable can be cut if both its ends forward frames and it has a delay, which is how far the clocks of two parts may be
apart. What other cables connect stays together. Of these pieces parts are made with few cables between them and about
as many cables within each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from testbed.errors import UsageError, listed, nearest
from testbed.linux.parts_device import MOST_CABLES, MOST_PARTS
from testbed.units import Scale

_UNEVEN = 1.25
"""The most work of a part, over the average, that is accepted for fewer cables between parts."""
_MOST_CUT = MOST_CABLES - MOST_PARTS
"""The most cables of a network that can be between parts: there is room for those of a management network."""
_LONGEST_MANAGEMENT_NS = 50_000_000
"""The longest delay of a cable of the management network: timers of sessions are made for such."""
_FAR_NS = 1 << 60
_PASSES, _MOST_SWAPPED = 20, 40
"""How often the parts are made better, and the pieces up to which also by swapping two."""


class PartitionError(UsageError):
    """A network cannot be divided as asked for."""


class PartGoneError(PartitionError):
    """Another part has ended, which has the reason."""


@dataclass(frozen=True)
class CutCable:
    """A cable between two parts."""

    nodes: tuple[str, str]
    parts: tuple[int, int]
    delay_ns: int
    """In the lab."""


@dataclass(frozen=True)
class Cut:
    """A network that is divided."""

    part_of: Mapping[str, int]
    cables: tuple[CutCable, ...]
    """In the order in which Mininet lays them, and after them those of the management network."""
    management: int | None = None
    """The number of the first cable of the management network; None if there is none."""

    def nodes(self, part: int) -> list[str]:
        """Return the nodes of a part."""
        return [node for node, number in self.part_of.items() if number == part]

    @property
    def farthest_ns(self) -> int:
        """The delay between the two parts that are farthest from each other."""
        return max(max(row) for row in self._distances())

    def managed(self) -> Cut:
        """Return the same with a management network: a cable from part 0 to each other part.

        It is as long as the shortest way there, so that no part waits for another one more often than without it,
        unless that way is very long.
        """
        to = enumerate(self._distances()[0])
        cables = [
            CutCable(("part 0", f"part {part}"), (0, part), min(ns, _LONGEST_MANAGEMENT_NS)) for part, ns in to if part
        ]
        return replace(self, cables=(*self.cables, *cables), management=len(self.cables))

    def _distances(self) -> list[list[int]]:
        """Return the delay of the shortest way between each two parts."""
        parts = range(1 + max(self.part_of.values()))
        found = [[0 if one == other else _FAR_NS for other in parts] for one in parts]
        for cable in self.cables:
            one, other = cable.parts
            found[one][other] = found[other][one] = min(found[one][other], cable.delay_ns)
        for middle, one, other in product(parts, repeat=3):
            found[one][other] = min(found[one][other], found[one][middle] + found[middle][other])
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "parts": [self.nodes(part) for part in range(1 + max(self.part_of.values()))],
            "cables": [
                {"nodes": list(one.nodes), "parts": list(one.parts), "lab_delay_ns": one.delay_ns}
                for one in self.cables
            ],
        }


def cut(topo: Any, parts: int) -> Cut:
    """Divide a topology, as it asks for by its `partition` or else by few cables between the parts."""
    kind = type(topo).__name__
    if parts not in range(2, MOST_PARTS + 1):
        raise PartitionError(
            f"a network has 2 to {MOST_PARTS} parts, not {parts}; --partitions {min(16, max(2, parts))}"
        )
    cables = [(one, other, _delay_ns(info)) for one, other, info in topo.links(sort=True, withInfo=True)]
    asked = getattr(topo, "partition", None)
    part_of = _as_asked(topo, asked, parts) if asked is not None else _found(topo, cables, parts)
    part_of = {node: part_of[node] for node in topo.nodes()}
    cut_cables = []
    for one, other, delay_ns in cables:
        if part_of[one] == part_of[other]:
            continue
        if not delay_ns:
            raise PartitionError(
                f"{kind}: the cable of {one} and {other} is between two parts and has no delay, so no kernel could run "
                "before the other, or it has llr or errors; give it a length, as in cable=Cable('10Gb/s', '100m'), "
                "or put both into one part"
            )
        cut_cables.append(CutCable((one, other), (part_of[one], part_of[other]), delay_ns))
    if len(cut_cables) > _MOST_CUT:
        raise PartitionError(f"{kind}: {len(cut_cables)} cables are between parts; {_MOST_CUT} is the most")
    _require_connected(kind, cut_cables, parts)
    return Cut(part_of, tuple(cut_cables))


def _delay_ns(info: Mapping[str, Any]) -> int:
    """Return the delay by which a cable lets two kernels be apart; none of one whose ends agree about each frame."""
    cable = info.get("cable")
    if cable is None or cable.llr or cable.errors:
        return 0
    return int(cable.in_lab(Scale(info.get("scale", 1))).delay.ns)


def _forwards(topo: Any, node: str) -> bool:
    kind = topo.nodeInfo(node).get("cls")
    return bool(topo.isSwitch(node) or getattr(kind, "forwards", False))


def _require_connected(kind: str, cables: Sequence[CutCable], parts: int) -> None:
    reached, before = {0}, -1
    while len(reached) != before:
        before = len(reached)
        for one in cables:
            if reached & set(one.parts):
                reached |= set(one.parts)
    if missing := set(range(parts)) - reached:
        raise PartitionError(
            f"{kind}: no cable leads to part {min(missing)}; a network whose parts have nothing to do with each other "
            "is several experiments"
        )


def _as_asked(topo: Any, asked: Sequence[Collection[str]], parts: int) -> dict[str, int]:
    """Return the part of each node: nodes that are named, and with them the hosts at their cables."""
    kind = type(topo).__name__
    if len(asked) != parts:
        raise PartitionError(f"{kind}: its partition has {len(asked)} parts, not {parts}; --partitions {len(asked)}")
    part_of: dict[str, int] = {}
    for part, nodes in enumerate(asked):
        if isinstance(nodes, str) or not nodes:
            raise PartitionError(
                f"{kind}: part {part} has no nodes; list the nodes of each part, as in [['s1'], ['s2']]"
            )
        for node in nodes:
            if node not in topo.nodes():
                raise PartitionError(f"{kind}: partition: there is no node {node}; {nearest(node, topo.nodes())}")
            if part_of.setdefault(node, part) != part:
                raise PartitionError(f"{kind}: {node} is in part {part_of[node]} and in part {part}; leave one out")
    for one, other in topo.links(sort=True):
        for node, neighbour in ((one, other), (other, one)):
            if node not in part_of and neighbour in part_of and not _forwards(topo, node):
                part_of[node] = part_of[neighbour]
    if missing := [node for node in topo.nodes() if node not in part_of]:
        raise PartitionError(f"{kind}: {listed(missing)} in no part; name each switch and router in `partition`")
    return part_of


def _found(topo: Any, cables: Sequence[tuple[str, str, int]], parts: int) -> dict[str, int]:
    """Return the part of each node, with few cables between the parts."""
    pieces = _pieces(topo, cables)
    names = list(dict.fromkeys(pieces.values()))
    if len(names) < parts:
        kind = type(topo).__name__
        switches = sum(_forwards(topo, node) for node in topo.nodes())
        fixed = next((f"{one} and {other}" for one, other, ns in cables
                      if not ns and _forwards(topo, one) and _forwards(topo, other)), "")  # fmt: skip
        if fixed:
            raise PartitionError(
                f"{kind}: only {len(names)} pieces of it can be apart, for the cable of {fixed} has no delay, or it "
                f"has llr or errors, and {parts} parts are asked for; give such cables a length, as in "
                "cable=Cable('10Gb/s', '100m')"
            )
        raise PartitionError(
            f"{kind}: {parts} parts are asked for, and it has {switches} switches and routers; "
            + (f"--partitions {len(names)} is the most" if len(names) > 1 else "it cannot be divided")
        )
    graph = _Graph(names, pieces, cables)
    chosen = min((graph.divided(order, parts) for order in graph.orders()), key=graph.cost)
    return {node: chosen[piece] for node, piece in pieces.items()}


def _pieces(topo: Any, cables: Sequence[tuple[str, str, int]]) -> dict[str, str]:
    """Return the piece of each node, named by one of its nodes."""
    root = {node: node for node in topo.nodes()}

    def found(node: str) -> str:
        while root[node] != node:
            node = root[node]
        return node

    for one, other, delay_ns in cables:
        if not delay_ns or not (_forwards(topo, one) and _forwards(topo, other)):
            first, second = sorted((found(one), found(other)), key=list(root).index)
            root[second] = first
    return {node: found(node) for node in topo.nodes()}


class _Graph:
    """The pieces of a network, their work and the cables between them."""

    def __init__(self, names: Sequence[str], pieces: Mapping[str, str], cables: Sequence[tuple[str, str, int]]) -> None:
        self._names = names
        self._work = dict.fromkeys(names, 0)
        self._near: dict[str, dict[str, int]] = {name: {} for name in names}
        for one, other, _ in cables:
            first, second = pieces[one], pieces[other]
            self._work[first] += 1
            self._work[second] += 1
            if first != second:
                self._near[first][second] = self._near[first].get(second, 0) + 1
                self._near[second][first] = self._near[second].get(first, 0) + 1
        self._total = sum(self._work.values())

    def orders(self) -> list[list[str]]:
        """Return orders in which pieces are given to parts: by name, and as they lie next to each other."""
        own = [name for name in self._names if self._has_hosts(name)]
        rest = [name for name in self._names if not self._has_hosts(name)]
        orders = [own + rest]
        for begin in {self._names[0], min(self._names, key=lambda name: len(self._near[name]))}:
            seen, row = {begin}, [begin]
            for name in row:
                new = [one for one in sorted(self._near[name], key=self._names.index) if one not in seen]
                seen.update(new)
                row += new
            orders.append(row + [name for name in self._names if name not in seen])
        return orders

    def _has_hosts(self, name: str) -> bool:
        return self._work[name] > sum(self._near[name].values())

    def divided(self, order: Sequence[str], parts: int) -> dict[str, int]:
        """Return the part of each piece: rows of about the same work, and then better by single moves and swaps."""
        part_of: dict[str, int] = {}
        done, part = 0, 0
        for place, name in enumerate(order):
            left = len(order) - place
            if (
                part < parts - 1
                and part in part_of.values()
                and (left <= parts - 1 - part or done + self._work[name] / 2 > self._total * (part + 1) / parts)
            ):
                part += 1
            part_of[name] = part
            done += self._work[name]
        for _ in range(_PASSES):
            if not self._improve(part_of, parts):
                break
        return part_of

    def cost(self, part_of: Mapping[str, int]) -> tuple[int, int, int]:
        """Return what is wanted to be small: too much work in one part, cables between parts, the largest part."""
        loads: dict[int, int] = {}
        crossing = 0
        for name, part in part_of.items():
            loads[part] = loads.get(part, 0) + self._work[name]
            crossing += sum(many for near, many in self._near[name].items() if part_of[near] != part)
        largest = max(loads.values())
        too_much = max(largest - int(self._total * _UNEVEN / len(loads)), 0)
        return too_much, crossing // 2, largest

    def _improve(self, part_of: dict[str, int], parts: int) -> bool:
        before = best = self.cost(part_of)
        for name in self._names:
            own = part_of[name]
            others = sorted({part_of[near] for near in self._near[name]} - {own})
            for part in others:
                changes = [{name: part}]
                if len(self._names) <= _MOST_SWAPPED:
                    changes += [{name: part, one: own} for one in self._names if part_of[one] == part]
                for change in changes:
                    old = {one: part_of[one] for one in change}
                    part_of.update(change)
                    now = self.cost(part_of)
                    if now < best and len(set(part_of.values())) == parts:
                        best = now
                        own = part_of[name]
                        break
                    part_of.update(old)
        return best < before
