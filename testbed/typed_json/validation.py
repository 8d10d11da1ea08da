"""Reading JSON from others: strict, bounded in size and time, with errors that say where, what and how to mend it.

`read` takes octets and refuses what JSON leaves to taste: a name that comes twice in an object, numbers with a fraction
(nothing here needs one), NaN, text that is no Unicode. `check` holds a value against a schema. The schemas are
JSON Schema as far as it is used here, so that the same dictionaries stand in the OpenAPI document of the controller:
type, const, enum, pattern, format, lengths, bounds, items, properties, required, additionalProperties, propertyNames,
oneOf with a discriminator, and $ref into a table of definitions. Whatever else stands in a schema has no effect, but
for words that would have one: they are refused, so that no schema promises what is not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from itertools import islice
from typing import Any, NoReturn

from testbed.errors import UsageError

Schema = Mapping[str, Any]

DEEPEST = 32
"""How deep lists and objects may be inside each other. No message needs a third of it."""
MOST_VALUES = 1 << 19
"""How many values one text may have. A report with 4096 SIDs and 16384 items has fewer."""

_WITHOUT_EFFECT = {"description", "title", "examples", "default", "$comment"}
_KNOWN = _WITHOUT_EFFECT | {
    "type", "const", "enum", "pattern", "format", "minLength", "maxLength", "minimum", "maximum", "items", "minItems",
    "maxItems", "uniqueItems", "properties", "required", "additionalProperties", "propertyNames", "oneOf",
    "discriminator", "$ref",
}  # fmt: skip
_LONGEST_SHOWN = 60
_MOST_SHOWN, _LEVELS_SHOWN = 6, 3

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'"[]{}'))
_QUOTED = re.compile(rb'"[^"]*"')
_INNERMOST = re.compile(rb"\[\]|{}")

_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "object": (lambda value: isinstance(value, dict), "an object"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "string": (lambda value: isinstance(value, str), "text"),
    "integer": (lambda value: type(value) is int, "a whole number"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "null": (lambda value: value is None, "null"),
}


class InvalidError(UsageError):
    """A value that cannot be taken: which field, what stands there, and what has to."""

    def __init__(self, field: str, value: object, wanted: str) -> None:
        super().__init__(f"{field or 'the whole'} {shown(value)}; {wanted}")
        self.field = field
        self.value = value
        self.wanted = wanted


class _Absent:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def shown(value: object) -> str:
    """A value in a sentence, never long: "is 'x'", or "is missing"."""
    if value is ABSENT:
        return "is missing"
    text = brief(value)
    return f"is {text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + '...'}"


def brief(value: object, longest: int = _LONGEST_SHOWN, levels: int = _LEVELS_SHOWN) -> str:
    """A value in ASCII, in bounded time: of a long or deep one the beginning."""
    if isinstance(value, str | bytes):
        return ascii(value[:longest])
    if isinstance(value, dict):
        members = [f"{brief(k, longest, 0)}: {brief(v, longest, levels - 1)}" for k, v in _some(value.items(), levels)]
    elif isinstance(value, list | tuple):
        members = [brief(member, longest, levels - 1) for member in _some(value, levels)]
    else:
        return ascii(value)[:longest]
    members += ["..."] if len(members) < len(value) else []
    return ("{%s}" if isinstance(value, dict) else "[%s]") % ", ".join(members)


def _some(values: Iterable[Any], levels: int) -> Iterable[Any]:
    return islice(values, _MOST_SHOWN if levels > 0 else 0)


def read(octets: bytes, most_values: int = MOST_VALUES) -> Any:
    """The value of a JSON text; InvalidError for everything that is none, is not plain, is too deep or has too much."""
    if octets.count(b",") + octets.count(b"[") + octets.count(b"{") > most_values:
        raise InvalidError("", octets[:_LONGEST_SHOWN], f"it has too many values; {most_values} may be")
    if _is_deep(octets):
        raise InvalidError("", octets[:_LONGEST_SHOWN], f"it is nested too deep; {DEEPEST} levels may be")
    try:
        text = octets.decode()
        value = json.loads(
            text, object_pairs_hook=_object, parse_float=_no_fraction, parse_constant=_no_fraction, parse_int=_number
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no character
    except UnicodeError:
        raise InvalidError("", octets[:_LONGEST_SHOWN], "it has to be JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        text = f"it has to be JSON: {error.msg} at character {error.pos}"
        raise InvalidError("", octets[:_LONGEST_SHOWN], text) from None
    except RecursionError:
        raise InvalidError("", octets[:_LONGEST_SHOWN], "it is no JSON, and nested too deep besides") from None
    return value


def _is_deep(octets: bytes) -> bool:
    """Whether lists and objects are nested deeper than `DEEPEST`; in linear time, before anything is parsed.

    Each round takes the innermost pairs away, so the rounds are the depth. What does not come in pairs is no JSON; that
    is for the parser to find.
    """
    if octets.count(b"[") + octets.count(b"{") <= DEEPEST:
        return False
    if b"\\" in octets:
        octets = _ESCAPED.sub(b"", octets)
    left = _QUOTED.sub(b"", octets.translate(None, _NOT_STRUCTURE))
    for _ in range(DEEPEST):
        left, pairs = _INNERMOST.subn(b"", left)
        if not pairs:
            return False
    return _INNERMOST.search(left) is not None


def check(value: Any, schema: Schema | bool, definitions: Mapping[str, Schema] | None = None, field: str = "") -> None:
    """InvalidError for the first thing, in the order of the schema, that does not fit."""
    if isinstance(schema, bool):  # JSON Schema's word for anything, or nothing, as after "additionalProperties"
        if not schema:
            raise InvalidError(field, value, "leave it out")
        return
    definitions = definitions or {}
    if unknown := schema.keys() - _KNOWN:
        raise AssertionError(f"a schema says {', '.join(sorted(unknown))}, which nobody would check")
    if "$ref" in schema:
        check(value, definitions[schema["$ref"].rpartition("/")[2]], definitions, field)
        return
    if "oneOf" in schema:
        check(value, _chosen(value, schema, definitions, field), definitions, field)
        return
    _check_type(value, schema, field)
    if "const" in schema and value != schema["const"]:
        raise InvalidError(field, value, f"it has to be {schema['const']!a}")
    if "enum" in schema and value not in schema["enum"]:
        raise InvalidError(field, value, f"there are {', '.join(map(str, schema['enum']))}")
    if isinstance(value, str):
        _check_text(value, schema, field)
    elif type(value) is int:
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            raise InvalidError(field, value, f"it has to be {_bounds(schema)}")
    elif isinstance(value, list):
        _check_list(value, schema, definitions, field)
    elif isinstance(value, dict):
        _check_object(value, schema, definitions, field)


def _chosen(value: Any, schema: Schema, definitions: Mapping[str, Schema], field: str) -> Schema:
    """The branch that the discriminator names. Errors then speak of that branch and of no other."""
    name = schema["discriminator"]["propertyName"]
    branches = {}
    for branch in schema["oneOf"]:
        whole = definitions[branch["$ref"].rpartition("/")[2]] if "$ref" in branch else branch
        branches[whole["properties"][name]["const"]] = whole
    if not isinstance(value, dict):
        raise InvalidError(field, value, "it has to be an object")
    said = value.get(name, ABSENT)
    if not isinstance(said, str) or said not in branches:
        raise InvalidError(_below(field, name), said, f"there are {', '.join(branches)}")
    chosen: Schema = branches[said]
    return chosen


def _check_type(value: Any, schema: Schema, field: str) -> None:
    allowed = schema.get("type", [])
    kinds = [allowed] if isinstance(allowed, str) else allowed
    if kinds and not any(_TYPES[kind][0](value) for kind in kinds):
        wanted = " or ".join(_TYPES[kind][1] for kind in kinds)
        raise InvalidError(field, value, f"it has to be {wanted}{_example(schema)}")


def _check_text(value: str, schema: Schema, field: str) -> None:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < shortest or (longest is not None and len(value) > longest):
        raise InvalidError(field, value, f"it has to have {shortest} to {longest} characters")
    if "pattern" in schema and not _pattern(schema["pattern"]).fullmatch(value):
        raise InvalidError(field, value, f"it has to look like {schema['pattern'].strip('^$')}{_example(schema)}")
    if "format" in schema:
        kind, reader = _FORMATS[schema["format"]]
        try:
            reader(value)
        except ValueError:
            raise InvalidError(field, value, f"it has to be {kind}{_example(schema)}") from None


def _check_list(value: list[Any], schema: Schema, definitions: Mapping[str, Schema], field: str) -> None:
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        raise InvalidError(field, value, f"it has {len(value)} members and has to have {least} to {most}")
    seen = set[str]()
    for index, member in enumerate(value):
        check(member, schema.get("items", {}), definitions, f"{field}[{index}]")
        if schema.get("uniqueItems"):
            if (text := json.dumps(member, sort_keys=True)) in seen:
                raise InvalidError(f"{field}[{index}]", member, "it is there already; leave one of the two out")
            seen.add(text)


def _check_object(value: dict[str, Any], schema: Schema, definitions: Mapping[str, Schema], field: str) -> None:
    for name in schema.get("required", ()):
        if name not in value:
            wanted = schema["properties"][name]
            raise InvalidError(_below(field, name), ABSENT, f"add it{_example(_resolved(wanted, definitions))}")
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", {})
    for name, member in value.items():
        if "propertyNames" in schema:
            check(name, schema["propertyNames"], definitions, f"a name in {field or 'the whole'}")
        if name in properties:
            check(member, properties[name], definitions, _below(field, name))
        elif others is False:
            raise InvalidError(
                _below(field, name[:_LONGEST_SHOWN]), member, f"leave it out; there are {', '.join(properties)}"
            )
        else:
            check(member, others, definitions, _below(field, name))


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is None:
        return f"{low} or more"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _example(schema: Schema) -> str:
    return f", as in {json.dumps(schema['examples'][0])}" if "examples" in schema else ""


def _below(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


def _plain_ipv6(text: str) -> IPv6Address:
    address = IPv6Address(text)
    if address.scope_id is not None:
        raise ValueError("an address with a zone is not the same for everybody")
    return address


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "ipv4": ("an IPv4 address", IPv4Address),
    "ipv6": ("an IPv6 address", _plain_ipv6),
    "prefix": ("an IPv4 or IPv6 prefix without host bits", ip_network),
}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidError(
            "", dict(pairs[:8]), f"{twice[:_LONGEST_SHOWN]!a} comes twice in one object; it may come once"
        )
    return found


def _no_fraction(text: str) -> NoReturn:
    raise InvalidError("", text, "numbers are whole here, without fraction or exponent")


def _number(text: str) -> int:
    if len(text) > _LONGEST_SHOWN:
        raise InvalidError("", text[:_LONGEST_SHOWN], "no number here has so many digits")
    return int(text)
