"""Virtual lanes: the priority of a frame on each link, by its service level and by its way through a node (QoS RFC
section 1).

InfiniBand has a service level (SL, 0 to 15) in a packet from end to end, and a virtual lane (VL) for each link, which
an output port finds by input port, output port and SL. On Ethernet the DSCP carries the SL and the PCP of the VLAN tag
the VL (decision 0181): VL n is priority n, with its queue and its PFC. This module is the reference of the eBPF program
(`lane_of`), as `classify` and `marking` are; ports with such tables trust dot1p.

  L1 A frame that is IP (rule R2) has an SL: the class selector of its DSCP, and 8 more if bit 2 of the DSCP is set. So
     SL n is DSCP 8n, and SL 8 + n is DSCP 8n + 4; the lower two bits mean nothing. Other frames have no SL.
  L2 The output port has a table for the port that the frame came in by, or for frames of its own node: the VL of each
     SL. A frame without an SL, or for whose way there is no table, keeps the priority that it has without this module,
     and so does a frame of its own node to 01-80-C2-00-00-00 to -0F.
  L3 VL 0 to 7: the number of the frame's queue, and the PCP that it leaves with; a tag is added if it has none. The
     priority that the buffer charges is that of the input link, as ever.
  L4 VL 8 to 15: the frame is dropped, and counted at the output port by its SL.

Runs in C: `testbed/linux/port_program/port.bpf.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.frames.path_record import sl_of
from testbed.switch.priority.classify import read, with_pcp
from testbed.switch.priority.marking import tagged

LANES = 8
"""The number of VLs that a port can have: 802.1Q has eight priorities."""


@dataclass(frozen=True)
class Lane:
    """The lane of a frame at an output port. `vl` is None if its priority is not chosen by a table."""

    frame: bytes | None  # None: it is dropped
    vl: int | None


def lane(frame: bytes, table: Sequence[int] | None) -> Lane:
    """Return the lane of a frame that leaves by a port, of which `table` is for its way through the node."""
    marking = read(frame)
    if marking.dscp is None or table is None:
        return Lane(frame, None)
    vl = table[sl_of(marking.dscp)]
    if vl >= LANES:
        return Lane(None, vl)
    return Lane(with_pcp(frame, vl) if marking.pcp is not None else tagged(frame, vl), vl)
