"""The controller: it takes reports, facts and intents, and says what each router is to be told.

Sans-I/O. Inputs change what is known; `step` computes what follows and returns the commands that are to be sent now.
Called again without an input it returns nothing. The same inputs give the same commands in the same order.

Scenario 1 of the draft: of every policy it finds the routers that press back to each other (`pairs`), and has the
tunnels for PFC frames installed in both directions, before the policy itself. When a path changes the order is: new
tunnels, then the policy's new list, then the old tunnels go. So at every moment the packets in flight have a tunnel.
A tunnel that its router refuses does not hold the policy up: data without back-pressure are better than no data, the
refusal is an event, and the policy shows it.

A controller that has been restarted waits until every router that others name as a neighbour has reported, or until
`settle_ns` have passed. What routers report as installed is taken over, intents included (decision 0151). As long as a
router is missing, nothing is removed that may be needed, and an inherited policy for which no path can be seen keeps
the list that it has. A router whose session is over is not taken
for lost before `grace_ns`, since an agent can be restarted while its router forwards (0152); a link is lost at once
when either of its ends says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv6Address, IPv6Network

from testbed.rest.events import History
from testbed.rest.problems import ConflictError, MissingError
from testbed.srv6.controller.admission import check_policy, resolve, with_sids
from testbed.srv6.controller.deployment import Deployment
from testbed.srv6.controller.desired_state import Desired, Place, User
from testbed.srv6.controller.network import Network, build, differs, steady
from testbed.srv6.controller.paths import Paths
from testbed.srv6.controller.policy import Outcome, compute
from testbed.srv6.protocol import behaviours
from testbed.srv6.protocol.behaviours import Behaviour
from testbed.srv6.protocol.domain import Srv6Error
from testbed.srv6.session.intents import PolicyIntent, VpnIntent, id_of
from testbed.srv6.session.items import Item, ItemKey, PolicyItem, TunnelItem, VpnItem
from testbed.srv6.session.messages import Ack, Command, Counters, FromAgent, Install, Nack, OwnTunnel, Pause, Report
from testbed.srv6.session.policy import Key, Policy
from testbed.typed_json.codec import CODEC

_MOST_FORGOTTEN = 4096
_MOST_REMARKS = 1024  # lasting pauses, and tunnels of its own, that one router may have
_VERSIONS_KEPT = 4

TunnelKey = tuple[str, tuple[IPv6Address, ...], int | None]


@dataclass(frozen=True)
class ManagerSettings:
    grace_ns: int = 5_000_000_000  # from the end of a router's session until the router is taken for lost
    settle_ns: int = 10_000_000_000  # from the first report until nobody is waited for any more
    own: Behaviour = behaviours.END  # the kind of SID that reverse tunnels start with

    def __post_init__(self) -> None:
        for name in ("grace_ns", "settle_ns"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise Srv6Error(f"{name} is {value!r}; it is a whole number of nanoseconds, 0 or more")


@dataclass(frozen=True)
class Leaf:
    """An OpenFlow switch of a data centre, as the controller sees it."""

    name: str
    ports: tuple[tuple[int, str, bool], ...]  # number, name, up
    hosts: tuple[tuple[str, int], ...] = ()  # MAC address, port
    links: tuple[tuple[int, str, int], ...] = ()  # port, other leaf, its port


class Manager:
    """All that a controller knows and decides."""

    def __init__(self, settings: ManagerSettings = ManagerSettings()) -> None:
        self.settings = settings
        self.history = History()
        self.deployment = Deployment()
        self.reports: dict[str, Report] = {}
        self.network: Network = build({})
        self.policies: dict[Key, PolicyIntent] = {}
        self.vpns: dict[str, VpnIntent] = {}
        self.outcomes: dict[Key, Outcome] = {}
        self.leaves: dict[int, Leaf] = {}
        self.pauses: dict[tuple[str, IPv6Address, str, int, int | None], Pause] = {}  # those that last
        self.own_tunnels: dict[TunnelKey, OwnTunnel] = {}
        self.counters: Counter[str] = Counter()
        self.locators: Mapping[str, tuple[IPv6Network, ...]] | None = None
        """Of each router that is configured: the prefixes that its SIDs are in. None: no such thing is configured."""
        self.is_settled = False
        self._inherited: set[Key] = set()  # policies found on routers, for which no path was seen yet
        self._first_ns: int | None = None  # of the reports
        self._left_ns: dict[str, int] = {}  # routers without a session, since when
        self._down: frozenset[str] = frozenset()
        self._removed: set[str] = set()  # routers that an operator has removed, and that others may still name
        self._network_changed = self._intents_changed = self._plan_changed = False
        self._desired = Desired()
        self._paths: Paths | None = None  # in the network as it is
        self._changed: dict[Key, None] = {}  # policies, while nothing else has changed
        self._places: dict[Place, None] = {}  # what is to be planned, while not all is
        self._carried: dict[str, dict[Key, None]] = {}  # the policies of each VPN
        self._forgotten: dict[Key | str, None] = {}  # removed intents, which routers may still report
        self._tunnels_of: dict[Key, dict[tuple[IPv6Address, ...], frozenset[TunnelKey]]] = {}

    # What routers say

    def hear(self, node: str, message: FromAgent, now_ns: int) -> None:
        """A message of a router whose session is open."""
        self.counters[f"{type(message).__name__.lower()}s_received"] += 1
        self._plan_changed |= isinstance(message, Report)
        match message:
            case Report():
                self._take_report(message, now_ns)
            case Counters():
                if (known := self.reports.get(node)) is not None:
                    self.reports[node] = replace(known, counters=message.counters)
            case Pause():
                self._take_pause(node, message, now_ns)
            case OwnTunnel():
                self._take_own_tunnel(node, message, now_ns)
            case Ack() | Nack():
                self._take_answer(node, message, now_ns)

    def leave(self, node: str, why: str, now_ns: int) -> None:
        """A router's session is over."""
        self.deployment.left(node)
        self._plan_changed = True
        # What it says of its own accord, it says again when it is back.
        self.pauses = {key: pause for key, pause in self.pauses.items() if key[0] != node}
        self.own_tunnels = {key: said for key, said in self.own_tunnels.items() if key[0] != node}
        if node in self.reports:
            self._left_ns[node] = now_ns
            self._tell(now_ns, "router_away", node, f"the session with {node} is over: {why}")

    def remove_router(self, node: str, now_ns: int) -> None:
        """Forget what a router has reported. It is not waited for; it is back when it reports again."""
        if self.reports.pop(node, None) is None:
            return
        self._removed.add(node)
        self._left_ns.pop(node, None)
        self.deployment.forget(node)
        self.pauses = {key: pause for key, pause in self.pauses.items() if key[0] != node}
        self.own_tunnels = {key: said for key, said in self.own_tunnels.items() if key[0] != node}
        self._network_changed = True
        self._tell(now_ns, "router_removed", node, f"{node} is removed, with all that it reported")

    def look_again(self) -> None:
        """Something about all routers, such as `locators`, is another than before."""
        self._network_changed = True

    # What is requested

    def put_policy(self, intent: PolicyIntent, now_ns: int) -> bool:
        """Take up a policy, in place of one with the same key; whether it is a new one."""
        check_policy(intent, self.network.topology, self.policies.values(), self.vpns)
        before = self.policies.get(intent.key)
        if before == intent:
            return False
        self._set_policy(intent)
        self._inherited.discard(intent.key)
        self._forgotten.pop(intent.key, None)
        self._changed[intent.key] = None
        self._tell(
            now_ns, "policy_changed" if before else "policy_added", intent.id, f"policy {intent.id} is requested"
        )
        return before is None

    def remove_policy(self, key: Key, now_ns: int) -> None:
        if key not in self.policies:
            raise MissingError(f"there is no policy {id_of(key)}; there are {_names(map(id_of, self.policies))}")
        if (vpn := self.policies.pop(key).vpn) is not None:
            self._carried[vpn].pop(key, None)
        self._forget(key)
        self._tell(now_ns, "policy_removed", id_of(key), f"policy {id_of(key)} is withdrawn")

    def put_vpn(self, intent: VpnIntent, now_ns: int) -> bool:
        """Take up a VPN, in place of one with the same name; whether it is a new one."""
        before = self.vpns.get(intent.name)
        complete = with_sids(intent, self.network.topology, self.vpns, self.policies.values())
        if before == complete:
            return False
        for user in self._users(intent.name):
            missing = [end for end in (user.headend, user.endpoint) if complete.site(end) is None]
            if missing or user.colour != complete.colour:
                raise ConflictError(
                    f"policy {id_of(user)} carries VPN {intent.name}, which would have "
                    f"{f'no site at {missing[0]}' if missing else f'colour {complete.colour}'}; remove the policy first"
                )
            if not complete.behaviour.takes_ipv6 and (bound := self.policies[user].binding_sid) is not None:
                raise ConflictError(
                    f"policy {id_of(user)} carries VPN {intent.name} and has binding SID {bound}; what comes by "
                    f"that is IPv6, which {complete.behaviour} does not take out: change the policy first"
                )
        self.vpns[intent.name] = complete
        self._forgotten.pop(intent.name, None)
        self._intents_changed = True
        self._tell(now_ns, "vpn_changed" if before else "vpn_added", intent.name, f"VPN {intent.name} is requested")
        return before is None

    def remove_vpn(self, name: str, now_ns: int) -> None:
        if name not in self.vpns:
            raise MissingError(f"there is no VPN {name}; there are {_names(self.vpns)}")
        if users := self._users(name):
            raise ConflictError(f"VPN {name} is carried by {_names(map(id_of, users))}; remove these policies first")
        del self.vpns[name]
        self._forget(name)
        self._tell(now_ns, "vpn_removed", name, f"VPN {name} is withdrawn")

    # What switches say

    def put_leaf(self, number: int, leaf: Leaf | None, now_ns: int) -> None:
        """What is known of an OpenFlow switch; None when it is gone."""
        before = self.leaves.get(number)
        if leaf is None:
            if self.leaves.pop(number, None) is not None and before is not None:
                self._tell(now_ns, "leaf_away", before.name, f"the switch {before.name} is gone")
            return
        self.leaves[number] = leaf
        if before is None:
            self._tell(now_ns, "leaf_here", leaf.name, f"the switch {leaf.name} is here")

    # What follows

    def step(self, now_ns: int) -> list[Command]:
        """Do what is due, and return the commands that are to be sent now; `item.node` is to whom."""
        self._look_at_clock(now_ns)
        if self._network_changed:
            self._rebuild(now_ns)
        if not self.is_settled:
            return []
        if self._intents_changed:
            self._intents_changed = False
            self._changed.clear()
            self._recompute(now_ns)
            self._desired = self._all_desired()
            self._plan_changed = True
        elif self._changed:
            changed, self._changed = self._changed, {}
            for key in changed:
                self._recompute_one(key, now_ns)
        if not self._plan_changed and not self._places:
            return []
        places = None if self._plan_changed else list(self._places)
        self._plan_changed = False
        self._places.clear()
        commands = self.deployment.plan(self._desired.items, self._may_install, self._removals(), places)
        for command in commands:
            self.counters["installs_sent" if isinstance(command, Install) else "removes_sent"] += 1
        return commands

    def _removals(self) -> Callable[[Item], bool]:
        """Whether an item that is installed may go; what that depends on is looked up when it is needed."""

        @cache
        def in_use() -> frozenset[TunnelKey] | None:
            return self._tunnels_in_use()

        @cache
        def carried() -> frozenset[tuple[str, str | None]]:
            items = self.deployment.all_installed()
            return frozenset((item.node, item.intent.vpn) for item in items if isinstance(item, PolicyItem))

        def may_remove(item: Item) -> bool:
            match item:
                case TunnelItem():
                    used = in_use()
                    return used is not None and item.tunnel.identity not in used
                case VpnItem():
                    return (item.node, item.intent.name) not in carried()
                case PolicyItem():
                    return True

        return may_remove

    @property
    def deadline_ns(self) -> int | None:
        """When `step` has something to do next, if nothing comes until then."""
        deadlines = [
            left_ns + self.settings.grace_ns for node, left_ns in self._left_ns.items() if node not in self._down
        ]
        if not self.is_settled and self._first_ns is not None:
            deadlines.append(self._first_ns + self.settings.settle_ns)
        return min(deadlines, default=None)

    def item_of(self, key: Key) -> PolicyItem:
        """What the headend of a policy should have."""
        intent, outcome = self.policies[key], self.outcomes.get(key)
        policy = resolve(intent, self.vpns)
        if key in self._inherited and self.network.unreported:
            there = self.deployment.installed(key.headend, ("policy", key))
            if isinstance(there, PolicyItem):
                return there
        segments = outcome.active.segments if outcome and outcome.active else ()
        return PolicyItem(intent, segments, policy.slice_id)

    def is_away(self, node: str) -> bool:
        return node in self._left_ns

    # Inside

    def _take_report(self, report: Report, now_ns: int) -> None:
        node, before = report.node, self.reports.get(report.node)
        self._removed.discard(node)
        report = steady(report, before)
        self.reports[node] = report
        if self._first_ns is None:
            self._first_ns = now_ns
        if before is None or node in self._left_ns:
            self._tell(now_ns, "router_here", node, f"{node} reports {len(report.sids)} SIDs")
        self._left_ns.pop(node, None)
        self._network_changed |= differs(report, before) or node in self._down
        self.deployment.reported(node, report.installed)
        for item in report.installed:
            self._adopt(item, now_ns)

    def _adopt(self, item: Item, now_ns: int) -> None:
        """Take over the intent behind what a router has, if it is not known."""
        if (
            isinstance(item, PolicyItem)
            and item.intent.key not in self.policies
            and item.intent.key not in self._forgotten
        ):
            self._set_policy(item.intent)
            self._inherited.add(item.intent.key)
            self._tell(now_ns, "policy_adopted", item.intent.id, f"{item.node} has policy {item.intent.id}; it is kept")
        elif (
            isinstance(item, VpnItem) and item.intent.name not in self.vpns and item.intent.name not in self._forgotten
        ):
            self.vpns[item.intent.name] = item.intent
            self._tell(now_ns, "vpn_adopted", item.intent.name, f"{item.node} has VPN {item.intent.name}; it is kept")
        else:
            return
        self._intents_changed = True

    def _take_pause(self, node: str, pause: Pause, now_ns: int) -> None:
        key = (node, pause.sid, pause.interface, pause.priority, pause.slice_id)
        if pause.stopped and sum(other[0] == node for other in self.pauses) >= _MOST_REMARKS:
            self.counters["pauses_beyond_limit"] += 1
        elif pause.stopped:
            self.pauses[key] = pause
        else:
            self.pauses.pop(key, None)
        self.counters["pauses_begun" if pause.stopped else "pauses_ended"] += 1
        what = "stops" if pause.stopped else "goes on with"
        inside = "" if pause.slice_id is None else f" of slice {pause.slice_id}"
        self._tell(
            now_ns, "pause" if pause.stopped else "resume", node,
            f"{node} {what} priority {pause.priority}{inside} at {pause.interface}",
            sid=str(pause.sid), interface=pause.interface, priority=pause.priority, slice=pause.slice_id,
        )  # fmt: skip

    def _take_own_tunnel(self, node: str, said: OwnTunnel, now_ns: int) -> None:
        if said.tunnel.router != node:
            self.counters["tunnels_of_others"] += 1  # nobody speaks for another router
            return
        if said.there and sum(other[0] == node for other in self.own_tunnels) >= _MOST_REMARKS:
            self.counters["own_tunnels_beyond_limit"] += 1
        elif said.there:
            self.own_tunnels[said.tunnel.identity] = said
        else:
            self.own_tunnels.pop(said.tunnel.identity, None)
        kind = "tunnel_learned" if said.there else "tunnel_forgotten"
        self._tell(now_ns, kind, node, f"{node}: {said.why}", tunnel=CODEC.encode(said.tunnel))

    def _take_answer(self, node: str, answer: Ack | Nack, now_ns: int) -> None:
        refusal = answer.why if isinstance(answer, Nack) else None
        command = self.deployment.answered(node, answer.transaction, refusal)
        if command is None:
            self.counters["answers_to_nothing"] += 1
            return
        item = command.item
        self._look_at_what_waits_for(item)
        done = "installed" if isinstance(command, Install) else "removed"
        kind = {"PolicyItem": "policy", "TunnelItem": "tunnel", "VpnItem": "vpn"}[type(item).__name__]
        subject = item.intent.id if isinstance(item, PolicyItem) else node
        if refusal is not None:
            self._tell(now_ns, f"{kind}_refused", subject, f"{node} has not {done} {item}: {refusal}")
        else:
            self._tell(now_ns, f"{kind}_{done}", subject, f"{node} has {done} {item}")

    def _look_at_what_waits_for(self, item: Item) -> None:
        """A router has answered about an item: plan it again, and what may be installed only after it."""
        # What is to go may wait for anything; that is so for a short time, after a path has changed.
        self._plan_changed |= self.deployment.kept
        place: Place = (item.node, item.identity)
        self._places[place] = None
        users: Iterable[User] = self._desired.users(place)
        if isinstance(item, VpnItem):
            users = self._carried.get(item.intent.name, ())
        for user in users:
            if isinstance(user, Key):
                self._places[user.headend, ("policy", user)] = None
        if isinstance(item, PolicyItem):
            for tunnels in self._tunnels_of.get(item.intent.key, {}).values():
                self._places |= {(identity[0], ("tunnel", identity)): None for identity in tunnels}
            if item.intent.vpn is not None:
                self._places[item.node, ("vpn", item.intent.vpn)] = None

    def _look_at_clock(self, now_ns: int) -> None:
        late = {node for node, left_ns in self._left_ns.items() if now_ns >= left_ns + self.settings.grace_ns}
        for node in sorted(late - self._down):
            self._tell(now_ns, "router_lost", node, f"{node} has had no session for a time; it is taken for lost")
        self._network_changed |= late != self._down
        self._down = frozenset(late)
        if self._first_ns is not None and not self.is_settled and now_ns >= self._first_ns + self.settings.settle_ns:
            self._settle(now_ns, f"no longer waiting for {_names(self.network.unreported)}")

    def _settle(self, now_ns: int, text: str) -> None:
        self.is_settled = self._intents_changed = True
        self._tell(now_ns, "settled", "controller", text)

    def _rebuild(self, now_ns: int) -> None:
        self._network_changed = False
        self._paths = None
        before, self.network = self.network, build(self.reports, self._down, self._removed, self.locators)
        for problem in self.network.problems:
            if problem not in before.problems:
                self._tell(now_ns, "problem", "network", problem)
        was_up = {str(link): link.up for link in before.topology.links}
        is_up = {str(link): link.up for link in self.network.topology.links}
        for name in sorted(was_up.keys() | is_up.keys()):
            if was_up.get(name, False) != is_up.get(name, False):
                up = is_up.get(name, False)
                self._tell(now_ns, "link_up" if up else "link_down", name, f"link {name} is {'up' if up else 'down'}")
        self._intents_changed = True
        if not self.is_settled and self.reports and not self.network.unreported:
            self._settle(now_ns, f"all {len(self.reports)} routers have reported")

    def _recompute(self, now_ns: int) -> None:
        """The outcome of every policy, as things are."""
        self.counters["computations"] += 1
        before = self.outcomes
        found = self._outcomes(sorted(self.policies, key=_order))
        self.outcomes = {key: found[key] for key in sorted(found, key=_order)}
        for key, outcome in self.outcomes.items():
            self._take_outcome(key, before.get(key), outcome, now_ns)
        for key in self._tunnels_of.keys() - self.policies.keys() - self._forgotten.keys():
            del self._tunnels_of[key]

    def _recompute_one(self, key: Key, now_ns: int) -> None:
        """The outcome of one policy, while nothing else has changed: its time does not depend on how many there are."""
        self.counters["computations_of_one"] += 1
        self._plan_changed |= self.deployment.kept
        if key not in self.policies:
            self._places |= dict.fromkeys(self._desired.put(key, ()))
            return
        before, outcome = self.outcomes.get(key), self._outcomes([key])[key]
        self.outcomes[key] = outcome
        self._take_outcome(key, before, outcome, now_ns)
        self._places |= dict.fromkeys(self._desired.put(key, self._items_of(key)))

    def _outcomes(self, keys: Iterable[Key]) -> dict[Key, Outcome]:
        topology = self.network.topology
        self._paths = self._paths or Paths(topology)
        known, unknown = list[Policy](), list[Outcome]()
        for key in keys:
            policy = resolve(self.policies[key], self.vpns)
            missing = [router for router in (key.headend, key.endpoint) if router not in self.reports]
            if missing:
                refused = tuple((candidate.name, f"{missing[0]} has not reported") for candidate in policy.candidates)
                unknown.append(Outcome(policy, None, refused))
            else:
                known.append(policy)
        computed = compute(topology, known, self.settings.own, self._paths)
        return {outcome.policy.key: outcome for outcome in [*computed, *unknown]}

    def _take_outcome(self, key: Key, before: Outcome | None, outcome: Outcome, now_ns: int) -> None:
        versions = self._tunnels_of.setdefault(key, {})
        segments = outcome.active.segments if outcome.active else ()
        versions.pop(segments, None)
        versions[segments] = frozenset(tunnel.identity for tunnel in outcome.tunnels)
        while len(versions) > _VERSIONS_KEPT:
            del versions[next(iter(versions))]
        if outcome.active is not None:
            self._inherited.discard(key)
        self._tell_of_change(key, before, outcome, now_ns)

    def _tell_of_change(self, key: Key, before: Outcome | None, after: Outcome, now_ns: int) -> None:
        old = before.active if before else None
        if after.active is None:
            if before is None or old is not None or before.refused != after.refused:
                why = "; ".join(f"{name}: {text}" for name, text in after.refused)
                self._tell(now_ns, "policy_no_path", id_of(key), f"policy {id_of(key)} has no path: {why}")
        elif old is None or old.segments != after.active.segments or old.path.routers != after.active.path.routers:
            routers = ", ".join(after.active.path.routers)
            self._tell(
                now_ns, "policy_path", id_of(key), f"policy {id_of(key)} goes by {routers}",
                routers=list(after.active.path.routers), segments=list(map(str, after.active.segments)),
                delay_ns=after.active.delay_ns,
            )  # fmt: skip
        for missing in (text for pair in after.pairs for text in pair.missing):
            if before is None or missing not in {text for pair in before.pairs for text in pair.missing}:
                self._tell(now_ns, "tunnel_missing", id_of(key), f"policy {id_of(key)}: {missing}")

    def _all_desired(self) -> Desired:
        """What every router should have: VPNs, then tunnels, then policies."""
        desired = Desired()
        for name in sorted(self.vpns):
            vpn = self.vpns[name]
            desired.put(name, [VpnItem(vpn, site.router) for site in vpn.sites if site.router in self.reports])
        for key in sorted(self.policies, key=_order):
            desired.put(key, self._items_of(key))
        return desired

    def _items_of(self, key: Key) -> list[Item]:
        """What a policy needs: its tunnels, then itself."""
        return [*map(TunnelItem, self.outcomes[key].tunnels), self.item_of(key)]

    def _may_install(self, item: Item) -> bool:
        """Tunnels before the policy that needs them; a policy without a path waits for nothing."""
        if not isinstance(item, PolicyItem) or not item.segments:
            return True
        outcome = self.outcomes[item.intent.key]
        if item.intent.vpn in self.vpns:
            vpn = VpnItem(self.vpns[item.intent.vpn], item.node)
            if not self.deployment.is_settled(vpn):
                return False
        return all(self._has_tunnel(tunnel.identity, tunnel.router) for tunnel in outcome.tunnels)

    def _has_tunnel(self, identity: TunnelKey, router: str) -> bool:
        """Whether the tunnel is there, whatever its delay, or will not be."""
        key: ItemKey = ("tunnel", identity)
        there = self.deployment.installed(router, key) is not None and not self.deployment.is_going(router, key)
        return there or self.deployment.has_refused(router, key) or not self.deployment.is_here(router)

    def _tunnels_in_use(self) -> frozenset[TunnelKey] | None:
        """The tunnels that installed policies need, as far as these are not the wanted ones; None: nobody knows."""
        if self.network.unreported:
            return None
        used: set[TunnelKey] = set()
        for item in self.deployment.all_installed():
            if not isinstance(item, PolicyItem) or not item.segments:
                continue
            key = item.intent.key
            if key not in self.policies and not self.deployment.is_here(item.node):
                continue  # it was removed, and nobody can say when its router hears of it
            tunnels = self._tunnels_of.get(key, {}).get(item.segments)
            if tunnels is None:
                return None  # it was installed before this controller's time, along another path
            used |= tunnels
        return frozenset(used)

    def _users(self, vpn: str) -> list[Key]:
        return sorted(self._carried.get(vpn, ()), key=_order)

    def _set_policy(self, intent: PolicyIntent) -> None:
        before = self.policies.get(intent.key)
        if before is not None and before.vpn is not None:
            self._carried[before.vpn].pop(intent.key, None)
        self.policies[intent.key] = intent
        if intent.vpn is not None:
            self._carried.setdefault(intent.vpn, {})[intent.key] = None

    def _forget(self, what: Key | str) -> None:
        self._forgotten[what] = None
        if len(self._forgotten) > _MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]
        if isinstance(what, Key):
            self.outcomes.pop(what, None)
            self._inherited.discard(what)
            self._changed[what] = None
        else:
            self._intents_changed = True

    def _tell(self, now_ns: int, kind: str, subject: str, text: str, **data: object) -> None:
        self.history.add(now_ns, kind, subject, text, **data)


def _order(key: Key) -> tuple[str, int, str]:
    return key.headend, key.colour, key.endpoint


def _names(names: Iterable[str]) -> str:
    texts = sorted(names)
    return ", ".join(texts[:10]) + (" and more" if len(texts) > 10 else "") if texts else "none"
