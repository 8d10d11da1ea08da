"""Reads the plain data of snappi's model, and finds the parts of it that this generator does not support.

Each object is an `Item`. A field that is read is taken; a field that is left when the item is closed has no effect
here, and must not be ignored silently: it becomes an error with its path, as in `flows[0].packet[1].ipv4.options`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Any

from testbed.errors import UsageError, nearest
from testbed.strict.problems import Problems, shown
from testbed.strict.tables import Table


class OtgError(UsageError):
    """A configuration or a request that cannot be carried out; `errors` has one line for each field."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)


class Reader:
    """Collects the errors of one configuration or request."""

    def __init__(self) -> None:
        self._problems = Problems[str]()
        self.warnings: list[str] = []
        """One line for each setting that does not act as a test may expect."""

    @property
    def errors(self) -> list[str]:
        """One line for each error: the path of a field, and what is wrong with it."""
        found = [f"{problem.place}: {problem.message}" for problem in self._problems.errors]
        return [*found, f"and {self._problems.left_out} more"] if self._problems.left_out else found

    def error(self, path: str, message: str) -> None:
        self._problems.error(path, message)

    def finish(self) -> None:
        """Raise OtgError if there was an error."""
        if errors := self.errors:
            raise OtgError(errors)

    @contextmanager
    def item(self, content: Mapping[str, Any], path: str = "") -> Iterator[Item]:
        """Read one object; at the end of the block each of its fields has to have been taken."""
        item = Item(self, content, path)
        yield item
        item.close()


class Item(Table):
    """One object of the model. A field that is null counts as absent."""

    def __init__(self, reader: Reader, content: Mapping[str, Any], path: str) -> None:
        super().__init__({name: value for name, value in content.items() if value is not None}, path)
        self.reader = reader

    def at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def error(self, name: str, message: str) -> None:
        self.reader.error(self.at(name), message)

    def warn(self, name: str, message: str) -> None:
        self.reader.warnings.append(f"{self.at(name)} {message}")

    def has(self, name: str) -> bool:
        """Return True if the field is there and was not taken yet."""
        return name in self._content and name not in self._known

    def take(self, name: str, default: Any = None) -> Any:
        """Return a field's value, which counts as read from now on."""
        value = self.peek(name, default)
        self.know(name)
        return value

    def peek(self, name: str, default: Any = None) -> Any:
        """Return a field's value, which is still to be taken."""
        return self._content[name] if self.has(name) else default

    def ignore(self, *names: str) -> None:
        """Accept fields that have nothing to act on here, and change nothing that a test can see."""
        self.know(*names)

    def close(self) -> None:
        for name in self.unknown:
            self.error(name, "Xoff does not support it")
        self.know(*self.keys)

    def integer(self, name: str, default: int, low: int = 0, high: int | None = None) -> int:
        value = self.take(name, default)
        try:
            if isinstance(value, bool | float) and value != int(value):
                raise ValueError
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            self.error(name, f"it is {shown(value)}; a whole number is expected")
            return default
        if number < low or (high is not None and number > high):
            bounds = f"{low} or more" if high is None else f"{low} to {high}"
            self.error(name, f"it is {shown(number)}; {bounds} is possible")
            return default
        return number

    def number(self, name: str, default: float) -> Fraction:
        """Take a number that is not negative, exactly as it is written."""
        value = self.take(name, default)
        try:
            if not math.isfinite(float(value)):
                raise ValueError
            number = Fraction(repr(value) if isinstance(value, float) else str(value))
        except (TypeError, ValueError, OverflowError):
            number = Fraction(-1)
        if number < 0:
            self.error(name, f"it is {shown(value)}; a number from 0 up is expected")
            return Fraction(repr(default))
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.take(name, default))

    def text(self, name: str, default: str = "") -> str:
        return str(self.take(name, default))

    def texts(self, name: str) -> list[str]:
        value = self.take(name, ())
        return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]

    def one_of(self, name: str, known: Mapping[str, Any] | Sequence[str], default: str) -> str:
        """Take a word; an unknown one is an error at this field."""
        word = self.text(name, default)
        if word not in known:
            self.error(name, f"{word!r} is not supported; {nearest(word, known)}")
            return default
        return word

    def choice(self, default: str, *supported: str) -> str:
        """Return the alternative that is chosen. Data of the others has no effect.

        Data without a choice that has one alternative means that one, and else the model's default.
        """
        given = [name for name in supported if self.has(name)]
        word = self.text("choice", given[0] if len(given) == 1 else default)
        if word not in supported:
            self.error(word, "Xoff does not support it")
            self.know(*self.keys)
            return ""
        self.ignore(*(name for name in supported if name != word))
        return word

    def item(self, name: str) -> AbstractContextManager[Item]:
        """Take an object in this one; an absent one is empty."""
        return self._object(self.take(name, {}), name)

    def items(self, name: str) -> Iterator[Item]:
        """Take the objects of a list, each closed when the next one is taken."""
        content = self.take(name, ())
        if not isinstance(content, list | tuple):
            self.error(name, "a list is expected")
            return
        for number, one in enumerate(content):
            with self._object(one, f"{name}[{number}]") as item:
                yield item

    def _object(self, content: Any, name: str) -> AbstractContextManager[Item]:
        if not isinstance(content, Mapping):
            self.error(name, "an object is expected")
            content = {}
        return self.reader.item(content, self.at(name))
