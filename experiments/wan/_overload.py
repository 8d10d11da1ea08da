"""The overload of the WAN's experiments: a1 sends to b1 over the WAN as fast as it can, and so does b2, beside b1.

Not an experiment.
"""

from xoff import Duration, Flow, Flows, Network, Size, ping

_CELL = 208
_FRAME = Size("1400B")
"""The headers of a tunnel of three segments, 96 octets, have to fit into the WAN's frames as well."""


def long(net: Network, edge: str, priority: int) -> Duration:
    """Return the time until this overload has filled the cells of an edge's port for the priority without
    back-pressure, and twice the way there and back on top.
    """
    fabric = net.fabric
    port, limits = fabric.port(edge), fabric.limits(edge, priority)
    room = Size.from_bytes((limits.headroom + limits.static) * _CELL)
    excess = port.cable.rate // 2  # the other half fits beside what b2 sends
    ways = [one.cable.delay for one in fabric.ports.values() if not one.slot & 1]
    return excess.time_for(room) + sum(ways, Duration("0s")) * 4


def overload(net: Network, priority: int, frame: Size = _FRAME) -> Flows:
    """Resolve the neighbours, and return both flows, a1's first; entering them starts them."""
    sources, target = [net[name] for name in ("a1", "b2")], net["b1"]
    for source in sources:
        ping(source, target)
    return Flows([Flow(source, target, priority, frame) for source in sources])
