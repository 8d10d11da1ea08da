"""SRP, which asks for its path without the CMA (QoS RFC section 7).

A target's I/O controller reports its services, each with a Service-ID, in the ServiceEntries attribute. The initiator
puts the Service-ID of one of them into the query if the SA's ClassPortInfo reports QoS; to an SA without QoS the field
is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.frames.path_record import ClassPortInfo
from testbed.policy.clients.connection import AddressVector, Ask, NotConnected, connected
from testbed.policy.records import Request


@dataclass(frozen=True)
class ServiceEntry:
    """One service of an I/O controller."""

    service_id: int
    name: str


@dataclass(frozen=True)
class IoController:
    """A target, as device management finds it."""

    gid: int
    services: Sequence[ServiceEntry]


@dataclass(frozen=True)
class SrpInitiator:
    """An initiator at one port, by its GID."""

    gid: int
    ask: Ask
    sa: ClassPortInfo

    def connect(self, target: IoController, name: str | None = None) -> AddressVector:
        """Connect to a service of a target: the one of that name, or the first."""
        found = [service for service in target.services if name in (None, service.name)]
        if not found:
            known = ", ".join(service.name for service in target.services) or "none"
            raise NotConnected(f"SRP: the target has no service {name}; its services: {known}")
        service_id = found[0].service_id if self.sa.has_qos else None
        return connected("SRP", self.ask, Request(sgid=self.gid, dgid=target.gid, service_id=service_id))
