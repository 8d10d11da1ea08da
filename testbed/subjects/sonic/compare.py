"""The differences of two config_db.json files: rows and fields of the tables that are read, and what follows for pools
and headroom.

Nothing here decides which of them is right; `check` does, for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from testbed.subjects.sonic.headroom import divisions, lossless_groups
from testbed.subjects.sonic.tables import Tables
from testbed.subjects.sonic.write import as_json


@dataclass(frozen=True)
class Difference:
    """One value of two files; None is a value that a file does not have."""

    where: str
    """The place, as in BUFFER_PROFILE|pg_lossless|xoff."""
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.where}: {self.after}"
        if self.after is None:
            return f"- {self.where}: {self.before}"
        return f"  {self.where}: {self.before} -> {self.after}"


def configured(before: Tables, after: Tables) -> list[Difference]:
    """Return what the tables have different. Both are written alike, so ranges and order do not count."""
    return list(_differences(_flat(as_json(before)), _flat(as_json(after))))


def derived(before: Tables, after: Tables, cell: int) -> list[Difference]:
    """Return what follows: how pools are divided, and for each lossless group what it has and needs."""
    return list(_differences(_consequences(before, cell), _consequences(after, cell)))


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, str]:
    rows: dict[str, str] = {}
    for name, value in content.items():
        place = f"{prefix}|{name}" if prefix else name
        if isinstance(value, dict) and value:
            rows |= _flat(value, place)
        else:
            rows[place] = str(value) if value != {} else "(no fields)"
    return rows


def _consequences(tables: Tables, cell: int) -> dict[str, str]:
    consequences = {}
    for pool in divisions(tables):
        parts = f"{pool.reserved} B reserved, {pool.headroom} B headroom, {pool.shared} B shared"
        consequences[f"pool {pool.name}"] = f"{pool.size} B: {parts}"
    for port in tables.ports:
        for group in lossless_groups(tables, port, cell):
            consequences[f"{port}, group {group.group}"] = group.in_words
    return consequences


def _differences(before: dict[str, str], after: dict[str, str]) -> Iterator[Difference]:
    for where in dict.fromkeys([*before, *after]):
        old, new = before.get(where), after.get(where)
        if old != new:
            yield Difference(where, old, new)
