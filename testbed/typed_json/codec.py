"""One description for each message: a dataclass. Decoding, encoding and JSON Schema follow from its type hints.

    @message(tag="pause")
    @dataclass(frozen=True)
    class Pause:
        sid: IPv6Address
        priority: Annotated[int, Meta(ge=0, le=7)]
        slice_id: Annotated[int | None, Meta(name="slice")] = None

    CODEC.decode(Pause, read(octets))        InvalidError names the member, its value, and what is valid
    CODEC.encode(pause)                      plain data for json.dumps
    CODEC.schema(Pause, components)          the same as JSON Schema

Hints may be: str, int, bool, Any, addresses and prefixes, enums of texts, registries (classes with `json_choices`),
Literal, dataclasses, unions of dataclasses with tags, `X | None`, `tuple[X, ...]`, `frozenset[X]`, `Mapping[str, X]`,
and `tuple[tuple[str, X], ...]` with `Meta(pairs=True)`. Any other hint is a TypeError at the first use of the class. A
member with a default may be left out, unless the class is `complete`. What a constructor refuses by a UsageError is
invalid as well.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from testbed.typed_json.kinds import (
    FORMS,
    Adapted,
    Anything,
    Array,
    Choice,
    Flag,
    FormattedText,
    Integer,
    Invalid,
    Object,
    ObjectMember,
    OrNull,
    Schema,
    Table,
    Tagged,
    Text,
    ValueKind,
)
from testbed.typed_json.meta import Meta, class_meta
from testbed.typed_json.text import ABSENT, InvalidError

_PREFIXES = {IPv4Network, IPv6Network}


@dataclass(frozen=True)
class Adapter:
    """The form in JSON of a class that has no description of its own: that of a described class."""

    wire: type
    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]  # may raise UsageError


class Codec:
    """Decodes and encodes described classes. It compiles a decoder for a class once."""

    def __init__(self, adapters: Mapping[type, Adapter] | None = None) -> None:
        self._adapters = dict(adapters or {})
        self._kinds: dict[Any, ValueKind] = {}

    def decode(self, hint: Any, value: object, field: str = "") -> Any:
        """Return the value of a type. InvalidError if the JSON is invalid; the constructor's own error if that
        refuses.
        """
        try:
            return self.kind(hint).decode(value)
        except Invalid as invalid:
            place = invalid.field
            if invalid.cause is not None and not place and not field:
                raise invalid.cause from None
            joint = "." if field and place and not place.startswith("[") else ""
            raise InvalidError(f"{field}{joint}{place}", invalid.value, invalid.wanted) from None

    def encode(self, value: Any, hint: Any = None) -> Any:
        return self.kind(type(value) if hint is None else hint).encode(value)

    def schema(self, hint: Any, components: dict[str, Schema]) -> Schema:
        """Return the JSON Schema of a type. The schemas of classes go into `components`."""
        return self.kind(hint).schema(components)

    def kind(self, hint: Any) -> ValueKind:
        if (found := self._kinds.get(hint)) is None:
            found = self._kinds[hint] = self._build(hint, Meta())
        return found

    def _build(self, hint: Any, meta: Meta) -> ValueKind:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            for inner in arguments[:0:-1]:
                meta = meta.over(inner) if isinstance(inner, Meta) else meta
            return self._build(arguments[0], meta)
        if hint in self._adapters:
            adapter = self._adapters[hint]
            return Adapted(self.kind(adapter.wire), adapter.to_wire, adapter.from_wire)
        if origin in (Union, types.UnionType):
            return self._union(arguments, meta)
        if origin is Literal:
            return Choice({text: text for text in arguments}, meta)
        if origin is frozenset:
            return Array(frozenset, self.kind(arguments[0]), meta)
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            if meta.pairs:
                name, value = get_args(arguments[0])
                return Table(self.kind(name), self.kind(value), meta)
            return Array(tuple, self.kind(arguments[0]), meta)
        if origin is not None and issubclass(origin, Mapping):
            return Table(self.kind(arguments[0]), self.kind(arguments[1]), meta)
        if hint in FORMS:
            return FormattedText(FORMS[hint], meta)
        if (plain := {str: Text, int: Integer, bool: Flag, Any: Anything, object: Anything}.get(hint)) is not None:
            return plain(meta)
        if hasattr(hint, "json_choices"):
            return Choice(
                {name: one for name, one in hint.json_choices().items() if name in (meta.only or (name,))}, meta
            )
        if isinstance(hint, type) and issubclass(hint, StrEnum):
            return Choice({member.value: member for member in hint if member in (meta.only or hint)}, meta)
        if is_dataclass(hint):
            assert isinstance(hint, type)
            return self._object(hint)
        raise TypeError(f"{hint!r} has no form in JSON")

    def _union(self, arguments: tuple[Any, ...], meta: Meta) -> ValueKind:
        others = tuple(argument for argument in arguments if argument is not types.NoneType)
        if len(others) < len(arguments):
            inner: Any = functools.reduce(operator.or_, others)
            return OrNull(self._build(inner, meta), Meta(description=meta.description, examples=meta.examples))
        if set(others) == _PREFIXES:
            return FormattedText(FORMS["prefix"], meta)
        members = [self.kind(argument) for argument in others]
        objects = [member for member in members if isinstance(member, Object) and member.about.tag]
        if len(objects) < len(members):
            raise TypeError(f"of the union {others!r} not every member is a dataclass with a tag")
        return Tagged(objects, meta)

    def _object(self, cls: type) -> Object:
        about, hints = class_meta(cls), get_type_hints(cls, include_extras=True)
        members: dict[str, ObjectMember] = {}
        flattened: dict[str, type] = {}
        for field in fields(cls):
            if not field.init:
                continue
            meta, kind = _own_meta(hints[field.name]), self._build(hints[field.name], Meta())
            default = field.default if field.default is not MISSING else ABSENT
            if field.default_factory is not MISSING:
                default = field.default_factory()
            if meta.flatten:
                assert isinstance(kind, Object)
                flattened[field.name] = kind.cls
                for name, inner in kind.members.items():
                    is_required = inner.is_required or about.complete
                    members[name] = replace(inner, inside=field.name, is_required=is_required)
            else:
                is_required = about.complete or default is ABSENT
                members[meta.name or field.name] = ObjectMember(
                    field.name, kind, is_required, "", default, about.sparse
                )
        text = cls.__doc__ or ""
        if text.startswith(f"{cls.__name__}("):  # made by `dataclass`
            text = ""
        return Object(cls, about, members, flattened, " ".join(text.split("\n\n")[0].split()))


def _own_meta(hint: Any) -> Meta:
    """Return the `Meta` that stands at the field itself."""
    meta = Meta()
    if get_origin(hint) is Annotated:
        for inner in get_args(hint)[:0:-1]:
            meta = meta.over(inner) if isinstance(inner, Meta) else meta
    return meta


CODEC = Codec()
"""The codec for classes that need no adapter."""
