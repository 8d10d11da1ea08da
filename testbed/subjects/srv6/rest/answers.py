"""The answers of REST about SR policies, as types; OpenAPI has their schemas. `views` makes them.

`EVENT_KINDS` are the kinds of events that the controller adds to the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import Annotated, Literal

from testbed.subjects.srv6.controller.deployment import State
from testbed.subjects.srv6.protocol.advertisement import AdvertisedSid
from testbed.subjects.srv6.protocol.domain import Count, InterfaceName, RouterName, SidAddress, SliceOrNone
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.session.intents import PolicyIntent, VpnIntent
from testbed.typed_json.meta import Meta, message

PolicyId = Annotated[str, Meta(examples=("R1:100:R3",))]
PolicyStatus = Literal["active", "installing", "no path", "refused", "away", "waiting"]


@message(name="PauseState")
@dataclass(frozen=True)
class PauseView:
    """A queue at an interface of J."""

    sid: SidAddress
    interface: InterfaceName
    priority: Count
    slice_id: SliceOrNone
    stopped: bool


@message(name="Router")
@dataclass(frozen=True)
class RouterView:
    """A router that has reported."""

    name: RouterName
    router_id: IPv4Address | None
    state: Literal["here", "away", "lost"]
    pfc_capable: bool
    counters: Mapping[str, Count]
    pauses: tuple[PauseView, ...]
    own_tunnels: tuple[ReverseTunnel, ...]


@message(name="LinkEnd")
@dataclass(frozen=True)
class LinkEndView:
    """One end of a link."""

    router: RouterName
    interface: InterfaceName
    delay_ns: Count
    pfc: Annotated[bool, Meta(description="An End.X.PFC SID names it")]


@message(name="Link")
@dataclass(frozen=True)
class LinkView:
    """A link that both of its routers have reported."""

    name: str
    up: bool
    ends: tuple[LinkEndView, ...]
    slices: tuple[Count, ...]
    affinity: tuple[str, ...]


@dataclass(frozen=True)
class LeafPort:
    """A port of a switch."""

    number: Count
    name: str
    up: bool


@dataclass(frozen=True)
class LeafHost:
    """A host at a port of a switch."""

    mac: str
    port: Count


@dataclass(frozen=True)
class LeafLink:
    """A link between two switches."""

    port: Count
    leaf: str
    leaf_port: Count


@message(name="Leaf")
@dataclass(frozen=True)
class LeafView:
    """An OpenFlow switch."""

    datapath: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    name: str
    ports: tuple[LeafPort, ...]
    hosts: tuple[LeafHost, ...]
    links: tuple[LeafLink, ...]


@message(name="Topology")
@dataclass(frozen=True)
class TopologyView:
    """The network as its routers and switches report it."""

    settled: Annotated[bool, Meta(description="Every router that others name has reported, or the wait is over")]
    routers: tuple[RouterView, ...]
    links: tuple[LinkView, ...]
    leaves: tuple[LeafView, ...]
    problems: tuple[str, ...]
    unreported: tuple[RouterName, ...]


@dataclass(frozen=True)
class SidTlvs:
    """A SID as octets, in hexadecimal."""

    nlri: str | None
    attribute: str
    end_x: str | None


@message(name="Sid")
@dataclass(frozen=True)
class SidView:
    """A SID in the shape of RFC 9514: as JSON, and as octets in hexadecimal."""

    described: Annotated[AdvertisedSid, Meta(flatten=True)]
    tlvs: SidTlvs


@dataclass(frozen=True)
class Sids:
    """SIDs that routers advertise."""

    sids: tuple[SidView, ...]


@dataclass(frozen=True)
class ActivePath:
    """The candidate path in use."""

    candidate: str
    routers: tuple[RouterName, ...]
    segments: tuple[SidAddress, ...]
    delay_ns: Count


@dataclass(frozen=True)
class RefusedCandidate:
    """A candidate path that cannot be used."""

    candidate: str
    why: str


@message(name="Pair")
@dataclass(frozen=True)
class PairView:
    """Two PFC-capable routers that follow each other on the path."""

    upstream: RouterName
    downstream: RouterName
    missing: tuple[str, ...]


@message(name="Policy")
@dataclass(frozen=True)
class PolicyView:
    """A policy and its state."""

    id: PolicyId
    intent: PolicyIntent
    status: PolicyStatus
    why: str | None
    slice_id: SliceOrNone
    active: ActivePath | None
    refused: tuple[RefusedCandidate, ...]
    pairs: tuple[PairView, ...]


@dataclass(frozen=True)
class Policies:
    """All policies."""

    policies: tuple[PolicyView, ...]


@message(name="TunnelState")
@dataclass(frozen=True)
class TunnelView:
    """A reverse tunnel of a policy."""

    tunnel: Annotated[ReverseTunnel, Meta(flatten=True)]
    direction: Literal["back", "forth"]
    state: State
    why: str | None


@message(name="Reverse")
@dataclass(frozen=True)
class ReverseView:
    """The tunnels for PFC frames of a policy."""

    policy: PolicyId
    tunnels: tuple[TunnelView, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class SiteState:
    """A VPN at one router."""

    router: RouterName
    state: State
    why: str | None


@message(name="Vpn")
@dataclass(frozen=True)
class VpnView:
    """A VPN and its state."""

    name: RouterName
    intent: VpnIntent
    sites: tuple[SiteState, ...]
    policies: tuple[PolicyId, ...]


@dataclass(frozen=True)
class Vpns:
    """All VPNs."""

    vpns: tuple[VpnView, ...]


@dataclass(frozen=True)
class SliceAtRouter:
    """A slice as it is set up on a router."""

    router: RouterName
    priorities: tuple[Count, ...]
    rate_bps: Count


@message(name="Slice")
@dataclass(frozen=True)
class SliceView:
    """A slice that a router, a link, a policy or a VPN names."""

    id: Count
    names: tuple[str, ...]
    routers: tuple[SliceAtRouter, ...]
    links: tuple[str, ...]
    policies: tuple[PolicyId, ...]
    vpns: tuple[str, ...]


@dataclass(frozen=True)
class Slices:
    """All slices."""

    slices: tuple[SliceView, ...]


EVENT_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "router_here": "A router has reported, for the first time or after its session had ended",
        "router_away": "The session with a router has ended",
        "router_lost": "A router has had no session for the grace time; its links count as down",
        "router_removed": "An operator has removed a router",
        "stranger": "A connection ended before its peer had authenticated",
        "settled": "The wait for reports after the start of the controller is over",
        "problem": "Reports contradict each other; what contradicts is left out of the topology",
        "link_up": "Both ends of a link report that it is up",
        "link_down": "An end of a link reports that it is down, or is lost",
        "leaf_here": "An OpenFlow switch has connected",
        "leaf_away": "An OpenFlow switch has disconnected",
        "policy_added": "A policy was requested",
        "policy_changed": "A policy was requested, in place of the one there",
        "policy_removed": "A policy was withdrawn",
        "policy_adopted": "A router has a policy that this controller did not know; it is kept",
        "policy_path": "A policy has a new path",
        "policy_no_path": "A policy has no path",
        "policy_installed": "A headend has installed a policy",
        "policy_refused": "A headend has refused to install or remove a policy",
        "tunnel_installed": "A router has installed a reverse tunnel",
        "tunnel_removed": "A router has removed a reverse tunnel",
        "tunnel_refused": "A router has refused to install or remove a reverse tunnel",
        "tunnel_missing": "A reverse tunnel of a policy cannot be made",
        "tunnel_learned": "A router has learned a reverse tunnel from data packets",
        "tunnel_forgotten": "A router has removed a reverse tunnel that it had learned",
        "vpn_added": "A VPN was requested",
        "vpn_changed": "A VPN was requested, in place of the one there",
        "vpn_removed": "A VPN was withdrawn, or a router has removed it",
        "vpn_adopted": "A router has a VPN that this controller did not know; it is kept",
        "vpn_installed": "A router has installed a VPN",
        "vpn_refused": "A router has refused to install or remove a VPN",
        "pause": "A router has stopped a priority at an interface, on a PFC frame from a reverse tunnel",
        "resume": "A router has resumed a priority at an interface",
    }
)
