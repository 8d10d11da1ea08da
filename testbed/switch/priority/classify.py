"""The classification of frames: what a port reads from a frame, the priority that follows, and the frame it forwards.

It implements "priority and queue mapping" of the PFC/ECN article by decision 0136, and is the reference of the eBPF
program that does the same at line rate. A frame is its octets on the wire from the destination on, tags in place, with
or without FCS. Every string of octets has a priority: a frame that is cut short has no more than what is left of it.

Reading, in this order:
  R1 Octets 12-13 are a type. Type 0x8100 or 0x88A8 is a VLAN tag: two octets PCP (3 bits), DEI, VID, and the next
     type. At most two tags are looked through, in any mixture; PCP and DEI are those of the first (outermost) one, VID
     0 (a priority tag) included. A tag counts if its two octets are there, even if nothing follows.
  R2 The frame is IP if the type then is 0x0800, the next octet is there, has version 4 and a header of 5 words or
     more, and the DS octet after it is there; or if the type is 0x86DD, both octets are there and have version 6.
     Nothing else is IP: ARP, a third tag, MPLS, 802.3 lengths with LLC or SNAP, an IPv4 header of fewer than 5 words,
     a version that is not the type's, a frame that ends before its DSCP.
  R3 The DSCP is the upper six bits of the DS field: IPv4's second octet, IPv6's traffic class. Each fragment has it,
     and IPv6 extension headers come after it; so neither matters. Nothing inside (tunnels) is looked at.
Priority:
  P1 Trust dscp and IP: the DSCP by the port's table.
  P2 Else, trust dot1p or dscp, and tagged: the PCP by the port's table, or by its table of frames whose DEI is set.
  P3 Else the port's priority.
  P4 The local priority is the dot1p value by the port's table.
Rewriting, where the tables name the dot1p value, whatever the trust mode:
  W1 The PCP of the outermost tag. No tag is added, DEI and VID stay, an inner tag is not touched.
  W2 The DSCP of an IP frame. ECN stays. IPv4's header checksum is updated, not computed anew (RFC 1624, equation 3:
     HC' = ~(~HC + ~m + m') for the 16 bits that hold the DS field), so that a wrong one stays wrong. An IPv4 frame that
     ends before its checksum does (octet 11 of the header) keeps its DSCP. IPv6 has no checksum.

Runs in C: `testbed/linux/port_program/port.bpf.c`, `testbed/linux/port_program/port_dei.bpf.h`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from testbed.switch.priority.settings import PriorityMap, Trust

ETHERTYPE = 12
"""The offset of the type, or of the first tag."""
TAG_TYPES = (b"\x81\x00", b"\x88\xa8")
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_MOST_TAGS = 2


class Source(enum.StrEnum):
    """The field or setting that gave a frame its priority."""

    PORT = "port"
    PCP = "pcp"
    DSCP = "dscp"


@dataclass(frozen=True)
class Classified:
    """A frame's priority, and what rewriting sets; `pcp` and `dscp` are None where the frame keeps what it has."""

    dot1p: int  # PFC and buffers go by this one
    local: int  # the queue
    source: Source
    pcp: int | None = None
    dscp: int | None = None


@dataclass(frozen=True)
class Headers:
    """The fields that were read, R1 to R3."""

    pcp: int | None  # None: untagged
    dscp: int | None  # None: not IP
    ip: int = 0  # where the IP header starts
    version: int = 0
    type: int = 0  # after all tags; 0: cut off
    dei: bool = False


def read(frame: bytes) -> Headers:
    """Return the fields of a frame that determine its priority."""
    at, pcp, dei = ETHERTYPE, None, False
    for _ in range(_MOST_TAGS):
        if frame[at : at + 2] not in TAG_TYPES or len(frame) < at + 4:
            break
        if pcp is None:
            pcp, dei = frame[at + 2] >> 5, bool(frame[at + 2] & 0x10)
        at += 4
    kind, ip = frame[at : at + 2], at + 2
    number = int.from_bytes(kind, "big") if len(kind) == 2 else 0
    if len(frame) < ip + 2:
        return Headers(pcp, None, type=number, dei=dei)
    first, second = frame[ip], frame[ip + 1]
    if kind == _IPV4 and first >> 4 == 4 and first & 0xF >= 5:
        return Headers(pcp, second >> 2, ip, 4, number, dei)
    if kind == _IPV6 and first >> 4 == 6:
        return Headers(pcp, (first & 0xF) << 2 | second >> 6, ip, 6, number, dei)
    return Headers(pcp, None, type=number, dei=dei)


def classify(frame: bytes, settings: PriorityMap) -> Classified:
    """Return the frame's priority at a port with these settings."""
    return _classify(frame, read(frame), settings)


def rewrite(frame: bytes, settings: PriorityMap) -> bytes:
    """Return the frame as it is forwarded; the same object if nothing is rewritten."""
    found = read(frame)
    result = _classify(frame, found, settings)
    if result.pcp is not None:
        frame = with_pcp(frame, result.pcp)
    if result.dscp is not None:
        frame = with_dscp(frame, found, result.dscp)
    return frame


def with_pcp(frame: bytes, pcp: int) -> bytes:
    """Return a tagged frame with another PCP in its outermost tag."""
    tag = ETHERTYPE + 2
    return frame[:tag] + bytes([pcp << 5 | frame[tag] & 0x1F]) + frame[tag + 1 :]


def takes_dscp(frame: bytes, found: Headers) -> bool:
    """Return True if a DSCP can be written: the frame is IP, and whole up to IPv4's checksum."""
    return found.version == 6 or (found.version == 4 and len(frame) >= found.ip + 12)


def with_dscp(frame: bytes, found: Headers, dscp: int) -> bytes:
    """Return a frame that `takes_dscp` with another DSCP, and IPv4's checksum to match."""
    octets, ip = bytearray(frame), found.ip
    old = int.from_bytes(octets[ip : ip + 2], "big")
    new = old & ~0x00FC | dscp << 2 if found.version == 4 else old & ~0x0FC0 | dscp << 6
    octets[ip : ip + 2] = new.to_bytes(2, "big")
    if found.version == 4:
        checksum = int.from_bytes(octets[ip + 10 : ip + 12], "big")
        total = (~checksum & 0xFFFF) + (~old & 0xFFFF) + new
        for _ in range(2):  # the carries come back in at the right
            total = (total & 0xFFFF) + (total >> 16)
        octets[ip + 10 : ip + 12] = (~total & 0xFFFF).to_bytes(2, "big")
    return bytes(octets)


def _classify(frame: bytes, found: Headers, settings: PriorityMap) -> Classified:
    if settings.trust is Trust.DSCP and found.dscp is not None:
        dot1p, source = settings.dscp_to_dot1p[found.dscp], Source.DSCP
    elif settings.trust is not Trust.NONE and found.pcp is not None:
        table = settings.dei_to_dot1p if found.dei else settings.pcp_to_dot1p
        dot1p, source = table[found.pcp], Source.PCP
    else:
        dot1p, source = settings.port_priority, Source.PORT
    return Classified(
        dot1p,
        settings.dot1p_to_local[dot1p],
        source,
        settings.rewrite_dot1p[dot1p] if found.pcp is not None else None,
        settings.rewrite_dscp[dot1p] if takes_dscp(frame, found) else None,
    )
