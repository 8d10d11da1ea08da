"""Incidents on a switch that was read from a config_db.json: victim of PFC, storm, flapping link, wrong DSCP map.

Each runs traffic between four hosts at ports of the switch, lets the incident happen, and claims what a switch that is
configured well does. h1 is at the port in question. Sizes and times follow from the buffer of the file: traffic goes on
until the group of the priority would be full.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import UsageError, listed, nearest
from testbed.experiment.run import Run
from testbed.frames import Mac
from testbed.subjects.sonic.lab.places import hosts_at
from testbed.subjects.sonic.lab.run import settles_at
from testbed.subjects.sonic.lab.settings import Switch
from testbed.subjects.sonic.tables import MapKind
from testbed.switch.buffer.settings import GroupSettings, Pool
from testbed.switch.ecn.field import Ecn
from testbed.units import Duration, Rate, Size

_HOSTS = 4
_LONGEST = Duration("40ms")
"""The longest time of traffic, of the hardware."""
_FRAME = Size("1514B")
_WATCHDOG_SCALE = 1
"""The watchdog's times are the file's in the lab's time: a storm of 400 ms of hardware would be 400 s there."""
_QUANTA = 0xFFFF
_DEVICE = Mac.parse("02:00:00:00:00:01")


_OVERLOAD = {"h1": 70, "h2": 100, "h3": 100}
"""What hosts send to h4, in percent of the rate."""
_UNPAUSED = Duration("1us")
"""The delay of a flow that nothing pauses, at the least."""


class Incident(enum.StrEnum):
    """The incidents that can be run."""

    VICTIM = "victim"
    STORM = "storm"
    FLAP = "flap"
    DSCP = "dscp"


SUMMARIES = {
    Incident.VICTIM: "a flow to an idle port is slowed, because its sender also sends to one that is overloaded",
    Incident.STORM: "the device at a port sends XOFF without end",
    Incident.FLAP: "the cable of a sender is pulled and plugged in again, three times",
    Incident.DSCP: "senders mark their packets with a DSCP that the map puts into a lossy class",
}


@dataclass(frozen=True)
class Scene:
    """The switch, its four ports in question, and what they have in common."""

    switch: Switch
    ports: tuple[str, ...]
    priority: int
    rate: Rate
    """The rate of the slowest of the ports."""

    def dscp(self, host: str, priority: int) -> int:
        return self.switch.dscp(priority, self.ports[int(host[1:]) - 1])

    def fills(self, rate: Rate, group: int) -> Duration:
        """Return the time in which a group of h1's port is full if so much more comes in than leaves."""
        buffer, port = self.switch.buffer_of(self.ports), self.switch.ports[self.ports[0]]
        settings = buffer.groups.get((port.number, group), GroupSettings())
        pool = Pool(buffer.total, buffer.headroom_pool) if not settings.pool else buffer.more_pools[settings.pool - 1]
        cells = settings.guaranteed + settles_at(settings.threshold, pool.total - (pool.headroom_pool or 0), 1)
        ps = cells * buffer.cell * 8 * 10**12 // rate.bps
        return Duration.from_ps(min(ps, _LONGEST.ps))

    def other_lossless(self) -> int | None:
        """Return another priority with PFC at all four ports, or None."""
        common = frozenset.intersection(*(self.switch.tables.pfc_of(port) for port in self.ports))
        return min(common - {self.priority}, default=None)


def scene(switch: Switch, port: str, priority: int) -> Scene:
    """Return the scene of an incident, after checking that it can happen at this switch."""
    places = hosts_at([switch], _HOSTS, [port] if port else ())
    ports = tuple(name for _, name in places)
    for name in ports:
        if priority not in switch.tables.pfc_of(name):
            has = listed(map(str, sorted(switch.tables.pfc_of(name)))) or "none"
            raise UsageError(
                f"{name} has no PFC for priority {priority}, it has it for {has}; --priority N chooses one"
            )
    slowest = min((switch.ports[name].rate for name in ports), key=lambda rate: rate.bps)
    return Scene(switch, ports, priority, slowest)


def incident_of(word: str) -> Incident:
    try:
        return Incident(word)
    except ValueError:
        raise UsageError(f"there is no incident {word[:40]}; {nearest(word[:40], Incident)}") from None


def wrong_dscp(found: Scene) -> int:
    """Return a DSCP that h1's port puts into a class without PFC."""
    port = found.ports[0]
    classes, groups = (found.switch.tables.map_of(port, kind) for kind in (MapKind.DSCP_TO_TC, MapKind.TC_TO_PG))
    enabled = found.switch.tables.pfc_of(port)
    for dscp in range(1, 64):
        chosen = (classes or {}).get(dscp, 0)
        if (groups or {}).get(chosen, chosen if groups is None else 0) not in enabled:
            return dscp
    raise UsageError(f"every DSCP is lossless at {port}, so that none is wrong there")


def perform(run: Run, what: str, file: Path, *, port: str = "", priority: int = 3, cell: int = 208) -> None:
    """Run an incident; the experiment's function calls it."""
    switch = Switch.from_config_db(file, cell=cell, watchdog_scale=_WATCHDOG_SCALE)
    found = scene(switch, port, priority)
    for number, name in enumerate(found.ports, 1):
        run.figure(f"h{number} is at", f"{switch.name} {name}")
    _RUNS[incident_of(what)](run, found)


def _network(run: Run, found: Scene) -> Any:
    from testbed.net.build.network import network
    from testbed.subjects.sonic.lab.topo import SonicTopo

    topo = SonicTopo(found.switch, places=[(found.switch.name, name) for name in found.ports])
    return network(topo, run, autoStaticArp=True)


def _flow(found: Scene, source: str, target: str, percent: int, **options: Any) -> Any:
    from testbed.net.traffic import Flow

    priority = options.pop("priority", found.priority)
    settings: dict[str, Any] = {
        "dscp": found.dscp(source, priority),
        "ecn": Ecn.ECT_0,
        "rate": found.rate * percent // 100,
    } | options
    return Flow(source, target, priority, _FRAME, **settings)


def _port_of(net: Any, host: str) -> str:
    """Return the switch's port to a host."""
    node = next(iter(net.fabric.buffers))
    name: str = net.port(node, host)
    return name


def _victim(run: Run, found: Scene) -> None:
    """Compare the delay of h1's flow to the idle port h2 on the priority of the overload with that on another one.

    Its rate is not compared: at one switch the flows share nothing but their sender, which has a queue for them.
    """
    lasts = found.fills(found.rate // 3, found.priority) + Duration("3ms")
    other, alone = found.other_lossless(), _UNPAUSED
    cases = [("the same priority", found.priority)]
    for label, priority in [*([] if other is None else [("another lossless one", other)]), *cases]:
        with _network(run, found) as net, run.measuring():
            senders = [_flow(found, host, "h4", percent, duration=lasts) for host, percent in _OVERLOAD.items()]
            running = net.run(_flow(found, "h1", "h2", 30, priority=priority, duration=lasts), *senders)
            pauses = net.fabric.pfc(_port_of(net, "h1"), found.priority)["xoff_sent"]
        delay = running.reports[0].worst_delay
        run.claim(f"{label}: lost", sum(report.lost for report in running.reports), equals=0)
        run.claim(f"{label}: XOFF to h1", pauses, at_least=1)
        if priority == found.priority:
            run.claim(f"{label}: worst delay to the idle port", delay, at_least=alone * 5)
        else:
            run.figure(f"{label}: worst delay to the idle port", delay)
            alone = max(alone, delay, key=lambda one: one.ps)


def _storm(run: Run, found: Scene) -> None:
    from testbed.frames.mac_control import PfcFrame
    from testbed.net.shell.wire import RawPort
    from testbed.net.traffic import Flows

    fills = found.fills(found.rate * 60 // 100, found.priority)
    watchdog = found.switch.ports[found.ports[3]].settings.pfc.watchdog
    watched = watchdog is not None and found.priority in found.switch.tables.watched(found.ports[3])
    other = found.other_lossless()
    k = found.switch.scale.k
    times = (watchdog.detection + watchdog.poll * 2) if watchdog is not None else Duration("0s")
    detected = times // k if times.ps // k < _LONGEST.ps else _LONGEST
    lasts = fills + detected + Duration("2ms")
    repeat = Duration.from_ps(_QUANTA * 512 * 10**12 // found.rate.bps // 3)
    with _network(run, found) as net, RawPort(net["h4"], "h4-eth0") as wire:
        flows = [_flow(found, "h1", "h4", 60), _flow(found, "h1", "h2", 20)]
        flows += [] if other is None else [_flow(found, "h3", "h4", 20, priority=other)]
        with Flows(flows) as running, run.measuring():
            net.sleep("500us")
            begin_ns = time.monotonic_ns()
            frame = PfcFrame.xoff(_DEVICE, [found.priority], _QUANTA)
            wire.repeat(frame.encode(), net.lab_ns(repeat), lasts // repeat)
            net.sleep(lasts)
        state = net.fabric.pfc(_port_of(net, "h4"), found.priority)
        reports = running.reports
    after_ns = begin_ns + net.lab_ns(fills + detected)
    afterwards = after_ns, after_ns + net.lab_ns("1500us")
    innocent = reports[1].goodput_between(*afterwards)
    run.claim("storms that the watchdog found", state["storm_detected"], at_least=1)
    if not watched:
        where = f"PFC_WD|{found.ports[3]}"
        run.figure("what to set", f"{where} with a detection_time; no watchdog watches priority {found.priority}")
    run.claim("goodput of h1 to h2, once the storm is found", innocent, at_least=found.rate * 18 // 100)
    if other is not None:
        run.claim(f"priority {other}: lost", reports[2].lost, equals=0)
        goodput = reports[2].goodput_between(*afterwards)
        run.claim(f"priority {other}: goodput to the same port", goodput, at_least=found.rate * 18 // 100)


def _flap(run: Run, found: Scene) -> None:
    from testbed.net.traffic import Flows

    with _network(run, found) as net, run.measuring():
        with Flows([_flow(found, "h1", "h4", 60), _flow(found, "h3", "h4", 60)]) as running:
            net.sleep("1ms")
            for _ in range(3):
                net.fabric.cabling.pull(_port_of(net, "h1"))
                net.sleep("300us")
                net.fabric.cabling.plug(_port_of(net, "h1"))
                net.sleep("700us")
            begin_ns = time.monotonic_ns()
            net.sleep("1500us")
        net.sleep("2ms")
        held, dropped = net.fabric.held(found.priority), net.fabric.dropped()
        stuck = [
            port.name
            for port in net.fabric.ports.values()
            if port.node.name in net.fabric.buffers and net.fabric.pfc(port.name, found.priority)["is_congested"]
        ]
        losses = net.fabric.losses() or {}
    goodput = running.reports[0].goodput_between(begin_ns, begin_ns + net.lab_ns("1200us"))
    run.figure("lost, by reason", ", ".join(f"{count} {reason}" for reason, count in losses.items()) or "none")
    run.claim("goodput of h1 after the flaps", goodput, at_least=found.rate * 40 // 100)
    run.claim("frames that found no room", dropped, equals=0)
    run.claim("cells that are held afterwards", held, equals=0)
    run.claim("ports that send XOFF afterwards", listed(stuck) if stuck else "none", equals="none")


def _dscp(run: Run, found: Scene) -> None:
    wrong = wrong_dscp(found)
    classes = found.switch.tables.map_of(found.ports[0], MapKind.DSCP_TO_TC) or {}
    lossy = classes.get(wrong, 0)
    lasts = max(found.fills(found.rate // 2, group) for group in (found.priority, lossy)) + Duration("500us")
    run.figure("the wrong DSCP", f"{wrong}, of traffic class {lossy}")
    for label, dscp in (("as configured", None), (f"DSCP {wrong}", wrong)):
        given = {} if dscp is None else {"dscp": dscp}
        with _network(run, found) as net, run.measuring():
            senders = ("h1", "h2", "h3")
            running = net.run(*(_flow(found, host, "h4", 100, duration=lasts, **given) for host in senders))
            pauses = sum(net.fabric.pfc(_port_of(net, host), found.priority)["xoff_sent"] for host in senders)
        lost = sum(report.lost for report in running.reports)
        if dscp is None:
            run.claim(f"{label}: lost", lost, equals=0)
            run.claim(f"{label}: XOFF to the senders", pauses, at_least=1)
        else:
            run.claim(f"{label}: lost", lost, at_least=1)
            run.claim(f"{label}: XOFF to the senders", pauses, equals=0)


_RUNS = {Incident.VICTIM: _victim, Incident.STORM: _storm, Incident.FLAP: _flap, Incident.DSCP: _dscp}
