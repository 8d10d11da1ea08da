"""Any switch of the lab as tables of config_db.json: ports, buffer and maps, with every number as the lab has it.

Settings that SONiC has no field for stand in tables of Xoff's own, whose names begin with XOFF_; a SONiC switch passes
them over like any unknown table. `switch_of` makes ports and buffer of such tables again, equal to those that
were written. A port that speaks DCBX, or has the virtual lanes of a QoS policy, is refused: its settings are
negotiated, or a policy's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from testbed.errors import UsageError, listed
from testbed.net.fabric.port import Port, Reaction
from testbed.subjects.sonic.tables import (
    Ecn,
    LlrPortRow,
    MapKind,
    Mode,
    PoolRow,
    PoolType,
    PortRow,
    ProfileRow,
    QosRow,
    QueueRow,
    SchedulerRow,
    SchedulerType,
    Tables,
    WatchdogAction,
    WatchdogRow,
    WredRow,
)
from testbed.switch.buffer.headroom import HeadroomPerGroup, HeadroomPolicy, SharedHeadroomPool, policy_of
from testbed.switch.buffer.settings import (
    BufferSettings,
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
from testbed.switch.trimming.settings import TrimException, Trimming
from testbed.units import Duration, Length, Rate, Scale, Size

if TYPE_CHECKING:
    from testbed.switch.link.retry import Llr

_SWITCH, _PORTS, _PROFILES = "XOFF_SWITCH", "XOFF_PORT", "XOFF_PROFILE"
_HERE = "localhost"
_INGRESS, _EGRESS = "ingress_pool", "egress_pool"
_PS_OF_MS = 10**9
_OF_HARDWARE = "hardware"


class ExportError(UsageError):
    """The error of a switch that config_db.json cannot describe."""


@dataclass(frozen=True)
class ExportedPort:
    """A port, with the values of the hardware."""

    settings: Port
    rate: Rate
    length: Length
    llr: Llr | None = None
    """Link Layer Retry on the port's cable, with what the cable has chosen."""


@dataclass(frozen=True)
class Exported:
    """A switch of the lab: ports by number, and its buffer as it is divided."""

    name: str
    ports: Mapping[int, ExportedPort]
    buffer: BufferSettings
    scale: int = 1


def _policy_of(buffer: BufferSettings) -> dict[str, str]:
    """Return the policy for headroom, if it is not that of each group by itself, and the pools that follow it."""
    policy = buffer.policy
    if isinstance(policy, HeadroomPerGroup):
        return {}
    ratio = {"over_subscribe": str(policy.over_subscribe)} if isinstance(policy, SharedHeadroomPool) else {}
    follow = ",".join(str(place) for place, pool in enumerate(buffer.pools) if pool.headroom_pool is None)
    return {"headroom": policy.name, "headroom_follows": follow, **ratio}


def _policy_from(own: Mapping[str, str]) -> HeadroomPolicy:
    if "over_subscribe" in own:
        return SharedHeadroomPool(over_subscribe=own["over_subscribe"])
    return policy_of(own.get("headroom"))


def name_of(number: int) -> str:
    """Return the SONiC name of a port of the lab."""
    return f"Ethernet{number}"


def tables_of(switch: Exported) -> Tables:
    """Return the tables of a switch. ExportError for settings that have no form in them."""
    for number, port in switch.ports.items():
        if port.settings.dcbx is not None or port.settings.vls is not None:
            why = "speaks DCBX" if port.settings.dcbx else "has virtual lanes of a QoS policy"
            raise ExportError(f"port {number} of {switch.name} {why}; config_db.json has no table for it")
        if port.rate.bps % 10**6:
            raise ExportError(f"port {number} of {switch.name} has {port.rate}; speed is a whole number of Mb/s")
    cell = switch.buffer.cell_bytes
    names = {number: name_of(number) for number in switch.ports}
    profiles: dict[str, ProfileRow] = {}
    own: dict[str, dict[str, dict[str, str]]] = {
        _SWITCH: {_HERE: {"cell": str(cell), "scale": str(switch.scale), "times": _OF_HARDWARE,
                          "overbook_headroom": str(switch.buffer.overbook_headroom),
                          **_policy_of(switch.buffer)}},
        _PORTS: {},
        _PROFILES: {},
    }  # fmt: skip
    groups, queues = {}, {}
    for (number, priority), group in switch.buffer.all_groups().items():
        row = _profile(f"{_INGRESS}_{group.pool}", group.guaranteed, group.threshold, cell)
        row = replace(
            row, xon=group.xon * cell, xon_offset=group.xon_offset * cell,
            xoff=group.headroom * cell if group.lossless else None,
        )  # fmt: skip
        groups[names[number], priority] = _named(profiles, own, f"group_{number}_{priority}", row, group.threshold)
    for (number, place), queue in switch.buffer.queues.items():
        row = _profile(f"{_EGRESS}_{queue.pool}", queue.reserved, queue.threshold, cell)
        queues[names[number], place] = _named(profiles, own, f"queue_{number}_{place}", row, queue.threshold)
    pools = {
        f"{_INGRESS}_{place}": PoolRow(
            PoolType.INGRESS, Mode.DYNAMIC, pool.total * cell,
            _pool_xoff(switch.buffer, place),
        )
        for place, pool in enumerate(switch.buffer.pools)
    }  # fmt: skip
    pools |= {
        f"{_EGRESS}_{place}": PoolRow(PoolType.EGRESS, Mode.DYNAMIC, size * cell)
        for place, size in enumerate(switch.buffer.egress_pools)
    }
    tables = Tables(
        hostname=switch.name,
        ports={names[number]: PortRow(port.rate.bps // 10**6) for number, port in switch.ports.items()},
        cables={names[number]: _length(port.length) for number, port in switch.ports.items()},
        pools=pools,
        profiles=profiles,
        groups=groups,
        queue_profiles=queues,
        own=own,
    )
    for number, port in switch.ports.items():
        tables = _with_port(tables, names[number], port.settings)
        own[_PORTS][names[number]] = {"number": str(number)} | _own_port(port.settings)
        if port.llr is not None:
            tables = _with_llr(tables, names[number], port.llr)
            own[_PORTS][names[number]] |= {} if port.llr.re_init else {"llr_re_init": "False"}
    return tables


def _with_llr(tables: Tables, name: str, retry: Llr) -> Tables:
    """Return the tables with the LLR of one more port, by a profile of its own."""
    from testbed.subjects.sonic import llr

    row = llr.row_of(retry)
    for field, (least, most) in llr.NUMBERS.items():
        if not least <= (value := getattr(row, field)) <= most:
            raise ExportError(f"{name}: LLR's {field} is {value}; config_db.json has {least} to {most}")
    return replace(
        tables,
        llr_ports=dict(tables.llr_ports) | {name: LlrPortRow(None, True, True, name)},
        llr_profiles=dict(tables.llr_profiles) | {name: row},
    )


def _llr_from(tables: Tables, name: str, own: Mapping[str, str]) -> Llr | None:
    """Return the LLR that `_with_llr` wrote."""
    if name not in tables.llr_ports:
        return None
    from testbed.subjects.sonic import llr

    found = llr.settings_of(tables, name)
    return found and replace(found, re_init=own.get("llr_re_init") != "False")


def _pool_xoff(buffer: BufferSettings, place: int) -> int | None:
    """Return the bytes of a pool's headroom, or None if each group has its own."""
    if buffer.pools[place].headroom_pool is None and isinstance(buffer.policy, HeadroomPerGroup):
        return None
    return buffer.pool_cells(place)[2] * buffer.cell_bytes


def _length(length: Length) -> str:
    return f"{length.mm}mm" if length.mm % 1000 else f"{length.mm // 1000}m"


def _profile(pool: str, size: int, threshold: Threshold, cell: int) -> ProfileRow:
    if isinstance(threshold, Static):
        return ProfileRow(pool, size * cell, static_th=threshold.cells * cell)
    exponent = threshold.exponent
    if exponent is None:  # the nearest below, for a reader that passes our tables over
        alphas = [n for n in range(-8, 9) if Fraction(2) ** n <= threshold.alpha]
        exponent = alphas[-1] if alphas else -8
    return ProfileRow(pool, size * cell, dynamic_th=exponent)


def _named(profiles: dict[str, ProfileRow], own: Any, name: str, row: ProfileRow, threshold: Threshold) -> str:
    profiles[name] = row
    if isinstance(threshold, Dynamic) and threshold.exponent is None:
        own[_PROFILES][name] = {"alpha": str(threshold.alpha)}
    return name


def _with_port(tables: Tables, name: str, port: Port) -> Tables:
    """Return the tables with one more port's maps, schedulers, WRED profiles and watchdog."""
    priorities, maps = port.priorities, dict(tables.maps)
    chosen = {
        MapKind.DSCP_TO_TC: priorities.dscp_to_dot1p,
        MapKind.DOT1P_TO_TC: priorities.pcp_to_dot1p,
        MapKind.TC_TO_PG: priorities.dot1p_to_group,
        MapKind.TC_TO_QUEUE: priorities.dot1p_to_local,
        MapKind.PFC_TO_QUEUE: priorities.pause_to_local,
    }
    for kind, values in chosen.items():
        maps[kind, name] = dict(enumerate(values))
    wred, schedulers, queues = dict(tables.wred), dict(tables.schedulers), dict(tables.queues)
    for queue in range(8):
        curve, profile, scheduler = port.ecn.get(queue), f"{name}_{queue}", f"{name}_{queue}"
        if curve is not None:
            percent = int(curve.pmax * 100)
            wred[profile] = WredRow(Ecn.ALL, curve.kmin.bytes, curve.kmax.bytes, percent)
        strict = queue in port.strict
        weight = port.dwrr.get(queue)
        if strict:
            schedulers[scheduler] = SchedulerRow(SchedulerType.STRICT)
        elif weight is not None:
            schedulers[scheduler] = SchedulerRow(SchedulerType.DWRR, weight)
        if curve is not None or strict or weight is not None:
            has = strict or weight is not None
            queues[name, queue] = QueueRow(scheduler if has else None, profile if curve is not None else None)
    watchdogs, guard = dict(tables.watchdogs), port.pfc.watchdog
    if guard is not None:
        times = [max(1, time.ps // _PS_OF_MS) for time in (guard.detection, guard.restoration)]
        watchdogs[name] = WatchdogRow(WatchdogAction(guard.action.value), *times)
    qos = dict(tables.qos) | {name: QosRow({kind: name for kind in chosen}, port.pfc.enabled, None)}
    return replace(tables, maps=maps, wred=wred, schedulers=schedulers, queues=queues, watchdogs=watchdogs, qos=qos)


def _own_port(port: Port) -> dict[str, str]:
    """Return the settings that SONiC has no field for, if they are not the default."""
    usual, settings = Port(), {"trust": port.priorities.trust.value}
    settings["port_priority"] = str(port.priorities.port_priority)
    for name in ("rewrite_dot1p", "rewrite_dscp"):
        settings[name] = ",".join("-" if value is None else str(value) for value in getattr(port.priorities, name))
    settings["shares"] = ",".join(f"{priority}:{share}" for priority, share in port.shares.items())
    pfc, guard = port.pfc, port.pfc.watchdog
    settings |= {"pause_quanta": str(pfc.pause_quanta), "refresh": str(pfc.refresh), "send_xon": str(pfc.send_xon)}
    if guard is not None:
        times = [str(time.ps) for time in (guard.detection, guard.restoration, guard.poll)]
        settings["watchdog"] = ",".join([*times, guard.kind])
    for queue, curve in port.ecn.items():
        limit = "-" if curve.limit is None else str(curve.limit.bytes)
        settings[f"ecn_{queue}"] = f"{curve.pmax},{limit},{curve.keep_not_ect}"
    if port.obeys_after != usual.obeys_after:
        settings["obeys_after"] = str(port.obeys_after.ps)
    if port.trimming is not None:
        trims = port.trimming
        numbers = [trims.size, trims.dscp, trims.queue, trims.tc]
        settings["trimming"] = ",".join(
            ["".join(map(str, sorted(trims.queues))), *("-" if n is None else str(n) for n in numbers)]
        )
    if port.trim_exceptions:
        settings["trim_exceptions"] = ";".join(_exception(one) for one in port.trim_exceptions)
    if port.reaction is not None:
        settings["reaction"] = f"{port.reaction.sends.ps},{port.reaction.stops.ps}"
    return settings


_OF_EXCEPTIONS = ("source", "destination", "protocol", "source_port", "destination_port", "dscp")


def _exception(one: TrimException) -> str:
    values = (getattr(one, name) for name in _OF_EXCEPTIONS)
    return ",".join("-" if value is None else str(value) for value in values)


def _trimming_from(own: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of trimming that `_own_port` wrote."""
    settings: dict[str, Any] = {}
    if "trimming" in own:
        queues, *words = own["trimming"].split(",")
        size, dscp, queue, tc = (None if word == "-" else int(word) for word in words)
        settings["trimming"] = Trimming(frozenset(map(int, queues)), size or 0, dscp or 0, queue, tc)
    if "trim_exceptions" in own:
        settings["trim_exceptions"] = tuple(
            TrimException(**{
                name: word if name in _OF_EXCEPTIONS[:2] else int(word)
                for name, word in zip(_OF_EXCEPTIONS, text.split(","), strict=True)
                if word != "-"
            })  # type: ignore[arg-type]
            for text in own["trim_exceptions"].split(";")
        )  # fmt: skip
    return settings


def of_fabric(fabric: Any, node: str) -> Exported:
    """Return a switch or router of a running network."""
    if node not in fabric.buffers:
        raise ExportError(f"{node} has no buffer; {listed(fabric.buffers)} have")
    ports = {}
    for port in fabric.core.ports.by_node()[node]:
        scale = port.scale.k
        cable = port.lab_cable
        ports[port.number] = ExportedPort(
            port.settings.in_hardware(port.scale),
            Rate.from_bps(cable.rate.bps * scale),
            Duration.from_ps(cable.delay.ps // scale).length(),
            cable.in_hardware(port.scale).retry if cable.llr else None,
        )
    return Exported(node, dict(sorted(ports.items())), fabric.buffers[node], scale)


# And back


def switch_of(tables: Tables) -> Exported:
    """Return the switch from which `tables_of` made the tables. ExportError if it did not make them."""
    try:
        return _switch_of(tables)
    except (KeyError, ValueError, IndexError) as error:
        raise ExportError(
            f"{tables.hostname or 'the file'} was not written by Xoff, or was changed ({error}); "
            "Switch.from_config_db reads any"
        ) from None


def _switch_of(tables: Tables) -> Exported:
    settings = tables.own[_SWITCH][_HERE]
    cell, own = int(settings["cell"]), tables.own.get(_PORTS, {})
    # Before Xoff 0.1 the times of ports were those of the lab.
    is_in_lab_time, scale = settings.get("times") != _OF_HARDWARE, Scale(int(settings["scale"]))
    numbers = {name: int(own[name]["number"]) for name in tables.ports}
    enabled = {name: tables.pfc_of(name) for name in tables.ports}
    groups = {}
    for (name, priority), profile in tables.groups.items():
        row = tables.profiles[profile]
        groups[numbers[name], priority] = GroupSettings(
            lossless=row.xoff is not None,
            guaranteed=row.size // cell,
            threshold=_threshold(tables, profile, cell),
            xon_offset=(row.xon_offset or 0) // cell,
            headroom=(row.xoff or 0) // cell,
            xon=(row.xon or 0) // cell,
            pool=int(row.pool.rpartition("_")[2]),
        )
    queues = {
        (numbers[name], place): QueueSettings(
            tables.profiles[profile].size // cell,
            _threshold(tables, profile, cell),
            int(tables.profiles[profile].pool.rpartition("_")[2]),
        )
        for (name, place), profile in tables.queue_profiles.items()
    }
    rows = [row for row in tables.pools.values() if row.type is PoolType.INGRESS]
    follow = settings.get("headroom_follows", "").split(",")
    pools = [
        Pool((row.size or 0) // cell, None if row.xoff is None or str(place) in follow else row.xoff // cell)
        for place, row in enumerate(rows)
    ]
    buffer = BufferSettings(
        ports=tuple(numbers.values()),
        total=pools[0].total,
        headroom_pool=pools[0].headroom_pool,
        groups=groups,
        cell_bytes=cell,
        overbook_headroom=settings["overbook_headroom"] == "True",
        more_pools=tuple(pools[1:]),
        egress_pools=tuple((row.size or 0) // cell for row in tables.pools.values() if row.type is PoolType.EGRESS),
        queues=queues,
        policy=_policy_from(settings),
    )
    ports = {
        numbers[name]: ExportedPort(
            _port_of(tables, name, enabled[name], own[name], is_in_lab_time).in_hardware(scale),
            Rate.from_bps(row.speed * 10**6),
            Length(tables.cables[name]),
            _llr_from(tables, name, own[name]),
        )
        for name, row in tables.ports.items()
    }
    return Exported(tables.hostname, ports, buffer, int(settings["scale"]))


def _threshold(tables: Tables, name: str, cell: int) -> Threshold:
    row, own = tables.profiles[name], tables.own.get(_PROFILES, {}).get(name, {})
    if row.static_th is not None:
        return Static(row.static_th // cell)
    return Dynamic(own["alpha"]) if "alpha" in own else Dynamic.power(row.dynamic_th or 0)


def _port_of(tables: Tables, name: str, enabled: frozenset[int], own: Mapping[str, str], is_in_lab_time: bool) -> Port:
    maps = {kind: tables.map_of(name, kind) or {} for kind in MapKind}

    def optional(text: str) -> list[int | None]:
        return [None if part == "-" else int(part) for part in text.split(",")]

    priorities = PriorityMap(
        Trust(own["trust"]),
        int(own["port_priority"]),
        dscp_to_dot1p=maps[MapKind.DSCP_TO_TC],
        dot1p_to_local=maps[MapKind.TC_TO_QUEUE],
        rewrite_dot1p=optional(own["rewrite_dot1p"]),
        rewrite_dscp=optional(own["rewrite_dscp"]),
        pcp_to_dot1p=maps[MapKind.DOT1P_TO_TC],
        dot1p_to_group=maps[MapKind.TC_TO_PG],
        pause_to_local=maps[MapKind.PFC_TO_QUEUE],
    )
    strict, dwrr, ecn = set(), {}, {}
    for queue in range(8):
        row = tables.queues.get((name, queue), QueueRow())
        scheduler = tables.schedulers.get(row.scheduler or "")
        if scheduler is not None and scheduler.type is SchedulerType.STRICT:
            strict.add(queue)
        elif scheduler is not None and scheduler.weight is not None:
            dwrr[queue] = scheduler.weight
        wred = tables.wred.get(row.wred_profile or "")
        if wred is not None:
            pmax, limit, keep = own[f"ecn_{queue}"].split(",")
            ecn[queue] = EcnCurve(
                Size.from_bytes(wred.green_min_threshold or 0), Size.from_bytes(wred.green_max_threshold or 0),
                Fraction(pmax), None if limit == "-" else Size.from_bytes(int(limit)), keep == "True",
            )  # fmt: skip
    guard = None
    if "watchdog" in own:
        *times, kind = (own["watchdog"] + ("" if own["watchdog"].count(",") > 2 else f",{Kind.IDEAL}")).split(",")
        detection, restoration, poll = (Duration.from_ps(int(ps)) for ps in times)
        action = Action(tables.watchdogs[name].action.value)
        guard = WatchdogSettings(detection, restoration, poll, action, Kind(kind))
    pfc = PfcSettings(enabled, int(own["pause_quanta"]), Fraction(own["refresh"]), own["send_xon"] == "True", guard)
    reaction = None
    if "reaction" in own:
        sends, stops = (Duration.from_ps(int(ps)) for ps in own["reaction"].split(","))
        reaction = Reaction(sends, stops)
    shares = dict(part.split(":") for part in own["shares"].split(",") if part)
    return Port(
        pfc=pfc,
        priorities=priorities,
        shares={int(priority): int(share) for priority, share in shares.items()},
        strict=frozenset(strict),
        dwrr=dwrr,
        ecn=ecn,
        obeys_after=Duration.from_ps(int(own.get("obeys_after", "0"))),
        reaction=reaction,
        is_in_lab_time=is_in_lab_time,
        **_trimming_from(own),
    )
