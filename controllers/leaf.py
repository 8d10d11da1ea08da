"""The rules of the data centres' switches (OpenFlow 1.3): priorities to queues, learned forwarding, their links.

Sans-I/O: messages of a switch in, rules and frames for it out, as plain data. Two tables:

    0   the queue of a frame's priority: by DSCP if it is IP, else by the PCP of its tag; then table 1
    1   to the port where the destination was seen; else out of all ports, and to the controller, which learns

So no frame waits for the controller, nor is it the controller's when it leaves the switch, where cells and pauses
count it by the port that it came in by. Without a controller what is not known yet is flooded.

Rules name the port a frame comes in by, so a host that has moved is noticed at its first frame. A switch that comes
back to a new controller keeps the rules that it has learned, and so its traffic; a host that is seen for the first time
may be one that has moved meanwhile, so rules to it are forgotten then.

Each switch sends an LLDP frame out of each port as it comes up, so two that are connected find each other. They are
for a group of their own (802.1AB table 7-1: the nearest bridge that is no two-port relay), because the port's agent
speaks DCBX to the nearest bridge, and would there seem to be two. Other frames to link-local groups (PFC among them)
are never forwarded. A loop of switches is not looked for: build none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.frames import Mac
from testbed.frames.lldp import ETHERTYPE, NEAREST_BRIDGE, ChassisId, Lldpdu, LldpError, LldpFrame, PortId, parse
from testbed.srv6.controller.manager import Leaf

CLASS_SELECTORS: Mapping[int, int] = {dscp: dscp // 8 for dscp in range(8, 64)}
"""The queue of each DSCP whose queue is not 0."""

QUEUES, FORWARD = 0, 1  # tables
FLOOD, TO_CONTROLLER = -1, -2  # instead of a port
IDLE_S = 300
MOST_HOSTS = 4096
LLDP_TTL_S = 120
NEIGHBOURS = Mac.parse("01-80-C2-00-00-03")
"""The group address of the frames by which switches find each other."""

_IPV4, _IPV6, _TAGGED = 0x0800, 0x86DD, 0x1000
_LINK_LOCAL, _LINK_LOCAL_MASK = "01:80:c2:00:00:00", "ff:ff:ff:ff:ff:f0"
_ETHERNET_OCTETS = 14


@dataclass(frozen=True)
class Rule:
    """A flow entry; `match` is in OpenFlow's names."""

    table: int
    priority: int
    match: tuple[tuple[str, object], ...] = ()
    queue: int | None = None
    outputs: tuple[int, ...] = ()
    goto: int | None = None
    idle_s: int = 0


@dataclass(frozen=True)
class RemoveHost:
    """Remove the learned rules to this address."""

    destination: str


@dataclass(frozen=True)
class Send:
    """Send a frame of the controller's own out of a port."""

    output: int
    frame: bytes


Order = Rule | RemoveHost | Send


@dataclass
class _Switch:
    name: str
    ports: dict[int, tuple[str, bool, str]] = field(default_factory=dict)  # name, up, MAC
    hosts: dict[str, int] = field(default_factory=dict)  # MAC: port
    links: dict[int, tuple[int, int]] = field(default_factory=dict)  # port: switch and its port


class Leaves:
    """The switches, and what was learned from them."""

    def __init__(self, queues: Mapping[int, int] = CLASS_SELECTORS) -> None:
        self._queues = dict(queues)
        self._switches: dict[int, _Switch] = {}
        self.counters: Counter[str] = Counter()

    def connected(self, number: int, ports: Mapping[int, tuple[str, bool, str]], name: str = "") -> list[Order]:
        """Add a switch with its ports (name, up, MAC address), and return all that it is to do."""
        switch = self._switches[number] = _Switch(name or f"{number:016x}", dict(ports))
        return [*self.base_rules(), *(self._hello(number, port) for port in sorted(switch.ports) if ports[port][1])]

    def disconnected(self, number: int) -> None:
        self._switches.pop(number, None)

    def port(self, number: int, port: int, state: tuple[str, bool, str] | None) -> list[Order]:
        """Take in that a port is new, has changed, or (None) is gone."""
        switch = self._switches.get(number)
        if switch is None:
            return []
        if state is None:
            switch.ports.pop(port, None)
        else:
            switch.ports[port] = state
        if state is not None and state[1]:
            return [self._hello(number, port)]
        switch.links.pop(port, None)
        lost = [mac for mac, where in switch.hosts.items() if where == port]
        for mac in lost:
            del switch.hosts[mac]
        return [RemoveHost(mac) for mac in lost]

    def frame(self, number: int, port: int, frame: bytes) -> list[Order]:
        """Learn from a frame for which the switch had no rule."""
        switch = self._switches.get(number)
        if switch is None or len(frame) < _ETHERNET_OCTETS:
            self.counters["dropped too_short" if switch else "dropped no_switch"] += 1
            return []
        if frame[:6] == NEIGHBOURS.octets and frame[12:14] == ETHERTYPE.to_bytes(2):
            self._neighbour(number, port, frame)
            return []
        destination, source = _mac(frame[:6]), _mac(frame[6:12])
        orders: list[Order] = []
        if frame[6] & 1:
            self.counters["dropped group_source"] += 1
            return []
        known = switch.hosts.get(source)
        if known is None and len(switch.hosts) >= MOST_HOSTS:
            self.counters["not_learned table_full"] += 1
        elif known != port:
            switch.hosts[source] = port
            self.counters["learned" if known is None else "moved"] += 1
            orders.append(RemoveHost(source))
        target = None if frame[0] & 1 else switch.hosts.get(destination)
        if target is None:
            self.counters["flooded"] += 1
            return orders
        if target == port:
            self.counters["dropped same_port"] += 1
            return orders
        match = (("in_port", port), ("eth_src", source), ("eth_dst", destination))
        return [*orders, Rule(FORWARD, 10, match, outputs=(target,), idle_s=IDLE_S)]

    def facts(self, number: int) -> Leaf | None:
        """Return all that is known of a switch."""
        switch = self._switches.get(number)
        if switch is None:
            return None
        links = tuple(
            (port, self._switches[far].name, far_port)
            for port, (far, far_port) in sorted(switch.links.items())
            if far in self._switches
        )
        ports = tuple((port, name, up) for port, (name, up, _) in sorted(switch.ports.items()))
        at_links = set(switch.links)
        hosts = tuple(sorted((mac, port) for mac, port in switch.hosts.items() if port not in at_links))
        return Leaf(switch.name, ports, hosts, links)

    @property
    def numbers(self) -> list[int]:
        return sorted(self._switches)

    def base_rules(self) -> list[Rule]:
        """Return the rules that every switch has before anything is learned."""
        rules = [
            Rule(QUEUES, 20, (("eth_type", kind), ("ip_dscp", dscp)), queue=queue, goto=FORWARD)
            for dscp, queue in sorted(self._queues.items())
            for kind in (_IPV4, _IPV6)
        ]
        rules += [
            Rule(QUEUES, 10, (("vlan_vid", (_TAGGED, _TAGGED)), ("vlan_pcp", pcp)), queue=pcp, goto=FORWARD)
            for pcp in range(1, 8)
        ]
        return [
            *rules,
            Rule(QUEUES, 0, goto=FORWARD),
            Rule(FORWARD, 30, (("eth_type", ETHERTYPE), ("eth_dst", str(NEIGHBOURS))), outputs=(TO_CONTROLLER,)),
            Rule(FORWARD, 20, (("eth_dst", (_LINK_LOCAL, _LINK_LOCAL_MASK)),)),
            Rule(FORWARD, 0, outputs=(TO_CONTROLLER, FLOOD)),
        ]

    def _hello(self, number: int, port: int) -> Send:
        switch = self._switches[number]
        mac = Mac.parse(switch.ports[port][2])
        pdu = Lldpdu(ChassisId.local(f"xoff:{number:016x}"), PortId.interface(str(port)), LLDP_TTL_S)
        return Send(port, NEIGHBOURS.octets + LldpFrame(mac, pdu).encode()[6:])

    def _neighbour(self, number: int, port: int, frame: bytes) -> None:
        """Learn a link between two switches. LLDP of other senders is left alone."""
        try:
            parsed = parse(NEAREST_BRIDGE.octets + frame[6:])  # the group is all that differs
            chassis, far_port = str(parsed.pdu.chassis_id), int(str(parsed.pdu.port_id))
            far = int(chassis.removeprefix("xoff:"), 16) if chassis.startswith("xoff:") else -1
        except (LldpError, ValueError):
            far = -1
        switch = self._switches.get(far)
        if far == number or switch is None or far_port not in switch.ports:
            self.counters["lldp_of_others"] += 1
            return
        self.counters["lldp_parsed"] += 1
        self._switches[number].links[port] = (far, far_port)
        switch.links[far_port] = (number, port)


def _mac(octets: bytes) -> str:
    return octets.hex(":")
