"""Values that several features have, in a few characters, for tables, diagrams and logs.

"-" is what is not run, not known or not announced; "none" is a set of priorities that is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def priorities(numbers: Sequence[int] | None) -> str:
    return "-" if numbers is None else ",".join(map(str, numbers)) or "none"


def yes_no(truth: bool | None) -> str:
    return "-" if truth is None else "yes" if truth else "no"


def willing(tlv: Mapping[str, Any]) -> str:
    """Return the W bit of a TLV, to be appended to its value."""
    return ", willing" if tlv["willing"] else ", not willing"
