"""The SR domain: its family of errors, the types of fields that several messages have, and its boundary.

The boundary (RFC 8754, section 5.1): a sender that reaches a SID influences how the network treats a packet, and with
End.X.PFC it can stop queues. So a domain has two lists of prefixes, S/s for its SIDs and A/a for the addresses of its
routers, and two filters: an interface that leads outside drops all packets to a SID; and inside, packets to a SID are
accepted only from a source in A/a.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import Annotated

from testbed.errors import UsageError
from testbed.typed_json.meta import Meta


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


LARGEST_SLICE = (1 << 32) - 1
LONGEST_DELAY_NS = 10**12

RouterName = Annotated[str, Meta(pattern="^[A-Za-z][A-Za-z0-9_.-]{0,62}$", examples=("R1",))]
InterfaceName = Annotated[str, Meta(pattern="^[A-Za-z0-9_.@-]{1,15}$", examples=("r1-eth1",))]
SidAddress = Annotated[IPv6Address, Meta(examples=("fd00:a:1:f::",))]
Segments = Annotated[tuple[SidAddress, ...], Meta(max_length=127, description="In order of travel")]
SliceId = Annotated[int, Meta(ge=0, le=LARGEST_SLICE)]
SliceOrNone = Annotated[SliceId | None, Meta(name="slice", description="The slice's id; null: none")]
DelayNs = Annotated[int, Meta(ge=0, le=LONGEST_DELAY_NS)]
Colour = Annotated[int, Meta(ge=1, le=(1 << 32) - 1, examples=(100,))]
Priority = Annotated[int, Meta(ge=0, le=7)]
Count = Annotated[int, Meta(ge=0, le=(1 << 64) - 1)]
Label = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", examples=("via R3",))]
"""A name, without control characters since terminals show it."""
Reason = Annotated[str, Meta(max_length=300, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A sentence for people, without control characters."""
Affinities = Annotated[frozenset[Label], Meta(max_length=32)]
Prefix = IPv4Network | IPv6Network
PrefixField = Annotated[Prefix, Meta(examples=("10.1.0.0/16",))]
