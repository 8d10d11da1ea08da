"""The priority of a protocol: DCBX's application table, as a host's port applies it to the frames that it sends.

The table has ports, DSCPs and EtherTypes in the words of one of two formats (`testbed.frames.dcbx`). `table` puts it
into the form in which it is looked up, once; the eBPF program has the same form, and this module is its reference.

  E1 Ports. TCP, UDP, SCTP and DCCP have ports in the first four octets after the IP header, in a packet that is whole
     or the first fragment. IPv6 extension headers are not looked through. The destination's entry counts, else the
     source's: so both directions of a connection have the priority of its service.
  E2 Else, the DSCP of an IP frame; 0 is one like any other.
  E3 Else, the EtherType after all tags (as `classify` reads it).
  E4 Else the entry for everything else (published: EtherType 0), if the frame is unmarked: no DSCP but 0, and
     no socket priority but 0.
  E5 Of two entries for the same the first counts. An entry that names a transport goes before one for several.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from testbed.frames.dcbx.values import AppEntry, DcbxVersion, Selector
from testbed.switch.priority.classify import Headers

LEAST_TYPE = 0x600
"""The least EtherType; below it the field is a length."""


class About(enum.IntEnum):
    """The subject of an entry; the port program has the same numbers."""

    TCP = 0
    UDP = 1
    SCTP = 2
    DCCP = 3
    DSCP = 4
    TYPE = 5
    ANYTHING_ELSE = 6


Table = Mapping[tuple[About, int], int]
"""The priority by the subject of an entry and the protocol ID."""

NOTHING: Table = {}

_TRANSPORTS = {6: About.TCP, 17: About.UDP, 132: About.SCTP, 33: About.DCCP}
_PORTS = {
    DcbxVersion.PUBLISHED: {
        Selector.TCP: (About.TCP, About.SCTP),
        Selector.UDP: (About.UDP, About.DCCP),
        Selector.ANY_PORT: (About.TCP, About.SCTP, About.UDP, About.DCCP),
    },
    DcbxVersion.DRAFT: {
        Selector.TCP: (About.TCP,),
        Selector.UDP: (About.UDP,),
        Selector.ANY_PORT: (About.TCP, About.UDP),
        Selector.OTHER_PORT: (About.SCTP, About.DCCP),
    },
}


def table(entries: Iterable[AppEntry], version: DcbxVersion) -> dict[tuple[About, int], int]:
    """Return the entries as they are looked up."""
    found: dict[tuple[About, int], int] = {}
    for entry in sorted(entries, key=lambda entry: entry.selector is Selector.ANY_PORT):  # E5; the sort is stable
        for about in _about(entry, version):
            found.setdefault((about, entry.protocol), entry.priority)
    return found


def wanted(frame: bytes, found: Headers, socket_priority: int, applications: Table) -> int | None:
    """Return the priority that a frame is to have by the table, or None if the table has no entry."""
    for transport, port in _ports(frame, found):
        if (transport, port) in applications:
            return applications[transport, port]
    if found.dscp is not None and (About.DSCP, found.dscp) in applications:
        return applications[About.DSCP, found.dscp]
    if (About.TYPE, found.type) in applications:
        return applications[About.TYPE, found.type]
    if not found.dscp and socket_priority == 0:
        return applications.get((About.ANYTHING_ELSE, 0))
    return None


def _about(entry: AppEntry, version: DcbxVersion) -> tuple[About, ...]:
    if entry.selector is Selector.DSCP:
        return (About.DSCP,)
    if entry.selector is not Selector.ETHERTYPE:
        return _PORTS[version].get(entry.selector, ())
    if entry.protocol >= LEAST_TYPE:
        return (About.TYPE,)
    return (About.ANYTHING_ELSE,) if entry.protocol == 0 and version is DcbxVersion.PUBLISHED else ()


def _ports(frame: bytes, found: Headers) -> list[tuple[About, int]]:
    """Return the destination's and the source's transport and port (E1)."""
    ip = found.ip
    if found.dscp is None or len(frame) < ip + 10:
        return []
    if found.version == 4:
        if frame[ip + 6] & 0x1F or frame[ip + 7]:
            return []
        protocol, start = frame[ip + 9], ip + 4 * (frame[ip] & 0xF)
    else:
        protocol, start = frame[ip + 6], ip + 40
    if protocol not in _TRANSPORTS or len(frame) < start + 4:
        return []
    ports = int.from_bytes(frame[start : start + 2], "big"), int.from_bytes(frame[start + 2 : start + 4], "big")
    return [(_TRANSPORTS[protocol], port) for port in reversed(ports)]
