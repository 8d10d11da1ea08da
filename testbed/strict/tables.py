"""Tables of users' files and requests, read strictly: a key that no reader asks for is a mistake, and is named.

`Table` keeps account of the keys that were asked for. `TomlTable` is a table of a TOML file, and raises an error at the
first mistake. A reader that collects mistakes derives a class of its own (`testbed.subjects.snappi.reading`). The
functions below read single values: each returns a value of the right kind, or raises a UsageError, to which the table
adds the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from testbed.errors import UsageError, XoffError
from testbed.strict import toml_text
from testbed.strict.problems import shown

T = TypeVar("T")
D = TypeVar("D")


class Table:
    """One mapping from keys to values, its place in the whole, and the keys that were asked for."""

    def __init__(self, content: Mapping[str, Any], place: str) -> None:
        self.place = place
        self._content = content
        self._known: dict[str, None] = {}  # a set in the order in which its members came

    def at(self, key: str) -> str:
        """Return the place of a key, for messages."""
        return f"{self.place} {key}".strip()

    def know(self, *keys: str) -> None:
        """Mark keys as known, whether they are there or not."""
        self._known.update(dict.fromkeys(keys))

    @property
    def keys(self) -> Sequence[str]:
        """All keys that are there."""
        return list(self._content)

    @property
    def unknown(self) -> Sequence[str]:
        """The keys that are there and that no reader has asked for."""
        return [key for key in self._content if key not in self._known]


class TomlTable(Table):
    """A table of a TOML file. The first mistake raises the file's error, with file, place, key and the way out."""

    def __init__(self, content: Mapping[str, Any], file: str, error: type[UsageError], place: str = "") -> None:
        """`place` is as in "[pfc]"; the top of the file has none."""
        super().__init__(content, place)
        self._file, self._error = file, error

    @classmethod
    def read(cls, text: str | bytes, file: str, error: type[UsageError]) -> TomlTable:
        """Return the top of a file; `file` is its name in messages."""
        return cls(toml_text.read(text, file, error), file, error)

    def refuse(self, key: str, message: str) -> NoReturn:
        raise self._error(f"{self._file}: {self.at(key)}: {message}") from None

    def has(self, key: str) -> bool:
        """Return True if the key is there. Either way it is a known one."""
        self.know(key)
        return key in self._content

    def take(self, key: str, read: Callable[[Any], T], default: D) -> T | D:
        """Return the value that `read` makes of the key's, or the default if the key is absent."""
        return self.need(key, read) if self.has(key) else default

    def need(self, key: str, read: Callable[[Any], T]) -> T:
        """Return the value that `read` makes of the key's; an absent key is a mistake."""
        if not self.has(key):
            self.refuse(key, "is missing")
        try:
            return read(self._content[key])
        except XoffError as error:
            self.refuse(key, str(error))

    def table(self, key: str) -> TomlTable | None:
        """Return the table under a key, or None if there is none."""
        if not self.has(key):
            return None
        content = self._content[key]
        place = f"[{self.place[1:-1]}.{key}]" if self.place else f"[{key}]"
        if not isinstance(content, dict):
            self.refuse(key, f"{shown(content)} is not a section; write {place} on a line of its own")
        return TomlTable(content, self._file, self._error, place)

    def tables(self, key: str, named_by: str = "") -> list[TomlTable]:
        """Return the tables of an array. In messages each has its number, or its value of the key `named_by`."""
        found = self._content[key] if self.has(key) else []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self.refuse(key, f"{shown(found)} is not a list of sections; write [[{key}]] above each of them")
        place = f"{self.place[1:-1]}.{key}" if self.place else key
        return [
            TomlTable(one, self._file, self._error, f"[[{place}]] {one.get(named_by, f'number {number}')}")
            for number, one in enumerate(found, 1)
        ]

    def close(self) -> None:
        """Refuse a key that no reader has asked for."""
        for key in self.unknown:
            near = get_close_matches(key, self._known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._known)}"
            self.refuse(key, f"unknown key; {hint}")

    def build(self, make: Callable[[], T]) -> T:
        """Close the table and return what `make` makes of its values, with the place in the error if it refuses."""
        self.close()
        try:
            return make()
        except self._error:
            raise
        except XoffError as error:
            raise self._error(f"{self._file}: {self.place}{': ' if self.place else ''}{error}") from None


# Values


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{shown(value)} is neither true nor false")
    return value


def whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{shown(value)} is not a whole number")
    return value


def within(least: int, most: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers of a range."""

    def read(value: Any) -> int:
        if not least <= whole(value) <= most:
            raise UsageError(f"{value} is out of range; {least} to {most} is expected")
        return whole(value)

    return read


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f'{shown(value)} is not text: write "{value}"')
    return value


def filled(value: Any) -> str:
    """Read text that says something."""
    if not text(value).strip():
        raise UsageError("is empty; say something")
    return text(value).strip()


def array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UsageError(f"{shown(value)} is not a list: write [{value}]")
    return value


def one_of(kind: Callable[[str], T], names: Sequence[str]) -> Callable[[Any], T]:
    """Return a reader of some words, each of which `kind` makes into a value."""

    def read(value: Any) -> T:
        if value not in names:
            near = get_close_matches(str(value), names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names))}"
            raise UsageError(f"{shown(value)} is unknown; {hint}")
        return kind(value)

    return read
