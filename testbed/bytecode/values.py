"""Values while a class is lowered: their shapes, and the cells in which they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from testbed.bytecode.code import Place

INT, FLOAT, BOOL = "int", "float", "bool"
MOST_ITEMS = 255
"""The numbers of a sequence at the most: the count of an instruction is an octet."""
_WIDTH = {BOOL: 0, INT: 1, FLOAT: 2}


class Refusal(Exception):
    """A construct that cannot be lowered, and its place."""

    def __init__(self, what: str, place: Place | None = None) -> None:
        super().__init__(f"{place}: {what}" if place else what)
        self.what = what


# Shapes: of a number its kind, a string


@dataclass(frozen=True)
class Nothing:
    """The shape of None."""


@dataclass(frozen=True)
class OrNone:
    """The shape of what can be None."""

    shape: Shape


@dataclass(frozen=True)
class Row:
    """The shape of a tuple; `of` is its class if it is a NamedTuple."""

    shapes: tuple[Shape, ...]
    of: type | None = None


@dataclass(frozen=True)
class Rows:
    """The shape of a sequence of numbers, or of rows of numbers: `most` of them, and with `varies` fewer as well."""

    kinds: tuple[str, ...]
    of: type | None
    """The class of its rows; None: its items are numbers."""
    most: int
    varies: bool
    is_list: bool = False


Shape = str | Nothing | OrNone | Row | Rows


# Values


@dataclass(frozen=True)
class Const:
    """A value that is known now: an object of Python. `path` is its place in what is lowered, if it has one there."""

    value: Any
    path: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Num:
    """A number in a cell. Nobody else has it if `is_fresh`: it was just computed."""

    cell: int
    kind: str
    is_fresh: bool = False


@dataclass(frozen=True)
class Maybe:
    """A value, or None where the flag is 0."""

    flag: Num
    value: Value


@dataclass(frozen=True)
class Items:
    """A tuple."""

    items: tuple[Value, ...]
    of: type | None = None


@dataclass(frozen=True)
class Record:
    """An object whose attributes are values: what an event brings, or a dict."""

    fields: dict[str, Value]
    name: str = "a dict"

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Series:
    """A sequence in cells: of each column `shape.most` of them, one column behind the other."""

    first: int
    shape: Rows
    length: Num | None
    """None: it has as many as there is room for."""


Value = Const | Num | Maybe | Items | Record | Series


def settled(value: Value) -> Value:
    """Return a value that has a name, so that it may be used more than once."""
    if isinstance(value, Num):
        return Num(value.cell, value.kind)
    if isinstance(value, Maybe):
        return Maybe(value.flag, settled(value.value))
    if isinstance(value, Items):
        return Items(tuple(map(settled, value.items)), value.of)
    return value


def shape_of(value: Value) -> Shape | None:
    """Return the shape of a value, or None of an object that no cell can hold."""
    if isinstance(value, Const):
        return shape_of_object(value.value)
    if isinstance(value, Num):
        return value.kind
    if isinstance(value, Maybe):
        inner = shape_of(value.value)
        return None if inner is None else OrNone(inner)
    if isinstance(value, Items):
        shapes = [shape_of(one) for one in value.items]
        return None if None in shapes else Row(tuple(one for one in shapes if one is not None), value.of)
    return value.shape if isinstance(value, Series) else None


def shape_of_object(value: Any) -> Shape | None:
    """Return the shape of an object of Python, or None if no cell can hold it."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int | float) and type(value) in (int, float):
        return INT if isinstance(value, int) else FLOAT
    if value is None:
        return Nothing()
    if isinstance(value, tuple):
        shapes = [shape_of_object(one) for one in value]
        return None if None in shapes else Row(tuple(one for one in shapes if one is not None), row_class(value))
    if type(value) is list and 0 < len(value) <= MOST_ITEMS:
        kind: Shape | None = shape_of_object(value[0])
        for one in value[1:]:
            other = shape_of_object(one)
            kind = join(kind, other) if kind is not None and other is not None else None
        return Rows((kind,), None, len(value), False, is_list=True) if isinstance(kind, str) else None
    return None


def row_class(value: tuple[Any, ...]) -> type | None:
    """Return the class of a NamedTuple, or None of any other tuple."""
    return type(value) if hasattr(value, "_fields") else None


def join(one: Shape, other: Shape) -> Shape | None:
    """Return the shape that holds values of both, or None if there is none."""
    if one == other:
        return one
    if isinstance(one, str) and isinstance(other, str):
        return max(one, other, key=_WIDTH.__getitem__)
    if isinstance(one, OrNone | Nothing) or isinstance(other, OrNone | Nothing):
        inner = [this.shape if isinstance(this, OrNone) else this for this in (one, other)]
        known = [this for this in inner if not isinstance(this, Nothing)]
        both = join(*known) if len(known) == 2 else known[0]
        return None if both is None else OrNone(both)
    if isinstance(one, Row) and isinstance(other, Row) and len(one.shapes) == len(other.shapes):
        shapes = [join(mine, yours) for mine, yours in zip(one.shapes, other.shapes, strict=True)]
        if None in shapes:
            return None
        return Row(tuple(shape for shape in shapes if shape is not None), one.of if one.of is other.of else None)
    first, second = as_rows(one), as_rows(other)
    return _joined_rows(first, second) if first and second else None


def _joined_rows(one: Rows, other: Rows) -> Rows | None:
    if one.is_list or other.is_list:
        return None
    most, varies = max(one.most, other.most), one.varies or other.varies or one.most != other.most
    if not one.most or not other.most:  # the empty tuple is a sequence of anything
        full = one if one.most else other
        return Rows(full.kinds, full.of, most, True)
    if one.of is not other.of or len(one.kinds) != len(other.kinds):
        return None
    kinds = tuple(max(pair, key=_WIDTH.__getitem__) for pair in zip(one.kinds, other.kinds, strict=True))
    return Rows(kinds, one.of, most, varies)


def as_rows(shape: Shape) -> Rows | None:
    """Return a tuple's shape as one of a sequence, if its items are all alike."""
    if isinstance(shape, Rows):
        return shape
    if not isinstance(shape, Row):
        return None
    if not shape.shapes:
        return Rows((), None, 0, False)
    item: Shape | None = shape.shapes[0]
    for other in shape.shapes[1:]:
        item = join(item, other) if item is not None else None
    if isinstance(item, str):
        return Rows((item,), None, len(shape.shapes), False)
    if isinstance(item, Row) and item.of is not None and all(isinstance(kind, str) for kind in item.shapes):
        kinds = tuple(kind for kind in item.shapes if isinstance(kind, str))
        return Rows(kinds, item.of, len(shape.shapes), False)
    return None


def in_words(shape: Shape | None) -> str:
    """Return a shape for people."""
    if shape is None:
        return "an object"
    if isinstance(shape, str):
        return shape
    if isinstance(shape, Nothing):
        return "None"
    if isinstance(shape, OrNone):
        return f"{in_words(shape.shape)} or None"
    if isinstance(shape, Row):
        return shape.of.__name__ if shape.of else f"a tuple of {len(shape.shapes)}"
    return "a list" if shape.is_list else "a tuple"
