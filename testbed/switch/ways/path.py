"""The way of one flow through a network, hop by hop, as the reference of equal ways chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.switch.ways.model import Fields, hash_of
from testbed.switch.ways.network import Switch, Way
from testbed.switch.ways.settings import By, HashField, Ways

_NOT_BY_FLOW = {
    By.FLOWLET: "a flow takes one that is drawn by chance, again after each silence of {gap}",
    By.ADAPTIVE_FLOWLET: "a flow takes the least loaded one, again after each silence of {gap}",
    By.SPRAY: "each frame takes the next one, whatever its flow",
    By.RANDOM: "each frame takes one that is drawn by chance, whatever its flow",
    By.LEAST_LOADED: "each frame takes the least loaded one, whatever its flow",
    By.RULE: "a rule of one's own chooses one for each frame",
}


@dataclass(frozen=True)
class Hashed:
    """The hash of a flow at a switch: the fields as text, the seed, and the value."""

    fields: Mapping[str, str]
    seed: int
    value: int


@dataclass(frozen=True)
class Hop:
    """A switch on the way of a flow, the ways among which it chooses, and the one that it takes."""

    switch: str
    ways: tuple[Way, ...]
    chosen: Way | None
    """None if the switch has lost all of them, or does not choose by the flow."""
    why: str
    """The reason in words."""
    hashed: Hashed | None = None
    """The hashed fields and the hash, where it decides."""


@dataclass(frozen=True)
class FlowPath:
    """The way of a flow from one station to another."""

    source: str
    target: str
    fields: Fields
    hops: tuple[Hop, ...]
    first_port: str
    """The port by which the source sends."""

    @property
    def is_known(self) -> bool:
        """True if the flow has one way, all of which is known."""
        return bool(self.hops) and all(hop.chosen is not None for hop in self.hops)

    @property
    def ports(self) -> list[str]:
        """The ports by which the flow's frames leave each node, as far as they are known."""
        return [self.first_port, *(hop.chosen.port for hop in self.hops if hop.chosen is not None)]

    @property
    def nodes(self) -> list[str]:
        """The nodes that the flow's frames pass, as far as they are known."""
        if not self.hops:
            return [self.source]
        behind = [hop.chosen.neighbour for hop in self.hops if hop.chosen is not None]
        return [self.source, self.hops[0].switch, *behind]

    def __str__(self) -> str:
        lines = [f"{self.source} -> {self.target}: {' -> '.join(self.nodes)}{'' if self.is_known else ' -> ?'}"]
        shown = None
        for hop in self.hops:
            lines.append(f"{hop.switch}: {hop.why}")
            if hop.hashed is not None and hop.hashed.fields != shown:
                lines.append("  fields: " + ", ".join(f"{name} {value}" for name, value in hop.hashed.fields.items()))
                shown = hop.hashed.fields
            if len(hop.ways) > 1:
                lines += [f"  {_mark(way, hop)} {way.port} to {way.neighbour}{_remark(way)}" for way in hop.ways]
        return "\n".join(lines)


def _mark(way: Way, hop: Hop) -> str:
    return "*" if way is hop.chosen else " "


def _remark(way: Way) -> str:
    return f"{f', weight {way.weight}' if way.weight > 1 else ''}{'' if way.is_there else ', lost: no carrier'}"


def path(switches: Mapping[str, Switch], source: str, target: str, first: tuple[str, str], fields: Fields) -> FlowPath:
    """Return the way of a flow; `first` has the port by which its source sends, and the node at its other end."""
    first_port, at = first
    hops: list[Hop] = []
    while at in switches and len(hops) <= len(switches):
        hop = _hop(at, switches[at], target, fields)
        hops.append(hop)
        if hop.chosen is None:
            break
        at = hop.chosen.neighbour
    return FlowPath(source, target, fields, tuple(hops), first_port)


def by_frame(switches: Mapping[str, Switch], first: str, target: str) -> dict[str, By]:
    """Return the switches on all ways of a flow that give each frame a way of its own, with their rules."""
    found: dict[str, By] = {}
    reached = dict.fromkeys([first])
    for name in (waiting := list(reached)):
        if name not in switches:
            continue
        ways, settings = switches[name].ways.get(target, ()), switches[name].settings
        if len(ways) > 1 and settings is not None and settings.is_by_frame:
            found[name] = By(settings.by)
        for way in ways:
            if way.neighbour not in reached:
                reached[way.neighbour] = None
                waiting.append(way.neighbour)
    return found


def _hop(name: str, switch: Switch, target: str, fields: Fields) -> Hop:
    ways = switch.ways.get(target, ())
    if not ways:
        return Hop(
            name,
            (),
            None,
            f"has no way to {target} through switches; behind a router net.path knows the way, in a network that runs",
        )
    if len(ways) == 1:
        reason = switch.reasons.get(target, "it is the only shortest way")
        return Hop(name, ways, ways[0], f"{ways[0].port} to {ways[0].neighbour}: {reason}")
    assert switch.settings is not None, "without settings the number of the host has chosen"
    settings, many = switch.settings, f"{len(ways)} ways"
    if not switch.hashes:
        why = _NOT_BY_FLOW[By(settings.by)].format(gap=settings.gap)
        return Hop(name, ways, None, f"has {many}, and by the rule {str(settings.by)!r} {why}")
    value, table = hash_of(fields.words(), settings.mask, switch.seed), switch.table(ways)
    hashed = Hashed(_shown(settings, fields), switch.seed, value)
    if not table:
        return Hop(name, ways, None, f"has lost all of its {many}: its frames are dropped", hashed)
    place = value % len(table)
    chosen = ways[table[place]]
    entry = "" if table == tuple(range(len(ways))) else f", where the table has way {table[place]}"
    why = f"hash {value:#010x} with seed {switch.seed:#010x}; modulo {len(table)} it is {place}{entry}: {chosen.port}"
    return Hop(name, ways, chosen, f"{why} to {chosen.neighbour}, one of {many}", hashed)


def _shown(settings: Ways, fields: Fields) -> dict[str, str]:
    """Return the fields that a switch hashes, as text."""
    values = {
        HashField.SOURCE: fields.source or "none",
        HashField.DESTINATION: fields.destination or "none",
        HashField.PROTOCOL: str(fields.protocol),
        HashField.SOURCE_PORT: str(fields.source_port),
        HashField.DESTINATION_PORT: str(fields.destination_port),
        HashField.FLOW_LABEL: str(fields.flow_label),
        HashField.QUEUE_PAIR: str(fields.queue_pair),
        HashField.SOURCE_MAC: fields.source_mac.hex(":"),
        HashField.DESTINATION_MAC: fields.destination_mac.hex(":"),
    }
    return {
        str(one.name).lower().replace("_", " ").replace("mac", "MAC"): text
        for one, text in values.items()
        if one in settings.mask
    }
