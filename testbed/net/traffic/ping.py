"""The round trip between two hosts. Only the lab can run it."""

from __future__ import annotations

import re
import time
from typing import Any

from testbed.errors import XoffError
from testbed.net.fabric.core import FabricCore
from testbed.units import Duration, Scale

_ONE_PING = Duration("1s")
_AGAIN_S = 0.1


class PingError(XoffError):
    """A host that does not answer."""


def ping(source: Any, target: Any, wait: Duration | None = None) -> Duration:
    """Return the round trip of one ping, after which all neighbours on the path are resolved. PingError: no answer.

    It is that of the modelled hardware, as `wait` is. By default it waits as long as the lossless cables of the network
    need if each is crossed a dozen times: hop by hop, the kernels look for their neighbours' addresses first, and give
    up sooner than a long cable has an answer.
    """
    units = _units(source)
    patience = units.lab(wait) if wait else _ONE_PING + _ways(FabricCore.running()) * 12
    deadline = time.monotonic() + patience.ns / 1e9
    output = "none"
    while (left := deadline - (begun := time.monotonic())) > 0:
        found, output = _ping(source, target, left)
        if found is not None:
            return units.nearest_real(found)
        # One without a route fails at once. Where programs take no time, there would be thousands until the deadline.
        again = min(begun + _AGAIN_S, deadline)
        time.sleep(max(0.0, again - time.monotonic()))
    address = FabricCore.current().ports.node(target).IP()
    within = units.nearest_real(patience)
    raise PingError(f"{source} gets no answer from {target} ({address}) within {within}: {output}")


def probe(source: Any, target: Any, wait: Duration | None = None) -> Duration | None:
    """Return the round trip of one ping, or None if there was no answer within a second of the lab, or `wait`."""
    units = _units(source)
    found = _ping(source, target, (units.lab(wait) if wait else _ONE_PING).ns / 1e9)[0]
    return None if found is None else units.nearest_real(found)


def _units(source: Any) -> Scale:
    fabric = FabricCore.current()
    return fabric.ports.units_at(fabric.ports.node(source))


def _ping(source: Any, target: Any, seconds: float) -> tuple[Duration | None, str]:
    source, target = FabricCore.current().ports.node(source), FabricCore.current().ports.node(target)
    answer = source.cmd("ping", "-c", "1", "-W", f"{max(seconds, 0.001):.3f}", target.IP())
    found = re.search(r"time=([0-9.]+) ms", answer)
    lines = [line.strip() for line in answer.split("\n") if line.strip() and not line.startswith("PING ")]
    output = " ".join(lines)
    return Duration(f"{found[1]}ms") if found else None, output


def _ways(fabric: FabricCore | None) -> Duration:
    """The delay of all cables together: no way in the network is longer."""
    ports = fabric.ports if fabric else ()
    return sum((port.lab_cable.delay for port in ports if not port.slot & 1), Duration("0s"))
