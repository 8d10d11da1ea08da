"""The classes of OTG's `ultra_ethernet` for a snappi that does not have them yet, made of the model's tables.

A script writes `config.ultra_ethernet.ultraethernet(name="ue")`, as it will with a snappi that has them, to which
nothing is added. Ranges are checked by the lab, when a configuration is set, for data of any form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.subjects.snappi.ultra_ethernet.model import (
    ADDITIONS,
    CHOICE,
    SCHEMAS,
    Field,
    Flag,
    Number,
    Numbers,
    Part,
    Real,
    Schema,
    Text,
    Word,
    Words,
)


def add_to(snappi: Any) -> None:
    """Add the classes to the module in which snappi's own are, and their fields to these."""
    if "ultra_ethernet" in snappi.Config._TYPES:
        return
    for name, schema in SCHEMAS.items():
        made = _class(snappi, name, schema)
        setattr(snappi, made.__name__, made)
        iterable = _iterable(snappi, name, made)
        setattr(snappi, iterable.__name__, iterable)
    for owner, fields in ADDITIONS.items():
        kind = getattr(snappi, owner)
        kind._TYPES = {**kind._TYPES, **{name: _type(part) for name, part in fields.items()}}
        for name, part in fields.items():
            has_choice = (CHOICE in kind._TYPES and not part.is_list) or owner == "MetricsResponse"
            if has_choice:
                choice = kind._TYPES[CHOICE]
                kind._TYPES[CHOICE] = {**choice, "enum": [*choice["enum"], name]}
                setattr(kind, name.upper(), name)
            setattr(kind, name, _child(snappi, name, part, has_choice and not part.is_list))


def _name(schema: str) -> str:
    return schema.replace(".", "")


def _type(field: Field) -> dict[str, Any]:
    """Return what snappi's classes say of the type of a field."""
    match field:
        case Number(is_wide=is_wide, low=low):
            return {"type": int, "format": "uint64" if is_wide else "int32" if low < 0 else "uint32"}
        case Real():
            return {"type": float}
        case Flag():
            return {"type": bool}
        case Word(words):
            return {"type": str, "enum": list(words)}
        case Words(words):
            return {"type": list, "itemtype": str} | ({"enum": list(words)} if words else {})
        case Numbers():
            return {"type": list, "itemtype": int, "itemformat": "uint32"}
        case Part(schema, is_list):
            return {"type": _name(schema) + ("Iter" if is_list else "")}
        case Text():
            return {"type": str}


def _defaults(schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in schema.items():
        default = getattr(field, "default", None)
        if default is not None and default != "":
            found[name] = default
    return found


def _class(snappi: Any, name: str, schema: Schema) -> Any:
    """Return the class of a schema, as snappi's generator makes it."""
    defaults = _defaults(schema)
    choice = schema.get(CHOICE)
    alternatives = choice.words if isinstance(choice, Word) else ()

    def begin(self: Any, parent: Any = None, choice: Any = None, **values: Any) -> None:
        snappi.OpenApiObject.__init__(self)
        self._parent = parent
        for field in schema:
            if field != CHOICE and not isinstance(schema[field], Part):
                self._set_property(field, values.pop(field, None))
        if values:
            raise TypeError(f"{_name(name)} has no {sorted(values)[0]!r}")
        if CHOICE in schema and choice is None and defaults.get(CHOICE):
            getattr(self, defaults[CHOICE])
        elif CHOICE in schema:
            self._set_property(CHOICE, choice)

    members: dict[str, Any] = {
        "__slots__": ("_parent", "_choice"),
        "__module__": snappi.__name__,
        "__doc__": f"OTG's {name}.",
        "__init__": begin,
        "_TYPES": {field: _type(one) for field, one in schema.items()},
        "_REQUIRED": ("choice",) if CHOICE in schema and not defaults.get(CHOICE) else (),
        "_DEFAULTS": defaults,
        "_STATUS": {},
    }
    for field, one in schema.items():
        if isinstance(one, Part):
            members[field] = _child(snappi, field, one, field in alternatives)
        else:
            members[field] = _value(field)
        if isinstance(one, Word):
            members |= {word.upper(): word for word in one.words if word.isidentifier()}
    return type(_name(name), (snappi.OpenApiObject,), members)


def _value(field: str) -> property:
    def read(self: Any) -> Any:
        return self._get_property(field)

    def write(self: Any, value: Any) -> None:
        self._set_property(field, value)

    return property(read, write)


def _child(snappi: Any, field: str, part: Part, is_choice: bool) -> property:
    kind = _name(part.schema) + ("Iter" if part.is_list else "")

    def read(self: Any) -> Any:
        wanted = getattr(snappi, kind)
        if part.is_list:
            return self._get_property(field, wanted, self._parent, self._choice)
        return self._get_property(field, wanted, *((self, field) if is_choice else ()))

    return property(read)


def _iterable(snappi: Any, name: str, kind: Any) -> Any:
    """Return the class of lists of a schema, with the method that adds one by its name."""

    def begin(self: Any, parent: Any = None, choice: Any = None) -> None:
        snappi.OpenApiIter.__init__(self)
        self._parent, self._choice = parent, choice

    def append(self: Any, **values: Any) -> Any:
        self._add(kind(parent=self._parent, **values))
        return self

    def added(self: Any, **values: Any) -> Any:
        item = kind(**values)
        self._add(item)
        return item

    def require(self: Any, item: Any) -> None:
        if not isinstance(item, kind):
            raise Exception(f"Item is not an instance of {kind.__name__}")

    def items(self: Any) -> Mapping[str, Any]:
        return self._iter()  # type: ignore[no-any-return]

    members = {
        "__slots__": ("_parent", "_choice"),
        "__module__": snappi.__name__,
        "__doc__": f"A list of OTG's {name}.",
        "_GETITEM_RETURNS_CHOICE_OBJECT": False,
        "__init__": begin,
        "__getitem__": lambda self, key: self._getitem(key),
        "__iter__": items,
        "__next__": lambda self: self._next(),
        "next": lambda self: self._next(),
        "_instanceOf": require,
        name.rsplit(".", 1)[-1].lower(): append,
        "add": added,
    }
    return type(f"{_name(name)}Iter", (snappi.OpenApiIter,), members)
