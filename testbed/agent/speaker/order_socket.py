"""The speaker's end of the socket through which it gives orders to the node's PFC agent (`testbed.agent.orders`)."""

from __future__ import annotations

import errno
import socket
import time
from contextlib import suppress

from testbed.agent.events import AgentEvent
from testbed.agent.orders import DONE, Order
from testbed.agent.speaker.speaker_log import SpeakerLog

_TIMEOUT_S = 2.0


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
