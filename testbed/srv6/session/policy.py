"""An SR policy (RFC 9256): its key, its candidate paths, and its other parts that do not depend on the network."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Annotated

from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.fields import Affinities, Colour, DelayNs, Label, RouterName, Segments
from testbed.typed_json.meta import Meta, message

DEFAULT_PREFERENCE = 100
"""The preference of a candidate that states none (RFC 9256, section 2.7)."""
Rank = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
Preference = Annotated[Rank, Meta(description="The valid candidate with the highest preference is used")]


@message(name="ExplicitCandidate", tag="explicit")
@dataclass(frozen=True)
class Explicit:
    """A path as a list of SIDs in order of travel. The policy's service is added if the list has none."""

    segments: Annotated[Segments, Meta(min_length=1)]
    preference: Preference = DEFAULT_PREFERENCE
    discriminator: Rank = 0
    name: Label = "explicit"
    literal: Annotated[bool, Meta(description="Use it even if it loses traffic or turns it back")] = False


@message(name="DynamicCandidate", tag="dynamic")
@dataclass(frozen=True)
class Dynamic:
    """The path with the least delay under constraints. The policy's slice is one of them."""

    preference: Preference = DEFAULT_PREFERENCE
    discriminator: Rank = 0
    name: Label = "dynamic"
    pfc_ends: Annotated[
        bool, Meta(description="The headend can pause the first link, and the endpoint is PFC-capable")
    ] = False
    pfc_every_hop: Annotated[bool, Meta(description="Every router on the path can pause its link too")] = False
    include_any: Affinities = frozenset()
    include_all: Affinities = frozenset()
    exclude_any: Affinities = frozenset()
    max_delay_ns: DelayNs | None = None


Candidate = Dynamic | Explicit


@dataclass(frozen=True)
class Key:
    """The identity of a policy (RFC 9256, section 2.1)."""

    headend: RouterName
    colour: Colour
    endpoint: RouterName

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
    """Return the rank of a candidate. Candidates are tried from the highest to the lowest."""
    return candidate.preference, candidate.discriminator
