"""The switch of conformance cases where the user gives none, and changes of tables for controls.

Not an experiment. Four ports with cables of 40 m; priorities 3 and 4 are lossless; DSCP 0 to 7 are traffic classes 0
to 7; each class has a queue, DWRR with nearly equal weights; ECN between 500 kB and 2 MB on the lossless queues.
"""

import json
from dataclasses import replace
from typing import Any

from testbed.subjects.sonic.headroom import ingress_pools, needed
from testbed.subjects.sonic.read import read
from testbed.subjects.sonic.tables import Ecn, ProfileRow, Tables
from xoff import Length, Rate

SPEEDS = ("100G", "400G", "800G")
MODELS = ("dynamic", "static")
PORTS = [f"Ethernet{8 * number}" for number in range(4)]
LOSSLESS = (3, 4)
CELL = 208
MTU = 9216
_LENGTH = "40m"
_SHARED = 12_000_000
"""Bytes of the ingress pool that are neither reserved nor headroom."""
_RESERVED = 18_720
_EGRESS_LOSSY = 1_000_000
"""Bytes of the egress pool of the six lossy queues, which the static thresholds of one port's queues divide. Else three
of them take all of it, and acknowledgements on another one are dropped.
"""


def rate(speed: str) -> Rate:
    return Rate(f"{speed}b/s")


def default_json(speed: str, model: str) -> dict[str, Any]:
    """Return the default switch as a config_db.json."""
    all_ports = ",".join(PORTS)
    headroom = needed(rate(speed), Length(_LENGTH), MTU, CELL).most
    groups = len(PORTS) * len(LOSSLESS)
    pool = {"type": "ingress", "mode": model, "xoff": str(groups * headroom)}
    lossless = {"pool": "ingress_pool", "size": str(_RESERVED), "xoff": str(headroom), "xon": str(_RESERVED)}
    small, large = ({"dynamic_th": "-2"}, {"dynamic_th": "0"}) if model == "dynamic" else (
        {"static_th": "2080000"}, {"static_th": "1000000"})  # fmt: skip
    lossy_queue = {"dynamic_th": "0"} if model == "dynamic" else {"static_th": str(_EGRESS_LOSSY // 6 // 1000 * 1000)}
    lossy, high = ",".join(map(str, sorted({*range(8)} - {*LOSSLESS}))), "3-4"
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "dut1"}},
        "PORT": {
            name: {"speed": str(rate(speed).bps // 10**6), "mtu": str(MTU), "admin_status": "up"} for name in PORTS
        },
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(PORTS, _LENGTH)},
        "BUFFER_POOL": {
            "ingress_pool": pool | {"size": str(_SHARED + groups * (headroom + _RESERVED))},
            "egress_lossless_pool": {"type": "egress", "mode": "static", "size": str(64_000_000)},
            "egress_lossy_pool": {"type": "egress", "mode": model, "size": str(_EGRESS_LOSSY)},
        },
        "BUFFER_PROFILE": {
            "ingress_lossless": lossless | {"xon_offset": "20800"} | small,
            "ingress_lossy": {"pool": "ingress_pool", "size": "0"} | large,
            "egress_lossless": {"pool": "egress_lossless_pool", "size": "0", "static_th": str(64_000_000)},
            "egress_lossy": {"pool": "egress_lossy_pool", "size": "0"} | lossy_queue,
        },
        "BUFFER_PG": {f"{all_ports}|{high}": {"profile": "ingress_lossless"}}
        | {f"{all_ports}|{number}": {"profile": "ingress_lossy"} for number in lossy.split(",")},
        "BUFFER_QUEUE": {f"{all_ports}|{high}": {"profile": "egress_lossless"}}
        | {f"{all_ports}|{number}": {"profile": "egress_lossy"} for number in lossy.split(",")},
        "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): str(dscp if dscp < 8 else 0) for dscp in range(64)}},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {str(tc): str(tc) for tc in range(8)}},
        "TC_TO_QUEUE_MAP": {"AZURE": {str(tc): str(tc) for tc in range(8)}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {str(priority): str(priority) for priority in range(8)}},
        "PORT_QOS_MAP": {
            all_ports: {
                "dscp_to_tc_map": "AZURE",
                "tc_to_pg_map": "AZURE",
                "tc_to_queue_map": "AZURE",
                "pfc_to_queue_map": "AZURE",
                "pfc_enable": "3,4",
                "pfcwd_sw_enable": "3,4",
            }
        },
        "SCHEDULER": {
            "lossy": {"type": "DWRR", "weight": "14"},
            "lossless": {"type": "DWRR", "weight": "15"},
        },
        "WRED_PROFILE": {
            "AZURE_LOSSLESS": {
                "ecn": "ecn_all",
                "wred_green_enable": "true",
                "green_min_threshold": "500000",
                "green_max_threshold": "2000000",
                "green_drop_probability": "5",
            }
        },
        "QUEUE": {f"{all_ports}|{high}": {"scheduler": "lossless", "wred_profile": "AZURE_LOSSLESS"}}
        | {f"{all_ports}|{number}": {"scheduler": "lossy"} for number in lossy.split(",")},
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "100"}}
        | {name: {"action": "drop", "detection_time": "200", "restoration_time": "200"} for name in PORTS},
    }


def default_tables(speed: str, model: str) -> Tables:
    """Return the default switch, read as any file is."""
    return read(json.dumps(default_json(speed, model)).encode()).require("the default switch")


# What controls turn off


def without_pfc(tables: Tables) -> Tables:
    """Return the tables without PFC at any port; groups keep their buffers, which are then those of lossy traffic."""
    qos = {port: replace(row, pfc_enable=frozenset(), pfcwd_sw_enable=frozenset()) for port, row in tables.qos.items()}
    return without_watchdog(replace(tables, qos=qos))


def without_headroom(tables: Tables) -> Tables:
    """Return the tables without headroom: frames that arrive after XOFF find no room."""
    profiles = {
        name: replace(profile, xoff=0) if profile.lossless else profile for name, profile in tables.profiles.items()
    }
    for pool in list(ingress_pools(tables))[:1]:  # of groups whose headroom the switch computes itself
        computed = {tables.profile_name(*place) for place in tables.groups if tables.profile(*place) is None}
        profiles |= {name: ProfileRow(pool, xoff=0, dynamic_th=0) for name in computed if name}
    return replace(tables, profiles=profiles)


def without_watchdog(tables: Tables) -> Tables:
    """Return the tables without watchdogs, which would end a case that holds a queue until a buffer is full."""
    return replace(tables, watchdogs={})


def without_ecn(tables: Tables) -> Tables:
    """Return the tables without marks by any queue."""
    return replace(tables, wred={name: replace(row, ecn=Ecn.NONE) for name, row in tables.wred.items()})
