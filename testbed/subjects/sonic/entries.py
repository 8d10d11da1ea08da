"""The parts that all tables of a config_db.json have in common: JSON, rows, keys with ranges and lists, values,
references.

Nothing here raises, for any octets: mistakes go to `Problems`.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from testbed.errors import listed, nearest
from testbed.strict.problems import Problems, shortened, shown
from testbed.strict.problems import json_path as path
from testbed.subjects.sonic.tables import NULL, PortRow

LARGEST = 16 << 20
MOST_BYTES = 2**48

_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_REFERENCE = re.compile(r"\[([A-Z0-9_]+)\|([^\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)

Word = TypeVar("Word", bound=enum.StrEnum)
Row = dict[str, str]


class Entry(NamedTuple):
    """A row of a table, and its place."""

    table: str
    key: str
    row: Row

    def where(self, *field: str) -> str:
        return path(self.table, self.key, *field)


class _Number(str):
    """A number of the file, with the digits that it has there."""

    __slots__ = ()


def load(octets: bytes, problems: Problems[str]) -> dict[str, Any] | None:
    if len(octets) > LARGEST:
        problems.error("$", f"the file has more than {LARGEST >> 20} MB; a config_db.json has some hundred kB")
        return None
    twice: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen = set[str]()
            twice.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        return found

    try:
        content = json.loads(
            octets.decode("utf-8-sig"), object_pairs_hook=members,
            parse_float=_Number, parse_int=_Number, parse_constant=_Number,
        )  # fmt: skip
    except UnicodeDecodeError as error:
        problems.error("$", f"octet {error.start} is not UTF-8; a config_db.json is JSON in UTF-8")
        return None
    except json.JSONDecodeError as error:
        problems.error("$", f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}")
        return None
    except RecursionError:
        problems.error("$", "nested too deep; a config_db.json has tables, keys and fields")
        return None
    for name in dict.fromkeys(twice):
        problems.warning("$", f"{shown(name)} occurs twice in one object, and the last one counts", rule="repeated")
    if not isinstance(content, dict):
        problems.error("$", f"{shown(content)} is not an object; tables by name are expected")
        return None
    return content


class EntryReader:
    """Reads rows, keys and values of one file."""

    def __init__(
        self, content: Mapping[str, Any], problems: Problems[str], fields: Mapping[str, tuple[str, ...]]
    ) -> None:
        """`fields` are the names of the fields that are read, by table."""
        self._content = content
        self._problems = problems
        self._fields = fields
        self._ports: dict[str, PortRow] = {}
        self._unread: dict[str, set[str]] = {}
        """The fields that are not read, by table."""

    # Rows and keys

    def _rows(self, table: str) -> Iterator[Entry]:
        """Return the rows of a table, as strings. A table or a row that is not an object is one error."""
        content = self._content.get(table, {})
        if not isinstance(content, dict):
            self._problems.error(path(table), f"{shown(content)} is not an object; rows by key are expected")
            return
        for key, row in content.items():
            if not isinstance(row, dict):
                self._problems.error(path(table, key), f"{shown(row)} is not an object; fields are expected")
                continue
            yield Entry(table, key, self._strings(table, key, row))

    def _strings(self, table: str, key: str, row: Mapping[str, Any]) -> Row:
        known = self._fields.get(table)
        found: Row = {}
        for written, given in row.items():
            name, value = written.removesuffix("@"), given  # how the database itself marks a list
            if known is not None and name not in known:
                self._unread.setdefault(table, set()).add(name)
                continue
            if isinstance(value, list) and all(isinstance(one, str) for one in value):
                value = ",".join(value)
            if isinstance(value, str):
                found[name] = value
            else:
                self._problems.error(path(table, key, name), f"{shown(value)} is not a string, as all values are")
        return found

    def _each(self, table: str, make: Callable[[Entry], Any]) -> Iterator[tuple[str, Any]]:
        for entry in self._rows(table):
            made = make(entry)
            if made is not None:
                yield entry.key, made

    def _of_ports(self, table: str, make: Callable[[Entry], Any]) -> Iterator[tuple[str, Any]]:
        """Return the rows whose key is a port, or a list of ports."""
        for entry in self._rows(table):
            made = make(entry)
            for port in self._named_ports(entry, entry.key):
                if made is not None:
                    yield port, made

    def _places(self, table: str, make: Callable[[Entry], Any]) -> Iterator[tuple[tuple[str, int], Any]]:
        """Return the rows whose key has ports, and numbers of groups or queues: `Ethernet0,Ethernet4|3-4`."""
        seen: dict[tuple[str, int], tuple[str, Any]] = {}
        for entry in self._rows(table):
            ports, bar, numbers = entry.key.rpartition("|")
            if not bar:
                self._problems.error(entry.where(), "the key has no numbers; ports|numbers is expected")
                continue
            if "|" in ports:
                self._problems.ignored(entry.where(), "a queue of another chassis' switch (VOQ) is not modelled")
                continue
            made = make(entry)
            for port in self._named_ports(entry, ports):
                for number in self._numbers(entry.where(), numbers, "number"):
                    before = seen.get((port, number))
                    if before is not None and before[1] != made:
                        self._problems.warning(
                            entry.where(), f"{port}|{number} is in the row {shown(before[0])} too, with other values; "
                            "this one counts", rule="overlap",
                        )  # fmt: skip
                    seen[port, number] = entry.key, made
        yield from ((place, made) for place, (_, made) in seen.items() if made is not None)

    def _named_ports(self, entry: Entry, text: str) -> Iterator[str]:
        for port in text.split(","):
            if port in self._ports:
                yield port
            elif port in self._keys("PORT"):
                continue  # its own row is wrong, and an error
            elif port.startswith(("PortChannel", "CPU", "Vlan", "Ethernet-")) or not self._ports:
                self._problems.ignored(entry.where(), f"{shown(port)} is not a port of its own")
            else:
                self._problems.error(entry.where(), f"there is no port {shortened(port)}: {near(port, self._ports)}")

    def _keys(self, table: str) -> Iterable[str]:
        """Return the keys of all rows of a table, also of wrong ones."""
        content = self._content.get(table)
        return content if isinstance(content, dict) else ()

    def _numbers(self, where: str, text: str, noun: str) -> list[int]:
        """Read numbers as in "3-4", "3" or "3,4". They are 0 to 7, and above for queues of multicast."""
        found: list[int] = []
        for part in text.split(","):
            match = _RANGE.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
            if first > last:
                self._problems.error(where, f"{shown(text)} is not a {noun}; 3, 3-4 or 3,4 is expected")
                return []
            if last > 7:
                self._problems.ignored(where, f"{shown(part)}: only 0 to 7 are modelled")
            found += range(first, min(last, 7) + 1)
        return found

    # For the modules of single tables

    @property
    def problems(self) -> Problems[str]:
        """Where mistakes go."""
        return self._problems

    def rows(self, table: str) -> Iterator[Entry]:
        """Return the rows of a table, as strings."""
        return self._rows(table)

    def named_ports(self, entry: Entry, text: str) -> Iterator[str]:
        """Return the ports of a list."""
        return self._named_ports(entry, text)

    def of_ports(self, table: str, make: Callable[[Entry], Any]) -> Iterator[tuple[str, Any]]:
        """Return the rows whose key is a port, or a list of ports."""
        return self._of_ports(table, make)

    def word(self, entry: Entry, name: str, kind: type[Word], default: Word) -> Word | None:
        """Return a word of a row, the default if the row has none, or None if it has a wrong one."""
        return self._word(entry, name, kind, default)

    def reference(self, entry: Entry, name: str, to: str, known: Iterable[str]) -> str | None:
        """Return the name that a field refers to, in either style."""
        return self._reference(entry, name, to, known)

    def whole(self, entry: Entry, name: str, least: int, most: int) -> int | None:
        """Return a number of a row, or None if the row has none or a wrong one."""
        return self._whole(entry, name, least, most)

    # Values

    def _whole(self, entry: Entry, name: str, least: int, most: int) -> int | None:
        """Return a number of a row, or None if the row has none or a wrong one."""
        text = entry.row.get(name)
        if text is None:
            return None
        return self._number(entry.where(name), text, least, most)

    def _number(self, where: str, text: str, least: int, most: int) -> int | None:
        text = text.strip()
        if _WHOLE.fullmatch(text) and least <= int(text) <= most:
            return int(text)
        self._problems.error(where, f"{shown(text)} is not a whole number from {least} to {most}")
        return None

    def _word(self, entry: Entry, name: str, kind: type[Word], default: Word | None) -> Word | None:
        text = entry.row.get(name)
        if text is None:
            if default is None:
                self._missing(entry, name, listed(kind))
            return default
        for word in kind:
            if word.value.lower() == text.strip().lower():
                return word
        self._problems.error(entry.where(name), f"{shown(text)} is unknown: {near(text, kind)}")
        return None

    def _missing(self, entry: Entry, name: str, expected: str) -> None:
        self._problems.error(entry.where(), f"{name} is missing; {expected} is expected")

    def _reference(self, entry: Entry, name: str, to: str, known: Iterable[str]) -> str | None:
        """Return the name that a field refers to, in either style."""
        text = entry.row.get(name)
        if text is None:
            return None
        where, wanted = entry.where(name), text.strip()
        if match := _REFERENCE.fullmatch(wanted):
            if match[1] != to:
                self._problems.error(where, f"{shown(text)} refers to the table {match[1]}; one of {to} is expected")
                return None
            wanted = match[2]
        if wanted in known or wanted in self._keys(to) or (wanted == NULL and to != "BUFFER_POOL"):
            return wanted
        self._problems.error(where, f"there is no {to} {shown(wanted)}: {near(wanted, known)}")
        return None


def near(name: str, known: Iterable[str]) -> str:
    return nearest(shortened(name), [shortened(one) for one in known])
