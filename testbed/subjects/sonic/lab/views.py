"""The views of a SONiC switch, with the same columns: PFC, priority groups, queues, pools, watchdog.

Ports have their SONiC names where the network was made of config_db.json files, and the lab's otherwise. Counters are
those of the lab's switch. Watermarks are in bytes, as cells in use times their size. Times are those of the hardware:
the lab's, divided by the scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError, listed, nearest
from testbed.linux.port_program import POOLS, Watermark
from testbed.net.fabric.fabric import Fabric
from testbed.net.fabric.ports import PortState

_PRIORITIES = range(8)
_KINDS = {"guaranteed": 0, "shared": 1, "headroom": 2}
Row = Sequence[object]


def table(heads: Sequence[str], rows: Sequence[Row], left: bool = False) -> str:
    """Return columns like those of SONiC's commands: two blanks wider than their heads, above a line of dashes."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(head) + 2, *(len(row[column]) for row in lines), 0) for column, head in enumerate(heads)]
    align = str.ljust if left else str.rjust
    out = ["  ".join(align(cell, width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *lines]]
    out.insert(1, "  ".join("-" * width for width in widths))
    return "".join(f"{line.rstrip()}\n" for line in out)


@dataclass
class Cleared:
    """The counters at the moment when a user cleared them, and the watermarks before it."""

    counts: dict[tuple[object, ...], int] = field(default_factory=dict)
    most: dict[tuple[object, ...], int] = field(default_factory=dict)
    """The persistent watermarks, which `sonic-clear` of the others must not change."""

    def since(self, key: tuple[object, ...], now: int) -> int:
        return max(0, now - self.counts.get(key, 0))


class SonicViews:
    """The views of one running network."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.cleared = Cleared()

    # Names

    def label(self, port: PortState) -> str:
        return self._fabric.core.options.labels.get(port.name, port.name)

    def switches(self) -> list[tuple[str, list[PortState]]]:
        """Return each switch with a buffer, and its ports in their order."""
        found = self._fabric.core.ports.by_node()
        return [(name, sorted(found[name], key=lambda port: port.number)) for name in self._fabric.buffers]

    def ports(self, wanted: str = "") -> list[tuple[str, list[PortState]]]:
        """Return ports by switch; `wanted` is a port by either name, a switch, or empty for all."""
        wanted_ports = []
        for node, ports in self.switches():
            chosen = [port for port in ports if wanted in ("", node, port.name, self.label(port))]
            if chosen:
                wanted_ports.append((node, chosen))
        if not wanted_ports:
            names = [self.label(port) for _, ports in self.switches() for port in ports]
            raise UsageError(f"there is no port {wanted}; {nearest(wanted, names)}" if wanted else "no switch is there")
        return wanted_ports

    def _each(self, wanted: str, make: Callable[[str, list[PortState]], str]) -> str:
        """Return one block for each switch. If there are several, each has its name above it."""
        blocks = self.ports(wanted)
        several = len(self.switches()) > 1
        return "\n".join((f"{node}:\n" if several else "") + make(node, ports) for node, ports in blocks)

    # PFC

    def pfc_counters(self, wanted: str = "") -> str:
        return self._each(wanted, self._pfc_counters)

    def _pfc_counters(self, node: str, ports: list[PortState]) -> str:
        parts = []
        for head in ("Port Rx", "Port Tx"):
            rows = []
            for port in ports:
                frames = self._pfc_frames(port, head)
                key = ("pfc", head, port.name)
                rows.append((self.label(port), *(self.cleared.since((*key, n), frames[n]) for n in _PRIORITIES)))
            parts.append(table((head, *(f"PFC{n}" for n in _PRIORITIES)), rows))
        return "\n".join(parts)

    def _pfc_frames(self, port: PortState, head: str) -> list[int]:
        """Return the PFC frames by priority, obeyed or not."""
        states = self._states(port)
        if head == "Port Rx":
            return [one["xoff_received"] + one["xon_received"] + sum(one["ignored"].values()) for one in states]
        return [one["xoff_sent"] + one["xoff_refreshed"] + one["xon_sent"] for one in states]

    def _states(self, port: PortState) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._fabric.snapshot(port.node.name)["ports"][port.name]["priorities"]
        return found

    def pfc_priority(self, wanted: str = "") -> str:
        def make(_: str, ports: list[PortState]) -> str:
            rows = [
                (
                    self.label(port),
                    ",".join(str(one["priority"]) for one in self._states(port) if one["enabled"]) or "N/A",
                )
                for port in ports
            ]
            return table(("Interface", "Lossless priorities"), rows, left=True)

        return self._each(wanted, make)

    # Priority groups and queues

    def group_watermark(self, kind: str, persistent: bool = False) -> str:
        title = {"shared": "Ingress shared pool occupancy per PG:\n", "headroom": "Ingress headroom per PG:\n"}[kind]

        def make(node: str, ports: list[PortState]) -> str:
            rows = [
                (self.label(port), *(self._group_most(node, port, n, kind, persistent) for n in _PRIORITIES))
                for port in ports
            ]
            return title + table(("Port", *(f"PG{n}" for n in _PRIORITIES)), rows)

        return self._each("", make)

    def _group_most(self, node: str, port: PortState, number: int, kind: str, persistent: bool) -> int:
        cell = self._fabric.buffers[node].cell_bytes
        now = self._fabric.group(port.name, number).high_water[_KINDS[kind]] * cell
        return self._most(("group", kind, port.name, number), now, persistent)

    def _most(self, key: tuple[object, ...], now: int, persistent: bool) -> int:
        return max(now, self.cleared.most.get(key, 0)) if persistent else now

    def group_drops(self) -> str:
        def make(_: str, ports: list[PortState]) -> str:
            rows = []
            for port in ports:
                drops = [sum(self._fabric.group(port.name, n).dropped_frames) for n in _PRIORITIES]
                key = ("group drops", port.name)
                rows.append((self.label(port), *(self.cleared.since((*key, n), drops[n]) for n in _PRIORITIES)))
            return "Ingress PG dropped packets:\n" + table(("Port", *(f"PG{n}" for n in _PRIORITIES)), rows)

        return self._each("", make)

    def queue_watermark(self, persistent: bool = False) -> str:
        def make(node: str, ports: list[PortState]) -> str:
            rows = [
                (self.label(port), *(self._queue_most(node, port, n, persistent) for n in _PRIORITIES))
                for port in ports
            ]
            return "Egress shared pool occupancy per unicast queue:\n" + table(
                ("Port", *(f"UC{n}" for n in _PRIORITIES)), rows
            )

        return self._each("", make)

    def _queue_most(self, node: str, port: PortState, number: int, persistent: bool) -> object:
        settings = self._fabric.buffers[node]
        if (port.number, number) not in settings.queues:
            return "N/A"  # no egress pool limits it
        now = self._fabric.queue(port.name, number).high_water[1] * settings.cell_bytes
        return self._most(("queue", port.name, number), now, persistent)

    def pool_watermark(self, persistent: bool = False) -> str:
        def make(node: str, _: list[PortState]) -> str:
            rows = [
                (name, self._most(("pool", node, place), most, persistent)) for name, place, most in self._pools(node)
            ]
            return "Shared pool maximum occupancy:\n" + table(("Pool", "Bytes"), rows)

        return self._each("", make)

    def _pools(self, node: str) -> list[tuple[str, int, int]]:
        """Return, for each pool, its name, its place among the program's pools, and the size of its shared part."""
        settings, pools = self._fabric.buffers[node], self._fabric.pools(node)
        names = self._fabric.core.options.pool_labels.get(node)
        places = [*range(len(settings.pools)), *(POOLS + n for n in range(len(settings.egress_pools)))]
        usual = [f"{'ingress' if place < POOLS else 'egress'}_pool_{place % POOLS}" for place in places]
        chosen = names if names is not None and len(names) == len(places) else usual
        return [
            (name, place, pools[place].high_water[1] * settings.cell_bytes)
            for name, place in zip(chosen, places, strict=True)
        ]

    def queue_counters(self, wanted: str = "") -> str:
        blocks = []
        for node, ports in self.ports(wanted):
            for port in ports:
                rows = []
                for number, shown in enumerate(self.queue_counts_since(node, port)):
                    rows.append((self.label(port), f"UC{number}", *shown))
                blocks.append(table(("Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"), rows))
        return "\n".join(blocks)

    def queue_counts_since(self, node: str, port: PortState) -> list[tuple[int, ...]]:
        """Return packets, octets and drops of each queue since the counters were cleared."""
        return [
            tuple(
                self.cleared.since(("queue counters", port.name, number, place), count)
                for place, count in enumerate(counts)
            )
            for number, counts in enumerate(self._queue_counts(node, port))
        ]

    def _queue_counts(self, node: str, port: PortState) -> list[tuple[int, int, int, int]]:
        sent, cell = self._fabric.sent(port.name), self._fabric.buffers[node].cell_bytes
        trimmed = self._fabric.trimmed_by_queue(port.name)
        found = []
        for number in _PRIORITIES:
            queue = self._fabric.queue(port.name, number)
            dropped = queue.dropped_frames + sent.blocked_frames[number] + trimmed[number].frames
            octets = queue.dropped_cells * cell + trimmed[number].octets
            found.append((sent.sent_frames[number], sent.sent_bytes[number], dropped, octets))
        return found

    # The watchdog and ECN

    def watchdog_stats(self) -> str:
        heads = ("QUEUE", "STATUS", "STORM DETECTED/RESTORED", "TX OK/DROP", "RX OK/DROP", "TX LAST OK/DROP",
                 "RX LAST OK/DROP")  # fmt: skip

        def make(_: str, ports: list[PortState]) -> str:
            rows = []
            for port in ports:
                sent = self._fabric.sent(port.name)
                for one in self._states(port):
                    if not one["storm_detected"]:
                        continue
                    number = one["priority"]
                    group = self._fabric.group(port.name, number)
                    rows.append(
                        (
                            f"{self.label(port)}:{number}",
                            "stormed" if one["stormed"] else "operational",
                            f"{one['storm_detected']}/{one['storm_ended']}",
                            f"{sent.sent_frames[number]}/{sent.blocked_frames[number]}",
                            f"{group.admitted_frames}/{sum(group.dropped_frames)}",
                            "N/A",
                            "N/A",
                        )
                    )
            return table(heads, rows)

        return self._each("", make)

    def watchdog_config(self) -> str:
        def make(_: str, ports: list[PortState]) -> str:
            rows, polls = [], set()
            for port in ports:
                settings = port.settings.pfc.watchdog if port.settings else None
                if settings is None:
                    continue
                times = [time.ps // port.scale.k // 10**9 for time in (settings.detection, settings.restoration)]
                polls.add(settings.poll.ps // port.scale.k // 10**9)
                rows.append((self.label(port), settings.action.value, *times))
            heads = ("PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME")
            changed = "".join(f"Changed polling interval to {poll}ms\n" for poll in sorted(polls))
            return changed + table(heads, rows)

        return self._each("", make)

    def ecn(self) -> str:
        """Return a profile for each curve that queues have."""
        curves: dict[tuple[object, ...], list[str]] = {}
        for _, ports in self.switches():
            for port in ports:
                for queue, curve in port.settings.ecn.items() if port.settings else ():
                    key = curve.kmin.bytes, curve.kmax.bytes, round(float(curve.pmax) * 100, 4)
                    curves.setdefault(key, []).append(f"{self.label(port)}:{queue}")
        if not curves:
            return "no queue has ECN\n"
        parts = []
        for number, ((low, high, percent), queues) in enumerate(curves.items(), 1):
            rows = [
                ("green_min_threshold", low),
                ("green_max_threshold", high),
                ("green_drop_probability", f"{percent:g}"),
                ("ecn", "ecn_all"),
            ]
            width, wide = max(len(name) for name, _ in rows), max(len(str(value)) for _, value in rows)
            line = f"{'-' * width}  {'-' * wide}\n"
            lines = "".join(f"{name.ljust(width)}  {value}\n" for name, value in rows)
            parts.append(f"Profile: CURVE_{number} ({listed(queues, 8)})\n{line}{lines}{line}")
        return "\n".join(parts)

    # Clearing

    def clear_counts(self, what: str) -> None:
        """Begin counters of one kind anew: "pfc", "queue counters", "trimmed" or "group drops"."""
        counts = self.cleared.counts
        for node, ports in self.switches():
            for port in ports:
                for number in _PRIORITIES:
                    if what == "group drops":
                        counts[what, port.name, number] = sum(self._fabric.group(port.name, number).dropped_frames)
                if what == "pfc":
                    for head in ("Port Rx", "Port Tx"):
                        for number, frames in enumerate(self._pfc_frames(port, head)):
                            counts[what, head, port.name, number] = frames
                if what == "trimmed":
                    for number, one in enumerate(self._fabric.trimmed_by_queue(port.name)):
                        counts.update({(what, port.name, number, place): count for place, count in enumerate(one)})
                if what == "queue counters":
                    for number, found in enumerate(self._queue_counts(node, port)):
                        for place, count in enumerate(found):
                            counts[what, port.name, number, place] = count

    def clear_watermark(self, what: str, kind: str = "shared") -> None:
        """Begin watermarks of "group", "queue" or "pool" anew. Persistent ones keep the earlier values."""
        self._fabric.core.running_program()  # for the marks of other parts, which are returned
        program = self._fabric.core.program
        assert program is not None
        for node, ports in self.switches():
            number, settings = self._fabric.core.numbers[node], self._fabric.buffers[node]
            if what == "pool":
                for _, place, _ in self._pools(node):
                    self._keep(("pool", node, place), program.buffers.clear_pool(number, place), 1, settings.cell_bytes)
            for port in ports if what != "pool" else ():
                for each in _PRIORITIES:
                    if what == "group":
                        most = program.buffers.clear_group(number, port.slot, each)
                        for one, place in _KINDS.items():  # the program clears all kinds at once
                            self._keep(("group", one, port.name, each), most, place, settings.cell_bytes)
                    elif (port.number, each) in settings.queues:
                        most = program.buffers.clear_queue(number, port.slot, each)
                        self._keep(("queue", port.name, each), most, 1, settings.cell_bytes)

    def _keep(self, key: tuple[object, ...], before: Watermark, place: int, cell: int) -> None:
        kept = self.cleared.most
        kept[key] = max(kept.get(key, 0), before.high_water[place] * cell)
