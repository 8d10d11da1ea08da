"""The ECN field, and the fate of a packet that is picked, by decision 0134.

The field is the last two bits of the DS field, which is the second octet of an IPv4 header and the traffic class of an
IPv6 header. The PFC/ECN article numbers the bits of that octet from the left and calls bit 6 ECT and bit 7 CE;
RFC 3168 gives the two bits four values. Linux RED with `ecn`, and `nodrop` for keep_not_ect, does what `fate` returns.

Not here: when a packet is picked, which is `curve`, and changing packets, which the kernel does.
"""

from __future__ import annotations

import enum

from testbed.switch.ecn.curve import EcnError


class Ecn(enum.IntEnum):
    """The four values of the field; senders in the lab use ECT_0."""

    NOT_ECT = 0b00
    ECT_1 = 0b01
    ECT_0 = 0b10
    CE = 0b11

    @classmethod
    def of(cls, ds_field: int) -> Ecn:
        """Return the value in a DS octet."""
        return cls(_octet(ds_field) & 0b11)

    def into(self, ds_field: int) -> int:
        """Return the DS octet with this value, its DSCP kept."""
        return (_octet(ds_field) & ~0b11) | self


class Pick(enum.StrEnum):
    """RED's decision on an arriving packet, by queue length and chance."""

    PASSED = "passed"  # below the lower limit, or between the limits and not picked
    PICKED = "picked"  # between the limits, by probability
    FORCED = "forced"  # at or above the upper limit
    FULL = "full"  # no room for it below the queue's limit


class Fate(enum.StrEnum):
    """The fate of a packet."""

    UNCHANGED = "unchanged"
    MARKED = "marked"  # the field becomes CE, and the packet is forwarded
    DROPPED = "dropped"


def fate(ecn: Ecn | None, pick: Pick, keep_not_ect: bool = False) -> Fate:
    """Return the fate of a packet with this field; None is a packet that is not IP and so has none, taken as NOT_ECT.

    The last line is the one to know: a picked ARP request is dropped, as a picked IP packet without ECN is.
    """
    match pick, ecn:
        case Pick.FULL, _:
            return Fate.DROPPED
        case (Pick.PASSED, _) | (_, Ecn.CE):
            return Fate.UNCHANGED
        case _, (Ecn.ECT_0 | Ecn.ECT_1):
            return Fate.MARKED
    return Fate.UNCHANGED if keep_not_ect else Fate.DROPPED


def _octet(value: int) -> int:
    if type(value) is not int or not 0 <= value <= 0xFF:
        raise EcnError(f"{value!r} is not a DS field: it is one octet, 0 to 255")
    return value
