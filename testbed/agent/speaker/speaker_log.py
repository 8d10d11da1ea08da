"""The logs of a speaker: events in the node's event log, and lines in the network's log of DCBX."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from testbed.agent.event_log import RECORD
from testbed.agent.events import AgentEvent


class SpeakerLog:
    """The two logs, as file descriptors; `ports` are the names of the node's ports by slot."""

    def __init__(self, events: int, dcbx: int, ports: Mapping[int, str]) -> None:
        self._events, self._dcbx, self._ports = events, dcbx, ports

    def record(self, now_ns: int, event: AgentEvent, slot: int, mask: int, value: int) -> None:
        """Write an event for priorities `mask` of a port."""
        os.write(self._events, RECORD.pack(now_ns, event, slot, mask, value))

    def dcbx(self, slot: int, line: dict[str, Any]) -> None:
        """Write a line into the log of DCBX."""
        text = json.dumps({"port": self._ports[slot]} | line, separators=(",", ":"))
        os.write(self._dcbx, (text + "\n").encode())
