"""Checks of intents before their admission. One that contradicts the network or another intent is refused, by field.

Nothing here changes anything. A VPN gets a SID for each site that names none: the first free function from 0xD000 on in
the router's locator, by the structure of the SIDs that the router has advertised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv6Address

from testbed.subjects.srv6.controller.policy import check
from testbed.subjects.srv6.controller.topology import Topology
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.protocol.sid import Sid
from testbed.subjects.srv6.session.intents import Policy, PolicyIntent, Site, VpnIntent
from testbed.typed_json.text import InvalidError

FIRST_VPN_FUNCTION = 0xD000


def resolve(intent: PolicyIntent, vpns: Mapping[str, VpnIntent]) -> Policy:
    """Return the policy of an intent. Service and slice are those of its VPN, if it names one."""
    vpn = vpns.get(intent.vpn) if intent.vpn is not None else None
    service, slice_id = intent.service, intent.slice_id
    if vpn is not None:
        site = vpn.site(intent.key.endpoint)
        service = site.sid if site else None
        slice_id = vpn.slice_id if slice_id is None else slice_id
    return Policy(intent.key, intent.candidates, service, slice_id, intent.binding_sid)


def check_policy(
    intent: PolicyIntent, topology: Topology, others: Iterable[PolicyIntent], vpns: Mapping[str, VpnIntent]
) -> None:
    """Raise InvalidError or Srv6Error if the intent cannot be admitted beside the others."""
    for field, router in (("headend", intent.key.headend), ("endpoint", intent.key.endpoint)):
        _check_router(field, router, topology)
    if intent.vpn is not None:
        if (vpn := vpns.get(intent.vpn)) is None:
            there = ", ".join(sorted(vpns)) or "none yet"
            raise InvalidError("vpn", intent.vpn, f"there is no such VPN; there are {there}")
        for field, router in (("headend", intent.key.headend), ("endpoint", intent.key.endpoint)):
            if vpn.site(router) is None:
                sites = ", ".join(site.router for site in vpn.sites)
                raise InvalidError(field, router, f"VPN {vpn.name} has no site there; its sites are at {sites}")
        if intent.key.colour != vpn.colour:
            raise InvalidError(
                "colour", intent.key.colour, f"the routes of VPN {vpn.name} ask for colour {vpn.colour}; use this one"
            )
    new = resolve(intent, vpns)
    if intent.binding_sid is not None:
        _check_binding(intent.binding_sid, new, intent.vpn, topology, vpns)
    # Only what may be in its way: there may be hundreds of others.
    sid = intent.binding_sid
    rivals = (
        [other for other in others if other.binding_sid == sid and other.key != intent.key] if sid is not None else []
    )
    # A VPN's SID is advertised when its router has installed the VPN, which may be a moment later.
    check(
        topology,
        [*(replace(resolve(other, vpns), service=None) for other in rivals), _without_vpn_service(new, intent)],
    )


def _check_binding(
    sid: IPv6Address, policy: Policy, vpn: str | None, topology: Topology, vpns: Mapping[str, VpnIntent]
) -> None:
    """Check that packets to the binding SID reach the headend, and are decapsulated at the end: they are IPv6."""
    headend, endpoint, text = policy.key.headend, policy.key.endpoint, str(sid)
    for other in vpns.values():
        if sid in (site.sid for site in other.sites):
            raise InvalidError("binding_sid", text, f"it is taken: VPN {other.name}; choose another")
    near = [own.structure for own in topology.sids(headend) if sid in own.locator]
    if not near:
        raise InvalidError("binding_sid", text, f"no packet comes to {headend} by it; take one of its locator")
    if near[0].rest_of(sid):
        raise InvalidError("binding_sid", text, "it has bits after its argument; they must be 0")
    service = topology.sid(policy.service) if policy.service is not None else None
    behaviour = vpns[vpn].behaviour if vpn is not None else service.behaviour if service else None
    if behaviour is not None and not behaviour.takes_ipv6:
        raise InvalidError(
            "binding_sid", text,
            f"what comes by it is IPv6, and the {behaviour} of {endpoint} takes out IPv4 only: it would be lost; have "
            "an End.DT46 there, or leave the binding SID out",
        )  # fmt: skip


def with_sids(
    intent: VpnIntent, topology: Topology, others: Mapping[str, VpnIntent], policies: Iterable[PolicyIntent]
) -> VpnIntent:
    """Return the VPN with a SID at each site: the one it names, the one it had, or a free one."""
    before = others.get(intent.name)
    own = {site.sid for site in before.sites} if before else set()
    taken = {sid.address: sid.name for sid in topology.sids() if sid.address not in own}
    taken |= {user.binding_sid: f"binding SID of {user.id}" for user in policies if user.binding_sid is not None}
    for other in others.values():
        if other.name != intent.name:
            taken |= {site.sid: f"VPN {other.name}" for site in other.sites if site.sid is not None}
    sites = []
    for index, site in enumerate(intent.sites):
        field = f"sites[{index}]"
        _check_router(f"{field}.router", site.router, topology)
        _check_interfaces(field, site, others, intent.name)
        old = before.site(site.router) if before else None
        if site.sid is not None:
            _check_sid(f"{field}.sid", site, intent, topology, taken)
            chosen = site.sid
        elif old is not None and old.sid is not None:
            chosen = old.sid
        else:
            chosen = _free(f"{field}.sid", site.router, topology, taken)
        taken[chosen] = f"VPN {intent.name}"
        sites.append(replace(site, sid=chosen))
    return replace(intent, sites=tuple(sites))


def _without_vpn_service(policy: Policy, intent: PolicyIntent) -> Policy:
    return policy if intent.vpn is None else replace(policy, service=None)


def _check_router(field: str, router: str, topology: Topology) -> None:
    try:
        topology.check_router(router)
    except Srv6Error as error:
        raise InvalidError(field, router, str(error)) from None


def _check_interfaces(field: str, site: Site, others: Mapping[str, VpnIntent], name: str) -> None:
    for other in others.values():
        there = other.site(site.router)
        if there is None or other.name == name:
            continue
        for index, interface in enumerate(site.interfaces):
            if interface in there.interfaces:
                raise InvalidError(
                    f"{field}.interfaces[{index}]",
                    interface,
                    f"it belongs to VPN {other.name}; take it out there first",
                )


def _check_sid(field: str, site: Site, intent: VpnIntent, topology: Topology, taken: Mapping[IPv6Address, str]) -> None:
    assert site.sid is not None
    advertised: Sid | None = topology.sid(site.sid)
    if advertised is not None and advertised.node == site.router and advertised.behaviour is intent.behaviour:
        owner = taken[site.sid] if taken.get(site.sid, "").startswith("VPN ") else None
    else:
        owner = taken.get(site.sid)
    if owner is not None:
        raise InvalidError(field, str(site.sid), f"it is taken: {owner}; leave it out, and a free one is taken")
    if not any(site.sid in sid.locator for sid in topology.sids(site.router)):
        raise InvalidError(field, str(site.sid), f"no packet comes to {site.router} by it; take one of its locator")


def _free(field: str, router: str, topology: Topology, taken: Mapping[IPv6Address, str]) -> IPv6Address:
    sids = [sid for sid in topology.sids(router) if sid.behaviour is behaviours.END and sid.slice_id is None]
    for sid in sids or topology.sids(router):
        structure = sid.structure
        for function in range(FIRST_VPN_FUNCTION, 1 << structure.function):
            address = structure.sid(sid.locator, function)
            if address not in taken:
                return address
    raise InvalidError(
        field, None, f"{router} has advertised no SID with a locator to take one from; give it one, or name the SID"
    )
