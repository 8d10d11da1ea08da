"""The interface of rules of a port beside marks: which frames are admitted, what is stamped, and a queue's weight.

On `um` the port program and qdisc red ask the rule's code (`testbed.switch.rules.rule_code`). The class itself runs in
unit tests: its methods are called with what they are told.

Runs in C: `testbed/linux/port_program/port_rules.bpf.h`, `testbed/lab/um/linux/xoff_rule_kern.c`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from testbed.bytecode import sources
from testbed.switch.rules.marking import MarkingRule, QueuedFrame

MOST_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class OfferedFrame:
    """A frame that is to leave by a port of a switch, before the buffer has been asked for room."""

    now_lab_ns: int
    """The moment by the lab's clock, which never goes backwards."""
    queue: int
    """The number of its queue, which is the frame's local priority."""
    octets: int
    """The octets of the frame from its destination address on, without FCS."""
    ecn: int
    """The ECN field: 0 is Not-ECT, 1 is ECT(1), 2 is ECT(0), 3 is CE."""
    queued_octets: int
    """The octets that wait in the queue."""
    dscp: int
    """The DSCP; 0 if it is no IP packet."""
    cells: int
    """The cells of the buffer that the frame takes."""
    group_cells: int
    """The cells that its priority group at the port it came in by holds."""
    free_cells: int
    """The cells that are free in the shared pool of that group."""
    is_lossless: bool
    """True if the group is lossless."""


@dataclass(frozen=True, slots=True)
class StampedPacket:
    """A RoCE packet that collects telemetry, as a port is about to stamp it."""

    now_lab_ns: int
    """The moment by the lab's clock, which never goes backwards."""
    queue: int
    """The number of its queue, which is the frame's local priority."""
    octets: int
    """The octets of the frame from its destination address on, without FCS."""
    line_kbps: int
    """The rate of the port's line in kb/s of the lab, which is stamped without a rule."""
    queued_octets: int
    """The octets that wait in the queue, this packet not counted."""


class PortRule(MarkingRule):
    """A rule of a port that decides about more than marks; each method that a class lacks is not asked.

    All methods share what one of them assigns to `self`. None can admit a frame for which the buffer has no room.
    """

    is_interface: ClassVar = True
    ADMIT, DROP, TRIM = range(3)
    """The answers of `on_admission`."""

    def on_admission(self, frame: OfferedFrame) -> int:
        """Return ADMIT for the buffer to decide about a frame, or DROP or TRIM. What cannot be trimmed is dropped."""
        return self.ADMIT

    def on_stamp(self, packet: StampedPacket) -> int:
        """Return what the port stamps into a packet that collects telemetry, in place of the rate of its line.

        It is a whole number of 32 bits, and the sender's rate control reads it as `kbps` of the stamp.
        """
        return packet.line_kbps

    def on_weight(self, frame: QueuedFrame) -> int:
        """Return the weight of a frame's queue from now on, 1 to 100, as a frame comes to it.

        The least weight of the port's other queues is 1.
        """
        return 1


sources.keep(__file__)
