"""The lines of a log in words, for ladder diagrams: what is new in a frame, and what an event means.

The lines are those of `show.record` and `show.frame_record`. An event of another kind, which an agent may have added,
is written with its name and its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from testbed.subjects.dcbx import features

Record = Mapping[str, Any]

_COMMON = {"t_ns", "what", "port", "time"}


def frame(line: Record, before: Record | None) -> list[str]:
    """Return what differs in a frame from the sender's frame `before`; all of it if there was none."""
    if "refused" in line:
        return [f"not LLDP as it should be: {line['why']}"]
    if line["ttl"] == 0:
        return ["shutdown (TTL 0)"]
    if line["mismatch"]:
        return ["the other format"]
    if before is not None and not before.get("ttl"):  # a shutdown, or no LLDP: nothing of it is known any more
        before = None
    tlvs, old = line["tlvs"], _tlvs(before)
    said = []
    for feature in features.every():
        if feature.name in tlvs and tlvs[feature.name] != old.get(feature.name):
            said.append(feature.tlv_text(tlvs[feature.name], line["version"]))
    said += [f"no {one.head} any more" for one in features.every() if one.name in old and one.name not in tlvs]
    if before is not None and before["ttl"] != line["ttl"]:
        said.append(f"TTL {line['ttl']}")
    return said or ["as before" if old else "no DCBX"]


def event(line: Record, before: Record | None) -> list[str]:
    """Return what is new in an event, or nothing; `before` is the last event of its kind on the same port."""
    if feature := features.of_event(line["what"]):
        return feature.event_text(line, before or {})
    say = _EVENTS.get(line["what"])
    return [_in_general(line)] if say is None else say(line, before or {})


def pending(lines: list[Record]) -> list[str]:
    """Return several changes of Pending at one moment in words."""
    said = []
    for truth, head in ((True, "pending"), (False, "no longer pending")):
        names = [features.named(line["feature"]).head for line in lines if line["pending"] is truth]
        if names:
            said.append(f"{head}: {', '.join(names)}")
    return said


def sentence(line: Record) -> str | None:
    """Return an event of `show.line` as a line, or None if it is not worth one."""
    if feature := features.of_event(line["what"]):
        return feature.sentence(line)
    match line["what"]:
        case "neighbour_found":
            return f"neighbour {line['chassis_id']} port {line['port_id']} appeared"
        case "neighbour_lost":
            return f"neighbour {line['chassis_id']} port {line['port_id']} lost: {line['why']}"
        case "crowd_changed":
            if line["crowded"]:
                return f"DCBX is off: {line['neighbours']} neighbours are on the link"
            return "DCBX is on again: one neighbour is left on the link"
        case "version_mismatch":
            speaks = line["peer_speaks"]
            return f"the peer speaks the {speaks} format; its DCBX TLVs are ignored" if speaks else None
    return None


def _tlvs(line: Record | None) -> Record:
    return {} if line is None else line.get("tlvs", {})


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
    "pending_changed": lambda line, _: pending([line]),
    "peer_changed": lambda _, __: [],  # the arrow before it shows the same
    "neighbour_found": lambda line, _: [f"new neighbour {_neighbour(line)}"],
    "neighbour_lost": lambda line, _: [f"neighbour {_neighbour(line)} is gone: {line['why']}"],
    "crowd_changed": _crowd_changed,
    "version_mismatch": _version_mismatch,
}
