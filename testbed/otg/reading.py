"""Reads the plain data of the model, and finds what of it this generator does not support.

Each object is an `Item`. What is read of it is taken; what is left when it is closed has no effect here, and must
not be ignored silently: it becomes an error with the path of the field, as in `flows[0].packet[1].ipv4.options`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from typing import Any

from testbed.errors import UsageError, nearest


class OtgError(UsageError):
    """A configuration or a request that cannot be carried out; `errors` has one line for each field."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("; ".join(errors))
        self.errors = list(errors)


class Reader:
    """Collects the errors of one configuration or request."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def error(self, path: str, what: str) -> None:
        self.errors.append(f"{path}: {what}")

    def finish(self) -> None:
        if self.errors:
            raise OtgError(self.errors)

    @contextmanager
    def item(self, content: Mapping[str, Any], path: str = "") -> Iterator[Item]:
        """One object; at the end of the block everything in it has to have been taken."""
        item = Item(self, content, path)
        yield item
        item.close()


class Item:
    """One object of the model."""

    def __init__(self, reader: Reader, content: Mapping[str, Any], path: str) -> None:
        self.reader, self.path = reader, path
        self._left = {name: value for name, value in content.items() if value is not None}

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def error(self, name: str, what: str) -> None:
        self.reader.error(self.at(name), what)

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, default: Any = None) -> Any:
        return self._left.pop(name, default)

    def peek(self, name: str, default: Any = None) -> Any:
        """What is there, which is still to be taken."""
        return self._left.get(name, default)

    def ignore(self, *names: str) -> None:
        """Fields that have nothing to act on here, and change nothing that a test can see."""
        for name in names:
            self._left.pop(name, None)

    def close(self) -> None:
        for name in self._left:
            self.error(name, "Xoff does not support it")
        self._left.clear()

    def integer(self, name: str, default: int, low: int = 0, high: int | None = None) -> int:
        value = self.take(name, default)
        try:
            if isinstance(value, bool | float) and value != int(value):
                raise ValueError
            number = int(value)
        except (TypeError, ValueError):
            self.error(name, f"it is {value!r}; a whole number is expected")
            return default
        if number < low or (high is not None and number > high):
            bounds = f"{low} or more" if high is None else f"{low} to {high}"
            self.error(name, f"it is {number}; {bounds} is possible")
            return default
        return number

    def number(self, name: str, default: float) -> Fraction:
        """A number that is not negative, exactly as it is written."""
        value = self.take(name, default)
        try:
            number = Fraction(repr(value) if isinstance(value, float) else str(value))
        except (ValueError, ZeroDivisionError):
            number = Fraction(-1)
        if number < 0:
            self.error(name, f"it is {value!r}; a number from 0 up is expected")
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
        """A word; one that is not known is an error at this field."""
        word = self.text(name, default)
        if word not in known:
            self.error(name, f"{word!r} is not supported; {nearest(word, known)}")
            return default
        return word

    def choice(self, default: str, *supported: str) -> str:
        """Which of the alternatives is chosen. What the others are left with in the data has no effect.

        Data without a choice that has one alternative means that one, and else the model's default.
        """
        given = [name for name in supported if name in self._left]
        word = self.text("choice", given[0] if len(given) == 1 else default)
        if word not in supported:
            self.error(word, "Xoff does not support it")
            self._left.clear()
            return ""
        self.ignore(*(name for name in supported if name != word))
        return word

    def item(self, name: str) -> AbstractContextManager[Item]:
        """An object in this one; an absent one is empty."""
        return self._object(self.take(name, {}), name)

    def items(self, name: str) -> Iterator[Item]:
        """The objects of a list, each closed when the next one is taken."""
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
