"""What an SR policy is (RFC 9256): its key, its candidate paths, and what of it is fixed whatever the network is."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from testbed.srv6.protocol.domain import Srv6Error

DEFAULT_PREFERENCE = 100
"""RFC 9256, section 2.7."""


@dataclass(frozen=True)
class Explicit:
    """A path as a list of SIDs in order of travel. The policy's service is added if the list has none."""

    segments: tuple[IPv6Address, ...]
    preference: int = DEFAULT_PREFERENCE
    discriminator: int = 0
    name: str = "explicit"
    literal: bool = False  # take it even if it loses traffic or turns it back


@dataclass(frozen=True)
class Dynamic:
    """The path with the least delay under constraints. The policy's slice is one of them."""

    preference: int = DEFAULT_PREFERENCE
    discriminator: int = 0
    name: str = "dynamic"
    pfc_ends: bool = False  # the headend can pause the first link, and the endpoint is PFC-capable
    pfc_every_hop: bool = False  # and so can every router pause its link
    include_any: frozenset[str] = frozenset()
    include_all: frozenset[str] = frozenset()
    exclude_any: frozenset[str] = frozenset()
    max_delay_ns: int | None = None


Candidate = Explicit | Dynamic


@dataclass(frozen=True)
class Key:
    """What makes a policy this policy (RFC 9256, section 2.1)."""

    headend: str
    colour: int
    endpoint: str

    def __str__(self) -> str:
        return f"{self.headend} to {self.endpoint}, colour {self.colour}"


@dataclass(frozen=True)
class Policy:
    key: Key
    candidates: tuple[Candidate, ...]
    service: IPv6Address | None = None  # the endpoint's VPN SID
    slice_id: int | None = None
    binding_sid: IPv6Address | None = None  # packets to this SID of the headend follow the policy

    def __post_init__(self) -> None:
        if self.key.headend == self.key.endpoint:
            raise Srv6Error(f"policy {self.key} ends where it starts; name two routers")
        if not self.candidates:
            raise Srv6Error(f"policy {self.key} has no candidate path; give it at least one")
        if len({rank(candidate) for candidate in self.candidates}) < len(self.candidates):
            raise Srv6Error(
                f"policy {self.key} has candidates with the same preference and discriminator; "
                "one of the two has to differ, so that it is clear which one wins"
            )


def rank(candidate: Candidate) -> tuple[int, int]:
    """Candidates are tried from the highest rank to the lowest."""
    return candidate.preference, candidate.discriminator
