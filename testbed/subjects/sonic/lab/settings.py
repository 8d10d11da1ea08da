"""A switch of the lab from a SONiC config_db.json: ports, buffer, maps, WRED, schedulers and watchdog.

    switch = Switch.from_config_db("config_db.json")
    switch.ports["Ethernet0"].settings      a Port, on the lab's scale
    switch.buffer                           a Buffer

`testbed.subjects.sonic.lab.topo` makes networks of such switches. Everything here can be used outside of the lab.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError
from testbed.net.fabric.port import Buffer, Port, PortNeeds
from testbed.strict.problems import Problem, Severity
from testbed.subjects.sonic.check import check
from testbed.subjects.sonic.classes import classes_of
from testbed.subjects.sonic.entries import LARGEST
from testbed.subjects.sonic.headroom import (
    SHORT_CABLE,
    divisions,
    egress_pools,
    ingress_pools,
    memory,
    needed_at,
    reserved,
)
from testbed.subjects.sonic.read import ConfigDbError, ReadConfig, read
from testbed.subjects.sonic.tables import (
    NULL,
    MapKind,
    ProfileRow,
    SchedulerType,
    Tables,
    WatchdogRow,
)
from testbed.subjects.sonic.trimming import exceptions_of, trimming_of
from testbed.switch.buffer.headroom import SharedHeadroomPool
from testbed.switch.buffer.settings import (
    MOST_CELLS,
    MOST_POOLS,
    Dynamic,
    GroupSettings,
    Pool,
    QueueSettings,
    Static,
    Threshold,
)
from testbed.switch.ecn.curve import EcnCurve
from testbed.switch.pfc.settings import Action, Kind, PfcSettings, WatchdogSettings
from testbed.switch.priority.settings import PriorityMap, Trust
from testbed.switch.trimming.settings import MOST_EXCEPTIONS
from testbed.units import Duration, Length, Rate, Scale, Size

if TYPE_CHECKING:
    from testbed.switch.link.retry import Llr

CELL = 208
"""The usual bytes of a cell. config_db.json does not have them."""
LAB_RATE = Rate("100Mb/s")
"""The rate of the fastest port in the lab, if no scale is given."""
DEFAULT_POLL_MS = 200
_NODE = re.compile(r"(?=.*[0-9])[a-z][a-z0-9]{0,8}", re.ASCII)
_ACTIONS = {"drop": Action.DROP, "forward": Action.FORWARD, "alert": Action.ALERT}


class SwitchError(UsageError):
    """The error of a switch that the lab cannot have."""


@dataclass(frozen=True)
class SwitchPort:
    """One port of such a switch."""

    name: str
    number: int
    """The port's number at the lab's switch, from 1 on, in the order of the file: Ethernet4 may be s1-eth2."""
    rate: Rate
    length: Length
    up: bool
    settings: Port
    neighbour: tuple[str, str] | None
    """The neighbour by DEVICE_NEIGHBOR: the name of the device, and its port."""
    llr: Llr | None = None
    """Link Layer Retry on the port's cable, if the port has it in both directions."""


@dataclass(frozen=True)
class Switch:
    """A switch of the lab, as a config_db.json configures it."""

    name: str
    """The hostname in the file."""
    tables: Tables
    scale: Scale
    ports: Mapping[str, SwitchPort]
    buffer: Buffer
    problems: tuple[Problem[str], ...] = ()

    @classmethod
    def from_config_db(
        cls,
        path: str | PathLike[str],
        *,
        scale: Scale | int | None = None,
        watchdog_scale: int | None = None,
        cell: int = CELL,
    ) -> Switch:
        """Read a file. ConfigDbError names all mistakes in it, each with its JSON path.

        The default of `scale` makes 100 Mb/s of the fastest port: 1000 for 100 Gb/s. `watchdog_scale` multiplies the
        watchdog's times in the lab in place of `scale`, because a storm of 400 ms is long there: the watchdog's times
        in `settings` are then those of hardware with a quicker watchdog.
        """
        name = str(path)
        reading = read(read_octets(name))
        if reading.ok:
            check(reading.tables, reading.problems, cell)
        return cls.of(
            reading.require(name), scale=scale, watchdog_scale=watchdog_scale, cell=cell, name=name, reading=reading
        )

    @classmethod
    def of(
        cls,
        tables: Tables,
        *,
        scale: Scale | int | None = None,
        watchdog_scale: int | None = None,
        cell: int = CELL,
        name: str = "config_db.json",
        reading: ReadConfig | None = None,
    ) -> Switch:
        """Return the switch that tables describe."""
        chosen = scale_for(tables) if scale is None else Scale(scale)
        try:
            numbers = {port: number for number, port in enumerate(tables.ports, 1)}
            ports = {
                port: SwitchPort(
                    port,
                    numbers[port],
                    speed(tables, port),
                    Length(tables.cables.get(port, SHORT_CABLE)),
                    row.admin_up,
                    _port(tables, port, Fraction(1) if watchdog_scale is None else Fraction(watchdog_scale, chosen.k)),
                    (near.name, near.port) if (near := tables.neighbours.get(port)) else None,
                    _llr(tables, port),
                )
                for port, row in tables.ports.items()
            }
            buffer = _buffer(tables, numbers, cell, frozenset(tables.ports))
        except ConfigDbError:
            raise
        except UsageError as error:
            raise SwitchError(f"{name}: {error}") from None
        problems = tuple(reading.problems.found) if reading else ()
        return cls(tables.hostname or Path(name).stem, tables, chosen, ports, buffer, problems)

    @property
    def warnings(self) -> list[Problem[str]]:
        return [problem for problem in self.problems if problem.severity is Severity.WARNING]

    def buffer_of(self, ports: Iterable[str]) -> Buffer:
        """Return the buffer of a network that has only these ports, without the reserved memory of others."""
        numbers = {port.name: port.number for port in self.ports.values()}
        return _buffer(self.tables, numbers, self.buffer.cell, frozenset(ports))

    def require(self) -> None:
        """Raise a SwitchError if the buffer cannot be divided as the tables say."""
        needs = {
            port.number: PortNeeds(port.settings.pfc.enabled, port.rate, Duration("0s")) for port in self.ports.values()
        }
        try:
            self.buffer.settings(needs)
        except UsageError as error:
            raise SwitchError(f"{self.name}: {error}") from None

    def dscp(self, priority: int, port: str | None = None) -> int:
        """Return a DSCP that this switch takes for a priority (traffic class), for `Flow(..., dscp=...)`.

        It is -1 if ports trust the tag: the host's tag has the priority.

        `port` is that of the sender, by default the first port that is up and has such a DSCP.
        """
        up = [one for one in self.ports.values() if one.up]
        for one in [self.ports[port]] if port is not None else up or self.ports.values():
            if one.settings.priorities.trust is Trust.DOT1P:
                return -1
            carrier = one.settings.priorities.carrier(priority)
            if carrier is not None:
                return carrier
        where = f" at {port}" if port is not None else ""
        raise SwitchError(f"{self.name}: no DSCP is mapped to traffic class {priority}{where}")


def read_octets(name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def scale_for(tables: Tables) -> Scale:
    """Return the scale that makes 100 Mb/s of the fastest port."""
    fastest = max((row.speed for row in tables.ports.values()), default=100)
    return Scale(max(1, -(-fastest * 10**6 // LAB_RATE.bps)))


def speed(tables: Tables, port: str) -> Rate:
    return Rate.from_bps(tables.ports[port].speed * 10**6)


def node_name(hostname: str, number: int) -> str:
    """Return the switch's name in the lab: its own if it fits interfaces and Mininet, else s1, s2, ..."""
    return hostname if _NODE.fullmatch(hostname) else f"s{number}"


# A port


def _llr(tables: Tables, port: str) -> Llr | None:
    if port not in tables.llr_ports:
        return None
    from testbed.subjects.sonic import llr  # a module takes time in the lab, and most switches have no LLR

    return llr.settings_of(tables, port)


def _port(tables: Tables, name: str, watchdog_scale: Fraction) -> Port:
    row = tables.qos_of(name)
    priorities = _priorities(tables, name)
    enabled = row.pfc_enable or frozenset()
    dwrr, strict = _schedulers(tables, name)
    return Port(
        pfc=PfcSettings(enabled, watchdog=_watchdog(tables, name, watchdog_scale)),
        priorities=priorities,
        dwrr=dwrr,
        strict=strict,
        ecn=_ecn(tables, name),
        trimming=trimming_of(tables, name),
        trim_exceptions=exceptions_of(tables, name)[:MOST_EXCEPTIONS],
    )


def _priorities(tables: Tables, name: str) -> PriorityMap:
    classes, pauses = classes_of(tables, name), tables.map_of(name, MapKind.PFC_TO_QUEUE)
    dscp, dot1p, groups, queues = classes.dscp, classes.dot1p, classes.groups, classes.queues
    trust = Trust.DOT1P if dscp is None and dot1p is not None else Trust.DSCP
    return PriorityMap(
        trust,
        dscp_to_dot1p=[(dscp or {}).get(value, 0) for value in range(64)],
        dot1p_to_local={} if queues is None else [queues.get(value, 0) for value in range(8)],
        pcp_to_dot1p={} if dot1p is None else [dot1p.get(value, 0) for value in range(8)],
        dot1p_to_group={} if groups is None else [groups.get(value, 0) for value in range(8)],
        pause_to_local={} if pauses is None else pauses,
    )


def _schedulers(tables: Tables, name: str) -> tuple[dict[int, int], frozenset[int]]:
    """Return the weights and the strict queues. A queue without a scheduler shares with a weight of 1."""
    weights, strict = {}, set()
    for queue in range(8):
        row = tables.queues.get((name, queue))
        scheduler = tables.schedulers.get(row.scheduler or "") if row else None
        if scheduler is None:
            continue
        if scheduler.type is SchedulerType.STRICT:
            strict.add(queue)
        elif scheduler.weight is not None:
            weights[queue] = scheduler.weight
    return weights, frozenset(strict)


def _ecn(tables: Tables, name: str) -> dict[int, EcnCurve]:
    found = {}
    for queue in range(8):
        row = tables.queues.get((name, queue))
        wred = tables.wred.get(row.wred_profile or "") if row else None
        if wred is None or wred.green_max_threshold is None or not wred.ecn.marks_green:
            continue
        high = Size.from_bytes(wred.green_max_threshold)
        low = high if wred.green_min_threshold is None else Size.from_bytes(wred.green_min_threshold)
        percent = wred.green_drop_probability
        if percent == 0:  # nothing below the upper threshold, and all from there on
            low, percent = high, None
        found[queue] = EcnCurve(low, high, 1 if percent is None else Fraction(percent, 100))
    return found


def _watchdog(tables: Tables, name: str, scale: Fraction) -> WatchdogSettings | None:
    row = tables.watchdogs.get(name)
    if row is None:
        return None
    return watchdog_settings(row, tables.watchdog_poll or DEFAULT_POLL_MS, scale)


def watchdog_settings(row: WatchdogRow, poll_ms: int, scale: Fraction = Fraction(1)) -> WatchdogSettings:
    """Return the watchdog of a port, with its times multiplied by a factor."""

    def times(ms: int) -> Duration:
        return Duration.from_ps(round(ms * 10**9 * scale))

    restoration = row.detection_time * 2 if row.restoration_time is None else row.restoration_time
    return WatchdogSettings(
        times(row.detection_time), times(restoration), times(poll_ms), _ACTIONS[row.action], Kind.SONIC
    )


# The buffer


def _buffer(tables: Tables, numbers: Mapping[str, int], cell: int, ports: frozenset[str]) -> Buffer:
    """Return the buffer as `ports` share it, without the reserved memory of other ports."""
    ingress, egress = ingress_pools(tables), egress_pools(tables)
    if not ingress:
        return Buffer(cell=cell)
    for name, pools in (("ingress", ingress), ("egress", egress)):
        if len(pools) > MOST_POOLS:
            raise SwitchError(f"there are {len(pools)} {name} pools; the lab's switch has at most {MOST_POOLS}")
    absent = [port for port in tables.ports if port not in ports]
    elsewhere = {one.name: one.reserved for one in divisions(tables, absent)}
    sizes = memory(tables)
    groups = {
        (numbers[port], number): _group(tables, port, number, list(ingress), cell)
        for port in ports
        for number in range(8)
    }
    chosen = []
    for number, (name, pool) in enumerate(ingress.items()):
        size = sizes[name]
        most = max((group.headroom for group in groups.values() if group.pool == number), default=0)
        shared = None if pool.xoff is None else max(most, pool.xoff // cell)
        if pool.xoff is None:
            size -= sum(row.xoff or 0 for port in absent for row in _profiles(tables, port) if row.pool == name)
        chosen.append(Pool(max(0, size - elsewhere[name]) // cell, shared))
    queues = {
        (numbers[port], queue): _queue(profile, list(egress), cell)
        for (port, queue), name in tables.queue_profiles.items()
        if port in ports and (profile := tables.profiles.get(name)) and profile.pool in egress
    }
    egress_sizes = tuple(max(0, sizes[name] - elsewhere[name]) // cell for name in egress)
    return Buffer(
        total=chosen[0].total,
        cell=cell,
        headroom_pool=chosen[0].headroom_pool,
        groups=groups,
        overbook_headroom=True,
        xon_offset=0,
        more_pools=tuple(chosen[1:]),
        egress_pools=egress_sizes if queues else (),
        queues=queues,
        headroom=SharedHeadroomPool(over_subscribe=tables.over_subscribe) if tables.over_subscribe else None,
    )


def _profiles(tables: Tables, port: str) -> list[ProfileRow]:
    found = (tables.profile(port, number) for number in range(8))
    return [profile for profile in found if profile is not None]


def _group(tables: Tables, port: str, number: int, pools: list[str], cell: int) -> GroupSettings:
    profile, enabled = tables.profile(port, number), number in tables.pfc_of(port)
    if profile is None:
        computed = enabled and tables.groups.get((port, number)) == NULL
        headroom = needed_at(tables, port, cell).most // cell if computed else 0
        return GroupSettings(enabled, headroom=headroom)
    pool = tables.pools[profile.pool]
    threshold = _threshold(profile, cell)
    offset = -(-(profile.xon_offset or 0) // cell) if enabled and profile.xon_offset is not None else 0
    if isinstance(threshold, Static):
        offset = min(offset, threshold.cells)
    elif profile.xon_offset is None and enabled and profile.xon is not None:
        offset = MOST_CELLS  # then xon alone decides
    return GroupSettings(
        lossless=enabled,
        guaranteed=reserved(tables, profile, pool) // cell,
        threshold=threshold,
        xon_offset=offset,
        headroom=(profile.xoff or 0) // cell if enabled else 0,
        xon=(profile.xon or 0) // cell,
        pool=pools.index(profile.pool) if profile.pool in pools else 0,
    )


def _queue(profile: ProfileRow, pools: list[str], cell: int) -> QueueSettings:
    return QueueSettings(profile.size // cell, _threshold(profile, cell), pools.index(profile.pool))


def _threshold(profile: ProfileRow, cell: int) -> Threshold:
    if profile.static_th is not None:
        return Static.of_bytes(profile.static_th, cell)
    return Dynamic.power(profile.dynamic_th or 0)


def as_json(switch: Switch) -> dict[str, Any]:
    """Return the switch that was made of a file, for programs."""
    return {
        "name": switch.name,
        "scale": switch.scale.k,
        "cell": switch.buffer.cell,
        "ports": {
            port.name: {"number": port.number, "rate": str(port.rate), "length": str(port.length), "up": port.up}
            for port in switch.ports.values()
        },
    }
