"""Events of DCBX as lines for a terminal; details for programs are in the log file alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.dcbx import value_text


def sentence(record: Mapping[str, Any]) -> str | None:
    """One of `show.record`'s; None: not worth a line."""
    match record["what"]:
        case "pfc_changed":
            return f"PFC {value_text.priorities(record['enabled'])}{_defended(record)}: {record['why']}"
        case "cn_changed":
            return f"CN {value_text.priorities(record['enabled'])}{_defended(record)}: {record['why']}"
        case "ets_changed":
            return f"ETS {value_text.value('ets', record['ets'])}: {record['why']}"
        case "applications_changed":
            return f"applications {value_text.applications(record['entries'])}: {record['why']}"
        case "neighbour_found":
            return f"neighbour {record['chassis_id']} port {record['port_id']} appeared"
        case "neighbour_lost":
            return f"neighbour {record['chassis_id']} port {record['port_id']} lost: {record['why']}"
        case "crowd_changed":
            if record["crowded"]:
                return f"DCBX is off: {record['neighbours']} neighbours are on the link"
            return "DCBX is on again: one neighbour is left on the link"
        case "version_mismatch":
            speaks = record["peer_speaks"]
            return f"the peer speaks the {speaks} format; its DCBX TLVs are ignored" if speaks else None
    return None


def _defended(record: Mapping[str, Any]) -> str:
    return f", defended {value_text.priorities(record['defended'])}" if record["defended"] else ""
