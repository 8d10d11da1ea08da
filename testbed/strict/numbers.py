"""Numbers in texts and files that others wrote: none that is no number, and none that nobody can compute with.

Python reads `1e999` and `Infinity` in JSON as infinite, and refuses integers of thousands of digits with an exception
of its own; both would surface somewhere far from the file.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

_MOST_DIGITS = 300
"""The most digits of an integer in JSON, so that each is below the largest float."""


def whole(text: str, most: int) -> int | None:
    """Return the number that a text is, from 0 to `most` in ASCII digits; None if it is none."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > len(str(most)):
        return None
    value = int(text.lstrip("0") or "0")
    return value if value <= most else None


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is more than a number can be")
    return value


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"{text[:10]}... has {len(text)} digits, and {_MOST_DIGITS} are read")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_no_number)
"""A decoder of JSON that raises ValueError for a number that is infinite, none or too long."""
