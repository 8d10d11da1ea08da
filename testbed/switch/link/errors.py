"""Damage on a line, by a law of one form: the line is cut into slots of equal octets, and each is damaged or not.

Slots are damaged independently of each other, with the same probability, whether anything is on the line or not. What
has an octet in a damaged slot is damaged. Whether slot n is damaged is a hash of n and of the cable's seed, so it does
not depend on what was sent before.

- `BitErrors` are those of a line without error correction: slots of 64 octets, and each of their bits, 66 for 64 with
  the line's code, is wrong with the rate that is given.
- `FecErrors` are what RS(544,514) leaves: a codeword carries 640 octets, and one that cannot be corrected damages all
  of them. Codewords that are interleaved share their octets, so a failure damages as many more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from testbed.errors import UsageError

_SLOT, _CODEWORD = 64, 640
_BITS = _SLOT * 8 * 66 // 64
_WORD = 1 << 64
_GOLDEN = 0x9E3779B97F4A7C15
INTERLEAVES = (1, 2, 4, 8)


class ErrorsError(UsageError):
    """A law of errors that is out of range."""


@dataclass(frozen=True)
class BitErrors:
    """Bits that are wrong with a rate, each by itself: `BitErrors("1e-9")`."""

    rate: Fraction

    def __init__(self, rate: Fraction | str | float) -> None:
        object.__setattr__(self, "rate", _part("the rate of bit errors", rate))

    @property
    def slot_octets(self) -> int:
        return _SLOT

    @property
    def probability(self) -> float:
        """The probability that a slot is damaged."""
        return float(1 - (1 - self.rate) ** _BITS)

    def __str__(self) -> str:
        return f"bit errors at {float(self.rate):g}"


@dataclass(frozen=True)
class FecErrors:
    """Codewords that the error correction gives up, with a rate: `FecErrors("1e-6", interleave=4)`."""

    rate: Fraction
    interleave: int

    def __init__(self, rate: Fraction | str | float, interleave: int = 1) -> None:
        object.__setattr__(self, "rate", _part("the rate of uncorrectable codewords", rate))
        object.__setattr__(self, "interleave", interleave)
        if type(interleave) is not int or interleave not in INTERLEAVES:
            raise ErrorsError(f"interleave is {interleave!r}; it is one of {', '.join(map(str, INTERLEAVES))}")

    @property
    def slot_octets(self) -> int:
        return _CODEWORD * self.interleave

    @property
    def probability(self) -> float:
        """The probability that a slot is damaged: one of its codewords fails."""
        return float(1 - (1 - self.rate) ** self.interleave)

    def __str__(self) -> str:
        return f"uncorrectable codewords at {float(self.rate):g}, {self.slot_octets} octets each"


Errors = BitErrors | FecErrors


def threshold(probability: float | Fraction) -> int:
    """Return the number of 64 bits below which a hash says that it happens."""
    return min(round(Fraction(probability) * _WORD), _WORD - 1)


def mixed(seed: int, number: int) -> int:
    """Return the hash of a number: 64 bits, by the finalizer of SplitMix64."""
    word = (seed + number * _GOLDEN) % _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB % _WORD
    return word ^ word >> 31


def _part(what: str, given: Fraction | str | float) -> Fraction:
    try:
        part = Fraction(given)
    except (ValueError, ZeroDivisionError, TypeError, OverflowError):
        part = Fraction(-1)
    if not 0 <= part < 1:
        raise ErrorsError(f"{what} is {given!r}; it is from 0 on and less than 1, such as '1e-9'")
    return part
