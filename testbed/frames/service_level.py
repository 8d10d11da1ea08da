"""The DSCP that carries a service level (SL) of InfiniBand on Ethernet (decision 0181).

It is the class selector of an SL below 8, and four more for SL 8 and above. The lower two bits of a DSCP mean nothing
for the SL.
"""

from __future__ import annotations

SLS = range(16)


def dscp_of(sl: int) -> int:
    """Return the DSCP that stands for an SL."""
    return (sl & 7) << 3 | (sl >> 3) << 2


def sl_of(dscp: int) -> int:
    """Return the SL that a DSCP stands for."""
    return dscp >> 3 | (dscp >> 2 & 1) << 3
