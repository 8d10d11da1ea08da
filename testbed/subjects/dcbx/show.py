"""The views of DCBX on a port for people, scripts and logs: plain data that JSON can carry, and a table of it.

    snapshot(port)         everything as it is now
    table(by_port)         snapshots, also after a way through JSON, as a table for any terminal
    record(event)          one line of a log: what happened
    frame_record(octets)   one line of a log: a frame that was sent or received, and its DCBX TLVs

Priorities are lists of numbers, addresses and identifiers are text, None is what is not run, not known or not
announced. The writer of a log adds the name of the port, as "port".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from testbed.frames.dcbx.values import DcbxVersion
from testbed.frames.lldp import LldpError, parse
from testbed.frames.lldp_tlvs import Capabilities, Capability, ManagementAddress, Text, TextKind, Tlv
from testbed.subjects.dcbx import features
from testbed.subjects.dcbx.events import (
    CrowdChanged,
    Event,
    NeighbourFound,
    NeighbourLost,
    PeerChanged,
    PendingChanged,
    VersionMismatch,
)
from testbed.subjects.dcbx.features.feature import FeatureState, elected, priorities_text, priority_list
from testbed.subjects.dcbx.neighbours import Neighbour
from testbed.subjects.dcbx.port import DcbxPort
from testbed.subjects.dcbx.tlvs import DcbxTlvs, read

Plain = dict[str, Any]
_SECOND = 10**9
_TEXTS = tuple(kind.name.lower() for kind in TextKind)
Direction = Literal["sent", "received"]


# A port as it is


def snapshot(port: DcbxPort) -> Plain:
    """Return everything about a port as it is now. `neighbours` are those that are kept, eight at most."""
    neighbours, version = port.neighbours, port.settings.version
    mismatch = len(neighbours) == 1 and neighbours[0].dcbx.mismatch
    identity = port.identity
    data = {
        "running": port.is_running,
        "version": str(version),
        "tie_break": str(port.settings.breaks_tie_by),
        "mac": str(identity.mac),
        "chassis_id": str(identity.chassis_id),
        "port_id": str(identity.port_id),
        "features": {name: _feature(name, state) for name, state in port.state.states.items()},
        "neighbours": [_neighbour(neighbour) for neighbour in neighbours],
        "crowded": port.is_crowded,
        "peer_speaks": str(version.other) if mismatch else None,  # if it is the other format
        "counters": port.counters,
    }
    peer = neighbours[0].dcbx.tlvs if len(neighbours) == 1 else None
    for feature in features.every():
        data |= feature.port_data(port.settings, peer)
    return data


def _feature(name: str, state: FeatureState[Any]) -> Plain:
    feature = features.named(name)
    values = {"admin": state.admin, "oper": state.oper, "remote": state.remote}
    return {
        **{key: None if value is None else feature.value_data(value) for key, value in values.items()},
        "willing": state.willing,
        "remote_willing": state.remote_willing,
        "pending": state.pending,
        "defended": priority_list(state.defended),
        "remote_defended": priority_list(state.remote_defended),
        "why": state.why,
        **elected(held=priority_list(state.held), buffered=state.buffered),
    }


def _neighbour(neighbour: Neighbour) -> Plain:
    pdu = neighbour.frame.pdu
    return {
        "chassis_id": str(pdu.chassis_id),
        "port_id": str(pdu.port_id),
        "mac": str(neighbour.frame.source),
        "ttl": pdu.ttl,
        "expires_ns": neighbour.expires_ns,
        **_identity(pdu.tlvs),
        "flaws": [flaw.message for flaw in (*pdu.flaws, *neighbour.dcbx.flaws)],
    }


def _identity(tlvs: Iterable[Tlv]) -> Plain:
    """Return what a neighbour announces of itself. Its texts may have any characters; `details` replaces those that do
    not print.
    """
    texts = {tlv.kind: str(tlv) for tlv in tlvs if isinstance(tlv, Text)}
    enabled = next((tlv.enabled for tlv in tlvs if isinstance(tlv, Capabilities)), None)
    return {
        **{kind.name.lower(): texts.get(kind) for kind in TextKind},
        "capabilities": None if enabled is None else [str(one.name).lower() for one in Capability if enabled & one],
        "addresses": [str(tlv) for tlv in tlvs if isinstance(tlv, ManagementAddress)],
    }


def details(port: Mapping[str, Any], now_ns: int) -> list[str]:
    """Return lines about the neighbours of a port, its capability, and what was counted."""
    lines = [_introduced(neighbour, now_ns) for neighbour in port["neighbours"]]
    lines += [line for feature in features.every() for line in feature.details(port)]
    counters = ", ".join(f"{name} {count}" for name, count in port["counters"].items())
    return [*lines, f"counters: {counters or 'none'}"]


def _introduced(neighbour: Mapping[str, Any], now_ns: int) -> str:
    left_s = max(0, neighbour["expires_ns"] - now_ns) // _SECOND
    parts = [f"neighbour {neighbour['chassis_id']} port {neighbour['port_id']}, from {neighbour['mac']}"]
    parts += [f"{name.replace('_', ' ')} {_printable(neighbour[name])}" for name in _TEXTS if neighbour[name]]
    if neighbour["capabilities"]:
        parts.append("/".join(neighbour["capabilities"]))
    parts += [f"at {address}" for address in neighbour["addresses"]]
    return f"{', '.join(parts)}; TTL {neighbour['ttl']} s, {left_s} s left"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


# The table


def table(by_port: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a row for each TLV that is run or received on a port, and notes below about whole ports."""
    rows = [_row(name, *feature) for name, port in by_port.items() for feature in port["features"].items()]
    told = [row for row in rows if row is not None]
    if not told:
        return "no port with DCBX\n"
    heads = ("port", "TLV", "local", "oper", "remote", "willing l/r", "pending", "defended l/r", "why")
    notes = [f"{name}: {note}" for name, port in by_port.items() for note in _notes(port)]
    notes += legends(
        features.named(name).legend(state[key])
        for port in by_port.values()
        for name, state in port["features"].items()
        for key in ("oper", "remote")
        if state[key] is not None
    )
    return "".join(f"{line}\n" for line in [*_aligned([heads, *told]), *notes])


def legends(needed: Iterable[str | None]) -> list[str]:
    """Return each legend once; one that another one begins with is left out."""
    found = list(dict.fromkeys(text for text in needed if text is not None))
    return [text for text in found if not any(other != text and other.startswith(text) for other in found)]


def _row(port: str, name: str, feature: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the row of a feature, or None if it is neither run nor received."""
    told = [feature[key] for key in ("admin", "oper", "remote")]
    if all(value is None or value is False for value in told) and not feature["pending"]:
        return None
    is_run = feature["oper"] is not None or feature["pending"]
    kind = features.named(name)
    return (
        port,
        kind.head,
        *map(kind.text, told),
        _both(_yes_no(feature["willing"]), _yes_no(feature["remote_willing"])),
        _yes_no(feature["pending"] if is_run else None),
        _both(priorities_text(feature["defended"]), priorities_text(feature["remote_defended"])),
        feature["why"],
    )


def _yes_no(truth: bool | None) -> str:
    return "-" if truth is None else "yes" if truth else "no"


def _both(local: str, remote: str) -> str:
    return "-" if local == remote == "-" else f"{local}/{remote}"


def _notes(port: Mapping[str, Any]) -> list[str]:
    neighbours = port["neighbours"]
    names = [f"{neighbour['chassis_id']} port {neighbour['port_id']}" for neighbour in neighbours]
    notes = []
    if not port["running"]:
        notes.append("DCBX is not running")
    if port["crowded"]:
        notes.append(f"DCBX is off: {len(names)} neighbours are on the link, {', '.join(names)}")
    if port["peer_speaks"]:
        notes.append(
            f"the peer speaks the {port['peer_speaks']} format and this port the {port['version']} one, "
            "so its DCBX TLVs are ignored; set `version` of one end to that of the other"
        )
    for name, feature in port["features"].items():
        if feature.get("held"):
            held = f"{features.named(name).head} {priorities_text(feature['held'])}"
            notes.append(f"{held}: nothing is sent until the peer shows that its defenses are off")
    for name, feature in port["features"].items():
        notes += features.named(name).notes(feature)
    for name, neighbour in zip(names, neighbours, strict=True):
        notes += [f"{name}: {flaw}" for flaw in neighbour["flaws"]]
    return notes


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(cells).rstrip() for cells in padded]


# The log


def record(event: Event) -> Plain:
    """Return an event as a line of a log."""
    return {"t_ns": event.at_ns, **_told(event)}


def frame_record(octets: bytes, version: DcbxVersion, direction: Direction, now_ns: int) -> Plain:
    """Return a frame as a line of a log, read in the format that the port speaks. Any octets are accepted.

    "id" is the same for equal frames, so that what one port sent is found again where another received it.
    """
    line: Plain = {"t_ns": now_ns, "what": "frame", "direction": direction, "id": f"{zlib.crc32(octets):08x}"}
    try:
        frame = parse(octets)
    except LldpError as error:
        return {**line, "refused": str(error.reason), "why": str(error)}
    pdu = frame.pdu
    reading = read(version, pdu.tlvs)
    flaws = [flaw.message for flaw in (*pdu.flaws, *reading.flaws)]
    who = {"source": str(frame.source), "chassis_id": str(pdu.chassis_id), "port_id": str(pdu.port_id)}
    return {
        **line,
        **who,
        "ttl": pdu.ttl,
        "version": str(version),
        "mismatch": reading.mismatch,
        "tlvs": _tlvs(reading.tlvs),
        **({"flaws": flaws} if flaws else {}),
    }


def _told(event: Event) -> Plain:
    for feature in features.every():
        if type(event) is feature.event_type:
            return {"what": features.event_name(feature), **feature.event_data(event)}
    match event:
        case PendingChanged():
            return {"what": "pending_changed", "feature": event.feature, "pending": event.pending}
        case PeerChanged():
            mac = None if event.mac is None else str(event.mac)
            return {"what": "peer_changed", "mac": mac, "tlvs": _tlvs(event.tlvs)}
        case NeighbourFound():
            return {"what": "neighbour_found", **_identifier(event), "mac": str(event.mac)}
        case NeighbourLost():
            return {"what": "neighbour_lost", **_identifier(event), "why": str(event.why)}
        case CrowdChanged():
            return {"what": "crowd_changed", "crowded": event.crowded, "neighbours": event.neighbours}
        case VersionMismatch():
            speaks = None if event.peer_speaks is None else str(event.peer_speaks)
            return {"what": "version_mismatch", "peer_speaks": speaks}
    raise TypeError(f"{type(event).__name__} has no form in a log")


def _identifier(event: NeighbourFound | NeighbourLost) -> Plain:
    return {"chassis_id": str(event.chassis_id), "port_id": str(event.port_id)}


def _tlvs(tlvs: DcbxTlvs) -> Plain:
    """Return the content of a frame; TLVs that are not there are left out."""
    contents = {feature: tlvs.get(feature.name) for feature in features.every()}
    return {feature.name: feature.tlv_data(content) for feature, content in contents.items() if content is not None}
