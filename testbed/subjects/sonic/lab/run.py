"""A workload on switches that were read from config_db.json files, as `xoff switch run` runs it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed, nearest
from testbed.experiment.run import Run
from testbed.linux.port_program import DROP_REASONS
from testbed.subjects.sonic.headroom import described, lossless_groups, tightest
from testbed.subjects.sonic.lab.places import Place, by_name, free_places, hosts_at
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.ports_to_test import PortsError, classes, split
from testbed.switch.buffer.settings import GroupSettings, Pool, Static, Threshold
from testbed.switch.ecn.field import Ecn
from testbed.units import Size
from testbed.workload import transfers
from testbed.workload.transfers import Transfer

PATTERNS = ("incast", "permutation", "all-to-all")
USUAL_SIZE = Size("1MB")
"""The size of each flow, at the least, if the user gives none."""


@dataclass(frozen=True)
class Workload:
    """A pattern of senders and receivers, and its number of hosts. An incast has one more, which receives."""

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


def hosts_at_ports(switches: Sequence[Switch], workload: Workload, ports: str) -> list[Place]:
    """Return the ports of the workload's hosts; `ports` may name the first, as "Ethernet4,Ethernet8", or is empty."""
    receives = workload.pattern == "incast"
    return hosts_at(switches, workload.hosts, split(ports) if ports else (), last_receives=receives)


def untested(switches: Sequence[Switch], places: Sequence[Place], workload: Workload) -> list[str]:
    """Return the classes of ports whose headroom the run does not use, each as one of its ports with its kind."""
    senders = {*(places[:-1] if workload.pattern == "incast" else places)}
    free, found = {*free_places(switches)}, []
    for switch in switches:
        try:
            of_switch = classes(switch.tables, switch.buffer.cell)
        except PortsError:  # no port with PFC
            continue
        for one in of_switch:
            at = {(switch.name, port) for port in one.ports}
            if at & free and not at & senders:
                found.append(f"{switch.name} {listed(one.ports, 4)}: {one.about(switch.tables)}")
    return found


def size_to_test(switches: Sequence[Switch], places: Sequence[Place], workload: Workload, priority: int) -> Size:
    """Return the least size of each flow with which all senders are paused and headroom is used.

    It is twice the bytes that a group may hold when all senders' groups are full, and two round trips of the longest
    cable.
    """
    most = 0
    converging = {"incast": workload.count, "all-to-all": workload.count - 1}.get(workload.pattern, 1)
    if converging < 2:
        return USUAL_SIZE  # nothing is overloaded
    for switch in switches:
        ports = [port for name, port in places if name == switch.name]
        buffer = switch.buffer_of(ports)
        for name in ports:
            port = switch.ports[name]
            number = port.settings.priorities.dot1p_to_group[priority]
            group = buffer.groups.get((port.number, number), GroupSettings())
            pool = Pool(buffer.total, buffer.headroom_pool) if not group.pool else buffer.more_pools[group.pool - 1]
            shared = pool.total - (pool.headroom_pool or 0)
            held = group.guaranteed + settles_at(group.threshold, shared, converging)
            flight = port.rate.size_in(port.length.propagation() * 2).bytes
            most = max(most, held * buffer.cell + flight)
    whole = most * 2 * converging // (converging - 1)
    return max(USUAL_SIZE, Size.from_bytes(-(-whole // USUAL_SIZE.bytes) * USUAL_SIZE.bytes))


def settles_at(threshold: Threshold, shared: int, groups: int) -> int:
    """Return the cells of the shared pool that each of so many full groups holds."""
    if isinstance(threshold, Static):
        return min(threshold.cells, shared)
    return int(shared * threshold.alpha / (1 + groups * threshold.alpha))


def perform(run: Run, files: Sequence[Path], **options: Any) -> None:
    """Do the whole run; `options` are those of the experiment."""
    from testbed.net.build.network import network
    from testbed.net.traffic import Flow, Flows
    from testbed.subjects.sonic.lab.topo import SonicTopo

    scale = options["scale"] or None
    switches = [Switch.from_config_db(file, scale=scale, cell=options["cell"]) for file in files]
    workload, priority = Workload.parse(options["workload"]), options["priority"]
    places = hosts_at_ports(switches, workload, options.get("ports", ""))
    topo = SonicTopo(*switches, places=places)
    hosts = {f"h{number}": place for number, place in enumerate(places, 1)}
    for host, (name, port) in hosts.items():
        run.figure(f"{host} at {name} {port}", port_in_words(by_name(switches)[name], port, priority))
    with network(topo, run, autoStaticArp=True) as net:
        dscp = {host: by_name(switches)[name].dscp(priority, port) for host, (name, port) in hosts.items()}
        flows = [
            Flow(
                one.source, one.target, priority, options["frame"], size=one.size, dscp=dscp[one.source], ecn=Ecn.ECT_0
            )
            for one in workload.transfers(list(hosts), Size(options["size"]), run.rng)
        ]
        with Flows(flows) as running:
            running.wait()
        reports = running.reports
        losing = _report(run, net.fabric, topo, switches)
    for switch, port in losing:
        group = tightest(switch.tables, port, switch.buffer.cell)
        if group is not None and group.remedy:
            run.figure(f"remedy for {switch.name} {port}", group.remedy)  # `Figure.is_remedy`: a report begins with it
    lossless = all(priority in by_name(switches)[name].tables.pfc_of(port) for name, port in places)
    run.figure("scale", topo.scale.k)
    run.figure("datagrams sent", sum(report.sent for report in reports))
    run.figure("datagrams lost", sum(report.lost for report in reports))
    slowest = min((report.goodput for report in reports), key=lambda rate: rate.bps)
    run.figure("slowest flow", slowest)
    if lossless:
        run.claim("lossless datagrams lost", sum(report.lost for report in reports), equals=0)


def port_in_words(switch: Switch, port: str, priority: int) -> str:
    """Return a port with its speed, cable and MTU, and the headroom of the priority's group."""
    groups = lossless_groups(switch.tables, port, switch.buffer.cell)
    group = next((one for one in groups if one.group == priority), None)
    if group is None:
        return f"{described(switch.tables, port)}, no PFC for {priority}"
    return f"{described(switch.tables, port)}, {group.in_words}"


def _report(run: Run, fabric: Any, topo: Any, switches: Sequence[Switch]) -> list[tuple[Switch, str]]:
    """Return a line for each used group, and the ports whose lossless groups lost frames.

    A line has the group's pauses, its most bytes, and its losses with their reasons.
    """
    lost, losing, calm = 0, [], []
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
                    losing += [(switch, port.name)] if dropped else []
                    calm += [] if group.xoffs else [f"{switch.name} {port.name}"]
                    parts.insert(0, f"XOFF {fabric.pfc(name, number)['xoff_sent']}")
                    parts.append(f"headroom {headroom} of {limits.headroom * cell} B")
                parts += [f"{count} dropped by {reason}" for reason, count in dropped.items()]
                run.figure(f"{switch.name} {port.name}, group {number}", ", ".join(parts))
    if calm:
        run.figure("lossless, and never paused, so their headroom was not tested", ", ".join(calm))
    run.claim("frames of lossless groups dropped", lost, equals=0)
    return losing
