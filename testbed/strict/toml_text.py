"""Reading TOML of users: as `tomllib` does, in bounded time, and with one error for whatever is wrong with a text."""

from __future__ import annotations

import re
from typing import Any

from testbed.errors import UsageError

_PART, _MOST_PARTS = re.compile(r"[\s\w\"'-]+"), 16
"""A part of a dotted key, and the most parts of one."""
_SHOWN = 40


def read(text: str | bytes, name: str, error: type[UsageError] = UsageError) -> dict[str, Any]:
    """Return the content of a file, `name` in messages; an `error` if it is not TOML or cannot be read as such."""
    import tomllib  # not above: `xoff list` imports this module, and reads no file

    try:
        text = text if isinstance(text, str) else text.decode()
        _refuse_long_keys(text, name, error)
        return tomllib.loads(text)
    except (
        ValueError
    ) as wrong:  # TOMLDecodeError and UnicodeDecodeError are, and numbers with more digits than Python reads
        raise error(f"{name} is not TOML: {wrong}") from None
    except RecursionError:
        raise error(f"{name} is not TOML that can be read: its lists or tables are nested too deep") from None


def _refuse_long_keys(text: str, name: str, error: type[UsageError]) -> None:
    """Refuse keys for which `tomllib` takes time with the square of their parts: minutes for a key of 64 kB."""
    parts = 0
    for piece in text.split("."):
        parts = parts + 1 if _PART.fullmatch(piece) else 0
        if parts > _MOST_PARTS:
            shown = repr(text.strip())
            shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
            raise error(f"{name} has a key of more than {_MOST_PARTS} parts, {shown}")
