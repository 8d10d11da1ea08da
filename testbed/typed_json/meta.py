"""The statements of a dataclass about its JSON beyond its type hints.

`Meta` stands in `Annotated[...]` and applies to one value; `message` is a decorator and applies to a class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Meta:
    """Limits, documentation and form of a value. Unset members leave those of an inner `Annotated` as they are."""

    ge: int | None = None
    le: int | None = None
    min_length: int | None = None  # characters of a text, members of a list
    max_length: int | None = None
    pattern: str | None = None  # of a text, whole
    unique: bool | None = None  # a list has no two equal members
    description: str | None = None
    examples: Sequence[Any] | None = None
    name: str | None = None  # of the member in JSON, if it is not the field's
    flatten: bool | None = None  # the members of the field's class are members of the object itself
    only: tuple[str, ...] | None = None  # members of the enum that are valid here
    pairs: bool | None = None  # a tuple of (name, value) that is an object in JSON

    def over(self, inner: Meta) -> Meta:
        """Return this one, completed by an inner one."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Meta(**{name: getattr(inner, name) if value is None else value for name, value in values.items()})


@dataclass(frozen=True)
class ClassMeta:
    """The form of a class in JSON."""

    name: str = ""  # of its schema; the class's own if empty
    tag: str = ""  # the value of `tag_field`, which distinguishes the members of a union
    tag_field: str = "type"
    complete: bool = False  # every member must be there, those with a default too
    open: bool = False  # members that are not known are ignored
    sparse: bool = False  # members that are None are left out


def message(
    *,
    name: str = "",
    tag: str = "",
    tag_field: str = "type",
    complete: bool = False,
    open: bool = False,
    sparse: bool = False,
) -> Callable[[type[T]], type[T]]:
    """Set the `ClassMeta` of a dataclass."""

    def mark(cls: type[T]) -> type[T]:
        cls.__json__ = ClassMeta(name or cls.__name__, tag, tag_field, complete, open, sparse)  # type: ignore[attr-defined]
        return cls

    return mark


def class_meta(cls: type) -> ClassMeta:
    found = cls.__dict__.get("__json__")
    return found if isinstance(found, ClassMeta) else ClassMeta(cls.__name__)
