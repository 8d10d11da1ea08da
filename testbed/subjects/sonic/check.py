"""The contradictions and risks in the tables of a switch.

Each finding is a warning: the switch takes such a file. A rule's name is for programs.

The contradictions between the switches of a fabric: the settings of the two ends of each cable.

Each finding is a warning. A rule's name is for programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from testbed.errors import listed
from testbed.strict.problems import Problem, Problems
from testbed.strict.problems import json_path as path
from testbed.subjects.sonic import trimming
from testbed.subjects.sonic.classes import classes_of
from testbed.subjects.sonic.headroom import (
    Division,
    GroupHeadroom,
    described,
    divisions,
    egress_pools,
    ingress_pools,
    lossless_groups,
)
from testbed.subjects.sonic.tables import NULL, MapKind, Mode, NeighbourRow, ProfileRow, SchedulerType, Tables
from testbed.units import Length

CELL = 208
_SPEED_WITH_FEC = 200_000
"""The speed in Mb/s from which on all of 802.3's physical layers have RS-FEC."""
_DEFAULT_POLL_MS = 200


def check(tables: Tables, problems: Problems[str], cell: int = CELL) -> None:
    """Check one switch. Findings go to `problems`."""
    checker = _Checker(tables, problems, cell)
    checker.pools()
    checker.profiles()
    for port in tables.ports:
        checker.port(port)
    checker.channels()
    if tables.llr_ports or tables.llr_profiles:
        checker.retry()
    checker.report()


class _Checker:
    """Checks one switch. Equal findings at several ports become one, with all these ports in it."""

    def __init__(self, tables: Tables, problems: Problems[str], cell: int) -> None:
        self._tables = tables
        self._problems = problems
        self._cell = cell
        self._divisions = {one.name: one for one in divisions(tables)}
        self._at_ports: dict[tuple[str, str, str], list[str]] = {}

    def _warn(self, where: str, message: str, rule: str) -> None:
        self._problems.warning(where, message, rule=rule)

    def _at(self, port: str, where: str, message: str, rule: str) -> None:
        """`message` continues "Ethernet0, Ethernet4: "."""
        ports = self._at_ports.setdefault((where, message, rule), [])
        if port not in ports:
            ports.append(port)

    def report(self) -> None:
        for (where, message, rule), ports in self._at_ports.items():
            self._warn(where, f"{listed(ports, 6)}: {message}", rule)

    # Pools and profiles

    def pools(self) -> None:
        for name, pool in self._tables.pools.items():
            groups, where = self._divisions[name], path("BUFFER_POOL", name)
            if pool.size is None:
                self._warn(
                    where, f"no size, so the switch divides its memory itself; {groups.size} B are assumed", "size"
                )
            if groups.shared < 0:
                self._warn(
                    where,
                    f"{groups.reserved} B reserved and {groups.headroom} B headroom are {-groups.shared} B more than "
                    "the pool has; such a switch cannot be built",
                    "oversubscribed",
                )
            elif groups.promised > groups.headroom:
                size = f"xoff is {groups.headroom} B"
                if pool.xoff is None:
                    size = f"over_subscribe_ratio {self._tables.over_subscribe} makes {groups.headroom} B of it"
                self._warn(
                    where,
                    f"its groups may use {groups.promised} B of headroom and {size}: oversubscribed "
                    f"by {groups.promised / max(1, groups.headroom):.1f}, so groups "
                    "that pause together can lose frames",
                    "headroom oversubscribed",
                )

    def profiles(self) -> None:
        for name, profile in self._tables.profiles.items():
            pool, where = self._tables.pools.get(profile.pool), path("BUFFER_PROFILE", name)
            if pool is None:
                continue
            if profile.dynamic_th is not None and pool.mode is Mode.STATIC:
                self._warn(where, f"dynamic_th in the pool {profile.pool}, whose mode is static", "mode")
            if profile.static_th is not None and profile.lossless and pool.mode is Mode.DYNAMIC:
                self._warn(where, f"static_th in the pool {profile.pool}, whose mode is dynamic", "mode")
            if profile.static_th is not None and profile.xon is not None and profile.xon > profile.static_th:
                self._warn(
                    where,
                    f"xon, {profile.xon} B, is more than static_th, {profile.static_th} B: a group resumes as "
                    "soon as its headroom is empty",
                    "xon above xoff",
                )
            if profile.lossless and profile.xon is None and not profile.xon_offset:
                self._warn(where, "no xon and no xon_offset: PAUSE ends one cell below the threshold", "no hysteresis")
            self._offset(where, profile)

    def _offset(self, where: str, profile: ProfileRow) -> None:
        """Find an xon_offset that no threshold is above: it cannot do anything."""
        division = self._divisions.get(profile.pool)
        if not profile.xon_offset or not profile.lossless or division is None or division.shared < 0:
            return
        if profile.static_th is not None:
            most = min(profile.static_th, division.shared)
        else:
            most = int(division.shared * Fraction(2) ** (profile.dynamic_th or 0))
        if profile.xon_offset < most:
            return
        ends = f"xon, {profile.xon} B, alone ends PAUSE" if profile.xon else "PAUSE ends when the group is empty"
        self._warn(
            where,
            f"xon_offset, {profile.xon_offset} B, is not below the threshold, which is {most} B at the most: it has no "
            f"effect, and {ends}",
            "xon_offset above threshold",
        )

    # Ports

    def port(self, port: str) -> None:
        self._fec(port)
        self._directions(port)
        for where, message, rule in trimming.check(self._tables, port):
            self._at(port, where, message, rule)
        self._lossless(port)
        self._ways(port)
        self._queues(port)
        self._watchdog(port)

    def retry(self) -> None:
        """Find what is contradictory about LLR, and without effect in the lab."""
        from testbed.subjects.sonic import llr

        for port in self._tables.llr_ports:
            for where, message, rule in llr.check(self._tables, port):
                self._at(port, where, message, rule)
        for where, message, rule in llr.check_profiles(self._tables):
            self._warn(where, message, rule)

    def _fec(self, port: str) -> None:
        """Find ports without the FEC that is part of their physical layer: IEEE 802.3 clauses 119 and 172."""
        row = self._tables.ports[port]
        if row.fec == "none" and row.speed >= _SPEED_WITH_FEC:
            self._at(
                port,
                path("PORT"),
                f"fec is none at {row.speed // 1000}G, and lanes of that speed are PAM4, which does not work without: "
                "set fec to rs",
                "no fec",
            )

    def channels(self) -> None:
        """Find port channels whose members are not alike: a flow may be lossless on one of them alone."""
        tables = self._tables
        for name, ports in tables.channels.items():
            kinds: dict[str, set[object]] = {
                "speed": {tables.ports[port].speed for port in ports},
                "MTU": {tables.ports[port].mtu for port in ports},
                "cable length": {tables.cables.get(port) for port in ports},
                "pfc_enable": {tables.pfc_of(port) for port in ports},
                "headroom": {tuple(one.has for one in lossless_groups(tables, port, self._cell)) for port in ports},
                "watchdog": {tables.watchdogs.get(port) for port in ports},
            }
            if differ := [kind for kind, values in kinds.items() if len(values) > 1]:
                self._warn(
                    path("PORTCHANNEL", name),
                    f"its members {listed(ports, 6)} differ in {', '.join(differ)}: what is lossless depends on the "
                    "member that the hash chooses",
                    "channel differs",
                )

    def _directions(self, port: str) -> None:
        """Find profiles of the wrong direction: a group takes cells of an ingress pool, and a queue of an
        egress pool.
        """
        tables = self._tables
        for table, places, pools, effect in (
            ("BUFFER_PG", tables.groups, ingress_pools(tables), "groups take their cells of ingress pools"),
            ("BUFFER_QUEUE", tables.queue_profiles, egress_pools(tables), "it does not limit these queues"),
        ):
            wrong: dict[str, list[int]] = {}
            for (other, number), given in places.items():
                name = tables.profile_name(port, number) if given == NULL and table == "BUFFER_PG" else given
                profile = tables.profiles.get(name or "") if other == port else None
                if (
                    name is not None
                    and profile is not None
                    and profile.pool in tables.pools
                    and profile.pool not in pools
                ):
                    wrong.setdefault(name, []).append(number)
            for name, numbers in wrong.items():
                pool = tables.profiles[name].pool
                self._at(
                    port,
                    path(table),
                    f"{listed(map(str, numbers))} have the profile {name} of {pool}, an {tables.pools[pool].type} "
                    f"pool: {effect}",
                    "wrong direction",
                )

    def _lossless(self, port: str) -> None:
        tables = self._tables
        enabled, headrooms = tables.pfc_of(port), lossless_groups(tables, port, self._cell)
        for headroom in headrooms:
            priority, name = headroom.group, headroom.profile
            profile = tables.profile(port, priority)
            if name is None:
                self._at(
                    port,
                    path("BUFFER_PG"),
                    f"PFC is on for {priority}, and this group has no buffer profile: its frames are not lossless",
                    "no headroom",
                )
            elif profile is None and tables.groups[port, priority] == NULL:
                self._at(
                    port,
                    path("BUFFER_PROFILE"),
                    f"group {priority} has the profile NULL, and there is no {name}; "
                    "headroom is computed from speed, cable and MTU",
                    "no profile",
                )
            elif profile is not None and not profile.xoff:
                self._at(
                    port,
                    path("BUFFER_PROFILE", name),
                    f"PFC is on for {priority}, and this profile has no xoff: what arrives after PAUSE is lost",
                    "no headroom",
                )
            elif profile is not None:
                self._headroom(headroom)
        for (other, priority), name in tables.groups.items():
            profile = tables.profile(port, priority) if other == port else None
            if profile is not None and profile.lossless and priority not in enabled:
                shown = name if name != NULL else str(tables.profile_name(port, priority))
                self._at(
                    port,
                    path("BUFFER_PROFILE", shown),
                    f"group {priority} has this lossless profile, and PFC is off for it: no sender is paused",
                    "pfc off",
                )

    def _headroom(self, group: GroupHeadroom) -> None:
        port = group.port
        if port not in self._tables.cables:
            self._at(port, path("CABLE_LENGTH"), "no cable length; 5m is assumed", "no length")
        if group.slack < 0:
            self._at(
                port,
                path("BUFFER_PROFILE", group.profile or "", "xoff"),
                f"xoff is {group.has} B and {described(self._tables, port)} need {group.need.least} B at least: "
                f"{-group.slack} B are missing, and frames will be lost; {group.remedy}",
                "headroom too small",
            )

    def _ways(self, port: str) -> None:
        """Find contradictions on the ways from a priority to its group and queue, and from PAUSE to the queue."""
        tables, enabled = self._tables, self._tables.pfc_of(port)
        if not enabled:
            return
        where = path("PORT_QOS_MAP", port)
        maps, pauses = classes_of(tables, port), tables.map_of(port, MapKind.PFC_TO_QUEUE)
        groups, queues = maps.groups, maps.queues
        to_class = maps.dscp or maps.dot1p
        if maps.left_over:
            self._at(
                port,
                path("PORT_QOS_MAP"),
                f"traffic classes {listed(map(str, sorted(maps.left_over)))} have groups and queues of their own "
                "beside 0 to 7; the lab's switch has eight classes, and their frames get class 0",
                "too many classes",
            )
        if to_class is None:
            self._at(port, path("PORT_QOS_MAP"), "PFC is on, and no map gives frames a traffic class", "no map")
        for priority in sorted(enabled):
            classes = [tc for tc in range(8) if (groups or {}).get(tc, tc if groups is None else 0) == priority]
            if not classes:
                self._at(
                    port,
                    path("PORT_QOS_MAP"),
                    f"PFC is on for {priority}, and no traffic class is mapped to group "
                    f"{priority}: PAUSE is never sent",
                    "unused group",
                )
                continue
            if to_class is not None and not set(classes) & set(to_class.values()):
                self._at(
                    port, path("PORT_QOS_MAP"), f"no frame gets a traffic class of group {priority}", "unused class"
                )
            stopped = pauses.get(priority) if pauses is not None else priority
            if stopped is None:
                self._at(
                    port,
                    path("PORT_QOS_MAP"),
                    f"PFC is on for {priority}, and pfc_to_queue_map has no queue for it: PAUSE stops nothing",
                    "no queue",
                )
            for tc in classes:
                queue = queues.get(tc) if queues is not None else tc
                if queue is None:
                    self._at(
                        port,
                        path("PORT_QOS_MAP"),
                        f"PFC is on for {priority}, and tc_to_queue_map has no queue for its traffic class {tc}",
                        "no queue",
                    )
                elif stopped is not None and queue != stopped:
                    self._at(
                        port,
                        path("PORT_QOS_MAP"),
                        f"PAUSE for {priority} stops queue {stopped}, and traffic class "
                        f"{tc} of group {priority} waits in queue {queue}",
                        "queues differ",
                    )
        others = [tc for tc in (to_class or {}).values() if groups is not None and tc not in groups]
        if others:
            self._warn(
                where,
                f"traffic classes {listed(map(str, sorted(set(others))))} have no group in tc_to_pg_map; 0 is taken",
                "map incomplete",
            )

    def _queues(self, port: str) -> None:
        tables, enabled = self._tables, self._tables.pfc_of(port)
        queues = tables.map_of(port, MapKind.TC_TO_QUEUE)
        for priority in sorted(enabled):
            queue = (queues or {}).get(priority, priority)
            row = tables.queues.get((port, queue))
            used = tables.queue_profiles.get((port, queue))
            if tables.queue_profiles and used is None:
                self._at(
                    port, path("BUFFER_QUEUE"), f"lossless queue {queue} has no buffer profile", "no queue profile"
                )
            wred = tables.wred.get(row.wred_profile or "") if row else None
            if row is not None and wred is not None:
                self._wred(port, priority, queue, str(row.wred_profile))
            if used is not None and used != NULL:
                self._egress(port, priority, queue, used)
        weights = [
            scheduler
            for queue in range(8)
            if (row := tables.queues.get((port, queue))) and (scheduler := tables.schedulers.get(row.scheduler or ""))
        ]
        for scheduler in weights:
            if scheduler.type is not SchedulerType.STRICT and scheduler.weight is None:
                self._at(port, path("SCHEDULER"), "a scheduler without weight serves a queue; 1 is taken", "no weight")

    def _wred(self, port: str, priority: int, queue: int, name: str) -> None:
        wred, profile = self._tables.wred[name], self._tables.profile(port, priority)
        where = path("WRED_PROFILE", name)
        if not wred.ecn.marks_green:
            self._at(port, where, f"WRED without ECN drops frames of lossless queue {queue}", "wred drops")
        if profile is None or wred.green_min_threshold is None:
            return
        limit = self._most_shared(profile.pool, profile.dynamic_th, profile.static_th)
        if limit is not None and wred.green_min_threshold >= limit:
            self._at(
                port,
                where,
                f"green_min_threshold is {wred.green_min_threshold} B, and group {priority} pauses at "
                f"{limit} B: ECN never marks before PFC",
                "ecn above pfc",
            )
        elif limit is not None and (wred.green_max_threshold or 0) >= limit:
            self._at(
                port,
                where,
                f"green_max_threshold is {wred.green_max_threshold} B, and group {priority} pauses at "
                f"{limit} B: a single sender is paused before every packet is marked",
                "ecn above pfc",
            )

    def _most_shared(self, pool: str, power: int | None, static: int | None) -> int | None:
        """Return the part of the shared memory that a group may hold if it is the only one."""
        division: Division | None = self._divisions.get(pool)
        if division is None or division.shared < 0:
            return None
        if static is not None:
            return min(static, division.shared)
        alpha = Fraction(2) ** (power or 0)
        return int(division.shared * alpha / (1 + alpha))

    def _egress(self, port: str, priority: int, queue: int, name: str) -> None:
        """Find lossless queues that cannot hold all that their groups can hold at ingress."""
        profile, group = self._tables.profiles.get(name), self._tables.profile(port, priority)
        if profile is None or group is None or profile.pool not in egress_pools(self._tables):
            return
        least = self._most_shared(profile.pool, profile.dynamic_th, profile.static_th)
        most = self._most_shared(group.pool, group.dynamic_th, group.static_th)
        if least is None or most is None or group.pool not in ingress_pools(self._tables):
            return
        if least + profile.size < most:
            self._at(
                port,
                path("BUFFER_PROFILE", name),
                f"lossless queue {queue} drops above {least + profile.size} B, and "
                f"one group {priority} may hold {most} B: frames are lost at egress before PFC is sent",
                "egress drops",
            )

    def _watchdog(self, port: str) -> None:
        tables, row = self._tables, self._tables.watchdogs.get(port)
        enabled = tables.pfc_of(port)
        if row is None:
            if enabled and tables.watchdogs:
                self._at(port, path("PFC_WD"), "PFC is on, and the watchdog is off", "no watchdog")
            return
        if not enabled:
            self._at(port, path("PFC_WD"), "the watchdog is on, and PFC is off", "watchdog without pfc")
        poll = tables.watchdog_poll or _DEFAULT_POLL_MS
        if row.detection_time < poll:
            self._at(
                port,
                path("PFC_WD"),
                f"detection_time, {row.detection_time} ms, is below POLL_INTERVAL, {poll} ms: a storm is "
                "found up to that much later",
                "watchdog poll",
            )
        if watched := sorted(enabled ^ tables.watched(port)):
            self._at(
                port,
                path("PORT_QOS_MAP"),
                f"pfc_enable and pfcwd_sw_enable differ in {listed(map(str, watched))}",
                "watchdog differs",
            )


_USED_MAPS = (MapKind.DSCP_TO_TC, MapKind.DOT1P_TO_TC, MapKind.TC_TO_PG, MapKind.TC_TO_QUEUE, MapKind.PFC_TO_QUEUE)


def check_fabric(switches: Mapping[str, Tables]) -> list[tuple[str, Problem[str]]]:
    """Return the contradictions between the switches of several files, as (file, finding).

    A switch is identified by its hostname.
    """
    found: list[tuple[str, Problem[str]]] = []
    files = {tables.hostname: file for file, tables in switches.items()}
    for file, tables in switches.items():
        for port, near in tables.neighbours.items():
            other = files.get(near.name)
            if other is None or other == file:
                continue
            problems = Problems[str]()
            _link(tables, port, switches[other], near, problems)
            found += [(file, problem) for problem in problems.found]
    return found


def _link(one: Tables, port: str, other: Tables, near: NeighbourRow, problems: Problems[str]) -> None:
    name, far = near.name, near.port
    where = path("DEVICE_NEIGHBOR", port)
    ends = f"{port} and {name} {far}"
    if far not in other.ports:
        problems.warning(where, f"{name} has no port {far or '(none is named)'}", rule="neighbour")
        return
    back = other.neighbours.get(far)
    if back is not None and (back.name, back.port) != (one.hostname, port):
        problems.warning(
            where, f"{name} {far} is this port's neighbour, and its own is {back.name} {back.port}", rule="neighbour"
        )
    for what, here, there in (
        ("speed", one.ports[port].speed, other.ports[far].speed),
        ("MTU", one.ports[port].mtu, other.ports[far].mtu),
        ("cable length", _length(one, port), _length(other, far)),
    ):
        if here != there:
            problems.warning(where, f"{ends} differ in {what}: {here} and {there}", rule="ends differ")
    for priorities, has, lacks in (
        (one.pfc_of(port) - other.pfc_of(far), port, f"{name} {far}"),
        (other.pfc_of(far) - one.pfc_of(port), f"{name} {far}", port),
    ):
        if priorities:
            numbers = listed(map(str, sorted(priorities)))
            problems.warning(where, f"PFC of {numbers} is on at {has} and off at {lacks}", rule="pfc differs")
    if one.llr_ports or other.llr_ports:
        from testbed.subjects.sonic import llr

        if found := llr.differs(one, port, other, far):
            problems.warning(where, f"{ends}: {found}", rule="llr differs")
    for kind in _USED_MAPS:
        here_map, there_map = one.map_of(port, kind) or {}, other.map_of(far, kind) or {}
        differ = _differences(here_map, there_map, kind.sources)
        if differ:
            problems.warning(where, f"{ends} differ in {kind}: {listed(differ, 4)}", rule="maps differ")


def _length(tables: Tables, port: str) -> str | None:
    text = tables.cables.get(port)
    return None if text is None else str(Length(text))


def _differences(one: Mapping[int, int], other: Mapping[int, int], sources: Sequence[int]) -> list[str]:
    return list(_each_difference(one, other, sources))


def _each_difference(one: Mapping[int, int], other: Mapping[int, int], sources: Sequence[int]) -> Iterator[str]:
    for source in sources:
        here, there = one.get(source), other.get(source)
        if here != there:
            yield f"{source} to {'none' if here is None else here} and {'none' if there is None else there}"
