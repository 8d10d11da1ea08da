"""A network as an SVG drawing that the page colours at each moment: ports by pauses, halves of cables by load, and a
bar in each switch by the use of its shared pool.

Fabrics and networks of many hosts are drawn in layers (`layers.py`). In others nodes that forward are laid out from
left to right by their distance from one end of the network's longest path, hosts
at the outside beside their switch. The same network always gives the same drawing.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from testbed.lab.results.folder import Network
from testbed.report.pages.layers import Box, halves, is_layered, is_small_tree, layout
from testbed.report.pages.markup import text
from testbed.report.timeline.derived import line_rate
from testbed.report.timeline.tracks import natural
from testbed.units import Duration, Rate

_X, _Y = 170, 84
"""The distance between neighbouring places."""
_WIDE_X, _LONG_X, _WIDE_Y = 320, 270, 112
"""The same where frames are drawn on cables, and in networks of more than `_LONG` places beside each other."""
_LONG = 5
_PORT, _FAR_PORT = 44.0, 96.0
"""The distance of a port from the middle of its node; behind a far one is room for the frames that wait."""
_SMALL = 6
"""The nodes from which on a drawing with frames is not made to fit a narrow screen."""
_HALF = {"host": (24, 15), "switch": (30, 20), "leaf": (30, 20), "router": (26, 26)}
_MARGIN, _MARGIN_Y = 50, 30
_MOST_NODES, _FEW_NODES = 600, 12
_MOST_CHARACTERS = 8
"""The most characters of a name in a node; a longer name is cut, and the title has it whole."""


@dataclass(frozen=True)
class Place:
    x: float
    y: float


def places(network: Network) -> dict[str, Place]:
    """Return the place of each node, in grid steps."""
    names = sorted(network.nodes, key=natural)
    beside: dict[str, list[str]] = {name: [] for name in names}
    for cable in network.cables:
        one, other = cable["nodes"]
        if one in beside and other in beside and one != other:
            beside[one].append(other)
            beside[other].append(one)
    hosts = {name for name in names if network.nodes[name] == "host"}
    inner = [name for name in names if name not in hosts and beside[name]]
    placed: dict[str, Place] = {}
    left = 0.0
    for group in _connected(inner, beside):
        left = _place_group(group, hosts, beside, placed, left) + 1
    top = max((place.y for place in placed.values()), default=-1.0) + 1
    rest = [name for name in names if name not in placed]
    for number, name in enumerate(rest):  # hosts joined to each other, or nodes without a cable
        placed[name] = Place(number % 6, top + number // 6)
    return placed


def _connected(names: list[str], beside: dict[str, list[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other without a host."""
    left, groups = dict.fromkeys(names), []
    while left:
        reached = list(_distances(next(iter(left)), beside, left))
        groups.append([name for name in names if name in set(reached)])
        for name in reached:
            del left[name]
    return groups


def _distances(start: str, beside: dict[str, list[str]], among: Any) -> dict[str, int]:
    distance, waiting = {start: 0}, deque([start])
    while waiting:
        name = waiting.popleft()
        for other in beside[name]:
            if other in among and other not in distance:
                distance[other] = distance[name] + 1
                waiting.append(other)
    return distance


def _place_group(
    group: list[str], hosts: set[str], beside: dict[str, list[str]], found: dict[str, Place], left: float
) -> float:
    """Place the nodes of one group and their hosts; return the right end of the group."""
    among = set(group)
    from_first = _distances(group[0], beside, among)
    end = max(group, key=lambda name: (from_first[name], -group.index(name)))
    from_end = _distances(end, beside, among)
    start = max(group, key=lambda name: (from_end[name], -group.index(name)))
    depth = _distances(start, beside, among)
    deepest = max(depth.values())
    columns: dict[float, list[tuple[str, float]]] = {}
    rows: dict[int, list[str]] = {}
    for name in group:
        rows.setdefault(depth[name], []).append(name)
    for number, names in rows.items():
        for row, name in enumerate(names):
            columns.setdefault(number + 1.0, []).append((name, row - (len(names) - 1) / 2))
    height_of = {name: row for column in columns.values() for name, row in column}
    over: dict[int, list[str]] = {}
    for name in group:
        own = [other for other in dict.fromkeys(beside[name]) if other in hosts and other not in found]
        own = [other for other in own if all(other not in column for column in over.values())]
        if deepest == 0:
            half = -(-len(own) // 2)
            sides = {0.0: own[:half], 2.0: own[half:]}
        elif depth[name] in (0, deepest):
            sides = {0.0 if depth[name] == 0 else deepest + 2.0: own}
        else:
            over.setdefault(depth[name], []).extend(own)
            continue
        for column, names in sides.items():
            columns.setdefault(column, []).extend((one, height_of[name]) for one in names)
    for column, placed in columns.items():
        outside = column in (0.0, deepest + 2.0)
        wanted = [row for _, row in placed]
        ys = _apart(wanted) if outside and wanted else wanted
        for (name, _), y in zip(placed, ys, strict=True):
            found[name] = Place(left + column, y)
    for number, names in over.items():
        highest = max(height_of[name] for name in rows[number])
        spread = min(0.8, 1.6 / max(1, (len(names) + 1) // 2))
        for index, name in enumerate(names):
            side, position = (-1, index // 2) if index % 2 == 0 else (1, index // 2)
            count = (len(names) + (1 if side < 0 else 0)) // 2
            x = number + 1.0 + (position - (count - 1) / 2) * spread
            level = 1.2 + (position % 2) * 0.5 if count > 2 else 1.2
            if number % 2 == 0 and count > 1 and {number - 1, number + 1} & over.keys():
                level += 1.0  # beyond the hosts of the columns beside it, which would overlap
            found[name] = Place(left + x, side * (highest + level))
    return left + deepest + 2


def _apart(wanted: list[float]) -> list[float]:
    """Return places one step apart, in this order, around the wanted ones."""
    middle = sum(wanted) / len(wanted)
    return [middle + number - (len(wanted) - 1) / 2 for number in range(len(wanted))]


def drawing(network: Network, identity: str, has_frames: bool = False) -> str:
    """Return the SVG element. Ports have `data-port`, by which the page finds what to colour.

    With `has_frames` there is room for frames on cables and for what waits beside ports.
    """
    if len(network.nodes) > _MOST_NODES:
        return f'<p class="note">{len(network.nodes)} nodes are too many to draw; at most {_MOST_NODES} are.</p>'
    if not network.nodes:
        return '<p class="note">The result has no description of this network.</p>'
    tools = _TOOLS if len(network.nodes) > _FEW_NODES else ""
    in_layers = is_layered(network) and not (has_frames and is_small_tree(network))  # frames have longer ways then
    made = _in_layers(network, identity) if in_layers else _from_left_to_right(network, identity, has_frames)
    title = text(_cut(f"Drawing of {network.title}", 80))
    kind = "map"
    if has_frames:
        kind = "map moving few" if len(network.nodes) < _SMALL else "map moving"
    return f'{tools}<div class="{kind}" tabindex="0" role="region" aria-label="{title}">{made}</div>'


def legend(has_loads: bool) -> str:
    """Return the meaning of colours in the drawings."""
    ports = "".join(
        f'<span class="key"><svg viewBox="0 0 14 10" aria-hidden="true"><circle class="k-{kind}" cx="7" cy="5" r="5"/>'
        f"</svg>{words}</span>"
        for kind, words in (("paused", "paused"), ("xoff", "sends XOFF"))
    )
    if not has_loads:
        return (
            f'<p class="note">{ports} Loads of links were not recorded; xoff run NAME --series 10us records them.</p>'
        )
    loads = "".join(
        '<svg class="load-key" viewBox="0 0 26 10" aria-hidden="true">'
        f'<path class="load load-{level}" d="M1 5H25"/></svg>'
        for level in range(1, 6)
    )
    words = "load of a cable's half, by what its end sends; a bar in a switch is the use of its shared pool"
    return f'<p class="note">{ports} <span class="key">0 {loads} 100 %</span> {words}</p>'


_TOOLS = """<div class="tools" role="group" aria-label="View of the network" hidden>
<button type="button" data-map="in" aria-label="Enlarge the drawing">+</button>
<button type="button" data-map="out" aria-label="Reduce the drawing">&minus;</button>
<button type="button" data-map="left" aria-label="Move the drawing left">←</button>
<button type="button" data-map="right" aria-label="Move the drawing right">→</button>
<button type="button" data-map="up" aria-label="Move the drawing up">↑</button>
<button type="button" data-map="down" aria-label="Move the drawing down">↓</button>
<button type="button" data-map="fit">Whole network</button></div>"""


def _in_layers(network: Network, identity: str) -> str:
    at = layout(network)
    kind = "topology dense" if at.is_dense else "topology layered"
    out = [_begin(network, identity, at.width, at.height, kind)]
    for cable, line in zip(network.cables, at.lines, strict=True):
        if line is None:
            continue
        title = text(f"{cable['ends'][0]} to {cable['ends'][1]}{_speed(cable)}")
        paths = "".join(
            f'<path class="load" data-load="{text(name)}"{_rate(cable)} d="{half}"/>'
            for name, half in zip(cable["ends"], halves(line), strict=True)
        )
        out.append(f"<g><title>{title}</title>{paths}</g>")
    for name, box in at.boxes.items():
        cells = network.buffers.get(name, {}).get("shared_cells")
        out.append(_box(name, network.nodes[name], box, cells, at.is_dense))
    for cable, line in zip(network.cables, at.lines, strict=True):
        if line is not None:
            for name, node in zip(cable["ends"], cable["nodes"], strict=True):
                out.append(_port(name, node, *at.ports[name]))
    return "\n".join([*out, "</svg>"])


def _begin(network: Network, identity: str, width: float, height: float, kind: str) -> str:
    title = text(f"Topology of {_cut(network.title, 80)}: {len(network.nodes)} nodes, {len(network.cables)} cables")
    return (
        f'<svg class="{kind}" id="{identity}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{title}" preserveAspectRatio="xMidYMid meet">'
    )


def _rate(cable: dict[str, Any]) -> str:
    rate = line_rate(cable)
    return f' data-rate="{rate}"' if rate else ""


def _port(name: str, node: str, x: float, y: float, radius: float) -> str:
    return (
        f'<g class="port" data-port="{text(name)}" data-node="{text(node)}"><title>{text(name)}</title>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/></g>'
    )


def _box(name: str, kind: str, box: Box, cells: object, is_dense: bool) -> str:
    """Return a node as a box with its name, and a bar below it where it has a buffer."""
    left, top = box.x - box.width / 2, box.y - box.height / 2
    corner = 4 if kind == "host" else 3
    size = f'x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{corner}"'
    bar = _use(name, cells, left + 4, box.y + 5, box.width - 8)
    small = ' class="small"' if len(name) * 7.4 > box.width or (is_dense and kind == "host") else ""
    if small and len(_short(name, 3)) * 4.8 > box.width:
        small = ' class="tiny"'
    letters = max(3, int(box.width / (4.8 if small else 7.4)))
    y = box.y + (0 if bar else 3 if small else 4)
    shown = name if len(name) <= letters else _short(name, letters)
    return (
        f'<g class="node {kind if kind in _HALF else "other"}" data-node="{text(name)}">'
        f"<title>{text(f'{name}: {kind}')}</title><rect {size}/>{bar}"
        f'<text{small} x="{box.x:.1f}" y="{y:.1f}" text-anchor="middle">{text(shown)}</text></g>'
    )


def _short(name: str, letters: int) -> str:
    """Return the end of a name that has its number, where the whole has no room."""
    digits = len(name) - len(name.rstrip("0123456789"))
    return name[-digits:] if 0 < digits <= letters else _cut(name, letters)


def _use(name: str, cells: object, x: float, y: float, wide: float) -> str:
    if type(cells) is not int or not 0 < cells < 2**31:
        return ""
    place = f'x="{x:.1f}" y="{y:.1f}" height="4"'
    return (
        f'<rect class="pool" {place} width="{wide:.1f}"/>'
        f'<rect class="use" {place} data-node="{text(name)}" data-cells="{cells}" data-width="{wide:.1f}" width="0"/>'
    )


def _from_left_to_right(network: Network, identity: str, has_frames: bool) -> str:
    at = places(network)
    x0, y0 = min(p.x for p in at.values()), min(p.y for p in at.values())
    step_x, step_y = _X, _Y
    if has_frames:
        is_long = max(p.x for p in at.values()) - x0 >= _LONG
        step_x, step_y = _LONG_X if is_long else _WIDE_X, _WIDE_Y
    points = {name: (_MARGIN + (p.x - x0) * step_x, _MARGIN_Y + (p.y - y0) * step_y) for name, p in at.items()}
    width = max(x for x, _ in points.values()) + _MARGIN
    height = max(y for _, y in points.values()) + _MARGIN_Y
    out = [_begin(network, identity, width, height, "topology")]
    pairs: dict[frozenset[str], int] = {}
    degree = Counter(node for cable in network.cables for node in cable["nodes"])
    far = {node for node, kind in network.nodes.items() if has_frames and kind != "host"}
    for cable in network.cables:
        out += _cable(cable, points, pairs, degree, far)
    for name, (x, y) in points.items():
        out.append(_node(name, network.nodes[name], x, y, network.buffers.get(name, {}).get("shared_cells")))
    return "\n".join([*out, "</svg>"])


def _cable(
    cable: dict[str, Any],
    points: dict[str, tuple[float, float]],
    pairs: dict[frozenset[str], int],
    degree: Counter[str],
    far: set[str],
) -> list[str]:
    one, other = cable["nodes"]
    if one not in points or other not in points:
        return []
    (x1, y1), (x2, y2) = points[one], points[other]
    length = max(1.0, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    beside = pairs.get(frozenset((one, other)), 0)
    pairs[frozenset((one, other))] = beside + 1
    shift = (beside + 1) // 2 * (12 if beside % 2 else -12)  # parallel cables
    x1, x2, y1, y2 = x1 - dy * shift, x2 - dy * shift, y1 + dx * shift, y2 + dx * shift
    title = text(f"{cable['ends'][0]} to {cable['ends'][1]}{_speed(cable)}")
    middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
    out = [f'<g><title>{title}</title><line class="cable" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>']
    for name, x, y in zip(cable["ends"], (x1, x2), (y1, y2), strict=True):  # each half has the load of its sender
        out.append(
            f'<line class="load" data-load="{text(name)}"{_rate(cable)} x1="{x:.1f}" y1="{y:.1f}" x2="{middle_x:.1f}" '
            f'y2="{middle_y:.1f}"/>'
        )
    out.append("</g>")
    for at, (x, y, way) in enumerate(((x1, y1, 1), (x2, y2, -1))):
        name, node = cable["ends"][at], cable["nodes"][at]
        least = _FAR_PORT if node in far else _PORT
        step = min(least + 4 * max(0, degree[node] - 8), length * 0.4)  # ports of many apart
        out.append(_port(name, node, x + dx * step * way, y + dy * step * way, 7))
    return out


def _speed(cable: dict[str, Any]) -> str:
    """Return rate and delay of the cable, and those in the lab where they are others."""
    rate, delay = cable.get("lab_rate_bps"), cable.get("lab_delay_ns")
    real_rate, real_length = cable.get("hardware_rate_bps"), cable.get("hardware_length_m")
    try:
        if not isinstance(rate, int) or not isinstance(delay, int):
            return ""
        lab = f"{Rate.from_bps(rate)}, delay {Duration.from_ns(delay)}"
        if isinstance(real_rate, int) and real_rate != rate:
            return f", {Rate.from_bps(real_rate)}, {real_length:g} m (in the lab: {lab})"
        return f", {lab}"
    except (ValueError, TypeError, OverflowError):
        return ""


def _node(name: str, kind: str, x: float, y: float, cells: object) -> str:
    half_x, half_y = _HALF.get(kind, _HALF["switch"])
    if kind == "router":
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{half_x}"/>'
    else:
        corner = 12 if kind == "host" else 3
        size = f'width="{2 * half_x}" height="{2 * half_y}" rx="{corner}"'
        shape = f'<rect x="{x - half_x:.1f}" y="{y - half_y:.1f}" {size}/>'
    known = kind if kind in _HALF else "other"
    bar = _use(name, cells, x - half_x + 6, y + 10, half_x * 2 - 12)
    return (
        f'<g class="node {known}" data-node="{text(name)}"><title>{text(f"{name}: {kind}")}</title>{shape}{bar}'
        f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{text(_cut(name, _MOST_CHARACTERS))}</text></g>'
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
