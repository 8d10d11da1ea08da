"""IPoIB: an IP interface in a partition (QoS RFC sections 2.3 and 4).

It joins the partition's broadcast group first, and gets the group's SL, MTU, rate and TClass. All are in every path
record query for a new neighbour; the interface has no Service-ID. The rate asked for is "no less than the group's", for
a path may be faster; the interface does not send faster than the group's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from testbed.policy.clients.connection import AddressVector, Ask, connected
from testbed.policy.fabric import Partition
from testbed.policy.records import Request, Selector, Wanted
from testbed.policy.units import rate_below

_FULL_MEMBER = 0x8000


@dataclass(frozen=True)
class BroadcastGroup:
    """The attributes of a partition's broadcast group (section 2.2)."""

    pkey: int
    sl: int
    mtu: int
    rate: int
    tclass: int

    @classmethod
    def of(cls, partition: Partition) -> BroadcastGroup:
        return cls(partition.pkey, partition.sl, partition.mtu, partition.rate, partition.tclass)


Join = Callable[[int], BroadcastGroup]
"""A function that asks the SA for the broadcast group of a P_Key."""


class IpoibInterface:
    """One interface, such as ib0.8001."""

    def __init__(self, gid: int, pkey: int, join: Join, ask: Ask) -> None:
        self._gid, self._ask = gid, ask
        self.group = join(pkey & ~_FULL_MEMBER)
        self._neighbours: dict[int, AddressVector] = {}

    @property
    def mtu(self) -> int:
        """The MTU of the interface."""
        return self.group.mtu

    def request(self, neighbour: int) -> Request:
        """Return the query for a neighbour's path, by its GID."""
        group, slower = self.group, rate_below(self.group.rate)
        return Request(
            sgid=self._gid,
            dgid=neighbour,
            pkey=group.pkey,
            sl=group.sl,
            tclass=group.tclass,
            mtu=Wanted(group.mtu, Selector.EXACTLY),
            rate=None if slower is None else Wanted(slower, Selector.GREATER),
        )

    def neighbour(self, gid: int) -> AddressVector:
        """Return the address handle of a neighbour. The SA is asked for it once."""
        known = self._neighbours.get(gid)
        if known is None:
            found = connected("IPoIB", self._ask, self.request(gid))
            known = self._neighbours[gid] = replace(found, rate=min(found.rate, self.group.rate))
        return known

    def flush(self) -> None:
        """Ask again for every neighbour: the subnet manager has reported a change."""
        self._neighbours.clear()
