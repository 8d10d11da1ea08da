"""Readers of option values, whose errors name the value and what is expected."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeVar

from testbed.errors import UsageError
from testbed.units import Quantity

Q = TypeVar("Q", bound=Quantity)
Word = TypeVar("Word", bound=str)

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def whole_number(least: int, example: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `least` up."""

    def read(text: str) -> int:
        if _WHOLE_NUMBER.fullmatch(text) and int(text) >= least:
            return int(text)
        raise argparse.ArgumentTypeError(f"{_shown(text)} is not a whole number from {least} up, such as {example}")

    return read


def above_zero(kind: type[Q], example: str) -> Callable[[str], Q]:
    """Return a reader of quantities above zero."""

    def read(text: str) -> Q:
        try:
            value = kind(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error).replace(repr(kind.example), repr(example))) from None
        if value == value - value:
            raise argparse.ArgumentTypeError(f"{_shown(text)} is nothing; write for example {example!r}")
        return value

    return read


def one_of(noun: str, choices: Sequence[Word], unlisted: Sequence[Word] = ()) -> Callable[[str], Word]:
    """Return a reader of one of several words; it also takes those `unlisted`, which no message offers."""

    def read(text: str) -> Word:
        for choice in (*choices, *unlisted):
            if text == choice:
                return choice
        raise argparse.ArgumentTypeError(f"there is no {noun} {_shown(text)}; {hint(text, choices)}")

    return read


def hint(given: str, known: Sequence[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the way out for a word that is not known: the nearest one, or all of them. `elsewhere` has words that are
    found in another place, with what is to be written there.
    """
    near = get_close_matches(given, known, 1) or [elsewhere[one] for one in get_close_matches(given, elsewhere, 1)]
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
