"""The outputs of a speaker: its logs, and the socket through which it gives orders to the node's PFC agent."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from testbed.agent.event_log import RECORD
from testbed.agent.events import AgentEvent
from testbed.agent.orders import DONE, Order

_TIMEOUT_S = 2.0


class SpeakerLog:
    """The two logs, as file descriptors; `ports` are the names of the node's ports by slot."""

    def __init__(self, events: int, spoken: int, ports: Mapping[int, str]) -> None:
        self._events, self._spoken, self._ports = events, spoken, ports

    def record(self, now_ns: int, event: AgentEvent, slot: int, mask: int, value: int) -> None:
        """Write an event for priorities `mask` of a port."""
        os.write(self._events, RECORD.pack(now_ns, event, slot, mask, value))

    def line(self, slot: int, line: dict[str, Any]) -> None:
        """Write what a port sent, heard or concluded into the log of lines."""
        text = json.dumps({"port": self._ports[slot]} | line, separators=(",", ":"))
        os.write(self._spoken, (text + "\n").encode())


class OrderSocket:
    """A socket for one order at a time: each is answered when the agent, or its successor, has carried it out."""

    def __init__(self, end: socket.socket, log: SpeakerLog) -> None:
        self._socket = end
        self._socket.settimeout(_TIMEOUT_S)
        self._log = log
        self._unanswered = True
        """True if an order, perhaps of a predecessor, was not answered in time."""

    def send(self, order: Order) -> None:
        self.send_encoded(order.encode())

    def send_encoded(self, order: bytes) -> None:
        """Wait until the order is carried out. After the timeout it stays in the socket for the agent's successor."""
        try:
            self.send_or_raise(order)
        except TimeoutError:
            late = Order.parse(order)
            self._log.record(time.monotonic_ns(), AgentEvent.SEND_FAILED, late.slot, late.mask, errno.ETIMEDOUT)

    def send_or_raise(self, order: bytes) -> None:
        if self._unanswered:  # a late answer to an earlier order must not be taken for the answer to this one
            self._socket.setblocking(False)
            with suppress(BlockingIOError):
                while self._socket.recv(len(DONE)):
                    pass
            self._socket.settimeout(_TIMEOUT_S)
        self._unanswered = True
        self._socket.send(order)
        self._socket.recv(len(DONE))
        self._unanswered = False
