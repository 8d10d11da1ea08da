"""MPI with connections that it manages itself (QoS RFC section 2.4).

It is configured with fixed SLs, and every queue pair has one of them. It asks the SA for MTU and rate of the path with
that SL; where the policy gives it another one there is no path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from testbed.errors import UsageError
from testbed.policy.clients.connection import AddressVector, Ask, connected
from testbed.policy.model import SLS
from testbed.policy.records import Request


@dataclass(frozen=True)
class MpiJob:
    """The ranks of a job, each with a GID, and the SL of their queue pairs; `sls` has the SLs of single pairs."""

    ranks: Sequence[int]
    sl: int
    ask: Ask
    sls: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for sl in (self.sl, *self.sls.values()):
            if sl not in SLS:
                raise UsageError(f"MPI is configured with SL {sl}; an SL is 0 to 15")

    def queue_pair(self, sender: int, receiver: int) -> AddressVector:
        """Return the queue pair from one rank to another."""
        return connected(f"MPI rank {sender}", self.ask, self.request(sender, receiver))

    def request(self, sender: int, receiver: int) -> Request:
        sl = self.sls.get((sender, receiver), self.sl)
        return Request(sgid=self.ranks[sender], dgid=self.ranks[receiver], sl=sl)
