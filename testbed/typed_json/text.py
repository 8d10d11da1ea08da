"""Reading JSON text from other parties: strict, bounded in size, depth and time.

`read` refuses what RFC 8259 leaves open: a member name that occurs twice in an object, numbers with a fraction or an
exponent (no message needs one), NaN, and text that is not Unicode. What the value means is decided by `codec`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, NoReturn

from testbed.errors import UsageError

DEEPEST = 32
"""The most levels of lists and objects. No message needs a third of it."""
MOST_VALUES = 1 << 19
"""The most values in one text. A report with 4096 SIDs and 16384 items has fewer."""
_LONGEST_SHOWN = 60
_MOST_SHOWN, _LEVELS_SHOWN = 6, 3

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_QUOTED = re.compile(rb'"[^"]*"')
_INNERMOST = re.compile(rb"\[\]|{}")


class InvalidError(UsageError):
    """A value is invalid: its field, the value, and what is valid."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        super().__init__(f"{field or 'the value'} {shown(value)}; {wanted}")
        self.field = field
        self.value = value
        self.wanted = wanted


class _Absent:
    """The value of a missing member."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def shown(value: object) -> str:
    """Return a value as part of a sentence, at most 60 characters of it: "is 'x'", or "is missing"."""
    if value is ABSENT:
        return "is missing"
    text = brief(value)
    return f"is {text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + '...'}"


def brief(value: object, longest: int = _LONGEST_SHOWN, levels: int = _LEVELS_SHOWN) -> str:
    """Return a value in ASCII, in bounded time; the beginning of a long or deep one."""
    if isinstance(value, str | bytes):
        return ascii(value[:longest])
    if isinstance(value, dict):
        members = [f"{brief(k, longest, 0)}: {brief(v, longest, levels - 1)}" for k, v in _some(value.items(), levels)]
    elif isinstance(value, list | tuple):
        members = [brief(member, longest, levels - 1) for member in _some(value, levels)]
    else:
        return ascii(value)[:longest]
    members += ["..."] if len(members) < len(value) else []
    return ("{%s}" if isinstance(value, dict) else "[%s]") % ", ".join(members)


def _some(values: Iterable[Any], levels: int) -> Iterable[Any]:
    return islice(values, _MOST_SHOWN if levels > 0 else 0)


def read(octets: bytes, most_values: int = MOST_VALUES) -> Any:
    """Return the value of a JSON text. InvalidError if it is not JSON, is ambiguous, too deep or too large."""
    if octets.count(b",") + octets.count(b"[") + octets.count(b"{") > most_values:
        raise InvalidError("", octets[:_LONGEST_SHOWN], f"too many values; at most {most_values}")
    if _is_deep(octets):
        raise InvalidError("", octets[:_LONGEST_SHOWN], f"nested too deep; at most {DEEPEST} levels")
    try:
        text = octets.decode()
        value = json.loads(
            text, object_pairs_hook=_object, parse_float=_no_fraction, parse_constant=_no_fraction, parse_int=_number
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is not a character
    except UnicodeError:
        raise InvalidError("", octets[:_LONGEST_SHOWN], "must be JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        text = f"must be JSON: {error.msg} at character {error.pos}"
        raise InvalidError("", octets[:_LONGEST_SHOWN], text) from None
    except RecursionError:
        raise InvalidError("", octets[:_LONGEST_SHOWN], "not JSON, and nested too deep") from None
    return value


def _is_deep(octets: bytes) -> bool:
    """Return True if lists and objects are nested deeper than `DEEPEST`, in linear time, without parsing.

    Each round removes the innermost pairs, so the number of rounds is the depth. Unpaired brackets are left to the
    parser, which reports them.
    """
    if octets.count(b"[") + octets.count(b"{") <= DEEPEST:
        return False
    if b"\\" in octets:
        octets = _ESCAPED.sub(b"", octets)
    left = _QUOTED.sub(b"", octets.translate(None, _NOT_STRUCTURE))
    for _ in range(DEEPEST):
        left, pairs = _INNERMOST.subn(b"", left)
        if not pairs:
            return False
    return _INNERMOST.search(left) is not None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidError("", dict(pairs[:8]), f"member {twice[:_LONGEST_SHOWN]!a} is repeated in one object")
    return found


def _no_fraction(text: str) -> NoReturn:
    raise InvalidError("", text, "must be an integer without fraction or exponent")


def _number(text: str) -> int:
    if len(text) > _LONGEST_SHOWN:
        raise InvalidError("", text[:_LONGEST_SHOWN], f"the number has too many digits; at most {_LONGEST_SHOWN}")
    return int(text)
