"""Numbers of a policy: sets of whole numbers as ranges, and MTUs and rates of InfiniBand as codes.

All other modules have MTUs in bytes and rates in bits per second. MTU codes 1 to 5 and the encoding of rates are those
of PathRecord (IBA volume 1, table 205). Rate codes are not in the order of speed, so that rates are compared as speeds
(decision 0125).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Ranges:
    """Some ranges, each with both ends in it. Without ranges it stands for a field that is not given."""

    pairs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Ranges:
        merged: list[tuple[int, int]] = []
        for low, high in sorted(pairs):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __contains__(self, value: int) -> bool:
        place = bisect_right(self.pairs, (value, _BEYOND))
        return place > 0 and value <= self.pairs[place - 1][1]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.pairs)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges.of(self.pairs + other.pairs)

    def text(self, form: str = "d", separator: str = ",") -> str:
        """Return the ranges as a policy has them; `form` is the format of one number."""
        ends = (((f"{low:{form}}"), (f"{high:{form}}")) for low, high in self.pairs)
        return separator.join(low if low == high else f"{low}-{high}" for low, high in ends)


_BEYOND = 1 << 65
"""A number above every value of a field."""


MTU_CODES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
LANE_SPEED = 2_500_000_000
"""One lane at single data rate, the unit of the RFC's rate_limit."""

_GBIT = 10**9
RATE_CODES = {
    2: 2_500_000_000, 3: 10 * _GBIT, 4: 30 * _GBIT, 5: 5 * _GBIT, 6: 20 * _GBIT, 7: 40 * _GBIT, 8: 60 * _GBIT,
    9: 80 * _GBIT, 10: 120 * _GBIT, 11: 14 * _GBIT, 12: 56 * _GBIT, 13: 112 * _GBIT, 14: 168 * _GBIT,
    15: 25 * _GBIT, 16: 100 * _GBIT, 17: 200 * _GBIT, 18: 300 * _GBIT, 19: 28 * _GBIT, 20: 50 * _GBIT,
    21: 400 * _GBIT, 22: 600 * _GBIT, 23: 800 * _GBIT, 24: 1200 * _GBIT,
}  # fmt: skip

_MTUS = sorted(MTU_CODES.values())
_RATES = sorted(RATE_CODES.values())
_CODE_OF_MTU = {size: code for code, size in MTU_CODES.items()}
_CODE_OF_RATE = {bps: code for code, bps in RATE_CODES.items()}


def exact_mtu_code(size: int) -> int | None:
    return _CODE_OF_MTU.get(size)


def exact_rate_code(bps: int) -> int | None:
    return _CODE_OF_RATE.get(bps)


def mtu_code(size: int) -> int:
    """Return the code of the largest MTU that is not above `size`, or 0, which is no code, if there is none."""
    place = bisect_right(_MTUS, size)
    return _CODE_OF_MTU[_MTUS[place - 1]] if place else 0


def rate_code(bps: int) -> int:
    """Return the code of the fastest rate that is not above `bps`, or 0, which is no code, if there is none."""
    place = bisect_right(_RATES, bps)
    return _CODE_OF_RATE[_RATES[place - 1]] if place else 0


def mtu_below(size: int) -> int | None:
    """Return the largest MTU below `size` that has a code, or None if there is none."""
    place = bisect_left(_MTUS, size)
    return _MTUS[place - 1] if place else None


def rate_below(bps: int) -> int | None:
    place = bisect_left(_RATES, bps)
    return _RATES[place - 1] if place else None
