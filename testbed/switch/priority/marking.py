"""The marks that a sending host sets so that the next port finds the priority that the application asked for.

A program chooses by its socket's priority (Linux: SO_PRIORITY, skb->priority), by the DSCP it sets, or not at all. The
host's port has the same `PriorityMap` as the port at the other end of its cable (`path` checks that). From both:

  H0 An entry of DCBX's application table for the frame's protocol (`applications`) overrides the program's choice.
  H1 Else, the frame is IP and its DSCP is not 0: the DSCP by the port's table is wanted, whatever the trust mode.
  H2 Else the socket's priority if it is 0 to 7. Linux uses larger ones for its own purposes (class handles, SO_PRIORITY
     of a privileged program): then the port's priority.
The frame is made to carry what is wanted:
  H3 Trust dot1p: a tagged frame gets it as the PCP of its outermost tag, DEI and VID kept. An untagged one gets a
     priority tag, 0x8100 with DEI 0 and VID 0, after the source address. A frame of fewer than 14 octets is left alone.
  H4 Trust dscp: an IP frame whose DSCP means something else gets the DSCP of `PriorityMap.carrier`; that can only be
     one with DSCP 0. If no DSCP means it, if the frame is not IP, or cut before IPv4's checksum, it is left alone.
  H5 No trust: it is left alone, since the next port does not look at it.
  H6 Frames to 01-80-C2-00-00-00 to -0F (PFC, LLDP and others) concern this link alone and are left alone.
Then the frame's priority, which is its queue at this host and the one that a PFC frame stops, is what `classify` finds
in it. So both ends of the cable agree about every frame, even one that cannot carry what was wanted. Rewriting tables
are for forwarding and play no part.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.switch.priority.applications import NOTHING, Table
from testbed.switch.priority.applications import wanted as applied
from testbed.switch.priority.classify import ETHERTYPE, TAG_TYPES, classify, read, takes_dscp, with_dscp, with_pcp
from testbed.switch.priority.settings import PRIORITIES, PriorityMap, Trust

_LINK_LOCAL = bytes.fromhex("0180c20000")  # with a sixth octet from 00 to 0f
_HEADER = 14


@dataclass(frozen=True)
class Marked:
    """A frame as the host sends it."""

    frame: bytes  # the same object if nothing was changed
    wanted: int  # H0 to H2
    dot1p: int
    local: int

    @property
    def carried(self) -> bool:
        """True if the frame has the priority that was wanted; a caller counts the others."""
        return self.dot1p == self.wanted


def mark(frame: bytes, socket_priority: int, settings: PriorityMap, applications: Table = NOTHING) -> Marked:
    """Return the frame to send, and its priority."""
    marking = read(frame)
    by_table = applied(frame, marking, socket_priority, applications)
    if by_table is not None:
        wanted = by_table
    elif marking.dscp:
        wanted = settings.dscp_to_dot1p[marking.dscp]
    else:
        wanted = socket_priority if socket_priority in PRIORITIES else settings.port_priority
    sent = frame
    if not _link_local(frame):
        if settings.trust is Trust.DOT1P and len(frame) >= _HEADER:
            sent = with_pcp(frame, wanted) if marking.pcp is not None else tagged(frame, wanted)
        elif settings.trust is Trust.DSCP and takes_dscp(frame, marking):
            assert marking.dscp is not None
            carrier = settings.carrier(wanted)
            if carrier is not None and settings.dscp_to_dot1p[marking.dscp] != wanted:
                sent = with_dscp(frame, marking, carrier)
    result = classify(sent, settings)
    return Marked(sent, wanted, result.dot1p, result.local)


def tagged(frame: bytes, priority: int) -> bytes:
    """Return an untagged frame with a priority tag."""
    return frame[:ETHERTYPE] + TAG_TYPES[0] + bytes([priority << 5, 0]) + frame[ETHERTYPE:]


def _link_local(frame: bytes) -> bool:
    return frame[:5] == _LINK_LOCAL and frame[5:6] < b"\x10"
