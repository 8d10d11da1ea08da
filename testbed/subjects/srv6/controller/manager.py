"""The controller's state: it takes reports, answers and intents, and gives the commands for routers.

Sans-I/O. Inputs change the state; `step` computes what follows and returns the commands that are to be sent now. Called
again without an input it returns nothing. The same inputs give the same commands in the same order.

A controller that has been restarted waits until every router that others name as a neighbour has reported, or until
`settle_ns` have passed. The manager adopts the items that routers report, intents included (decision 0151). A link is
down at once when either of its ends reports so; a router is lost after a grace time (`router_states`). The consequences
for routers are in `planner`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network

from testbed.rest.events import History
from testbed.subjects.srv6.controller.deployment import Deployment
from testbed.subjects.srv6.controller.intent_store import IntentStore, some
from testbed.subjects.srv6.controller.network import IgpRouter, Network, build, differs, joined
from testbed.subjects.srv6.controller.planner import Planner
from testbed.subjects.srv6.controller.policy import Outcome
from testbed.subjects.srv6.controller.router_states import RouterStates
from testbed.subjects.srv6.protocol import behaviours
from testbed.subjects.srv6.protocol.behaviours import Behaviour
from testbed.subjects.srv6.protocol.domain import Srv6Error
from testbed.subjects.srv6.session.intents import Key, PolicyIntent, VpnIntent
from testbed.subjects.srv6.session.messages import (
    Ack,
    Command,
    Counters,
    FromAgent,
    Install,
    Nack,
    OwnTunnel,
    Pause,
    PolicyItem,
    Report,
)


@dataclass(frozen=True)
class ManagerSettings:
    grace_ns: int = 5_000_000_000  # from the end of a router's session until the router counts as lost
    settle_ns: int = 10_000_000_000  # from the first report until the wait for reports is over
    own: Behaviour = behaviours.END  # of the SID that reverse tunnels start with

    def __post_init__(self) -> None:
        for name in ("grace_ns", "settle_ns"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise Srv6Error(f"{name} is {value!r}; it must be a whole number of nanoseconds, 0 or more")


@dataclass(frozen=True)
class Leaf:
    """An OpenFlow switch of a data centre, as the controller sees it."""

    name: str
    ports: tuple[tuple[int, str, bool], ...]  # number, name, up
    hosts: tuple[tuple[str, int], ...] = ()  # MAC address, port
    links: tuple[tuple[int, str, int], ...] = ()  # port, other leaf, its port


class Manager:
    """The state of a controller, and all its decisions."""

    def __init__(self, settings: ManagerSettings = ManagerSettings()) -> None:
        self.settings = settings
        self.history = History()
        self.counters: Counter[str] = Counter()
        self.deployment = Deployment()
        self.routers = RouterStates(settings.grace_ns, self.history, self.counters)
        self.intents = IntentStore(self.history)
        self.planner = Planner(
            self.intents,
            self.routers.reports,
            self.deployment,
            own=settings.own,
            history=self.history,
            counters=self.counters,
        )
        self.network: Network = build({})
        self.planner.set_network(self.network)
        self.leaves: dict[int, Leaf] = {}
        self.locators: Mapping[str, tuple[IPv6Network, ...]] | None = None
        """The prefixes of the SIDs of each configured router, or None if none are configured."""
        self.is_settled = False
        self._network_changed = False
        self._reported: dict[str, Report] = {}
        """What agents report, without what the IGP adds."""
        self._igp: tuple[IgpRouter, ...] = ()

    # Input of routers and switches

    def receive(self, node: str, message: FromAgent, now_ns: int) -> None:
        """Take in a message of a router whose session is open."""
        self.counters[f"{type(message).__name__.lower()}s_received"] += 1
        match message:
            case Report():
                self.planner.all_changed = True
                self._reported[node] = message
                self._join(now_ns, node)
                self.deployment.reported(node, message.installed)
                for item in message.installed:
                    self.intents.adopt(item, now_ns)
            case Counters():
                self.routers.counted(node, message)
            case Pause():
                self.routers.paused(node, message, now_ns)
            case OwnTunnel():
                self.routers.learned(node, message, now_ns)
            case Ack() | Nack():
                self._take_answer(node, message, now_ns)

    def leave(self, node: str, why: str, now_ns: int) -> None:
        """Take in that a router's session has ended."""
        self.deployment.session_ended(node)
        self.planner.all_changed = True
        self.routers.session_ended(node, why, now_ns)

    def remove_router(self, node: str, now_ns: int) -> None:
        """Remove the reports of a router. The manager does not wait for it; it may report again."""
        self._reported.pop(node, None)
        if self.routers.remove(node, now_ns):
            self.deployment.forget(node)
            self._network_changed = True

    def take_igp(self, routers: tuple[IgpRouter, ...], now_ns: int) -> None:
        """Take in what the IGP says of routers: all of it, in place of what it said before."""
        gone = {router.router for router in self._igp} - {router.router for router in routers}
        self._igp = routers
        for name in sorted(gone - self._reported.keys()):
            self.remove_router(name, now_ns)
        self._join(now_ns)

    def _join(self, now_ns: int, node: str = "") -> None:
        """Take in reports as they are with what the IGP says: that of `node`, which has just come, and changed ones."""
        for name, report in joined(self._reported, self._igp).items():
            before = self.routers.reports.get(name)
            is_new = before is None or (differs(report, before) and not self.routers.is_away(name))
            if name == node or is_new:
                self.planner.all_changed = True
                self._network_changed |= self.routers.reported(report, now_ns)

    def look_again(self) -> None:
        """Make the network anew: something that concerns all routers, such as `locators`, has changed."""
        self._network_changed = True

    def put_leaf(self, number: int, leaf: Leaf | None, now_ns: int) -> None:
        """Take in the state of an OpenFlow switch, or None when it has disconnected."""
        before = self.leaves.get(number)
        if leaf is None:
            if self.leaves.pop(number, None) is not None and before is not None:
                self.history.add(now_ns, "leaf_away", before.name, f"switch {before.name} has disconnected")
            return
        self.leaves[number] = leaf
        if before is None:
            self.history.add(now_ns, "leaf_here", leaf.name, f"switch {leaf.name} has connected")

    # State

    @property
    def reports(self) -> Mapping[str, Report]:
        return self.routers.reports

    @property
    def policies(self) -> Mapping[Key, PolicyIntent]:
        return self.intents.policies

    @property
    def vpns(self) -> Mapping[str, VpnIntent]:
        return self.intents.vpns

    @property
    def outcomes(self) -> Mapping[Key, Outcome]:
        return self.planner.outcomes

    def item_of(self, key: Key) -> PolicyItem:
        """Return the item that the headend of a policy should have."""
        return self.planner.item_of(key)

    def is_away(self, node: str) -> bool:
        return self.routers.is_away(node)

    # Decisions

    def step(self, now_ns: int) -> list[Command]:
        """Do all that is due, and return the commands to send now, each to `item.node`."""
        self._network_changed |= self.routers.expire(now_ns)
        self._check_settled(now_ns)
        if self._network_changed:
            self._rebuild(now_ns)
        if not self.is_settled:
            return []
        if self.intents.all_changed:
            self.intents.all_changed = False
            self.intents.changed.clear()
            self.planner.recompute(now_ns)
        elif self.intents.changed:
            changed, self.intents.changed = self.intents.changed, {}
            for key in changed:
                self.planner.recompute_one(key, now_ns)
        commands = self.planner.commands()
        for command in commands:
            self.counters["installs_sent" if isinstance(command, Install) else "removes_sent"] += 1
        return commands

    @property
    def deadline_ns(self) -> int | None:
        """The time at which `step` has work next, if there is no input until then."""
        deadlines = self.routers.deadlines_ns
        if (settled_ns := self._settled_ns) is not None:
            deadlines.append(settled_ns)
        return min(deadlines, default=None)

    @property
    def _settled_ns(self) -> int | None:
        """The end of the wait for reports, or None if it is over or has not begun."""
        first_ns = self.routers.first_ns
        return None if self.is_settled or first_ns is None else first_ns + self.settings.settle_ns

    def _take_answer(self, node: str, answer: Ack | Nack, now_ns: int) -> None:
        refusal = answer.why if isinstance(answer, Nack) else None
        command = self.deployment.answered(node, answer.transaction, refusal)
        if command is None:
            self.counters["answers_to_nothing"] += 1
            return
        item = command.item
        self.planner.answered(item)
        done = "installed" if isinstance(command, Install) else "removed"
        kind = {"PolicyItem": "policy", "TunnelItem": "tunnel", "VpnItem": "vpn"}[type(item).__name__]
        subject = item.intent.id if isinstance(item, PolicyItem) else node
        if refusal is not None:
            self.history.add(now_ns, f"{kind}_refused", subject, f"{node} has not {done} {item}: {refusal}")
        else:
            self.history.add(now_ns, f"{kind}_{done}", subject, f"{node} has {done} {item}")

    def _check_settled(self, now_ns: int) -> None:
        settled_ns = self._settled_ns
        if settled_ns is not None and now_ns >= settled_ns:
            self._settle(now_ns, f"no longer waiting for {some(self.network.unreported)}")

    def _settle(self, now_ns: int, text: str) -> None:
        self.is_settled = self.intents.all_changed = True
        self.history.add(now_ns, "settled", "controller", text)

    def _rebuild(self, now_ns: int) -> None:
        self._network_changed = False
        before = self.network
        self.network = build(self.routers.reports, self.routers.down, self.routers.removed, self.locators)
        self.planner.set_network(self.network)
        self.intents.topology = self.network.topology
        for problem in self.network.problems:
            if problem not in before.problems:
                self.history.add(now_ns, "problem", "network", problem)
        was_up = {str(link): link.up for link in before.topology.links}
        is_up = {str(link): link.up for link in self.network.topology.links}
        for name in sorted(was_up.keys() | is_up.keys()):
            up = is_up.get(name, False)
            if was_up.get(name, False) != up:
                state = "up" if up else "down"
                self.history.add(now_ns, f"link_{state}", name, f"link {name} is {state}")
        self.intents.all_changed = True
        if not self.is_settled and self.routers.reports and not self.network.unreported:
            self._settle(now_ns, f"all {len(self.routers.reports)} routers have reported")
