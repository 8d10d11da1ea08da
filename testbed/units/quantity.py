"""The base of all quantities: it reads text, computes exactly, and writes the shortest exact text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import ClassVar, Self, overload

from testbed.errors import UsageError

_TEXT = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(.*?)\s*", re.DOTALL)
# No honest value is longer, and Python refuses to read integers of thousands of digits.
_LONGEST_TEXT = 60


class UnitError(UsageError, ValueError):
    """A quantity or scale that cannot be read, or is out of range."""


@dataclass(frozen=True, init=False, repr=False)
class Quantity:
    """The base of the four quantities; use the subclasses.

    Values of one type compare, add, subtract (never below zero) and divide into a Fraction. Times
    an int they stay what they are, and `//` rounds down. Types do not mix.
    """

    _value: int

    noun: ClassVar[str]
    example: ClassVar[str]
    units: ClassVar[dict[str, int]]
    """Every spelling that is read, in whole steps of the inner unit."""
    printed: ClassVar[tuple[str, ...]]
    """The units that str() uses, powers of ten from the inner unit upwards."""
    limit: ClassVar[int]
    """The largest value: more is a slip of the keyboard, or a scale that went too far."""
    scaling: ClassVar[int]
    """The power of k that takes a real value to the lab, see Scale."""
    mistaken: ClassVar[dict[str, tuple[str, str]]] = {}
    """Units that are written by mistake: why each is wrong, and the unit that was meant."""
    digits: ClassVar[int] = 5
    """The most digits that str() writes before the decimal point, if there is a larger unit."""
    reported: ClassVar[str]
    """The unit beside a value's number where programs read it, always the same one: see `number`."""

    def __init__(self, text: str | Self) -> None:
        if isinstance(text, type(self)):
            value = text._value
        elif isinstance(text, str):
            value = self._parse(text)
        else:
            raise UnitError(
                f"a {self.noun} is read from text with a unit, such as {self.example!r}, not from {shown(text)}"
            )
        object.__setattr__(self, "_value", value)

    @classmethod
    def _exactly(cls, value: int) -> Self:
        """Return the instance for a number of inner units."""
        if not isinstance(value, int):
            raise UnitError(
                f"{shown(value)} is not a whole number of {cls.printed[0]}; write text such as {cls.example!r}"
            )
        if value < 0:
            raise UnitError(f"{shown(value)}{cls.printed[0]} is not a {cls.noun}: it is negative")
        if value > cls.limit:
            raise cls._too_large(f"{shown(value)}{cls.printed[0]}")
        made = cls.__new__(cls)
        object.__setattr__(made, "_value", value)
        return made

    @classmethod
    def _parse(cls, text: str) -> int:
        match = _TEXT.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
        if match is None:
            raise cls._refusal(text, _why_no_number(text))
        number, unit = match.groups()
        factor = cls.units.get(_micro_as_u(unit))
        if factor is None:
            raise cls._refusal(text, *cls._why_not_unit(number, _micro_as_u(unit)))
        value = Fraction(number) * factor
        if value > cls.limit:
            raise cls._too_large(shown(text))
        if value.denominator != 1:
            below = int(value)
            raise UnitError(
                f"{shown(text)} is not a whole number of {cls.printed[0]}, the smallest step of "
                f"a {cls.noun}; write '{cls._text(below)}' or '{cls._text(below + 1)}'"
            )
        return int(value)

    @classmethod
    def _why_not_unit(cls, number: str, unit: str) -> tuple[str, list[str]]:
        """Return the reason to refuse `unit`, and the texts that may have been meant."""
        if not unit:
            return f"it has no unit ({', '.join(cls.printed)})", []
        if re.search("[0-9]", unit):
            return "its number must look like 12 or 12.5", []
        if unit in cls.mistaken:
            why, meant = cls.mistaken[unit]
            return why, [number + meant]
        for other in Quantity.__subclasses__():
            if unit in other.units:
                per_second = [f"{number}{unit}/s"] if f"{unit}/s" in cls.units else []
                return f"{unit} is a unit of {other.noun}", per_second
        why = f"unknown unit {shown(unit)}"
        near = cls._near(unit)
        if unit.casefold() in (name.casefold() for name in near):
            why += " (b is bit, B is byte)" if "b" in unit.casefold() else " (case counts)"
        return why, [number + name for name in near]

    @classmethod
    def _near(cls, unit: str) -> list[str]:
        """Return the units that differ in case or a lost "/s" only, one per meaning; else the most similar."""
        if f"{unit}/s" in cls.units:
            return [f"{unit}/s"]
        folded = (unit.casefold(), f"{unit.casefold()}/s")
        meanings = {n: name for name, n in reversed(cls.units.items()) if name.casefold() in folded}
        if meanings:
            return [name for _, name in sorted(meanings.items())]
        similar = [get_close_matches(unit, names, 1, 0.7) for names in (cls.printed, cls.units)]
        return similar[0] or similar[1]

    @classmethod
    def _refusal(cls, text: str, why: str, meant: list[str] | None = None) -> UnitError:
        way_out = f"write for example {cls.example!r}"
        if meant:
            way_out = f"did you mean {' or '.join(map(repr, meant))}?"
        return UnitError(f"{shown(text)} is not a {cls.noun}: {why}; {way_out}")

    @classmethod
    def _too_large(cls, shown: str) -> UnitError:
        most = cls._text(cls.limit)
        return UnitError(f"{shown} is more than {most}, the largest {cls.noun} Xoff accepts")

    @classmethod
    def _text(cls, value: int) -> str:
        """Return the shortest exact text; on a tie the shorter unit, then the larger one.

        With many digits before the decimal point the unit is a larger one: 1.111112us, not 1111112ps.
        """
        units = [unit for unit in reversed(cls.printed) if value >= cls.units[unit] or value == 0]
        units = [unit for unit in units if value < cls.units[unit] * 10**cls.digits] or units[:1]
        texts = [(_decimal(value, cls.units[unit]), unit) for unit in units]
        number, unit = min(texts, key=lambda text: (len("".join(text)), len(text[1])))
        return number + unit

    @property
    def number(self) -> int | float:
        """The value in the unit `reported`, an int if it is whole."""
        exact = Fraction(self._value, self.units[self.reported])
        return int(exact) if exact.denominator == 1 else float(exact)

    def __str__(self) -> str:
        return self._text(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __lt__(self, other: Self) -> bool:
        return self._value < other._value if type(other) is type(self) else NotImplemented

    def __le__(self, other: Self) -> bool:
        return self._value <= other._value if type(other) is type(self) else NotImplemented

    def __gt__(self, other: Self) -> bool:
        return self._value > other._value if type(other) is type(self) else NotImplemented

    def __ge__(self, other: Self) -> bool:
        return self._value >= other._value if type(other) is type(self) else NotImplemented

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return self._exactly(self._value + other._value)

    def __sub__(self, other: Self) -> Self:
        """Return the difference; UnitError if `other` is the larger."""
        if type(other) is not type(self):
            return NotImplemented
        if other._value > self._value:
            raise UnitError(f"{self} - {other} is negative, which a {self.noun} must not be")
        return self._exactly(self._value - other._value)

    def __mul__(self, times: int) -> Self:
        return self._exactly(self._value * times) if isinstance(times, int) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Self) -> Fraction:
        """The exact ratio of two values of one type."""
        if type(other) is not type(self):
            return NotImplemented
        return Fraction(self._value, other._value)

    @overload
    def __floordiv__(self, other: int) -> Self: ...
    @overload
    def __floordiv__(self, other: Self) -> int: ...
    def __floordiv__(self, other: int | Self) -> int | Self:
        """Return how many times `other` fits, or a part of this value, rounded down, if `other` is an int."""
        if isinstance(other, int):
            return self._exactly(self._value // other)
        return self._value // other._value if type(other) is type(self) else NotImplemented


def _decimal(value: int, power_of_ten: int) -> str:
    whole, rest = divmod(value, power_of_ten)
    digits = str(power_of_ten + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _micro_as_u(unit: str) -> str:
    """Unicode has a micro sign and a Greek mu, and keyboards have either."""
    return unit.replace("\u00b5", "u").replace("\u03bc", "u")


def _why_no_number(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        return f"it is longer than {_LONGEST_TEXT} characters"
    if not text.strip():
        return "it is empty"
    if text.strip().startswith(("-", "\u2212")):
        return "it is negative"
    return "it does not start with a number"


def shown(value: object) -> str:
    """Return a value for an error message, in one line that is never long."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"(an integer of {value.bit_length()} bits)"
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 40 else f"{text[:37]}..."
