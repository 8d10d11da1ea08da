"""Objects with their code, which all those of a class have in common if their constants are the same."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from testbed.bytecode.calls import FOLDING
from testbed.bytecode.lowering import Lowered, Lowering, lower
from testbed.bytecode.values import Items, Maybe, Num, Refusal, Series, Value, join, shape_of, shape_of_object

_WHOLE, _DOUBLE = struct.Struct("=q"), struct.Struct("=d")
_CELL = 8
_PLAIN = (int, float, str, bool, type(None), tuple, list, dict, *FOLDING)
"""The types whose values are compared when another object is to have the same code; of others the class is."""
_known: dict[type, list[Lowered | Refusal]] = {}
"""The programs of each class that were made so far; a class that cannot be lowered has one refusal."""


def lowered_of(kind: type[Lowering], control: Any) -> Lowered | Refusal:
    """Return an object as code, or what cannot be lowered and where."""
    known = _known.setdefault(type(control), [])
    for made in known:
        if isinstance(made, Refusal) or _is_same(made, control):
            return made
    try:
        known.append(lower(kind, control))
    except Refusal as refusal:
        known[:] = [refusal]
    return known[-1]


def frame_of(lowered: Lowered, control: Any) -> bytearray:
    """Return the cells of an object as they are at its start."""
    cells = bytearray(_CELL * lowered.program.cells)

    def put(cell: int, kind: str, number: float) -> None:
        if kind == "float":
            _DOUBLE.pack_into(cells, _CELL * cell, number)
        else:
            _WHOLE.pack_into(cells, _CELL * cell, int(number))

    for cell, is_double, number in lowered.constants:
        put(cell, "float" if is_double else "int", number)
    for name, storage in lowered.states.items():
        _put_object(put, storage, getattr(control, name))
    return cells


def _put_object(put: Callable[[int, str, float], None], storage: Value, value: Any) -> None:
    """Write an object of Python into the cells for it."""
    if isinstance(storage, Num):
        put(storage.cell, storage.kind, value)
    elif isinstance(storage, Maybe):
        put(storage.flag.cell, "bool", value is not None)
        if value is not None:
            _put_object(put, storage.value, value)
    elif isinstance(storage, Items):
        for own, one in zip(storage.items, value, strict=True):
            _put_object(put, own, one)
    elif isinstance(storage, Series):
        if storage.length is not None:
            put(storage.length.cell, "int", len(value))
        for row, item in enumerate(value):
            for column, kind in enumerate(storage.shape.kinds):
                number = item if storage.shape.of is None else item[column]
                put(storage.first + column * storage.shape.most + row, kind, number)


def _is_same(lowered: Lowered, control: Any) -> bool:
    """Return True if an object of the class may have this code."""
    for name, storage in lowered.states.items():
        own, known = shape_of_object(getattr(control, name, None)), shape_of(storage)
        if own is None or known is None or join(known, own) != known:
            return False
    return all(_is_alike(value, _reached(control, path)) for path, value in lowered.reads.items())


def _reached(control: Any, path: tuple[Any, ...]) -> Any:
    value: Any = control
    for name in path:
        value = getattr(value, name, None)
    return value


def _is_alike(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    return one == other if isinstance(one, _PLAIN) else True
