"""iSER, which connects through the CMA as SDP does (QoS RFC section 8). The RFC leaves its Service-ID open: it is a
setting, by default the CMA's for TCP port 3260 (decision 0126)."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.policy.clients.cma import Cma, SocketAddress
from testbed.policy.clients.connection import AddressVector
from testbed.policy.ulps import ISER_PORT, iser_service_id


@dataclass(frozen=True)
class IserInitiator:
    """An initiator, which logs in to targets."""

    cma: Cma
    service_id: int | None = None  # None: of the target's port

    def login(self, target: int, port: int = ISER_PORT) -> AddressVector:
        """Connect to a target, given by its GID."""
        service_id = iser_service_id(port) if self.service_id is None else self.service_id
        return self.cma.connect(SocketAddress(target, port), service_id=service_id, client="iSER")
