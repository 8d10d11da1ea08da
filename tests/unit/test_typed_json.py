"""JSON from other parties: its reading and refusal, and the forms that follow from one description."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.typed_json.codec import CODEC, Adapter, Codec
from testbed.typed_json.meta import Meta, message
from testbed.typed_json.text import InvalidError, brief, read

# Text


@given(st.binary(max_size=60))
def test_octets_are_json_or_refused(octets: bytes) -> None:
    try:
        read(octets)
    except InvalidError as error:
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b'{"a":1,"a":2}', "member 'a' is repeated in one object"),
        (b"[1.5]", "must be an integer without fraction or exponent"),
        (b"[1e3]", "must be an integer without"),
        (b"[NaN]", "must be an integer without"),
        (b"[-Infinity]", "must be an integer without"),
        (b"1" * 5000, "the number has too many digits; at most 60"),
        (b"[" * 100_000, "not JSON, and nested too deep"),
        (b"[" * 33 + b"]" * 33, "nested too deep; at most 32 levels"),
        (b'{"a":[' * 17 + b"1" + b"]}" * 17, "nested too deep; at most 32 levels"),
        (b"[" + b"{}," * 600_000 + b"{}]", "too many values; at most 524288"),
        (b'"\\ud800"', "must be JSON in UTF-8"),
        (b"\xff", "must be JSON in UTF-8"),
        (b"{", "must be JSON: Expecting property name enclosed in double quotes at character 1"),
    ],
)
def test_json_that_leaves_a_choice_is_refused(octets: bytes, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(octets)
    assert message in str(caught.value) and len(str(caught.value)) < 300


def test_brackets_inside_texts_are_no_levels() -> None:
    text = "[" * 50 + '"' + "{" * 50 + "\\"
    assert read(json.dumps([text, [text]]).encode()) == [text, [text]]
    assert read(b"[" * 32 + b"]" * 32)


def test_a_long_or_deep_value_is_shown_by_its_beginning() -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    assert brief(deep) == "[[[[...]]]]"
    assert brief({"a": list(range(9)), "b": "x" * 100}) == "{'a': [0, 1, 2, 3, 4, 5, ...], 'b': '" + "x" * 60 + "'}"


# One description


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Key:
    """The identity of a thing."""

    left: Annotated[str, Meta(pattern="^[a-z]+$", examples=("ab",))]
    right: int = 0


@message(tag="round")
@dataclass(frozen=True)
class Round:
    """A round shape."""

    radius: Annotated[int, Meta(ge=1)]

    def __post_init__(self) -> None:
        if self.radius == 13:
            raise UsageError("radius 13 is unlucky; choose another")


@message(tag="angular")
@dataclass(frozen=True)
class Angular:
    """A shape with sides."""

    sides: Annotated[tuple[int, ...], Meta(min_length=3, max_length=5, unique=True)]


@dataclass(frozen=True)
class Everything:
    """One member of each kind."""

    key: Annotated[Key, Meta(flatten=True)]
    shape: Round | Angular
    prefix: IPv4Network | IPv6Network
    flag: bool = False
    colour: Annotated[Colour, Meta(description="Of the paint")] = Colour.RED
    only: Annotated[Colour, Meta(only=("red",))] = Colour.RED
    word: Literal["a", "b"] = "a"
    address: IPv6Address | None = None
    renamed: Annotated[int | None, Meta(name="class", le=9)] = None
    tags: frozenset[str] = frozenset()
    table: Annotated[tuple[tuple[str, int], ...], Meta(pairs=True)] = ()
    mapping: Annotated[Mapping[str, Any] | None, Meta(description="Anything")] = None


ROUND = {"type": "round", "radius": 2}
LEAST = {"left": "x", "shape": ROUND, "prefix": "10.0.0.0/8"}
FULL = Everything(
    Key("ab", 7),
    Angular((3, 4, 5)),
    ip_network("fd00::/16"),
    True,
    Colour.BLUE,
    Colour.RED,
    "b",
    IPv6Address("fd00::1"),
    9,
    frozenset({"y", "x"}),
    (("a", 1), ("b", 2)),
    {"any": [None]},
)


def test_what_is_encoded_is_decoded_to_the_same() -> None:
    encoded = CODEC.encode(FULL)
    assert encoded["tags"] == ["x", "y"] and encoded["class"] == 9 and encoded["table"] == {"a": 1, "b": 2}
    assert CODEC.decode(Everything, json.loads(json.dumps(encoded))) == FULL


def test_members_with_a_default_may_be_left_out() -> None:
    assert CODEC.decode(Everything, LEAST) == Everything(Key("x"), Round(2), ip_network("10.0.0.0/8"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"left": "X"}, "left is 'X'; must match [a-z]+, for example 'ab'"),
        ({"right": True}, "right is True; must be an integer"),
        ({"shape": {"type": "flat"}}, "shape.type is 'flat'; must be one of round, angular"),
        ({"shape": {}}, "shape.type is missing; must be one of round, angular"),
        ({"shape": {"type": "round"}}, "shape.radius is missing; add it"),
        ({"shape": {"type": "round", "radius": 0}}, "shape.radius is 0; must be 1 or more"),
        ({"shape": {"type": "round", "radius": 13}}, "shape is {'type': 'round', 'radius': 13}; radius 13 is unlucky"),
        ({"shape": {"type": "angular", "sides": [1, 2]}}, "shape.sides is [1, 2]; must have 3 to 5 members, not 2"),
        ({"shape": {"type": "angular", "sides": [1, 2, 1]}}, "shape.sides[2] is 1; repeated"),
        ({"shape": 7}, "shape is 7; must be an object"),
        ({"prefix": "10.0.0.1/8"}, "prefix is '10.0.0.1/8'; must be an IPv4 or IPv6 prefix without host bits"),
        ({"flag": 1}, "flag is 1; must be true or false"),
        ({"colour": "green"}, "colour is 'green'; must be one of red, blue"),
        ({"only": "blue"}, "only is 'blue'; must be one of red"),
        ({"word": None}, "word is None; must be one of a, b"),
        ({"address": "fd00::1%eth0"}, "address is 'fd00::1%eth0'; must be an IPv6 address"),
        ({"address": "f" * 46}, "must have 0 to 45 characters"),
        ({"class": 10}, "class is 10; must be at most 9"),
        ({"renamed": 1}, "renamed is 1; unknown member; known are left, right, shape, prefix, flag"),
        ({"tags": "x"}, "tags is 'x'; must be a list"),
        ({"table": {"a": "1"}}, "table.a is '1'; must be an integer"),
        ({"mapping": []}, "mapping is []; must be an object"),
    ],
)
def test_an_invalid_member_is_named_with_its_value_and_what_is_valid(change: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        CODEC.decode(Everything, LEAST | change)
    assert text in str(caught.value)


def test_a_constructors_own_error_comes_through_at_the_top() -> None:
    with pytest.raises(UsageError, match=r"^radius 13 is unlucky; choose another$") as caught:
        CODEC.decode(Round, {"type": "round", "radius": 13})
    assert not isinstance(caught.value, InvalidError)


def test_the_schema_has_the_limits_the_defaults_and_the_descriptions() -> None:
    components: dict[str, Any] = {}
    assert CODEC.schema(Everything, components) == {"$ref": "#/components/schemas/Everything"}
    assert components.keys() == {"Everything", "Round", "Angular"}
    whole = components["Everything"]
    assert whole["required"] == ["left", "shape", "prefix"] and whole["additionalProperties"] is False
    properties = whole["properties"]
    assert properties["left"] == {"type": "string", "pattern": "^[a-z]+$", "examples": ["ab"]}
    assert properties["class"] == {"type": ["integer", "null"], "maximum": 9, "default": None}
    assert properties["colour"] == {
        "type": "string", "enum": ["red", "blue"], "default": "red", "description": "Of the paint"
    }  # fmt: skip
    assert properties["only"]["enum"] == ["red"]
    assert properties["shape"]["discriminator"] == {"propertyName": "type"}
    assert components["Angular"]["properties"]["sides"] == {
        "type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 5, "uniqueItems": True
    }  # fmt: skip
    assert components["Round"]["description"] == "A round shape."


def test_a_complete_class_needs_every_member_and_an_open_one_ignores_others() -> None:
    @message(complete=True)
    @dataclass(frozen=True)
    class Complete:
        a: int = 0

    @message(open=True)
    @dataclass(frozen=True)
    class Open:
        a: int = 0

    with pytest.raises(InvalidError, match="a is missing; add it"):
        CODEC.decode(Complete, {})
    assert CODEC.decode(Open, {"b": [{}]}) == Open()


def test_an_adapted_class_has_the_json_of_another() -> None:
    codec = Codec({complex: Adapter(Key, lambda value: Key("x", int(value.real)), lambda key: complex(key.right))})
    assert codec.encode(3 + 0j) == {"left": "x", "right": 3}
    assert codec.decode(complex, {"left": "y", "right": 4}) == 4 + 0j


def test_a_hint_without_a_form_in_json_is_refused_when_it_is_compiled() -> None:
    @dataclass(frozen=True)
    class Odd:
        a: float = 0.0

    for hint in (float, Odd, int | str):
        with pytest.raises(TypeError):
            CODEC.decode(hint, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(CODEC.encode(FULL))), JSON)
def test_any_json_in_any_member_is_decoded_or_refused(name: str, value: Any) -> None:
    try:
        found = CODEC.decode(Everything, CODEC.encode(FULL) | {name: value})
    except InvalidError as error:
        assert len(str(error)) < 1000
    else:
        assert CODEC.decode(Everything, CODEC.encode(found)) == found
