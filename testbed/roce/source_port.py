"""The UDP port that a queue pair sends from, and over IPv6 its flow label: by these networks spread queue pairs over
equal ways.

Both ends of a connection know the rule and both numbers, so each can tell which port the other one sends from: the ICRC
covers it. It does not cover the flow label, which is the sender's own choice. RFC 6437 asks for one label for all
packets of a flow, and for labels that look as if they were drawn.
"""

from __future__ import annotations

FIRST = 0xC000
"""RoCEv2 uses the dynamic ports."""
_LOW_14, _LOW_20 = 0x3FFF, 0xFFFFF

QUEUE_PAIR, HASH = "queue pair", "hash"
RULES = (QUEUE_PAIR, HASH)

PortRule = int | str
"""A port for both ends, or the name of a rule: the own number alone, or a hash of both numbers."""


def from_number(number: int) -> int:
    """Return the port by the low 14 bits of a queue pair's number."""
    return FIRST | number & _LOW_14


def from_both(number: int, far_number: int) -> int:
    """Return the port that Linux's RDMA core derives from both numbers; it is the same in both directions.

    Their product is folded to a flow label of 20 bits, and the label to the 14 bits of a dynamic port.
    """
    label = flow_label(number, far_number)
    return FIRST | (label ^ label >> 14) & _LOW_14


def flow_label(number: int, far_number: int) -> int:
    """Return the flow label that Linux's RDMA core derives from both numbers; it is the same in both directions."""
    label = number * far_number
    label ^= label >> 20
    label ^= label >> 40
    return label & _LOW_20


def source_port(rule: PortRule, number: int, far_number: int) -> int:
    """Return the port that a queue pair sends from to another one."""
    if isinstance(rule, int):
        return rule
    return from_both(number, far_number) if rule == HASH else from_number(number)
