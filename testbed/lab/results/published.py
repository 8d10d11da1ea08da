"""The file `published.jsonl` of a result folder: what others have published, beside what the run measured.

`Run.published` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.units import written


@dataclass(frozen=True)
class Published:
    """A value that others have published, and what a run measured."""

    name: str
    published: Any
    measured: Any
    unit: str
    within: str | None
    """The tolerance of the claim; None if nothing was claimed."""
    source: str
    differs: str
    """The differences from how it was there."""

    @property
    def texts(self) -> tuple[str, str, str]:
        """The published value, the measured one, and the tolerance, for people."""
        claimed = {"0": "exactly", None: "not claimed"}.get(self.within, f"within {self.within}")
        return written(self.published, self.unit), written(self.measured, self.unit), claimed


def published_of(line: Any) -> Published | None:
    """Return the value that a line describes, or None if it describes none."""
    match line:
        case {
            "name": str(name),
            "published": published,
            "measured": measured,
            "unit": str(unit),
            "within": None | str() as within,
            "source": str(source),
            "differs": str(differs),
        }:
            return Published(name, published, measured, unit, within, source, differs)
    return None
