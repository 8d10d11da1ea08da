"""What the controller knows, as plain data for REST. The schemas are in `openapi`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from testbed.srv6.controller.manager import Leaf, Manager
from testbed.srv6.controller.policy import Active
from testbed.srv6.controller.topology import Hop, Link, Topology
from testbed.srv6.protocol import advertisement
from testbed.srv6.protocol.advertisement import NodeId
from testbed.srv6.protocol.sid import CodePoints, Kind, Sid
from testbed.srv6.session.intents import VpnIntent, id_of
from testbed.srv6.session.items import TunnelItem, VpnItem, tunnel_as_json
from testbed.srv6.session.messages import Pause, Report, RouterPort, pause_as_json
from testbed.srv6.session.policy import Key


def topology(manager: Manager) -> dict[str, Any]:
    network = manager.network
    return {
        "settled": manager.is_settled,
        "routers": [_router(manager, name) for name in sorted(manager.reports)],
        "links": [_link(network.topology, link) for link in network.topology.links],
        "leaves": [_leaf(number, leaf) for number, leaf in sorted(manager.leaves.items())],
        "problems": list(network.problems),
        "unreported": list(network.unreported),
    }


def sids(manager: Manager, code_points: CodePoints, as_number: int, router: str | None) -> dict[str, Any]:
    """In the shape of RFC 9514, as JSON and as octets (decision 0145)."""
    found = [
        _sid(sid, manager.reports[name], code_points, as_number)
        for name in sorted(manager.reports)
        if router in (None, name)
        for sid in manager.network.topology.sids(name)
    ]
    return {"sids": found}


def policy(manager: Manager, key: Key) -> dict[str, Any]:
    intent, outcome = manager.policies[key], manager.outcomes.get(key)
    status, why = _status(manager, key)
    return {
        "id": intent.id,
        "intent": intent.as_json(),
        "status": status,
        "why": why,
        "slice": manager.item_of(key).slice_id,
        "active": _active(outcome.active) if outcome and outcome.active else None,
        "refused": [{"candidate": name, "why": text} for name, text in (outcome.refused if outcome else ())],
        "pairs": [
            {"upstream": pair.upstream, "downstream": pair.downstream, "missing": list(pair.missing)}
            for pair in (outcome.pairs if outcome else ())
        ],
    }


def reverse(manager: Manager, key: Key) -> dict[str, Any]:
    """The tunnels for PFC frames that the controller has found for a policy."""
    outcome = manager.outcomes.get(key)
    tunnels = []
    for pair in outcome.pairs if outcome else ():
        for direction, tunnel in (("back", pair.back), ("forth", pair.forth)):
            if tunnel is not None:
                item = TunnelItem(tunnel)
                state, why = manager.deployment.state(item), manager.deployment.refusal(item)
                tunnels.append({**tunnel_as_json(tunnel), "direction": direction, "state": state, "why": why})
    missing = [text for pair in (outcome.pairs if outcome else ()) for text in pair.missing]
    return {"policy": id_of(key), "tunnels": tunnels, "missing": missing}


def vpn(manager: Manager, name: str) -> dict[str, Any]:
    intent = manager.vpns[name]
    items = [VpnItem(intent, site.router) for site in intent.sites]
    return {
        "name": name,
        "intent": intent.as_json(),
        "sites": [
            {
                "router": item.router,
                "state": manager.deployment.state(item),
                "why": manager.deployment.refusal(item),
            }
            for item in items
        ],
        "policies": sorted(policy.id for policy in manager.policies.values() if policy.vpn == name),
    }


def same_vpn(there: VpnIntent, intent: VpnIntent) -> bool:
    """Whether the intent says nothing new; SIDs that the controller chose count as not said."""
    sites = tuple(
        replace(site, sid=old.sid) if site.sid is None and (old := there.site(site.router)) else site
        for site in intent.sites
    )
    return replace(intent, sites=sites) == there


def slices(manager: Manager) -> dict[str, Any]:
    """Every slice that a router, a link, a policy or a VPN names."""
    links = manager.network.topology.links
    infos = {
        (info.id, name): info for name, report in sorted(manager.reports.items()) for info in report.slices
    }  # fmt: skip
    policies = {intent.id: manager.item_of(key).slice_id for key, intent in manager.policies.items()}
    numbers = {number for number, _ in infos} | {number for link in links for number in link.slices}
    numbers |= {number for number in policies.values() if number is not None}
    numbers |= {intent.slice_id for intent in manager.vpns.values() if intent.slice_id is not None}
    return {
        "slices": [
            {
                "id": number,
                "names": sorted({info.name for (other, _), info in infos.items() if other == number}),
                "routers": [
                    {"router": name, "priorities": sorted(info.priorities), "rate_bps": info.rate_bps}
                    for (other, name), info in infos.items()
                    if other == number
                ],
                "links": [str(link) for link in links if number in link.slices],
                "policies": sorted(policy_id for policy_id, other in policies.items() if other == number),
                "vpns": sorted(name for name, intent in manager.vpns.items() if intent.slice_id == number),
            }
            for number in sorted(numbers)
        ]
    }


def _status(manager: Manager, key: Key) -> tuple[str, str | None]:
    """One word for what became of a policy, and why if it is not active."""
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
        return "waiting", f"{missing} has not reported, and without it no path is seen; what was installed stays"
    if not item.segments:
        return "no path", "; ".join(f"{name}: {text}" for name, text in outcome.refused)
    if state == "installed":
        return "active", None
    return "installing", "its router, or one of its tunnels, is not done yet"


def _active(active: Active) -> dict[str, Any]:
    return {
        "candidate": active.candidate.name,
        "routers": list(active.path.routers),
        "segments": list(map(str, active.segments)),
        "delay_ns": active.delay_ns,
    }


def _router(manager: Manager, name: str) -> dict[str, Any]:
    known, network = manager.reports[name], manager.network.topology
    pauses = [pause for (node, *_), pause in manager.pauses.items() if node == name]
    state = "here" if not manager.is_away(name) else "away" if network.is_up(name) else "lost"
    return {
        "name": name,
        "router_id": None if known.router_id is None else str(known.router_id),
        "state": state,
        "pfc_capable": network.is_pfc_capable(name),
        "counters": dict(known.counters),
        "pauses": [pause_as_json(pause) for pause in sorted(pauses, key=_pause_order)],
        "own_tunnels": [
            tunnel_as_json(said.tunnel) for said in manager.own_tunnels.values() if said.tunnel.router == name
        ],
    }


def _pause_order(pause: Pause) -> tuple[object, ...]:
    """Queues without a slice come before those of slices."""
    return pause.sid, pause.interface, pause.priority, -1 if pause.slice_id is None else pause.slice_id


def _link(network: Topology, link: Link) -> dict[str, Any]:
    ends = []
    for backwards, port in enumerate(link.ends):
        hop = Hop(link, bool(backwards))
        pausing = [
            sid for sid in network.sids(port.router) if sid.kind is Kind.END_X_PFC and port.interface in sid.interfaces
        ]
        ends.append({**_port(port), "delay_ns": hop.delay_ns, "pfc": bool(pausing)})
    return {
        "name": str(link),
        "up": link.up,
        "ends": ends,
        "slices": sorted(link.slices),
        "affinity": sorted(link.affinity),
    }


def _port(port: RouterPort) -> dict[str, Any]:
    return {"router": port.router, "interface": port.interface}


def _leaf(number: int, leaf: Leaf) -> dict[str, Any]:
    return {
        "datapath": f"{number:016x}",
        "name": leaf.name,
        "ports": [{"number": port, "name": name, "up": up} for port, name, up in leaf.ports],
        "hosts": [{"mac": mac, "port": port} for mac, port in leaf.hosts],
        "links": [{"port": port, "leaf": other, "leaf_port": far} for port, other, far in leaf.links],
    }


def _sid(sid: Sid, report: Report, code_points: CodePoints, as_number: int) -> dict[str, Any]:
    node = None if report.router_id is None else NodeId(as_number, report.router_id)
    octets = {
        "nlri": None if node is None else advertisement.nlri(sid, node).hex(),
        "attribute": advertisement.attribute(sid, code_points).hex(),
        "end_x": advertisement.end_x_tlv(sid, code_points).hex() if sid.kind.has_adjacencies else None,
    }
    return {**advertisement.to_json(sid, code_points, node), "tlvs": octets}
