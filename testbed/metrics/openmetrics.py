"""The text format of OpenMetrics 1.0, written: families of counters and gauges, with labels and timestamps.

What is wrong with a family is an error here and not at the reader's: names, kinds, the order of times. Not here: which
families there are (`names.py`), histograms and exemplars, which no counter of a port needs, and reading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from testbed.errors import plain

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
_SUFFIXES = ("_total", "_created", "_info", "_count", "_sum", "_bucket")
Labels = tuple[tuple[str, str], ...]
Value = int | float


class Kind(StrEnum):
    """The kind of a family, as its TYPE line names it, and with the suffix of its samples."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"

    @property
    def suffix(self) -> str:
        return {Kind.COUNTER: "_total", Kind.INFO: "_info"}.get(self, "")


@dataclass
class Family:
    """A family of metrics: what they have in common, and their points by labels, in the order of their times."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    points: dict[Labels, list[tuple[Value, int | None]]] = field(default_factory=dict)
    """For each set of labels its values, each with a time in nanoseconds, or one value without a time."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith(_SUFFIXES):
            raise ValueError(f"{self.name!r} is no name of a family")
        if self.unit and not self.name.endswith(f"_{self.unit}"):
            raise ValueError(f"the name {self.name} does not end with its unit, {self.unit}")

    def add(self, labels: Mapping[str, str], value: Value, t_ns: int | None = None) -> None:
        """Add a value; a later one of the same labels has a later time."""
        key = tuple(labels.items())
        if not math.isfinite(value) or (self.kind is Kind.COUNTER and value < 0):
            raise ValueError(f"{self.name} cannot be {value}")
        before = self.points.setdefault(key, [])
        if before:
            last_ns = before[-1][1]
            if last_ns is None or t_ns is None or t_ns <= last_ns:
                raise ValueError(f"{self.name} of {dict(labels)} has two values in one moment")
        for name in labels:
            if not _LABEL.fullmatch(name) or name.startswith("__"):
                raise ValueError(f"{name!r} is no name of a label")
        before.append((value, t_ns))

    def last(self, labels: Mapping[str, str]) -> tuple[Value, int | None] | None:
        """Return the last value of a set of labels with its time, or None."""
        points = self.points.get(tuple(labels.items()))
        return points[-1] if points else None


def render(families: Iterable[Family]) -> str:
    """Return the text of an exposition. A family without values is left out."""
    names: set[str] = set()
    parts: list[str] = []
    for family in families:
        if family.name in names:
            raise ValueError(f"there are two families {family.name}")
        names.add(family.name)
        parts += _lines(family)
    return "".join(parts) + "# EOF\n"


def _lines(family: Family) -> Iterator[str]:
    if not family.points:
        return
    yield f"# TYPE {family.name} {family.kind}\n"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}\n"
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    for labels, points in family.points.items():
        inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
        head = f"{family.name}{family.kind.suffix}{f'{{{inner}}}' if inner else ''}"
        for value, t_ns in points:
            yield f"{head} {_number(value)}{'' if t_ns is None else f' {_seconds(t_ns)}'}\n"


def _escaped(text: str) -> str:
    """Return text as it stands between quotes. What is no character of UTF-8, as JSON may have it, becomes `?`, and
    what is none for a terminal is written out.
    """
    return re.sub(r'[\\"\n]', lambda found: _ESCAPED[found[0]], plain(text.encode(errors="replace").decode()))


def _number(value: Value) -> str:
    return str(int(value)) if isinstance(value, int) or value.is_integer() else repr(value)


def _seconds(t_ns: int) -> str:
    """Return a time in seconds, exact to the nanosecond."""
    sign, whole = ("-" if t_ns < 0 else ""), abs(t_ns)
    return f"{sign}{whole // 10**9}.{whole % 10**9:09d}".rstrip("0").rstrip(".")
