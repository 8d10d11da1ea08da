"""Rates, lengths, durations and sizes as exact values, and the scale between hardware and lab.

A value is made from the text people write, `Rate("25Gb/s")`, or from a whole number of a named
unit, `Rate.from_bps(25_000_000_000)`. Inside it is an integer: bit/s, millimetres, picoseconds or
bytes. Text that is not a whole number of that unit is refused, no float gets in, and nothing is
rounded unless the docstring states it. Picoseconds make the time of one byte whole at every Ethernet
rate from 10 Mb/s to 1.6 Tb/s, and a millimetre of fibre is 5 of them. A single bit at 400 Gb/s is
2.5 ps and not whole, but no method here times single bits.

How text is read: digits with an optional decimal point, spaces if you like, a unit.
- Case counts: b is bit and B is byte, so "25GB/s" is 200 Gb/s, and "25gb/s" is refused.
- k M G T P are powers of 1000, and K is taken for k. Ki to Pi, sizes only, are powers of 1024.
- A rate is b/s, bps or bit/s, or in bytes B/s or Bps. As in tc, "25gbit", lower case and without
  "/s", is a rate; unlike in tc, "bps" is bits per second.
- m is metres and minutes are "min". Micro is u, the micro sign or the Greek letter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from testbed.units.quantity import Quantity, UnitError, shown

__all__ = [
    "FIBRE_PER_METRE",
    "NEVER",
    "PFC_QUANTUM_BITS",
    "Duration",
    "Length",
    "Line",
    "Quantity",
    "Rate",
    "Scale",
    "Size",
    "UnitError",
    "hardware_times",
    "read_quantities",
    "real_ns",
    "written",
]

NEVER = 2**63 - 1
"""A moment that does not come, in ns: the largest that the kernel's clocks can show."""

PFC_QUANTUM_BITS = 512
"""Pause times on the wire count in these (IEEE 802.3 annex 31B, and PFC in 31D)."""

_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_RATE_NAMES = {"b/s": 1, "B/s": 8, "bps": 1, "Bps": 8, "bit/s": 1, "bit": 1}

_RATE_UNITS = {p + name: n * bits for name, bits in _RATE_NAMES.items() for p, n in _SI.items()}
_RATE_UNITS |= {name.lower(): n for name, n in _RATE_UNITS.items() if "bit" in name}
_LENGTH_UNITS = {"mm": 1, "cm": 10, "m": 10**3, "km": 10**6}
_DURATION_UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_DURATION_UNITS |= {"min": 60 * 10**12, "h": 3600 * 10**12}
_SIZE_UNITS = {p + "B": n for p, n in _SI.items()} | {"byte": 1, "bytes": 1}
_SIZE_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


@dataclass(frozen=True, init=False, repr=False)
class Duration(Quantity):
    """A span of time, in whole picoseconds."""

    noun = "duration"
    example = "3.3us"
    units = _DURATION_UNITS
    printed = ("ps", "ns", "us", "ms", "s")
    mistaken: ClassVar[dict[str, tuple[str, str]]] = {"m": ("m is metres here, and minutes are min", "min")}
    limit = 10**21  # 1e9 s, some 31 years
    scaling = 1
    reported = "ns"

    @classmethod
    def from_ps(cls, ps: int) -> Self:
        return cls._exactly(ps)

    @classmethod
    def from_ns(cls, ns: int) -> Self:
        """Return the duration of a time stamp or clock of the kernel."""
        return cls._exactly(ns * 1000)

    @classmethod
    def nearest_ns(cls, ns: float) -> Self:
        """Return the duration nearest to a number of ns, as readings of networks have it."""
        return cls._exactly(round(ns * 1000))

    @property
    def ps(self) -> int:
        """Picoseconds, exact."""
        return self._value

    @property
    def ns(self) -> int:
        """The nearest whole nanosecond, halves up: what the kernel's interfaces take."""
        return (self._value + 500) // 1000

    def length(self, per_metre: Duration | None = None) -> Length:
        """Return the longest cable whose propagation fits; `per_metre` is FIBRE_PER_METRE if not given."""
        ps_per_metre = (FIBRE_PER_METRE if per_metre is None else per_metre).ps
        if ps_per_metre == 0:
            raise UnitError(f"no length takes {self} at 0s per metre; give the delay of one metre")
        return Length.from_mm(self._value * 1000 // ps_per_metre)


FIBRE_PER_METRE = Duration.from_ns(5)
"""Propagation in fibre as the standards round it: 5 us per km."""


@dataclass(frozen=True, init=False, repr=False)
class Length(Quantity):
    """The length of a cable, in whole millimetres."""

    noun = "length"
    example = "500m"
    units = _LENGTH_UNITS
    printed = ("mm", "m", "km")
    limit = 10**13  # 1e7 km: the longest real links at k = 1000, and room to spare
    scaling = 1
    reported = "m"

    @classmethod
    def from_mm(cls, mm: int) -> Self:
        return cls._exactly(mm)

    @property
    def mm(self) -> int:
        """Millimetres, exact."""
        return self._value

    def propagation(self, per_metre: Duration | None = None) -> Duration:
        """Return the time of one way through the cable, FIBRE_PER_METRE (always exact) if no `per_metre` is given.

        Rounded up to a picosecond, so headroom computed from it is never short.
        """
        ps_per_metre = (FIBRE_PER_METRE if per_metre is None else per_metre).ps
        return Duration.from_ps(math.ceil(Fraction(self._value * ps_per_metre, 1000)))


@dataclass(frozen=True, init=False, repr=False)
class Size(Quantity):
    """An amount of data, in whole bytes."""

    noun = "size"
    example = "9216B"
    units = _SIZE_UNITS
    printed = ("B", "kB", "MB", "GB", "TB", "PB")
    limit = 10**15
    scaling = 0
    reported = "B"
    digits = 15  # octets are counted one by one

    @classmethod
    def from_bytes(cls, count: int) -> Self:
        return cls._exactly(count)

    @property
    def bytes(self) -> int:
        """Bytes, exact."""
        return self._value

    @property
    def bits(self) -> int:
        """Bits, exact."""
        return self._value * 8


@dataclass(frozen=True, init=False, repr=False)
class Rate(Quantity):
    """Data per time, in whole bits per second.

    Sizes count what the caller counts: preamble and gap between frames are not added here.
    """

    noun = "rate"
    example = "25Gb/s"
    units = _RATE_UNITS
    printed = ("b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s")
    limit = 10**15
    scaling = -1
    reported = "b/s"

    @classmethod
    def from_bps(cls, bits_per_second: int) -> Self:
        return cls._exactly(bits_per_second)

    @property
    def bps(self) -> int:
        """Bits per second, exact."""
        return self._value

    def time_for(self, size: Size) -> Duration:
        """Return the time that `size` takes, rounded up to a picosecond."""
        if self._value == 0:
            raise UnitError(f"{size} takes forever at 0b/s; give a rate above zero")
        return Duration.from_ps(math.ceil(Fraction(size.bits * 10**12, self._value)))

    def bits_in(self, duration: Duration) -> Fraction:
        """Return the bit times in `duration`, exact and perhaps not whole, for sums that round at the end."""
        return Fraction(self._value * duration.ps, 10**12)

    def size_in(self, duration: Duration) -> Size:
        """Return the whole bytes that fit into `duration`, rounded down."""
        return Size.from_bytes(self.bits_in(duration) // 8)

    @property
    def quantum(self) -> Duration:
        """One PFC quantum, rounded up to a picosecond; for several use time_for_quanta."""
        return self.time_for_quanta(1)

    def time_for_quanta(self, quanta: int) -> Duration:
        """Return the time of a pause of so many PFC quanta, rounded up once, not per quantum."""
        return self.time_for(Size.from_bytes(quanta * PFC_QUANTUM_BITS // 8))

    def quanta(self, duration: Duration) -> int:
        """Return the PFC quanta that cover `duration`, rounded up.

        Not held to the 16 bits of the frame: what to do with a longer pause is the sender's choice.
        """
        return math.ceil(self.bits_in(duration) / PFC_QUANTUM_BITS)


Q = TypeVar("Q", bound=Quantity)


@dataclass(frozen=True, init=False, repr=False)
class Scale:
    """The scale between real hardware and the lab: rates are divided by k, times multiplied, bytes kept.

    A length is multiplied too, because what a cable does is delay: at k = 1000 the lab's cable for
    50 km is 50000 km long, and its propagation takes k times as long. Both directions are exact or
    refused, so `real(lab(x)) == x`.
    """

    k: int

    limit: ClassVar[int] = 10**6

    def __init__(self, k: int | str | Scale) -> None:
        value: object = k
        if isinstance(k, Scale):
            value = k.k
        elif isinstance(k, str) and re.fullmatch(r"\s*x?[0-9]{1,20}\s*", k):
            value = int(k.strip().removeprefix("x"))
        if type(value) is not int or not 1 <= value <= self.limit:
            raise UnitError(
                f"{shown(k)} is not a scale: it must be a whole number from 1 to {self.limit}; "
                "write for example 'x1000'"
            )
        object.__setattr__(self, "k", value)

    def lab(self, real: Q) -> Q:
        """Return the lab's value for one of the hardware."""
        return self._times_k(real, real.scaling)

    def real(self, lab: Q) -> Q:
        """Return the hardware's value for one of the lab."""
        return self._times_k(lab, -lab.scaling)

    def nearest_real(self, lab: Q) -> Q:
        """Return the hardware's value nearest to a measured one of the lab, which need not be a multiple of k."""
        return lab._exactly(math.floor(self._real_steps(lab) + Fraction(1, 2)))

    def both(self, lab: Quantity) -> str:
        """Return a lab value for people, "25Mb/s (25Gb/s real)"; just the value where both are the same.

        A measured time need not be a multiple of k. A report must not fail on that, so the real
        side is then rounded to the nearest step and marked "about".
        """
        real = self._real_steps(lab)
        if real == lab._value:
            return str(lab)
        about = "about " if real.denominator != 1 else ""
        return f"{lab} ({about}{self.nearest_real(lab)} real)"

    def _real_steps(self, lab: Quantity) -> Fraction:
        return lab._value * Fraction(self.k) ** -lab.scaling

    def _times_k(self, x: Q, power: int) -> Q:
        # No Fraction: each connection of a flow converts some thirty values.
        value, rest = (x._value * self.k**power, 0) if power >= 0 else divmod(x._value, self.k**-power)
        if rest:
            raise UnitError(
                f"{x} cannot be divided by scale {self}: the result is not a whole number of "
                f"{x.printed[0]}; choose a {x.noun} that is a multiple of {self.k}{x.printed[0]}, "
                "or another scale"
            )
        return x._exactly(value)

    def __str__(self) -> str:
        return f"x{self.k}"

    def __repr__(self) -> str:
        return f"Scale({str(self)!r})"


@dataclass(frozen=True)
class Line:
    """The line of a port, as a class of one's own knows it: a rate control, or a rule of a switch."""

    rate: Rate
    """The rate of the port in the lab, which is the largest that a flow can have."""
    scale: Scale
    """Parameters are those of hardware: times are multiplied by the scale, and rates divided by it."""

    def lab_ns(self, time: Duration | str) -> int:
        """Return a time of the hardware in ns of the lab, to add it to a moment of the lab's clock."""
        return self.scale.lab(Duration(time)).ns

    def lab_bps(self, rate: Rate | str) -> int:
        """Return a rate of the hardware in b/s of the lab, as `rate_lab_bps` is."""
        return self.scale.lab(Rate(rate)).bps


def read_quantities(owner: Any) -> None:
    """Read the quantities of a frozen dataclass that were given as text, by the types of its fields.

    For `__post_init__`: `Roce(message="64KiB")` is what `Roce(message=Size("64KiB"))` is.
    """
    for name, kind in _quantities(type(owner)):  # type: ignore[arg-type]  # mypy takes no type for hashable
        value = getattr(owner, name)
        if value is not None and not isinstance(value, kind):
            try:
                object.__setattr__(owner, name, kind(value))
            except UnitError as error:
                raise UnitError(f"{type(owner).__name__}({name}=...): {error}") from None


@lru_cache(256)
def _quantities(owner: type) -> list[tuple[str, type[Quantity]]]:
    kinds = {kind.__name__: kind for kind in (Rate, Length, Duration, Size)}
    # Annotations are text, as each module has them, such as "Duration | None".
    written = [(one.name, str(one.type).removesuffix(" | None")) for one in fields(owner)]
    return [(name, kinds[text]) for name, text in written if text in kinds]


def hardware_times(reading: Any, scale: Scale) -> Any:
    """Return plain data of the lab with the times of the hardware: each number with a name in `_ns` or `_us`.

    A number stays an int where it is whole. Names in `lab_ns` are those of the lab's own times, and stay.
    """
    if scale.k == 1:
        return reading
    if isinstance(reading, Mapping):
        return {
            name: real_ns(value, scale) if _is_time(name, value) else hardware_times(value, scale)
            for name, value in reading.items()
        }
    if isinstance(reading, (list, tuple)):
        return type(reading)(hardware_times(one, scale) for one in reading)
    return reading


def _is_time(name: object, value: object) -> bool:
    is_named = isinstance(name, str) and name.endswith(("_ns", "_us")) and not name.endswith("lab_ns")
    return is_named and type(value) is int


def real_ns(lab_ns: int, scale: Scale) -> int | float:
    """Return a time of the hardware for one of the lab, in the same unit; an int if it is whole."""
    whole, rest = divmod(lab_ns, scale.k)
    return lab_ns / scale.k if rest else whole


def written(value: object, unit: str) -> str:
    """Return a reported number and its unit as people write them: 94522026 and "b/s" are 94.522026Mb/s."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for kind in (Rate, Length, Duration, Size):
            # What is larger, or no number, cannot be multiplied and rounded.
            if unit == kind.reported and 0 <= value <= kind.limit:
                inner = round(value * kind.units[unit])
                if inner <= kind.limit:
                    return str(kind._exactly(inner))
    elif isinstance(value, list) and unit:
        return f"[{', '.join(written(item, unit) for item in value)}]"
    elif isinstance(value, dict) and unit:
        return f"{{{', '.join(f'{name}: {written(item, unit)}' for name, item in value.items())}}}"
    return f"{value}" if value is None else f"{value} {unit}".strip()
