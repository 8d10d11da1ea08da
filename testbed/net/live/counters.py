"""The counters of a live view's network, as metrics have them: read from the port program's memory, in octets.

Pauses are not among them: whoever reads the events of a live view can count them. A row has the values of one port or
pool since the network started, and comes when one of them has changed.
"""

from __future__ import annotations

from typing import Any

from testbed.linux.port_program import POOLS
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState

_SHARED, _HEADROOM = 1, 2
_PRIORITIES = range(8)


class CounterSampler:
    """Samples the counters of all ports and pools; it makes no system call."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._before: dict[str, dict[str, Any]] = {}

    def changes(self) -> list[dict[str, Any]]:
        """Return a row for each port, and for each pool of a switch, whose values are not those of the last call."""
        rows = [self._port(port) for port in self._fabric.ports.values()]
        for name in self._fabric.buffers:
            rows += self._pools(name)
        changed = [row for row in rows if self._before.get(row["of"]) != row]
        self._before |= {row["of"]: row for row in changed}
        return changed

    def _port(self, port: PortState) -> dict[str, Any]:
        sent = self._fabric.sent(port.name)
        row: dict[str, Any] = {
            "of": port.name,
            "sent_frames": list(sent.sent_frames),
            "sent_bytes": list(sent.sent_bytes),
            "blocked_frames": list(sent.blocked_frames),
            "queued_bytes": list(sent.queued_bytes),
            "most_queued_bytes": list(sent.most_queued_bytes),
        }
        settings = self._fabric.buffers.get(port.node.name)
        if settings is not None:
            cell, groups = settings.cell_bytes, [self._fabric.group(port.name, number) for number in _PRIORITIES]
            row |= {
                "admitted_frames": [one.admitted_frames for one in groups],
                "dropped_frames": [sum(one.dropped_frames) for one in groups],
                "shared_bytes": [one.used[_SHARED] * cell for one in groups],
                "headroom_bytes": [one.used[_HEADROOM] * cell for one in groups],
                "most_shared_bytes": [one.high_water[_SHARED] * cell for one in groups],
                "most_headroom_bytes": [one.high_water[_HEADROOM] * cell for one in groups],
                "queue_dropped_frames": [self._fabric.queue(port.name, one).dropped_frames for one in _PRIORITIES],
            }
        return row

    def _pools(self, node: str) -> list[dict[str, Any]]:
        settings, pools = self._fabric.buffers[node], self._fabric.pools(node)
        places = [*range(len(settings.pools)), *(POOLS + number for number in range(len(settings.egress_pools)))]
        return [
            {
                "of": f"{node} pool {place}",
                "node": node,
                "pool": f"{'ingress' if place < POOLS else 'egress'}_pool_{place % POOLS}",
                "shared_bytes": pools[place].used[_SHARED] * settings.cell_bytes,
                "most_shared_bytes": pools[place].high_water[_SHARED] * settings.cell_bytes,
            }
            for place in places
        ]
