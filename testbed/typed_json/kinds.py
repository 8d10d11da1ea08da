"""The kinds of values in JSON: each decodes, encodes, and gives its JSON Schema.

Decoding is compiled: a `ValueKind` is built once for a type, and a valid value costs one call per member. The path of
an invalid value is put together while its exception goes up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network
from typing import Any

from testbed.errors import UsageError
from testbed.typed_json.meta import ClassMeta, Meta
from testbed.typed_json.text import ABSENT

Schema = dict[str, Any]
_LONGEST_NAME = 60


class Invalid(Exception):
    """A value is invalid. `path` has the steps to it, the innermost first."""

    def __init__(self, value: object, wanted: str, cause: UsageError | None = None) -> None:
        super().__init__(wanted)
        self.value, self.wanted, self.cause = value, wanted, cause
        self.path: list[str | int] = []

    @property
    def field(self) -> str:
        text = ""
        for step in reversed(self.path):
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text


class ValueKind:
    """A kind of value."""

    def __init__(self, meta: Meta = Meta()) -> None:
        self.meta = meta

    def decode(self, value: Any) -> Any:
        """Return the Python value of a JSON value, or Invalid."""
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        return value

    def schema(self, components: dict[str, Schema]) -> Schema:
        """Return the JSON Schema. A class puts its own into `components`, and the result refers to it."""
        return {**self._type(components), **self._documentation()}

    def _type(self, components: dict[str, Schema]) -> Schema:
        raise NotImplementedError

    def _documentation(self) -> Schema:
        found = {"description": self.meta.description, "examples": self.meta.examples and list(self.meta.examples)}
        return {name: value for name, value in found.items() if value}

    @property
    def example(self) -> str:
        return f", for example {self.meta.examples[0]!a}" if self.meta.examples else ""


class Anything(ValueKind):
    """Any JSON value."""

    def decode(self, value: Any) -> Any:
        return value

    def _type(self, components: dict[str, Schema]) -> Schema:
        return {}


class Flag(ValueKind):
    def decode(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Invalid(value, "must be true or false")

    def _type(self, components: dict[str, Schema]) -> Schema:
        return {"type": "boolean"}


class Integer(ValueKind):
    def __init__(self, meta: Meta = Meta()) -> None:
        super().__init__(meta)
        low, high = meta.ge, meta.le
        self._bounds = f"{low} or more" if high is None else f"at most {high}" if low is None else f"{low} to {high}"

    def decode(self, value: Any) -> int:
        if type(value) is not int:
            raise Invalid(value, f"must be an integer{self.example}")
        low, high = self.meta.ge, self.meta.le
        if (low is not None and value < low) or (high is not None and value > high):
            raise Invalid(value, f"must be {self._bounds}")
        return value

    def _type(self, components: dict[str, Schema]) -> Schema:
        bounds = {"minimum": self.meta.ge, "maximum": self.meta.le}
        return {"type": "integer", **{name: value for name, value in bounds.items() if value is not None}}


class Text(ValueKind):
    def __init__(self, meta: Meta = Meta()) -> None:
        super().__init__(meta)
        self._pattern = re.compile(meta.pattern, re.ASCII) if meta.pattern else None
        self._shortest = meta.min_length or 0
        self._longest = meta.max_length if meta.max_length is not None else 1 << 62

    def decode(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise Invalid(value, f"must be text{self.example}")
        if not self._shortest <= len(value) <= self._longest:
            raise Invalid(value, f"must have {self._shortest} to {self._longest} characters")
        if self._pattern is not None and not self._pattern.fullmatch(value):
            assert self.meta.pattern is not None
            raise Invalid(value, f"must match {self.meta.pattern.strip('^$')}{self.example}")
        return value

    def _type(self, components: dict[str, Schema]) -> Schema:
        found = {"minLength": self.meta.min_length, "maxLength": self.meta.max_length, "pattern": self.meta.pattern}
        return {"type": "string", **{name: value for name, value in found.items() if value is not None}}


@dataclass(frozen=True)
class TextForm:
    """A Python class that is text in JSON."""

    parse: Callable[[str], object]
    format: str
    what: str
    longest: int


def _ipv6_without_zone(text: str) -> IPv6Address:
    address = IPv6Address(text)
    if address.scope_id is not None:
        raise ValueError("an address with a zone means something on one host only")
    return address


FORMS: dict[Any, TextForm] = {
    IPv4Address: TextForm(IPv4Address, "ipv4", "an IPv4 address", 15),
    IPv6Address: TextForm(_ipv6_without_zone, "ipv6", "an IPv6 address", 45),
    IPv6Network: TextForm(IPv6Network, "prefix", "an IPv6 prefix without host bits", 49),
    "prefix": TextForm(ip_network, "prefix", "an IPv4 or IPv6 prefix without host bits", 49),
}


class FormattedText(Text):
    """Text that stands for an object, such as an address."""

    def __init__(self, form: TextForm, meta: Meta = Meta()) -> None:
        super().__init__(meta.over(Meta(max_length=form.longest)))
        self._form = form

    def decode(self, value: Any) -> Any:
        try:
            return self._form.parse(super().decode(value))
        except ValueError:
            raise Invalid(value, f"must be {self._form.what}{self.example}") from None

    def encode(self, value: Any) -> Any:
        return str(value)

    def _type(self, components: dict[str, Schema]) -> Schema:
        return {**super()._type(components), "format": self._form.format}


class Choice(ValueKind):
    """One of some texts: Literal, an enum, or the names of a registry."""

    def __init__(self, values: Mapping[str, Any], meta: Meta = Meta()) -> None:
        super().__init__(meta)
        self._values = values

    def decode(self, value: Any) -> Any:
        if not isinstance(value, str) or value not in self._values:
            raise Invalid(value, f"must be one of {', '.join(self._values)}")
        return self._values[value]

    def encode(self, value: Any) -> Any:
        return str(value)

    def _type(self, components: dict[str, Schema]) -> Schema:
        return {"type": "string", "enum": list(self._values)}


class OrNull(ValueKind):
    def __init__(self, inner: ValueKind, meta: Meta = Meta()) -> None:
        super().__init__(meta)
        self._inner = inner

    def decode(self, value: Any) -> Any:
        return None if value is None else self._inner.decode(value)

    def encode(self, value: Any) -> Any:
        return None if value is None else self._inner.encode(value)

    def _type(self, components: dict[str, Schema]) -> Schema:
        inner = self._inner.schema(components)
        if isinstance(inner.get("type"), str):
            return {**inner, "type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}


class Array(ValueKind):
    """A list of values of one kind."""

    def __init__(
        self, make: type[tuple[Any, ...]] | type[frozenset[Any]], inner: ValueKind, meta: Meta = Meta()
    ) -> None:
        super().__init__(meta)
        self._make, self._inner, self._is_set = make, inner, make is frozenset
        self._least = meta.min_length or 0
        self._most = meta.max_length if meta.max_length is not None else 1 << 62

    def decode(self, value: Any) -> Any:
        if not isinstance(value, list):
            raise Invalid(value, f"must be a list{self.example}")
        if not self._least <= len(value) <= self._most:
            most = "or more" if self.meta.max_length is None else f"to {self._most}"
            raise Invalid(value, f"must have {self._least} {most} members, not {len(value)}")
        items, seen, decode = list[Any](), set[Any](), self._inner.decode
        index = 0
        try:
            for index, member in enumerate(value):  # noqa: B007
                items.append(decode(member))
                if self.meta.unique:
                    if items[-1] in seen:
                        raise Invalid(member, "repeated; leave one of the two out")
                    seen.add(items[-1])
        except Invalid as invalid:
            invalid.path.append(index)
            raise
        return self._make(items)

    def encode(self, value: Any) -> list[Any]:
        return [self._inner.encode(member) for member in (sorted(value) if self._is_set else value)]

    def _type(self, components: dict[str, Schema]) -> Schema:
        found = {
            "minItems": self.meta.min_length, "maxItems": self.meta.max_length, "uniqueItems": self.meta.unique
        }  # fmt: skip
        return {
            "type": "array",
            "items": self._inner.schema(components),
            **{name: value for name, value in found.items() if value is not None},
        }


class Table(ValueKind):
    """An object with any member names, and values of one kind: a Mapping, or a sorted tuple of pairs."""

    def __init__(self, names: ValueKind, inner: ValueKind, meta: Meta = Meta()) -> None:
        super().__init__(meta)
        self._names, self._inner = names, inner

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Invalid(value, "must be an object")
        members = dict[str, Any]()
        for name, member in value.items():
            try:
                decoded_name = self._names.decode(name)
            except Invalid as invalid:
                raise Invalid(value, f"the member name {name[:_LONGEST_NAME]!a} {invalid.wanted}") from None
            try:
                members[decoded_name] = self._inner.decode(member)
            except Invalid as invalid:
                invalid.path.append(name[:_LONGEST_NAME])
                raise
        return tuple(sorted(members.items())) if self.meta.pairs else members

    def encode(self, value: Any) -> dict[str, Any]:
        return {name: self._inner.encode(member) for name, member in (value if self.meta.pairs else value.items())}

    def _type(self, components: dict[str, Schema]) -> Schema:
        names, members = self._names.schema(components), self._inner.schema(components)
        found: Schema = {"type": "object"}
        found |= {"propertyNames": names} if len(names) > 1 else {}
        return found | ({"additionalProperties": members} if members else {})


class Adapted(ValueKind):
    """A class whose JSON is that of another described class."""

    def __init__(self, inner: ValueKind, to_wire: Callable[[Any], Any], from_wire: Callable[[Any], Any]) -> None:
        super().__init__()
        self._inner, self._to_wire, self._from_wire = inner, to_wire, from_wire

    def decode(self, value: Any) -> Any:
        try:
            return self._from_wire(self._inner.decode(value))
        except UsageError as error:
            raise Invalid(value, str(error), error) from None

    def encode(self, value: Any) -> Any:
        return self._inner.encode(self._to_wire(value))

    def schema(self, components: dict[str, Schema]) -> Schema:
        return self._inner.schema(components)


@dataclass(frozen=True)
class ObjectMember:
    """A member of an object: the field that it fills, or a field of the flattened field `inside`."""

    field: str
    kind: ValueKind
    is_required: bool
    inside: str = ""
    default: Any = ABSENT
    is_sparse: bool = False  # None is left out


class Object(ValueKind):
    """A dataclass."""

    def __init__(
        self, cls: type, about: ClassMeta, members: Mapping[str, ObjectMember], flattened: Mapping[str, type], text: str
    ) -> None:
        super().__init__(Meta(description=text or None))
        self.cls, self.about = cls, about
        self.members, self._flattened = members, flattened
        self._required = [name for name, member in members.items() if member.is_required]

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Invalid(value, "must be an object")
        tag_field = self.about.tag_field if self.about.tag else None
        if tag_field is not None and value.get(tag_field, ABSENT) != self.about.tag:
            invalid = Invalid(value.get(tag_field, ABSENT), f"must be {self.about.tag!r}")
            invalid.path.append(tag_field)
            raise invalid
        for name in self._required:
            if name not in value:
                invalid = Invalid(ABSENT, f"add it{self.members[name].kind.example}")
                invalid.path.append(name)
                raise invalid
        members: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {name: {} for name in self._flattened}
        for name, content in value.items():
            member = self.members.get(name)
            if member is None:
                self._check_unknown(name, content, tag_field)
                continue
            try:
                decoded = member.kind.decode(content)
            except Invalid as invalid:
                invalid.path.append(name)
                raise
            (inside[member.inside] if member.inside else members)[member.field] = decoded
        try:
            for name, cls in self._flattened.items():
                members[name] = cls(**inside[name])
            return self.cls(**members)
        except UsageError as error:
            raise Invalid(value, str(error), error) from None

    def _check_unknown(self, name: str, content: Any, tag_field: str | None) -> None:
        if self.about.open or name == tag_field:
            return
        there = ", ".join([tag_field, *self.members] if tag_field else self.members) or "none"
        invalid = Invalid(content, f"unknown member; known are {there}")
        invalid.path.append(name[:_LONGEST_NAME])
        raise invalid

    def encode(self, value: Any) -> dict[str, Any]:
        found = {self.about.tag_field: self.about.tag} if self.about.tag else {}
        for name, member in self.members.items():
            holder = getattr(value, member.inside) if member.inside else value
            content = getattr(holder, member.field)
            if content is not None or not member.is_sparse:
                found[name] = member.kind.encode(content)
        return found

    def schema(self, components: dict[str, Schema]) -> Schema:
        if self.about.name not in components:
            components[self.about.name] = {}  # while it is made
            components[self.about.name] = self._whole(components)
        return {"$ref": f"#/components/schemas/{self.about.name}"}

    def _whole(self, components: dict[str, Schema]) -> Schema:
        properties: Schema = {}
        if self.about.tag:
            properties[self.about.tag_field] = {"type": "string", "const": self.about.tag}
        for name, member in self.members.items():
            properties[name] = member.kind.schema(components)
            if member.default is not ABSENT and not member.is_required:
                properties[name] |= {"default": member.kind.encode(member.default)}
        required = ([self.about.tag_field] if self.about.tag else []) + self._required
        found = {"type": "object", **self._documentation(), "properties": properties, "required": required}
        return found | {"additionalProperties": self.about.open}


class Tagged(ValueKind):
    """One of several dataclasses, told apart by a tag."""

    def __init__(self, members: Sequence[Object], meta: Meta = Meta()) -> None:
        super().__init__(meta)
        self._field = members[0].about.tag_field
        self._by_tag = {member.about.tag: member for member in members}
        self._by_class = {member.cls: member for member in members}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise Invalid(value, "must be an object")
        tag = value.get(self._field, ABSENT)
        if not isinstance(tag, str) or tag not in self._by_tag:
            invalid = Invalid(tag, f"must be one of {', '.join(self._by_tag)}")
            invalid.path.append(self._field)
            raise invalid
        return self._by_tag[tag].decode(value)

    def encode(self, value: Any) -> Any:
        return self._by_class[type(value)].encode(value)

    def _type(self, components: dict[str, Schema]) -> Schema:
        branches = [member.schema(components) for member in self._by_tag.values()]
        return {"oneOf": branches, "discriminator": {"propertyName": self._field}}
