"""The receives that queue pairs have posted, where several have them in common or a message without one is dropped.

A shared receive queue (SRQ) gives its receives to messages in the order in which their first packets come, of whatever
queue pair. Its user handles one message after another, and posts the receive again when it has handled it. When fewer
are left than its limit, the queue tells so once, and again after it has had as many (InfiniBand, 10.2.9.4).

The receives of one reliable connection are counted by its responder itself: one message is coming in at a time.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from testbed.roce.nic import NicTiming


class Receives:
    """The receives of one queue pair, or of all that share them."""

    def __init__(self, nic: NicTiming) -> None:
        """A NIC without a number of receives always has one."""
        self._most, self._takes_ns, self._limit = nic.receives, nic.receive_ns, nic.receive_limit
        self._taken = 0
        """The receives of messages that are coming in."""
        self._busy_ns = 0
        """The moment at which all others are posted again."""
        self._is_armed = True

    def free(self, now_ns: int) -> int:
        """Return how many are posted."""
        busy_ns = max(0, self._busy_ns - now_ns)
        handled = -(-busy_ns // self._takes_ns) if self._takes_ns else 0
        return self._most - self._taken - handled if self._most else 1

    def take(self, now_ns: int) -> bool:
        """Give the oldest one to a message; there is one. Return True if the queue tells that there are too few."""
        free = self.free(now_ns)
        self._is_armed |= free >= self._limit
        tells = self._is_armed and free <= self._limit
        self._is_armed &= not tells
        self._taken += 1
        return tells and self._limit > 0

    def post_again(self, now_ns: int) -> None:
        """Have a receive posted again when its message, which has come, has been handled."""
        self._taken -= 1
        self._busy_ns = max(self._busy_ns, now_ns) + self._takes_ns

    def put_back(self) -> None:
        """Give a receive back whose message does not come to its end."""
        self._taken -= 1
