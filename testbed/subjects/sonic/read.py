"""Reads a config_db.json into typed tables, and collects everything that is wrong with it.

Both styles of references are read, `[BUFFER_PROFILE|name]` and `name`, and keys with ranges and lists, as in
`Ethernet0,Ethernet4|3-4`. Values are strings; a number or a list is read as if it were one. Tables and fields that are
not modelled are listed, and are no error. ReadConfig returns for any octets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from testbed.errors import UsageError, listed
from testbed.strict.problems import Problems, ProblemsError, shortened, shown
from testbed.strict.problems import json_path as path
from testbed.subjects.sonic import trimming
from testbed.subjects.sonic.entries import MOST_BYTES, Entry, EntryReader, Row, load
from testbed.subjects.sonic.tables import (
    GLOBAL,
    NULL,
    DiscardAction,
    Ecn,
    MapKind,
    Mode,
    NeighbourRow,
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
from testbed.units import Length

MOST_PORTS = 1024
ALPHA_POWERS = range(-8, 9)
OWN = "XOFF_"
"""The beginning of the names of Xoff's own tables."""

_PORT = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,31}", re.ASCII)
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "PORT": ("speed", "lanes", "alias", "mtu", "admin_status", "fec"),
    "DEVICE_NEIGHBOR": ("name", "port"),
    "BUFFER_POOL": ("size", "type", "mode", "xoff"),
    "BUFFER_PROFILE": (
        "pool", "size", "xon", "xon_offset", "xoff", "dynamic_th", "static_th", "packet_discard_action",
    ),
    "BUFFER_PG": ("profile",),
    "BUFFER_QUEUE": ("profile",),
    "PORT_QOS_MAP": (*MapKind, "pfc_enable", "pfcwd_sw_enable"),
    "WRED_PROFILE": (
        "ecn", "green_min_threshold", "green_max_threshold", "green_drop_probability", "wred_green_enable",
    ),
    "SCHEDULER": ("type", "weight"),
    "QUEUE": ("scheduler", "wred_profile"),
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": ("over_subscribe_ratio",),
    "PFC_WD": ("action", "detection_time", "restoration_time", "POLL_INTERVAL"),
    **trimming.FIELDS,
    "LLR_CONFIG": ("mode",),
    "LLR_PORT": ("llr_mode", "llr_local", "llr_remote", "llr_profile", "profile"),
    "LLR_PROFILE": (
        "max_outstanding_frames", "max_outstanding_bytes", "max_replay_count", "max_replay_timer", "pcs_lost_timeout",
        "data_age_timeout", "ctlos_spacing_bytes", "init_action", "flush_action",
    ),
}  # fmt: skip
_MAPS = {kind.table: kind for kind in MapKind}
_READ = {*_FIELDS, *_MAPS, "CABLE_LENGTH", "DEVICE_METADATA", "PORTCHANNEL", "PORTCHANNEL_MEMBER"}
_LIKE = 0.85
"""How much a name has to be like that of a table to be one that is misspelt."""
_NOT_MISSPELT = frozenset({"DSCP_TO_FC_MAP", "EXP_TO_FC_MAP"})
"""Tables of SONiC's that are not read, and whose names are as much like those of others."""
_FECS = ("rs", "fc", "none", "auto")


class ConfigDbError(ProblemsError):
    """A config_db.json that cannot be used, with everything that is wrong with it."""


@dataclass
class ReadConfig:
    """The result of reading a file. With errors, wrong rows and fields are missing in the tables."""

    tables: Tables
    problems: Problems[str] = field(default_factory=Problems)

    @property
    def ok(self) -> bool:
        return not self.problems.errors

    def require(self, name: str) -> Tables:
        """Return the tables, or raise a ConfigDbError with all errors. `name` is that of the file."""
        if not self.ok:
            raise ConfigDbError(name, self.problems.errors, self.problems.left_out)
        return self.tables


def read(octets: bytes) -> ReadConfig:
    """Read a file. It never raises."""
    problems = Problems[str]()
    content = load(octets, problems)
    if content is None:
        return ReadConfig(Tables(), problems)
    return ReadConfig(_Reader(content, problems, _FIELDS).tables(), problems)


class _Reader(EntryReader):
    """Reads the tables of one file."""

    def tables(self) -> Tables:
        self._ports = dict(self._each("PORT", self._port))
        if not self._ports:
            self._problems.error(path("PORT"), "there is no port; a config_db.json of a switch has its ports here")
        elif len(self._ports) > MOST_PORTS:
            self._problems.error(path("PORT"), f"there are {len(self._ports)} ports; at most {MOST_PORTS} are read")
            self._ports = {}
        pools = dict(self._each("BUFFER_POOL", self._pool))
        profiles = dict(self._each("BUFFER_PROFILE", lambda entry: self._profile(entry, pools)))
        maps = {(kind, name): entries for table, kind in _MAPS.items() for name, entries in self._maps_of(table, kind)}
        wred = dict(self._each("WRED_PROFILE", self._wred))
        schedulers = dict(self._each("SCHEDULER", self._scheduler))
        watchdogs, poll = self._watchdogs()
        acl = trimming.read_acl(self)
        found = Tables(
            hostname=self._metadata("hostname"),
            platform=self._metadata("platform"),
            ports=self._ports,
            cables=self._cables(),
            neighbours=dict(self._of_ports("DEVICE_NEIGHBOR", self._neighbour)),
            pools=pools,
            profiles=profiles,
            groups=dict(self._places("BUFFER_PG", lambda entry: self._group_profile(entry, profiles))),
            queue_profiles=dict(self._places("BUFFER_QUEUE", lambda entry: self._profile_of(entry, profiles))),
            qos=self._qos(maps),
            maps=maps,
            wred=wred,
            schedulers=schedulers,
            queues=dict(self._places("QUEUE", lambda entry: self._queue(entry, schedulers, wred))),
            watchdogs=watchdogs,
            watchdog_poll=poll,
            over_subscribe=self._over_subscription(),
            channels=self._channels(),
            trimming=trimming.read_trimming(self),
            acl_types=acl[0],
            acl_tables=acl[1],
            acl_rules=acl[2],
            own=self._own(),
            **self._llr(),
        )
        self._report_unread()
        return found

    # Tables

    def _metadata(self, name: str) -> str:
        rows = self._content.get("DEVICE_METADATA")
        row = rows.get("localhost") if isinstance(rows, dict) else None
        text = row.get(name) if isinstance(row, dict) else None
        return text if isinstance(text, str) else ""

    def _port(self, entry: Entry) -> PortRow | None:
        if not _PORT.fullmatch(entry.key):
            self._problems.error(entry.where(), "no name of a port; Ethernet0 is one")
            return None
        if "speed" not in entry.row:
            self._missing(entry, "speed", "a number of Mb/s such as 100000")
            return None
        speed = self._whole(entry, "speed", 10, 10**7)
        status = entry.row.get("admin_status", "up").strip().lower()
        if status not in ("up", "down"):
            self._problems.error(entry.where("admin_status"), f"{shown(status)} is unknown: up or down is expected")
        fec = entry.row.get("fec", "").strip().lower()
        if fec and fec not in _FECS:
            self._problems.error(entry.where("fec"), f"{shown(fec)} is unknown: {', '.join(_FECS)} are known")
        mtu = self._whole(entry, "mtu", 64, 65535)
        if speed is None:
            return None
        return PortRow(speed, entry.row.get("lanes", ""), entry.row.get("alias", ""), mtu, status != "down", fec)

    def _cables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in self._rows("CABLE_LENGTH"):
            for port, text in entry.row.items():
                if port not in self._ports:
                    if port not in self._keys("PORT"):
                        self._problems.ignored(entry.where(port), "there is no such port")
                    continue
                try:
                    Length(text)
                except UsageError as error:
                    self._problems.error(entry.where(port), str(error))
                    continue
                found[port] = text
        return found

    def _neighbour(self, entry: Entry) -> NeighbourRow | None:
        name = entry.row.get("name", "")
        if not name:
            self._missing(entry, "name", "the neighbour's hostname")
            return None
        return NeighbourRow(name, entry.row.get("port", ""))

    def _pool(self, entry: Entry) -> PoolRow | None:
        kind = self._word(entry, "type", PoolType, None)
        mode = self._word(entry, "mode", Mode, Mode.DYNAMIC)
        size = self._whole(entry, "size", 0, MOST_BYTES)
        xoff = self._whole(entry, "xoff", 0, MOST_BYTES)
        return PoolRow(kind, mode, size, xoff) if kind and mode else None

    def _profile(self, entry: Entry, pools: Mapping[str, PoolRow]) -> ProfileRow | None:
        pool = self._reference(entry, "pool", "BUFFER_POOL", pools)
        if "pool" not in entry.row:
            self._missing(entry, "pool", "the name of a BUFFER_POOL")
        sizes = {
            name: self._whole(entry, name, 0, MOST_BYTES) for name in ("size", "xon", "xon_offset", "xoff", "static_th")
        }
        power = self._whole(entry, "dynamic_th", ALPHA_POWERS[0], ALPHA_POWERS[-1])
        if "dynamic_th" in entry.row and "static_th" in entry.row:
            self._problems.error(entry.where(), "it has dynamic_th and static_th; one of them is expected")
        elif "dynamic_th" not in entry.row and "static_th" not in entry.row:
            self._problems.error(entry.where(), "it has no threshold; dynamic_th or static_th is expected")
        if pool is None:
            return None
        action = self._word(entry, "packet_discard_action", DiscardAction, DiscardAction.DROP)
        return ProfileRow(
            pool, sizes["size"] or 0, sizes["xon"], sizes["xon_offset"], sizes["xoff"], power, sizes["static_th"],
            action if "packet_discard_action" in entry.row else None,
        )  # fmt: skip

    def _group_profile(self, entry: Entry, profiles: Mapping[str, ProfileRow]) -> str | None:
        name = self._profile_of(entry, profiles)
        profile = profiles.get(name or "")
        if profile is not None and profile.packet_discard_action is DiscardAction.TRIM:
            self._problems.error(
                entry.where("profile"), f"{shown(name)} has packet_discard_action trim, which is for queues alone"
            )
        return name

    def _profile_of(self, entry: Entry, profiles: Mapping[str, ProfileRow]) -> str | None:
        if "profile" not in entry.row:
            self._missing(entry, "profile", "the name of a BUFFER_PROFILE, or NULL,")
        return self._reference(entry, "profile", "BUFFER_PROFILE", profiles)

    def _maps_of(self, table: str, kind: MapKind) -> Iterator[tuple[str, dict[int, int]]]:
        for entry in self._rows(table):
            found = {}
            for name, text in entry.row.items():
                source = self._number(entry.where(name), name, 0, kind.sources[-1])
                target = self._number(entry.where(name), text, 0, 63)
                if source is None or target is None:
                    continue
                if target not in kind.targets:
                    self._problems.error(entry.where(name), f"{target} is not modelled; 0 to {kind.targets[-1]} are")
                    continue
                found[source] = target
            yield entry.key, found

    def _qos(self, maps: Mapping[tuple[MapKind, str], object]) -> dict[str, QosRow]:
        found = {}
        for entry in self._rows("PORT_QOS_MAP"):
            chosen = {}
            for kind in MapKind:
                known = [name for one, name in maps if one is kind]
                name = self._reference(entry, kind, kind.table, known)
                if name is not None and name != NULL:
                    chosen[kind] = name
            enabled, watched = (self._priorities(entry, name) for name in ("pfc_enable", "pfcwd_sw_enable"))
            if entry.key == GLOBAL:
                found[GLOBAL] = QosRow(chosen)
                continue
            for port in self._named_ports(entry, entry.key):
                found[port] = QosRow(chosen, enabled, watched)
        return found

    def _priorities(self, entry: Entry, name: str) -> frozenset[int] | None:
        text = entry.row.get(name)
        if text is None:
            return None
        if not text.strip():
            return frozenset()
        return frozenset(self._numbers(entry.where(name), text, "list of priorities"))

    def _wred(self, entry: Entry) -> WredRow | None:
        ecn = self._word(entry, "ecn", Ecn, Ecn.NONE)
        low, high = (self._whole(entry, name, 0, MOST_BYTES) for name in ("green_min_threshold", "green_max_threshold"))
        if low is not None and high is not None and low > high:
            self._problems.error(
                entry.where("green_min_threshold"), f"{low} B is more than green_max_threshold, {high} B"
            )
        drop = self._whole(entry, "green_drop_probability", 0, 100)
        return None if ecn is None else WredRow(ecn, low, high, drop)

    def _scheduler(self, entry: Entry) -> SchedulerRow | None:
        kind = self._word(entry, "type", SchedulerType, None)
        weight = self._whole(entry, "weight", 1, 100)
        return SchedulerRow(kind, weight) if kind else None

    def _queue(self, entry: Entry, schedulers: Iterable[str], wred: Iterable[str]) -> QueueRow:
        scheduler = self._reference(entry, "scheduler", "SCHEDULER", schedulers)
        profile = self._reference(entry, "wred_profile", "WRED_PROFILE", wred)
        return QueueRow(*(None if name == NULL else name for name in (scheduler, profile)))

    def _watchdogs(self) -> tuple[dict[str, WatchdogRow], int | None]:
        poll = None
        found: dict[str, WatchdogRow] = {}
        for entry in self._rows("PFC_WD"):
            if entry.key.upper() == "GLOBAL":
                poll = self._whole(entry, "POLL_INTERVAL", 1, 10**6)
                continue
            action = self._word(entry, "action", WatchdogAction, WatchdogAction.DROP)
            if "detection_time" not in entry.row:
                self._missing(entry, "detection_time", "a number of ms such as 200")
                continue
            detection = self._whole(entry, "detection_time", 1, 10**6)
            restoration = self._whole(entry, "restoration_time", 1, 10**6)
            for port in self._named_ports(entry, entry.key):
                if action and detection is not None:
                    found[port] = WatchdogRow(action, detection, restoration)
        return found, poll

    def _over_subscription(self) -> int | None:
        """Return the ratio of the shared headroom pool; 0 is a switch without one."""
        found = [
            self._whole(entry, "over_subscribe_ratio", 0, 65535)
            for entry in self._rows("DEFAULT_LOSSLESS_BUFFER_PARAMETER")
        ]
        return next((ratio for ratio in found if ratio), None)

    def _channels(self) -> dict[str, tuple[str, ...]]:
        members: dict[str, tuple[str, ...]] = {}
        taken: dict[str, str] = {}
        for entry in self._rows("PORTCHANNEL_MEMBER"):
            channel, _, port = entry.key.partition("|")
            if not _PORT.fullmatch(channel) or not port:
                self._problems.error(entry.where(), "a key such as PortChannel1|Ethernet0 is expected")
            elif port not in self._ports:
                if port not in self._keys("PORT"):
                    self._problems.error(entry.where(), "there is no such port")
            elif port in taken:
                self._problems.error(entry.where(), f"the port is a member of {taken[port]} already")
            else:
                taken[port] = channel
                members[channel] = (*members.get(channel, ()), port)
        return members

    def _llr(self) -> dict[str, Any]:
        """Return what the tables of LLR say. Most files have none, and the module takes time in the lab."""
        if not any(table in self._content for table in ("LLR_CONFIG", "LLR_PORT", "LLR_PROFILE")):
            return {}
        from testbed.subjects.sonic import llr

        return llr.read_tables(self)

    def _own(self) -> dict[str, dict[str, Row]]:
        return {
            table: {entry.key: entry.row for entry in self._rows(table)}
            for table in self._content
            if table.startswith(OWN)
        }

    def _report_unread(self) -> None:
        others = sorted(name for name in self._content if name not in _READ and not name.startswith(OWN))
        for name in sorted({*others} - _NOT_MISSPELT):
            if close := get_close_matches(name.upper(), _READ, 1, _LIKE):
                text = f"{shortened(name)} is no table that is read; did you mean {close[0]}?"
                self._problems.warning(path(name), text, rule="misspelt table")
        if others:
            names = listed((shortened(name) for name in others), 40)
            self._problems.ignored("$", f"tables that are not modelled: {names}", rule="other tables")
        for table, fields in sorted(self._unread.items()):
            names = listed(sorted(shortened(name) for name in fields), 20)
            self._problems.ignored(path(table), f"fields that are not modelled: {names}", rule="other fields")
