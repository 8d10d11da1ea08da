"""SDP: sockets over a reliable connection that the CMA opens (QoS RFC section 6).

Its Service-ID is 0x000000000001PPPP, PPPP the port. A socket's SO_PRIORITY is the TClass asked for; without it the TOS
option is (decision 0126).
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.policy.clients.cma import Cma, SocketAddress
from testbed.policy.clients.connection import AddressVector
from testbed.policy.ulps import sdp_service_id


@dataclass(frozen=True)
class SdpSocket:
    """A stream socket with the options that matter; None is an option that is not set."""

    cma: Cma
    priority: int | None = None  # SO_PRIORITY
    tos: int | None = None  # IP_TOS

    def connect(self, target: SocketAddress) -> AddressVector:
        tclass = self.tos if self.priority is None else self.priority
        return self.cma.connect(target, service_id=sdp_service_id(target.port), tclass=tclass, client="SDP")
