"""The lines of a log as text: what is new in a frame, and what an event means. For ladder diagrams.

The lines are those of `show.record` and `show.frame_record`. An event of another kind, which an agent may have added,
is written with its name and its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from testbed.dcbx import value_text
from testbed.frames.dcbx.values import DcbxVersion

Record = Mapping[str, Any]

_COMMON = {"t_ns", "what", "port", "time"}


def frame(line: Record, before: Record | None) -> list[str]:
    """What differs in a frame from the sender's frame `before`; all of it if there is none."""
    if "refused" in line:
        return [f"not LLDP as it should be: {line['why']}"]
    if line["ttl"] == 0:
        return ["shutdown (TTL 0)"]
    if line["mismatch"]:
        return ["the other format"]
    if before is not None and not before.get("ttl"):  # a shutdown, or no LLDP: nothing of it is known any more
        before = None
    tlvs, old = line["tlvs"], _tlvs(before)
    said = [_TLVS[name](tlvs[name], line) for name in _TLVS if name in tlvs and tlvs[name] != old.get(name)]
    said += [f"no {value_text.NAMES[name]} any more" for name in _TLVS if name in old and name not in tlvs]
    if before is not None and before["ttl"] != line["ttl"]:
        said.append(f"TTL {line['ttl']}")
    return said or ["as before" if old else "no DCBX"]


def event(line: Record, before: Record | None) -> list[str]:
    """What is new in an event; `before` is the last one of its kind on the same port. Empty: nothing new."""
    say = _EVENTS.get(line["what"])
    return [_in_general(line)] if say is None else say(line, before or {})


def pending(lines: list[Record]) -> list[str]:
    """Several changes of Pending at one moment."""
    said = []
    for truth, head in ((True, "pending"), (False, "no longer pending")):
        names = [value_text.NAMES[line["feature"]] for line in lines if line["pending"] is truth]
        if names:
            said.append(f"{head}: {', '.join(names)}")
    return said


def _tlvs(line: Record | None) -> Record:
    return {} if line is None else line.get("tlvs", {})


# TLVs


def _ets(tlv: Record, _: Record) -> str:
    return f"ETS {value_text.ets(tlv)}{_willing(tlv)}{', CBS' if tlv['cbs'] else ''}"


def _recommendation(tlv: Record, _: Record) -> str:
    if not tlv["valid"]:
        return "recommends nothing yet (RV 0)"
    return f"recommends ETS {value_text.recommendation(tlv)}{' (RV 1)' * (tlv['tsa'] is None)}"


def _pfc(tlv: Record, _: Record) -> str:
    most = "" if tlv["cap"] == 8 else f", on {tlv['cap']} at most"
    enabled = value_text.priorities(tlv["enabled"])
    return f"PFC {enabled}{most}{_willing(tlv)}{_defends(tlv)}{', headroom' if tlv['headroom'] else ''}"


def _applications(tlv: Record, line: Record) -> str:
    return f"APP {value_text.applications(tlv['entries'])}{_willing_in_draft(tlv, line)}"


def _cn(tlv: Record, line: Record) -> str:
    return f"CN {value_text.priorities(tlv['enabled'])}{_willing_in_draft(tlv, line)}{_defends(tlv)}"


def _willing(tlv: Record) -> str:
    return ", willing" if tlv["willing"] else ", not willing"


def _willing_in_draft(tlv: Record, line: Record) -> str:
    """The published format has no W in these."""
    return _willing(tlv) if line["version"] == DcbxVersion.DRAFT else ""


def _defends(tlv: Record) -> str:
    return "" if tlv["defended"] is None else f", defends {value_text.priorities(tlv['defended'])}"


_TLVS: dict[str, Callable[[Any, Record], str]] = {
    "traffic_classes": lambda tlv, _: f"TC {tlv}",
    "ets": _ets,
    "recommendation": _recommendation,
    "pfc": _pfc,
    "applications": _applications,
    "cn": _cn,
}


# Events


def _masks(name: str) -> Callable[[Record, Record], list[str]]:
    def say(line: Record, before: Record) -> list[str]:
        said = []
        if line["enabled"] != before.get("enabled"):
            said.append(f"{name} {value_text.priorities(line['enabled'])}, {line['why']}")
        if line["defended"] != before.get("defended", []):
            said.append(f"{name} defends {value_text.priorities(line['defended'])}")
        if line.get("held", []) != before.get("held", []):
            said.append(f"{name} holds {value_text.priorities(line['held'])}")
        return said

    return say


def _ets_changed(line: Record, before: Record) -> list[str]:
    if before and before["ets"] == line["ets"]:
        return []
    return [f"ETS {'off' if line['ets'] is None else value_text.ets(line['ets'])}, {line['why']}"]


def _applications_changed(line: Record, before: Record) -> list[str]:
    if before.get("entries") == line["entries"]:
        return []
    return [f"APP {value_text.applications(line['entries'])}, {line['why']}"]


def _traffic_classes_changed(line: Record, before: Record) -> list[str]:
    return [] if before.get("local") == line["local"] else [f"TC {line['local']}"]


def _headroom_changed(line: Record, before: Record) -> list[str]:
    if line["both"] is before.get("both", False):
        return []
    return [f"headroom {'can' if line['both'] else 'can not'} be measured, {line['why']}"]


def _neighbour(line: Record) -> str:
    return f"{line['chassis_id']} port {line['port_id']}"


def _crowd_changed(line: Record, _: Record) -> list[str]:
    if line["crowded"]:
        return [f"DCBX is off: {line['neighbours']} neighbours are on the link"]
    return ["no longer several neighbours"]


def _version_mismatch(line: Record, _: Record) -> list[str]:
    speaks = line["peer_speaks"]
    return ["no longer a peer of the other format" if speaks is None else f"the peer speaks the {speaks} format"]


def _in_general(line: Record) -> str:
    values = [f"{name} {value}" for name, value in line.items() if name not in _COMMON]
    return ", ".join([str(line["what"]).replace("_", " "), *values])


_EVENTS: dict[str, Callable[[Record, Record], list[str]]] = {
    "pfc_changed": _masks("PFC"),
    "cn_changed": _masks("CN"),
    "ets_changed": _ets_changed,
    "applications_changed": _applications_changed,
    "traffic_classes_changed": _traffic_classes_changed,
    "headroom_changed": _headroom_changed,
    "pending_changed": lambda line, _: pending([line]),
    "peer_changed": lambda _, __: [],  # the arrow before it shows the same
    "neighbour_found": lambda line, _: [f"new neighbour {_neighbour(line)}"],
    "neighbour_lost": lambda line, _: [f"neighbour {_neighbour(line)} is gone: {line['why']}"],
    "crowd_changed": _crowd_changed,
    "version_mismatch": _version_mismatch,
}
