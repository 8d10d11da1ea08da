"""The equal ways of a network's switches: made of the topology and the settings, and put into the port program.

Stations that a switch reaches by the same ports share a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from testbed.agent.pfc.lost_ways import WaysPlan
from testbed.errors import UsageError, listed, warn
from testbed.experiment.run import Run
from testbed.linux.netlink.qdiscs import WIRE_OVERHEAD
from testbed.linux.port_program import PortProgram
from testbed.linux.port_program.records import MEMBERS, TABLE
from testbed.net.fabric.ports import PortState, PortTable, is_leaf
from testbed.net.fabric.routes import Graph, has_equal_routes
from testbed.switch.ways.network import Switch, seed_in_force, settings_in_force
from testbed.switch.ways.polarisation import polarisation
from testbed.switch.ways.settings import By, Ways, WaysSource
from testbed.units import Size

if TYPE_CHECKING:
    from testbed.net.fabric.rules.at_switches import SwitchRules

CODES = {
    By.HASH: 0, By.RESILIENT: 0, By.FLOWLET: 1, By.ADAPTIVE_FLOWLET: 2, By.SPRAY: 3, By.RANDOM: 4, By.LEAST_LOADED: 5,
    By.RULE: 6,
}  # fmt: skip
"""The numbers of the rules in the port program; a resilient table is a matter of the table alone."""
_FRAME = 1514
_SEED = 1
"""The seed of a network outside of a run, as in the shell."""


@dataclass(frozen=True)
class WayCount:
    """The frames and octets that one of the equal ways of a switch was given."""

    port: str
    is_there: bool
    """False while the port has no carrier, and the switch has noticed."""
    frames: int
    octets: int


def _asked_of(node: Any) -> Ways | None:
    """Return the settings of a switch, or None if the number of the host decides."""
    return settings_in_force(node.params.get("ways"))


def _run_seed() -> int:
    run = Run.current()
    return run.seed if run else _SEED


class SwitchWays:
    """The groups of equal ways of all switches of a network."""

    def __init__(self, ports: PortTable, program: PortProgram, graph: Graph) -> None:
        self._ports, self._program, self._graph = ports, program, graph
        self.plans: dict[str, list[WaysPlan]] = {}
        """The groups of each switch."""
        self.group_of: dict[str, dict[str, int]] = {}
        """The group by which each switch reaches a station."""
        self._without: dict[Ways, list[str]] = {}
        """The switches without a choice whose topology was given these settings."""
        self._own_without: dict[Ways, list[str]] = {}
        """The switches without a choice that were given these settings themselves."""
        self._of_routers: dict[Ways, list[str]] = {}
        """The routers with a choice, by their settings."""
        self._leaves: list[str] = []
        self.rules: SwitchRules | None = None
        """The rules of one's own by which switches choose, if there are any."""

    def make_groups(self, node: Any, equal: Mapping[str, tuple[str, ...]]) -> None:
        """Make the groups of a switch; `equal` has the ports for each station that it reaches by several."""
        settings = _asked_of(node)
        if settings is None:
            return
        if not equal:
            source = node.params.get("ways_source", WaysSource.SWITCH)
            if source is not WaysSource.DEFAULT:
                without = self._own_without if source is WaysSource.SWITCH else self._without
                without.setdefault(settings, []).append(node.name)
            return
        seed = seed_in_force(settings, _run_seed(), node.name)
        groups: dict[tuple[str, ...], WaysPlan] = {}
        rule = self._rule_of(node.name, settings, self._ports.port(next(iter(equal.values()))[0]))
        for ports in dict.fromkeys(equal.values()):
            groups[ports] = self._group(node.name, settings, seed, [self._ports.port(name) for name in ports], rule)
        self.plans[node.name] = list(groups.values())
        self.group_of[node.name] = {station: groups[ports].number for station, ports in equal.items()}

    def note_leaf(self, node: Any) -> None:
        """Note a leaf, which forwards by Open vSwitch, if it has settings of equal ways."""
        if _asked_of(node) is not None and node.params.get("ways_source") is not WaysSource.DEFAULT:
            self._leaves.append(node.name)

    def note_router(self, node: Any) -> None:
        """Note what a router has settings for: its routes, which Linux chooses among by a hash of each flow."""
        settings, source = _asked_of(node), node.params.get("ways_source", WaysSource.SWITCH)
        if settings is None or source is WaysSource.DEFAULT:
            return
        if not has_equal_routes(node.params):
            without = self._own_without if source is WaysSource.SWITCH else self._without
            without.setdefault(settings, []).append(node.name)
            return
        self._of_routers.setdefault(settings, []).append(node.name)

    def _rule_of(self, switch: str, settings: Ways, first: PortState) -> int:
        """Return the number of the rule of one's own by which a switch chooses; 0 if it has none."""
        if settings.rule is None:
            return 0
        # Read here: a module takes the lab's time, and other networks would begin later.
        from testbed.net.fabric.rules.at_switches import SwitchRules

        self.rules = self.rules or SwitchRules()
        return self.rules.add(switch, settings.rule, first, _run_seed())

    def _group(self, switch: str, settings: Ways, seed: int, ports: list[PortState], rule: int) -> WaysPlan:
        weights = self._weights(switch, settings, ports)
        if len(ports) > MEMBERS:
            raise UsageError(f"{switch} has {len(ports)} equal ways to a host; it can choose among {MEMBERS} at most")
        entries = settings.buckets if settings.by is By.RESILIENT else sum(weights)
        if entries > TABLE:
            raise UsageError(f"the weights of {switch} have a sum of {entries}; divide them, {TABLE} is the most")
        if settings.by is By.RESILIENT and settings.buckets < sum(weights):
            need = f"{sum(weights)} or more are needed"
            raise UsageError(f"Ways: {switch} has a table of {settings.buckets} buckets for all its ways; {need}")
        units = ports[0].units
        gap, half_life, gone_after = settings.times()
        if settings.by in (By.FLOWLET, By.ADAPTIVE_FLOWLET):
            for port in ports:
                frame = units.real(port.lab_cable.rate).time_for(Size.from_bytes(_FRAME + WIRE_OVERHEAD))
                if gap < frame:
                    advice = f"{port.name} takes {frame} for a frame, so that each frame would be a flowlet; write more"
                    raise UsageError(f"Ways: gap is {settings.gap}; {advice}, or by='random'")
        number = self._program.ways.add(
            CODES[By(settings.by)],
            int(settings.mask),
            seed,
            (units.lab(gap).ns, units.lab(half_life).ns),
            [port.slot for port in ports],
            rule=rule,
        )
        plan = WaysPlan(number, settings, weights, tuple(port.slot for port in ports), units.lab(gone_after).ns)
        plan.put(self._program.ways)
        return plan

    def _weights(self, switch: str, settings: Ways, ports: list[PortState]) -> tuple[int, ...]:
        neighbours = [self._ports.far_end(port).node.name for port in ports]
        return tuple(settings.weights.get(name, 1) for name in neighbours)

    def warn(self) -> None:
        """Warn of settings without effect, once all switches have their groups."""
        used = [plan.settings for plans in self.plans.values() for plan in plans] + list(self._of_routers)
        for settings, routers in self._of_routers.items():
            if settings.by is not By.HASH:
                rule = f"ways={str(settings.by)!r} has no effect at {listed(routers)}"
                warn(f"{rule}: Linux hashes each flow to one of a router's equal routes ('hash')")
        for settings in dict.fromkeys([*self._without, *self._own_without, *used]):
            if unused := settings.unused():
                have = "has" if len(unused) == 1 else "have"
                warn(f"Ways(by={str(settings.by)!r}): {' and '.join(unused)} {have} no effect with this rule")
        for settings, switches in self._without.items():
            if not used:
                warn(f"ways={str(settings.by)!r} has no effect: {switches[0]} and all others have one way to each host")
        for settings, switches in self._own_without.items():
            have = "has" if len(switches) == 1 else "have"
            rule = f"ways={str(settings.by)!r} has no effect at {' and '.join(switches)}"
            warn(f"{rule}, which {have} one way to each host; leave it out there")
        if self._leaves:
            warn(f"ways has no effect at {' and '.join(self._leaves)}, where Open vSwitch forwards as it is told")
        known = {far for node in self._graph.forwarding for _, far in self._graph.neighbours[node]}
        for name in dict.fromkeys(name for settings in used for name in settings.weights):
            if name not in known:
                warn(f"Ways: the weight of {name} has no effect: no switch has such a neighbour")

        self._warn_of_polarisation()

    def _warn_of_polarisation(self) -> None:
        """Warn if switches choose by the hash by which others before them have chosen.

        Whether two switches hash alike is seen from their plans, so that a network in which none do loses no time.
        """
        keys = []
        for name, (plan, *_) in self.plans.items():
            if plan.settings.by in (By.HASH, By.RESILIENT):
                keys.append((plan.settings.mask, seed_in_force(plan.settings, _run_seed(), name)))
        if len(keys) > len(set(keys)) and (found := polarisation(self.switches(), self._graph.entries())):
            warn(str(found))

    def switches(self) -> dict[str, Switch]:
        """Return the switches with their ways, and which of these they have left."""
        left = {count.port for name in self.plans for count in self.counts(name) if not count.is_there}
        nodes = {port.node.name: port.node for port in self._ports}
        return self._graph.switches(
            lambda name: None if is_leaf(nodes[name]) else _asked_of(nodes[name]),
            _run_seed(),
            lambda port: port not in left,
        )

    def frames(self, switch: str, station: str) -> dict[str, int]:
        """Return the frames to a station, and to others with the same ways, that a switch gave to each neighbour."""
        number = self.group_of.get(switch, {}).get(station)
        plan = next((one for one in self.plans.get(switch, ()) if one.number == number), None)
        if plan is None:
            return {}
        ends = [self._ports.far_end(self._ports.by_slot[slot]).node.name for slot in plan.slots]
        counters = self._program.ways.counters(plan.number)
        return {end: counted.frames for end, counted in zip(ends, counters, strict=True)}

    def counts(self, switch: str) -> list[WayCount]:
        """Return what each way of a switch was given, over all its groups."""
        by_way: dict[int, WayCount] = {}
        for plan in self.plans.get(switch, ()):
            for slot, counted in zip(plan.slots, self._program.ways.counters(plan.number), strict=True):
                name = self._ports.by_slot[slot].name
                one = by_way.get(slot, WayCount(name, True, 0, 0))
                by_way[slot] = WayCount(
                    name, one.is_there and counted.is_there, one.frames + counted.frames, one.octets + counted.octets
                )
        return list(by_way.values())
