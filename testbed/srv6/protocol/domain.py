"""The SR domain and its boundary (RFC 8754, section 5.1).

A sender that reaches a SID influences how the network treats a packet, and with End.X.PFC it can stop queues. So a
domain has two lists of prefixes, S/s for its SIDs and A/a for the addresses of its routers, and two filters: an
interface that leads outside drops all packets to a SID; and inside, packets to a SID are accepted only from a source in
A/a.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from testbed.errors import UsageError


class Srv6Error(UsageError):
    """An invalid description of the SRv6 network. The message names the thing, the value and the way out."""


@dataclass(frozen=True, init=False)
class SrDomain:
    """The prefixes of a domain's SIDs (S/s) and of its routers' addresses (A/a)."""

    sids: tuple[IPv6Network, ...]
    routers: tuple[IPv6Network, ...]

    def __init__(self, sids: Iterable[IPv6Network | str], routers: Iterable[IPv6Network | str]) -> None:
        object.__setattr__(self, "sids", tuple(_network("SIDs", prefix) for prefix in sids))
        object.__setattr__(self, "routers", tuple(_network("routers", prefix) for prefix in routers))
        if not self.sids or not self.routers:
            raise Srv6Error(
                "an SR domain needs a prefix for its SIDs and one for its routers; no packet would be accepted"
            )

    def is_sid(self, address: IPv6Address) -> bool:
        return any(address in prefix for prefix in self.sids)

    def is_router(self, address: IPv6Address) -> bool:
        return any(address in prefix for prefix in self.routers)

    def lets_in(self, source: IPv6Address, destination: IPv6Address, from_outside: bool = False) -> bool:
        """Return True if a packet passes the filters. `from_outside` is True if its interface leads outside."""
        return not self.is_sid(destination) or (not from_outside and self.is_router(source))


def _network(name: str, prefix: IPv6Network | str) -> IPv6Network:
    try:
        return IPv6Network(prefix)
    except ValueError as error:
        raise Srv6Error(f"{prefix!r} is not a prefix for the domain's {name}: {error}; write 'fd00:a::/32'") from None
