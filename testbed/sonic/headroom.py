"""How much headroom a lossless group of a port needs, by speed, cable length and MTU.

Two bounds, by the sums of `testbed.headroom`. Below `least` frames are lost even if both stations react at once and all
frames have full size. `most` is for stations as slow as the standards allow, and for the frames that waste most of
their cells; with it nothing is lost, whatever comes. Both have room for the frame that triggers PAUSE.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.headroom import annex_n
from testbed.headroom.calculation import HeadroomError, HeadroomPort, adaptive
from testbed.sonic.tables import Tables
from testbed.units import Length, Rate

DEFAULT_MTU = 9100
_TAGGED = 18
"""Of a frame beside its payload, with FCS."""
_FCS = 4


@dataclass(frozen=True)
class Need:
    """In bytes, whole cells."""

    least: int
    most: int


def needed(rate: Rate, length: Length, mtu: int, cell: int) -> Need:
    """The headroom of one lossless group."""
    longest = mtu + _TAGGED
    full = HeadroomPort(rate, longest, longest, cell, not_kept=_FCS)
    small = HeadroomPort(rate, longest, 64, cell, not_kept=_FCS)
    trigger = -(-(longest - _FCS) // cell)
    least = adaptive(full, length.propagation() * 2).cells + trigger
    try:
        most = annex_n.worst_case(small, length, annex_n.port_type_for(rate)).cells + trigger
    except HeadroomError:  # 802.3 has no delays for the rate
        slow = annex_n.HIGHER_LAYER_DELAY * 2
        most = adaptive(small, length.propagation() * 2, slow).cells + trigger
    return Need(least * cell, most * cell)


def needed_at(tables: Tables, port: str, cell: int) -> Need:
    """Of a port of a switch, whose cable is 5 m if the file has no length of it."""
    row = tables.ports[port]
    length = Length(tables.cables.get(port, "5m"))
    return needed(Rate.from_bps(row.speed * 10**6), length, row.mtu or DEFAULT_MTU, cell)
