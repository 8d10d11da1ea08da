"""Intents, the requests of an operator for policies and VPNs, as plain data: in REST, and on routers, which keep them.

An intent states what is required, not how: a policy's candidate paths, a VPN's sites. It goes to the routers that
carry it out, with the resulting state, and they return it in their reports. So a controller that starts with an empty
memory recovers the intents from the network (decision 0151).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from testbed.srv6.protocol import behaviours
from testbed.srv6.protocol.behaviours import BEHAVIOURS, Behaviour
from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.fields import Colour, InterfaceName, Prefix, PrefixField, RouterName, SidAddress, SliceOrNone
from testbed.srv6.session.policy import Candidate, Dynamic, Key, Policy
from testbed.typed_json.meta import Meta, message

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
