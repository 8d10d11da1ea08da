"""The words for what the kernel's RoCE reports by numbers; see enum xr_refusal and enum xr_why in
testbed/lab/um/linux/xoff_roce.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.frames.roce import Nak, Opcode, RoceReason
from testbed.roce.memory import UNLIMITED

REFUSALS: tuple[str, ...] = (
    RoceReason.TOO_SHORT,
    RoceReason.WRONG_VERSION,
    RoceReason.OPCODE_NOT_KNOWN,
    RoceReason.BAD_PADDING,
    RoceReason.BAD_SYNDROME,
    RoceReason.BAD_ICRC,
    "queue_pair_not_ready",
)
"""The reasons why a datagram was refused, from number 1 on."""

_FAILURES = (
    "",
    "no acknowledgement after {0} retransmissions",
    "the far end refuses packet {0}: {nak}",
    "read response {0} has {1} octets",
    "read response {0}: {1} octets for address {2}{next}",
    "a read of {0} octets at {1} with key {2:#x}",
    "a write of {0} octets at {1} with key {2:#x}",
    "a read begins within a message",
    "more than {0} reads at a time",
    "{opcode} within a message",
    "{opcode} without its first packet",
    "{opcode} with {1} octets",
    "a send, for which there is no memory",
    "{0} octets for address {1}; {2} is next",
    "{0} octets for address {1} of memory that is only read",
    "{0} octets at address {1} of memory that is only written",
    "the far end has no receive for packet {0} after {1} retries",
)


def failure(numbers: Sequence[int]) -> str:
    """Return the sentence of a failure, which is a reason and four numbers; empty without one."""
    why, *numbers = numbers
    first, second, _, fourth = numbers
    return _FAILURES[why].format(
        *numbers,
        nak=Nak(second).name.lower().replace("_", " ") if second in list(Nak) else second,
        opcode=Opcode(first).name if first in list(Opcode) else first,
        next=f"; {fourth} is next" if fourth <= UNLIMITED else " of memory that is only read",
    )
