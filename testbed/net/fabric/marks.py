"""A check whether any port on the way of packets marks or stamps them, as their rate control needs it.

The way follows the forwarding tables with which switches are filled. At each port on it, the reference of the port
program (`testbed.switch.priority`) classifies a packet, by the port's own trust and tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from testbed.net.fabric.ports import PortState, PortTable, forwards, is_leaf
from testbed.switch.ecn.curve import LONGEST_QUEUE
from testbed.switch.priority.classify import classify, rewrite
from testbed.switch.priority.marking import mark
from testbed.switch.priority.settings import PriorityMap

_BEFORE_DS_FIELD, _BEHIND_IT = bytes(12) + b"\x08\x00\x45", bytes(18)


@dataclass(frozen=True)
class Unmarked:
    """The finding that no port on the way of some packets marks them."""

    priority: int
    """The queue of the packets at the last switch on the way."""
    ports: tuple[PortState, ...]
    """The ports of switches and routers by which the packets leave."""


@dataclass(frozen=True)
class Place:
    """A port on the way, and the queue in which the packets wait there."""

    port: PortState
    queue: int | None
    """The queue's number, or None if it is not known in advance."""

    @property
    def marks(self) -> bool:
        """True if the port marks packets in that queue, or could mark them."""
        assert self.port.settings is not None
        curves = self.port.settings.ecn
        return any(curve.kmin < LONGEST_QUEUE for queue, curve in curves.items() if self.queue in (None, queue))


def unmarked(table: PortTable, source: str, target: str, priority: int, ds_field: int) -> Unmarked | None:
    """Return the ports on the way between two hosts if none marks packets of this socket priority and DS field.

    Returns None if one does, or if one could, because the packets' queue there is not known in advance. If the way is
    not known, all ports of the network count.
    """
    way = table.graph.way(source, target)
    if way is None:  # routers forward by routes, and packets can have another DSCP behind them
        found = [Place(port, None) for port in table if forwards(port.node)]
    else:
        found = list(places(table, way, priority, ds_field))
    if any(place.marks for place in found):
        return None
    known = [place.queue for place in found if place.queue is not None]
    return Unmarked(known[-1] if known else priority, tuple(one.port for one in found if forwards(one.port.node)))


def unstamped(table: PortTable, source: str, target: str) -> tuple[PortState, ...] | None:
    """Return the ports on the way between two hosts that could stamp telemetry, if none does; None if one does."""
    way = table.graph.way(source, target)
    known = list(table) if way is None else [table.port(name) for name in way]
    ports = tuple(port for port in known if forwards(port.node))
    return None if any(port.settings is not None and port.settings.telemetry for port in ports) else ports


def places(table: PortTable, way: Sequence[str], priority: int, ds_field: int) -> Iterator[Place]:
    """Yield the ports of a way, each with the queue of packets of this socket priority and DS field."""
    leaving = [table.port(name) for name in way]
    marked = mark(_BEFORE_DS_FIELD + bytes([ds_field]) + _BEHIND_IT, priority, _priorities(leaving[0]))
    frame = marked.frame
    yield Place(leaving[0], marked.local)
    for before, port in pairwise(leaving):
        coming = _priorities(table.far_end(before))
        queue, frame = classify(frame, coming).local, rewrite(frame, coming)
        assert port.settings is not None
        is_chosen_elsewhere = is_leaf(port.node) or port.settings.dcbx or port.settings.vls is not None
        yield Place(port, None if is_chosen_elsewhere else queue)


def _priorities(port: PortState) -> PriorityMap:
    assert port.settings is not None
    return port.settings.priorities
