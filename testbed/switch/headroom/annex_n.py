"""Headroom for the worst that the standards allow: IEEE 802.1Q annex N, the headroom proposal's figure N-3.

    DV = 2 MaxFrame + PFC + 2 cable + (TX1 + RX2) + (TX2 + RX1) + HD2

Station 1 sends PAUSE, station 2 obeys. TX and RX are what a station's interface takes from the MAC to the cable and
back; HD is what its higher layers take until the queue stands still. A `PortType` holds the maxima of IEEE 802.3, which
limits TX + RX of one station in bit times, sublayer by sublayer. No more is needed: TX1 + RX2 + TX2 + RX1 is the sum
over both stations. They are upper bounds and devices do better: give a `PortType` or a higher-layer delay of your own.

10GBASE-T is the annex's own example. For the others 802.3 has a table for each family (clauses 44, 80, 105, 116).
Their sums can be checked against other numbers, and tests do: what a station may take to obey PAUSE (802.3 annex 31B)
is the sum for 10GBASE-T, 25GBASE-R, 200GBASE-R and 400GBASE-R; the proposal's 132608 bits for 100GBASE-R are the sum
for it with HD.

Not here: FEC beside the PCS, MACsec and modules (`extras.py`), retimers outside the port, and rates without a table in
802.3, the lab's own for example.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from testbed.errors import nearest
from testbed.switch.headroom.calculation import Headroom, HeadroomError, HeadroomPort, Model, Term, frames, total
from testbed.units import PFC_QUANTUM_BITS, Duration, Length, Rate

HIGHER_LAYER_DELAY = Duration("614.4ns")
"""The time after which a queue is paused once the frame was recognised, at any rate (802.1Q 36.1.3.3); 6144 bits at 10
Gb/s."""


@dataclass(frozen=True)
class Medium:
    """The medium of a cable."""

    name: str
    ns_per_metre: Fraction

    def one_way(self, rate: Rate, length: Length) -> Fraction:
        """Return the exact bit times from one end to the other."""
        return Fraction(rate.bps * length.mm, 10**12) * self.ns_per_metre

    def delay(self, length: Length) -> Duration:
        """Return the delay from one end to the other, rounded up to a picosecond."""
        return Duration.from_ps(ceil(length.mm * self.ns_per_metre))


def _copper(part_of_c: str) -> Fraction:
    """Return the medium of a copper cable; 802.3 computes with c = 3 x 10^8 m/s."""
    return Fraction(10, 3) / Fraction(part_of_c)


MEDIA = {
    medium.name: medium
    for medium in (
        Medium("fibre", Fraction(5)),
        Medium("cat6", _copper("0.6")),
        Medium("twinax", _copper("0.7")),
    )
}
FIBRE = MEDIA["fibre"]


def delay_of(medium: str, length: Length) -> Duration:
    """Return the delay of a cable of a medium that is named as on the command line."""
    if medium not in MEDIA:
        raise HeadroomError(f"--medium: there is no medium {medium!r}; {nearest(medium, MEDIA)}")
    return MEDIA[medium].delay(length)


@dataclass(frozen=True)
class PortType:
    """A kind of port and the most that TX + RX of each sublayer of one station may take, in bit times."""

    name: str
    rate: Rate
    sublayers: tuple[tuple[str, int], ...]

    @property
    def interface_delay(self) -> int:
        return sum(bits for _, bits in self.sublayers)


def _port_type(name: str, rate: str, **quanta: int) -> PortType:
    """Return a port type by pause quanta, in which 802.3's tables count too, and which are the shorter numbers."""
    sublayers = tuple((sublayer, count * PFC_QUANTUM_BITS) for sublayer, count in quanta.items())
    return PortType(name, Rate(rate), sublayers)


PORT_TYPES = {
    port_type.name: port_type
    for port_type in (
        # MAC stands for MAC, reconciliation sublayer and MAC control; XGXS is the extender between MAC chip and PHY.
        _port_type("10GBASE-T", "10Gb/s", MAC=16, XGXS=8, PHY=50),
        _port_type("10GBASE-R", "10Gb/s", MAC=16, XGXS=8, PCS=7, PMD=1),
        _port_type("25GBASE-R", "25Gb/s", MAC=16, PCS=7, FEC=48, PMA=8, PMD=1),
        _port_type("40GBASE-R", "40Gb/s", MAC=32, PCS=22, PMA=8, PMD=2),
        _port_type("100GBASE-R", "100Gb/s", MAC=48, PCS=69, PMA=18, PMD=4),
        _port_type("200GBASE-R", "200Gb/s", MAC=96, PCS=313, PMA=36, PMD=8),
        _port_type("400GBASE-R", "400Gb/s", MAC=192, PCS=625, PMA=72, PMD=16),
    )
}


def port_type_for(rate: Rate, medium: Medium = FIBRE) -> PortType:
    """Return the port type of a rate: BASE-T on twisted pair, BASE-R on anything else."""
    suffix = "-T" if medium.name == "cat6" else "-R"
    found = [t for t in PORT_TYPES.values() if t.rate == rate and t.name.endswith(suffix)]
    if not found:
        there_are = ", ".join(t.name for t in PORT_TYPES.values())
        raise HeadroomError(f"there is no port type of {rate} on {medium.name} in the table; it has {there_are}")
    return found[0]


def worst_case(
    port: HeadroomPort,
    length: Length,
    port_type: PortType,
    medium: Medium = FIBRE,
    higher_layers: Duration = HIGHER_LAYER_DELAY,
    *,
    further: Iterable[Term] = (),
) -> Headroom:
    """Return Annex N's headroom over a cable between two ports of one type; `further` are terms of what else is on the
    link (`extras.py`).
    """
    if port.rate != port_type.rate:
        raise HeadroomError(f"a {port_type.name} port has {port_type.rate}, not {port.rate}; choose another port type")
    cable = ceil(medium.one_way(port.rate, length))
    interfaces = port_type.interface_delay
    sublayers = "+".join(sublayer for sublayer, _ in port_type.sublayers)
    return total(
        Model.WORST_CASE,
        port,
        (
            *frames(port),
            Term("2 cable", 2 * cable, f"2 x {length} of {medium.name}"),
            Term("TX1 + RX2", interfaces, f"{port_type.name}: {sublayers}"),
            Term("TX2 + RX1", interfaces, f"{port_type.name}: {sublayers}"),
            Term("higher layers", port.bits_in(higher_layers), f"{port.rate} x {higher_layers}"),
            *further,
        ),
    )
