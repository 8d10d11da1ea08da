"""The fields of a frame that a switch hashes, read from its octets: the reference of the port program's parser.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

from testbed.switch.ways.model import Fields

_VLAN, _SVLAN, _IPV4, _IPV6 = 0x8100, 0x88A8, 0x0800, 0x86DD
_TCP, _UDP, _IN_IPV4, _IN_IPV6, _ROUTING = 6, 17, 4, 41, 43
_ROCE = 4791
_TAGS = 2


def fields_of(frame: bytes, look_inside: bool = False) -> Fields:
    """Return the fields of a frame; with `look_inside` those of the packet in a tunnel, if there is one.

    Ports are those of TCP and UDP. A fragment has none, for only the first one carries them. The queue pair is that of
    RoCEv2. A packet in a tunnel is found behind one IPv4 or IPv6 header, and behind a segment routing header.
    """
    macs = Fields(destination_mac=frame[:6], source_mac=frame[6:12])
    at, tags = 12, 0
    while (kind := int.from_bytes(frame[at : at + 2], "big")) in (_VLAN, _SVLAN) and tags < _TAGS:
        at, tags = at + 4, tags + 1
    at += 2
    fields, protocol, behind = _address_fields(frame, at, kind)
    if behind and kind == _IPV6 and protocol == _ROUTING and len(frame) >= behind + 2:
        protocol, behind = frame[behind], behind + (frame[behind + 1] + 1) * 8
    if behind and look_inside and protocol in (_IN_IPV4, _IN_IPV6):
        kind = _IPV4 if protocol == _IN_IPV4 else _IPV6
        fields, protocol, behind = _address_fields(frame, behind, kind, protocol)
    fields = replace(fields, protocol=protocol, source_mac=macs.source_mac, destination_mac=macs.destination_mac)
    if not behind or protocol not in (_TCP, _UDP) or len(frame) < behind + 4:
        return fields
    source, destination = (int.from_bytes(frame[place : place + 2], "big") for place in (behind, behind + 2))
    fields = replace(fields, source_port=source, destination_port=destination)
    if protocol == _UDP and fields.destination_port == _ROCE and len(frame) >= behind + 16:
        fields = replace(fields, queue_pair=int.from_bytes(frame[behind + 13 : behind + 16], "big"))
    return fields


def _address_fields(frame: bytes, at: int, kind: int, protocol: int = 0) -> tuple[Fields, int, int]:
    """Return the addresses of a packet, the protocol of what it carries, and where that begins; 0 if nowhere.

    A header that is cut off says nothing, and the protocol stays.
    """
    if kind == _IPV4 and len(frame) >= at + 20 and frame[at] >> 4 == 4 and frame[at] & 15 >= 5:
        source, destination = (str(IPv4Address(frame[at + place : at + place + 4])) for place in (12, 16))
        is_fragment = frame[at + 6] & 0x3F or frame[at + 7]
        return Fields(source, destination), frame[at + 9], 0 if is_fragment else at + (frame[at] & 15) * 4
    if kind == _IPV6 and len(frame) >= at + 40 and frame[at] >> 4 == 6:
        source, destination = (str(IPv6Address(frame[at + place : at + place + 16])) for place in (8, 24))
        label = int.from_bytes(frame[at : at + 4], "big") & 0xFFFFF
        return Fields(source, destination, flow_label=label), frame[at + 6], at + 40
    return Fields(), protocol, 0
