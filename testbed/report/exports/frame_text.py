"""Frames in words and in fields, by the codecs of `testbed.frames`.

It reads PFC, PAUSE, messages about credits, headroom measurement, IPv6 with segment routing and what it carries, and
RoCEv2 with connection management and path records; subjects have decoders of further EtherTypes. Any octets will do:
what a codec refuses is shown with its reason.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

from testbed import subject
from testbed.errors import XoffError
from testbed.frames import (
    Mac,
    headroom,
    icmpv6,
    ipv6,
    mac_control,
    path_record,
    roce,
    roce_cm,
    srh,
    telemetry,
)
from testbed.frames.capture_file import ETHERNET, Captured
from testbed.frames.link import credits
from testbed.switch.trimming.settings import DEFAULT_DSCP

_KINDS = (
    "pfc", "pause", "headroom", "vlan", "arp", "ipv4", "ipv6", "srh", "icmpv6", "tcp", "udp", "roce", "cnp",
    "rest", "telemetry", "cm", "sa", "credits",
)  # fmt: skip
_DEEPEST = 6
"""The most frames within frames."""
_TAGS = (0x8100, 0x88A8)
_IPV4, _ARP, _IPV6 = 0x0800, 0x0806, 0x86DD
_UDP, _TCP, _IPV4_IN_IP, _IPV6_IN_IP = 17, 6, 4, 41
_ECN = ("not-ECT", "ECT(1)", "ECT(0)", "CE")
_ETHERNET = struct.Struct("!6s6sH")
_Address = IPv4Address | IPv6Address


@dataclass(frozen=True)
class Layer:
    """A layer of a frame."""

    kind: str
    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    """The fields of the layer, of types that JSON has."""

    def as_json(self) -> dict[str, Any]:
        return {"layer": self.kind, "text": self.text, **self.fields}


class Decoder(NamedTuple):
    """The decoder of a subject for the frames of an EtherType."""

    ethertype: int
    kinds: tuple[str, ...]
    """The kinds of layers that it gives, for `xoff decode --kind`."""
    decode: Callable[[bytes], Iterable[Layer]]
    """A function that returns the layers of a whole frame; XoffError if it is refused."""


def kinds() -> tuple[str, ...]:
    """Return the kinds of layers that `xoff decode --kind` takes."""
    return (*_KINDS, *(kind for decoders in subject.loaded("decoders") for one in decoders for kind in one.kinds))


@cache
def _of_subjects() -> dict[int, Callable[[bytes], Iterable[Layer]]]:
    return {one.ethertype: one.decode for decoders in subject.loaded("decoders") for one in decoders}


def ethernet(octets: bytes) -> list[str]:
    """Return the layers of an Ethernet frame without FCS in words, the outermost first."""
    return [layer.text for layer in layers(octets)]


def of_captured(frame: Captured) -> list[Layer]:
    """Return the layers of a captured frame."""
    if frame.link_type == ETHERNET:
        return layers(frame.octets)
    return [Layer("other", f"link type {frame.link_type}, {frame.length} octets")]


def line_of(frame: Captured, found: list[Layer]) -> str:
    """Return a captured frame with its layers in one line."""
    time = "-" if frame.t_ns is None else f"{frame.t_ns // 10**9}.{frame.t_ns % 10**9:09d}"
    cut = f" (cut to {len(frame.octets)} of {frame.length} octets)" if len(frame.octets) < frame.length else ""
    comments = "".join(f" # {comment}" for comment in frame.comments)
    text = "; ".join(layer.text for layer in found)
    return f"{time} {frame.interface + ' ' if frame.interface else ''}{text}{cut}{comments}"


def as_json(frame: Captured, found: list[Layer]) -> dict[str, Any]:
    """Return a captured frame with its layers as plain data."""
    return {
        "t_ns": frame.t_ns,
        "interface": frame.interface,
        "length": frame.length,
        "captured": len(frame.octets),
        "comments": list(frame.comments),
        "layers": [layer.as_json() for layer in found],
    }


def layers(octets: bytes, depth: int = 0) -> list[Layer]:
    """Return the layers of an Ethernet frame without FCS."""
    if len(octets) < _ETHERNET.size:
        return [Layer("refused", f"{len(octets)} octets, too few for an Ethernet header")]
    destination, source, kind = _ETHERNET.unpack_from(octets)
    ends = {"source": str(Mac(source)), "destination": str(Mac(destination))}
    known_layers, at = [Layer("ethernet", f"{Mac(source)} > {Mac(destination)}", ends)], _ETHERNET.size
    while kind in _TAGS and len(octets) >= at + 4:
        tag, kind = struct.unpack_from("!HH", octets, at)
        given = {"id": tag & 0xFFF, "priority": tag >> 13, "dei": bool(tag >> 12 & 1)}
        known_layers.append(
            Layer("vlan", f"VLAN {tag & 0xFFF} priority {tag >> 13}{' DEI' if tag >> 12 & 1 else ''}", given)
        )
        at += 4
    try:
        if kind == mac_control.ETHERTYPE:
            known_layers += _mac_control(octets)
        elif kind == _IPV6:
            known_layers += _ipv6(octets[at:], depth)
        elif kind == _IPV4:
            known_layers += _ipv4(octets[at:])
        elif kind == _ARP:
            known_layers.append(Layer("arp", "ARP"))
        elif (decode := _of_subjects().get(kind)) is not None:
            known_layers += decode(octets)
        else:
            known_layers.append(
                Layer("other", f"EtherType {kind:#06x}, {len(octets) - at} octets", {"ethertype": kind})
            )
    except XoffError as error:
        known_layers.append(_refused("", error))
    return known_layers


def _refused(what: str, error: Exception) -> Layer:
    return Layer("refused", f"{what}refused: {error}", {"why": str(error)})


def _mac_control(octets: bytes) -> Iterator[Layer]:
    if headroom.is_measurement(octets):
        yield _measurement(octets)
        return
    if (extension := credits.extension_of(octets)) in (credits.COMPANY, credits.CARRIER):
        yield _credits(octets, extension)
        return
    frame = mac_control.parse(octets)
    if isinstance(frame, mac_control.PauseFrame):
        yield Layer("pause", f"PAUSE, {frame.quanta} quanta", {"quanta": frame.quanta})
        return
    changes = list(frame.changes())
    stopped = [f"{priority} for {quanta} quanta" for priority, quanta in changes if quanta]
    resumed = [str(priority) for priority, quanta in changes if not quanta]
    words = [f"XOFF priority {', '.join(stopped)}"] if stopped else []
    words += [f"XON priority {', '.join(resumed)}"] if resumed else []
    fields = {
        "xoff": {str(priority): quanta for priority, quanta in changes if quanta},
        "xon": [priority for priority, quanta in changes if not quanta],
    }
    yield Layer("pfc", f"PFC {'; '.join(words) or 'for no priority'}", fields)


def _credits(octets: bytes, extension: bytes) -> Layer:
    if extension == credits.COMPANY:
        used = credits.parse(octets)
        counts = {str(used.first_vc + place): count for place, count in enumerate(used.used)}
        said = ", ".join(f"VC {vc} {count}" for vc, count in counts.items() if count) or "none of any VC"
        return Layer("credits", f"CC_Update, credits used: {said}", {"message": "CC_Update", "used": counts})
    _, update = credits.parse_carried(octets)
    freed = {str(one.vc): one.credits for one in (update.first, update.second)}
    said = ", ".join(f"VC {vc} {count}" for vc, count in freed.items())
    return Layer("credits", f"CF_Update, credits freed: {said}", {"message": "CF_Update", "freed": freed})


def _measurement(octets: bytes) -> Layer:
    try:
        message = headroom.parse(octets)
    except headroom.MeasurementFrameError as error:
        return Layer("headroom", f"headroom measurement, refused: {error}", {"refused": str(error)})
    fields: dict[str, Any] = {"session": message.session, "sequence": message.sequence, "t1_ns": message.t1_ns}
    head = f"session {message.session:#010x} sequence {message.sequence} t1 {message.t1_ns} ns"
    if isinstance(message, headroom.MeasurementRequest):
        return Layer("headroom", f"headroom measurement request, {head}", {"message": "request", **fields})
    fields |= {"t2_ns": message.t2_ns, "t3_ns": message.t3_ns}
    text = f"headroom measurement response, {head} t2 {message.t2_ns} ns t3 {message.t3_ns} ns"
    return Layer("headroom", text, {"message": "response", **fields})


def _ipv6(octets: bytes, depth: int) -> Iterator[Layer]:
    packet = ipv6.whole(octets)
    fixed = ipv6.Packet.parse(packet)
    label = f" flow label {fixed.flow_label:#x}" if fixed.flow_label else ""
    yield Layer(
        "ipv6",
        f"IPv6 {fixed.source} > {fixed.destination}{_service(fixed.traffic_class)}{label} hop limit {fixed.hop_limit}",
        {
            "source": str(fixed.source),
            "destination": str(fixed.destination),
            **_service_fields(fixed.traffic_class),
            "flow_label": fixed.flow_label,
            "hop_limit": fixed.hop_limit,
        },
    )
    for header in ipv6.headers(packet):
        content = packet[header.start : header.end]
        if header.protocol == ipv6.ROUTING:
            routing = srh.Srh.parse(packet, header.start)
            path = list(map(str, routing.path))
            fields = {"segments_left": routing.segments_left, "path": path}
            yield Layer("srh", f"segment routing, {routing.segments_left} left of {' '.join(path)}", fields)
        elif header.is_extension:
            yield from _extension(packet, header)
        elif depth < _DEEPEST and header.protocol == ipv6.ETHERNET:
            yield from layers(content, depth + 1)
        elif depth < _DEEPEST and header.protocol == _IPV6_IN_IP:
            yield from _ipv6(content, depth + 1)
        elif header.protocol == _IPV4_IN_IP:
            yield from _ipv4(content)
        elif header.protocol == ipv6.ICMPV6:
            yield _icmpv6(fixed, content)
        else:
            yield from _upper(header.protocol, content, fixed.traffic_class, fixed.source, fixed.destination)


def _extension(packet: bytes, header: ipv6.Header) -> Iterator[Layer]:
    name = {ipv6.HOP_BY_HOP: "hop-by-hop options", ipv6.DESTINATION_OPTIONS: "destination options"}.get(header.protocol)
    if name is None:
        yield Layer("extension", f"header {header.protocol}", {"header": header.protocol})
        return
    named = ipv6.find_slice(ipv6.parse_header(packet, header))
    if named is None:
        yield Layer("options", name)
    else:
        yield Layer("options", f"{name}, slice {named.slice_id}", {"slice": named.slice_id, "strict": named.strict})


def _icmpv6(packet: ipv6.Packet, content: bytes) -> Layer:
    try:
        message = icmpv6.parse(packet.source, packet.destination, content)
    except ipv6.PacketError as error:  # neighbour discovery, for one
        kind = content[0] if content else None
        return Layer("icmpv6", f"ICMPv6 type {'-' if kind is None else kind}: {error}", {"type": kind})
    name = message.type.name.lower().replace("_", " ")
    if isinstance(message, icmpv6.Echo):
        text = f"ICMPv6 echo {name} {message.identifier} sequence {message.sequence}"
        return Layer("icmpv6", text, {"identifier": message.identifier, "sequence": message.sequence})
    return Layer("icmpv6", f"ICMPv6 {name} code {message.code}", {"message": name, "code": message.code})


def _ipv4(octets: bytes) -> Iterator[Layer]:
    """Yield the few fields of an IPv4 header that identify a flow; Xoff has no codec of IPv4."""
    length = (octets[0] & 15) * 4 if octets else 0
    if len(octets) < 20 or octets[0] >> 4 != 4 or not 20 <= length <= len(octets):
        yield Layer("refused", f"refused: {len(octets)} octets are no IPv4 packet")
        return
    source, destination = IPv4Address(octets[12:16]), IPv4Address(octets[16:20])
    ends = {"source": str(source), "destination": str(destination), **_service_fields(octets[1]), "ttl": octets[8]}
    yield Layer("ipv4", f"IPv4 {source} > {destination}{_service(octets[1])} TTL {octets[8]}", ends)
    (total,) = struct.unpack_from("!H", octets, 2)
    yield from _upper(octets[9], octets[length : max(length, min(total, len(octets)))], octets[1], source, destination)


def _upper(protocol: int, content: bytes, ds_field: int, near: _Address, far: _Address) -> Iterator[Layer]:
    if protocol not in (_UDP, _TCP) or len(content) < 8:
        yield Layer("other", f"protocol {protocol}, {len(content)} octets", {"protocol": protocol})
        return
    source, destination = struct.unpack_from("!HH", content)
    name = "UDP" if protocol == _UDP else "TCP"
    ports = {"source_port": source, "destination_port": destination}
    yield Layer(name.lower(), f"{name} {source} > {destination}, {len(content)} octets", ports)
    if protocol != _UDP or destination != roce.PORT:
        return
    octets = content[8:]
    if ds_field >> 2 == DEFAULT_DSCP and _is_rest(octets, roce.Path(str(near), str(far), source)):
        name = roce.Opcode(octets[0]).name.lower().replace("_", " ")
        queue_pair, number = int.from_bytes(octets[5:8]), int.from_bytes(octets[9:12])
        text = f"RoCEv2 rest of a trimmed {name} QP {queue_pair} PSN {number}, {len(octets)} octets"
        yield Layer("rest", text, {"opcode": name, "destination_qp": queue_pair, "psn": number, "octets": len(octets)})
    else:
        yield from _roce(octets)


def _is_rest(octets: bytes, path: roce.Path) -> bool:
    """Return True for a packet of data that is not intact; with the DSCP of rests a switch has trimmed it."""
    return len(octets) >= roce.BTH_OCTETS and octets[0] in roce.DATA and not path.intact(octets)


def _roce(octets: bytes) -> Iterator[Layer]:
    try:
        packet = roce.parse(octets)
    except roce.RocePacketError as error:
        yield Layer("roce", f"RoCEv2, refused: {error}", {"refused": str(error)})
        return
    name = packet.opcode.name.lower().replace("_", " ")
    words = [f"RoCEv2 {name} QP {packet.destination_qp} PSN {packet.psn}"]
    fields: dict[str, Any] = {"opcode": name, "destination_qp": packet.destination_qp, "psn": packet.psn}
    if packet.reth is not None:
        words.append(f"{packet.reth.length} octets at {packet.reth.address:#x}")
        fields["reth"] = packet.reth._asdict()
    if packet.atomic is not None:
        words.append(f"64 bits at {packet.atomic.address:#x}")
        fields["atomic"] = packet.atomic._asdict()
    if packet.deth is not None:
        words.append(f"from QP {packet.deth.source_qp} with Q_Key {packet.deth.q_key:#x}")
        fields["deth"] = packet.deth._asdict()
    if packet.aeth is not None:
        if packet.aeth.rnr is not None:
            kind = f"RNR NAK with timer {packet.aeth.rnr}"
        else:
            kind = "ACK" if packet.aeth.nak is None else f"NAK {packet.aeth.nak.name.lower().replace('_', ' ')}"
        words.append(f"{kind} MSN {packet.aeth.msn}")
        fields |= {"acknowledges": kind, "msn": packet.aeth.msn}
    for name, value in (
        ("original", packet.original), ("immediate", packet.immediate), ("invalidates", packet.invalidate),
    ):  # fmt: skip
        if value is not None:
            words.append(f"{name} {value:#x}")
            fields[name] = value
    flags = [name for name, is_set in (("FECN", packet.fecn), ("BECN", packet.becn)) if is_set]
    fields |= {"flags": flags, "payload": len(packet.payload)}
    text = ", ".join([*words, *flags, f"{len(packet.payload)} octets"])
    yield Layer("cnp" if packet.opcode is roce.Opcode.CNP else "roce", text, fields)
    if packet.telemetry is not None:
        yield _telemetry(packet.telemetry)
    if packet.deth is not None and packet.destination_qp == roce_cm.CM_QP:
        yield _management(packet.payload)


def _telemetry(area: telemetry.Telemetry) -> Layer:
    words = [f"telemetry {'returned' if area.is_returned else 'collected'}, {len(area.stamps)} stamps of {area.room}"]
    words += [f"{one.queue_octets} octets wait, {one.sent_octets} sent at {one.time_ns} ns" for one in area.stamps]
    words += ["a port found no room"] if area.overflowed else []
    fields = {"returned": area.is_returned, "room": area.room, "stamps": [one._asdict() for one in area.stamps]}
    return Layer("telemetry", "; ".join(words), {**fields, "overflowed": area.overflowed})


def _management(mad: bytes) -> Layer:
    """Return the layers of a management datagram of the connection manager or of subnet administration."""
    if mad[1:2] == bytes([path_record.CLASS]):
        return _subnet_administration(mad)
    try:
        message, transaction = roce_cm.parse(mad)
    except (roce_cm.CmError, ValueError) as error:
        return _refused("management datagram, ", error)
    words = {
        roce_cm.Request: "request",
        roce_cm.Reply: "reply",
        roce_cm.Ready: "ready to use",
        roce_cm.Reject: "reject",
        roce_cm.DatagramRequest: "request for datagrams",
        roce_cm.DatagramReply: "reply for datagrams",
    }
    fields: dict[str, Any] = {"message": words[type(message)], "transaction": transaction}
    text = f"connection manager {words[type(message)]}, ID {message.communication_id:#x}"
    for name in ("service_id", "qp", "psn", "mtu", "reason", "q_key", "status"):
        if (value := getattr(message, name, None)) is not None:
            fields[name] = int(value)
            text += f", {name.replace('_', ' ')} {value:#x}" if name == "service_id" else f", {name} {int(value)}"
    return Layer("cm", text, fields)


def _subnet_administration(octets: bytes) -> Layer:
    try:
        mad = path_record.SaMad.unpack(octets)
        records = list(_path_records(mad))
    except path_record.RecordError as error:
        return _refused("subnet administration, ", error)
    method, attribute = (one.name.lower().replace("_", " ") for one in (mad.method, mad.attribute))
    text = f"subnet administration {method} {attribute}, status {mad.status:#06x}"
    for record in records:
        text += f"; {record['sgid']} > {record['dgid']} SL {record['sl']} service ID {record['service_id']:#x}"
    return Layer("sa", text, {"method": method, "attribute": attribute, "status": mad.status, "records": records})


def _path_records(mad: path_record.SaMad) -> Iterator[dict[str, Any]]:
    if mad.attribute is not path_record.Attribute.PATH_RECORD:
        return
    step = mad.attribute_length or path_record.PATH_RECORD_LENGTH
    is_table = mad.method in (path_record.Method.GET_TABLE_RESPONSE, path_record.Method.GET_MULTI_RESPONSE)
    for start in range(0, len(mad.data) if is_table else 1, step):
        record = path_record.PathRecord.unpack(mad.data[start:])
        yield {
            "sgid": str(IPv6Address(record.sgid)),
            "dgid": str(IPv6Address(record.dgid)),
            "sl": record.sl,
            "service_id": record.service_id,
            "mtu": record.mtu,
            "rate": record.rate,
            "tclass": record.tclass,
            "pkey": record.pkey,
            "qos_class": record.qos_class,
        }


def _service(octet: int) -> str:
    """Return DSCP and ECN in words, where they are not 0."""
    dscp = f" DSCP {octet >> 2}" if octet >> 2 else ""
    return dscp + (f" {_ECN[octet & 3]}" if octet & 3 else "")


def _service_fields(octet: int) -> dict[str, Any]:
    return {"dscp": octet >> 2, "ecn": _ECN[octet & 3]}
