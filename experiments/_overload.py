"""The overload of the WAN's experiments: a1 sends to b1 over the WAN as fast as it can, and so does b2, beside b1.

Not an experiment; only the lab can import it.
"""

from __future__ import annotations

from typing import Any

from testbed.net.flows import Flow, Flows
from testbed.net.traffic import ping
from testbed.units import Size

_FRAME = Size("1400B")
"""The headers of a tunnel of three segments, 96 octets, have to fit into the WAN's frames as well."""


def overload(net: Any, priority: int, frame: Size = _FRAME) -> Flows:
    """Both flows, a1's first, to be started; their hosts know the way then."""
    sources, target = [net[name] for name in ("a1", "b2")], net["b1"]
    for source in sources:
        ping(source, target)
    return Flows([Flow(source, target, priority, frame) for source in sources])
