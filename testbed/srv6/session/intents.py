"""What an operator requests, policies and VPNs, as plain data: in REST, and on routers, which keep them.

An intent states what is required, not how: a policy's candidate paths, a VPN's sites. It goes to the routers that
carry it out, with the resulting state, and they return it in their reports. So a controller that starts with an empty
memory recovers the intents from the network (decision 0151). Both directions of the JSON are here, with its schemas,
which are those of the OpenAPI document as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.protocol.sid import LARGEST_SLICE, Kind
from testbed.srv6.session.policy import DEFAULT_PREFERENCE, Candidate, Dynamic, Explicit, Key, Policy
from testbed.srv6.session.session import NAME
from testbed.typed_json.validation import Schema

LARGEST_COLOUR = (1 << 32) - 1
LONGEST_DELAY_NS = 10**12
_MOST_CANDIDATES, _MOST_SITES, _MOST_PREFIXES, _MOST_SEGMENTS = 16, 256, 1024, 127

Prefix = IPv4Network | IPv6Network

ADDRESS: Schema = {"type": "string", "format": "ipv6", "maxLength": 45, "examples": ["fd00:a:1:f::"]}
INTERFACE: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_.@-]{1,15}$", "examples": ["r1-eth1"]}
SLICE: Schema = {
    "type": ["integer", "null"], "minimum": 0, "maximum": LARGEST_SLICE, "description": "The slice's id; null: none"
}  # fmt: skip
COLOUR: Schema = {"type": "integer", "minimum": 1, "maximum": LARGEST_COLOUR, "examples": [100]}
LABEL: Schema = {
    "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]*$", "examples": ["via R3"]
}  # fmt: skip
"""It ends up in terminals, so it has no control characters."""
PREFIX: Schema = {"type": "string", "format": "prefix", "maxLength": 49, "examples": ["10.1.0.0/16"]}
_RANK: Schema = {"type": "integer", "minimum": 0, "maximum": (1 << 32) - 1}
_AFFINITIES: Schema = {"type": "array", "items": LABEL, "maxItems": 32, "uniqueItems": True}
_PREFERENCE: Schema = {**_RANK, "default": DEFAULT_PREFERENCE, "description": "The highest valid one is used"}
_BOTH = {"name": LABEL, "preference": _PREFERENCE, "discriminator": {**_RANK, "default": 0}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: dict[str, Schema] = {
    "DynamicCandidate": {
        "type": "object",
        "description": "The path with the least delay under constraints; the policy's slice is one of them.",
        "properties": {
            "type": {"type": "string", "const": "dynamic"},
            **_BOTH,
            "pfc_ends": {"type": "boolean", "description": "The headend can pause the first link; the endpoint too"},
            "pfc_every_hop": {"type": "boolean", "description": "Every router on the way can pause its link"},
            "include_any": _AFFINITIES,
            "include_all": _AFFINITIES,
            "exclude_any": _AFFINITIES,
            "max_delay_ns": {"type": ["integer", "null"], "minimum": 0, "maximum": LONGEST_DELAY_NS},
        },
        "required": ["type"],
        "additionalProperties": False,
    },
    "ExplicitCandidate": {
        "type": "object",
        "description": "A list of SIDs in order of travel. The policy's service is added if the list has none.",
        "properties": {
            "type": {"type": "string", "const": "explicit"},
            **_BOTH,
            "segments": {"type": "array", "items": ADDRESS, "minItems": 1, "maxItems": _MOST_SEGMENTS},
            "literal": {"type": "boolean", "description": "Take it even if it loses traffic or turns it back"},
        },
        "required": ["type", "segments"],
        "additionalProperties": False,
    },
    "PolicyIntent": {
        "type": "object",
        "description": "A policy as requested (RFC 9256). Headend, colour and endpoint together are its name.",
        "properties": {
            "headend": NAME,
            "colour": COLOUR,
            "endpoint": NAME,
            "vpn": {"type": ["string", "null"], "maxLength": 63, "description": "The VPN whose packets it carries"},
            "service": {
                **ADDRESS,
                "type": ["string", "null"],
                "description": "Without a VPN: the endpoint's VPN SID",
            },
            "slice": SLICE,
            "binding_sid": {
                **ADDRESS,
                "type": ["string", "null"],
                "description": "Of the headend's locator; what comes to it goes into the policy's list",
            },
            "candidates": {
                "type": "array",
                "items": {
                    "oneOf": [_ref("DynamicCandidate"), _ref("ExplicitCandidate")],
                    "discriminator": {"propertyName": "type"},
                },
                "minItems": 1,
                "maxItems": _MOST_CANDIDATES,
            },
        },
        "required": ["headend", "colour", "endpoint"],
        "additionalProperties": False,
    },
    "SiteIntent": {
        "type": "object",
        "properties": {
            "router": NAME,
            "interfaces": {"type": "array", "items": INTERFACE, "maxItems": 64, "uniqueItems": True},
            "prefixes": {"type": "array", "items": PREFIX, "minItems": 1, "maxItems": _MOST_PREFIXES},
            "sid": {**ADDRESS, "type": ["string", "null"], "description": "null: the controller takes a free one"},
        },
        "required": ["router", "interfaces", "prefixes"],
        "additionalProperties": False,
    },
    "VpnIntent": {
        "type": "object",
        "description": "A tenant's VPN. Its sites reach each other by policies of its colour.",
        "properties": {
            "name": NAME,
            "behaviour": {"type": "string", "enum": ["End.DT4", "End.DT6", "End.DT46"], "default": "End.DT46"},
            "colour": COLOUR,
            "slice": SLICE,
            "sites": {"type": "array", "items": _ref("SiteIntent"), "minItems": 1, "maxItems": _MOST_SITES},
        },
        "required": ["name", "colour", "sites"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class PolicyIntent:
    """A policy as requested."""

    key: Key
    candidates: tuple[Candidate, ...] = (Dynamic(pfc_ends=True),)
    vpn: str | None = None
    service: IPv6Address | None = None
    slice_id: int | None = None  # None: the VPN's, if it has one
    binding_sid: IPv6Address | None = None

    def __post_init__(self) -> None:
        Policy(self.key, self.candidates)  # refuses what contradicts itself
        if self.vpn is not None and self.service is not None:
            raise Srv6Error(
                f"policy {self.key} names VPN {self.vpn} and service {self.service}; leave the service out, it is the "
                "VPN's SID at the endpoint"
            )

    @property
    def id(self) -> str:
        """As in R1:100:R3."""
        return id_of(self.key)

    def as_json(self) -> dict[str, Any]:
        return {
            "headend": self.key.headend,
            "colour": self.key.colour,
            "endpoint": self.key.endpoint,
            "vpn": self.vpn,
            "service": _text(self.service),
            "slice": self.slice_id,
            "binding_sid": _text(self.binding_sid),
            "candidates": [_candidate_as_json(candidate) for candidate in self.candidates],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PolicyIntent:
        """From data that fit the schema."""
        candidates = tuple(_candidate(entry) for entry in data.get("candidates", ()))
        return cls(
            Key(data["headend"], data["colour"], data["endpoint"]),
            candidates or (Dynamic(pfc_ends=True),),
            data.get("vpn"),
            _address(data.get("service")),
            data.get("slice"),
            _address(data.get("binding_sid")),
        )


@dataclass(frozen=True)
class Site:
    """Where a VPN comes to a router."""

    router: str
    interfaces: tuple[str, ...]  # towards the tenant
    prefixes: tuple[Prefix, ...]  # what is behind them
    sid: IPv6Address | None = None  # None in an intent: the controller takes one


@dataclass(frozen=True)
class VpnIntent:
    """A tenant's VPN."""

    name: str
    colour: int
    sites: tuple[Site, ...]
    behaviour: Kind = Kind.END_DT46
    slice_id: int | None = None
    _by_router: dict[str, Site] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_router", {site.router: site for site in self.sites})
        if len(self._by_router) < len(self.sites):
            raise Srv6Error(f"VPN {self.name} names a router twice; put all its interfaces into one site")
        owner: dict[Prefix, str] = {}
        version = {Kind.END_DT4: 4, Kind.END_DT6: 6}.get(self.behaviour)
        for site in self.sites:
            for prefix in site.prefixes:
                if owner.setdefault(prefix, site.router) != site.router:
                    raise Srv6Error(f"VPN {self.name} has {prefix} at {owner[prefix]} and {site.router}; one is wrong")
                if version is not None and prefix.version != version:
                    raise Srv6Error(
                        f"VPN {self.name} has {prefix} at {site.router}, and {self.behaviour} carries IPv{version} "
                        "only; choose End.DT46"
                    )

    def site(self, router: str) -> Site | None:
        return self._by_router.get(router)

    def routes(self, router: str) -> tuple[tuple[Prefix, str], ...]:
        """What a site reaches by the VPN: prefixes, and the router that each is behind."""
        return tuple((prefix, site.router) for site in self.sites if site.router != router for prefix in site.prefixes)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "behaviour": str(self.behaviour),
            "colour": self.colour,
            "slice": self.slice_id,
            "sites": [
                {
                    "router": site.router,
                    "interfaces": list(site.interfaces),
                    "prefixes": list(map(str, site.prefixes)),
                    "sid": _text(site.sid),
                }
                for site in self.sites
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> VpnIntent:
        """From data that fit the schema."""
        sites = tuple(
            Site(
                site["router"],
                tuple(site["interfaces"]),
                tuple(map(ip_network, site["prefixes"])),
                _address(site.get("sid")),
            )
            for site in data["sites"]
        )
        behaviour = Kind(data.get("behaviour", Kind.END_DT46))
        return cls(data["name"], data["colour"], sites, behaviour, data.get("slice"))


def id_of(key: Key) -> str:
    return f"{key.headend}:{key.colour}:{key.endpoint}"


def _candidate(data: Mapping[str, Any]) -> Candidate:
    common = {name: data[name] for name in ("name", "preference", "discriminator") if name in data}
    if data["type"] == "explicit":
        segments = tuple(IPv6Address(segment) for segment in data["segments"])
        return Explicit(segments, literal=data.get("literal", False), **common)
    return Dynamic(
        pfc_ends=data.get("pfc_ends", False),
        pfc_every_hop=data.get("pfc_every_hop", False),
        include_any=frozenset(data.get("include_any", ())),
        include_all=frozenset(data.get("include_all", ())),
        exclude_any=frozenset(data.get("exclude_any", ())),
        max_delay_ns=data.get("max_delay_ns"),
        **common,
    )


def _candidate_as_json(candidate: Candidate) -> dict[str, Any]:
    common = {
        "name": candidate.name, "preference": candidate.preference, "discriminator": candidate.discriminator
    }  # fmt: skip
    if isinstance(candidate, Explicit):
        segments = list(map(str, candidate.segments))
        return {"type": "explicit", **common, "segments": segments, "literal": candidate.literal}
    return {
        "type": "dynamic",
        **common,
        "pfc_ends": candidate.pfc_ends,
        "pfc_every_hop": candidate.pfc_every_hop,
        "include_any": sorted(candidate.include_any),
        "include_all": sorted(candidate.include_all),
        "exclude_any": sorted(candidate.exclude_any),
        "max_delay_ns": candidate.max_delay_ns,
    }


def addresses(texts: Iterable[str]) -> tuple[IPv6Address, ...]:
    return tuple(map(IPv6Address, texts))


def _address(text: str | None) -> IPv6Address | None:
    return None if text is None else IPv6Address(text)


def _text(address: IPv6Address | None) -> str | None:
    return None if address is None else str(address)
