"""A frame in words, by the codecs of `testbed.frames`.

It knows PFC, PAUSE, headroom measurement, LLDP with DCBX, IPv6 with segment routing and what it carries, and RoCEv2.
Any octets will do: what a codec refuses is shown with its reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address

from testbed.dcbx import log_text, show
from testbed.errors import XoffError
from testbed.frames import Mac, headroom, icmpv6, ipv6, lldp, mac_control, roce, srh
from testbed.frames.dcbx.values import DcbxVersion

_DEEPEST = 6
"""Frames within frames."""
_TAGS = (0x8100, 0x88A8)
_IPV4, _ARP, _IPV6 = 0x0800, 0x0806, 0x86DD
_UDP, _TCP, _IPV4_IN_IP, _IPV6_IN_IP = 17, 6, 4, 41
_ROCE_PORT = 4791
_ECN = ("not-ECT", "ECT(1)", "ECT(0)", "CE")
_ETHERNET = struct.Struct("!6s6sH")


def ethernet(octets: bytes, version: DcbxVersion = DcbxVersion.PUBLISHED, depth: int = 0) -> list[str]:
    """The layers of an Ethernet frame without FCS, each in words, the outermost first."""
    if len(octets) < _ETHERNET.size:
        return [f"{len(octets)} octets, too few for an Ethernet header"]
    destination, source, kind = _ETHERNET.unpack_from(octets)
    said, at = [f"{Mac(source)} > {Mac(destination)}"], _ETHERNET.size
    while kind in _TAGS and len(octets) >= at + 4:
        tag, kind = struct.unpack_from("!HH", octets, at)
        said.append(f"VLAN {tag & 0xFFF} priority {tag >> 13}{' DEI' if tag >> 12 & 1 else ''}")
        at += 4
    try:
        if kind == mac_control.ETHERTYPE:
            said += _mac_control(octets)
        elif kind == lldp.ETHERTYPE:
            said += _lldp(octets, version)
        elif kind == _IPV6:
            said += _ipv6(octets[at:], version, depth)
        elif kind == _IPV4:
            said += _ipv4(octets[at:])
        else:
            said.append("ARP" if kind == _ARP else f"EtherType {kind:#06x}, {len(octets) - at} octets")
    except XoffError as error:
        said.append(f"refused: {error}")
    return said


def _mac_control(octets: bytes) -> Iterator[str]:
    if headroom.is_measurement(octets):
        yield from _measurement(octets)
        return
    frame = mac_control.parse(octets)
    if isinstance(frame, mac_control.PauseFrame):
        yield f"PAUSE, {frame.quanta} quanta"
        return
    changes = list(frame.changes())
    stopped = [f"{priority} for {quanta} quanta" for priority, quanta in changes if quanta]
    resumed = [str(priority) for priority, quanta in changes if not quanta]
    words = [f"XOFF priority {', '.join(stopped)}"] if stopped else []
    words += [f"XON priority {', '.join(resumed)}"] if resumed else []
    yield f"PFC {'; '.join(words) or 'for no priority'}"


def _measurement(octets: bytes) -> Iterator[str]:
    try:
        message = headroom.parse(octets)
    except headroom.MeasurementFrameError as error:
        yield f"headroom measurement, refused: {error}"
        return
    head = f"session {message.session:#010x} sequence {message.sequence} t1 {message.t1_ns} ns"
    if isinstance(message, headroom.Request):
        yield f"headroom measurement request, {head}"
    else:
        yield f"headroom measurement response, {head} t2 {message.t2_ns} ns t3 {message.t3_ns} ns"


def _lldp(octets: bytes, version: DcbxVersion) -> Iterator[str]:
    line = show.frame_record(octets, version, "received", 0)
    if line.get("mismatch"):  # a capture may have either format
        line = show.frame_record(octets, version.other, "received", 0)
    if "refused" in line:
        yield f"LLDP, refused: {line['why']}"
        return
    yield f"LLDP {line['chassis_id']} port {line['port_id']} TTL {line['ttl']}"
    yield f"DCBX {line['version']}: {'; '.join(log_text.frame(line, None))}"
    for flaw in line.get("flaws", ()):
        yield f"flaw: {flaw}"


def _ipv6(octets: bytes, version: DcbxVersion, depth: int) -> Iterator[str]:
    packet = ipv6.whole(octets)
    fixed = ipv6.Packet.parse(packet)
    yield f"IPv6 {fixed.source} > {fixed.destination}{_service(fixed.traffic_class)} hop limit {fixed.hop_limit}"
    for header in ipv6.headers(packet):
        content = packet[header.start : header.end]
        if header.protocol == ipv6.ROUTING:
            routing = srh.Srh.parse(packet, header.start)
            path = " ".join(map(str, routing.path))
            yield f"segment routing, {routing.segments_left} left of {path}"
        elif header.is_extension:
            yield {ipv6.HOP_BY_HOP: "hop-by-hop options", ipv6.DESTINATION_OPTIONS: "destination options"}.get(
                header.protocol, f"header {header.protocol}"
            )
        elif depth < _DEEPEST and header.protocol == ipv6.ETHERNET:
            yield from ethernet(content, version, depth + 1)
        elif depth < _DEEPEST and header.protocol == _IPV6_IN_IP:
            yield from _ipv6(content, version, depth + 1)
        elif header.protocol == _IPV4_IN_IP:
            yield from _ipv4(content)
        elif header.protocol == ipv6.ICMPV6:
            yield _icmpv6(fixed, content)
        else:
            yield from _upper(header.protocol, content)


def _icmpv6(packet: ipv6.Packet, content: bytes) -> str:
    try:
        message = icmpv6.parse(packet.source, packet.destination, content)
    except ipv6.PacketError as error:  # neighbour discovery, for one
        return f"ICMPv6 type {content[0] if content else '-'}: {error}"
    if isinstance(message, icmpv6.Echo):
        return f"ICMPv6 echo {message.type.name.lower()} {message.identifier} sequence {message.sequence}"
    return f"ICMPv6 {message.type.name.lower().replace('_', ' ')} code {message.code}"


def _ipv4(octets: bytes) -> Iterator[str]:
    """The few fields that tell a flow; Xoff has no IPv4 of its own, the kernel has."""
    length = (octets[0] & 15) * 4 if octets else 0
    if len(octets) < 20 or octets[0] >> 4 != 4 or not 20 <= length <= len(octets):
        yield f"refused: {len(octets)} octets are no IPv4 packet"
        return
    source, destination = IPv4Address(octets[12:16]), IPv4Address(octets[16:20])
    yield f"IPv4 {source} > {destination}{_service(octets[1])} TTL {octets[8]}"
    (total,) = struct.unpack_from("!H", octets, 2)
    yield from _upper(octets[9], octets[length : max(length, min(total, len(octets)))])


def _upper(protocol: int, content: bytes) -> Iterator[str]:
    if protocol not in (_UDP, _TCP) or len(content) < 8:
        yield f"protocol {protocol}, {len(content)} octets"
        return
    source, destination = struct.unpack_from("!HH", content)
    yield f"{'UDP' if protocol == _UDP else 'TCP'} {source} > {destination}, {len(content)} octets"
    if protocol == _UDP and destination == _ROCE_PORT:
        yield _roce(content[8:])


def _roce(octets: bytes) -> str:
    try:
        packet = roce.parse(octets)
    except roce.RocePacketError as error:
        return f"RoCEv2, refused: {error}"
    words = [f"RoCEv2 {packet.opcode.name.lower().replace('_', ' ')} QP {packet.destination_qp} PSN {packet.psn}"]
    if packet.aeth is not None:
        kind = "ACK" if packet.aeth.nak is None else f"NAK {packet.aeth.nak.name.lower().replace('_', ' ')}"
        words.append(f"{kind} MSN {packet.aeth.msn}")
    words += [name for name, is_set in (("FECN", packet.fecn), ("BECN", packet.becn)) if is_set]
    return ", ".join([*words, f"{len(packet.payload)} octets"])


def _service(octet: int) -> str:
    """DSCP and ECN, where they say something."""
    dscp = f" DSCP {octet >> 2}" if octet >> 2 else ""
    return dscp + (f" {_ECN[octet & 3]}" if octet & 3 else "")
