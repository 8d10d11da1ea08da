"""Sets of whole numbers as ranges, such as `7-9,11`: sorted, without overlaps, neighbours merged."""

from __future__ import annotations

from bisect import bisect_right
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
