"""The viewers of a lab: each has a queue of its own, so that one that stops reading holds up no other."""

from __future__ import annotations

import asyncio

MOST = 64
_MOST_WAITING = 100
"""The most messages that wait for a viewer; one that is behind by more starts anew, with a snapshot."""


class Viewer:
    """The messages for one viewer, in order."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)
        self.is_behind = asyncio.Event()

    def put(self, message: str) -> None:
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            self.is_behind.set()

    async def get(self) -> str:
        return await self._waiting.get()


class Viewers:
    """All viewers of a lab."""

    def __init__(self) -> None:
        self._all: set[Viewer] = set()

    def __len__(self) -> int:
        return len(self._all)

    def join(self) -> Viewer:
        viewer = Viewer()
        self._all.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._all.discard(viewer)

    def tell(self, message: str) -> None:
        """Put a message into every queue."""
        for viewer in self._all:
            viewer.put(message)
