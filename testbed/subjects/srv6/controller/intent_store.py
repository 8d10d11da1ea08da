"""The intents: policies and VPNs as requested, and those adopted from routers. A change is checked before it is made.

A withdrawn intent is remembered for a while, since routers may still report it; so it is not adopted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from testbed.rest.events import History
from testbed.rest.problems import ConflictError, MissingError
from testbed.subjects.srv6.controller.admission import check_policy, with_sids
from testbed.subjects.srv6.controller.topology import Topology
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent, id_of
from testbed.subjects.srv6.session.messages import Item, PolicyItem, VpnItem

_MOST_WITHDRAWN = 4096


@dataclass
class IntentStore:
    """All intents."""

    history: History
    topology: Topology = field(default_factory=Topology)
    """The network that a request is checked against."""
    policies: dict[Key, PolicyIntent] = field(default_factory=dict)
    vpns: dict[str, VpnIntent] = field(default_factory=dict)
    adopted: set[Key] = field(default_factory=set)  # policies found on routers, for which no path is known yet
    changed: dict[Key, None] = field(default_factory=dict)  # policies, while nothing else has changed
    all_changed: bool = False
    _carried: dict[str, dict[Key, None]] = field(default_factory=dict)  # the policies of each VPN
    _withdrawn: dict[Key | str, None] = field(default_factory=dict)

    def put_policy(self, intent: PolicyIntent, now_ns: int) -> bool:
        """Admit a policy, in place of one with the same key. Return True if it is new."""
        check_policy(intent, self.topology, self.policies.values(), self.vpns)
        before = self.policies.get(intent.key)
        if before == intent:
            return False
        self._set_policy(intent)
        self.adopted.discard(intent.key)
        self._withdrawn.pop(intent.key, None)
        self.changed[intent.key] = None
        kind = "policy_changed" if before else "policy_added"
        self.history.add(now_ns, kind, intent.id, f"policy {intent.id} is requested")
        return before is None

    def remove_policy(self, key: Key, now_ns: int) -> None:
        if key not in self.policies:
            raise MissingError(f"there is no policy {id_of(key)}; there are {some(map(id_of, self.policies))}")
        if (vpn := self.policies.pop(key).vpn) is not None:
            self._carried[vpn].pop(key, None)
        self._withdraw(key)
        self.adopted.discard(key)
        self.changed[key] = None
        self.history.add(now_ns, "policy_removed", id_of(key), f"policy {id_of(key)} is withdrawn")

    def put_vpn(self, intent: VpnIntent, now_ns: int) -> bool:
        """Admit a VPN, in place of one with the same name. Return True if it is new."""
        before = self.vpns.get(intent.name)
        complete = with_sids(intent, self.topology, self.vpns, self.policies.values())
        if before == complete:
            return False
        for user in self.users(intent.name):
            self._check_user(user, complete)
        self.vpns[intent.name] = complete
        self._withdrawn.pop(intent.name, None)
        self.all_changed = True
        kind = "vpn_changed" if before else "vpn_added"
        self.history.add(now_ns, kind, intent.name, f"VPN {intent.name} is requested")
        return before is None

    def remove_vpn(self, name: str, now_ns: int) -> None:
        if name not in self.vpns:
            raise MissingError(f"there is no VPN {name}; there are {some(self.vpns)}")
        if users := self.users(name):
            raise ConflictError(f"VPN {name} is carried by {some(map(id_of, users))}; remove these policies first")
        del self.vpns[name]
        self._withdraw(name)
        self.all_changed = True
        self.history.add(now_ns, "vpn_removed", name, f"VPN {name} is withdrawn")

    def adopt(self, item: Item, now_ns: int) -> None:
        """Adopt the intent of an item that a router has installed, if the intent is not known."""
        if isinstance(item, PolicyItem):
            policy = item.intent
            if policy.key in self.policies or policy.key in self._withdrawn:
                return
            self._set_policy(policy)
            self.adopted.add(policy.key)
            self.history.add(now_ns, "policy_adopted", policy.id, f"{item.node} has policy {policy.id}; it is kept")
        elif isinstance(item, VpnItem):
            vpn = item.intent
            if vpn.name in self.vpns or vpn.name in self._withdrawn:
                return
            self.vpns[vpn.name] = vpn
            self.history.add(now_ns, "vpn_adopted", vpn.name, f"{item.node} has VPN {vpn.name}; it is kept")
        else:
            return
        self.all_changed = True

    def users(self, vpn: str) -> list[Key]:
        """Return the policies that carry a VPN."""
        return sorted(self._carried.get(vpn, ()), key=order)

    def is_withdrawn(self, what: Key | str) -> bool:
        return what in self._withdrawn

    def _check_user(self, user: Key, vpn: VpnIntent) -> None:
        """Raise a ConflictError if a policy that carries the VPN does not fit its new form."""
        missing = [end for end in (user.headend, user.endpoint) if vpn.site(end) is None]
        if missing or user.colour != vpn.colour:
            raise ConflictError(
                f"policy {id_of(user)} carries VPN {vpn.name}, which would have "
                f"{f'no site at {missing[0]}' if missing else f'colour {vpn.colour}'}; remove the policy first"
            )
        if not vpn.behaviour.takes_ipv6 and (bound := self.policies[user].binding_sid) is not None:
            raise ConflictError(
                f"policy {id_of(user)} carries VPN {vpn.name} and has binding SID {bound}; what comes by that is "
                f"IPv6, which {vpn.behaviour} does not take out: change the policy first"
            )

    def _set_policy(self, intent: PolicyIntent) -> None:
        before = self.policies.get(intent.key)
        if before is not None and before.vpn is not None:
            self._carried[before.vpn].pop(intent.key, None)
        self.policies[intent.key] = intent
        if intent.vpn is not None:
            self._carried.setdefault(intent.vpn, {})[intent.key] = None

    def _withdraw(self, what: Key | str) -> None:
        self._withdrawn[what] = None
        if len(self._withdrawn) > _MOST_WITHDRAWN:
            del self._withdrawn[next(iter(self._withdrawn))]


def order(key: Key) -> tuple[str, int, str]:
    """Return the key by which policies are sorted."""
    return key.headend, key.colour, key.endpoint


def some(names: Iterable[str]) -> str:
    """Return the first ten names, for a message."""
    texts = sorted(names)
    return ", ".join(texts[:10]) + (" and more" if len(texts) > 10 else "") if texts else "none"
