"""Paths through a fabric: the ways that the forwarding tables give, with MTU, rate and SLs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from testbed.subjects.qos.fabric import EndPort, Fabric, PortKey
from testbed.subjects.qos.model import DROP_VL, SLS
from testbed.subjects.qos.setup import Crossing, Tables

MOST_HOPS = 64
_ALL_SLS = 0xFFFF
_MTU_OF_PORT_0 = 4096
_KEPT = 200_000
"""The most paths that are remembered. All are dropped when there are more."""


class Path(NamedTuple):
    """A path from an end port to a LID."""

    mtu: int  # bytes
    rate: int  # bit/s
    sls: int  # a bit for each SL that is mapped to VL15 nowhere on the way
    hops: int  # switches


class _Cable(NamedTuple):
    """The other end of a port's cable, and the abilities of both together."""

    node: str
    number: int
    mtu: int
    rate: int
    ends: bool  # not at a switch


@dataclass(frozen=True)
class NoPath:
    """The reason why there is no path."""

    reason: str


class Paths:
    """All paths of one fabric with one set of tables. It is made anew when either changes."""

    def __init__(self, fabric: Fabric, tables: Tables) -> None:
        self._fabric, self._tables = fabric, tables
        self._cables: dict[str, dict[int, _Cable]] = {name: {} for name in fabric.nodes}
        for (name, number), (far, far_number) in fabric.links.items():
            out, into = fabric.nodes[name].ports[number], fabric.nodes[far].ports[far_number]
            ends = not fabric.nodes[far].is_switch
            cable = _Cable(far, far_number, min(out.mtu, into.mtu), min(out.rate, into.rate), ends)
            self._cables[name][number] = cable
        self._known: dict[tuple[int, int], Path | NoPath] = {}
        self._sls: dict[Crossing, int] = {}
        for crossing, table in tables.sl2vl.items():
            if DROP_VL in table:
                self._sls[crossing] = sum(1 << sl for sl in SLS if table[sl] != DROP_VL)

    def path(self, source: EndPort, lid: int) -> Path | NoPath:
        key = source.index, lid
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = self._walk(source, lid)
        return found

    def dropping(self, source: EndPort, lid: int, sl: int) -> str:
        """Return the place where packets of an SL are mapped to VL15, for a message."""
        for crossing in self._crossings(source, lid):
            if not self._sls.get(crossing, _ALL_SLS) >> sl & 1:
                inwards = f"from port {crossing.input} to " if crossing.input else ""
                return f"{crossing.node}, {inwards}port {crossing.output}"
        return "nowhere"

    def _walk(self, source: EndPort, lid: int) -> Path | NoPath:
        fabric, sls_at = self._fabric, self._sls
        destination = fabric.by_lid.get(lid)
        if destination is None:
            return NoPath(f"there is no port with LID {lid}")
        mtu, rate, sls, hops = 1 << 30, 1 << 62, _ALL_SLS, 0
        if source.key == destination.key:
            port = fabric.port(source.key)
            return Path(port.mtu, port.rate, sls, 0) if port else Path(_MTU_OF_PORT_0, rate, sls, 0)
        here, input_port, output = source.key.node, 0, source.key.number
        while True:
            if (forwarding := fabric.forwarding.get(here)) is not None:
                leads_to = forwarding.get(lid)
                if leads_to is None:
                    return NoPath(f"switch {here} has no forwarding entry for LID {lid}")
                if leads_to == 0:
                    arrived = here == destination.key.node
                    return Path(mtu, rate, sls, hops) if arrived else NoPath(f"LID {lid} ends in switch {here}")
                output = leads_to
                hops += 1 if input_port else 0
                if hops > MOST_HOPS:
                    return NoPath(f"the forwarding tables lead LID {lid} in a circle")
            if sls_at:
                sls &= sls_at.get(Crossing(here, input_port, output), _ALL_SLS)
            cable = self._cables[here].get(output)
            if cable is None:
                return NoPath(f"port {output} of {here} has no cable")
            here, input_port, cable_mtu, cable_rate, ends = cable
            mtu, rate = cable_mtu if cable_mtu < mtu else mtu, cable_rate if cable_rate < rate else rate
            if ends:
                if (here, input_port) == destination.key:
                    return Path(mtu, rate, sls, hops)
                return NoPath(f"LID {lid} ends in {here}")

    def _crossings(self, source: EndPort, lid: int) -> list[Crossing]:
        """Return the way of a path that exists."""
        found: list[Crossing] = []
        here, input_port, output = source.key.node, 0, source.key.number
        while len(found) <= MOST_HOPS:
            node = self._fabric.nodes[here]
            if node.is_switch:
                output = self._fabric.forwarding[here][lid]
            elif input_port:
                break
            far = self._fabric.links.get(PortKey(here, output)) if output else None
            if far is None:
                break
            found.append(Crossing(here, input_port, output))
            here, input_port = far
        return found
