"""The rules of the data centres' switches (OpenFlow): priorities to queues, learned forwarding, equal ways.

Sans-I/O: messages of switches in, orders for switches out, as plain data. Three tables:

    0   the queue of a frame's priority: by DSCP if it is IP, else by the PCP of its tag; then table 1
    1   by the port that a frame comes in by: a station that is not known there is copied to the controller; table 2
    2   to the port of the destination, or by the group of equal ways to its switch; else flooded along a tree

So no frame waits for the controller, nor is it the controller's when it leaves the switch, where cells and pauses
count it by the port that it came in by.

Switches find each other by LLDP frames that each sends out of each port as it comes up. They are for a group of their
own (802.1AB table 7-1: the nearest bridge that is no two-port relay), because the port's agent speaks DCBX to the
nearest bridge, and would there seem to be two. Other frames to link-local groups (PFC among them) are never forwarded.

A port forwards nothing until it is known what it leads to: it is a link's as soon as LLDP comes, and the edge's if none
has come for `SETTLE_NS`. So there may be loops of switches. Stations are learned at edges alone, for all switches that
are joined; frames to others go to each edge once, along a tree of the links.

A group for each switch with edges has the ports by which the shortest ways to it begin. The switch leaves one that has
lost its carrier by itself; if a link elsewhere fails, the controller gives the groups other ports.

A switch that has disconnected goes on with its rules, so ways over it stay until it is back, or its links fail.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from controllers.links import distances, shortest, tree
from controllers.orders import (
    QUEUES,
    SOURCES,
    TO_CONTROLLER,
    WAYS,
    ForgetSources,
    Group,
    Order,
    Orders,
    Remove,
    Replace,
    Rule,
    Send,
)  # fmt: skip
from testbed.frames import Mac
from testbed.frames.lldp import ETHERTYPE, NEAREST_BRIDGE, ChassisId, Lldpdu, LldpError, LldpFrame, PortId, parse
from testbed.subjects.srv6.controller.manager import Leaf

CLASS_SELECTORS: Mapping[int, int] = {dscp: dscp // 8 for dscp in range(8, 64)}
"""The queue of each DSCP whose queue is not 0."""

MOST_HOSTS = 4096
"""The most stations at one switch."""
MOST_AWAY = 64
"""The most switches that are remembered while they are disconnected."""
LLDP_TTL_S = 120
NEIGHBOURS = Mac.parse("01-80-C2-00-00-03")
"""The group address of the frames by which switches find each other."""
SETTLE_NS = 200_000_000
"""The time after which a port by which no switch was found is an edge. Half of it after the first LLDP frame a second
one is sent."""

_IPV4, _IPV6, _TAGGED = 0x0800, 0x86DD, 0x1000
_LINK_LOCAL, _LINK_LOCAL_MASK = "01:80:c2:00:00:00", "ff:ff:ff:ff:ff:f0"
_ETHERNET_OCTETS = 14

PortState = tuple[str, bool, str]
"""Name, whether it has a carrier, and MAC address of a port."""


@dataclass
class _Port:
    state: PortState
    since_ns: int
    """The moment from which on nothing was heard of a switch behind it."""
    is_edge: bool = False
    was_asked_twice: bool = False

    @property
    def is_up(self) -> bool:
        return self.state[1]


@dataclass
class _Switch:
    name: str
    group: int
    """The number of the groups that lead to it."""
    seed: int
    ports: dict[int, _Port] = field(default_factory=dict)
    hosts: dict[str, int] = field(default_factory=dict)  # MAC: port
    links: dict[int, tuple[int, int]] = field(default_factory=dict)  # port: switch and its port
    installed: dict[tuple[object, ...], Rule | Group] = field(default_factory=dict)
    is_away: bool = False
    is_settled: bool = False
    """True once it was known of all its ports what they lead to."""

    @property
    def edges(self) -> list[int]:
        return [number for number, port in sorted(self.ports.items()) if port.is_edge]


class Leaves:
    """The switches, and what was learned from them. `seed` gives each a seed of its own for its choice of ways."""

    def __init__(self, queues: Mapping[int, int] = CLASS_SELECTORS, seed: int = 0) -> None:
        self._base, self._seed = list(_base_rules(queues)), seed
        self._switches: dict[int, _Switch] = {}
        self._distances: dict[int, dict[int, int]] = {}
        self._tree: set[tuple[int, int]] = set()
        self._secret = secrets.token_bytes(32)
        self.counters: Counter[str] = Counter()

    # Messages of switches

    def connected(self, number: int, ports: Mapping[int, PortState], now_ns: int, name: str = "") -> Orders:
        """Add a switch with its ports, and return what switches are to do. What was known of it is forgotten."""
        if number in self._switches:
            self._cut(number, self._switches[number].ports, now_ns)
        seed = crc32(f"{self._seed} {number}".encode())
        made = {port: _Port(state, now_ns) for port, state in ports.items()}
        self._switches[number] = _Switch(name or f"{number:016x}", self._group_number(number), seed, made)
        hellos = [(number, self._hello(number, port)) for port in sorted(made) if made[port].is_up]
        first: list[Order] = [ForgetSources(), *self._base]
        return [*((number, order) for order in first), *self._changed(), *hellos]

    def disconnected(self, number: int, now_ns: int) -> Orders:
        """Take in that a switch is no longer reached. It goes on with its rules, and is part of ways while it has
        links.
        """
        switch = self._switches[number]
        switch.is_away = True
        away = [one for one, known in self._switches.items() if known.is_away]
        for one in away[: max(0, len(away) - MOST_AWAY)] if switch.links else [number]:
            self._cut(one, self._switches[one].ports, now_ns)
            del self._switches[one]
        return self._changed()

    def port(self, number: int, port: int, state: PortState | None, now_ns: int) -> Orders:
        """Take in that a port is new, has changed, or (None) is gone."""
        switch = self._switches.get(number)
        if switch is None:
            return []
        before = switch.ports.get(port)
        if state is not None and before is not None and before.is_up == state[1]:
            before.state = state
            return []
        self._cut(number, [port], now_ns)
        if state is None:
            switch.ports.pop(port, None)
        else:
            switch.ports[port] = _Port(state, now_ns)
        hellos = [(number, self._hello(number, port))] if state is not None and state[1] else []
        return [*self._changed(), *hellos]

    def frame(self, number: int, port: int, frame: bytes) -> Orders:
        """Learn from a frame whose source the switch does not know at this port, or find a link."""
        switch = self._switches.get(number)
        if switch is None or len(frame) < _ETHERNET_OCTETS:
            self.counters["dropped too_short" if switch else "dropped no_switch"] += 1
            return []
        if frame[:6] == NEIGHBOURS.octets and frame[12:14] == ETHERTYPE.to_bytes(2):
            return self._neighbour(number, port, frame)
        if frame[6] & 1:
            self.counters["dropped group_source"] += 1
            return []
        if port not in switch.ports or not switch.ports[port].is_edge:
            self.counters["dropped no_edge"] += 1
            return []
        mac = frame[6:12].hex(":")
        if switch.hosts.get(mac) == port:
            return [(number, _source_rule(mac, port))]  # the switch may have lost it
        orders: Orders = []
        joined = self._joined(number)
        was_at = next((one for one in joined if mac in self._switches[one].hosts), None)
        if was_at is None and len(switch.hosts) >= MOST_HOSTS:
            self.counters["not_learned table_full"] += 1
            return []
        if was_at is not None:
            old = _source_rule(mac, self._switches[was_at].hosts.pop(mac))
            self._remove(was_at, old, orders)
        switch.hosts[mac] = port
        self.counters["learned" if was_at is None else "moved"] += 1
        self._put(number, _source_rule(mac, port), orders)
        for one in joined:
            self._put(one, self._way_rule(one, number, mac), orders)
        return orders

    # Time

    @property
    def deadline_ns(self) -> int | None:
        """The moment at which `poll` has something to do."""
        return min((self._due_ns(port) for _, _, port in self._unsettled()), default=None)

    def poll(self, now_ns: int) -> Orders:
        """Ask once more at ports of which nothing is known, and make edges of those that have been asked for long."""
        hellos: Orders = []
        has_changed = False
        for number, name, port in self._unsettled():
            if self._due_ns(port) > now_ns:
                continue
            if port.was_asked_twice:
                port.is_edge = has_changed = True
            else:
                port.was_asked_twice = True
                hellos.append((number, self._hello(number, name)))
        return [*(self._changed() if has_changed else ()), *hellos]

    def _unsettled(self) -> list[tuple[int, int, _Port]]:
        return [
            (number, name, port)
            for number, switch in self._switches.items()
            for name, port in switch.ports.items()
            if port.is_up and not port.is_edge and name not in switch.links and not switch.is_away
        ]

    def _due_ns(self, port: _Port) -> int:
        return port.since_ns + (SETTLE_NS if port.was_asked_twice else SETTLE_NS // 2)

    # What is known

    def facts(self, number: int) -> Leaf | None:
        """Return all that is known of a switch; None until it is known what its ports lead to, and it has its rules."""
        switch = self._switches.get(number)
        if switch is None or switch.is_away or not switch.is_settled:
            return None
        links = tuple(
            (port, self._switches[far].name, far_port)
            for port, (far, far_port) in sorted(switch.links.items())
            if not self._switches[far].is_away
        )
        ports = tuple((number, *port.state[:2]) for number, port in sorted(switch.ports.items()))
        return Leaf(switch.name, ports, tuple(sorted(switch.hosts.items())), links)

    @property
    def numbers(self) -> list[int]:
        return sorted(self._switches)

    # Rules

    def _changed(self) -> Orders:
        """Return what brings all switches up to date after a change of ports or links."""
        links = {number: switch.links for number, switch in self._switches.items()}
        goals = [number for number, switch in self._switches.items() if switch.edges]
        self._distances = {goal: distances(links, goal) for goal in goals}
        self._tree = tree(links)
        self._forget_doubles()
        unsettled = {number for number, _, _ in self._unsettled()}
        orders: Orders = []
        for number, switch in self._switches.items():
            if switch.is_away:
                continue
            switch.is_settled = switch.is_settled or number not in unsettled
            wanted = {one.key: one for one in self._wanted(number)}
            for one in wanted.values():
                self._put(number, one, orders)
            unwanted = [one for key, one in switch.installed.items() if key not in wanted]
            for one in sorted(unwanted, key=lambda one: isinstance(one, Group)):  # a group takes its entries with it
                self._remove(number, one, orders)
        return orders

    def _wanted(self, number: int) -> Iterable[Rule | Group]:
        """Yield the rules and groups that a switch has beside those of all switches, groups first."""
        switch = self._switches[number]
        for goal, distance in self._distances.items():
            if goal != number and number in distance:
                ports = shortest({number: switch.links}, number, distance)
                yield Group(self._switches[goal].group, ports, switch.seed)
        flooded = tuple(
            port for port in sorted(switch.ports) if switch.ports[port].is_edge or (number, port) in self._tree
        )
        for port in sorted(switch.ports):
            at_port = (("in_port", port),)
            if switch.ports[port].is_edge:
                yield Rule(SOURCES, 10, at_port, outputs=(TO_CONTROLLER,), goto=WAYS)
            elif port in switch.links:
                yield Rule(SOURCES, 10, at_port, goto=WAYS)
            else:
                continue
            yield Rule(
                WAYS, 5, at_port, outputs=tuple(one for one in flooded if one != port) if port in flooded else ()
            )
        for mac, port in switch.hosts.items():
            yield _source_rule(mac, port)
        for goal in self._joined(number):
            for mac in self._switches[goal].hosts:
                yield self._way_rule(number, goal, mac)

    def _way_rule(self, number: int, goal: int, mac: str) -> Rule:
        """Return the rule by which a switch sends frames to a station at the switch `goal`."""
        match = (("eth_dst", mac),)
        if number == goal:
            return Rule(WAYS, 10, match, outputs=(self._switches[goal].hosts[mac],))
        return Rule(WAYS, 10, match, group=self._switches[goal].group)

    def _put(self, number: int, what: Rule | Group, orders: Orders) -> None:
        switch = self._switches[number]
        before = switch.installed.get(what.key)
        if before == what or switch.is_away:
            return
        switch.installed[what.key] = what
        order: Order = Replace(what) if isinstance(what, Group) and before is not None else what
        orders.append((number, order))

    def _remove(self, number: int, what: Rule | Group, orders: Orders) -> None:
        switch = self._switches[number]
        if not switch.is_away and switch.installed.pop(what.key, None) is not None:
            orders.append((number, Remove(what)))

    # Links

    def _joined(self, number: int) -> list[int]:
        """Return the switches that links join with this one, and itself; one alone has nothing to be joined by."""
        if number in self._distances:
            return sorted(self._distances[number])
        links = {one: switch.links for one, switch in self._switches.items()}
        return sorted(distances(links, number))

    def _forget_doubles(self) -> None:
        """Forget stations that were learned in two parts of the network that a link has joined meanwhile."""
        for number, switch in self._switches.items():
            for other in self._joined(number) if switch.hosts else ():
                for mac in switch.hosts.keys() & self._switches[other].hosts.keys() if other > number else ():
                    del switch.hosts[mac], self._switches[other].hosts[mac]

    def _cut(self, number: int, ports: Iterable[int], now_ns: int) -> None:
        """Forget what these ports lead to. A port at the other end of a link leads to nothing known any more."""
        switch = self._switches[number]
        for name in ports:
            if (end := switch.links.pop(name, None)) is not None:
                far = self._switches[end[0]]
                del far.links[end[1]]
                far.ports[end[1]] = _Port(far.ports[end[1]].state, now_ns)
            for mac in [mac for mac, where in switch.hosts.items() if where == name]:
                del switch.hosts[mac]

    def _group_number(self, number: int) -> int:
        """Return the number of the groups that lead to a switch. The next controller finds the same one."""
        if number in self._switches:
            return self._switches[number].group
        taken, found = {switch.group for switch in self._switches.values()}, crc32(number.to_bytes(8)) >> 1
        while found in taken:
            found += 1
        return found

    def _hello(self, number: int, port: int) -> Send:
        mac = Mac.parse(self._switches[number].ports[port].state[2])
        pdu = Lldpdu(ChassisId.local(self._signed(number, port)), PortId.interface(str(port)), LLDP_TTL_S)
        return Send(port, NEIGHBOURS.octets + LldpFrame(mac, pdu).encode()[6:])

    def _signed(self, number: int, port: int) -> str:
        """Return what names a switch in an LLDP frame, signed for the port, so that no station can make up a link."""
        signature = hmac.digest(self._secret, f"{number} {port}".encode(), "sha256")[:16]
        return f"xoff:{number:016x}:{signature.hex()}"

    def _neighbour(self, number: int, port: int, frame: bytes) -> Orders:
        """Learn a link between two switches. LLDP of other senders is left alone."""
        try:
            parsed = parse(NEAREST_BRIDGE.octets + frame[6:])  # the group is all that differs
            chassis, far_port = str(parsed.pdu.chassis_id), int(str(parsed.pdu.port_id))
            far = int(chassis.split(":")[1], 16)
            is_own = hmac.compare_digest(chassis.encode(), self._signed(far, far_port).encode())
        except (LldpError, ValueError, IndexError):
            far, far_port, is_own = -1, -1, False
        switch, other = self._switches[number], self._switches.get(far)
        if not is_own or far == number or other is None or far_port not in other.ports or port not in switch.ports:
            self.counters["lldp_of_others"] += 1
            return []
        self.counters["lldp_parsed"] += 1
        if switch.links.get(port) == (far, far_port) or not (switch.ports[port].is_up and other.ports[far_port].is_up):
            return []
        for one, name in ((number, port), (far, far_port)):
            self._cut(one, [name], switch.ports[port].since_ns)
        for end, name, leads_to in ((switch, port, (far, far_port)), (other, far_port, (number, port))):
            end.ports[name].is_edge = False
            end.links[name] = leads_to
        return self._changed()


def _source_rule(mac: str, port: int) -> Rule:
    """Return the rule by which frames of a station at its own port are no longer copied to the controller."""
    return Rule(SOURCES, 12, (("in_port", port), ("eth_src", mac)), goto=WAYS, is_learned=True)


def _base_rules(queues: Mapping[int, int]) -> Iterable[Rule]:
    """Yield the rules that every switch has before anything is known of it."""
    for dscp, queue in sorted(queues.items()):
        for kind in (_IPV4, _IPV6):
            yield Rule(QUEUES, 20, (("eth_type", kind), ("ip_dscp", dscp)), queue=queue, goto=SOURCES)
    for pcp in range(1, 8):
        yield Rule(QUEUES, 10, (("vlan_vid", (_TAGGED, _TAGGED)), ("vlan_pcp", pcp)), queue=pcp, goto=SOURCES)
    yield Rule(QUEUES, 0, goto=SOURCES)
    yield Rule(SOURCES, 30, (("eth_type", ETHERTYPE), ("eth_dst", str(NEIGHBOURS))), outputs=(TO_CONTROLLER,))
    yield Rule(SOURCES, 20, (("eth_dst", (_LINK_LOCAL, _LINK_LOCAL_MASK)),))
