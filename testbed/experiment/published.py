"""The tolerance within which a measured value is that of a publication."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from testbed.errors import UsageError
from testbed.units import Quantity

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?) ?%", re.ASCII)


def bounds_around(name: str, value: Any, within: Any) -> dict[str, Any]:
    """Return the bounds of a claim around a published value; `within` is as in `Run.published`."""
    if within == 0:
        return {"equals": value}
    if isinstance(within, str):
        if not (percent := _PERCENT.fullmatch(within)):
            raise UsageError(f"published {name}: within is {within!r}; write a part of the value such as '5%'")
        part = Fraction(percent[1]) / 100
        is_exact = isinstance(value, Quantity)
        room = value * part.numerator // part.denominator if is_exact else value * float(part)
    elif isinstance(value, Quantity) == isinstance(within, Quantity):
        room = within
    else:
        raise UsageError(f"published {name}: within is {within!r} and the value {value!r}; give both the same unit")
    return {"at_least": value - room, "at_most": value + room}
