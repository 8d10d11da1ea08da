"""The layout of a network in layers: hosts at the bottom, above them the switches that they are at, then the others.

It is for fabrics, such as leaf and spine or a fat tree, and for switches with many hosts. The layer of a switch is its
distance to the nearest host. Switches of a layer that have the same neighbours above stand together, and so do those
with the same ones below: a pod is seen as such, and the cables between two groups leave and arrive as a bundle. Hosts
are in rows below their switch, as many as the width takes. Other networks are drawn from left to right (`topology.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

from testbed.lab.results.folder import Network
from testbed.report.timeline.tracks import natural

WIDTH = 1400
"""The width up to which hosts stand in one row."""
_MANY_HOSTS, _FEW_HOSTS = 16, 3
_CELL, _LARGE_CELL = 18.0, 58.0
_SWITCH, _GAP, _MANY_GAP = 36.0, 10.0, 5.0
_HOST_HEIGHT, _SWITCH_HEIGHT = 18.0, 30.0
_LEAST_LIFT, _MOST_LIFT = 27.0, 170.0
_LAYER, _MOST_LAYER = 96.0, 190.0
_HOSTS_BELOW = 56.0
_GUTTER = 1.6
_MARGIN = 14.0
_MOST_ROWS = 12
_BUNDLED = 24
"""The number of cables between two layers above which they are bundled."""
_PULL = 0.75


@dataclass(frozen=True)
class Box:
    """The place of a node: the middle, and the size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class CableCurve:
    """The way of a cable from its first end to its second: a cubic curve, or a straight line with a corner."""

    points: tuple[tuple[float, float], ...]
    """Four points of a curve, or two or three of a line."""


@dataclass
class Layers:
    """The places of all nodes and cables."""

    width: float = 0.0
    height: float = 0.0
    boxes: dict[str, Box] = field(default_factory=dict)
    lines: list[CableCurve | None] = field(default_factory=list)
    """One for each cable of the network, or None if one of its nodes is not known."""
    ports: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """The middle and radius of each port."""
    is_dense: bool = False


def layers_of(network: Network) -> dict[str, int]:
    """Return the layer of each node that has a way to a host: 0 for hosts."""
    beside = _beside(network)
    layer = {name: 0 for name in network.nodes if network.nodes[name] == "host"}
    edge = list(layer)
    while edge:
        above = []
        for name in edge:
            for other in beside[name]:
                if other not in layer:
                    layer[other] = layer[name] + 1
                    above.append(other)
        edge = above
    return layer


def is_layered(network: Network) -> bool:
    """Return True if the network is one to draw in layers."""
    layer = layers_of(network)
    if len(layer) < len(network.nodes) or not any(layer.values()):
        return False
    inner = [(layer[one], layer[other]) for one, other in _pairs(network) if layer[one] and layer[other]]
    if any(not layer[one] and not layer[other] for one, other in _pairs(network)):
        return False  # hosts that are joined to each other
    hosts = sum(not one for one in layer.values())
    if hosts > _MANY_HOSTS:
        return True
    highest = max(layer.values())
    many = [sum(one == number for one in layer.values()) for number in range(1, highest + 1)]
    return highest >= 2 and all(one != other for one, other in inner) and max(many[1:]) >= 2 and hosts > _FEW_HOSTS


def is_small_tree(network: Network) -> bool:
    """Return True if there is one way between any two nodes, and hosts are few."""
    hosts = sum(kind == "host" for kind in network.nodes.values())
    return hosts <= _MANY_HOSTS and len(layers_of(network)) == len(network.nodes) == len(set(_pairs(network))) + 1


def groups(names: Iterable[str], neighbours: dict[str, frozenset[str]]) -> list[list[str]]:
    """Return the names in groups that have the same neighbours, in the order of their first members."""
    by_neighbours: dict[frozenset[str], list[str]] = {}
    for name in sorted(names, key=natural):
        by_neighbours.setdefault(neighbours[name], []).append(name)
    return list(by_neighbours.values())


def layout(network: Network) -> Layers:
    """Return the places of all nodes, ports and cables."""
    layer = layers_of(network)
    beside = _beside(network)
    highest = max(layer.values())
    above = {name: frozenset(one for one in beside[name] if layer[one] == layer[name] + 1) for name in layer}
    below = {name: frozenset(one for one in beside[name] if layer[one] == layer[name] - 1) for name in layer}
    hosts: dict[str, list[str]] = {}
    for name in sorted((one for one in layer if not layer[one]), key=natural):
        hosts.setdefault(min(beside[name], key=natural), []).append(name)
    by_layer = [[name for name in layer if layer[name] == number] for number in range(highest + 1)]
    cables = [0] * (highest + 1)
    for one, other in _pairs(network):
        cables[max(layer[one], layer[other])] += 1

    layers = Layers()
    order = groups(by_layer[1], above)
    gap = _GAP if len(by_layer[1]) <= 16 else _MANY_GAP
    columns, rows, cell = _host_grid(hosts, WIDTH - (len(by_layer[1]) + len(order)) * gap)
    layers.is_dense = cell < 30 or len(layer) > 60
    x = _MARGIN
    places: dict[str, tuple[float, float]] = {}
    for number, group in enumerate(order):
        for name in group:
            width = max(_SWITCH, columns.get(name, 0) * cell)
            places[name] = x + width / 2, width - 4
            x += width + gap
        x += gap if number < len(order) - 1 and len(order) < len(by_layer[1]) else 0
    layers.width = max(x - gap + _MARGIN, 240.0)
    shift = (layers.width - (x - gap + _MARGIN)) / 2
    places = {name: (middle + shift, width) for name, (middle, width) in places.items()}
    for number in range(2, highest + 1):
        places |= _spread(by_layer[number], below, places, layers.width)

    y = [0.0] * (highest + 1)
    beside_each_other = [
        abs(places[one][0] - places[other][0])
        for one, other in _pairs(network)
        if layer[one] == layer[other] == highest
    ]
    top = _MARGIN + _SWITCH_HEIGHT / 2 + (0.75 * _lift(max(beside_each_other)) - _MARGIN if beside_each_other else 0)
    for number in range(highest, 0, -1):
        y[number] = top
        top += min(_MOST_LAYER, _LAYER + cables[number] * 0.35) if number > 1 else 0
    for name, (middle, width) in places.items():
        layers.boxes[name] = Box(middle, y[layer[name]], width, _SWITCH_HEIGHT)
    for name, own in hosts.items():
        _place_hosts(layers, layers.boxes[name], own, _Grid(columns[name], rows, cell))
    layers.height = (
        y[1] + _SWITCH_HEIGHT / 2 + _HOSTS_BELOW + (rows - 1) * (_HOST_HEIGHT + 8) + _HOST_HEIGHT / 2 + _MARGIN
        if hosts else y[1] + _SWITCH_HEIGHT
    )  # fmt: skip
    middles = _middles(by_layer, above, places, "above") | _middles(by_layer, below, places, "below")
    _Routes(network, layers, layer, middles, cables, rows).lay()
    return layers


def _lift(distance: float) -> float:
    """Return how high a cable between switches of the highest layer goes: the higher, the farther they are apart."""
    return min(_MOST_LIFT, max(_LEAST_LIFT, 0.16 * distance))


def _host_grid(hosts: dict[str, list[str]], room: float) -> tuple[dict[str, int], int, float]:
    """Return the columns of hosts of each switch, the rows of all, and the width of a host."""
    columns: dict[str, int] = {}
    for rows in range(1, _MOST_ROWS + 1):
        columns = {name: ceil(len(own) / rows) for name, own in hosts.items()}
        wide = sum(max(_SWITCH, count * _CELL) for count in columns.values())
        if wide <= room or max(columns.values(), default=1) == 1:
            break
    cell = min(_LARGE_CELL, max(_CELL, room / max(1, sum(columns.values()))))
    if sum(map(len, hosts.values())) > _MANY_HOSTS * 2:
        cell = min(cell, 2 * _CELL)
    return columns, rows, cell


def _spread(
    names: list[str], below: dict[str, frozenset[str]], places: dict[str, tuple[float, float]], width: float
) -> dict[str, tuple[float, float]]:
    """Return the places of a higher layer: each group above the middle of what is below it, none on another."""
    made = []
    for group in groups(names, below):
        under = [places[one][0] for one in below[group[0]] if one in places] or [width / 2]
        step = max(_SWITCH + _GAP, (max(under) - min(under)) / len(group))
        made.append((sum(under) / len(under), step, group))
    made.sort(key=lambda one: (one[0], natural(one[2][0])))
    order = [name for _, _, group in made for name in group]
    xs = [
        middle + (number - (len(group) - 1) / 2) * step for middle, step, group in made for number in range(len(group))
    ]
    is_apart = all(other - one >= _SWITCH + _GAP for one, other in pairwise(xs))
    if not is_apart or xs[0] < _MARGIN + _SWITCH / 2 or xs[-1] > width - _MARGIN - _SWITCH / 2:
        # They take more than there is: evenly, with a place of space between groups.
        space = 1 if 1 < len(made) < len(order) else 0
        count, at = len(order) + space * (len(made) - 1), 0.5
        xs = []
        for _, _, group in made:
            xs += [_MARGIN + (width - 2 * _MARGIN) * (at + number) / count for number in range(len(group))]
            at += len(group) + space
    gaps = [b - a for a, b in pairwise(xs)] or [width / 2]
    wide = max(26.0, min(min(gaps) - _GAP, 180.0))
    return {name: (one, wide) for name, one in zip(order, xs, strict=True)}


@dataclass(frozen=True)
class _Grid:
    """The grid of a switch's hosts."""

    columns: int
    rows: int
    cell: float


def _place_hosts(found: Layers, leaf: Box, own: list[str], grid: _Grid) -> None:
    """Place the hosts of a switch in rows below it."""
    columns, rows, cell = grid.columns, grid.rows, grid.cell
    gutter = _GUTTER * rows if rows > 1 else 0.0
    left = leaf.x - columns * cell / 2
    for number, name in enumerate(own):
        column, row = number % columns, number // columns
        y = leaf.y + leaf.height / 2 + _HOSTS_BELOW + row * (_HOST_HEIGHT + 8)
        found.boxes[name] = Box(left + (column + 0.5) * cell + gutter / 2, y, cell - 4 - gutter, _HOST_HEIGHT)


def _middles(
    by_layer: list[list[str]],
    neighbours: dict[str, frozenset[str]],
    places: dict[str, tuple[float, float]],
    way: str,
) -> dict[tuple[str, str], float]:
    """Return for each switch the middle of its group, through which bundles pass, by the way they go."""
    found: dict[tuple[str, str], float] = {}
    for names in by_layer[1:]:
        for group in groups(names, neighbours):
            xs = [places[name][0] for name in group]
            apart = [other - one for one, other in pairwise(sorted(places[name][0] for name in names))]
            if len(group) > 1 and max(xs) - min(xs) > 1.6 * (len(group) - 1) * (sum(apart) / max(1, len(apart))):
                continue  # it does not stand together
            found |= {(name, way): sum(xs) / len(xs) for name in group}
    return found


@dataclass(frozen=True)
class _Routes:
    """The ways of cables, between nodes that have their places."""

    network: Network
    found: Layers
    layer: dict[str, int]
    middles: dict[tuple[str, str], float]
    cables: list[int]
    rows: int

    def lay(self) -> None:
        """Give each port a place at its node's edge, in the order of what is at the other end, and each cable a way."""
        network, layers, layer, rows = self.network, self.found, self.layer, self.rows
        sides: dict[tuple[str, bool], list[tuple[float, int, str, int]]] = {}
        for number, cable in enumerate(network.cables):
            one, other = cable["nodes"]
            if one not in layers.boxes or other not in layers.boxes:
                continue
            for end, (near, far) in enumerate(((one, other), (other, one))):
                is_up = layer[far] >= layer[near]
                place = layers.boxes[far].x + (layers.boxes[far].y * 1e-3 if layer[far] == 0 else 0)
                sides.setdefault((near, is_up), []).append((place, number, cable["ends"][end], end))
        points: dict[tuple[int, int], tuple[float, float]] = {}
        for (name, is_up), ends in sides.items():
            box = layers.boxes[name]
            ends.sort()
            step = (box.width - 8) / len(ends)
            radius = max(1.6, min(5.0, step * 0.38))
            for at, (_, number, port, end) in enumerate(ends):
                x = box.x - (box.width - 8) / 2 + (at + 0.5) * step
                y = box.y - box.height / 2 if is_up else box.y + box.height / 2
                if not layer[name]:
                    radius = min(radius, 3.6)
                    y -= radius * 0.7  # it leaves the host's name free
                if not layer[name] and rows > 1:  # by the side, where its cable comes down
                    x, y, radius = box.x - box.width / 2, box.y, 2.2
                points[number, end] = x, y
                layers.ports[port] = round(x, 1), round(y, 1), round(radius, 1)
        for number, cable in enumerate(network.cables):
            if (number, 0) not in points or (number, 1) not in points:
                layers.lines.append(None)
                continue
            one, other = cable["nodes"]
            a, b = points[number, 0], points[number, 1]
            low, high = sorted((layer[one], layer[other]))
            if low == 0:
                layers.lines.append(_to_host(a, b, layer[one] == 0, rows))
            elif low == high:
                lift = _lift(abs(a[0] - b[0])) if low == max(layer.values()) else _LEAST_LIFT
                layers.lines.append(CableCurve((a, (a[0], a[1] - lift), (b[0], b[1] - lift), b)))
            else:
                layers.lines.append(self._between((one, a), (other, b), self.cables[high] > _BUNDLED))

    def _between(
        self, one: tuple[str, tuple[float, float]], other: tuple[str, tuple[float, float]], is_bundled: bool
    ) -> CableCurve:
        (a_name, a), (b_name, b) = one, other
        if not is_bundled:
            return CableCurve((a, b))
        middle_y = (a[1] + b[1]) / 2

        def towards(point: tuple[float, float], name: str, far: str) -> tuple[float, float]:
            way = "above" if self.layer[far] > self.layer[name] else "below"
            return point[0] + (self.middles.get((name, way), point[0]) - point[0]) * _PULL, middle_y

        return CableCurve((a, towards(a, a_name, b_name), towards(b, b_name, a_name), b))


def _to_host(a: tuple[float, float], b: tuple[float, float], is_first: bool, rows: int) -> CableCurve:
    if rows == 1:
        return CableCurve((a, b))
    host, leaf = (a, b) if is_first else (b, a)
    corner = leaf[0], host[1]
    if leaf[0] > host[0]:
        corner = host[0] - 2, host[1]
    way = (host, corner, leaf)
    return CableCurve(way if is_first else way[::-1])


def halves(line: CableCurve) -> tuple[str, str]:
    """Return the two halves of a cable as paths, each from its end to the middle."""
    points = line.points
    if len(points) == 4:
        first: list[tuple[tuple[float, float], ...]] = [points]
        while len(first[-1]) > 1:
            row = first[-1]
            first.append(tuple(_mean(one, other) for one, other in pairwise(row)))
        near, far = [row[0] for row in first], [row[-1] for row in first]
        return _curve(near), _curve(far)
    if len(points) == 3:
        a, corner, b = points
        long = a if abs(a[1] - corner[1]) > abs(b[1] - corner[1]) else b
        middle = _mean(corner, long)
        ways = ([a, corner, middle], [b, middle]) if long is b else ([a, middle], [b, corner, middle])
        return _path(ways[0]), _path(ways[1])
    middle = _mean(points[0], points[1])
    return _path([points[0], middle]), _path([points[1], middle])


def _mean(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _curve(points: list[tuple[float, float]]) -> str:
    first, *rest = points
    return f"M{first[0]:.1f} {first[1]:.1f}C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in rest)


def _pairs(network: Network) -> list[tuple[str, str]]:
    return [
        (one, other)
        for one, other in (cable["nodes"] for cable in network.cables)
        if one in network.nodes and other in network.nodes and one != other
    ]


def _beside(network: Network) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {name: {} for name in network.nodes}
    for one, other in _pairs(network):
        found[one][other] = None
        found[other][one] = None
    return {name: list(others) for name, others in found.items()}
