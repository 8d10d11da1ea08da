"""The answers of REST about SR policies, made of the manager's state."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from testbed.subjects.srv6.controller.manager import Leaf, Manager
from testbed.subjects.srv6.controller.policy import Active
from testbed.subjects.srv6.controller.topology import Hop, Link, Topology
from testbed.subjects.srv6.protocol import advertisement, behaviours
from testbed.subjects.srv6.protocol.advertisement import NodeId
from testbed.subjects.srv6.protocol.reverse_tunnel import ReverseTunnel
from testbed.subjects.srv6.protocol.sid import CodePoints, Sid
from testbed.subjects.srv6.rest.answers import (
    ActivePath,
    LeafHost,
    LeafLink,
    LeafPort,
    LeafView,
    LinkEndView,
    LinkView,
    PairView,
    PauseView,
    PolicyStatus,
    PolicyView,
    RefusedCandidate,
    ReverseView,
    RouterView,
    Sids,
    SidTlvs,
    SidView,
    SiteState,
    SliceAtRouter,
    Slices,
    SliceView,
    TopologyView,
    TunnelView,
    VpnView,
)
from testbed.subjects.srv6.session.intents import Key, VpnIntent, id_of
from testbed.subjects.srv6.session.messages import Pause, Report, TunnelItem, VpnItem


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
    """Return SIDs in the shape of RFC 9514, as JSON and as octets (decision 0145)."""
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
    """Return the tunnels for PFC frames that the controller has computed for a policy."""
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
    directions: list[tuple[Literal["back", "forth"], ReverseTunnel]] = []
    if back is not None:
        directions.append(("back", back))
    if forth is not None:
        directions.append(("forth", forth))
    return directions


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
    """Return True if an intent requests nothing new. SIDs that the controller allocated count as not requested."""
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
    """Return the state of a policy, and the reason if it is not active."""
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
    """Return the key by which pauses are sorted. Queues without a slice come before those of slices."""
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
