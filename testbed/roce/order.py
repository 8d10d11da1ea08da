"""The order in which packets of data come: how many are late, and by how much, as RFC 4737 counts it.

A packet is reordered if one with a higher number has come before it (section 3). Its extent is the number of packets
from the first of those on (section 4.2): 1 if two neighbours have changed places. Of several packets with a number the
first one counts. A receiver cannot tell a packet that another way has delayed from one that was lost and sent again, so
that is late too.

Runs in C: `testbed/lab/um/linux/xoff_roce_user.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.roce.counters import Counters

_LATEST = 2048
"""Numbers by which a packet may be late and still be known as one that was missing."""


class Order:
    """The packets of one direction of a queue pair."""

    def __init__(self, first: int, counters: Counters | None = None) -> None:
        """`first`: the number of the first packet."""
        self.counters = counters or Counters()
        self._highest = first - 1
        self._arrived = 0
        self._missing: dict[int, int] = {}
        """Missing numbers, each with the packets that had come when a higher one came."""

    def arrive(self, number: int) -> None:
        if number > self._highest:
            for missing in range(max(self._highest + 1, number - _LATEST + 1), number):
                self._missing[missing] = self._arrived
            self._highest = number
        elif number > self._highest - _LATEST and number in self._missing:
            self.counters.reordered += 1
            self.counters.extent = max(self.counters.extent, self._arrived - self._missing.pop(number))
        else:
            return
        self._arrived += 1
        if len(self._missing) > 2 * _LATEST:
            self._missing = {one: at for one, at in self._missing.items() if one > self._highest - _LATEST}

    def arrive_in_row(self, first: int, many: int) -> None:
        """Packets with numbers in a row have come, if any."""
        if first == self._highest + 1:
            self._highest += many
            self._arrived += many
        else:
            for number in range(first, first + many):
                self.arrive(number)


@dataclass
class Orders:
    """The packets of data that come to one end of a connection; its queue pair counts them."""

    requests: Order
    """Writes and sends."""
    responses: Order
    """The responses to its own reads."""
