"""The planner, from intents and the network to commands: outcomes of policies, the desired items, and their order.

Scenario 1 of the draft: of every policy it finds the routers that send back-pressure to each other (`pfc_pairs`), and
has the tunnels for PFC frames installed in both directions, before the policy itself. When a path changes the order is:
new tunnels, then the policy's new list, then the old tunnels are removed. So the packets in flight have a tunnel at
every moment. A tunnel that its router refuses does not delay the policy: data without back-pressure are better than no
data. The refusal is an event, and the policy shows it.

As long as a router is missing, nothing that may be needed is removed, and an adopted policy without a known path keeps
its list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from ipaddress import IPv6Address

from testbed.rest.events import History
from testbed.subjects.srv6.controller.admission import resolve
from testbed.subjects.srv6.controller.deployment import Deployment, Desired, Place, User
from testbed.subjects.srv6.controller.intent_store import IntentStore, order
from testbed.subjects.srv6.controller.network import Network
from testbed.subjects.srv6.controller.paths import Paths
from testbed.subjects.srv6.controller.policy import Outcome, compute
from testbed.subjects.srv6.controller.router_states import TunnelKey
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.session.intents import Key, Policy, id_of
from testbed.subjects.srv6.session.messages import Command, Item, ItemKey, PolicyItem, Report, TunnelItem, VpnItem

_VERSIONS_KEPT = 4


class Planner:
    """The outcomes of all policies, and the plan that follows from them."""

    def __init__(
        self,
        intents: IntentStore,
        reports: Mapping[str, Report],
        deployment: Deployment,
        *,
        own: Behaviour,
        history: History,
        counters: Counter[str],
    ) -> None:
        """`own` is the behaviour of the first SID of reverse tunnels."""
        self.outcomes: dict[Key, Outcome] = {}
        self.desired = Desired()
        self.all_changed = False
        self._intents, self._reports, self._deployment, self._own = intents, reports, deployment, own
        self._history, self._counters = history, counters
        self._network: Network
        self._paths: Paths | None = None  # in the network as it is
        self._places: dict[Place, None] = {}  # what is to be planned, unless all is
        self._tunnels_of: dict[Key, dict[tuple[IPv6Address, ...], frozenset[TunnelKey]]] = {}

    def set_network(self, network: Network) -> None:
        self._network, self._paths = network, None

    def recompute(self, now_ns: int) -> None:
        """Compute the outcome of every policy."""
        self._counters["computations"] += 1
        before = self.outcomes
        found = self._compute(sorted(self._intents.policies, key=order))
        self.outcomes = {key: found[key] for key in sorted(found, key=order)}
        for key, outcome in self.outcomes.items():
            self._take_outcome(key, before.get(key), outcome, now_ns)
        for key in self._tunnels_of.keys() - self._intents.policies.keys():
            if not self._intents.is_withdrawn(key):
                del self._tunnels_of[key]
        self.desired = self._all_desired()
        self.all_changed = True

    def recompute_one(self, key: Key, now_ns: int) -> None:
        """Compute the outcome of one policy, if nothing else has changed. The time does not depend on how many there
        are.
        """
        self._counters["computations_of_one"] += 1
        self.all_changed |= self._deployment.waits_to_remove
        if key not in self._intents.policies:
            self.outcomes.pop(key, None)
            self._places |= dict.fromkeys(self.desired.put(key, ()))
            return
        before, outcome = self.outcomes.get(key), self._compute([key])[key]
        self.outcomes[key] = outcome
        self._take_outcome(key, before, outcome, now_ns)
        self._places |= dict.fromkeys(self.desired.put(key, self._items_of(key)))

    def answered(self, item: Item) -> None:
        """Plan an item again that a router has answered about, and the items that may be installed only after it."""
        # An item to be removed may wait for any other one; that is so for a short time, after a path has changed.
        self.all_changed |= self._deployment.waits_to_remove
        place: Place = (item.node, item.identity)
        self._places[place] = None
        users: Iterable[User] = self.desired.users(place)
        if isinstance(item, VpnItem):
            users = self._intents.users(item.intent.name)
        for user in users:
            if isinstance(user, Key):
                self._places[user.headend, ("policy", user)] = None
        if isinstance(item, PolicyItem):
            for tunnels in self._tunnels_of.get(item.intent.key, {}).values():
                self._places |= {(identity[0], ("tunnel", identity)): None for identity in tunnels}
            if item.intent.vpn is not None:
                self._places[item.node, ("vpn", item.intent.vpn)] = None

    def commands(self) -> list[Command]:
        """Return the commands to send now."""
        if not self.all_changed and not self._places:
            return []
        places = None if self.all_changed else list(self._places)
        self.all_changed = False
        self._places.clear()
        return self._deployment.plan(self.desired.items, self.may_install, self.removals(), places)

    def may_install(self, item: Item) -> bool:
        """Return True if an item may be installed: tunnels go before their policy; one without a path waits for
        nothing.
        """
        if not isinstance(item, PolicyItem) or not item.segments:
            return True
        outcome = self.outcomes[item.intent.key]
        if item.intent.vpn in self._intents.vpns:
            vpn = VpnItem(self._intents.vpns[item.intent.vpn], item.node)
            if not self._deployment.is_settled(vpn):
                return False
        return all(self._has_tunnel(tunnel.identity, tunnel.router) for tunnel in outcome.tunnels)

    def removals(self) -> Callable[[Item], bool]:
        """Return a function that tells if an installed item may be removed. It computes what it needs at its first
        call.
        """

        @cache
        def in_use() -> frozenset[TunnelKey] | None:
            return self._tunnels_in_use()

        @cache
        def carried() -> frozenset[tuple[str, str | None]]:
            items = self._deployment.all_installed()
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

    def item_of(self, key: Key) -> PolicyItem:
        """Return the item that the headend of a policy should have."""
        intent, outcome = self._intents.policies[key], self.outcomes.get(key)
        policy = resolve(intent, self._intents.vpns)
        if key in self._intents.adopted and self._network.unreported:
            there = self._deployment.installed(key.headend, ("policy", key))
            if isinstance(there, PolicyItem):
                return there
        segments = outcome.active.segments if outcome and outcome.active else ()
        return PolicyItem(intent, segments, policy.slice_id)

    def _compute(self, keys: Iterable[Key]) -> dict[Key, Outcome]:
        topology = self._network.topology
        self._paths = self._paths or Paths(topology)
        known, unknown = list[Policy](), list[Outcome]()
        for key in keys:
            policy = resolve(self._intents.policies[key], self._intents.vpns)
            missing = [router for router in (key.headend, key.endpoint) if router not in self._reports]
            if missing:
                refused = tuple((candidate.name, f"{missing[0]} has not reported") for candidate in policy.candidates)
                unknown.append(Outcome(policy, None, refused))
            else:
                known.append(policy)
        computed = compute(topology, known, self._own, self._paths)
        return {outcome.policy.key: outcome for outcome in [*computed, *unknown]}

    def _take_outcome(self, key: Key, before: Outcome | None, outcome: Outcome, now_ns: int) -> None:
        versions = self._tunnels_of.setdefault(key, {})
        segments = outcome.active.segments if outcome.active else ()
        versions.pop(segments, None)
        versions[segments] = frozenset(tunnel.identity for tunnel in outcome.tunnels)
        while len(versions) > _VERSIONS_KEPT:
            del versions[next(iter(versions))]
        if outcome.active is not None:
            self._intents.adopted.discard(key)
        self._record_change(key, before, outcome, now_ns)

    def _record_change(self, key: Key, before: Outcome | None, after: Outcome, now_ns: int) -> None:
        old = before.active if before else None
        name = f"policy {id_of(key)}"
        if after.active is None:
            if before is None or old is not None or before.refused != after.refused:
                why = "; ".join(f"{candidate}: {text}" for candidate, text in after.refused)
                self._history.add(now_ns, "policy_no_path", id_of(key), f"{name} has no path: {why}")
        elif old is None or old.segments != after.active.segments or old.path.routers != after.active.path.routers:
            routers = list(after.active.path.routers)
            self._history.add(
                now_ns, "policy_path", id_of(key), f"{name} goes by {', '.join(routers)}", routers=routers,
                segments=list(map(str, after.active.segments)), delay_ns=after.active.delay_ns,
            )  # fmt: skip
        known = {text for pair in before.pairs for text in pair.missing} if before else set()
        for missing in (text for pair in after.pairs for text in pair.missing):
            if missing not in known:
                self._history.add(now_ns, "tunnel_missing", id_of(key), f"{name}: {missing}")

    def _all_desired(self) -> Desired:
        """Return the items that every router should have: VPNs, then tunnels, then policies."""
        desired = Desired()
        for name in sorted(self._intents.vpns):
            vpn = self._intents.vpns[name]
            desired.put(name, [VpnItem(vpn, site.router) for site in vpn.sites if site.router in self._reports])
        for key in sorted(self._intents.policies, key=order):
            desired.put(key, self._items_of(key))
        return desired

    def _items_of(self, key: Key) -> list[Item]:
        """Return the items of a policy: its tunnels, then itself."""
        return [*map(TunnelItem, self.outcomes[key].tunnels), self.item_of(key)]

    def _has_tunnel(self, identity: TunnelKey, router: str) -> bool:
        """Return True if the tunnel is installed, with any delay, or will not be."""
        key: ItemKey = ("tunnel", identity)
        there = self._deployment.installed(router, key) is not None and not self._deployment.is_going(router, key)
        return there or self._deployment.has_refused(router, key) or not self._deployment.is_here(router)

    def _tunnels_in_use(self) -> frozenset[TunnelKey] | None:
        """Return the tunnels of installed policies that differ from the desired ones, or None if they are not known."""
        if self._network.unreported:
            return None
        used: set[TunnelKey] = set()
        for item in self._deployment.all_installed():
            if not isinstance(item, PolicyItem) or not item.segments:
                continue
            key = item.intent.key
            if key not in self._intents.policies and not self._deployment.is_here(item.node):
                continue  # it was removed, and it is not known when its router connects again
            tunnels = self._tunnels_of.get(key, {}).get(item.segments)
            if tunnels is None:
                return None  # it was installed by an earlier controller, along another path
            used |= tunnels
        return frozenset(used)
