"""A workload on switches that were read from config_db.json files: what `xoff switch run` has the lab do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from testbed.ecn.field import Ecn
from testbed.errors import UsageError, nearest
from testbed.linux.port_program import DROP_REASONS
from testbed.net.sonic import Switch, SwitchError
from testbed.units import Size
from testbed.workload import transfers
from testbed.workload.transfers import Transfer

PATTERNS = ("incast", "permutation", "all-to-all")


class Run(Protocol):
    """A `Run` of an experiment."""

    @property
    def rng(self) -> random.Random: ...
    def figure(self, name: str, value: Any, unit: str = "") -> None: ...
    def claim(self, name: str, measured: Any, *, equals: Any = None, at_least: Any = None) -> object: ...


@dataclass(frozen=True)
class Workload:
    """Who sends to whom: a pattern and how many hosts it has; an incast has one more, which receives."""

    pattern: str
    count: int

    @classmethod
    def parse(cls, text: str) -> Workload:
        pattern, comma, count = text.partition(",")
        if pattern not in PATTERNS:
            raise UsageError(f"there is no workload {pattern[:40]!r}; {nearest(pattern[:40], PATTERNS)}")
        least = 1 if pattern == "incast" else 2
        if comma and not (count.isascii() and count.isdecimal() and least <= int(count[:9]) <= 1000):
            raise UsageError(f"workload {text[:40]}: a number of hosts, {least} to 1000, is expected after the comma")
        return cls(pattern, int(count) if comma else 2)

    @property
    def hosts(self) -> int:
        return self.count + 1 if self.pattern == "incast" else self.count

    def transfers(self, hosts: Sequence[str], size: Size, dice: random.Random) -> list[Transfer]:
        if self.pattern == "incast":
            return transfers.incast(hosts[:-1], hosts[-1], size)
        if self.pattern == "permutation":
            return transfers.permutation(hosts, size, dice)
        return transfers.all_to_all(hosts, size)


def hosts_of_each(switches: Sequence[Switch], wanted: int) -> int:
    """How many hosts each switch gets so that there are `wanted`; SwitchError if there are not enough ports."""
    names = {switch.name for switch in switches}
    free = [
        sum(port.up and not (port.neighbour and port.neighbour[0] in names) for port in switch.ports.values())
        for switch in switches
    ]
    for each in range(1, max(free, default=0) + 1):
        if sum(min(each, ports) for ports in free) >= wanted:
            return each
    raise SwitchError(f"{wanted} hosts are wanted, and the switches have {sum(free)} free ports that are up")


def perform(run: Run, files: Sequence[Path], **options: Any) -> None:
    """The whole run; `options` are those of the experiment."""
    from testbed.net.network import network
    from testbed.net.sonic_topo import SonicTopo
    from testbed.net.traffic import Flow, Flows

    scale = options["scale"] or None
    switches = [Switch.from_config_db(file, scale=scale, cell=options["cell"]) for file in files]
    workload, priority = Workload.parse(options["workload"]), options["priority"]
    topo = SonicTopo(*switches, hosts=hosts_of_each(switches, workload.hosts))
    with network(topo, run, autoStaticArp=True) as net:  # type: ignore[arg-type]
        hosts = [host.name for host in net.hosts][: workload.hosts]
        dscp = {name: switches[0].dscp(priority) for name in hosts}
        flows = [
            Flow(
                one.source, one.target, priority, options["frame"], size=one.size, dscp=dscp[one.source], ecn=Ecn.ECT_0
            )
            for one in workload.transfers(hosts, Size(options["size"]), run.rng)
        ]
        with Flows(flows) as running:
            running.wait()
        reports = running.reports
        _report(run, net.fabric, topo, switches)
        lossless = all(priority in switch.tables.pfc_of(port) for switch in switches for port in switch.ports)
    run.figure("scale", topo.scale.k)
    run.figure("datagrams sent", sum(report.sent for report in reports))
    run.figure("datagrams lost", sum(report.lost for report in reports))
    run.figure("slowest flow", min((report.goodput for report in reports), key=lambda rate: rate.bps))
    if lossless:
        run.claim("lossless datagrams lost", sum(report.lost for report in reports), equals=0)


def _report(run: Run, fabric: Any, topo: Any, switches: Sequence[Switch]) -> None:
    """A line for each group that was used: its pauses, what it held at most, and what it lost and why."""
    lost = 0
    for switch in switches:
        node, cell = topo.nodes_by_hostname[switch.name], switch.buffer.cell
        for port in switch.ports.values():
            name = f"{node}-eth{port.number}"
            if name not in fabric.names():
                continue
            for number in range(8):
                group, limits = fabric.group(name, number), fabric.limits(name, number)
                dropped = {r: count for r, count in zip(DROP_REASONS, group.dropped_frames, strict=True) if count}
                if not group.most_cells and not dropped:
                    continue
                shared, headroom = (cells * cell for cells in group.high_water[1:])
                parts = [f"shared {shared} B"]
                if limits.lossless:
                    lost += sum(dropped.values())
                    parts.insert(0, f"XOFF {fabric.pfc(name, number)['xoff_sent']}")
                    parts.append(f"headroom {headroom} of {limits.headroom * cell} B")
                parts += [f"{count} dropped by {reason}" for reason, count in dropped.items()]
                run.figure(f"{switch.name} {port.name}, group {number}", ", ".join(parts))
    run.claim("frames of lossless groups dropped", lost, equals=0)
