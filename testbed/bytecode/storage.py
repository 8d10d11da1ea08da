"""Instructions, labels and cells: the lower half of the lowering of classes."""

from __future__ import annotations

from typing import Any

from testbed.bytecode import code
from testbed.bytecode.code import FORMS, Instruction, Place
from testbed.bytecode.values import (
    BOOL,
    FLOAT,
    INT,
    MOST_ITEMS,
    Const,
    Items,
    Maybe,
    Nothing,
    Num,
    OrNone,
    Refusal,
    Row,
    Series,
    Shape,
    Value,
    in_words,
    join,
    shape_of,
)

_LARGEST = 2**63


class Label:
    """A place in the code that is known later."""


class Assembler:
    """Instructions as they are written, and the cells that they use.

    Cells of constants have numbers below 0 until the end, for nobody knows before how many others there are.
    """

    def __init__(self, first: int) -> None:
        self.place = Place("", 0)
        self.is_stale = False
        """True if a value has turned out to need another shape than was taken so far: all is lowered again with it."""
        self.constants: dict[tuple[str, Any], int] = {}
        self.free = self.kept = self.most = first
        """The next free cell, the next one that is free after this statement, and the most that were used."""
        self._code: list[list[Any]] = []
        self._places: list[Place] = []
        self._labels: dict[Label, int] = {}
        self._marked = -1

    # Instructions

    @property
    def here(self) -> int:
        """The number of the next instruction."""
        return len(self._code)

    def _emit(self, operation: str, dst: Any = 0, a: int = 0, b: int = 0, n: int = 0) -> None:
        self._code.append([operation, dst, a, b, n])
        self._places.append(self.place)

    def _mark(self, label: Label) -> None:
        """Let a label stand here; a jump to it from just before is left out."""
        while self._code and self._code[-1][:2] == ["JMP", label]:
            self._code.pop()
            self._places.pop()
            for other, at in self._labels.items():
                if at > len(self._code):
                    self._labels[other] = len(self._code)
        self._labels[label] = self._marked = len(self._code)

    def linked(self) -> tuple[tuple[Instruction, ...], tuple[Place, ...], int]:
        """Return the instructions, their places, and how many cells they use."""
        cells = self.most + len(self.constants)
        if cells > code.MOST_CELLS or len(self._code) > code.MOST_CODE:
            raise Refusal(f"{len(self._code)} instructions with {cells} numbers are too many", self.place)

        def field(letter: str, value: Any) -> int:
            if letter == "t":
                return self._labels[value]
            number: int = value
            return self.most - 1 - number if number < 0 else number

        made = list[Instruction]()
        for name, *fields, count in self._code:
            dst, a, b = map(field, FORMS[name], fields)
            made.append(Instruction(name, dst, a, b, count))
        return tuple(made), tuple(self._places), cells

    # Cells

    def _new(self, many: int = 1) -> int:
        """Return the first of so many cells."""
        first = self.free
        self.free += many
        self.most = max(self.most, self.free)
        return first

    def _constant(self, value: float, kind: str) -> Num:
        if kind != FLOAT and not -_LARGEST <= value < _LARGEST:
            raise Refusal(f"{value} needs more than 64 bits", self.place)
        key = FLOAT if kind == FLOAT else INT, float(value).hex() if kind == FLOAT else int(value)
        return Num(self.constants.setdefault(key, -1 - len(self.constants)), kind)

    def _computed(self, operation: str, kind: str, a: Num, b: Num | None = None) -> Num:
        """Return what an operation makes of one or two numbers."""
        cell = self._new()
        self._emit(operation, cell, a.cell, b.cell if b else 0)
        return Num(cell, kind, is_fresh=True)

    def _storage(self, shape: Shape) -> Value:
        """Return cells for values of a shape."""
        if isinstance(shape, str):
            return Num(self._new(), shape)
        if isinstance(shape, Nothing):
            return Const(None)
        if isinstance(shape, OrNone):
            return Maybe(Num(self._new(), BOOL), self._storage(shape.shape))
        if isinstance(shape, Row):
            return Items(tuple(self._storage(one) for one in shape.shapes), shape.of)
        if len(shape.kinds) * shape.most > MOST_ITEMS:
            raise Refusal(f"a sequence of {shape.most} rows; {MOST_ITEMS} numbers are the most", self.place)
        length = Num(self._new(), INT) if shape.varies else None
        return Series(self._new(len(shape.kinds) * shape.most), shape, length)

    # Numbers

    def _number(self, value: Value, kind: str | None = None) -> Num:
        """Return a value as a number in a cell, of a kind if one is given."""
        value = self._needed(value)
        if isinstance(value, Const):
            known = shape_of(value)
            if value.value is None:  # so it is on this way; another one may give it a number
                self._emit("FAIL", n=code.NOTHING)
                return Num(self._new(), kind or INT)
            if not isinstance(known, str):
                raise Refusal(f"{value.value!r} is no number", self.place)
            return self._constant(value.value, self._kind(known, kind))
        if not isinstance(value, Num):
            raise Refusal(f"{in_words(shape_of(value))} is no number", self.place)
        if kind == FLOAT and value.kind != FLOAT:
            return self._computed("FLOAT", FLOAT, value)
        self._kind(value.kind, kind)
        return value if kind is None or kind == value.kind else Num(value.cell, kind, value.is_fresh)

    def _kind(self, known: str, wanted: str | None) -> str:
        if wanted in (INT, BOOL) and known == FLOAT:
            raise Refusal("a float where a whole number is needed; take int()", self.place)
        return wanted or known

    def _needed(self, value: Value) -> Value:
        """Return what can be None as what it is else; None is a fault."""
        if not isinstance(value, Maybe):
            return value
        self._emit("NEED", a=value.flag.cell)
        return value.value

    # Moves

    def _move(self, target: Value, value: Value) -> None:
        """Bring a value into cells whose shape it fits."""
        if isinstance(target, Num):
            self._move_number(target, value)
        elif isinstance(target, Maybe):
            self._move_maybe(target, value)
        elif isinstance(target, Items):
            for own, one in zip(target.items, self._items_of(value), strict=True):
                self._move(own, one)
        elif isinstance(target, Series):
            self._move_series(target, value)
        elif not (isinstance(target, Const) and isinstance(value, Const) and value.value is None):
            raise Refusal(f"{in_words(shape_of(value))} cannot be kept", self.place)

    def _move_number(self, target: Num, value: Value) -> None:
        source = self._number(value, target.kind)
        last = self._code[-1] if self._code else None
        is_last = last is not None and FORMS[last[0]][0] == "w" and last[1] == source.cell
        if last is not None and source.is_fresh and is_last and self._marked != self.here:
            last[1] = target.cell  # what was computed just now goes there at once
        elif source.cell != target.cell:
            self._emit("MOV", target.cell, source.cell)

    def _move_maybe(self, target: Maybe, value: Value) -> None:
        if isinstance(value, Maybe):
            self._move(target.flag, Num(value.flag.cell, BOOL))
            value = value.value
        else:
            is_there = not (isinstance(value, Const) and value.value is None)
            self._move(target.flag, Const(is_there))
            if not is_there:
                return
        self._move(target.value, value)

    def _move_series(self, target: Series, value: Value) -> None:
        shape = target.shape
        if isinstance(value, Series):
            other = value.shape
            if other.most and other.kinds != shape.kinds:
                raise Refusal("a sequence of ints and of floats", self.place)
            if other.most == shape.most:
                self._emit("COPY", target.first, value.first, n=shape.most * len(shape.kinds))
            elif other.most:
                for column in range(len(shape.kinds)):
                    to, source = target.first + column * shape.most, value.first + column * other.most
                    self._emit("COPY", to, source, n=other.most)
            length: Value = value.length or Const(other.most)
        else:
            items = self._items_of(value)
            for row, item in enumerate(items):
                numbers = (item,) if shape.of is None else self._items_of(item)
                for column, (kind, one) in enumerate(zip(shape.kinds, numbers, strict=True)):
                    self._move(Num(target.first + column * shape.most + row, kind), one)
            length = Const(len(items))
        if target.length is not None:
            self._move(target.length, length)

    def _items_of(self, value: Value) -> tuple[Value, ...]:
        """Return the items of a tuple."""
        value = self._needed(value)
        if isinstance(value, Items):
            return value.items
        if isinstance(value, Const) and isinstance(value.value, tuple | list):
            return tuple(Const(one) for one in value.value)
        raise Refusal(f"{in_words(shape_of(value))} is no tuple whose length is known", self.place)

    def _joined(self, known: Shape, value: Value, name: str) -> Shape:
        """Return the shape for what is known so far and a value."""
        shape = shape_of(value)
        made = join(known, shape) if shape is not None else None
        if made is None:
            raise Refusal(f"{name} is {in_words(known)}, and here {in_words(shape)}", self.place)
        return made
