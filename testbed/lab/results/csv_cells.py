"""Cells of CSV tables that no program executes: no formula of a spreadsheet, no second line, no escape sequence.

Names and texts in a table come from jobs, routers and files of others. A spreadsheet computes what begins with one of
`= + - @`, and some take a semicolon for the end of a cell; an apostrophe before it makes a text of it. Characters that
cannot be printed are written out, ends of lines and tabs too.
"""

from __future__ import annotations

import re
from typing import Any

from testbed.errors import plain

_FORMULA = re.compile(r"(^|;)(\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])")


def neutral(value: Any) -> Any:
    """Return a text as a cell may have it; numbers, and texts that are numbers, stay as they are."""
    if not isinstance(value, str):
        return value
    text = plain(value).replace("\n", "\\n").replace("\t", "\\t")
    return text if _is_number(text) else _FORMULA.sub(r"\1\2'", text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
