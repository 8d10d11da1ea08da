"""The CMA, which opens connections by address and port for other protocols (QoS RFC sections 2.6 and 5).

The Service-ID is the prefix of the port space and the port; a protocol with its own one, such as SDP, gives it. A
TClass may be asked for by a connection option or in the IPv6 address (`sin6_flowinfo`), and the option goes first
(decision 0126). Both are in the path record query, and the answer is the queue pair's address vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.policy.clients.connection import AddressVector, Ask, connected
from testbed.policy.records import Request
from testbed.policy.ulps import TCP_PORT_SPACE, cma_service_id

_TCLASS_IN_FLOWINFO = 20


@dataclass(frozen=True)
class SocketAddress:
    """The address of a target: `struct sockaddr_in6` with the target's GID as its address."""

    gid: int
    port: int
    flowinfo: int = 0

    @property
    def tclass(self) -> int | None:
        """The traffic class beside the flow label, or None if it is 0."""
        return (self.flowinfo >> _TCLASS_IN_FLOWINFO) & 0xFF or None


@dataclass(frozen=True)
class Cma:
    """The CMA of one port, by its GID."""

    gid: int
    ask: Ask
    pkey: int | None = None

    def connect(
        self,
        target: SocketAddress,
        *,
        port_space: int = TCP_PORT_SPACE,
        service_id: int | None = None,
        tclass: int | None = None,
        client: str = "CMA",
    ) -> AddressVector:
        """Resolve the route to a target; NotConnected if the SA finds none."""
        return connected(client, self.ask, self.request(target, port_space, service_id, tclass))

    def request(self, target: SocketAddress, port_space: int, service_id: int | None, tclass: int | None) -> Request:
        return Request(
            sgid=self.gid,
            dgid=target.gid,
            service_id=cma_service_id(target.port, port_space) if service_id is None else service_id,
            tclass=target.tclass if tclass is None else tclass,
            pkey=self.pkey,
        )
