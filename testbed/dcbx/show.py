"""What a person, a script or a log sees of DCBX on a port: plain data that JSON can carry, and a table of it.

    snapshot(port)         everything as it is now
    table(by_port)         snapshots, also after a way through JSON, as a table for any terminal
    record(event)          one line of a log: what happened
    frame_record(octets)   one line of a log: a frame that was sent or received, and its DCBX TLVs

Priorities are lists of numbers, addresses and identifiers are text, None is what is not run, not known or not
announced. The writer of a log adds the name of the port, as "port".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from testbed.dcbx import value_text
from testbed.dcbx.events import (
    ApplicationsChanged,
    CnChanged,
    CrowdChanged,
    EtsChanged,
    Event,
    HeadroomChanged,
    NeighbourFound,
    NeighbourLost,
    PeerChanged,
    PendingChanged,
    PfcChanged,
    TrafficClassesChanged,
    VersionMismatch,
)
from testbed.dcbx.negotiation import Feature
from testbed.dcbx.neighbours import Neighbour
from testbed.dcbx.port import DcbxPort
from testbed.frames.dcbx import read, values
from testbed.frames.dcbx.values import AppEntry, DcbxTlvs, DcbxVersion, Ets, EtsRecommendation
from testbed.frames.lldp import LldpError, parse
from testbed.frames.lldp_tlvs import Capabilities, Capability, ManagementAddress, Text, TextKind, Tlv

Plain = dict[str, Any]
_SECOND = 10**9
_TEXTS = tuple(kind.name.lower() for kind in TextKind)
Direction = Literal["sent", "received"]


# A port as it is


def snapshot(port: DcbxPort) -> Plain:
    """Everything about a port now. `crowded` counts the neighbours that are kept, which are eight at most."""
    neighbours, version = port.neighbours, port.settings.version
    mismatch = len(neighbours) == 1 and neighbours[0].dcbx.mismatch
    identity = port.identity
    return {
        "running": port.is_running,
        "version": str(version),
        "tie_break": str(port.settings.breaks_tie_by),
        "mac": str(identity.mac),
        "chassis_id": str(identity.chassis_id),
        "port_id": str(identity.port_id),
        "features": {name: _feature(name, feature) for name, feature in port.state.features().items()},
        "neighbours": [_neighbour(neighbour) for neighbour in neighbours],
        "crowded": port.is_crowded,
        "peer_speaks": str(version.other) if mismatch else None,  # if it is the other format
        "counters": port.counters,
        "pfc_capability": _capability(port),
    }


def _capability(port: DcbxPort) -> Plain:
    """In how many traffic classes each end can have PFC, and whether the peer cannot bypass the delay of its MACsec."""
    own, peers = port.settings.pfc, [one.dcbx.tlvs.pfc for one in port.neighbours]
    peer = peers[0] if len(peers) == 1 else None
    return {"local": own and own.cap, "remote": peer and peer.cap, "remote_mbc": peer and peer.mbc}


def _feature(name: str, feature: Feature[Any]) -> Plain:
    plain = _PLAIN[name]
    return {
        "admin": plain(feature.admin),
        "oper": plain(feature.oper),
        "remote": plain(feature.remote),
        "willing": feature.willing,
        "remote_willing": feature.remote_willing,
        "pending": feature.pending,
        "defended": _priorities(feature.defended),
        "remote_defended": _priorities(feature.remote_defended),
        "why": feature.why,
        **_elected(held=_priorities(feature.held), buffered=feature.buffered),
    }


def _elected(**chosen: Any) -> Plain:
    """Return the values that are not None: a port has them only for behaviour that it is set to."""
    return {name: value for name, value in chosen.items() if value is not None}


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
    """What a neighbour announces of itself. Its texts are its own, with whatever characters; `details` leaves these
    out.
    """
    texts = {tlv.kind: str(tlv) for tlv in tlvs if isinstance(tlv, Text)}
    enabled = next((tlv.enabled for tlv in tlvs if isinstance(tlv, Capabilities)), None)
    return {
        **{kind.name.lower(): texts.get(kind) for kind in TextKind},
        "capabilities": None if enabled is None else [str(one.name).lower() for one in Capability if enabled & one],
        "addresses": [str(tlv) for tlv in tlvs if isinstance(tlv, ManagementAddress)],
    }


def details(port: Mapping[str, Any], now_ns: int) -> list[str]:
    """Lines about the neighbours of a port, its capability, and what was counted."""
    lines = [_introduced(neighbour, now_ns) for neighbour in port["neighbours"]]
    capability = port["pfc_capability"]
    if capability["local"] is not None:
        there = "" if capability["remote"] is None else f", {capability['remote']} at the peer"
        mbc = ", whose MACsec cannot be bypassed (MBC)" if capability["remote_mbc"] else ""
        lines.append(f"PFC in up to {capability['local']} traffic classes here{there}{mbc}")
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
    """A row for each TLV that is run or received on a port, and below what concerns the whole port."""
    rows = [_row(name, *feature) for name, port in by_port.items() for feature in port["features"].items()]
    told = [row for row in rows if row is not None]
    if not told:
        return "no port with DCBX\n"
    heads = ("port", "TLV", "local", "oper", "remote", "willing l/r", "pending", "defended l/r", "why")
    notes = [f"{name}: {note}" for name, port in by_port.items() for note in _notes(port)]
    ets = {port["version"] for port in by_port.values() if _has_ets(port)}
    if ets:
        notes.append(value_text.DRAFT_LEGEND if DcbxVersion.DRAFT in ets else value_text.LEGEND)
    return "".join(f"{line}\n" for line in [*_aligned([heads, *told]), *notes])


def _row(port: str, name: str, feature: Mapping[str, Any]) -> Sequence[str] | None:
    """None: neither run nor received."""
    told = [feature[key] for key in ("admin", "oper", "remote")]
    if all(value is None or value is False for value in told) and not feature["pending"]:
        return None
    is_run = feature["oper"] is not None or feature["pending"]
    return (
        port,
        value_text.NAMES[name],
        *(value_text.value(name, value) for value in told),
        _both(value_text.yes_no(feature["willing"]), value_text.yes_no(feature["remote_willing"])),
        value_text.yes_no(feature["pending"] if is_run else None),
        _both(value_text.priorities(feature["defended"]), value_text.priorities(feature["remote_defended"])),
        feature["why"],
    )


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
            held = f"{value_text.NAMES[name]} {value_text.priorities(feature['held'])}"
            notes.append(f"{held}: nothing is sent until the peer shows that its defenses are off")
    if (classes := port["features"]["traffic_classes"].get("buffered")) is not None:
        notes.append(f"the buffer is for the peer's {classes} traffic classes")
    for name, neighbour in zip(names, neighbours, strict=True):
        notes += [f"{name}: {flaw}" for flaw in neighbour["flaws"]]
    return notes


def _has_ets(port: Mapping[str, Any]) -> bool:
    features = port["features"]
    return any(features[name][key] is not None for name in ("ets", "recommendation") for key in ("oper", "remote"))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(cells).rstrip() for cells in padded]


# The log


def record(event: Event) -> Plain:
    """An event as a line of a log."""
    return {"t_ns": event.at_ns, **_told(event)}


def frame_record(octets: bytes, version: DcbxVersion, direction: Direction, now_ns: int) -> Plain:
    """A frame as a line of a log, read in the format that the port speaks. Any octets are accepted.

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
    match event:
        case PfcChanged():
            return {"what": "pfc_changed", **_masks(event)}
        case CnChanged():
            return {"what": "cn_changed", **_masks(event)}
        case EtsChanged():
            return {"what": "ets_changed", "ets": _ets(event.ets), "why": event.why}
        case ApplicationsChanged():
            return {"what": "applications_changed", "entries": _entries(event.entries), "why": event.why}
        case TrafficClassesChanged():
            seen = {"local": event.local, "remote": event.remote, **_elected(buffered=event.buffered)}
            return {"what": "traffic_classes_changed", **seen}
        case HeadroomChanged():
            return {"what": "headroom_changed", "both": event.both, "why": event.why}
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


def _masks(event: PfcChanged | CnChanged) -> Plain:
    masks = ("enabled", "defended", "remote", "remote_defended")
    found = {name: _priorities(getattr(event, name)) for name in masks}
    return found | {"why": event.why} | _elected(held=_priorities(event.held))


def _identifier(event: NeighbourFound | NeighbourLost) -> Plain:
    return {"chassis_id": str(event.chassis_id), "port_id": str(event.port_id)}


# Values


def _tlvs(tlvs: DcbxTlvs) -> Plain:
    """The content of a frame; absent TLVs are left out."""
    plain: Plain = {}
    if tlvs.traffic_classes is not None:
        plain["traffic_classes"] = tlvs.traffic_classes
    if tlvs.ets is not None:
        plain["ets"] = {"willing": tlvs.ets.willing, **_table(tlvs.ets.ets), "cbs": tlvs.ets.cbs}
    if tlvs.recommendation is not None:
        plain["recommendation"] = _recommendation(tlvs.recommendation)
    if tlvs.pfc is not None:
        pfc = tlvs.pfc
        masks = {"enabled": _priorities(pfc.enabled), "defended": _priorities(pfc.defended)}
        plain["pfc"] = {"willing": pfc.willing, **masks, "cap": pfc.cap, "mbc": pfc.mbc, "headroom": pfc.headroom}
    if tlvs.applications is not None:
        plain["applications"] = {
            "willing": tlvs.applications.willing,
            "entries": _entries(tlvs.applications.entries),
        }
    if tlvs.cn is not None:
        masks = {"enabled": _priorities(tlvs.cn.enabled), "defended": _priorities(tlvs.cn.defended)}
        plain["cn"] = {"willing": tlvs.cn.willing, **masks}
    return plain


def _priorities(mask: int | None) -> list[int] | None:
    return None if mask is None else list(values.priorities(mask))


def _ets(ets: Ets | None) -> Plain | None:
    return None if ets is None else _table(ets)


def _table(table: Ets | EtsRecommendation) -> Plain:
    assignment, tsa = table.assignment, table.tsa
    return {
        "assignment": None if assignment is None else list(assignment),
        "bandwidth": list(table.bandwidth),
        "tsa": None if tsa is None else [int(algorithm) for algorithm in tsa],
    }


def _recommendation(table: EtsRecommendation | None) -> Plain | None:
    return None if table is None else {"valid": table.valid, **_table(table)}


def _entries(entries: Sequence[AppEntry] | None) -> list[Plain] | None:
    if entries is None:
        return None
    return [{"priority": e.priority, "selector": e.selector.value, "protocol": e.protocol} for e in entries]


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "traffic_classes": _same,
    "ets": _ets,
    "recommendation": _recommendation,
    "pfc": _priorities,
    "applications": _entries,
    "cn": _priorities,
    "headroom": _same,
}
