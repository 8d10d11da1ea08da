"""SR policies (RFC 9256), and intents: the requests of an operator for policies and VPNs, as plain data.

Intents are in REST, and on routers, which keep them. An intent states what is required, not how: a policy's candidate
paths, a VPN's sites. It goes to the routers that carry it out, with the resulting state, and they return it in their
reports. So a controller that starts with an empty memory recovers the intents from the network (decision 0151).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Annotated

from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import BEHAVIOURS, Behaviour
from testbed.subjects.srv6.protocol.domain import (
    Affinities,
    Colour,
    DelayNs,
    InterfaceName,
    Label,
    Prefix,
    PrefixField,
    RouterName,
    Segments,
    SidAddress,
    SliceOrNone,
    Srv6Error,
)
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


_MOST_CANDIDATES, _MOST_SITES, _MOST_PREFIXES = 16, 256, 1024
VPN_BEHAVIOURS = tuple(name for name, behaviour in BEHAVIOURS.items() if behaviour.decapsulates)


@dataclass(frozen=True)
class PolicyIntent:
    """A policy as requested (RFC 9256). Headend, colour and endpoint together identify it."""

    key: Annotated[Key, Meta(flatten=True)]
    candidates: Annotated[tuple[Candidate, ...], Meta(min_length=1, max_length=_MOST_CANDIDATES)] = (
        Dynamic(pfc_ends=True),
    )
    vpn: Annotated[str | None, Meta(max_length=63, description="The VPN whose packets it carries")] = None
    service: Annotated[SidAddress | None, Meta(description="Without a VPN: the endpoint's VPN SID")] = None
    slice_id: Annotated[SliceOrNone, Meta(description="null: the VPN's, if it has one")] = None
    binding_sid: Annotated[
        SidAddress | None,
        Meta(description="A SID in the headend's locator; packets to it follow the policy's segment list"),
    ] = None

    def __post_init__(self) -> None:
        Policy(self.key, self.candidates)  # refuses what contradicts itself
        if self.vpn is not None and self.service is not None:
            raise Srv6Error(
                f"policy {self.key} names VPN {self.vpn} and service {self.service}; leave the service out, it is the "
                "VPN's SID at the endpoint"
            )

    @property
    def id(self) -> str:
        """The name in REST, as in R1:100:R3."""
        return id_of(self.key)


@message(name="SiteIntent")
@dataclass(frozen=True)
class Site:
    """The place of a VPN at a router."""

    router: RouterName
    interfaces: Annotated[tuple[InterfaceName, ...], Meta(max_length=64, unique=True, description="Towards the tenant")]
    prefixes: Annotated[
        tuple[PrefixField, ...], Meta(min_length=1, max_length=_MOST_PREFIXES, description="Behind the interfaces")
    ]
    sid: Annotated[SidAddress | None, Meta(description="null: the controller allocates one")] = None


@dataclass(frozen=True)
class VpnIntent:
    """A tenant's VPN. Its sites reach each other by policies of its colour."""

    name: RouterName
    colour: Colour
    sites: Annotated[tuple[Site, ...], Meta(min_length=1, max_length=_MOST_SITES)]
    behaviour: Annotated[Behaviour, Meta(only=VPN_BEHAVIOURS)] = behaviours.END_DT46
    slice_id: SliceOrNone = None
    _by_router: dict[str, Site] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_router", {site.router: site for site in self.sites})
        if len(self._by_router) < len(self.sites):
            raise Srv6Error(f"VPN {self.name} names a router twice; put all its interfaces into one site")
        owner: dict[Prefix, str] = {}
        for site in self.sites:
            for prefix in site.prefixes:
                if owner.setdefault(prefix, site.router) != site.router:
                    raise Srv6Error(f"VPN {self.name} has {prefix} at {owner[prefix]} and {site.router}; one is wrong")
                if prefix.version not in self.behaviour.decapsulates:
                    raise Srv6Error(
                        f"VPN {self.name} has {prefix} at {site.router}, and {self.behaviour} does not carry "
                        f"IPv{prefix.version}; choose End.DT46"
                    )

    def site(self, router: str) -> Site | None:
        return self._by_router.get(router)

    def routes(self, router: str) -> tuple[tuple[Prefix, str], ...]:
        """Return the prefixes that a site reaches by the VPN, each with the router that it is behind."""
        return tuple((prefix, site.router) for site in self.sites if site.router != router for prefix in site.prefixes)


def id_of(key: Key) -> str:
    return f"{key.headend}:{key.colour}:{key.endpoint}"
