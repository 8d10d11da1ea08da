"""The structures of our own C headers as classes of ctypes, so that fields have names on both sides and one list.

What is read is the part of C that these headers are written in: structures of whole numbers, doubles, pointers, arrays
and other structures, and macros and enumerations that are numbers. A class takes values by name, and refuses names that
it has not.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import testbed

_HEADERS = Path(testbed.__path__[0]) / "lab/um/linux"
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_MACRO = re.compile(r"^#define (\w+) \(?(\w+(?: (?:\+|<<) \w+)*)\)?$", re.M)
_ENUMERATION = re.compile(r"^enum \w+ \{([^}]*)\};", re.M)
_STRUCTURE = re.compile(r"^struct (\w+) \{(.*?)^\};", re.S | re.M)
_FIELDS = re.compile(r"^(?:const )?(?:struct )?(\w+) (.+)$", re.S)
_FUNCTION = re.compile(r"^void \(\*(\w+)\)\(")
_FIELD = re.compile(r"^(\*?)(\w+)((?:\[[^]]+\])*)$")
_TYPES: dict[str, Any] = {
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "s32": ctypes.c_int32,
    "s64": ctypes.c_int64,
    "double": ctypes.c_double,
}


class Structure(ctypes.Structure):
    """A structure of a header; what is not given is 0."""

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - {name for name, *_ in type(self)._fields_}:
            raise TypeError(f"struct {type(self).__name__} has no {', '.join(sorted(unknown))}")
        super().__init__(**values)

    def values(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: getattr(self, name) for name, *_ in type(self)._fields_}


class Headers:
    """The structures of some headers, each of which may use those before it, as attributes by their names in C.

    The headers are read at once: in a running lab a file that is read takes time.
    """

    def __init__(self, *headers: str) -> None:
        self._headers, self._found = headers, structures(*headers)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._found[name]
        except KeyError:
            raise AttributeError(f"{', '.join(self._headers)} have no struct {name}") from None


def structures(*headers: str) -> dict[str, Any]:
    """Return the structures of some headers by their names."""
    made: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for header in headers:
        text = _COMMENT.sub("", (_HEADERS / header).read_text())
        text = re.sub(r"[ \t]+$", "", text, flags=re.M).replace("\t", " ")
        for name, value in _MACRO.findall(text):
            with suppress(ValueError):  # it is no number
                numbers[name] = _number(value, numbers)
        for body in _ENUMERATION.findall(text):
            numbers |= _enumerated(body)
        for name, body in _STRUCTURE.findall(text):
            fields = [one for line in body.split(";") if line.strip() for one in _fields(line.strip(), made, numbers)]
            made[name] = type(name, (Structure,), {"_fields_": fields})
    return made


def _number(text: str, known: dict[str, int]) -> int:
    """Return the value of a sum, or of a number that is shifted."""
    whole, _, shift = text.partition(" << ")
    return sum(known[term] if term in known else int(term, 0) for term in whole.split(" + ")) << int(shift or 0)


def _enumerated(body: str) -> dict[str, int]:
    """Return the names of an enumeration with their numbers."""
    found, number = {}, 0
    for name, _, value in (one.strip().partition(" = ") for one in body.split(",") if one.strip()):
        number = int(value, 0) if value else number
        found[name] = number
        number += 1
    return found


def _fields(line: str, known: dict[str, Any], numbers: dict[str, int]) -> list[tuple[str, Any]]:
    """Return the fields of a declaration, which can be several of one type."""
    if called := _FUNCTION.match(line):
        return [(called[1], ctypes.c_void_p)]
    declared = _FIELDS.match(line)
    assert declared is not None, line
    base, found = known.get(declared[1]) or _TYPES.get(declared[1]), []
    for one in declared[2].split(","):
        field = _FIELD.match(one.strip())
        assert field is not None, line
        kind = ctypes.c_void_p if field[1] else base
        assert kind is not None, f"{line}: {declared[1]} is not known here"
        for size in reversed(re.findall(r"\[([^]]+)\]", field[3])):
            kind *= _number(size, numbers)
        found.append((field[2], kind))
    return found
