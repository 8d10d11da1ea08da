"""The headroom that switches and adapters come with: a fixed amount for each speed and class of cable length, and the
formula of a driver.

The table here is what one switch family ships (the profiles of NVIDIA's SN4280 in SONiC, column "xoff"): a number of
bytes for ports of a speed with cables up to 5, 40 or 300 m. It ignores the port's frames, cells, peers or real
cable, which is the point of the headroom proposal: it rarely fits. A `VendorTable` of your own switch takes its place.

A cable longer than every class gets the longest class, as it would on a switch whose operator has nothing better; the
result then warns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from testbed.switch.headroom.calculation import Headroom, HeadroomError, HeadroomPort, Model, Term
from testbed.units import Length, Rate


@dataclass(frozen=True)
class VendorTable:
    """A table of headroom in bytes by speed, one number for each class of length."""

    name: str
    classes: tuple[Length, ...]  # each holds for cables up to this long, shortest first
    bytes_by_rate: Mapping[Rate, tuple[int, ...]]

    def __post_init__(self) -> None:
        if not self.classes or list(self.classes) != sorted(set(self.classes)):
            raise HeadroomError(f"table {self.name}: its classes must be lengths, shortest first, none twice")
        for rate, row in self.bytes_by_rate.items():
            if len(row) != len(self.classes) or any(type(count) is not int or count < 0 for count in row):
                raise HeadroomError(f"table {self.name}: {rate} needs {len(self.classes)} whole numbers of bytes")

    def headroom(self, port: HeadroomPort, length: Length) -> Headroom:
        """Return the default for a port and a cable; alpha is 1, because vendors' numbers are of buffer already."""
        row = self.bytes_by_rate.get(port.rate)
        if row is None:
            there_are = ", ".join(map(str, sorted(self.bytes_by_rate)))
            raise HeadroomError(f"{self.name} has no default for {port.rate}; there is {there_are}")
        fitting = [place for place, longest in enumerate(self.classes) if length <= longest]
        place = fitting[0] if fitting else len(row) - 1
        warning = "" if fitting else f"the longest class is {self.classes[-1]}, and the cable has {length}"
        term = Term("default", row[place] * 8, f"{self.name}: {port.rate}, up to {self.classes[place]}")
        return Headroom(Model.VENDOR, (term,), Fraction(1), "buffer already", port.cell_bytes, warning)


SHIPPED = VendorTable(
    "SN4280",
    (Length("5m"), Length("40m"), Length("300m")),
    {
        Rate("10Gb/s"): (16384, 16384, 19456),
        Rate("25Gb/s"): (17408, 18432, 26624),
        Rate("40Gb/s"): (19456, 21504, 34816),
        Rate("50Gb/s"): (21504, 23552, 40960),
        Rate("100Gb/s"): (37888, 43008, 75776),
        Rate("200Gb/s"): (43008, 51200, 118784),
        Rate("400Gb/s"): (73728, 91136, 225280),
    },
)


ETHERNET_BYTES = 18
"""The octets of a frame beside what the MTU limits: addresses, EtherType and FCS."""


@dataclass(frozen=True)
class DriverFormula:
    """A formula of rate, cable and MTU, as the Linux driver of an adapter has it."""

    name: str
    interfaces: int
    """Octets for each Gb/s: what both ends take."""
    hundred_metres: int
    """Octets for each Gb/s and 100 m of cable, there and back."""
    hundredths_of_mtu: int

    def headroom(self, port: HeadroomPort, length: Length) -> Headroom:
        """Return the formula's headroom for a port and a cable.

        The result is buffer already, as a vendor's. Each term is cut to whole octets, as the driver does. The driver
        has an MTU where the port has its longest frame, which is 18 octets more.
        """
        mbps, mtu = port.rate.bps // 1_000_000, port.max_frame - ETHERNET_BYTES
        parts = (
            ("interfaces", self.interfaces * mbps // 1000, f"{self.interfaces} B for each Gb/s"),
            (
                "cable",
                self.hundred_metres * length.mm * mbps // (100_000 * 1000),
                f"{self.hundred_metres} B for each Gb/s and 100m",
            ),
            ("frames", self.hundredths_of_mtu * mtu // 100, f"{self.hundredths_of_mtu / 100:g} x {mtu} B of MTU"),
        )
        terms = tuple(Term(name, octets * 8, how) for name, octets, how in parts)
        return Headroom(Model.DRIVER, terms, Fraction(1), "buffer already", port.cell_bytes)


MLX5 = DriverFormula("mlx5", interfaces=301, hundred_metres=216, hundredths_of_mtu=272)
"""The formula of Linux' driver of ConnectX adapters."""
