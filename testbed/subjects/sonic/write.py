"""Typed tables as a config_db.json: names without brackets, one row for each port and number, all values strings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from testbed.subjects.sonic import trimming
from testbed.subjects.sonic.tables import Tables

Row = dict[str, str]


def write(tables: Tables) -> str:
    """Return the file's text, of which `read` makes equal tables."""
    return json.dumps(as_json(tables), indent=4) + "\n"


def as_json(tables: Tables) -> dict[str, dict[str, Row]]:
    """Return the file as plain data. Tables without rows are left out."""
    device = _row({"hostname": tables.hostname or None, "platform": tables.platform or None})
    content: dict[str, dict[str, Row]] = {
        "DEVICE_METADATA": {"localhost": device} if device else {},
        "PORT": {
            name: _row({"speed": row.speed, "lanes": row.lanes or None, "alias": row.alias or None, "mtu": row.mtu})
            | {"admin_status": "up" if row.admin_up else "down"}
            | _row({"fec": row.fec or None})
            for name, row in tables.ports.items()
        },
        "CABLE_LENGTH": {"AZURE": dict(tables.cables)} if tables.cables else {},
        "DEVICE_NEIGHBOR": {
            name: _row({"name": row.name, "port": row.port or None}) for name, row in tables.neighbours.items()
        },
        "BUFFER_POOL": {name: _fields(row) for name, row in tables.pools.items()},
        "BUFFER_PROFILE": {name: _fields(row) for name, row in tables.profiles.items()},
        "BUFFER_PG": {_key(place): {"profile": name} for place, name in tables.groups.items()},
        "BUFFER_QUEUE": {_key(place): {"profile": name} for place, name in tables.queue_profiles.items()},
    }
    for (kind, name), entries in tables.maps.items():
        content.setdefault(kind.table, {})[name] = {str(source): str(target) for source, target in entries.items()}
    content["PORT_QOS_MAP"] = {
        name: {
            **{str(kind): chosen for kind, chosen in row.maps.items()},
            **_priorities("pfc_enable", row.pfc_enable),
            **_priorities("pfcwd_sw_enable", row.pfcwd_sw_enable),
        }
        for name, row in tables.qos.items()
    }
    content["WRED_PROFILE"] = {name: _fields(row) for name, row in tables.wred.items()}
    content["SCHEDULER"] = {name: _fields(row) for name, row in tables.schedulers.items()}
    content["QUEUE"] = {_key(place): _fields(row) for place, row in tables.queues.items()}
    poll = {} if tables.watchdog_poll is None else {"GLOBAL": {"POLL_INTERVAL": str(tables.watchdog_poll)}}
    content["PFC_WD"] = poll | {name: _fields(row) for name, row in tables.watchdogs.items()}
    if tables.over_subscribe is not None:
        content["DEFAULT_LOSSLESS_BUFFER_PARAMETER"] = {"AZURE": {"over_subscribe_ratio": str(tables.over_subscribe)}}
    content["PORTCHANNEL"] = {name: {} for name in tables.channels}
    members = [(name, port) for name, ports in tables.channels.items() for port in ports]
    content["PORTCHANNEL_MEMBER"] = {f"{name}|{port}": {} for name, port in members}
    content |= trimming.as_json(tables)
    if tables.llr_ports or tables.llr_profiles or tables.llr_mode:
        from testbed.subjects.sonic import llr

        content |= llr.as_json(tables)
    own = {table: {key: dict(row) for key, row in rows.items()} for table, rows in tables.own.items()}
    return {table: rows for table, rows in content.items() if rows} | own


def _key(place: tuple[str, int]) -> str:
    return f"{place[0]}|{place[1]}"


def _priorities(name: str, chosen: frozenset[int] | None) -> Row:
    return {} if chosen is None else {name: ",".join(map(str, sorted(chosen)))}


def _fields(row: Any) -> Row:
    return _row({one.name: getattr(row, one.name) for one in fields(row)})


def _row(values: Mapping[str, object]) -> Row:
    return {name: str(value) for name, value in values.items() if value is not None}
