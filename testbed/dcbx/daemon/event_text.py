"""Events of DCBX as lines for a terminal; details for programs are in the log file alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.dcbx import features


def sentence(record: Mapping[str, Any]) -> str | None:
    """Return an event of `show.record` as a line, or None if it is not worth one."""
    if feature := features.of_event(record["what"]):
        return feature.sentence(record)
    match record["what"]:
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
