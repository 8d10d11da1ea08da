"""Lines that the parts of a network report while it runs (`net/watch/progress.py`), joined to those of one network.

All parts report at the same moments, each of its own nodes. A line waits for those of the other parts. Nothing in a
line is trusted: what is not of its form is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

_MOST = 1000
"""The most lines of a part that wait for those of the others; then the oldest are left out."""
_DURING, _END, _BEGIN = range(3)


class LiveLines:
    """The lines of all parts, which a function gets as lines of one network."""

    def __init__(self, parts: int, follow: Callable[[Any], None]) -> None:
        self._waiting = [deque[Any](maxlen=_MOST) for _ in range(parts)]
        self._follow = follow

    def take(self, part: int, line: Any) -> None:
        """Take a line of a part."""
        self._waiting[part].append(line)
        while all(self._waiting):
            # One part can have ended, or be at the next network, when another has a line more of this one.
            kind = min(_kind(waiting[0]) for waiting in self._waiting)
            lines = [waiting.popleft() for waiting in self._waiting if _kind(waiting[0]) == kind]
            self._follow(_joined(lines) if kind == _DURING else lines[0])


def _kind(line: Any) -> int:
    if isinstance(line, dict):
        return _BEGIN if "network" in line else _END if "end" in line else _DURING
    return _DURING


def _joined(lines: list[Any]) -> Any:
    """Return the use of all buffers, and the events in the order of time."""
    t_ns, used, events = 0, dict[Any, Any](), list[Any]()
    for line in lines:
        match line:
            case {"t": int(now_ns), "used": dict(cells), "events": list(new)}:
                t_ns = max(t_ns, now_ns)
                used |= cells
                events += [event for event in new if isinstance(event, list) and event and type(event[0]) is int]
    return {"t": t_ns, "used": used, "events": sorted(events, key=lambda event: event[0])}
