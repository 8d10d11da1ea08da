"""What REST answers about SR policies: each answer is a dataclass, made of the manager's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Annotated, Literal

from testbed.srv6.controller.deployment import State
from testbed.srv6.controller.manager import Leaf, Manager
from testbed.srv6.controller.policy import Active
from testbed.srv6.controller.topology import Hop, Link, Topology
from testbed.srv6.protocol import advertisement, behaviours
from testbed.srv6.protocol.advertisement import AdvertisedSid, NodeId
from testbed.srv6.protocol.fields import Count, InterfaceName, RouterName, SidAddress, SliceOrNone
from testbed.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.srv6.protocol.sid import CodePoints, Sid
from testbed.srv6.session.intents import PolicyIntent, VpnIntent, id_of
from testbed.srv6.session.items import TunnelItem, VpnItem
from testbed.srv6.session.messages import Pause, Report
from testbed.srv6.session.policy import Key
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


def topology(manager: Manager) -> TopologyView:
    network = manager.network
    return TopologyView(
        manager.is_settled,
        tuple(_router(manager, name) for name in sorted(manager.reports)),
        tuple(_link(network.topology, link) for link in network.topology.links),
        tuple(_leaf(number, leaf) for number, leaf in sorted(manager.leaves.items())),
        network.problems,
        network.unreported,
    )


def sids(manager: Manager, code_points: CodePoints, as_number: int, router: str | None) -> Sids:
    """In the shape of RFC 9514, as JSON and as octets (decision 0145)."""
    return Sids(
        tuple(
            _sid(sid, manager.reports[name], code_points, as_number)
            for name in sorted(manager.reports)
            if router in (None, name)
            for sid in manager.network.topology.sids(name)
        )
    )


def policy(manager: Manager, key: Key) -> PolicyView:
    intent, outcome = manager.policies[key], manager.outcomes.get(key)
    status, why = _status(manager, key)
    return PolicyView(
        intent.id,
        intent,
        status,
        why,
        manager.item_of(key).slice_id,
        _active(outcome.active) if outcome and outcome.active else None,
        tuple(RefusedCandidate(name, text) for name, text in (outcome.refused if outcome else ())),
        tuple(PairView(pair.upstream, pair.downstream, pair.missing) for pair in (outcome.pairs if outcome else ())),
    )


def reverse(manager: Manager, key: Key) -> ReverseView:
    """The tunnels for PFC frames that the controller has computed for a policy."""
    outcome = manager.outcomes.get(key)
    pairs = outcome.pairs if outcome else ()
    tunnels: list[TunnelView] = []
    for pair in pairs:
        for direction, tunnel in _directions(pair.back, pair.forth):
            item = TunnelItem(tunnel)
            state, why = manager.deployment.state(item), manager.deployment.refusal(item)
            tunnels.append(TunnelView(tunnel, direction, state, why))
    return ReverseView(id_of(key), tuple(tunnels), tuple(text for pair in pairs for text in pair.missing))


def _directions(
    back: ReverseTunnel | None, forth: ReverseTunnel | None
) -> list[tuple[Literal["back", "forth"], ReverseTunnel]]:
    found: list[tuple[Literal["back", "forth"], ReverseTunnel]] = []
    if back is not None:
        found.append(("back", back))
    if forth is not None:
        found.append(("forth", forth))
    return found


def vpn(manager: Manager, name: str) -> VpnView:
    intent = manager.vpns[name]
    items = [VpnItem(intent, site.router) for site in intent.sites]
    return VpnView(
        name,
        intent,
        tuple(
            SiteState(item.router, manager.deployment.state(item), manager.deployment.refusal(item)) for item in items
        ),
        tuple(sorted(policy.id for policy in manager.policies.values() if policy.vpn == name)),
    )


def same_vpn(there: VpnIntent, intent: VpnIntent) -> bool:
    """Whether an intent requests nothing new; SIDs that the controller allocated count as not requested."""
    sites = tuple(
        replace(site, sid=old.sid) if site.sid is None and (old := there.site(site.router)) else site
        for site in intent.sites
    )
    return replace(intent, sites=sites) == there


def slices(manager: Manager) -> Slices:
    links = manager.network.topology.links
    infos = {
        (info.id, name): info for name, report in sorted(manager.reports.items()) for info in report.slices
    }  # fmt: skip
    policies = {intent.id: manager.item_of(key).slice_id for key, intent in manager.policies.items()}
    numbers = {number for number, _ in infos} | {number for link in links for number in link.slices}
    numbers |= {number for number in policies.values() if number is not None}
    numbers |= {intent.slice_id for intent in manager.vpns.values() if intent.slice_id is not None}
    return Slices(
        tuple(
            SliceView(
                number,
                tuple(sorted({info.name for (other, _), info in infos.items() if other == number})),
                tuple(
                    SliceAtRouter(name, tuple(sorted(info.priorities)), info.rate_bps)
                    for (other, name), info in infos.items()
                    if other == number
                ),
                tuple(str(link) for link in links if number in link.slices),
                tuple(sorted(policy_id for policy_id, other in policies.items() if other == number)),
                tuple(sorted(name for name, intent in manager.vpns.items() if intent.slice_id == number)),
            )
            for number in sorted(numbers)
        )
    )


def _status(manager: Manager, key: Key) -> tuple[PolicyStatus, str | None]:
    """The state of a policy, and the reason if it is not active."""
    outcome, item = manager.outcomes.get(key), manager.item_of(key)
    if not manager.is_settled or outcome is None:
        waiting = ", ".join(manager.network.unreported)
        return "waiting", f"waiting for {waiting} to report" if waiting else "not computed yet"
    state = manager.deployment.state(item)
    if state == "away":
        return "away", f"{key.headend} has no session, and keeps what it had"
    if state == "refused":
        return "refused", manager.deployment.refusal(item)
    if item.segments and outcome.active is None:
        missing = ", ".join(manager.network.unreported)
        return "waiting", f"{missing} has not reported, and without it there is no known path; what is installed stays"
    if not item.segments:
        return "no path", "; ".join(f"{name}: {text}" for name, text in outcome.refused)
    if state == "installed":
        return "active", None
    return "installing", "its router, or one of its tunnels, is not ready yet"


def _active(active: Active) -> ActivePath:
    return ActivePath(active.candidate.name, tuple(active.path.routers), active.segments, active.delay_ns)


def _router(manager: Manager, name: str) -> RouterView:
    known, network = manager.reports[name], manager.network.topology
    pauses = [pause for (node, *_), pause in manager.routers.pauses.items() if node == name]
    return RouterView(
        name,
        known.router_id,
        "here" if not manager.is_away(name) else "away" if network.is_up(name) else "lost",
        network.is_pfc_capable(name),
        dict(known.counters),
        tuple(
            PauseView(pause.sid, pause.interface, pause.priority, pause.slice_id, pause.stopped)
            for pause in sorted(pauses, key=_pause_order)
        ),
        tuple(own.tunnel for own in manager.routers.own_tunnels.values() if own.tunnel.router == name),
    )


def _pause_order(pause: Pause) -> tuple[object, ...]:
    """Queues without a slice come before those of slices."""
    return pause.sid, pause.interface, pause.priority, -1 if pause.slice_id is None else pause.slice_id


def _link(network: Topology, link: Link) -> LinkView:
    ends = []
    for backwards, port in enumerate(link.ends):
        pausing = [
            sid
            for sid in network.sids(port.router)
            if sid.behaviour is behaviours.END_X_PFC and port.interface in sid.interfaces
        ]
        delay_ns = Hop(link, bool(backwards)).delay_ns
        ends.append(LinkEndView(port.router, port.interface, delay_ns, bool(pausing)))
    return LinkView(str(link), link.up, tuple(ends), tuple(sorted(link.slices)), tuple(sorted(link.affinity)))


def _leaf(number: int, leaf: Leaf) -> LeafView:
    return LeafView(
        f"{number:016x}",
        leaf.name,
        tuple(LeafPort(port, name, up) for port, name, up in leaf.ports),
        tuple(LeafHost(mac, port) for mac, port in leaf.hosts),
        tuple(LeafLink(port, other, far) for port, other, far in leaf.links),
    )


def _sid(sid: Sid, report: Report, code_points: CodePoints, as_number: int) -> SidView:
    node = None if report.router_id is None else NodeId(as_number, report.router_id)
    tlvs = SidTlvs(
        None if node is None else advertisement.nlri(sid, node).hex(),
        advertisement.attribute(sid, code_points).hex(),
        advertisement.end_x_tlv(sid, code_points).hex() if sid.behaviour.has_adjacencies else None,
    )
    return SidView(advertisement.advertised(sid, code_points, node), tlvs)
