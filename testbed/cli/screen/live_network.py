"""A running network in a few lines of a terminal: its nodes in their order, their buffers, and the ports that PFC
stops.

What it shows comes from the lab, line by line (`net/watch/progress.py`). Nothing in a line is trusted: what is not of
the form that it should have is left out, and names have no effect on the terminal.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from testbed.errors import plain

_STOPS = ("xoff_received", "tunnel_received")
_ENDS = ("xon_received", "pause_expired", "pause_cancelled", "storm_detected")
_COUNTED = {
    "xoff_sent": "XOFF sent",
    "tunnel_received": "through tunnels",
    "drop": "dropped",
}
_BAR, _HISTORY = 12, 24
_LEAST_WIDTH_OF_HISTORY, _LEAST_WIDTH_OF_BAR = 76, 44
_LINES_BESIDE = 8
"""The lines of a terminal above and below the rows of nodes."""
_MOST = 2000
"""The most nodes and ports that are kept of a network."""
_LONGEST_NAME = 24
_BLOCKS, _PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"


class LiveNetwork:
    """The network that runs at this moment, which can be printed at any time."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._case = ""
        self._order: list[str] = []
        self._neighbours: dict[str, list[str]] = {}
        """The ports at the other ends of the cables of each node that forwards."""
        self._node_of: dict[str, str] = {}
        self._size: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._history: dict[str, deque[int]] = {}
        self._stopped: dict[str, set[int]] = {}
        self._counts: Counter[str] = Counter()
        self._t_ns = 0

    def update(self, line: Any) -> None:
        """Take note of a line that the lab has written."""
        match line:
            case {
                "network": {
                    "case": str(case),
                    "nodes": dict(nodes),
                    "cables": list(cables),
                    "ports": dict(ports),
                    "buffers": dict(buffers),
                }
            }:
                self._forget()
                self._case = case
                self._node_of = {str(port): str(node) for port, node in list(ports.items())[:_MOST]}
                sizes = list(buffers.items())[:_MOST]
                self._size = {str(node): cells for node, cells in sizes if type(cells) is int}
                self._lay_out(nodes, cables)
            case {"t": int(t_ns), "used": dict(used), "events": list(events)}:
                self._t_ns = t_ns
                for event in events:
                    self._take_event(event)
                for node, cells in used.items():
                    if node in self._history and type(cells) is int:
                        self._used[node] = cells
                        self._history[node].append(cells)
            case {"end": int(t_ns)}:
                self._t_ns = t_ns
                self._stopped.clear()

    def _lay_out(self, nodes: dict[Any, Any], cables: list[Any]) -> None:
        beside: dict[str, list[str]] = {str(node): [] for node in list(nodes)[:_MOST]}
        for cable in cables:
            match cable:
                case [str(one), str(other)] if one in self._node_of and other in self._node_of:
                    beside.setdefault(self._node_of[one], []).append(other)
                    beside.setdefault(self._node_of[other], []).append(one)
        hosts = {str(node) for node, kind in nodes.items() if kind == "host"}
        self._order = list(_along(beside, hosts, self._node_of))
        self._neighbours = {node: beside[node] for node in self._order}
        self._history = {node: deque([0], _HISTORY) for node in self._size}

    def _take_event(self, event: Any) -> None:
        match event:
            case [int(), str(kind), str(port), list(priorities)]:
                self._counts[kind] += 1
                changed = {priority for priority in priorities if type(priority) is int}
                if port in self._node_of and kind in _STOPS:
                    self._stopped.setdefault(port, set()).update(changed)
                elif kind in _ENDS and port in self._stopped:
                    self._stopped[port] -= changed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._order:
            return
        drawn = console.encoding.startswith("utf")
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(f"{self._t_ns / 1e9:.1f} s of the lab  ", style="cyan")
        head.append(_name(self._case or "network", 40), style="bold")
        for kind, words in _COUNTED.items():
            head.append(
                f"  {words} {self._counts[kind]}", style="red" if kind == "drop" and self._counts[kind] else "dim"
            )
        yield head
        room = max(1, console.size.height - _LINES_BESIDE)
        shown = self._order[:room]
        yield self._table(shown, options.max_width, drawn)
        mark = "‖" if drawn else "!"
        left = f"; {len(self._order) - len(shown)} more nodes" if len(shown) < len(self._order) else ""
        yield Text(f"{mark} stopped by PFC, and its priorities{left}", style="dim", no_wrap=True, overflow="ellipsis")

    def _table(self, nodes: list[str], width: int, drawn: bool) -> RenderableType:
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
        table.add_column(no_wrap=True)
        if width >= _LEAST_WIDTH_OF_BAR:
            table.add_column(no_wrap=True, width=_BAR)
            table.add_column(no_wrap=True, justify="right", min_width=9)
        if width >= _LEAST_WIDTH_OF_HISTORY:
            table.add_column(no_wrap=True, width=_HISTORY)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for node in nodes:
            cells: list[RenderableType] = [Text(_name(node), style="bold")]
            if width >= _LEAST_WIDTH_OF_BAR:
                cells += self._buffer(node, drawn)
            if width >= _LEAST_WIDTH_OF_HISTORY:
                cells.append(self._past(node, drawn))
            table.add_row(*cells, self._around(node, drawn))
        return table

    def _buffer(self, node: str, drawn: bool) -> list[RenderableType]:
        size = self._size.get(node)
        if not size:
            return [Text(""), Text("")]
        used = self._used.get(node, 0)
        full = min(_BAR, -(-used * _BAR // size))
        bar = Text(("█" if drawn else "#") * full, style="red" if full > _BAR * 3 // 4 else "green")
        bar.append(("░" if drawn else ".") * (_BAR - full), style="dim")
        return [bar, Text(f"{used}/{size}", style="dim")]

    def _past(self, node: str, drawn: bool) -> Text:
        blocks, size = _BLOCKS if drawn else _PLAIN_BLOCKS, max(1, self._size.get(node, 1))
        steps = len(blocks) - 1
        past = self._history.get(node, ())
        return Text("".join(blocks[min(steps, -(-used * steps // size))] for used in past), style="green")

    def _around(self, node: str, drawn: bool) -> Text:
        """Return the neighbours of a node, and mark those whose queues towards it are stopped."""
        text = Text()
        for port in self._neighbours[node]:
            stopped = self._stopped.get(port)
            if stopped:
                mark = "‖" if drawn else "!"
                text.append(
                    f"{_name(self._node_of[port])}{mark}{','.join(map(str, sorted(stopped)))} ", style="bold red"
                )
            else:
                text.append(f"{_name(self._node_of[port])} ")
        return text


def _along(beside: dict[str, list[str]], hosts: set[str], node_of: dict[str, str]) -> Iterator[str]:
    """Yield the nodes that forward, each after one of its neighbours, beginning with one that has a host."""
    left = [node for node in beside if node not in hosts and beside[node]]
    left.sort(key=lambda node: (not any(node_of[port] in hosts for port in beside[node]), list(beside).index(node)))
    waiting: deque[str] = deque()
    seen: set[str] = set()
    for start in left:
        waiting.append(start)
        while waiting:
            node = waiting.popleft()
            if node in seen or node in hosts:
                continue
            seen.add(node)
            yield node
            waiting.extend(_others(node, beside, node_of, seen))


def _others(node: str, beside: dict[str, list[str]], node_of: dict[str, str], seen: set[str]) -> Iterable[str]:
    return [node_of[port] for port in beside[node] if node_of[port] not in seen]


def _name(text: str, longest: int = _LONGEST_NAME) -> str:
    shown = plain(text).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."
