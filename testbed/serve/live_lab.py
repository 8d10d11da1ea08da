"""The lab that viewers see: it reads the lab's lines, sends messages to all viewers, and passes their commands on."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from testbed.errors import UsageError
from testbed.lab.results.folder import LATEST_NS
from testbed.serve import commands
from testbed.serve.feed import Feed
from testbed.serve.metrics import LabMetrics
from testbed.serve.running import RunningLab
from testbed.serve.session import Session
from testbed.serve.viewers import Viewer, Viewers

_LOOK_S = 0.01
_MOST_PENDING = 100


class LiveLab:
    """One lab and its viewers; all of it in one event loop."""

    def __init__(self, lab: RunningLab, described: dict[str, Any]) -> None:
        self.lab, self.feed, self.viewers = lab, Feed(described), Viewers()
        self.metrics = LabMetrics(described)
        self.session = Session(lab.topology)
        self._numbers = 0
        self._waiting: dict[int, tuple[Viewer, dict[str, Any]]] = {}
        """The viewer that gets the answer to each command, and the command."""

    async def run(self) -> None:
        """Serve viewers until the lab ends."""
        while self.lab.ended is None:
            lines = self.lab.lines(time.monotonic())
            for line in lines:
                if line.get("live") == "answer" and (waiting := self._waiting.pop(line.get("id", 0), None)):
                    self._answered(line, *waiting)
            self.metrics.update(lines)
            if lines and (message := self.feed.update(lines)) is not None:
                self.viewers.tell(_encoded(message))
            await asyncio.sleep(0 if lines else _LOOK_S)
        self.viewers.tell(_encoded({"type": "ended", "text": self.lab.ended}))

    def _answered(self, line: dict[str, Any], viewer: Viewer, command: dict[str, Any]) -> None:
        """Pass an answer on to the viewer that asked; all viewers get what was carried out as an action."""
        done, text = bool(line.get("ok")), str(line.get("text"))
        viewer.put(_encoded({"type": "answer", "ok": done, "text": text}))
        t_ns = line.get("t_ns")
        if done and type(t_ns) is int and 0 <= t_ns <= LATEST_NS:
            self.feed.act(self.session.add(t_ns, command, text))

    def join(self) -> Viewer:
        """Add a viewer, whose first message is a snapshot."""
        viewer = self.viewers.join()
        viewer.put(_encoded(self.feed.snapshot()))
        viewer.put(_encoded(self._pace()))
        if self.lab.ended is not None:
            viewer.put(_encoded({"type": "ended", "text": self.lab.ended}))
        return viewer

    def perform(self, viewer: Viewer, text: str) -> None:
        """Perform a viewer's command; an error goes back to that viewer alone."""
        try:
            self._perform(viewer, commands.read(text))
        except UsageError as error:
            viewer.put(_encoded({"type": "answer", "ok": False, "text": str(error)}))

    def _perform(self, viewer: Viewer, command: dict[str, Any]) -> None:
        match command:
            case {"do": "pace", "speed": speed}:
                self.lab.pace(speed=float(speed))
            case {"do": "pause", "on": on}:
                self.lab.pace(paused=on)
            case {"do": "step"}:
                self.lab.step()
            case _:
                if len(self._waiting) >= _MOST_PENDING:
                    raise UsageError(f"{_MOST_PENDING} commands wait for the lab already; let its time go on")
                self._numbers += 1
                self._waiting[self._numbers] = viewer, dict(command)
                self.lab.send({"id": self._numbers, **command})
                return
        self.viewers.tell(_encoded(self._pace()))

    def _pace(self) -> dict[str, Any]:
        return {
            "type": "pace", "speed": self.lab.speed, "paused": self.lab.paused, "has_pace": self.lab.has_pace,
            "viewers": len(self.viewers),
        }  # fmt: skip


def _encoded(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"))
