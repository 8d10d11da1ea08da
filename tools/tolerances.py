"""The tolerances for figures of an experiment on `um` and `vm`: `experiments/engine_tolerances.toml`.

Values are equal, or within the default for all figures, or within a stated difference of the experiment, which has its
reason. A stated difference names figures by patterns, in which `*` is any text:

    [[dcbx_ets.apart]]
    figures = "draft, *: percent of the line[1]"
    within = "15%"
    reason = "..."

`within` is a part of the larger value, or a quantity of the figure's type ("50ms"), or a plain number for a figure
without a unit; `within = "any text"` is for texts. An experiment that is too much for the CPU of `vm` has
`degraded = "the reason"` in place of these.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.lab.job import job
from testbed.strict.problems import shown
from testbed.strict.tables import TomlTable, filled
from testbed.units import Duration, Length, Rate, Size, UnitError, written

FILE = Path(job.TOLERANCES)

_TYPES = (Rate, Length, Duration, Size)
_KEYS = {"figures", "within", "reason"}
_ANY_TEXT = "any text"
_LOOSE = 2
"""The factor beyond which a stated tolerance is noted as wider than the figures need."""


class ToleranceError(UsageError):
    """Raised if the file with tolerances cannot be used."""


@dataclass(frozen=True)
class Value:
    """A number, text or truth value of a result, by the name of its figure and its place in it."""

    name: str
    value: Any
    unit: str

    def __str__(self) -> str:
        return written(self.value, self.unit)

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float) and not isinstance(self.value, bool) and math.isfinite(self.value)


@dataclass(frozen=True)
class Pair:
    """A value on both engines, or None for an engine that does not have it."""

    name: str
    um: Value | None
    vm: Value | None

    @property
    def is_equal(self) -> bool:
        return self.um == self.vm

    @property
    def numbers(self) -> tuple[float, float] | None:
        """Both values if they are numbers with the same unit, else None."""
        if self.um is None or self.vm is None or self.um.unit != self.vm.unit:
            return None
        return (self.um.value, self.vm.value) if self.um.is_number and self.vm.is_number else None

    @property
    def share(self) -> float:
        """The difference as a part of the larger value; 1 if there is no such number."""
        if self.is_equal:
            return 0.0
        if (both := self.numbers) is None:
            return 1.0
        return abs(both[0] - both[1]) / max(map(abs, both))

    def __str__(self) -> str:
        um, vm = ("absent" if one is None else str(one) for one in (self.um, self.vm))
        return f"{self.name}: um {um}, vm {vm}" + (f", {self.share:.2%} apart" if self.numbers else "")


@dataclass(frozen=True)
class Tolerance:
    """A tolerance: a part of the larger value, or an amount in the unit that results have."""

    amount: Fraction
    unit: str
    """`%`, the unit of a type as in results, none, or `_ANY_TEXT`."""
    text: str

    @classmethod
    def read(cls, given: object) -> Tolerance:
        """Read what a file states; UsageError if it is no tolerance."""
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            return cls(Fraction(given), "", str(given))
        text = given if isinstance(given, str) else ""
        if text == _ANY_TEXT:
            return cls(Fraction(0), _ANY_TEXT, text)
        if share := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?)%", text):
            if 0 < Fraction(share[1]) < 100:
                return cls(Fraction(share[1]) / 100, "%", text)
        else:
            for kind in _TYPES:
                try:
                    quantity = kind(text)
                except UnitError:
                    continue
                return cls(Fraction(quantity.number), kind.reported, text)
        raise UsageError(f'{shown(given)} is no tolerance; give a part ("5%"), a quantity ("20ms") or a whole number')

    def needed_by(self, pair: Pair) -> Fraction | None:
        """Return how much of a tolerance of this kind a pair needs, or None if no tolerance of this kind is enough."""
        if self.unit == _ANY_TEXT:
            both_are_texts = all(one is not None and isinstance(one.value, str) for one in (pair.um, pair.vm))
            return Fraction(0) if both_are_texts else None
        if (both := pair.numbers) is None or pair.um is None:
            return None
        um, vm = (Fraction(str(one)) for one in both)  # of the decimals that results have
        difference = abs(um - vm)
        if self.unit == "%":
            return difference / max(abs(um), abs(vm)) if difference else Fraction(0)
        return difference if self.unit == pair.um.unit else None

    def holds(self, pair: Pair) -> bool:
        needed = self.needed_by(pair)
        return needed is not None and needed <= self.amount


DEFAULT = Tolerance(Fraction(2, 100), "%", "2%")
"""The tolerance for figures about which nothing else is stated."""


@dataclass(frozen=True)
class Apart:
    """A stated difference: figures that may be further apart, and the reason."""

    figures: tuple[str, ...]
    within: Tolerance
    reason: str

    def names(self, figure: str) -> bool:
        return any(_matches(pattern, figure) for pattern in self.figures)

    def faults(self, names: list[str]) -> list[str]:
        """Return a fault for each pattern that matches none of these figures."""
        return [
            f"no figure is {pattern}; take it out of {FILE}"
            for pattern in self.figures
            if not any(_matches(pattern, name) for name in names)
        ]

    def notes(self, pairs: list[Pair]) -> list[str]:
        """Return notes where it is wider than these pairs need. That is no fault: where queues oscillate, any change of
        the code gives other figures, within it.
        """
        if idle := [pattern for pattern in self.figures if not any(_matches(pattern, pair.name) for pair in pairs)]:
            return [f"no figure {pattern} needs what is stated" for pattern in idle]
        needed = max(self.within.needed_by(pair) or Fraction(0) for pair in pairs)
        if self.within.amount > _LOOSE * needed:
            what = f"{float(needed):.2%}" if self.within.unit == "%" else written(float(needed), self.within.unit)
            return [f"{', '.join(self.figures)}: {self.within.text} are stated, {what} needed"]
        return []


@dataclass(frozen=True)
class Stated:
    """The statements about one experiment."""

    apart: tuple[Apart, ...] = ()
    degraded: str = ""
    """The reason why `vm` is short of CPU with it; its figures are not compared then."""


def read(root: Path) -> dict[str, Stated]:
    """Read all statements, by experiment."""
    try:
        text = (root / FILE).read_bytes()
    except OSError as error:
        raise ToleranceError(f"{FILE} cannot be read: {error}; restore it with git") from None
    return parsed(text, str(FILE))


def parsed(text: str | bytes, name: str) -> dict[str, Stated]:
    """Return what such a file states, by experiment; `name` is the file's in messages."""
    top = TomlTable.read(text, name, ToleranceError)
    return {key: _stated(table) for key in top.keys if (table := top.table(key)) is not None}


def _stated(table: TomlTable) -> Stated:
    degraded, apart = table.take("degraded", filled, ""), table.tables("apart")
    table.close()
    if degraded and apart:
        table.refuse("apart", "figures of a degraded run are not compared; take out apart or degraded")
    if not degraded and not apart:
        table.refuse("", "[[apart]] tables or degraded are expected")
    return Stated(tuple(map(_apart, apart)), degraded)


def _apart(table: TomlTable) -> Apart:
    figures, within = table.need("figures", _patterns), table.need("within", Tolerance.read)
    reason = table.need("reason", filled)
    table.close()
    return Apart(figures, within, reason)


def _patterns(value: Any) -> tuple[str, ...]:
    """Read a pattern or a list of patterns."""
    found = value if isinstance(value, list) else [value]
    if not found or not all(isinstance(one, str) and one for one in found):
        raise UsageError(f"{shown(value)} is neither a pattern nor a list of patterns")
    return tuple(found)


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None
