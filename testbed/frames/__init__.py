"""Frames on the wire: one codec for each, which builds and parses it.

Here is only what every codec needs, the address; each kind of frame has a module of its own. Nothing
in this package depends on sockets, ports or time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from testbed.errors import UsageError

_TEXT = re.compile(r"[0-9a-fA-F]{2}(?:(?::[0-9a-fA-F]{2}){5}|(?:-[0-9a-fA-F]{2}){5})")


class FieldError(UsageError, ValueError):
    """A value that cannot go into a frame's field."""


@dataclass(frozen=True, order=True)
class Mac:
    """A MAC address; the order is that of the addresses as 48-bit numbers."""

    octets: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.octets, bytes) or len(self.octets) != 6:
            raise FieldError(f"{_shown(self.octets)} is not a MAC address: it must be 6 octets")

    @classmethod
    def parse(cls, text: str) -> Mac:
        """Read "02:00:00:00:00:01", or "02-00-00-00-00-01" as the standards write it."""
        if not isinstance(text, str) or not _TEXT.fullmatch(text):
            raise FieldError(
                f"{_shown(text)} is not a MAC address: write six pairs of hexadecimal digits, "
                "such as '02:00:00:00:00:01'"
            )
        return cls(bytes.fromhex(text.replace(":", "").replace("-", "")))

    def __str__(self) -> str:
        return self.octets.hex(":")

    def __repr__(self) -> str:
        return f"Mac.parse({str(self)!r})"


def _shown(value: object) -> str:
    """Return a value as an error message shows it, never long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
