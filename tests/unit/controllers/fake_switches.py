"""Switches that carry out the controller's orders, joined by cables; a frame goes on until all copies have arrived."""

from __future__ import annotations

from collections import deque

from controllers.leaf import NEIGHBOURS, SETTLE_NS, Leaves
from controllers.orders import (
    SOURCES,
    TO_CONTROLLER,
    WAYS,
    ForgetSources,
    Group,
    Orders,
    Remove,
    Replace,
    Rule,
    Send,
)  # fmt: skip
from testbed.frames import Mac
from testbed.frames.lldp import ETHERTYPE

MOST_HOPS = 200
End = tuple[int, int]
"""A switch and its port."""


def frame(source: str, destination: str, kind: int = 0x0800) -> bytes:
    return Mac.parse(destination).octets + Mac.parse(source).octets + kind.to_bytes(2) + bytes(46)


def mac_of(end: End) -> str:
    """Return the address of the station at a port."""
    return f"02:00:00:00:{end[0]:02x}:{end[1]:02x}"


class FakeSwitches:
    """Switches with `ports` ports each. Ports without a cable have a station."""

    def __init__(self, ports: dict[int, int], cables: list[tuple[End, End]]) -> None:
        self.leaves = Leaves(seed=1)
        self.now_ns = 0
        self.rules: dict[int, dict[tuple[object, ...], Rule]] = {number: {} for number in ports}
        self.groups: dict[int, dict[int, Group]] = {number: {} for number in ports}
        self.cables: dict[End, End] = {}
        for one, other in cables:
            self.cables |= {one: other, other: one}
        self.down: set[End] = set()
        self.ends = [(number, port) for number in ports for port in range(1, ports[number] + 1)]
        self.stations = [end for end in self.ends if end not in self.cables]
        self.arrived: list[End] = []
        self.passed: list[End] = []
        """The ports of switches that frames left by."""
        self._asked: deque[tuple[int, int, bytes]] = deque()

    def connect(self, *numbers: int) -> None:
        for number in numbers:
            ports = {port: self._state((one, port)) for one, port in self.ends if one == number}
            self.obey(self.leaves.connected(number, ports, self.now_ns, f"s{number}"))

    def settle(self) -> None:
        """Let the time pass that the controller waits for LLDP."""
        for _ in range(2):
            self.now_ns += SETTLE_NS
            self.obey(self.leaves.poll(self.now_ns))

    def pull(self, end: End) -> None:
        """Pull a cable; both switches tell of it."""
        both = (end, self.cables[end])
        self.down |= set(both)
        for number, port in both:
            self.obey(self.leaves.port(number, port, self._state((number, port)), self.now_ns))

    def plug(self, end: End) -> None:
        both = (end, self.cables[end])
        self.down -= set(both)
        for number, port in both:
            self.obey(self.leaves.port(number, port, self._state((number, port)), self.now_ns))

    def send(self, end: End, destination: str) -> list[End]:
        """Send a frame from a station, and return the stations at which it arrives."""
        self.arrived, self.passed = [], []
        self._run(*end, frame(mac_of(end), destination))
        while self._asked:
            self.obey(self.leaves.frame(*self._asked.popleft()))
        return sorted(self.arrived)

    def obey(self, orders: Orders) -> None:
        for number, order in orders:
            rules, groups = self.rules[number], self.groups[number]
            match order:
                case Rule():
                    rules[order.key] = order
                case Group() | Replace():
                    group = order.group if isinstance(order, Replace) else order
                    assert group.ports and (isinstance(order, Group) or group.number in groups)
                    groups[group.number] = group
                case Remove(Rule() as rule):
                    del rules[rule.key]
                case Remove(Group() as group):
                    del groups[group.number]
                    assert all(rule.group != group.number for rule in rules.values())
                case ForgetSources():
                    self.rules[number] = {key: rule for key, rule in rules.items() if not rule.is_learned}
                case Send():
                    self._leave(number, order.output, order.frame)
        while self._asked:
            self.obey(self.leaves.frame(*self._asked.popleft()))

    def _run(self, number: int, port: int, octets: bytes) -> None:
        """Handle a frame that comes in by a port."""
        fields = {
            "in_port": port, "eth_src": octets[6:12].hex(":"), "eth_dst": octets[:6].hex(":"),
            "eth_type": int.from_bytes(octets[12:14]),
        }  # fmt: skip
        table: int | None = SOURCES
        while table is not None:
            fitting = [
                rule
                for rule in self.rules[number].values()
                if rule.table == table and all(fields.get(name) == wanted for name, wanted in rule.match)
            ]
            rule = max(fitting, key=lambda rule: rule.priority, default=None)
            if rule is None:
                return
            outputs = list(rule.outputs)
            if rule.group is not None:
                alive = [one for one in self.groups[number][rule.group].ports if (number, one) not in self.down]
                outputs += alive[:1]
            for output in outputs:
                if output == TO_CONTROLLER:
                    self._asked.append((number, port, octets))
                elif output != port:
                    self._leave(number, output, octets)
            assert rule.goto in (None, WAYS)
            table = rule.goto

    def _leave(self, number: int, port: int, octets: bytes) -> None:
        end = number, port
        if end in self.down:
            return
        self.passed.append(end)
        assert len(self.passed) < MOST_HOPS * len(self.ends), "frames go round a loop"
        if end in self.cables:
            self._run(*self.cables[end], octets)
        elif octets[:6] != NEIGHBOURS.octets or octets[12:14] != ETHERTYPE.to_bytes(2):
            self.arrived.append(end)

    def _state(self, end: End) -> tuple[str, bool, str]:
        number, port = end
        return f"s{number}-eth{port}", end not in self.down, f"02:00:00:01:{number:02x}:{port:02x}"
